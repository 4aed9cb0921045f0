//! `anabranch recv`

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use anabranch::{
    AllowList, Host, HostConfig, Locals, Session, StartError, keys,
    ledger::Ledger,
    transfer::{Completed, Progress, Receiver, TransferError},
};
use tokio::task::JoinSet;

use crate::{
    costs,
    exit::{Failure, Outcome, print_line},
    keygen::key_path,
    meter::{self, Direction},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to put what arrives.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Addresses to listen on, IP:PORT; may be repeated [default: every interface, on a port that stays the
    /// same for this directory and key, if it is free].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Keep receiving, with a new ticket after every transfer, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Print only the ticket.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    costs: costs::Costing,
}

/// Opens a host on the given addresses, or on `port` of every interface; without a network, on
/// loopback.
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
    let host = Host::start(config.clone())?;
    if host.sockets().is_empty() {
        let loopback: SocketAddr = ([127, 0, 0, 1], port).into();
        return Host::start(config.bind([loopback]));
    }
    Ok(host)
}

/// Keeps the accounts of a host, if there is something to keep, until dropped.
pub(crate) async fn keep(ledger: Option<&Ledger>, host: &Host) {
    match ledger {
        Some(ledger) => ledger.keep(host).await,
        None => std::future::pending().await,
    }
}

/// Tells the peers, and writes down what was used. A failure of `outcome` goes before one of the ledger.
pub(crate) async fn shutdown(ledger: Option<&Ledger>, host: &Host, outcome: Outcome) -> Outcome {
    host.shutdown().await;
    let closed = ledger.map_or(Ok(()), |ledger| ledger.close(host));
    outcome.and(closed.map_err(Failure::from))
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let receiver = Arc::new(Receiver::new(arguments.directory.clone(), [])?);
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let mut config = HostConfig::new(key.clone(), AllowList::everyone());
    let ledger = arguments.costs.clone().resolve()?.apply(&mut config)?;
    let open = |port| host(&arguments.bind, port, config.clone());
    // The port it had before, so that a ticket still leads here after a restart; any, if that is taken.
    let host = match open(receiver.port(key.node_id())) {
        Err(StartError::Bind(error)) if arguments.bind.is_empty() => {
            tracing::info!(%error, "another port is used");
            open(0)?
        }
        opened => opened?,
    };
    let outcome = tokio::select! {
        // In this order: whoever reads the ticket may interrupt at once.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Failure::ctrl_c(
            "stopped; what has arrived is kept, and continues when it is sent again",
        )),
        outcome = receive(&host, &receiver, &arguments) => outcome,
        () = keep(ledger.as_ref(), &host) => Err(Failure::other("the ledger is not kept any more")),
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
                            tell(&done)?;
                        }
                        if !arguments.keep {
                            return Ok(());
                        }
                        announce(host, receiver, arguments)?;
                    }
                    // The sender may come back; a stranger does not end the waiting either.
                    Err(error @ (TransferError::Interrupted(_) | TransferError::Ticket(_) | TransferError::Protocol(_))) => {
                        tracing::warn!("{error}");
                    }
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

fn announce(host: &Host, receiver: &Receiver, arguments: &Arguments) -> Outcome {
    let ticket = receiver.issue(host)?;
    if arguments.quiet {
        return print_line(&ticket.to_string());
    }
    print_line(&format!(
        "Receiving into {}. On the other side run:\n\n    anabranch send FILE {ticket}\n",
        arguments.directory.display()
    ))
}

fn tell(done: &Completed) -> Outcome {
    let path = done.path.as_deref().unwrap_or(done.name.as_ref());
    let hash = done
        .blake3
        .as_ref()
        .map(|hash| format!(", BLAKE3 {hash}"))
        .unwrap_or_default();
    print_line(&format!(
        "received {} ({} files, {} bytes{hash})",
        path.display(),
        done.files,
        done.bytes
    ))
}
