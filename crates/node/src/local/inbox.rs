//! One stream of an application as its connection sees it: what was handed over and not taken by the task of the stream yet.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anabranch_net::{Outgoing, StreamFailure};
use anabranch_session::Discarded;
use tokio::{
    sync::{Notify, oneshot},
    time::timeout,
};

use super::{
    CODE_DETACHED,
    frame::{End, SendFrame},
    link::Link,
    message::Fields,
    policy::Reservation,
};
use crate::{daemon::CODE_NO_RIGHT, outcome::Outcome};

/// Time for which an application that was handed everything, and keeps the stream open, may still refuse it.
const DECISION_TIME: Duration = Duration::from_secs(5);
/// ADUs of a stream that the session may refuse; then the stream is over.
pub(super) const REFUSED_MAX: usize = 256;

/// A stream as the connection sees it.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) handle: u32,
    credit: u32,
    pub(super) link: Arc<Link>,
    pub(super) reservation: Reservation,
    inbox: Mutex<Inbox>,
    pub(super) changed: Notify,
    over: Notify,
    /// Streams of its service that wait to be accepted, this one among them until the application gives it credit.
    waiting: Option<Arc<AtomicU32>>,
}

/// Work for the task of a stream: ADUs that it has not taken yet, and requests.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) adus: VecDeque<Outgoing>,
    pub(super) notes: VecDeque<Note>,
    /// Requests to give up what waits, in order.
    pub(super) discards: Vec<Discard>,
    /// Credit of the application.
    pub(super) balance: i64,
    /// Credit that the application has given.
    pub(super) given: i64,
    pub(super) is_accepted: bool,
    pub(super) is_finished: bool,
    /// The session has finished the stream; ADUs that the application sends nevertheless are given up.
    pub(super) is_ended: bool,
    pub(super) reset: Option<u32>,
    pub(super) stop: Option<u32>,
    /// The application no longer uses the stream; the code for what it leaves unfinished.
    pub(super) closed: Option<u32>,
    /// The peer's right to the stream was withdrawn.
    pub(super) is_revoked: bool,
    /// Numbers of the ADUs that the session has refused, ascending; at most [`REFUSED_MAX`].
    pub(super) refused: Vec<u64>,
    /// The task has ended.
    pub(super) is_over: bool,
    /// The application was handed everything that the peer sent, and its end.
    pub(super) is_handed_over: bool,
}

/// Properties of a waiting ADU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) cost: u32,
    pub(super) confirm: bool,
}

/// A request to give up what waits of a stream.
#[derive(Debug)]
pub(super) struct Discard {
    /// ADUs of the inbox that were handed over before it.
    pub(super) before: usize,
    pub(super) answer: oneshot::Sender<Result<Discarded, StreamFailure>>,
}

/// Frames that an application must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StreamViolation {
    #[error("more was sent than the credit of the stream permits")]
    Credit,
    #[error("an ADU was sent after the end of its stream")]
    Finished,
    #[error("the header fields of an ADU are not a JSON object of numbers, texts and booleans")]
    Fields,
    #[error("more credit was given than any receiver has memory for")]
    Excess,
}

impl Inbox {
    /// True if the application was handed everything, and has neither refused it nor closed the stream.
    fn may_refuse_yet(&self) -> bool {
        self.is_handed_over && self.stop.is_none() && self.closed.is_none()
    }
}

impl Local {
    pub(super) fn new(
        handle: u32,
        credit: u32,
        given: u32,
        link: Arc<Link>,
        reservation: Reservation,
    ) -> Self {
        let inbox = Inbox {
            balance: i64::from(credit),
            given: i64::from(given),
            is_accepted: true,
            ..Inbox::default()
        };
        Self {
            handle,
            credit,
            link,
            reservation,
            inbox: Mutex::new(inbox),
            changed: Notify::new(),
            over: Notify::new(),
            waiting: None,
        }
    }

    /// Sets the count of its service in which it is until the application accepts it.
    pub(super) fn waiting_in(mut self, waiting: Option<Arc<AtomicU32>>) -> Arc<Self> {
        self.lock().is_accepted = waiting.is_none();
        self.waiting = waiting;
        Arc::new(self)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inbox)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    /// Credit with which the application began.
    pub(super) fn credit(&self) -> u32 {
        self.credit
    }

    /// Bytes of ADUs that the task of the stream has not taken yet.
    pub(super) fn waiting_bytes(&self) -> u64 {
        let inbox = self.lock();
        inbox.adus.iter().map(|adu| adu.data.len() as u64).sum()
    }

