//! Probability that an ADU handed over now would arrive in time: what goes before it, and the paths that it may take.
//!
//! Before it go its stream's own backlog; the streams that the scheduler serves first, with what they hold and what they will be
//! handed meanwhile, as measured lately; and of streams of the same priority, what their weights give them while it is sent. What
//! the paths carry is [`anabranch_estimate::on_time`]. A lost packet of a reliable stream comes a repair later; one of an unreliable
//! stream does not come.

use std::{cmp::Ordering, time::Duration};

use anabranch_base::{Instant, Rate, StreamId};
use anabranch_estimate::on_time::{PathNow, Question};
use anabranch_sched::ChannelView;
use anabranch_spec::ChannelChoice;
use bytes::Bytes;

use super::Session;
use crate::{event::SendError, send::SendStream};

/// Share of headers, as a factor of an application's bytes.
const OVERHEAD: f64 = 1.02;
/// Most paths that data is spread over.
const PATHS_MAX: usize = 64;
/// Time for which a stream of the same priority is taken to be handed as much as lately.
const SOON: Duration = Duration::from_millis(200);
/// Burst that a capped stream may send at once, in time at its cap.
const BURST: Duration = Duration::from_millis(50);

/// Probabilities that an ADU, if it were handed over now, would arrive at the peer's node in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chances {
    /// That it does, 0 to 1.
    pub on_time: f64,
    /// That it does if none of its packets is lost, 0 to 1 and at least as much: what the rates of the paths, and what goes before
    /// the ADU, leave of it.
    pub unless_lost: f64,
}

impl Chances {
    /// Of an ADU that cannot be in time.
    const NONE: Self = Self {
        on_time: 0.0,
        unless_lost: 0.0,
    };
}

/// Data of other streams that goes before an ADU.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// Bytes that wait.
    bytes: f64,
    /// Rate of those that are handed over from now on, in bytes per second.
    bytes_per_s: f64,
}

impl Session {
    /// Probabilities that an ADU of `bytes` on the stream, if handed over now, arrives `within` this time; `None` while too little is
    /// known of the paths, or if there is no such stream.
    pub(crate) fn chances(
        &self,
        now: Instant,
        stream: StreamId,
        bytes: usize,
        within: Duration,
    ) -> Option<Chances> {
        let send = self.streams.send.get(&stream)?;
        let own = send.ahead_bytes() + bytes as u64;
        let capped = |cap: Rate| own > cap.bytes_in(within.saturating_add(BURST));
        if send.spec.cap.is_some_and(capped) {
            return Some(Chances::NONE);
        }
        let ahead = self.ahead_of(send, own as f64);
        let mut paths = [PathNow::default(); PATHS_MAX];
        let mut repairs = [Duration::ZERO; PATHS_MAX];
        let mut count = 0;
        let mut train = Train::default();
        for channel in self.channels_for(send) {
            let Some(path) = self.channels.estimator.place(channel.id) else {
                continue;
            };
            if count == PATHS_MAX {
                break;
            }
            paths[count] = PathNow {
                path,
                in_flight_bytes: channel.in_flight_bytes as f64,
                rtt_min: channel.rtt_min,
                bytes_per_s: channel.rate_bytes_per_s,
                reserved_bytes_per_s: 0.0,
            };
            repairs[count] = repair(channel);
            count += 1;
            train.add(channel);
        }
        let paths = &mut paths[..count];
        let total: f64 = paths.iter().map(|path| path.bytes_per_s).sum();
        for path in &mut *paths {
            path.reserved_bytes_per_s = ahead.bytes_per_s * OVERHEAD * share(path, total, count);
        }
        // What waits of the stream is given up at its deadlines.
        let expiry = send.last_deadline();
        let expires = expiry.map_or(Duration::ZERO, |at| at.since(now));
        let expiring = expiry.map_or(0.0, |_| send.ahead_bytes() as f64);
        let at = |within: Duration| {
            let question = Question {
                paths,
                bytes: (own as f64 - expiring + ahead.bytes) * OVERHEAD,
                within,
                expiring_bytes: expiring * OVERHEAD,
                expires,
                is_redundant: send.spec.redundant,
                phase: 0.0,
                window: Duration::ZERO,
            };
            self.channels.estimator.on_time(now, question)
        };
        let whole = at(within)?;
        let exposed = train.exposed(bytes, send);
        let lost = self.loses(send, exposed, paths, total);
        let chances = |on_time: f64| Chances {
            on_time: on_time.min(whole),
            unless_lost: whole,
        };
        if lost <= 0.0 {
            return Some(chances(whole));
        }
        // The packets after the lost one take time as well: half of that of the repair, on average.
        let repair = || self.mean_repair(exposed, (paths, &repairs[..count]), total);
        let repaired = match send.spec.reliable {
            true => at(within.saturating_sub(repair() / 2)).unwrap_or(0.0),
            false => 0.0,
        };
        Some(chances((1.0 - lost) * whole + lost * repaired))
    }

