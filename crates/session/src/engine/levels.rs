//! Levels of the uplinks: equal rates of the sessions that have more to send than an uplink carries (`level.rs`).

use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, SessionId, SocketId};
use anabranch_channel::{Channel, Controller, Endpoint};

use super::{
    Engine,
    level::{Level, SESSIONS_MIN, Seen},
};

/// Least and most time between two looks at an uplink.
const LOOK_EVERY: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Bytes that are delivered between two looks, unless that takes longer than [`LOOK_EVERY`]: some 40 packets.
const LOOK_BYTES: f64 = 60_000.0;
/// Time for which the smallest and the largest round trip are remembered, once or twice.
const BASE_FOR: Duration = Duration::from_secs(10);
/// Time over which changes of round trips are compared.
const SWING_FOR: Duration = Duration::from_secs(1);
/// Queue that is met, in seconds, and in bytes of packets of all sessions that happen to leave together.
const QUEUE_S: f64 = 0.005;
const QUEUE_BYTES: f64 = 9_000.0;
/// Looks without anything to send after which a channel does not count any more.
const IDLE_LOOKS: u32 = 2;

/// Key: node.
#[derive(Debug, Default)]
pub(super) struct Levels {
    by_uplink: BTreeMap<SocketId, OfUplink>,
    /// Sockets belong to other uplinks now.
    is_stale: bool,
    /// Only memory for a look.
    seen: Vec<Seen>,
}

#[derive(Debug, Default)]
struct OfUplink {
    level: Level,
    /// Channels that are busy.
    members: BTreeMap<ChannelId, Member>,
    /// Time of the last look, and of the next; `None`: there are too few members.
    looked_at: Instant,
    /// Begin of the running time of comparison.
    compared_at: Instant,
    due: Option<Instant>,
}

/// A busy channel.
#[derive(Clone, Copy, Debug)]
struct Member {
    session: SessionId,
    acked_bytes: u64,
    base: Base,
    /// Round trips in the running time of comparison, and their difference in the last.
    swing: Option<Extremes>,
    last_swing: Option<Duration>,
    idle: u32,
    was_bound: bool,
}

/// Round trips of a channel lately.
#[derive(Clone, Copy, Debug)]
struct Base {
    since: Instant,
    now: Extremes,
    before: Extremes,
}

/// The smallest and the largest round trip of some time.
#[derive(Clone, Copy, Debug)]
struct Extremes(Duration, Duration);

impl Extremes {
    const NONE: Self = Self(Duration::MAX, Duration::ZERO);

    fn with(self, other: Self) -> Self {
        Self(self.0.min(other.0), self.1.max(other.1))
    }
}

impl Base {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            now: Extremes::NONE,
            before: Extremes::NONE,
        }
    }

    /// Takes note of a round trip; returns how much longer it is than the smallest, and the largest is.
    fn note(&mut self, now: Instant, rtt: Duration) -> (Duration, Duration) {
        if now.since(self.since) >= BASE_FOR {
            (self.since, self.before) = (now, self.now);
            self.now = Extremes::NONE;
        }
        self.now = self.now.with(Extremes(rtt, rtt));
        let Extremes(least, most) = self.now.with(self.before);
        (rtt - least, most - least)
    }
}

impl OfUplink {
    /// Channels of a session among the members.
    fn of_session(&self, session: SessionId) -> usize {
        let members = self.members.values();
        members.filter(|one| one.session == session).count()
    }

    /// Removes members for which `is_over`, or that are idle.
    fn forget_idle(
        &mut self,
        is_over: impl Fn(ChannelId, SessionId) -> bool,
        endpoint: &mut Endpoint,
    ) {
        let before = self.members.len();
        let mut gone = 0;
        self.members.retain(|&id, member| {
            let is_left = member.idle < IDLE_LOOKS && !is_over(id, member.session);
            if !is_left {
                gone += usize::from(member.was_bound);
                if let Some(channel) = endpoint.channel(id) {
                    channel.set_ceiling(None);
                }
            }
            is_left
        });
        if before > self.members.len() {
            let bound = self.members.values().filter(|one| one.was_bound).count();
            self.level.leave(gone, bound);
        }
    }

