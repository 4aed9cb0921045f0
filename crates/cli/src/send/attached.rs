//! A transfer over the session that a running node has with the receiver: its rules, its promises and its accounts hold.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::{
    Client, ClientError, Explanation, Ticket,
    base::{Instant, duration},
    local::client::{Session, Stream},
    ticket::Secret,
    transfer::{Completed, Manner, Progress, Selection, Source, TransferError, send_in},
};
use tokio::{task::JoinSet, time};

use super::{Arguments, Job, Outcomes, account, fresh_notes, report, standstill};
use crate::{
    attach, events,
    exit::{Failure, Outcome, note, print_line},
    meter,
    ticket::Target,
};

/// Name of the program in the node's log.
const PROGRAM: &str = "anabranch send";
/// First pause before the session is asked for again, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A running node that has a session with the receiver, or can open one.
pub(super) struct Attached {
    session: Session,
    /// Name or id of the receiver.
    peer: String,
    secret: Option<Secret>,
}

/// The running node that this transfer goes through; `None`: the command is a node of its own.
///
/// # Errors
/// A peer is named, and there is no running node that knows it or can reach it.
pub(super) async fn find(
    arguments: &Arguments,
    target: &Target,
) -> Result<Option<Attached>, Failure> {
    let own = arguments.of_own_node();
    match target {
        Target::Ticket(_) if own.is_some() => Ok(None),
        Target::Code(_) | Target::NewCode => Ok(None),
        Target::Ticket(ticket) => Ok(of_ticket(arguments, ticket).await),
        Target::Peer(name) => {
            let name = peer_of(name)?;
            if let Some(flag) = own {
                return Err(Failure::usage(format!(
                    "{flag} is for a transfer without a running node, which needs a ticket; '{name}' is none"
                )));
            }
            let client = arguments.place.attach(PROGRAM).await.map_err(|error| {
                Failure::usage(format!(
                    "'{name}' is neither a code nor a ticket, as `anabranch recv` prints them, and there is no running node of which \
                     it could be a peer: {error}"
                ))
            })?;
            let session = client.connect(name).await.map_err(attach::failure)?;
            Ok(Some(Attached {
                session,
                peer: name.to_owned(),
                secret: None,
            }))
        }
    }
}

/// Name of a peer in `NAME:`, or without the colon.
fn peer_of(text: &str) -> Result<&str, Failure> {
    match text.split_once(':') {
        None | Some((_, "")) => Ok(text.trim_end_matches(':')),
        Some((name, _)) => Err(Failure::usage(format!(
            "'{text}' is neither a ticket nor a peer; '{name}:' is one without a folder, which the receiver chooses (`folder` of the right \
             send-files there); --name gives what is sent another name"
        ))),
    }
}

/// A node that runs here and knows the holder of the ticket: it has a session with it, or addresses of it.
async fn of_ticket(arguments: &Arguments, ticket: &Ticket) -> Option<Attached> {
    let client = arguments.place.attach(PROGRAM).await.ok()?;
    let peer = ticket.node.to_string();
    let session = client.connect(&peer).await.ok()?;
    Some(Attached {
        session,
        peer,
        secret: ticket.secret,
    })
}

/// Sends the sources one after the other, and reports.
pub(super) async fn transfer_all(
    mut attached: Attached,
    arguments: &Arguments,
    manner: &Manner,
    jobs: Vec<Job>,
) -> Outcome {
    let mut outcomes = Outcomes::default();
    for job in jobs {
        let manner = Manner {
            more: job.more,
            ..manner.clone()
        };
        outcomes.add(transfer(&mut attached, arguments, &manner, job.source).await)?;
    }
    outcomes.end()
}

