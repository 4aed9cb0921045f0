//! Task that takes packets from the queues of a class as its rate and its stream permit.

use std::{future::poll_fn, time::Duration};

use anabranch::{Session, Stream, StreamFailure, base::Instant, net::Clock};

use super::Class;
use crate::{
    outlet::{Lane, forget_events},
    pace::Pace,
};

/// Time for which what is taken at once lasts at a limited rate.
const TURN: Duration = Duration::from_millis(10);

/// Reason why a class carries nothing any more.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It was unused for long.
    Idle,
    /// Its stream is over.
    Failed(StreamFailure),
}

impl Class {
    /// Carries packets until the class was unused for `idle`, or its stream is over.
    pub(crate) async fn carry(
        &self,
        (session, stream): (&Session, &Stream),
        clock: Clock,
        idle: impl Fn() -> Duration,
    ) -> Ended {
        tokio::select! {
            ended = self.send((session, stream), clock, idle) => ended,
            () = forget_events(stream) => unreachable!("it goes on until it is dropped"),
        }
    }

    async fn send(
        &self,
        (session, stream): (&Session, &Stream),
        clock: Clock,
        idle: impl Fn() -> Duration,
    ) -> Ended {
        let mut pace = Pace::default();
        let mut lane = Lane::default();
        loop {
            let now = clock.now();
            match pace.follow(now, session, stream) {
                Ok(Some((target, interval))) => self.queues.lock().set_times(target, interval),
                Ok(None) => {}
                Err(failure) => return Ended::Failed(failure),
            }
            self.limit.ready().await;
            self.take(clock.now(), stream.send_capacity(), &mut lane);
            if lane.is_empty() {
                let unused = self.idle(now);
                let left = idle().saturating_sub(unused);
                if left.is_zero() {
                    return Ended::Idle;
                }
                // The end of the wait is looked at again, because it is no use of the class.
                let _ = tokio::time::timeout(left, self.queues.woken()).await;
                continue;
            }
            let sent = poll_fn(|cx| lane.poll_send(cx, stream)).await;
            if let Err(failure) = sent {
                return Ended::Failed(failure);
            }
        }
    }

    /// Takes packets, as many as the session takes now and one more, or as the rate permits.
    fn take(&self, now: Instant, capacity: usize, lane: &mut Lane) {
        let rate = self.limit.rate();
        let turn = rate.map_or(u64::MAX, |rate| rate.bytes_in(TURN).max(1));
        let most = capacity.min(usize::try_from(turn - 1).unwrap_or(usize::MAX));
        let before = lane.bytes;
        let (mut queues, mut numbers) = (self.queues.lock(), self.queues.numbers());
        while lane.bytes <= most {
            let Some((bucket, packet)) = queues.pop(now) else {
                break;
            };
            lane.add((bucket, numbers.next(bucket)), packet);
        }
        drop((queues, numbers));
        if lane.bytes > before {
            self.limit.sent(lane.bytes - before);
            self.note_use(now);
        }
    }
}
