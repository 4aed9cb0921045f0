//! `anabranch up`: the node of this machine, which is made if there is none.

mod background;
mod fresh;

use std::path::{Path, PathBuf};

use anabranch::{
    config::{Layer, NodeConfig, Places, host_name},
    control::{Request, is_open},
    daemon::Daemon,
    rendezvous::Via,
};

use serde_json::json;

use crate::{
    control,
    exit::{Failure, Outcome, print_line},
    node,
};

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
A configuration and a key are made in the usual places (node.toml and key in ~/.config/anabranch; for root /etc/anabranch/node.toml and \
/var/lib/anabranch/key) unless they exist; nothing that exists is changed. `anabranch status`, `paths`, `send FILE NAME:` and others find \
the node without an option.")]
pub(crate) struct Arguments {
    /// Folder for all files of the node, in place of the usual places. Other commands find it if ANABRANCH_HOME names it.
    #[arg(long, value_name = "DIR", env = "ANABRANCH_HOME")]
    home: Option<PathBuf>,
    /// Folder for files from other machines, for a new node [default: ~/Downloads, or ~/anabranch where there is none].
    #[arg(long, value_name = "DIR")]
    receive: Option<PathBuf>,
    /// Name that this machine suggests to others for itself, for a new node [default: the host name].
    #[arg(long)]
    name: Option<String>,
    /// UDP port, for a new node [default: 4433, or another one if that is taken].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Relay at which this machine meets others, for a new node: ID@HOST:PORT, or the line that `anabranch node` prints there.
    #[arg(long, value_name = "RELAY")]
    via: Option<Via>,
    /// Run in the background, and return when the node answers.
    #[arg(long, conflicts_with = "service")]
    detach: bool,
    /// Print the name, id, addresses and files of the node as a line of JSON.
    #[arg(long, conflicts_with = "service")]
    json: bool,
    /// Print a unit with which systemd starts the node of this user at every start of the machine, and run nothing.
    #[arg(long)]
    service: bool,
}

impl Arguments {
    fn places(&self) -> Result<Places, Failure> {
        let places = match &self.home {
            Some(home) => std::path::absolute(home)
                .ok()
                .map(|home| Places::below(&home)),
            None => Places::usual(),
        };
        places.ok_or_else(|| {
            Failure::usage(
                "this user has no home for the files of a node (HOME, XDG_CONFIG_HOME); name a folder with --home",
            )
        })
    }

    /// A flag that is for a new node only.
    fn of_new_node(&self) -> Option<&'static str> {
        let flags = [
            ("--receive", self.receive.is_some()),
            ("--name", self.name.is_some()),
            ("--port", self.port.is_some()),
            ("--via", self.via.is_some()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }
}

fn read(places: &Places) -> Result<NodeConfig, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let variable = |name: &str| places.variable(name, environment);
    node::read_file(Some(&places.config), &Layer::default(), variable)
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    if arguments.service {
        return background::print_unit(arguments.home.as_deref());
    }
    let places = arguments.places()?;
    let is_new = !places.config.exists();
    match arguments.of_new_node() {
        _ if is_new => fresh::make(&places, &arguments)?,
        None => {}
        Some(flag) => {
            return Err(Failure::usage(format!(
                "{flag} is for a new node, and {} exists; change it there",
                places.config.display()
            )));
        }
    }
    let config = read(&places)?;
    let shown = Shown {
        places: places.clone(),
        json: arguments.json,
    };
    if is_open(&config.control).await {
        shown.say("The node of this machine runs already.")?;
        return shown.running(&config).await;
    }
    if arguments.detach {
        let running = background::start(&arguments, &config.control).await?;
        shown.running(&config).await?;
        return shown.say(&format!(
            "\nIt runs in the background; `kill {}` stops it. Its log: {}",
            running.process,
            running.log.display()
        ));
    }
    node::serve(
        move || read(&places),
        |daemon, config| shown.greet(daemon, config, is_new),
    )
    .await
}

/// Description of the node on standard output.
struct Shown {
    places: Places,
    json: bool,
}

impl Shown {
    /// Prints words, unless JSON is wanted.
    fn say(&self, words: &str) -> Outcome {
        match self.json {
            true => Ok(()),
            false => print_line(words),
        }
    }

    fn greet(&self, daemon: &Daemon, config: &NodeConfig, is_new: bool) -> Outcome {
        self.say(match is_new {
            true => "This machine is a node now.",
            false => "The node of this machine runs.",
        })?;
        let addresses = daemon.host().addresses();
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let id = daemon.host().node_id().to_string();
        self.describe(config, &id, &addresses)
    }

    /// The same for a node that runs in another process.
    async fn running(&self, config: &NodeConfig) -> Outcome {
        let answer = control::ask_at(&config.control, &Request::Status {}).await?;
        let rows = control::rows(&answer);
        let node = rows.iter().find(|row| row["kind"] == "node");
        let text = |key: &str| node.and_then(|row| row[key].as_str()).unwrap_or_default();
        let addresses = text("addresses").split(',').map(str::to_owned);
        self.describe(config, text("node"), &addresses.collect::<Vec<String>>())
    }

    fn describe(&self, config: &NodeConfig, id: &str, addresses: &[String]) -> Outcome {
        let path = |path: &Path| path.display().to_string();
        let name = config.name.clone().or_else(host_name);
        let receive = config.receive.as_deref().map(path);
        let settings = path(&self.places.config);
        let mut names: Vec<&str> = config.names.values().map(String::as_str).collect();
        names.sort_unstable();
        if self.json {
            let event = json!({
                "kind": "node",
                "name": name,
                "node": id,
                "addresses": addresses,
                "receive": receive,
                "settings": settings,
                "control": path(&config.control),
                "peers": names,
            });
            return print_line(&event.to_string());
        }
        let pairs = [
            ("name", name),
            ("id", Some(id.to_owned())),
            ("addresses", Some(addresses.join(", "))),
            ("files go to", receive),
            ("settings", Some(settings)),
            ("linked with", (!names.is_empty()).then(|| names.join(", "))),
        ];
        for (name, value) in pairs {
            if let Some(value) = value {
                print_line(&format!("  {name:<12} {value}"))?;
            }
        }
        if names.is_empty() {
            print_line(
                "\nTo link another machine for good, run `anabranch pair` here, and on the other machine what it prints.",
            )?;
        }
        Ok(())
    }
}
