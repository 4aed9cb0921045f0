//! `anabranch video origin`: serves a library to proxies.

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{AllowList, HostConfig, StartError, base::Rate, keys};
use anabranch_video::origin::{Library, Origin};
use serde_json::json;

use super::{
    Dividing,
    console::{self, Shown},
    library, ticket,
};
use crate::{
    exit::{Failure, Outcome, print_line, stopped},
    keygen::key_path,
    recv,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A ticket gives its holder access to every video of the library. The first ticket, which is printed at the start, stays the same \
as long as the key and the library's location do, so that proxies find a restarted origin again. `anabranch video ticket` \
creates a ticket for each further proxy, and revokes any, also while the origin runs.

An object store is accessed with the environment variables of the AWS tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY \
(neither, for a public bucket), AWS_SESSION_TOKEN, AWS_REGION, AWS_CA_BUNDLE. Files with credentials are not read.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    library: library::Place,
    /// Address to listen on, IP:PORT; may be repeated [default: every interface, on a port that stays the same for this
    /// library and key, if it is free].
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    state: ticket::State,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Capacity of the link to a proxy, such as `20 Mbit/s`, if it is fixed and known. No path is loaded beyond it, so that no
    /// queue overflows, and spare capacity is used to send ahead [default: measured].
    #[arg(long, value_name = "RATE")]
    capacity: Option<Rate>,
    #[command(flatten)]
    console: console::Flag,
    /// Print only the ticket, and the link of the console on a second line.
    #[arg(short, long)]
    quiet: bool,
    /// Print a line of JSON when it serves.
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    #[command(flatten)]
    dividing: Dividing,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    // Before the first output: a script that reads it may send a signal at once.
    let stopped = stopped();
    let division = arguments.dividing.division()?;
    let library: Library = arguments.library.open(division).await?;
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let open = |port| {
        let config = HostConfig::new(key.clone(), AllowList::everyone());
        let config = Origin::host_config(config, arguments.capacity);
        recv::host(&arguments.listen, port, config)
    };
    // The previous port, so that a ticket is still good after a restart; any other if that one is in use.
    let host = match open(Origin::port(&key, &library)) {
        Err(StartError::Bind(error)) if arguments.listen.is_empty() => {
            tracing::info!(%error, "the previous port is not available; using another");
            open(0)?
        }
        opened => opened?,
    };
    let place = library.place();
    let state = arguments
        .state
        .folder(arguments.key.as_ref(), &key, &library);
    let origin = Origin::new(library, &key)
        .over(arguments.capacity)
        .with_tickets(&state)?;
    if let Err(error) = origin.announce(&state, &host) {
        return Err(Failure::file(format!("{}: {error}", state.display())));
    }
    let console = arguments.console.start(Shown::Origin(origin.monitor()))?;
    let ticket = origin.has_first_ticket().then(|| origin.ticket(&host));
    let count = || tokio::task::block_in_place(|| origin.library().list().len());
    if arguments.json {
        let addresses = host.addresses();
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let mut event = json!({
            "kind": "serving",
            "library": place.to_string(),
            "videos": count(),
            "node": host.node_id().to_string(),
            "addresses": addresses,
            "ticket": ticket.map(|ticket| ticket.to_string()),
        });
        console.add_to(&mut event)?;
        print_line(&event.to_string())?;
    } else if arguments.quiet {
        if let Some(ticket) = ticket {
            print_line(&ticket.to_string())?;
        }
        console.print(true)?;
    } else {
        let videos = match count() {
            0 => "no video yet (.mp4, .m4v, .mov)".to_owned(),
            1 => "1 video".to_owned(),
            count => format!("{count} videos"),
        };
        print_line(&format!("Serving {videos} from {place}."))?;
        print_line(&match ticket {
            Some(ticket) => format!(
                "Near the viewers, run this command and enter the ticket on a line of its own, or give it in a file with \
                 --ticket-file:\n\n    \
                 anabranch video proxy --cache DIR --origin -\n\n    {ticket}\n"
            ),
            None => "The first ticket was revoked; `anabranch video ticket new` creates others."
                .to_owned(),
        })?;
        console.print(false)?;
    }
    let outcome = tokio::select! {
        () = origin.serve(&host) => Ok(()),
        () = console.more_links() => Ok(()),
        stopped = stopped => stopped,
    };
    host.shutdown().await;
    outcome
}
