//! `anabranch video origin`

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{AllowList, HostConfig, StartError, base::Rate, keys};
use anabranch_video::origin::{Library, Origin};

use super::{Dividing, told_to_end};
use crate::{
    exit::{Outcome, print_line},
    keygen::key_path,
    recv,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The ticket stays good for as long as the key and the library's place do: proxies find an origin again that was \
restarted. Whoever has it can read every video of the library.")]
pub(crate) struct Arguments {
    /// Directory with the videos: .mp4, .m4v and .mov, also in folders. Indexes are kept in a hidden folder in it, where it can
    /// be written.
    #[arg(long, value_name = "DIR")]
    library: PathBuf,
    /// Addresses to listen on, IP:PORT; may be repeated [default: every interface, on a port that stays the same for this
    /// library and key, if it is free].
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// What the pipe to a proxy carries, such as `20 Mbit/s`, where it is leased and known: every path is held to it, so that
    /// nothing is lost for want of room [default: found out].
    #[arg(long, value_name = "RATE")]
    capacity: Option<Rate>,
    /// Print only the ticket.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    dividing: Dividing,
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let library = Library::open(&arguments.library, arguments.dividing.division()?)?;
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let open = |port| {
        let config = HostConfig::new(key.clone(), AllowList::everyone());
        let config = Origin::host_config(config, arguments.capacity);
        recv::host(&arguments.listen, port, config)
    };
    // The port it had before, so that a ticket still leads here after a restart; any, if that is taken.
    let host = match open(Origin::port(&key, &arguments.library)) {
        Err(StartError::Bind(error)) if arguments.listen.is_empty() => {
            tracing::info!(%error, "another port is used");
            open(0)?
        }
        opened => opened?,
    };
    let origin = Origin::new(library, &key);
    let ticket = origin.ticket(&host);
    if arguments.quiet {
        print_line(&ticket.to_string())?;
    } else {
        let videos = origin.library().list().len();
        print_line(&format!(
            "Serving {videos} videos of {}. Near the viewers run:\n\n    anabranch video proxy --cache DIR --origin {ticket}\n",
            arguments.library.display()
        ))?;
    }
    let outcome = tokio::select! {
        () = origin.serve(&host) => Ok(()),
        told = told_to_end() => told,
    };
    host.shutdown().await;
    outcome
}
