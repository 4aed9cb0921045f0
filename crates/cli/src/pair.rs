//! `anabranch pair`: links the node of this machine with that of another one, for good, by a code.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anabranch::{
    AllowList, Bind, Host, HostConfig, Locals,
    base::text::printable,
    codes::{Card, Code, Met, Purpose},
    config::{
        GrantLayer, Layer, NodeConfig, Places,
        edit::{Added, NewPeer, add_peer_to, free_name, peer_name},
        host_name,
    },
    control::{Request, is_open},
    keys,
    rendezvous::Via,
    rights::Right,
    ticket::ADDRESSES_MAX,
};

use crate::{
    code, control,
    exit::{Failure, Outcome, note, print_line, stopped},
    node, recv,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each machine lists the other in its configuration, with the rights to call it and, where files are received, to send files. A node that runs \
applies it at once. Then `anabranch send FILE NAME:` and other commands reach the other machine by its name.")]
pub(crate) struct Arguments {
    /// The code that `anabranch pair` printed on the other machine; without one, a code is printed.
    #[arg(value_name = "CODE")]
    words: Vec<String>,
    /// Name of the other machine here [default: the one that it gives itself].
    #[arg(long)]
    name: Option<String>,
    /// Configuration of this machine's node [default: that of `anabranch up`].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder with the files of this machine's node, as for `anabranch up`.
    #[arg(
        long,
        value_name = "DIR",
        env = "ANABRANCH_HOME",
        conflicts_with = "config"
    )]
    home: Option<PathBuf>,
    /// Address to meet the other side from, IP:PORT with port 0 for any; may be repeated [default: those of the node].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    #[command(flatten)]
    meeting: code::Options,
    /// Print one event as a line of JSON when the machines are linked, and before it one with the code.
    #[arg(long)]
    json: bool,
}

/// The node of this machine, by its configuration.
struct Own {
    path: PathBuf,
    config: NodeConfig,
    /// Addresses at which it is reached; empty: not known.
    addresses: Vec<SocketAddr>,
    runs: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let code: Option<Code> = match arguments.words.is_empty() {
        true => None,
        false => Some(arguments.words.join(" ").parse().map_err(Failure::usage)?),
    };
    if let Some(name) = &arguments.name
        && peer_name(name).is_none_or(|usual| usual != name.to_ascii_lowercase())
    {
        return Err(Failure::usage(format!(
            "--name {name}: use letters, digits, '-' and '_', at most 63"
        )));
    }
    let own = own(&arguments).await?;
    let key = keys::load_or_create(&own.config.key)?;
    let mut config = HostConfig::new(key, AllowList::everyone());
    config.locals = locals(&own.config.locals, &arguments.bind);
    let host = recv::start(config)?;
    let addresses = match own.addresses.is_empty() {
        true => configured(&own.config.locals, &host),
        false => own.addresses.clone(),
    };
    let name = own.config.name.clone().or_else(host_name);
    let card = Card::new(Purpose::Pair, &name.unwrap_or_default(), addresses);
    let linking = meet(&host, &own, code.as_ref(), card, &arguments);
    let outcome = tokio::select! {
        outcome = linking => outcome,
        stopped = stopped() => stopped.and(Err(Failure::by_signal("stopped; nothing was changed"))),
    };
    host.shutdown().await;
    outcome
}

async fn own(arguments: &Arguments) -> Result<Own, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let places = match &arguments.home {
        Some(home) => std::path::absolute(home)
            .ok()
            .map(|home| Places::below(&home)),
        None => Places::usual(),
    };
    let path = arguments.config.clone();
    let path = path.or_else(|| places.as_ref().map(|places| places.config.clone()));
    let path = path.filter(|path| path.exists()).ok_or_else(|| {
        Failure::usage("this machine has no node yet: run `anabranch up`, or name its configuration with --config")
    })?;
    let config = match (&arguments.config, &places) {
        (None, Some(places)) => {
            let variable = |name: &str| places.variable(name, environment);
            node::read_file(Some(&path), &Layer::default(), variable)?
        }
        _ => node::read_file(Some(&path), &Layer::default(), environment)?,
    };
    let runs = is_open(&config.control).await;
    let addresses = match runs {
        true => running_addresses(&config.control).await?,
        false => Vec::new(),
    };
    Ok(Own {
        path,
        config,
        addresses,
        runs,
    })
}

/// Addresses of the node that runs.
async fn running_addresses(place: &Path) -> Result<Vec<SocketAddr>, Failure> {
    let answer = control::ask_at(place, &Request::Status {}).await?;
    let rows = control::rows(&answer).iter();
    let node = rows.clone().find(|row| row["kind"] == "node");
    let text = node
        .and_then(|row| row["addresses"].as_str())
        .unwrap_or_default();
    let addresses = text.split(',').filter_map(|text| text.trim().parse().ok());
    Ok(addresses.take(ADDRESSES_MAX).collect())
}