async fn transfer(
    attached: &mut Attached,
    arguments: &Arguments,
    manner: &Manner,
    source: Source,
) -> Outcome {
    let progress = Progress::default();
    let explained = Arc::new(Mutex::new(None));
    let moved = || {
        let now = progress.snapshot();
        (now.bytes_done, now.files_done)
    };
    let sending = send(attached, arguments, manner, source, &progress, &explained);
    let done = if arguments.quiet {
        sending.await?
    } else {
        tokio::select! {
            done = sending => done?,
            () = events::follow(&progress), if arguments.json => unreachable!("it follows until dropped"),
            () = meter::show_total(&progress) => unreachable!("it is shown until dropped"),
            () = standstill::watch(moved, note) => unreachable!("it is watched until dropped"),
        }
    };
    if !report(&done, &progress, arguments)? {
        return events::judge(&done.left_out, arguments.choice.strict);
    }
    print_line("  over a session of the running node")?;
    if let Some(guarantee) = &manner.data.guarantee {
        let explained = explained.lock().unwrap_or_else(PoisonError::into_inner);
        print_line(&account(guarantee, explained.as_ref()))?;
    }
    events::judge(&done.left_out, arguments.choice.strict)
}

/// Sends the source; repeats a file or directory after an interruption, for the time given by the flags.
async fn send(
    attached: &mut Attached,
    arguments: &Arguments,
    manner: &Manner,
    source: Source,
    progress: &Progress,
    explained: &Arc<Mutex<Option<Explanation>>>,
) -> Result<Completed, TransferError> {
    let selection = match &source {
        Source::Path(path) => Some(Selection::new(path)),
        Source::Selection(selection) => Some(selection.clone()),
        Source::Reader { .. } => None,
    };
    let mut source = Some(source);
    let mut furthest = None;
    let mut deadline = time::Instant::now();
    loop {
        let again = || Source::Selection(selection.clone().unwrap_or_default());
        let source = source.take().unwrap_or_else(again);
        let mut watching = JoinSet::new();
        let observe = |stream: &Stream| {
            if manner.data.guarantee.is_some() {
                watching.spawn(watch(stream.clone(), explained.clone(), arguments.quiet));
            }
        };
        let sending = send_in(
            &attached.session,
            attached.secret,
            source,
            manner,
            progress,
            observe,
        );
        let failure = match sending.await {
            Err(failure) if failure.is_interruption() && selection.is_some() => failure,
            done => return done,
        };
        let reached = progress.snapshot().bytes_done;
        if furthest.is_none_or(|furthest| reached > furthest) {
            furthest = Some(reached);
            deadline = time::Instant::now() + arguments.retry;
        }
        let retry_for = deadline.saturating_duration_since(time::Instant::now());
        if retry_for.is_zero() {
            return Err(failure);
        }
        if !arguments.quiet {
            let time = duration::format(retry_for);
            note(&format!("{failure}; trying again for {time}"));
        }
        match time::timeout_at(deadline, connected(arguments, &attached.peer)).await {
            Ok(session) => attached.session = session,
            Err(_) => return Err(failure),
        }
    }
}

/// A session with the receiver through the node, which may have been restarted, as soon as there is one.
async fn connected(arguments: &Arguments, peer: &str) -> Session {
    let attempt = async || -> Result<Session, ClientError> {
        let client: Client = arguments.place.attach(PROGRAM).await?;
        client.connect(peer).await
    };
    let mut pause = PAUSE_MIN;
    loop {
        time::sleep(pause).await;
        match attempt().await {
            Ok(session) => return session,
            Err(error) => tracing::debug!(%error, "no session"),
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Prints every decision about the promise of the data stream, and leaves its last state in `explained`.
async fn watch(stream: Stream, explained: Arc<Mutex<Option<Explanation>>>, is_quiet: bool) {
    const EVERY: Duration = Duration::from_millis(250);
    let mut last: Option<Instant> = None;
    while let Ok(now) = stream.explain().await {
        if let Some(now) = now {
            for decision in fresh_notes(&now, &mut last) {
                if !is_quiet {
                    note(&decision);
                }
            }
            *explained.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        }
        time::sleep(EVERY).await;
    }
}
