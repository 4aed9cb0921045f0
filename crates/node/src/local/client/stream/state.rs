//! State of a stream as its node reports it: what may be sent, what waits to be read, and how it ended.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use anabranch_base::StreamId;
use anabranch_net::{Outgoing, PromiseEvent, StreamEvent};
use anabranch_session::{ADU_BYTES_MAX, Adu, Refusal, SendError, StreamSpec};
use tokio::sync::Notify;

use super::super::{
    ClientError,
    core::{Core, fields},
};
use crate::local::{
    frame::{End, FIELDS_BYTES_MAX, Frame, SendFrame, send_cost},
    message::{EventBody, Opened},
};

/// Bytes of a stream that may wait here to be read.
pub(in crate::local::client) const WINDOW: u32 = 1 << 20;
/// Events that may wait to be read; beyond, the oldest is dropped.
const EVENTS_MAX: usize = 65_536;
/// Events of a promise, or refused ADUs, that may wait to be read; beyond, the oldest is dropped.
const PROMISES_MAX: usize = 256;

/// State of a stream.
#[derive(Debug)]
pub(in crate::local::client) struct StreamState {
    pub(in crate::local::client) handle: u32,
    pub(super) id: StreamId,
    pub(super) spec: StreamSpec,
    pub(super) can_send: bool,
    pub(super) can_receive: bool,
    inner: Mutex<Inner>,
    /// An ADU arrived, or the receiving direction is over.
    pub(super) readable: Notify,
    /// Anything else has changed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Bytes that may be sent.
    credit: i64,
    /// Number of the next ADU.
    next: u64,
    pub(super) received: VecDeque<(Adu, u32)>,
    /// Credit to be given back for what was read.
    pub(super) owed: u32,
    pub(super) events: VecDeque<StreamEvent>,
    pub(super) promises: VecDeque<PromiseEvent>,
    pub(super) refused: VecDeque<(u64, String)>,
    /// ADUs whose acceptance is awaited; the error if one was refused.
    pub(super) confirming: HashMap<u64, Option<Result<(), String>>>,
    /// The peer finished.
    pub(super) is_finished: bool,
    /// Warning of its promise for which the node finished it.
    pub(super) closed_for: Option<Box<Refusal>>,
    /// This side finished or reset.
    pub(super) is_send_over: bool,
    pub(super) is_delivered: bool,
    pub(super) reset: Option<u32>,
    pub(super) stopped: Option<u32>,
    /// The session or the connection is over, for sending.
    pub(super) over: Option<ClientError>,
    /// The same for receiving.
    pub(super) is_drained: bool,
}

impl Inner {
    /// True if not everything was read that the peer has sent or may send.
    pub(super) fn has_unread(&self) -> bool {
        !self.received.is_empty() || !(self.is_finished || self.reset.is_some())
    }
}

