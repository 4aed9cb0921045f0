//! Outcome of a stream at the node that it was opened to: whether an application there took the data, or refused it.
//!
//! That everything has arrived at a node says nothing of the application: the data of a small stream are acknowledged before its
//! service has decided about it. The opener asks on a stream of its own, and the answer comes when it is known (`spec/local.md`, §8).

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_base::StreamId;
use anabranch_net::{Session, Stream};
use anabranch_session::StreamSpec;
use bytes::Bytes;
use tokio::sync::Notify;

use crate::api::{AduSession, AduStream, Failure};

/// Label of the streams on which outcomes are asked for.
pub const LABEL: &str = "anabranch-outcome/1";
/// Outcomes of a session that are remembered; beyond, the oldest is forgotten.
const KNOWN_MAX: usize = 1024;

/// Outcome of the data of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The application was handed all of it.
    Taken,
    /// It was refused with this code, before all of it was handed over.
    Refused(u32),
}

/// An answer: 0 not known, 1 taken, 2 refused; then the code.
fn encode(outcome: Option<Outcome>) -> Bytes {
    let (kind, code) = match outcome {
        None => (0, 0),
        Some(Outcome::Taken) => (1, 0),
        Some(Outcome::Refused(code)) => (2, code),
    };
    let mut answer = vec![kind];
    answer.extend(u32::to_be_bytes(code));
    answer.into()
}

/// An answer that is not understood says nothing.
fn decode(answer: &[u8]) -> Option<Outcome> {
    let (kind, code) = answer.split_first()?;
    let code = u32::from_be_bytes(code.try_into().ok()?);
    match kind {
        1 => Some(Outcome::Taken),
        2 => Some(Outcome::Refused(code)),
        _ => None,
    }
}

/// Waits for the outcome of a stream that this side has opened and finished; `None`: the peer does not know it, because no application
/// takes streams with its label, it is too long ago, or the peer is of an earlier release. Ask when everything was delivered.
///
/// # Errors
/// The session is over.
pub async fn ask<S: AduSession>(
    session: &S,
    stream: StreamId,
) -> Result<Option<Outcome>, S::Error> {
    let asking = async {
        let spec = StreamSpec {
            label: LABEL.to_owned(),
            duplex: true,
            ..StreamSpec::default()
        };
        let asking = session.open_stream(spec).await?;
        let number = Bytes::copy_from_slice(&stream.0.to_be_bytes());
        asking.send(number).await?;
        asking.recv().await
    };
    match asking.await {
        Ok(answer) => Ok(answer.and_then(|adu| decode(&adu.data))),
        Err(error) if error.is_session_over() => Err(error),
        // This node or the other one does not offer it, or the limits of the user permit no further stream.
        Err(_) => Ok(None),
    }
}

/// Outcomes of the streams of one session that a peer has opened.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    table: Mutex<Table>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// Streams that services have.
    open: BTreeSet<StreamId>,
    /// The last that are over, oldest first.
    known: VecDeque<(StreamId, Outcome)>,
}

impl Outcomes {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a service has got a stream.
    pub(crate) fn begin(&self, stream: StreamId) {
        self.lock().open.insert(stream);
    }

    /// Notes the outcome of a stream, if its service tells it.
    pub(crate) fn end(&self, stream: StreamId, outcome: Option<Outcome>) {
        let mut table = self.lock();
        table.open.remove(&stream);
        if let Some(outcome) = outcome {
            if table.known.len() >= KNOWN_MAX {
                table.known.pop_front();
            }
            table.known.push_back((stream, outcome));
        }
        drop(table);
        self.changed.notify_waiters();
    }

    /// Waits until the outcome of a stream is known, or it is known that there will be none.
    async fn of(&self, stream: StreamId) -> Option<Outcome> {
        loop {
            let changed = self.changed.notified();
            {
                let table = self.lock();
                let mut known = table.known.iter().rev();
                if let Some((_, outcome)) = known.find(|(known, _)| *known == stream) {
                    return Some(*outcome);
                }
                if !table.open.contains(&stream) {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Answers the peer on a stream with [`LABEL`].
    pub(crate) async fn answer(&self, session: Session, stream: Stream) {
        // The streams that it asks about keep the session open, not this one.
        drop(session);
        let Ok(Some(adu)) = stream.recv().await else {
            return;
        };
        let Ok(number) = adu.data[..].try_into() else {
            return;
        };
        let outcome = tokio::select! {
            outcome = self.of(StreamId(u64::from_be_bytes(number))) => outcome,
            // The peer has given up; it sends nothing else.
            _ = stream.recv() => return,
        };
        if stream.send(encode(outcome)).await.is_ok() && stream.finish().is_ok() {
            // Dropped before, it would be reset.
            let _ = stream.delivered().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_round_trip_and_others_say_nothing() {
        for outcome in [None, Some(Outcome::Taken), Some(Outcome::Refused(7))] {
            assert_eq!(decode(&encode(outcome)), outcome);
        }
        for answer in [&[][..], &[1], &[1, 0, 0, 0, 0, 0], &[3, 0, 0, 0, 0]] {
            assert_eq!(decode(answer), None, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn the_last_outcomes_are_kept_and_those_that_come_are_waited_for() {
        let outcomes = Outcomes::default();
        let stream = |number: usize| StreamId::new(number as u64, true);
        assert_eq!(outcomes.of(stream(0)).await, None, "no service had it");
        outcomes.begin(stream(0));
        let (found, ()) = tokio::join!(outcomes.of(stream(0)), async {
            tokio::task::yield_now().await;
            outcomes.end(stream(0), Some(Outcome::Refused(7)));
        });
        assert_eq!(found, Some(Outcome::Refused(7)));
        // A service that does not tell.
        outcomes.begin(stream(1));
        outcomes.end(stream(1), None);
        assert_eq!(outcomes.of(stream(1)).await, None);
        for number in 2..KNOWN_MAX + 2 {
            outcomes.end(stream(number), Some(Outcome::Taken));
        }
        assert_eq!(outcomes.of(stream(0)).await, None, "forgotten");
        assert_eq!(outcomes.of(stream(2)).await, Some(Outcome::Taken));
        assert_eq!(outcomes.lock().known.len(), KNOWN_MAX);
    }
}
