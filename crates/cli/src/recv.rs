//! `anabranch recv`: receives transfers.

mod lead;
mod presence;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    AllowList, Closed, Host, HostConfig, Locals, Session, SessionCloseReason, StartError,
    StreamFailure,
    base::size,
    codes::{Code, Desk},
    keys,
    ledger::Ledger,
    net::CODE_DROPPED,
    texts,
    transfer::{Clash, Completed, LeftOut, Progress, Receiver, Rules, TransferError, Updates},
};
use tokio::task::JoinSet;

use crate::{
    bytes, code, costs, events,
    exit::{Failure, Outcome, files_text, note, print_line, stopped},
    keygen::key_path,
    meter::{self, Direction},
    prompt::OfferPrompt,
    recv::{lead::Lead, presence::Presence},
    send::update,
};

/// Time that a sender whose code was entered may take to dial.
const REACHED: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The code that the sender shows, such as river-lamp-orbit, if it shows one; and the directory for the received files, which is
    /// made if it is missing [default: this one].
    #[arg(value_name = "CODE|DIRECTORY")]
    words: Vec<PathBuf>,
    /// Print a code of three words in place of the ticket; it is good on the local network, and everywhere with --via.
    #[arg(long)]
    code: bool,
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
    /// Let senders update what exists under the name of their transfer (`send --update`): what differs is replaced, each file in one step,
    /// when all have arrived. They can see which files of the same name and size have which content.
    #[arg(long)]
    update: bool,
    /// With --update: let senders delete what they do not have, in the directory of the name of their transfer (`send --update --delete`).
    /// They can see the names in it.
    #[arg(long, requires = "update")]
    delete: bool,
    /// Fail with exit code 7, after everything was received, if something was skipped, such as a set-user-ID bit.
    #[arg(long, conflicts_with = "keep")]
    strict: bool,
    /// Print events as lines of JSON on standard output (docs/operations.md, Events of a transfer).
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only the ticket, and do not ask.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    meeting: code::Options,
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
    let lead::Words { code, directory } = lead::split(&arguments.words)?;
    if code.is_some() && (arguments.code || arguments.keep) {
        return Err(Failure::usage(
            "a code that the sender shows is for one transfer: leave out --code and --keep, or the code",
        ));
    }
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
        updates: match (arguments.update, arguments.delete) {
            (false, _) => Updates::Refused,
            (true, false) => Updates::Permitted,
            (true, true) => Updates::WithDeletion,
        },
    };
    make_directory(&directory)?;
    let receiver = Receiver::new(directory.clone(), &key, [])?.with_rules(rules);
    let (prompt, receiver) =
        OfferPrompt::before(receiver, &directory, arguments.quiet, arguments.yes);
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
        outcome = receive(&host, &receiver, &arguments, &directory, code) => outcome,
        () = keep(ledger.as_ref(), &host) => Err(Failure::other("the usage ledger is no longer kept")),
    };
    shutdown(ledger.as_ref(), &host, outcome).await
}

