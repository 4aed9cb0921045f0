//! Task of one stream of an application: moves its data to the session and back, with its events and ends.
//!
//! Credit of the application returns when the session has taken the data. The task reads from the session only what the
//! application has given credit for, and only while the socket takes it: so a slow reader holds up its own streams, back to the
//! peer's application, and nothing in the node grows.

use std::{
    collections::VecDeque,
    future::poll_fn,
    ops::Range,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use anabranch_net::{Outgoing, PromiseEvent, Stream, StreamEvent, StreamFailure};
use anabranch_session::{Adu, Discarded, SendError, StreamError};

use super::{
    CODE_DETACHED,
    frame::{self, AduFrame, End, Frame},
    inbox::{Discard, Ending, Local, Note, REFUSED_MAX},
    link::Link,
    message::{EventBody, GrantBody, RefusalBody},
};
use crate::daemon::CODE_NO_RIGHT;

/// Bytes that are read from the session at a time.
const READ_BYTES: usize = 256 << 10;

/// Numbers of ADUs: the application counts those that were refused, the session does not.
#[derive(Debug, Default)]
struct Numbers {
    /// Number of the next ADU.
    next: u64,
    refused: Vec<u64>,
}

impl Numbers {
    fn of(&self, sequence: u64) -> u64 {
        let mut number = sequence;
        for &refused in &self.refused {
            if refused > number {
                break;
            }
            number += 1;
        }
        number
    }
}

/// The task of a stream.
struct Task {
    stream: Stream,
    local: Arc<Local>,
    link: Arc<Link>,
    pending: VecDeque<Outgoing>,
    notes: VecDeque<Note>,
    received: Vec<Adu>,
    numbers: Numbers,
    /// Credit that the application has given and that is not used.
    given: i64,
    /// Credit of the stream that is to be returned.
    owed: u32,
    is_sending: bool,
    is_receiving: bool,
    /// This side has finished, and waits until everything has arrived.
    is_delivering: bool,
    has_events: bool,
    has_promises: bool,
    is_session_over: bool,
}

/// Hands ADUs to the session, at the rate that the user may send.
async fn send(
    local: &Local,
    stream: &Stream,
    pending: &mut VecDeque<Outgoing>,
) -> Result<Range<u64>, StreamFailure> {
    local.reservation.account().ready().await;
    poll_fn(|cx| stream.poll_send_many(cx, pending)).await
}

/// Reads ADUs from the session while they fit: other streams of the connection may have filled it by the time that
/// data comes.
async fn receive(
    link: &Link,
    stream: &Stream,
    received: &mut Vec<Adu>,
    bytes_max: usize,
) -> Result<bool, StreamFailure> {
    loop {
        link.capacity().await;
        let read = poll_fn(|cx| {
            if !link.has_capacity() {
                return Poll::Ready(None);
            }
            stream.poll_recv_many(cx, received, bytes_max).map(Some)
        });
        if let Some(read) = read.await {
            return read;
        }
    }
}

enum Step {
    Changed,
    Sent(Result<Range<u64>, StreamFailure>),
    Received(Result<bool, StreamFailure>),
    Event(Result<StreamEvent, StreamFailure>),
    Promise(Result<PromiseEvent, StreamFailure>),
    Delivered(Result<(), StreamFailure>),
}

/// Moves data between an application and a stream, until both directions are over or the application uses it no more.
pub(super) async fn run(stream: Stream, local: Arc<Local>) {
    let _ending = Ending(local.clone());
    let mut task = Task {
        link: local.link.clone(),
        is_sending: stream.can_send(),
        is_receiving: stream.can_receive(),
        is_delivering: false,
        has_events: true,
        has_promises: stream.can_send(),
        is_session_over: false,
        pending: VecDeque::new(),
        notes: VecDeque::new(),
        received: Vec::new(),
        numbers: Numbers::default(),
        given: 0,
        owed: 0,
        stream,
        local,
    };
    task.take();
    while task.is_sending || task.is_receiving || task.is_delivering {
        let step = task.step().await;
        task.act(step);
    }
}

impl Task {
    async fn step(&mut self) -> Step {
        let (stream, link) = (&self.stream, &*self.link);
        let (pending, received) = (&mut self.pending, &mut self.received);
        let bytes_max = usize::try_from(self.given).unwrap_or(0).min(READ_BYTES);
        let is_observed = self.has_events || self.has_promises;
        let observing = async {
            link.capacity().await;
            tokio::select! {
                event = stream.next_event(), if self.has_events => Step::Event(event),
                event = stream.next_promise(), if self.has_promises => Step::Promise(event),
            }
        };
        tokio::select! {
            () = self.local.changed.notified() => Step::Changed,
            sent = send(&self.local, stream, pending), if self.is_sending && !pending.is_empty() => Step::Sent(sent),
            read = receive(link, stream, received, bytes_max), if self.is_receiving && bytes_max > 0 => Step::Received(read),
            step = observing, if is_observed => step,
            done = stream.delivered(), if self.is_delivering => Step::Delivered(done),
        }
    }

    fn act(&mut self, step: Step) {
        let handle = self.local.handle;
        match step {
            Step::Changed => self.take(),
            Step::Sent(Ok(numbers)) => self.sent(numbers.end - numbers.start),
            Step::Sent(Err(failure)) => self.not_sent(failure),
            Step::Received(Ok(true)) => self.received(),
            Step::Received(Ok(false)) => {
                self.is_receiving = false;
                self.local.lock().is_handed_over = true;
                self.link.end(handle, End::Finish);
            }
            Step::Received(Err(failure)) => {
                self.is_receiving = false;
                match failure {
                    StreamFailure::Reset(code) => self.link.end(handle, End::Reset(code)),
                    other => self.session_over(&other),
                }
            }
            Step::Event(Ok(event)) => self.report(event),
            Step::Event(Err(failure)) => {
                self.has_events = false;
                self.sending_failed(&failure);
            }
            Step::Promise(Ok(event)) => self.report_promise(event),
            Step::Promise(Err(failure)) => {
                self.has_promises = false;
                self.sending_failed(&failure);
            }
            Step::Delivered(Ok(())) => {
                self.is_delivering = false;
                self.report_events();
                while let Some(event) = self.stream.try_next_promise() {
                    self.report_promise(event);
                }
                self.link.end(handle, End::Delivered);
            }
            Step::Delivered(Err(failure)) => self.sending_failed(&failure),
        }
        self.finish_if_asked();
    }

    fn report(&self, event: StreamEvent) {
        let body = EventBody::of_stream_event(event, |adu| self.numbers.of(adu));
        if let Some(body) = body {
            self.link.event(self.local.handle, body);
        }
    }

    fn report_promise(&mut self, event: PromiseEvent) {
        let body = match event {
            PromiseEvent::Promised(grant) => EventBody::Promised {
                grant: GrantBody::of(&grant),
            },
            PromiseEvent::Warned(refusal) => EventBody::Warned {
                refusal: RefusalBody::of(&refusal),
            },
            PromiseEvent::Withdrawn(refusal) => EventBody::Withdrawn {
                refusal: RefusalBody::of(&refusal),
            },
            PromiseEvent::Closed(refusal) => {
                self.finished();
                EventBody::Finished {
                    refusal: RefusalBody::of(&refusal),
                }
            }
            _ => return,
        };
        self.link.event(self.local.handle, body);
    }

    /// Reports the events that there are now, so that they come before what follows.
    fn report_events(&self) {
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok(event)) = pin!(self.stream.next_event()).poll(&mut cx) {
            self.report(event);
        }
    }

    /// Takes what the connection has handed over, and does what it asks for.
    fn take(&mut self) {
        let local = self.local.clone();
        let mut inbox = local.lock();
        let mut adus = std::mem::take(&mut inbox.adus);
        let discards = std::mem::take(&mut inbox.discards);
        self.notes.append(&mut inbox.notes);
        self.given += std::mem::take(&mut inbox.given);
        let (reset, stop) = (inbox.reset, inbox.stop);
        let (closed, is_revoked) = (inbox.closed, inbox.is_revoked);
        let is_finished = inbox.is_finished || inbox.is_ended;
        drop(inbox);
        let mut taken = 0;
        for Discard { before, answer } in discards {
            self.pending.extend(adus.drain(..before - taken));
            taken = before;
            // The connection may be over.
            let _ = answer.send(self.discard());
        }
        self.pending.append(&mut adus);
        if !self.is_sending {
            self.give_up_pending();
        }
        if is_revoked {
            let reason = "the peer's right to the service was withdrawn".to_owned();
            self.reset(CODE_NO_RIGHT);
            self.stop(CODE_NO_RIGHT);
            self.is_delivering = false;
            let readable = false;
            self.link
                .event(local.handle, EventBody::Over { reason, readable });
        }
        if let Some(code) = reset {
            self.reset(code);
        }
        if let Some(code) = stop {
            self.stop(code);
        }
        if let Some(code) = closed {
            self.stop(code);
            if !is_finished {
                self.reset(code);
            }
            self.is_delivering = false;
        }
        self.finish_if_asked();
    }

    /// Finishes the stream once everything before is queued.
    fn finish_if_asked(&mut self) {
        if !self.is_sending || !self.pending.is_empty() {
            return;
        }
        let inbox = self.local.lock();
        if !inbox.is_finished || !inbox.adus.is_empty() {
            return;
        }
        self.is_sending = false;
        self.is_delivering = inbox.closed.is_none();
        drop(inbox);
        if let Err(failure) = self.stream.finish() {
            self.not_possible(&failure);
        }
    }

    /// The session has finished the stream. ADUs that it has not taken are given up; the others are still delivered.
    fn finished(&mut self) {
        if !self.is_sending {
            return;
        }
        self.is_sending = false;
        let mut inbox = self.local.lock();
        inbox.is_ended = true;
        self.is_delivering = inbox.closed.is_none();
        drop(inbox);
        self.take();
    }

    fn reset(&mut self, code: u32) {
        if self.is_sending || self.is_delivering {
            // An error means that this direction is over already.
            let _ = self.stream.reset(code);
        }
        self.is_sending = false;
        self.is_delivering = false;
        self.give_up_pending();
    }

    fn stop(&mut self, code: u32) {
        if self.is_receiving {
            // An error means that this direction is over already.
            let _ = self.stream.stop(code);
        }
        self.is_receiving = false;
    }

    fn give_up_pending(&mut self) {
        self.pending.clear();
        let owed: u32 = self.notes.drain(..).map(|note| note.cost).sum();
        self.link.return_credit(owed);
    }

    /// Gives up what the session has not sent completely, and what it has not taken.
    fn discard(&mut self) -> Result<Discarded, StreamFailure> {
        let pending = self.pending.iter().map(|adu| adu.data.clone());
        let discarded = self.stream.discard_with(pending)?;
        let count = self.pending.drain(..).count();
        self.queued(count as u64);
        Ok(discarded)
    }

    /// ADUs from the front were queued, to be sent.
    fn sent(&mut self, count: u64) {
        let notes = self.notes.iter().take(count as usize);
        let bytes = notes.map(|note| u64::from(note.cost)).sum();
        self.local.reservation.account().sent(bytes);
        self.queued(count);
    }

    /// ADUs from the front have a number in the session.
    fn queued(&mut self, count: u64) {
        for _ in 0..count {
            let number = self.numbers.next;
            self.numbers.next += 1;
            self.taken(|| EventBody::Accepted { adu: number });
        }
    }

    /// The ADU at the front has left the node's memory; its sender is notified if it asked.
    fn taken(&mut self, event: impl FnOnce() -> EventBody) {
        let Some(Note { cost, confirm }) = self.notes.pop_front() else {
            return;
        };
        if confirm {
            self.link.event(self.local.handle, event());
        }
        self.link.return_credit(cost);
        self.owed += cost;
        if self.owed >= self.local.credit() / 4 {
            let bytes = std::mem::take(&mut self.owed);
            self.local.lock().balance += i64::from(bytes);
            let stream = self.local.handle;
            self.link.outbox.push(&Frame::Credit { stream, bytes });
        }
    }

    /// The ADU at the front was not queued.
    fn not_sent(&mut self, failure: StreamFailure) {
        if let StreamFailure::Send(SendError::Warned(_)) = failure {
            // The event of the promise, which is on its way, reports it.
            self.finished();
            return;
        }
        let StreamFailure::Send(SendError::Field(why)) = failure else {
            self.not_possible(&failure);
            return;
        };
        let (adu, reason) = (self.numbers.next, why.to_string());
        self.numbers.next += 1;
        self.numbers.refused.push(adu);
        self.local.lock().refused.push(adu);
        if let Some(note) = self.notes.front_mut() {
            note.confirm = true;
        }
        self.taken(|| EventBody::Refused { adu, reason });
        if self.numbers.refused.len() >= REFUSED_MAX {
            let reason = format!("{REFUSED_MAX} of its ADUs were refused");
            self.reset(CODE_DETACHED);
            let readable = self.is_receiving;
            self.link
                .event(self.local.handle, EventBody::Over { reason, readable });
        }
    }

    /// The session does not take an ADU, or the end. A stream that the peer has stopped may be gone already: then waiting for its
    /// delivery returns the cause.
    fn not_possible(&mut self, failure: &StreamFailure) {
        if let StreamFailure::Stream(StreamError::UnknownStream(_)) = failure {
            self.is_sending = false;
            self.is_delivering = true;
            self.give_up_pending();
        } else {
            self.sending_failed(failure);
        }
    }

    /// ADUs from the peer, to the application.
    fn received(&mut self) {
        let stream = self.local.handle;
        let frames: Vec<Frame> = (self.received.drain(..))
            .map(|adu| {
                let cost = frame::adu_cost(&adu);
                self.given -= i64::from(cost);
                Frame::Adu(AduFrame { stream, adu, cost })
            })
            .collect();
        self.link.outbox.push_all(&frames);
    }

    /// The sending direction is over without this side's doing. The application learns of it unless it was notified before, so the
    /// flags of that direction are still set.
    fn sending_failed(&mut self, failure: &StreamFailure) {
        match failure {
            StreamFailure::Stopped(code) => {
                if self.is_sending || self.is_delivering {
                    self.link.end(self.local.handle, End::Stop(*code));
                }
                self.is_sending = false;
                self.is_delivering = false;
                self.give_up_pending();
            }
            other => self.session_over(other),
        }
    }

    /// The session is over. What arrived before can still be read.
    fn session_over(&mut self, failure: &StreamFailure) {
        self.is_sending = false;
        self.is_delivering = false;
        self.has_events = false;
        self.has_promises = false;
        self.give_up_pending();
        let is_first = !std::mem::replace(&mut self.is_session_over, true);
        if is_first || !self.is_receiving {
            let body = EventBody::Over {
                reason: failure.to_string(),
                readable: self.is_receiving,
            };
            self.link.event(self.local.handle, body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_counts_refused_adus_too() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.of(5), 5);
        numbers.refused = vec![0, 1, 4];
        let of: Vec<u64> = (0..4).map(|sequence| numbers.of(sequence)).collect();
        assert_eq!(of, [2, 3, 5, 6]);
    }
}
