//! The far ends of a session's channels: what the peer's other sessions were promised on the interfaces where the channels end, so that
//! no node promises what another one promised to the same peer.
//!
//! An end that receives streams, and has other sessions, says so, in NEIGHBOURS. Then its peer states what it promised, in PROMISED, and the
//! end states to each of its sessions what the others were promised, in BESIDE (`spec/wire.md` §4). Between nodes that have no other
//! sessions, nothing is stated. A path has one account: that of its uplink, or that of its far end if more is promised to others there.

use std::{sync::Arc, time::Duration};

use anabranch_admission::{Kind, Reservation, Standing};
use anabranch_base::{ChannelId, Instant, Rate, SessionId, SocketId};

use super::Session;
use crate::{
    reservations::Reservations,
    wire::{
        Control, VERSION_OF_PROMISES,
        promised::{PROMISED_MAX, Promised},
    },
};

/// Time after which promises are stated again while a channel carries data, and while it does not.
const REFRESH: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// A statement that was not repeated for so long is forgotten.
pub(crate) const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// Rates of others are not continued for longer without a new statement.
const CONTINUED_FOR: Duration = Duration::from_secs(2);
/// Sockets that stand for interfaces of the peer.
const FAR: u64 = 1 << 63;
/// The session that stands for all sessions of other nodes. Its promises yield to equally old ones of this node.
const OTHERS: SessionId = SessionId(u64::MAX);

/// The peer's interface at which a channel ends, as it states it.
#[derive(Clone, Debug)]
pub(super) struct FarEnd {
    pub(super) interface: u64,
    pub(super) rate: Rate,
    pub(super) busy: u64,
    pub(super) promised: Vec<Promised>,
}

/// Statements of both ends. Key: session.
#[derive(Debug, Default)]
pub(super) struct FarEnds {
    /// Of the peer, on what it promised; the engine takes them.
    announced: Vec<(ChannelId, Vec<Promised>)>,
    /// Of the peer, on what others were promised.
    known: Vec<Known>,
    /// Of this end: the time of the last one, and the promises then.
    stated: Option<(Instant, u64)>,
    is_any_stated: bool,
}

/// Key: channel.
#[derive(Debug)]
struct Known {
    channel: ChannelId,
    at: Instant,
    end: FarEnd,
    /// Bytes of others that arrived there until then, as far as they were stated.
    bytes: f64,
    /// Rate of the promises to others, in bits per second.
    reserved_bps: f64,
    /// With what this session promised there.
    reservations: Arc<Reservations>,
}

impl Known {
    fn is_fresh(&self, now: Instant) -> bool {
        now.since(self.at) < FORGOTTEN_AFTER
    }

    /// Bytes of others that arrived there, with those since the last statement.
    fn bytes(&self, now: Instant) -> f64 {
        let passed = now.since(self.at).min(CONTINUED_FOR);
        self.bytes + self.end.rate.as_bps() as f64 / 8.0 * passed.as_secs_f64()
    }
}

/// Account at the far end of a path, in place of that of its uplink.
pub(crate) struct Far {
    pub(crate) interface: SocketId,
    pub(crate) bytes: u64,
    pub(crate) busy: usize,
    pub(crate) reserved_bps: f64,
    pub(crate) promised: Arc<Reservations>,
}

/// Promises in force as a list for a frame, in order of precedence. Where there are too many, the last stands for the rest.
pub(crate) fn listed(now: Instant, mut promises: Vec<Reservation>) -> Vec<Promised> {
    promises.retain(|one| one.standing.kind != Kind::Waiting && one.bps >= 1.0);
    promises.sort_by_key(|one| one.standing);
    if promises.len() > PROMISED_MAX {
        let rest: f64 = promises[PROMISED_MAX..].iter().map(|one| one.bps).sum();
        promises.truncate(PROMISED_MAX);
        promises[PROMISED_MAX - 1].bps += rest;
    }
    let listed = promises.iter().map(|one| Promised {
        is_durable: one.standing.kind == Kind::Durable,
        age: now.since(one.standing.since),
        rate: Rate::from_bps(one.bps as u64),
    });
    listed.collect()
}

