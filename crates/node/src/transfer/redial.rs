//! A transfer that goes on by itself after an interruption.

use std::{path::Path, time::Duration};

use anabranch_net::{ConnectError, Host, Session, StreamFailure};
use anabranch_session::Guarantee;
use tokio::time::Instant;

use super::{
    error::TransferError,
    progress::Progress,
    receive::Completed,
    send::{Source, send_promised},
};
use crate::ticket::Ticket;

/// First pause before the receiver is called again, doubled up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause: a receiver that is back is found this soon.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time that one call may take: handshakes of QUIC back off, so a fresh one finds a receiver that has
/// just come back sooner than an old one.
const CALL_MAX: Duration = Duration::from_secs(5);
/// Silence on all paths for this long is worth a word.
const SILENCE: Duration = Duration::from_secs(2);

/// What is going on, for whoever shows it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<'a> {
    /// The receiver answers; for the first time or again.
    Connected(&'a Session),
    /// No path to the receiver carries anything now; the session waits for one.
    Silent,
    /// A path carries data again.
    Heard,
    /// The transfer stopped, and the receiver will be called again.
    Interrupted {
        /// Reason why it stopped.
        failure: &'a StreamFailure,
        /// Time for which the receiver will be called before this is given up.
        retry_for: Duration,
    },
}

/// How a transfer is carried through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Manner {
    /// Time for which the receiver is called again after an interruption; zero: not at all.
    pub retry_for: Duration,
    /// What is to be promised to the stream with the data, as in [`send_promised`].
    pub guarantee: Option<Guarantee>,
}

/// Sends a file or directory to the holder of `ticket`. After an interruption the receiver is called
/// again for the `manner`'s patience, and the transfer goes on where it stopped. The time begins
/// anew with every interruption before which more was sent than ever before.
///
/// # Errors
/// The receiver cannot be reached at first; it refuses or fails; the source cannot be read; the last
/// interruption, when it lasted for longer than the patience.
pub async fn send_with_retries(
    host: &Host,
    ticket: &Ticket,
    path: &Path,
    manner: Manner,
    progress: &Progress,
    mut tell: impl FnMut(Step<'_>),
) -> Result<Completed, TransferError> {
    let mut session = host.connect(ticket.node, &ticket.addresses).await?;
    let mut furthest = None;
    let mut deadline = Instant::now();
    loop {
        tell(Step::Connected(&session));
        let source = Source::Path(path.to_owned());
        let sending = send_promised(&session, ticket.secret, source, manner.guarantee, progress);
        let result = tokio::select! {
            result = sending => result,
            () = watch(&session, &mut tell) => unreachable!("watching goes on until it is dropped"),
        };
        let failure = match result {
            Err(TransferError::Interrupted(failure)) => failure,
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
        tell(Step::Interrupted {
            failure: &failure,
            retry_for,
        });
        // The old session is over; nothing of it may stand in the new one's way.
        session.close(0, "the transfer begins again");
        session = match tokio::time::timeout_at(deadline, call(host, ticket)).await {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(failure.into()),
        };
    }
}

/// Calls until somebody answers.
///
/// # Errors
/// Calling makes no sense any more.
async fn call(host: &Host, ticket: &Ticket) -> Result<Session, ConnectError> {
    let mut pause = PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        let calling = host.connect(ticket.node, &ticket.addresses);
        match tokio::time::timeout(CALL_MAX, calling).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error @ ConnectError::ShuttingDown)) => return Err(error),
            Ok(Err(error)) => tracing::debug!(%error, "the receiver does not answer"),
            Err(_) => tracing::debug!("the receiver does not answer"),
        }
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// Tells when all paths fall silent, and when one is heard again.
async fn watch(session: &Session, tell: &mut impl FnMut(Step<'_>)) {
    const LOOK: Duration = Duration::from_millis(250);
    let mut silent_since = None;
    let mut is_told = false;
    loop {
        tokio::time::sleep(LOOK).await;
        let is_silent = session
            .stats()
            .is_none_or(|stats| stats.channels_active == 0);
        if !is_silent {
            silent_since = None;
            if std::mem::take(&mut is_told) {
                tell(Step::Heard);
            }
            continue;
        }
        let since = *silent_since.get_or_insert_with(Instant::now);
        if !is_told && since.elapsed() >= SILENCE {
            is_told = true;
            tell(Step::Silent);
        }
    }
}