    /// Looks at all members. O(n log n) for n of them.
    fn look(&mut self, now: Instant, endpoint: &mut Endpoint, seen: &mut Vec<Seen>) {
        let passed_s = now.since(self.looked_at).as_secs_f64().max(1e-3);
        self.looked_at = now;
        let mut sessions: BTreeMap<SessionId, f64> = BTreeMap::new();
        for member in self.members.values() {
            *sessions.entry(member.session).or_default() += 1.0;
        }
        seen.clear();
        let is_compared = now.since(self.compared_at) >= SWING_FOR;
        if is_compared {
            self.compared_at = now;
        }
        let mut acked_all = 0;
        let mut rtt_most = Duration::ZERO;
        for (id, member) in &mut self.members {
            let Some(channel) = endpoint.channel(*id) else {
                continue;
            };
            let load = channel.take_load();
            let acked = load.acked_bytes - member.acked_bytes;
            acked_all += acked;
            member.acked_bytes = load.acked_bytes;
            member.idle = if load.is_busy { 0 } else { member.idle + 1 };
            member.was_bound = load.is_capped;
            let queue = load.rtt.map(|rtt| member.base.note(now, rtt));
            if let (Some(swing), Some(rtt)) = (&mut member.swing, load.rtt) {
                *swing = swing.with(Extremes(rtt, rtt));
            }
            if is_compared {
                let last = member.swing.replace(Extremes::NONE);
                member.last_swing = last.map(|Extremes(least, most)| most.saturating_sub(least));
            }
            rtt_most = rtt_most.max(load.rtt.unwrap_or_default());
            seen.push(Seen {
                rate: acked as f64 / passed_s * sessions[&member.session],
                queue_s: queue.map(|(queue, most)| (queue.as_secs_f64(), most.as_secs_f64())),
                swing_s: member.last_swing.map(|swing| swing.as_secs_f64()),
                is_bound: load.is_capped,
            });
        }
        let rate = acked_all as f64 / passed_s;
        let threshold_s = QUEUE_S.max(QUEUE_BYTES / rate.max(1.0));
        let (level, sessions_count) = (&mut self.level, sessions.len());
        if level.look(now, sessions_count, seen, threshold_s) {
            for member in self.members.values_mut() {
                member.base = Base::new(now);
            }
        }
        for (id, member) in &self.members {
            if let Some(channel) = endpoint.channel(*id) {
                let rate = self
                    .level
                    .rate()
                    .map(|rate| rate / sessions[&member.session]);
                channel.set_ceiling(rate.map(rate_of));
            }
        }
        let [least, most] = LOOK_EVERY;
        let wait = Duration::from_secs_f64((LOOK_BYTES / rate.max(1.0)).min(1.0));
        self.due = Some(now + wait.max(rtt_most).clamp(least, most));
    }

    /// Stops looking while there are too few members.
    fn rest(&mut self, now: Instant) {
        let is_watched = self.members.len() >= SESSIONS_MIN || self.level.rate().is_some();
        if !is_watched {
            self.due = None;
        } else if self.due.is_none() {
            self.looked_at = now;
            self.due = Some(now + LOOK_EVERY[0]);
        }
    }
}

fn rate_of(bytes_per_s: f64) -> Rate {
    Rate::from_bps((bytes_per_s * 8.0) as u64)
}

impl Levels {
    /// Time of the next look.
    pub(super) fn due(&self) -> Option<Instant> {
        self.by_uplink.values().filter_map(|one| one.due).min()
    }

    /// Notes that sockets may belong to other uplinks now.
    pub(super) fn forget_sockets(&mut self) {
        self.is_stale = true;
    }

    /// Begins anew if sockets belong to other uplinks.
    fn refresh(&mut self, endpoint: &mut Endpoint) {
        if !std::mem::take(&mut self.is_stale) {
            return;
        }
        for id in self.by_uplink.values().flat_map(|one| one.members.keys()) {
            if let Some(channel) = endpoint.channel(*id) {
                channel.set_ceiling(None);
            }
        }
        self.by_uplink.clear();
    }
}

impl Engine {
    /// Notes that data was acknowledged on a channel of an uplink. O(log channels), and O(members) when it begins to be busy.
    pub(super) fn note_busy(
        &mut self,
        now: Instant,
        uplink: SocketId,
        (id, session): (ChannelId, SessionId),
    ) {
        if matches!(self.config.channel.controller, Controller::Fixed(_)) {
            return;
        }
        self.uplinks.levels.refresh(&mut self.endpoint);
        let known = self.uplinks.levels.by_uplink.get(&uplink);
        if known.is_some_and(|one| one.members.contains_key(&id))
            || !self.endpoint.peek(id).is_some_and(Channel::is_loaded)
            || self.is_promised_on(session, id)
        {
            return;
        }
        let Some(channel) = self.endpoint.channel(id) else {
            return;
        };
        let of_uplink = self.uplinks.levels.by_uplink.entry(uplink).or_default();
        if of_uplink.of_session(session) == 0 {
            of_uplink.level.join(of_uplink.members.len());
        }
        let load = channel.take_load();
        of_uplink.members.insert(
            id,
            Member {
                session,
                acked_bytes: load.acked_bytes,
                base: Base::new(now),
                swing: None,
                last_swing: None,
                idle: 0,
                was_bound: false,
            },
        );
        if let Some(member) = of_uplink.members.get_mut(&id)
            && let Some(rtt) = load.rtt
        {
            member.base.note(now, rtt);
        }
        channel.set_ceiling(of_uplink.level.rate().map(rate_of));
        of_uplink.rest(now);
    }

    fn is_promised_on(&self, session: SessionId, channel: ChannelId) -> bool {
        let session = self.sessions.get(&session);
        session.is_some_and(|session| session.is_promised_on(channel))
    }

    /// Looks at the uplinks that are due. O(busy channels), ten times a second at most.
    pub(super) fn level_uplinks(&mut self, now: Instant) {
        if self.uplinks.levels.due().is_none_or(|due| due > now) {
            return;
        }
        let mut levels = std::mem::take(&mut self.uplinks.levels);
        levels.refresh(&mut self.endpoint);
        for one in levels.by_uplink.values_mut() {
            if one.due.is_none_or(|due| due > now) {
                continue;
            }
            one.look(now, &mut self.endpoint, &mut levels.seen);
            let owners = &self.owners;
            let sessions = &self.sessions;
            let is_over = |id: ChannelId, session: SessionId| {
                let is_owned = owners.get(&id).is_some_and(|o| o.session == Some(session));
                let session = sessions.get(&session);
                !is_owned || session.is_none_or(|session| session.is_promised_on(id))
            };
            one.forget_idle(is_over, &mut self.endpoint);
            one.rest(now);
        }
        levels.by_uplink.retain(|_, one| !one.members.is_empty());
        self.uplinks.levels = levels;
    }
}