    /// Probability that a packet is lost among so many that are spread over these paths by their rates, of `total` bytes per second;
    /// or, if every path carries all of them, that a packet is lost on each.
    fn loses(&self, send: &SendStream, packets: f64, paths: &[PathNow], total: f64) -> f64 {
        if send.spec.redundant {
            let all = paths.iter().map(|path| 1.0 - self.loss_free(path, packets));
            return all.product();
        }
        let of = |path: &PathNow| self.loss_free(path, packets * share(path, total, paths.len()));
        let none = paths.iter().map(of);
        1.0 - none.product::<f64>()
    }

    /// Probability that none of so many packets is lost on the path. Of a path that carries a part of a packet, that part is the
    /// probability that it carries one more: a packet goes over one of many paths and is not exposed to the losses of all.
    fn loss_free(&self, path: &PathNow, packets: f64) -> f64 {
        let free = |packets: f64| match packets >= 1.0 {
            true => (self.channels.estimator).loss_free(path.path, packets as usize),
            false => 1.0,
        };
        let (whole, part) = (packets.floor(), packets.fract());
        let one_more = if part > 0.0 { free(whole + 1.0) } else { 0.0 };
        (1.0 - part) * free(whole) + part * one_more
    }

    /// Mean time of the repair of one of so many packets, by the probability that a path loses it.
    fn mean_repair(
        &self,
        packets: f64,
        (paths, repairs): (&[PathNow], &[Duration]),
        total: f64,
    ) -> Duration {
        let (mut weighted_s, mut weight) = (0.0, 0.0);
        for (path, repair) in paths.iter().zip(repairs) {
            let lost = 1.0 - self.loss_free(path, packets * share(path, total, paths.len()));
            weighted_s += lost * repair.as_secs_f64();
            weight += lost;
        }
        match weight > 0.0 {
            true => Duration::from_secs_f64(weighted_s / weight),
            false => repairs.iter().copied().max().unwrap_or_default(),
        }
    }

    /// Queues an ADU unless it is too improbable that it arrives within its lifetime.
    pub(crate) fn send_if_on_time(
        &mut self,
        now: Instant,
        stream: StreamId,
        data: Bytes,
        least: f64,
    ) -> Result<u64, SendError> {
        let send = self.streams.send.get(&stream);
        let lifetime = send.and_then(|send| send.spec.lifetime);
        let chances = lifetime.and_then(|lifetime| self.chances(now, stream, data.len(), lifetime));
        match chances.map(|chances| chances.on_time) {
            Some(probability) if probability < least => {
                Err(SendError::Unlikely { probability, least })
            }
            _ => self.send(now, stream, data, 0),
        }
    }

