//! `anabranch recv`: receives transfers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch::{
    AllowList, Closed, Host, HostConfig, Locals, Session, SessionCloseReason, StartError,
    StreamFailure,
    base::size,
    keys,
    ledger::Ledger,
    texts,
    transfer::{Clash, Completed, LeftOut, Progress, Receiver, Rules, TransferError},
};
use tokio::task::JoinSet;

use crate::{
    costs, events,
    exit::{Failure, Outcome, files_text, print_line, stopped},
    keygen::key_path,
    meter::{self, Direction},
    prompt::OfferPrompt,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory for the received files; it is made if it is missing.
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
    /// Keep set-user-ID, set-group-ID and sticky bits of received files and directories [default: dropped, and named at the end].
    #[arg(long)]
    allow_special_bits: bool,
    /// Accept every transfer without asking. Without a terminal, this is the default.
    #[arg(short, long)]
    yes: bool,
    /// Replace a file or directory that exists under the name, a directory with everything in it, when the transfer is complete
    /// [default: the transfer is refused].
    #[arg(long)]
    overwrite: bool,
    /// Give a transfer whose name exists another one, such as 'film (2).mp4'.
    #[arg(long, conflicts_with = "overwrite")]
    rename: bool,
    /// Fail with exit code 7, after everything was received, if something was left out, such as a set-user-ID bit.
    #[arg(long, conflicts_with = "keep")]
    strict: bool,
    /// Print events as lines of JSON on standard output (docs/operations.md, Events of a transfer).
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
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
    let is_json = arguments.json;
    let outcome = run_once(arguments).await;
    if let (true, Err(failure)) = (is_json, &outcome) {
        events::failed(failure);
    }
    outcome
}

fn make_directory(directory: &Path) -> Outcome {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::file(format!("cannot make {}: {error}", directory.display())))
}

async fn run_once(arguments: Arguments) -> Outcome {
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let rules = Rules {
        bytes_max: arguments.max_size,
        allow_hidden: arguments.allow_hidden,
        allow_special_bits: arguments.allow_special_bits,
        clash: match (arguments.overwrite, arguments.rename) {
            (true, _) => Clash::Overwrite,
            (_, true) => Clash::Rename,
            _ => Clash::Refuse,
        },
    };
    make_directory(&arguments.directory)?;
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
    let mut left_out = LeftOut::default();
    loop {
        tokio::select! {
            session = host.accept() => {
                let Some(session) = session else { return Ok(()) };
                let shows = Shows {
                    bar: !arguments.quiet,
                    json: arguments.json,
                };
                running.spawn(one(session, receiver.clone(), shows));
            }
            Some(ended) = running.join_next() => {
                let result = ended.map_err(Failure::other)?;
                match result {
                    Ok((done, progress)) => {
                        if !arguments.quiet {
                            report(&done, &progress, arguments.json)?;
                        }
                        left_out.count += done.left_out.count;
                        if done.more > 0 {
                            continue;
                        }
                        if !arguments.keep {
                            return events::judge(&left_out, arguments.strict);
                        }
                        announce(host, receiver, arguments)?;
                    }
                    // The sender may come back, also with another name, and an unknown peer must not end the wait.
                    Err(error @ (TransferError::Interrupted(_) | TransferError::Exists { .. } | TransferError::Ticket(_) | TransferError::Unknown
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
    shows: Shows,
) -> Result<(Completed, Progress), TransferError> {
    let progress = Progress::default();
    let transfer = receiver.receive(&session, &progress);
    let done = tokio::select! {
        result = transfer => result,
        () = events::follow(&progress), if shows.json => unreachable!("it follows until dropped"),
        () = meter::show(session.clone(), progress.clone(), Direction::Receiving), if shows.bar => {
            unreachable!("the meter runs until it is dropped")
        }
    }?;
    Ok((done, progress))
}

/// Display of a transfer under way.
#[derive(Clone, Copy, Debug)]
struct Shows {
    bar: bool,
    json: bool,
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
    if arguments.json {
        return events::print(&serde_json::json!({
            "kind": "ticket",
            "ticket": ticket.to_string(),
            "directory": arguments.directory.display().to_string(),
        }));
    }
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

fn report(done: &Completed, progress: &Progress, is_json: bool) -> Outcome {
    events::note_left_out(&done.left_out);
    let text = done.path.as_deref().and_then(texts::read);
    if is_json {
        let mut event = events::completed("received", done, progress);
        if let Some(text) = text {
            event["text"] = text.into();
        }
        return events::print(&event);
    }
    let path = done.path.as_deref().unwrap_or(done.name.as_ref());
    let hash = done
        .blake3
        .as_ref()
        .map(|hash| format!(", BLAKE3 {hash}"))
        .unwrap_or_default();
    print_line(&format!(
        "received {} ({}, {} bytes{hash}){}",
        path.display(),
        files_text(done.files),
        done.bytes,
        events::left_out_text(&done.left_out)
    ))?;
    match text {
        Some(text) => print_line(&format!("\n{}\n", text.trim_end())),
        None => Ok(()),
    }
}
