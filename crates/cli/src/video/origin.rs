//! `anabranch video origin`

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{AllowList, HostConfig, StartError, base::Rate, keys};
use anabranch_video::origin::{Library, Origin};

use super::{Dividing, library, ticket};
use crate::{
    exit::{Failure, Outcome, print_line, stopped},
    keygen::key_path,
    recv,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Whoever has a ticket can read every video of the library. The first one, which is printed here, stays the same for as long as \
the key and the library's place do: proxies find an origin again that was restarted. `anabranch video ticket` makes one for each \
further proxy, and revokes any, also while the origin runs.

An object store is asked by the settings of AWS's own tools: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (neither, for a \
public bucket), AWS_SESSION_TOKEN, AWS_REGION, AWS_CA_BUNDLE. Files with credentials are not read.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    library: library::Place,
    /// Addresses to listen on, IP:PORT; may be repeated [default: every interface, on a port that stays the same for this
    /// library and key, if it is free].
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    state: ticket::State,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// What the pipe to a proxy carries, such as `20 Mbit/s`, where it is leased and known: no path is asked for more, so that
    /// nothing is lost for want of room, and what is left of it makes leads [default: found out].
    #[arg(long, value_name = "RATE")]
    capacity: Option<Rate>,
    /// Print only the ticket.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    dividing: Dividing,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let division = arguments.dividing.division()?;
    let library: Library = arguments.library.open(division).await?;
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let open = |port| {
        let config = HostConfig::new(key.clone(), AllowList::everyone());
        let config = Origin::host_config(config, arguments.capacity);
        recv::host(&arguments.listen, port, config)
    };
    // The port it had before, so that a ticket still leads here after a restart; any, if that is taken.
    let host = match open(Origin::port(&key, &library)) {
        Err(StartError::Bind(error)) if arguments.listen.is_empty() => {
            tracing::info!(%error, "another port is used");
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
    let ticket = origin.has_first_ticket().then(|| origin.ticket(&host));
    if arguments.quiet {
        if let Some(ticket) = ticket {
            print_line(&ticket.to_string())?;
        }
    } else {
        let videos = tokio::task::block_in_place(|| origin.library().list().len());
        let videos = match videos {
            0 => "no video yet (.mp4, .m4v, .mov)".to_owned(),
            1 => "1 video".to_owned(),
            count => format!("{count} videos"),
        };
        print_line(&format!("Serving {videos} of {place}."))?;
        print_line(&match ticket {
            Some(ticket) => format!(
                "Near the viewers run this, and give it the ticket as a line of its own, or in a file with --ticket-file:\n\n    \
                 anabranch video proxy --cache DIR --origin -\n\n    {ticket}\n"
            ),
            None => "Its first ticket was revoked; `anabranch video ticket new` makes others."
                .to_owned(),
        })?;
    }
    let outcome = tokio::select! {
        () = origin.serve(&host) => Ok(()),
        stopped = stopped() => stopped,
    };
    host.shutdown().await;
    outcome
}
