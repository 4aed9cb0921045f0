//! `anabranch send`

use std::{net::SocketAddr, path::PathBuf};

use anabranch::{
    AllowList, Host, Ticket,
    transfer::{Completed, Progress, Source, send},
};

use crate::{
    exit::{Failure, Outcome, print_line},
    meter::{self, Direction},
    recv,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file or directory; `-` for standard input.
    #[arg(value_name = "FILE|DIR|-")]
    source: PathBuf,
    /// The line that `anabranch recv` printed.
    ticket: Ticket,
    /// Name at the receiver for standard input.
    #[arg(long, default_value = "stdin")]
    name: String,
    /// Addresses to send from, IP:PORT with port 0 for any; may be repeated [default: all interfaces].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let is_stdin = arguments.source.as_os_str() == "-";
    let source = if is_stdin {
        Source::Reader {
            name: arguments.name.clone(),
            reader: Box::new(std::io::stdin()),
        }
    } else {
        // Before anybody is called: a wrong name is the most likely mistake.
        std::fs::metadata(&arguments.source).map_err(|error| {
            Failure::file(format!(
                "cannot read {}: {error}",
                arguments.source.display()
            ))
        })?;
        Source::Path(arguments.source.clone())
    };
    let host = host(&arguments)?;
    let outcome = tokio::select! {
        outcome = transfer(&host, &arguments, source) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::ctrl_c(
            "stopped; the same command continues where it stopped",
        )),
    };
    host.shutdown().await;
    outcome
}

/// Receivers on this machine are reached from loopback, all others from the interfaces.
fn host(arguments: &Arguments) -> Result<Host, Failure> {
    let mut bind: Vec<SocketAddr> = arguments.bind.clone();
    let addresses = &arguments.ticket.addresses;
    if bind.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()) {
        bind.push(SocketAddr::new(addresses[0].ip(), 0));
    }
    recv::host(&bind, arguments.key.as_ref(), AllowList::default())
}

async fn transfer(host: &Host, arguments: &Arguments, source: Source) -> Outcome {
    let ticket = &arguments.ticket;
    let session = host.connect(ticket.node, &ticket.addresses).await?;
    let progress = Progress::default();
    let sending = send(&session, ticket.secret, source, &progress);
    let done: Completed = if arguments.quiet {
        sending.await?
    } else {
        tokio::select! {
            result = sending => result?,
            () = meter::show(session.clone(), progress.clone(), Direction::Sending) => {
                unreachable!("the meter runs until it is dropped")
            }
        }
    };
    if arguments.quiet {
        return Ok(());
    }
    let resumed = progress.snapshot().bytes_resumed;
    let note = match resumed {
        0 => String::new(),
        bytes => format!(", {bytes} of them were there already"),
    };
    print_line(&format!(
        "sent {} ({} files, {} bytes{note}); the receiver has verified it",
        done.name, done.files, done.bytes
    ))?;
    for line in meter::summary(&session, Direction::Sending) {
        print_line(&line)?;
    }
    Ok(())
}