impl StreamState {
    pub(in crate::local::client) fn new(
        opened: &Opened,
        spec: StreamSpec,
        can_send: bool,
        can_receive: bool,
    ) -> Self {
        let inner = Inner {
            credit: i64::from(opened.credit),
            ..Inner::default()
        };
        Self {
            handle: opened.stream,
            id: StreamId(opened.id),
            spec,
            can_send,
            can_receive,
            inner: Mutex::new(inner),
            readable: Notify::new(),
            changed: Notify::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::local::client) fn received(&self, adu: Adu, cost: u32) {
        self.lock().received.push_back((adu, cost));
        self.readable.notify_waiters();
    }

    pub(in crate::local::client) fn credited(&self, bytes: u32) {
        self.lock().credit += i64::from(bytes);
        self.changed.notify_waiters();
    }

    pub(in crate::local::client) fn ended(&self, end: End) {
        let mut inner = self.lock();
        match end {
            End::Finish => inner.is_finished = true,
            End::Reset(code) => inner.reset = Some(code),
            End::Stop(code) => inner.stopped = Some(code),
            End::Delivered => inner.is_delivered = true,
            End::Close => {}
        }
        drop(inner);
        self.readable.notify_waiters();
        self.changed.notify_waiters();
    }

    pub(in crate::local::client) fn event(&self, body: EventBody) {
        let mut inner = self.lock();
        match body {
            EventBody::Promised { grant } => {
                if let Ok(grant) = grant.resolve() {
                    push(
                        &mut inner.promises,
                        PromiseEvent::Promised(grant),
                        PROMISES_MAX,
                    );
                }
            }
            EventBody::Warned { refusal } => {
                let event = PromiseEvent::Warned(refusal.resolve());
                push(&mut inner.promises, event, PROMISES_MAX);
            }
            EventBody::Withdrawn { refusal } => {
                let event = PromiseEvent::Withdrawn(refusal.resolve());
                push(&mut inner.promises, event, PROMISES_MAX);
            }
            EventBody::Finished { refusal } => {
                let refusal = refusal.resolve();
                inner.closed_for = Some(Box::new(refusal.clone()));
                let event = PromiseEvent::Closed(refusal);
                push(&mut inner.promises, event, PROMISES_MAX);
            }
            EventBody::Accepted { adu } => {
                if let Some(waiting) = inner.confirming.get_mut(&adu) {
                    *waiting = Some(Ok(()));
                }
            }
            EventBody::Refused { adu, reason } => match inner.confirming.get_mut(&adu) {
                Some(waiting) => *waiting = Some(Err(reason)),
                None => push(&mut inner.refused, (adu, reason), PROMISES_MAX),
            },
            EventBody::Over { reason, readable } => {
                inner.over = Some(ClientError::SessionOver(reason));
                inner.is_drained |= !readable;
            }
            other => {
                if let Some(event) = other.into_stream_event() {
                    push(&mut inner.events, event, EVENTS_MAX);
                }
            }
        }
        drop(inner);
        self.readable.notify_waiters();
        self.changed.notify_waiters();
    }

    /// The connection is over.
    pub(in crate::local::client) fn detached(&self, reason: &str) {
        let mut inner = self.lock();
        let detached = || ClientError::Detached(reason.to_owned());
        inner.over.get_or_insert_with(detached);
        inner.is_drained = true;
        drop(inner);
        self.readable.notify_waiters();
        self.changed.notify_waiters();
    }

    /// Appends ADUs from the front of a queue, as many as there is credit for. Returns the numbers of those that were.
    pub(super) fn send(
        &self,
        core: &Core,
        adus: &mut VecDeque<Outgoing>,
        confirm: bool,
    ) -> Result<Range<u64>, ClientError> {
        let mut inner = self.lock();
        if let Some(code) = inner.stopped {
            return Err(ClientError::Stopped(code));
        }
        if let Some(error) = &inner.over {
            return Err(error.clone());
        }
        if let Some(refusal) = &inner.closed_for {
            return Err(SendError::Warned(refusal.clone()).into());
        }
        if inner.is_send_over || !self.can_send {
            return Err(SendError::Closed.into());
        }
        let first = inner.next;
        let mut wrong = None;
        let inner = &mut *inner;
        core.send(|| {
            if inner.credit <= 0 {
                return None;
            }
            let adu = adus.front()?;
            let fields = fields(adu);
            if let Err(error) = check(adu, fields.len()) {
                wrong = Some(error);
                return None;
            }
            let adu = adus.pop_front().expect("it was looked at");
            let cost = send_cost(adu.data.len(), fields.len());
            inner.credit -= i64::from(cost);
            if confirm {
                inner.confirming.insert(inner.next, None);
            }
            inner.next += 1;
            let frame = SendFrame {
                stream: self.handle,
                confirm,
                importance: adu.importance,
                fields,
                data: adu.data,
                cost,
            };
            Some((Frame::Send(frame), cost))
        })?;
        match wrong {
            Some(error) if inner.next == first => {
                adus.pop_front();
                Err(error)
            }
            _ => Ok(first..inner.next),
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, max: usize) {
    if queue.len() >= max {
        queue.pop_front();
    }
    queue.push_back(item);
}

fn check(adu: &Outgoing, fields: usize) -> Result<(), ClientError> {
    let bytes = adu.data.len();
    if bytes == 0 {
        return Err(SendError::Empty.into());
    }
    if bytes > ADU_BYTES_MAX {
        return Err(SendError::TooLarge { bytes }.into());
    }
    if fields > FIELDS_BYTES_MAX {
        let reason =
            format!("its header fields have {fields} bytes; at most {FIELDS_BYTES_MAX} fit");
        return Err(ClientError::NotAccepted(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use anabranch_base::Rate;
    use anabranch_session::{Offer, Reason};

    use super::*;
    use crate::local::message::{Event, RefusalBody};

    #[test]
    fn a_stream_that_the_node_has_finished_is_reported_with_the_warning() {
        let opened = Opened {
            stream: 3,
            id: 0,
            credit: 1_000,
        };
        let stream = StreamState::new(&opened, StreamSpec::default(), true, false);
        let refusal = Refusal {
            reason: Reason::TooMany,
            offer: Offer {
                rate: Some(Rate::from_mbps(1)),
                ..Offer::default()
            },
        };
        let body = EventBody::Finished {
            refusal: RefusalBody::of(&refusal),
        };
        let text = serde_json::to_string(&Event::of_stream(3, body)).unwrap();
        let event: Event = serde_json::from_str(&text).unwrap();
        stream.event(event.body);
        let mut inner = stream.lock();
        let closed = PromiseEvent::Closed(refusal.clone());
        assert_eq!(inner.promises.pop_front(), Some(closed));
        assert_eq!(inner.closed_for, Some(Box::new(refusal)));
    }
}
