//! The offline optimum, which knows the future rate of every link.
//!
//! OptSched of [IQ-Paths §VI-B]: "although it cannot be used in practice, it can be used to gauge the
//! absolute performance". It is no [`Policy`](super::Policy), because no session knows the future; the
//! lab hands one to its sessions (`Engine::set_scheduler`).

use std::{fmt, time::Duration};

use anabranch_base::{ChannelId, Instant, StreamId};

use super::{free_channels, one_channel};
use crate::{Decision, Scheduler};
use crate::{
    pick::Picker,
    view::{ChannelView, StreamView, View},
};
use anabranch_spec::{ChannelMask, Claim};

/// Bytes that a packet has on the wire beyond the application's: IP, UDP, QUIC and our own headers.
const OVERHEAD_BYTES: f64 = 64.0;
/// Elastic data may wait so long in the queue of a link: enough to keep it busy between two decisions, too
/// little to be in the way of promised data.
const ELASTIC_QUEUE: Duration = Duration::from_millis(20);
/// No link is asked about a later time than this from now.
const HORIZON: Duration = Duration::from_secs(60);
/// Steps by which a moment is found: from 1 ms doubled up to the horizon, then halved to below 10 µs.
const STEP: Duration = Duration::from_millis(1);
const PRECISION: Duration = Duration::from_micros(10);
/// β: so much more than required a stream may receive before δ turns negative, as a share of its claim. The
/// source has "a very small threshold".
const BETA: f64 = 0.001;
/// Windows ahead in which arrivals are counted.
const WINDOWS_AHEAD: usize = 4;

/// State of the future.
pub trait Oracle: Send + fmt::Debug {
    /// Bytes, headers included, that the link of the channel can carry from one moment to another; not
    /// decreasing in `to`.
    fn bytes(&self, channel: ChannelId, from: Instant, to: Instant) -> f64;

    /// Time from leaving the link's queue to arriving.
    fn delay(&self, channel: ChannelId) -> Duration;
}

/// A link, and when it will have sent everything it was given.
#[derive(Clone, Copy, Debug)]
struct Queue {
    id: ChannelId,
    free_at: Instant,
}

/// A promised stream in its running window.
#[derive(Clone, Copy, Debug)]
struct Account {
    id: StreamId,
    /// Number of the window, from the epoch.
    window: u64,
    sent_bytes: f64,
    /// δ, in bytes per second.
    delta: f64,
    /// Shortfall of earlier windows that later ones have not made up for, in bytes.
    owed_bytes: f64,
    /// Bytes that arrive in the running window and in those after it; beyond them, in the last.
    arriving: [f64; WINDOWS_AHEAD],
}

/// Serves promised streams in order of rank, up to their claim and δ in each window, each packet on the path
/// where it truly arrives first; the rest with what remains.
///
/// The feedback loop of the source: when less than the claim arrived in the last window, the stream may send
/// 2 × the shortfall more in this one, and no less than all that is owed; when more than the claim and β, half of
/// the excess less, where what makes up for earlier windows is no excess.
///
/// O(streams + channels · log(horizon)) questions to the oracle per decision; allocates when streams or
/// channels come.
#[derive(Debug)]
pub struct Opt {
    oracle: Box<dyn Oracle>,
    picker: Picker,
    /// In the order in which channels came.
    queues: Vec<Queue>,
    /// By stream, ascending.
    accounts: Vec<Account>,
}

impl Opt {
    /// For links of which `oracle` knows the future.
    pub fn new(oracle: Box<dyn Oracle>) -> Self {
        Self {
            oracle,
            picker: Picker::default(),
            queues: Vec::new(),
            accounts: Vec::new(),
        }
    }

    /// Time at which the link has sent what it was given.
    fn free_at(&self, now: Instant, channel: &ChannelView) -> Instant {
        let queue = self.queues.iter().find(|queue| queue.id == channel.id);
        match queue {
            Some(queue) if channel.in_flight_bytes > 0 => queue.free_at.max(now),
            _ => now,
        }
    }