/// The promises of a frame, as those of `session`.
pub(crate) fn reservations(
    now: Instant,
    session: SessionId,
    list: &[Promised],
) -> impl Iterator<Item = Reservation> {
    list.iter().map(move |one| Reservation {
        standing: Standing {
            kind: if one.is_durable {
                Kind::Durable
            } else {
                Kind::Renewable
            },
            since: now - one.age,
            session,
        },
        tenant: None,
        bps: one.rate.as_bps() as f64,
    })
}

impl Session {
    /// Notes what the peer promised on a channel; nothing of a peer that has not shown its right.
    pub(super) fn note_announced(&mut self, channel: ChannelId, list: Vec<Promised>) {
        if self.probation.is_some() {
            return;
        }
        let announced = &mut self.far_ends().announced;
        announced.retain(|(known, _)| *known != channel);
        announced.push((channel, list));
    }

    /// Takes what the peer has stated since the last call, by channel.
    pub(crate) fn take_announced(&mut self) -> Vec<(ChannelId, Vec<Promised>)> {
        match self.neighbours.far_ends.as_mut() {
            Some(far) => std::mem::take(&mut far.announced),
            None => Vec::new(),
        }
    }

    /// Notes what the peer states of its interface at the end of a channel.
    pub(super) fn note_far_end(&mut self, now: Instant, channel: ChannelId, end: FarEnd) {
        let others = reservations(now, OTHERS, &end.promised);
        let reserved_bps = others.map(|one| one.bps).sum();
        if reserved_bps == 0.0 && self.neighbours.far_ends.is_none() {
            return;
        }
        // What this session promised on all its channels that end there.
        let known = self.neighbours.far_ends.iter().flat_map(|far| &far.known);
        let there = known.filter(|known| known.end.interface == end.interface);
        let there: Vec<ChannelId> = there.map(|known| known.channel).chain([channel]).collect();
        let of_paths = self.channels.of_paths();
        let mut all = self.promised_on(&of_paths, |on| there.contains(&on));
        all.extend(reservations(now, OTHERS, &end.promised));
        let known = &mut self.far_ends().known;
        known.retain(|known| known.is_fresh(now));
        let before = known.iter().position(|known| known.channel == channel);
        let bytes = before.map_or(0.0, |at| known.swap_remove(at).bytes(now));
        known.push(Known {
            channel,
            at: now,
            end,
            bytes,
            reserved_bps,
            reservations: Arc::new(Reservations::of(&all)),
        });
    }

    /// True if the peer stated anything of far ends.
    pub(crate) fn has_far_ends(&self) -> bool {
        let far = self.neighbours.far_ends.as_ref();
        far.is_some_and(|far| !far.known.is_empty())
    }

    /// The account at the far end of a channel; `None`: nothing is known of it.
    pub(crate) fn far_end(&self, now: Instant, channel: Option<ChannelId>) -> Option<Far> {
        let far = self.neighbours.far_ends.as_ref()?;
        let mut known = far.known.iter();
        let known = known.find(|known| Some(known.channel) == channel && known.is_fresh(now))?;
        Some(Far {
            interface: SocketId(FAR | known.end.interface),
            bytes: known.bytes(now) as u64,
            busy: known.end.busy.min(64) as usize,
            reserved_bps: known.reserved_bps,
            promised: known.reservations.clone(),
        })
    }

    /// Promises in force on some channels.
    fn promised_on(
        &self,
        of_paths: &[Option<ChannelId>],
        is_on: impl Fn(ChannelId) -> bool,
    ) -> Vec<Reservation> {
        let all = self.promises.reservations(of_paths);
        let there = all.filter(|(path, one)| {
            one.standing.kind != Kind::Waiting && of_paths[*path].is_some_and(&is_on)
        });
        there.map(|(_, one)| one).collect()
    }