/// Local addresses of the node, with other ports: it may be running.
fn locals(of_node: &Locals, given: &[SocketAddr]) -> Locals {
    if !given.is_empty() {
        return Locals::Fixed(given.iter().copied().map(Into::into).collect());
    }
    match of_node {
        Locals::Interfaces { only, .. } => Locals::Interfaces {
            port: 0,
            only: only.clone(),
        },
        Locals::Fixed(binds) => {
            let other = |bind: &Bind| Bind {
                address: SocketAddr::new(bind.address.ip(), 0),
                ..bind.clone()
            };
            Locals::Fixed(binds.iter().map(other).collect())
        }
    }
}

/// Addresses at which the node will be reached when it runs, as far as its configuration tells.
fn configured(of_node: &Locals, host: &Host) -> Vec<SocketAddr> {
    let here = host.addresses();
    let at = |port: u16| {
        here.iter()
            .map(move |address| SocketAddr::new(address.ip(), port))
    };
    match of_node {
        Locals::Interfaces { port: 0, .. } => Vec::new(),
        Locals::Interfaces { port, .. } => at(*port).collect(),
        Locals::Fixed(binds) => {
            let fixed = binds
                .iter()
                .map(|bind| bind.address)
                .filter(|address| address.port() != 0);
            let of = |address: SocketAddr| match address.ip().is_unspecified() {
                true => at(address.port()).collect(),
                false => vec![address],
            };
            fixed.flat_map(of).collect()
        }
    }
}

/// Shows a code, or enters one, and links the two nodes.
async fn meet(
    host: &Host,
    own: &Own,
    code: Option<&Code>,
    card: Card,
    arguments: &Arguments,
) -> Outcome {
    let via = arguments.meeting.via_or(own.config.via.as_ref());
    if let Some(code) = code {
        let met = code::enter(host, code, &card, via.as_ref()).await?;
        return link(own, &met, via, arguments).await;
    }
    let waiting = code::start(host, card, via.as_ref()).await?;
    let code = *waiting.desk().code();
    code::show(&code, &format!("pair {code}"), arguments.json, false)?;
    let entered = code::wait(host, waiting).await?;
    let outcome = link(own, &entered.met, via, arguments).await;
    entered.farewell().await;
    outcome
}

/// Lists the other node in the configuration, and has the running node apply it.
async fn link(own: &Own, met: &Met, via: Option<Via>, arguments: &Arguments) -> Outcome {
    let text = std::fs::read_to_string(&own.path)
        .map_err(|error| Failure::file(format!("cannot read {}: {error}", own.path.display())))?;
    let given = met.card.name.rsplit('@').next().and_then(peer_name);
    let wanted = arguments.name.clone().or(given);
    let wanted = wanted.unwrap_or_else(|| "peer".to_owned());
    let name = free_name(&text, &wanted, &met.node).map_err(Failure::usage)?;
    let mut may = vec![Right::Call];
    if own.config.receive.is_some() {
        may.push(Right::SendFiles);
    }
    let may = may
        .iter()
        .map(|right| GrantLayer::Name(right.name().to_owned()));
    let peer = NewPeer {
        name: name.clone(),
        node: met.node,
        addresses: met.card.addresses.iter().map(ToString::to_string).collect(),
        // Where they have met once, they will find each other again. The relay of the whole configuration need not be repeated.
        via: via
            .filter(|via| met.detour.is_some() && Some(via) != own.config.via.as_ref())
            .map(|via| via.to_string()),
        may: may.collect(),
    };
    let added = add_peer_to(&own.path, &peer).map_err(Failure::file)?;
    if own.runs {
        control::ask_at(&own.config.control, &Request::Reload {}).await?;
    }
    if arguments.json {
        return print_line(
            &serde_json::json!({
                "kind": "linked",
                "name": name,
                "node": met.node.to_string(),
                "addresses": peer.addresses,
                "is_new": added == Added::New,
            })
            .to_string(),
        );
    }
    if peer.addresses.is_empty() && peer.via.is_none() && own.config.via.is_none() {
        note(&format!(
            "'{name}' has told no address; this machine does not call it, it calls this one"
        ));
    }
    print_line(&format!(
        "{} '{name}' (node {}), in {}.{}",
        match added {
            Added::Unchanged => "Linked already with",
            _ => "Linked with",
        },
        met.node,
        printable(&own.path.display().to_string(), 300),
        match own.runs {
            true => " The running node has applied it.",
            false => " `anabranch up` starts the node of this machine.",
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_may_be_running_on_its_ports() {
        let fixed = Locals::Fixed(vec!["192.0.2.1:4433".parse::<SocketAddr>().unwrap().into()]);
        let Locals::Fixed(binds) = locals(&fixed, &[]) else {
            panic!("not fixed");
        };
        assert_eq!(binds[0].address, "192.0.2.1:0".parse().unwrap());
        let interfaces = Locals::Interfaces {
            port: 4433,
            only: vec!["eth0".to_owned()],
        };
        match locals(&interfaces, &[]) {
            Locals::Interfaces { port: 0, only } => assert_eq!(only, ["eth0"]),
            other => panic!("{other:?}"),
        }
    }
}