    /// The channels that a stream may use.
    fn channels_for<'a>(&'a self, send: &SendStream) -> impl Iterator<Item = &'a ChannelView> + 'a {
        let scratch = &self.pump.scratch;
        let choice = ChannelChoice::of(&send.spec, &self.config.paths, scratch.traits.iter());
        let pinned = send.spec.pinned;
        (scratch.channels.iter().enumerate())
            .filter(move |(place, _)| choice.all().contains(*place))
            .map(|(_, channel)| channel)
            .filter(move |channel| pinned.is_none_or(|only| only == channel.id))
    }

    /// Data of other streams that goes before `own` bytes of this one.
    fn ahead_of(&self, send: &SendStream, own: f64) -> Ahead {
        let mut ahead = Ahead::default();
        for other in self.streams.active().filter(|other| other.id != send.id) {
            let waiting = other.backlog_bytes() as f64;
            match self.precedence(other, send) {
                Ordering::Less => ahead.bytes += waiting,
                Ordering::Equal => {
                    let demand = self.shares.demand_bytes_per_s(other.id);
                    let ratio = f64::from(other.spec.weight) / f64::from(send.spec.weight);
                    let soon = waiting + demand * SOON.as_secs_f64();
                    ahead.bytes += soon.min(ratio * own);
                }
                Ordering::Greater => {}
            }
        }
        for (stream, demand) in self.shares.demands() {
            let other = self.streams.send.get(&stream);
            let Some(other) = other.filter(|other| other.id != send.id) else {
                continue;
            };
            if self.precedence(other, send) == Ordering::Less {
                let claim = self.promises.claim(stream);
                let most = claim.map_or(f64::INFINITY, |claim| claim.bytes_per_s);
                ahead.bytes_per_s += demand.min(most);
            }
        }
        ahead
    }

    /// Order in which the data of two streams is served: promised streams first, by rank, then by priority.
    fn precedence(&self, one: &SendStream, other: &SendStream) -> Ordering {
        let rank = |send: &SendStream| self.promises.claim(send.id).map(|claim| claim.rank);
        match (rank(one), rank(other)) {
            (Some(one), Some(other)) => one.cmp(&other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => other.spec.priority.cmp(&one.spec.priority),
        }
    }
}

/// Share of a path among `count` paths of `total` bytes per second: by its rate, or all alike while rates are unknown.
fn share(path: &PathNow, total: f64, count: usize) -> f64 {
    match total > 0.0 {
        true => path.bytes_per_s / total,
        false => 1.0 / count as f64,
    }
}

/// Time by which a packet is later that was lost once: one round trip and the time threshold [RFC 9002 §6.1.2].
fn repair(channel: &ChannelView) -> Duration {
    channel.rtt_smoothed * 9 / 8
}

/// Packets of an ADU on its paths.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// Bytes of the smallest packet.
    packet_bytes: usize,
    /// The longest [`repair`] of its paths.
    repair: Duration,
    /// Rate of the paths together, in bytes per second.
    bytes_per_s: f64,
}

impl Default for Train {
    fn default() -> Self {
        Self {
            packet_bytes: usize::MAX,
            repair: Duration::ZERO,
            bytes_per_s: 0.0,
        }
    }
}

impl Train {
    fn add(&mut self, channel: &ChannelView) {
        self.packet_bytes = self.packet_bytes.min(channel.packet_bytes.max(1));
        self.repair = self.repair.max(repair(channel));
        self.bytes_per_s += channel.rate_bytes_per_s;
    }

    /// Packets of an ADU whose loss delays it, or is the end of it. Of a reliable stream, what is lost before the last ones is
    /// repaired while they are sent.
    fn exposed(&self, bytes: usize, send: &SendStream) -> f64 {
        let mut bytes = bytes as f64;
        if send.spec.reliable {
            bytes = bytes.min(self.bytes_per_s * self.repair.as_secs_f64());
        }
        (bytes / self.packet_bytes as f64).ceil().max(1.0)
    }
}