    /// States what this end promised on each channel, if that changed or was not stated for a while.
    pub(super) fn state_promises(&mut self, now: Instant) {
        let is_any_stated = |session: &Self| {
            let far = session.neighbours.far_ends.as_ref();
            far.is_some_and(|far| far.is_any_stated)
        };
        if !self.establishment.is_asked || self.promises.is_empty() && !is_any_stated(self) {
            return;
        }
        let changes = self.promises.changes();
        let is_active = |at: Instant| now.since(at) < REFRESH[0];
        let is_idle = !(self.channels.states.iter()).any(|state| is_active(state.active_at));
        let far = self.far_ends();
        let is_due = far
            .stated
            .is_none_or(|(at, of)| of != changes || now.since(at) >= REFRESH[usize::from(is_idle)]);
        if !is_due {
            return;
        }
        far.stated = Some((now, changes));
        let was_any = std::mem::take(&mut far.is_any_stated);
        let of_paths = self.channels.of_paths();
        let mut is_any = false;
        for index in 0..self.channels.states.len() {
            let channel = self.channels.states[index].id;
            let list = listed(now, self.promised_on(&of_paths, |on| on == channel));
            is_any |= !list.is_empty();
            if list.is_empty() && !was_any {
                continue;
            }
            let waiting = &mut self.channels.states[index].control;
            waiting.retain(|control| !matches!(control, Control::Promised(_)));
            waiting.push_back(Control::Promised(list));
            self.pump.is_due = true;
        }
        self.far_ends().is_any_stated = is_any;
    }

    /// States to the peer, once it sends a stream, that this node has other sessions.
    pub(crate) fn ask_for_promises(&mut self) {
        let establishment = &mut self.establishment;
        if establishment.has_asked
            || establishment.version() < VERSION_OF_PROMISES
            || self.probation.is_some()
            || self.streams.recv.is_empty()
        {
            return;
        }
        establishment.has_asked = true;
        self.control.push_back(Control::Neighbours);
        self.pump.is_due = true;
    }

    /// States to the peer what others were promised on the interface of a channel.
    pub(crate) fn state_beside(&mut self, channel: ChannelId, beside: Control) {
        if self.establishment.version() < VERSION_OF_PROMISES {
            return;
        }
        if let Some(state) = self.channels.get_mut(channel) {
            let waiting = &mut state.control;
            waiting.retain(|control| !matches!(control, Control::Beside { .. }));
            waiting.push_back(beside);
            self.pump.is_due = true;
        }
    }

    fn far_ends(&mut self) -> &mut FarEnds {
        self.neighbours.far_ends.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_long_list_stands_for_the_rest() {
        let now = Instant::from_secs(100);
        let one = |since: u64, kind: Kind| Reservation {
            standing: Standing {
                kind,
                since: Instant::from_secs(since),
                session: SessionId(1),
            },
            tenant: None,
            bps: 1e6,
        };
        let mut promises: Vec<_> = (10..19).map(|since| one(since, Kind::Renewable)).collect();
        promises.push(one(0, Kind::Waiting));
        promises.push(one(50, Kind::Durable));
        let list = listed(now, promises);
        assert_eq!(list.len(), PROMISED_MAX);
        assert!(list[0].is_durable && !list[1].is_durable);
        assert_eq!(list[0].age, Duration::from_secs(50));
        assert_eq!(list[5].age, Duration::from_secs(86));
        let total: u64 = list.iter().map(|one| one.rate.as_bps()).sum();
        assert_eq!(total, 10_000_000);
        let back: Vec<_> = reservations(now, SessionId(2), &list).collect();
        assert_eq!(back[5].standing.since, Instant::from_secs(14));
        assert_eq!(back[5].bps, 5e6);
    }
}