async fn receive(
    host: &Host,
    receiver: &Arc<Receiver>,
    arguments: &Arguments,
    directory: &Path,
    code: Option<Code>,
) -> Outcome {
    let presence = match (&code, arguments.code) {
        (None, false) => Presence::start(host, arguments).await?,
        _ => Presence::default(),
    };
    let announce = || Lead::announce(host, receiver, arguments, directory, &presence);
    let mut lead = match &code {
        Some(code) => Lead::enter(host, receiver, code, arguments).await?,
        None => announce().await?,
    };
    let mut running = JoinSet::new();
    let mut left_out = LeftOut::default();
    let mut is_reached = code.is_none();
    // True while transfers are to come that the sender of a complete one has announced.
    let mut has_more = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(REACHED), if !is_reached => {
                return Err(Failure::unreachable(format!(
                    "the sender has accepted the code, but has not come within {} s; a firewall on this machine may keep it out",
                    REACHED.as_secs()
                )));
            }
            met = lead.entered(host, arguments.quiet) => lead = met?,
            session = host.accept() => {
                let Some(session) = session else { return Ok(()) };
                let shows = Shows {
                    bar: !arguments.quiet,
                    json: arguments.json,
                };
                is_reached = true;
                running.spawn(one(session, receiver.clone(), lead.desk(), shows));
            }
            Some(ended) = running.join_next() => {
                let (result, progress) = ended.map_err(Failure::other)?;
                match result {
                    Ok(None) => {}
                    Ok(Some(done)) => {
                        if !arguments.quiet {
                            report(&done, &progress, arguments.json)?;
                        }
                        left_out.count += done.left_out.count;
                        has_more = done.more > 0;
                        if has_more {
                            continue;
                        }
                        if !arguments.keep {
                            return events::judge(&left_out, arguments.strict);
                        }
                        lead = announce().await?;
                    }
                    // The last of several, of which others have arrived: nothing else comes under the ticket.
                    Err(error @ TransferError::Exists { .. }) if has_more && progress.snapshot().more == Some(0) => {
                        tracing::warn!("{}", words(&error));
                        has_more = false;
                        if !arguments.keep {
                            return events::judge(&left_out, arguments.strict);
                        }
                        lead = announce().await?;
                    }
                    // What follows a dry run needs the same ticket.
                    Err(TransferError::DryRun) => {
                        if !arguments.quiet {
                            note(&TransferError::DryRun.to_string());
                        }
                    }
                    // A sender that replaces its first path, or that was stopped before it showed anything: no transfer.
                    Err(TransferError::Interrupted(StreamFailure::Closed(Closed(SessionCloseReason::Abandoned)))) => {}
                    // The sender may come back, also with another name, and an unknown peer must not end the wait.
                    Err(error @ (TransferError::Interrupted(_) | TransferError::Exists { .. } | TransferError::Ticket(_) | TransferError::Unknown
                        | TransferError::InTheWay { .. } | TransferError::Unpermitted(_) | TransferError::Protocol(_))) => {
                        tracing::warn!("{}", words(&error));
                    }
                    Err(TransferError::Declined) if arguments.keep => lead = announce().await?,
                    Err(error) if arguments.keep => tracing::warn!("{error}"),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

/// Serves a session: a transfer, or the entry of a code.
async fn one(
    session: Session,
    receiver: Arc<Receiver>,
    desk: Option<Arc<Desk>>,
    shows: Shows,
) -> (Result<Option<Completed>, TransferError>, Progress) {
    let progress = Progress::default();
    let transfer = receiver.receive(&session, &progress);
    let result = tokio::select! {
        // The end of the session ends both; if a code was entered in it, it was no transfer.
        biased;
        () = entered(desk.as_deref(), &session) => Ok(None),
        result = transfer => result.map(Some),
        () = events::follow(&progress), if shows.json => unreachable!("it follows until dropped"),
        () = meter::show(session.clone(), progress.clone(), Direction::Receiving), if shows.bar => {
            unreachable!("the meter runs until it is dropped")
        }
    };
    (result, progress)
}

/// Serves a session in which a code is entered until it is over; does not return for any other.
async fn entered(desk: Option<&Desk>, session: &Session) {
    match desk {
        Some(desk) if desk.attend(session).await => {}
        _ => std::future::pending().await,
    }
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
        // A sender that is stopped drops its streams, both directions of them, and then closes the session; any of it arrives first.
        TransferError::Interrupted(
            StreamFailure::Closed(Closed(SessionCloseReason::Peer { code: 0, .. }))
            | StreamFailure::Reset(CODE_DROPPED)
            | StreamFailure::Stopped(CODE_DROPPED),
        ) => {
            "the sender disconnected; what has arrived is kept, and the transfer continues when it is sent again".to_owned()
        }
        other => other.to_string(),
    }
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
        "received {} ({}, {}{hash}){}{}",
        path.display(),
        files_text(done.files),
        bytes::text(done.bytes),
        update::suffix(done),
        events::left_out_text(&done.left_out)
    ))?;
    match text {
        Some(text) => print_line(&format!("\n{}\n", text.trim_end())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_that_is_stopped_has_disconnected_whichever_end_is_seen_first() {
        let ends = [
            StreamFailure::Reset(CODE_DROPPED),
            StreamFailure::Stopped(CODE_DROPPED),
            StreamFailure::Closed(Closed(SessionCloseReason::Peer {
                code: 0,
                reason: String::new(),
            })),
        ];
        for end in ends {
            let text = words(&TransferError::Interrupted(end));
            assert!(text.starts_with("the sender disconnected"), "{text}");
        }
        let other = words(&TransferError::Interrupted(StreamFailure::Reset(1)));
        assert!(other.contains("(code 1)"), "{other}");
    }
}