    /// Time at which the link, beginning at `from`, has sent `bytes`.
    fn sent_at(&self, channel: ChannelId, from: Instant, bytes: f64) -> Instant {
        let is_done = |time: Duration| self.oracle.bytes(channel, from, from + time) >= bytes;
        let mut low = Duration::ZERO;
        let mut high = STEP;
        while !is_done(high) {
            if high >= HORIZON {
                return from + HORIZON;
            }
            low = high;
            high = (high * 2).min(HORIZON);
        }
        while high - low > PRECISION {
            let middle = (low + high) / 2;
            if is_done(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        from + high
    }

    /// Time at which a packet given to the channel now arrives.
    fn arrival(&self, now: Instant, channel: &ChannelView, bytes: f64) -> Instant {
        let start = self.free_at(now, channel);
        self.sent_at(channel.id, start, bytes + OVERHEAD_BYTES) + self.oracle.delay(channel.id)
    }

    /// The channel on which the stream's next packet truly arrives first. When that one has no slot, another
    /// is used only if the packet arrives there before the others could have delivered what waits.
    fn choose(&self, view: &View<'_>, index: usize, queue_max: Option<Duration>) -> Option<usize> {
        let stream = &view.streams[index];
        let bytes_of =
            |channel: &ChannelView| stream.backlog_bytes.min(channel.packet_bytes as u64);
        let arrival = |&at: &usize| {
            let channel = &view.channels[at];
            self.arrival(view.now, channel, bytes_of(channel) as f64)
        };
        let is_short = |&at: &usize| {
            let wait = self.free_at(view.now, &view.channels[at]).since(view.now);
            queue_max.is_none_or(|most| wait <= most)
        };
        let free = || free_channels(view, index).filter(is_short);
        let best_free = free().map(|at| (arrival(&at), at)).min()?;
        let usable = |&at: &usize| view.channels[at].slots == 0 && stream.may_use(at);
        let (first, here) = best_free;
        let before_last = stream
            .backlog_bytes
            .saturating_sub(bytes_of(&view.channels[here])) as f64;
        let others = (0..view.channels.len()).filter(usable).map(|at| {
            let channel = &view.channels[at];
            let until = first - self.oracle.delay(channel.id);
            let from = self.free_at(view.now, channel);
            if until > from {
                self.oracle.bytes(channel.id, from, until)
            } else {
                0.0
            }
        });
        (others.sum::<f64>() <= before_last).then_some(here)
    }

    /// Bytes that the stream may still send with precedence in this window, in bytes.
    fn allowance(&mut self, now: Instant, stream: StreamId, claim: Claim) -> f64 {
        let place = self.account(now, stream, claim);
        let account = &self.accounts[place];
        (claim.bytes_per_s + account.delta) * claim.window.as_secs_f64() - account.sent_bytes
    }

    /// The account of a promised stream, moved on to the window of `now`.
    fn account(&mut self, now: Instant, stream: StreamId, claim: Claim) -> usize {
        let window = window_of(now, claim);
        let place = match self.accounts.binary_search_by_key(&stream, |a| a.id) {
            Ok(place) => place,
            Err(place) => {
                let account = Account {
                    id: stream,
                    window,
                    sent_bytes: 0.0,
                    delta: 0.0,
                    owed_bytes: 0.0,
                    arriving: [0.0; WINDOWS_AHEAD],
                };
                self.accounts.insert(place, account);
                place
            }
        };
        let account = &mut self.accounts[place];
        let passed = window.saturating_sub(account.window);
        for _ in 0..passed.min(WINDOWS_AHEAD as u64) {
            account.settle(claim);
            account.arriving.rotate_left(1);
            account.arriving[WINDOWS_AHEAD - 1] = 0.0;
        }
        if passed > 0 {
            account.window = window;
            account.sent_bytes = 0.0;
        }
        place
    }

    /// Promised streams in order of rank, then the others.
    fn pick(&mut self, view: &View<'_>) -> Option<(usize, usize)> {
        let mut best: Option<(usize, usize, u32)> = None;
        for (index, stream) in view.streams.iter().enumerate() {
            let Some(claim) = stream.claim.filter(|_| stream.is_waiting()) else {
                continue;
            };
            if best.is_none_or(|(.., rank)| claim.rank < rank)
                && self.allowance(view.now, stream.id, claim) > 0.0
                && let Some(channel) = self.choose(view, index, None)
            {
                best = Some((index, channel, claim.rank));
            }
        }
        if let Some((stream, channel, _)) = best {
            return Some((stream, channel));
        }
        let accept = |stream| self.choose(view, stream, Some(ELASTIC_QUEUE));
        self.picker.pick_with(view, accept)
    }

    /// Takes note of what a link was given; returns when it arrives.
    fn enqueue(&mut self, now: Instant, channel: &ChannelView, bytes: f64) -> Instant {
        let given = bytes + OVERHEAD_BYTES;
        let by_queue = self.sent_at(channel.id, self.free_at(now, channel), given);
        // No more can wait there than is in flight: the headers are a guess, and packets get lost.
        let in_flight = channel.in_flight_bytes as f64 + given;
        let free_at = by_queue.min(self.sent_at(channel.id, now, in_flight));
        let id = channel.id;
        match self.queues.iter_mut().find(|queue| queue.id == id) {
            Some(queue) => queue.free_at = free_at,
            None => self.queues.push(Queue { id, free_at }),
        }
        free_at + self.oracle.delay(id)
    }

    /// Accounts for the data of a promised stream; returns whether that was within its allowance.
    fn reserve(&mut self, now: Instant, stream: &StreamView, bytes: f64, arrives: Instant) -> bool {
        let Some(claim) = stream.claim else {
            return false;
        };
        let is_within = self.allowance(now, stream.id, claim) > 0.0;
        let place = self.account(now, stream.id, claim);
        let account = &mut self.accounts[place];
        let ahead = window_of(arrives, claim).saturating_sub(account.window) as usize;
        account.arriving[ahead.min(WINDOWS_AHEAD - 1)] += bytes;
        if is_within {
            account.sent_bytes += bytes;
        }
        is_within
    }
}

impl Account {
    /// Sets δ after a window, by what arrived in it. What makes up for earlier windows is no excess, for which a
    /// stream that has just caught up would lose precedence; and what is still owed may be sent.
    fn settle(&mut self, claim: Claim) {
        let window_s = claim.window.as_secs_f64();
        let beyond = self.arriving[0] - claim.bytes_per_s * window_s;
        let excess = (beyond - self.owed_bytes).max(0.0);
        self.owed_bytes = (self.owed_bytes - beyond).max(0.0);
        self.delta = if self.owed_bytes > 0.0 {
            self.owed_bytes.max(-2.0 * beyond) / window_s
        } else if excess > BETA * claim.bytes_per_s * window_s {
            -0.5 * excess / window_s
        } else {
            0.0
        };
    }
}

fn window_of(at: Instant, claim: Claim) -> u64 {
    let window = (claim.window.as_nanos() as u64).max(1);
    at.as_nanos() / window
}

impl Scheduler for Opt {
    fn next(&mut self, view: &View<'_>) -> Decision {
        if view.channels.iter().all(|channel| channel.slots == 0) {
            return Decision::Wait;
        }
        one_channel(self.pick(view))
    }

    fn sent(&mut self, view: &View<'_>, stream: usize, channels: ChannelMask, bytes: usize) {
        let stream = &view.streams[stream];
        let mut arrives = Instant::FAR_FUTURE;
        for channel in channels.iter() {
            let at = self.enqueue(view.now, &view.channels[channel], bytes as f64);
            arrives = arrives.min(at);
        }
        if !self.reserve(view.now, stream, bytes as f64, arrives) {
            self.picker.charge(stream, bytes);
        }
    }

    fn forget(&mut self, stream: StreamId) {
        self.picker.forget(stream);
        if let Ok(place) = self.accounts.binary_search_by_key(&stream, |a| a.id) {
            self.accounts.remove(place);
        }
    }
}

#[cfg(test)]
mod tests;