    /// Takes an ADU of the application. The credit of the connection was taken for it.
    pub(super) fn send(&self, frame: SendFrame) -> Result<(), StreamViolation> {
        let mut fields = Vec::new();
        if !frame.fields.is_empty() {
            let read: Result<Fields, _> = serde_json::from_slice(&frame.fields);
            let read = read.map_err(|_| StreamViolation::Fields)?;
            fields.extend(read.into_iter().map(|(name, field)| (name, field.into())));
        }
        let mut inbox = self.lock();
        if inbox.balance <= 0 {
            return Err(StreamViolation::Credit);
        }
        if inbox.is_finished {
            return Err(StreamViolation::Finished);
        }
        inbox.balance -= i64::from(frame.cost);
        if inbox.is_over || inbox.is_ended || inbox.reset.is_some() {
            drop(inbox);
            self.link.return_credit(frame.cost);
            return Ok(());
        }
        inbox.adus.push_back(Outgoing {
            data: frame.data,
            importance: frame.importance,
            fields,
        });
        inbox.notes.push_back(Note {
            cost: frame.cost,
            confirm: frame.confirm,
        });
        drop(inbox);
        self.changed.notify_one();
        Ok(())
    }

    /// Asks the task to give up what was handed over before and is not sent completely. Nothing is answered if the task ends first.
    pub(super) fn discard(&self) -> oneshot::Receiver<Result<Discarded, StreamFailure>> {
        let (answer, done) = oneshot::channel();
        self.change(|inbox| {
            if !inbox.is_over {
                let before = inbox.adus.len();
                inbox.discards.push(Discard { before, answer });
            }
        });
        done
    }

    /// Takes credit that the application gives.
    pub(super) fn give(&self, bytes: u32) -> Result<(), StreamViolation> {
        let mut inbox = self.lock();
        inbox.given += i64::from(bytes);
        if inbox.given > i64::from(u32::MAX) {
            return Err(StreamViolation::Excess);
        }
        drop(inbox);
        self.accepted();
        self.changed.notify_one();
        Ok(())
    }

    /// The stream waits no more to be accepted.
    fn accepted(&self) {
        let was_accepted = std::mem::replace(&mut self.lock().is_accepted, true);
        if let Some(waiting) = &self.waiting
            && !was_accepted
        {
            waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends a direction, as the application asks.
    pub(super) fn end(&self, end: End) {
        self.change(|inbox| match end {
            End::Finish => inbox.is_finished = true,
            End::Reset(code) => inbox.reset = inbox.reset.or(Some(code)),
            End::Stop(code) => inbox.stop = inbox.stop.or(Some(code)),
            End::Close => inbox.closed = inbox.closed.or(Some(anabranch_net::CODE_DROPPED)),
            // Only the node says so.
            End::Delivered => {}
        });
    }

    /// The application has left: what is finished is still sent, everything else is given up.
    pub(super) fn detach(&self) {
        self.change(|inbox| inbox.closed = inbox.closed.or(Some(CODE_DETACHED)));
    }

    /// Number by which the session knows an ADU; `None` if it was refused.
    pub(super) fn sequence(&self, adu: u64) -> Option<u64> {
        let inbox = self.lock();
        let before = inbox.refused.iter().filter(|&&refused| refused < adu);
        let count = before.count() as u64;
        (!inbox.refused.contains(&adu)).then(|| adu - count)
    }

    /// Waits for what the application makes of the peer's data, after the task has ended. An application that was handed everything
    /// may still refuse it, until it closes the stream or [`DECISION_TIME`] is over. `None`: the peer or the session ended it.
    pub(super) async fn outcome(&self) -> Option<Outcome> {
        let deciding = async {
            while self.lock().may_refuse_yet() {
                // The task, which waited for this as well, has ended.
                self.changed.notified().await;
            }
        };
        // Without a decision, it keeps what it has.
        let _ = timeout(DECISION_TIME, deciding).await;
        let inbox = self.lock();
        match (inbox.stop, inbox.is_handed_over) {
            (Some(code), _) => Some(Outcome::Refused(code)),
            (None, true) => Some(Outcome::Taken),
            (None, false) if inbox.is_revoked => Some(Outcome::Refused(CODE_NO_RIGHT)),
            (None, false) => inbox.closed.map(Outcome::Refused),
        }
    }

    /// The peer's right to the stream was withdrawn.
    pub(super) fn revoke(&self) {
        self.change(|inbox| inbox.is_revoked = true);
    }

    /// Waits until the task has ended.
    pub(super) async fn over(&self) {
        loop {
            let over = self.over.notified();
            if self.lock().is_over {
                return;
            }
            over.await;
        }
    }
}

/// End of a task, even of one that is dropped.
pub(super) struct Ending(pub(super) Arc<Local>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut inbox = self.0.lock();
        inbox.is_over = true;
        inbox.adus.clear();
        inbox.discards.clear();
        let owed: u32 = inbox.notes.drain(..).map(|note| note.cost).sum();
        drop(inbox);
        self.0.accepted();
        self.0.link.return_credit(owed);
        self.0.over.notify_waiters();
    }
}
