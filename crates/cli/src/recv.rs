//! `anabranch recv`: receives transfers.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anabranch::{
    AllowList, Closed, Host, HostConfig, Locals, Session, SessionCloseReason, StartError,
    StreamFailure,
    base::size,
    keys,
    ledger::Ledger,
    transfer::{Completed, Progress, Receiver, Rules, TransferError},
};
use tokio::task::JoinSet;

use crate::{
    costs,
    exit::{Failure, Outcome, files_text, print_line, stopped},
    keygen::key_path,
    meter::{self, Direction},
    prompt::OfferPrompt,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory for the received files.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Address to listen on, IP:PORT; may be repeated [default: every interface, on a port that stays the
    /// same for this directory and key, if it is free].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Keep receiving, with a new ticket after every transfer, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Largest transfer to accept, such as `2 GB` [default: limited by the disk only].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
    /// Accept also a file or directory whose name begins with a dot, such as `.bashrc`. Such names inside a directory are
    /// always accepted.
    #[arg(long)]
    allow_hidden: bool,
    /// Accept every transfer without asking. Without a terminal, this is the default.
    #[arg(short, long)]
    yes: bool,
    /// Print only the ticket, and do not ask.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    costs: costs::Costing,
}

/// Opens a host on the given addresses, or on `port` of every interface; without a network, on loopback.
pub(crate) fn host(
    bind: &[SocketAddr],
    port: u16,
    mut config: HostConfig,
) -> Result<Host, StartError> {
    if bind.is_empty() {
        let only = Vec::new();
        config.locals = Locals::Interfaces { port, only };
    } else {
        config.locals = Locals::Fixed(bind.iter().copied().map(Into::into).collect());
    }
    start(config)
}

/// Starts a host: on loopback, if no interface is up.
pub(crate) fn start(config: HostConfig) -> Result<Host, StartError> {
    let host = Host::start(config.clone())?;
    if !host.sockets().is_empty() {
        return Ok(host);
    }
    let port = match config.locals {
        Locals::Interfaces { port, .. } => port,
        Locals::Fixed(_) => 0,
    };
    let loopback: SocketAddr = ([127, 0, 0, 1], port).into();
    Host::start(config.bind([loopback]))
}

/// Keeps the usage ledger of a host up to date until dropped, if there is one.
pub(crate) async fn keep(ledger: Option<&Ledger>, host: &Host) {
    match ledger {
        Some(ledger) => ledger.keep(host).await,
        None => std::future::pending().await,
    }
}

/// Closes the sessions and the usage ledger. A failure in `outcome` takes precedence over one of the ledger.
pub(crate) async fn shutdown(ledger: Option<&Ledger>, host: &Host, outcome: Outcome) -> Outcome {
    host.shutdown().await;
    let closed = ledger.map_or(Ok(()), |ledger| ledger.close(host));
    outcome.and(closed.map_err(Failure::from))
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let rules = Rules {
        bytes_max: arguments.max_size,
        allow_hidden: arguments.allow_hidden,
    };
    let receiver = Receiver::new(arguments.directory.clone(), &key, [])?.with_rules(rules);
    let (prompt, receiver) = OfferPrompt::before(
        receiver,
        &arguments.directory,
        arguments.quiet,
        arguments.yes,
    );
    let receiver = Arc::new(receiver);
    let mut config = HostConfig::new(key.clone(), AllowList::everyone());
    let ledger = arguments.costs.clone().resolve()?.apply(&mut config)?;
    let open = |port| host(&arguments.bind, port, config.clone());
    // The previous port, so that a ticket is still good after a restart; any other if that one is in use.
    let host = match open(receiver.port(key.node_id())) {
        Err(StartError::Bind(error)) if arguments.bind.is_empty() => {
            tracing::info!(%error, "the previous port is not available; using another");
            open(0)?
        }
        opened => opened?,
    };
    let outcome = tokio::select! {
        // Signals first: a script that reads the ticket may interrupt at once.
        biased;
        stopped = stopped() => stopped.and(Err(Failure::by_signal(
            "stopped; what has arrived is kept, and the transfer continues when it is sent again",
        ))),
        () = prompt.serve() => unreachable!("the prompt answers until it is dropped"),
        outcome = receive(&host, &receiver, &arguments) => outcome,
        () = keep(ledger.as_ref(), &host) => Err(Failure::other("the usage ledger is no longer kept")),
    };
    shutdown(ledger.as_ref(), &host, outcome).await
}

async fn receive(host: &Host, receiver: &Arc<Receiver>, arguments: &Arguments) -> Outcome {
    announce(host, receiver, arguments)?;
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            session = host.accept() => {
                let Some(session) = session else { return Ok(()) };
                running.spawn(one(session, receiver.clone(), arguments.quiet));
            }
            Some(ended) = running.join_next() => {
                let result = ended.map_err(Failure::other)?;
                match result {
                    Ok(done) => {
                        if !arguments.quiet {
                            report(&done)?;
                        }
                        if !arguments.keep {
                            return Ok(());
                        }
                        announce(host, receiver, arguments)?;
                    }
                    // The sender may come back, and an unknown peer must not end the wait.
                    Err(error @ (TransferError::Interrupted(_) | TransferError::Ticket(_) | TransferError::Unknown
                        | TransferError::Protocol(_))) => {
                        tracing::warn!("{}", words(&error));
                    }
                    Err(TransferError::Declined) if arguments.keep => announce(host, receiver, arguments)?,
                    Err(error) if arguments.keep => tracing::warn!("{error}"),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

async fn one(
    session: Session,
    receiver: Arc<Receiver>,
    is_quiet: bool,
) -> Result<Completed, TransferError> {
    let progress = Progress::default();
    let transfer = receiver.receive(&session, &progress);
    if is_quiet {
        return transfer.await;
    }
    tokio::select! {
        result = transfer => result,
        () = meter::show(session.clone(), progress.clone(), Direction::Receiving) => {
            unreachable!("the meter runs until it is dropped")
        }
    }
}

/// Message about an interrupted transfer, as seen by the receiver.
fn words(error: &TransferError) -> String {
    match error {
        TransferError::Interrupted(StreamFailure::Closed(Closed(SessionCloseReason::Peer {
            code: 0,
            ..
        }))) => {
            "the sender disconnected; what has arrived is kept, and the transfer continues when it is sent again".to_owned()
        }
        other => other.to_string(),
    }
}

fn announce(host: &Host, receiver: &Receiver, arguments: &Arguments) -> Outcome {
    let ticket = receiver.issue(host)?;
    if arguments.quiet {
        return print_line(&ticket.to_string());
    }
    print_line(&format!(
        "Receiving into {}. On the other machine, run\n\n    anabranch send FILE\n\nand enter this ticket when it asks for \
         it, or put it into a file for --ticket-file:\n\n    {ticket}\n",
        arguments.directory.display()
    ))
}

/// Parses a size with its unit, such as `2 GB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    size::parse(text).map_err(|error| error.to_string())
}

fn report(done: &Completed) -> Outcome {
    let path = done.path.as_deref().unwrap_or(done.name.as_ref());
    let hash = done
        .blake3
        .as_ref()
        .map(|hash| format!(", BLAKE3 {hash}"))
        .unwrap_or_default();
    print_line(&format!(
        "received {} ({}, {} bytes{hash})",
        path.display(),
        files_text(done.files),
        done.bytes
    ))
}
