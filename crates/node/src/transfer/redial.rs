//! Transfer that resumes by itself after an interruption.

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_net::{ConnectError, Host, Session, StreamFailure};
use anabranch_session::{Attempts, StreamSpec};
use tokio::time::Instant;

use super::{
    error::TransferError,
    progress::Progress,
    receive::Completed,
    selection::Selection,
    send::{Source, send_in},
    update::Update,
};
use crate::ticket::Ticket;

/// First pause before the receiver is dialled again, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause, and so the longest delay until a receiver that is back is reached.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time limit of one call: QUIC handshakes back off, so a new one reaches a receiver that has just come back sooner than an old
/// one.
const CALL_MAX: Duration = Duration::from_secs(5);
/// The same over a relay, which is asked when no address has answered for three seconds.
const CALL_RELAYED_MAX: Duration = Duration::from_secs(15);
/// Time of silence on all paths after which it is reported, and the transfer interrupted if it is not to be tried again.
const SILENCE: Duration = Duration::from_secs(2);
/// Time without a first answer after which the addresses that are tried are reported.
const UNANSWERED: Duration = Duration::from_secs(3);

/// Default of [`Manner::answer_within`]: as long as a session is tried.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Step of a transfer, for display.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// The receiver has not answered yet. The addresses that are tried, and what came of each.
    Unanswered(Attempts),
    /// The receiver answers, for the first time or again.
    Connected(&'a Session),
    /// No path to the receiver carries data now; the session waits for one.
    Silent,
    /// A path carries data again.
    Resumed,
    /// The transfer stopped, and the receiver will be dialled again.
    Interrupted {
        /// The failure that stopped it.
        failure: &'a StreamFailure,
        /// Time for which the receiver will be dialled before the transfer is given up.
        retry_for: Duration,
    },
}

/// Options of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct Manner {
    /// Time for which the receiver is dialled again after an interruption; zero: not at all.
    pub retry_for: Duration,
    /// Spec of the stream that carries the data, as in [`send_as`](super::send_as).
    pub data: StreamSpec,
    /// Limit on the rate at which the data is handed to the session; `None`: what the paths carry.
    pub limit: Option<Rate>,
    /// Transfers that follow this one under the same ticket, at most [`MORE_MAX`](super::MORE_MAX). An old receiver ends after the first.
    pub more: u32,
    /// Update of what the receiver has under the same name, in place of a transfer that needs a free name.
    pub update: Option<Update>,
    /// Time for the receiver to take the stream of the transfer, after which it is given up.
    pub answer_within: Duration,
}

impl Default for Manner {
    /// Bulk data without a limit, and no retries.
    fn default() -> Self {
        Self {
            retry_for: Duration::ZERO,
            data: StreamSpec::bulk(""),
            limit: None,
            more: 0,
            update: None,
            answer_within: ANSWER_MAX,
        }
    }
}

/// Sends a file or directory to the holder of `ticket`. After an interruption the receiver is dialled again for
/// [`Manner::retry_for`], and the transfer continues where it stopped. The time starts again with every interruption before
/// which more was sent than ever before.
///
/// # Errors
/// The receiver cannot be reached at first; it refuses or fails; the source cannot be read; the last interruption, or silence
/// on all paths, if it outlasts the retry time.
pub async fn send_with_retries(
    host: &Host,
    ticket: &Ticket,
    selection: impl Into<Selection>,
    manner: Manner,
    progress: &Progress,
    mut report: impl FnMut(Step<'_>),
) -> Result<Completed, TransferError> {
    let selection = selection.into();
    let mut session = connect(host, ticket, &mut report).await?;
    let mut furthest = None;
    let mut deadline = Instant::now();
    loop {
        report(Step::Connected(&session));
        let source = Source::Selection(selection.clone());
        let sending = send_in(&session, ticket.secret, source, &manner, progress, |_| {});
        let result = tokio::select! {
            result = sending => result,
            silence = watch(&session, manner.retry_for, &mut report) => Err(TransferError::Silent(silence)),
        };
        let failure = match result {
            Err(TransferError::Interrupted(failure)) => failure,
            // What was asked may not have arrived.
            Err(TransferError::Unanswered(time)) if is_silent(&session) => {
                return Err(TransferError::Silent(time));
            }
            result => return result,
        };
        let reached = progress.snapshot().bytes_done;
        if furthest.is_none_or(|furthest| reached > furthest) {
            furthest = Some(reached);
            deadline = Instant::now() + manner.retry_for;
        }
        let retry_for = deadline.saturating_duration_since(Instant::now());
        if retry_for.is_zero() {
            return Err(failure.into());
        }
        report(Step::Interrupted {
            failure: &failure,
            retry_for,
        });
        // The old session is over; nothing of it may interfere with the new one.
        session.close(0, "the transfer starts again");
        session = match tokio::time::timeout_at(deadline, call(host, ticket)).await {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(failure.into()),
        };
    }
}

/// Opens a session with the receiver, over the relay of the ticket if it has one and no address answers; reports what is tried if there is no answer for a while.
///
/// # Errors
/// As [`Host::connect`].
pub async fn connect(
    host: &Host,
    ticket: &Ticket,
    report: &mut impl FnMut(Step<'_>),
) -> Result<Session, ConnectError> {
    ticket.prepare(host);
    let calling = host.connect(ticket.node, ticket.remotes());
    tokio::pin!(calling);
    if let Ok(result) = tokio::time::timeout(UNANSWERED, &mut calling).await {
        return result;
    }
    if let Some(attempts) = host.attempts(ticket.node) {
        report(Step::Unanswered(attempts));
    }
    calling.await
}

/// Dials until the receiver answers.
///
/// # Errors
/// The host is shutting down.
async fn call(host: &Host, ticket: &Ticket) -> Result<Session, ConnectError> {
    let mut pause = PAUSE_MIN;
    let limit = match ticket.via {
        None => CALL_MAX,
        Some(_) => CALL_RELAYED_MAX,
    };
    loop {
        tokio::time::sleep(pause).await;
        let calling = host.connect(ticket.node, ticket.remotes());
        match tokio::time::timeout(limit, calling).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error @ ConnectError::ShuttingDown)) => return Err(error),
            Ok(Err(error)) => tracing::debug!(%error, "the receiver does not answer"),
            Err(_) => tracing::debug!("the receiver does not answer"),
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// True if no path carries data now.
fn is_silent(session: &Session) -> bool {
    session
        .stats()
        .is_none_or(|stats| stats.channels_active == 0)
}

/// Reports when all paths fall silent, and when one carries data again. Returns the length of a silence that has lasted for
/// [`SILENCE`], and for as long as the receiver would be dialled after an interruption.
async fn watch(
    session: &Session,
    retry_for: Duration,
    report: &mut impl FnMut(Step<'_>),
) -> Duration {
    const LOOK: Duration = Duration::from_millis(250);
    let mut silent_since = None;
    let mut is_reported = false;
    loop {
        tokio::time::sleep(LOOK).await;
        if !is_silent(session) {
            silent_since = None;
            if std::mem::take(&mut is_reported) {
                report(Step::Resumed);
            }
            continue;
        }
        let since = *silent_since.get_or_insert_with(Instant::now);
        if !is_reported && since.elapsed() >= SILENCE {
            is_reported = true;
            report(Step::Silent);
        }
        if since.elapsed() >= retry_for.max(SILENCE) {
            return since.elapsed();
        }
    }
}
