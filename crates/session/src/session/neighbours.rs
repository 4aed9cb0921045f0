//! Neighbours: the other sessions of the node, as far as they use the same uplinks.
//!
//! An *uplink* is a local socket, or all sockets of one interface, or all that share a meter. Whether sessions that begin at one share its capacity is judged by
//! the evidence of their paths ([`anabranch_admission::promise`]).

use std::{sync::Arc, time::Duration};

use anabranch_admission::{Reservation, Uplink};
use anabranch_base::{ChannelId, Instant, SocketId};
use anabranch_spec::ChannelMask;

use super::{
    Session,
    far_end::{Far, FarEnds},
};
use crate::reservations::Reservations;

/// Others are left so many times the rate that they use, up to what they were promised.
const RETURNED: f64 = 2.0;
/// Elastic data waits for so long when a promise of another session is behind, and for so long at a stretch.
const HOLD: Duration = Duration::from_millis(250);
const HOLD_MAX: Duration = Duration::from_secs(1);
/// The smallest part of a flow's share that a session takes beside others' promises.
const PART_MIN: f64 = 0.2;

/// Uplink of a path, or its far end: traffic and promises of the sessions that use it.
#[derive(Debug)]
pub(crate) struct OnUplink {
    pub(crate) uplink: SocketId,
    /// Bytes of other sessions acknowledged so far.
    pub(crate) acked_bytes: u64,
    /// Other sessions that carried something lately.
    pub(crate) busy: usize,
    /// Data of a promise in force of another session there is late.
    pub(crate) are_behind: bool,
    /// Promises of all sessions; `None`: the others have none.
    pub(crate) promised: Option<Arc<Reservations>>,
}

/// A channel on an uplink whose capacity it shares with promises of other sessions.
#[derive(Clone, Debug)]
struct Beside {
    channel: ChannelId,
    promised: Arc<Reservations>,
    /// Place of this session among those with promises; `None`: it has none there.
    own: Option<usize>,
    /// Rate of all others on the uplink, in bits per second, and the number of those that are busy.
    others_bps: f64,
    busy: usize,
}

impl Beside {
    /// The part of one flow's share that the channel takes, at a rate of its own of `bps` bits per second. `shares_bps` is only
    /// memory.
    ///
    /// The capacity of the uplink goes to the promises in order of precedence, and the rest is divided evenly; the parts of all sessions
    /// are in proportion to that. What others do not use of their promises is lent; a session that begins to use it has it back after
    /// a few windows of measurement.
    fn part(&self, bps: f64, shares_bps: &mut Vec<f64>) -> f64 {
        let promised_bps = self.promised.beside_bps(self.own);
        let used = (RETURNED * self.others_bps / promised_bps).min(1.0);
        let mut left_bps = bps + self.others_bps;
        shares_bps.clear();
        shares_bps.resize(self.promised.places(), 0.0);
        for &(whose, bps) in self.promised.by_precedence() {
            let is_own = Some(whose) == self.own;
            let due_bps = if is_own { bps } else { used * bps };
            let given_bps = due_bps.min(left_bps);
            shares_bps[whose] += given_bps;
            left_bps -= given_bps;
        }
        // Taken out, so that the largest of the rest is that of another session.
        let own_bps = self
            .own
            .map_or(0.0, |own| std::mem::take(&mut shares_bps[own]));
        let most_bps = shares_bps.iter().copied().fold(0.0, f64::max);
        let rest_bps = left_bps / (1 + self.busy.max(1)) as f64;
        let part = (own_bps + rest_bps) / (most_bps + rest_bps);
        // Nobody sends anything: NaN.
        if part.is_nan() {
            1.0
        } else {
            part.clamp(PART_MIN, 1.0)
        }
    }
}

/// Promises of a session as the others of the node see them, with what they were read from: its paths and a number of
/// [`Promises::changes`](anabranch_admission::Promises::changes).
#[derive(Debug, Default)]
struct Published {
    reservations: Vec<(SocketId, Reservation)>,
    changes: Option<u64>,
    sockets: Vec<SocketId>,
    channels: Vec<Option<ChannelId>>,
}

/// Neighbours of a session. Key: session.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// The uplink of each path, and the bytes of others acknowledged on it so far; empty while there are no others.
    acked_bytes: Vec<(SocketId, u64)>,
    /// The first path on the same uplink as each path.
    uplinks: Vec<usize>,
    /// The same bytes at the end of the last window, and its time.
    before: Vec<(SocketId, u64)>,
    before_at: Option<Instant>,
    /// Rates of others in that window, in bits per second.
    rates_bps: Vec<f64>,
    beside: Vec<Beside>,
    /// `beside` was updated, and the channels' shares were not.
    is_new: bool,
    /// Data of a promised stream of this session is late.
    is_behind: bool,
    /// The time until which none of its promised data can be late, and the number of changes of promises for which that holds.
    in_time: Option<(Instant, u64)>,
    /// `None` while nothing was ever held.
    hold: Option<Box<Hold>>,
    /// `None` while nobody stated anything.
    pub(super) far_ends: Option<Box<FarEnds>>,
    /// `None` while the session never had promises, as that of a stranger.
    published: Option<Box<Published>>,
    /// First paths on uplinks with promises of others; only memory, as the next.
    firsts: Vec<usize>,
    shares_bps: Vec<f64>,
}

/// Pause of elastic data for a promise of another session that is behind.
#[derive(Debug, Default)]
struct Hold {
    channels: Vec<ChannelId>,
    /// Time at which it began, and the time at which it ends unless it is prolonged.
    since: Option<Instant>,
    until: Option<Instant>,
}

impl Hold {
    /// Begins or prolongs the pause of these channels. After [`HOLD_MAX`] as long goes by without one.
    fn renew(&mut self, now: Instant, channels: impl Iterator<Item = ChannelId>) {
        if self
            .since
            .is_some_and(|since| now.since(since) >= 2 * HOLD_MAX)
        {
            self.since = None;
        }
        self.channels.clear();
        self.channels.extend(channels);
        let is_due = !self.channels.is_empty();
        let since = *self.since.get_or_insert(now);
        let may_hold = is_due && now.since(since) < HOLD_MAX;
        if !is_due && self.until.is_none_or(|until| until <= now) {
            self.since = None;
        }
        self.until = may_hold.then(|| now + HOLD);
    }

    /// The time until which a channel is held.
    fn until(&self, now: Instant, channel: ChannelId) -> Option<Instant> {
        let until = self.until.filter(|until| *until > now)?;
        self.channels.contains(&channel).then_some(until)
    }
}

impl Neighbours {
    /// True if there has been another session.
    pub(super) fn are_known(&self) -> bool {
        !self.acked_bytes.is_empty()
    }

    /// Rates of others on the uplink of each path since the last call, in bits per second, and the first path on the same uplink.
    pub(super) fn take_rates(&mut self, now: Instant) -> (&[usize], &[f64]) {
        let passed_s = self.before_at.map_or(0.0, |at| now.since(at).as_secs_f64());
        // An uplink that no path of the session began at before has no rate yet.
        let before = |uplink: SocketId| self.before.iter().find(|(known, _)| *known == uplink);
        let rate = |(uplink, bytes): &(SocketId, u64)| match before(*uplink) {
            Some((_, before)) if passed_s > 0.0 => {
                bytes.saturating_sub(*before) as f64 * 8.0 / passed_s
            }
            _ => 0.0,
        };
        self.rates_bps.clear();
        self.rates_bps.extend(self.acked_bytes.iter().map(rate));
        self.before.clone_from(&self.acked_bytes);
        self.before_at = Some(now);
        (&self.uplinks, &self.rates_bps)
    }

    /// Notes whether data of a promised stream of this session is late.
    pub(super) fn set_behind(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    /// True if no data of a promised stream can be late yet, after so many changes of promises.
    pub(super) fn is_in_time(&self, now: Instant, changes: u64) -> bool {
        let known = self.in_time.filter(|(_, of)| *of == changes);
        known.is_some_and(|(until, _)| now <= until)
    }

    /// Notes the time until which no data can be late.
    pub(super) fn set_in_time(&mut self, until: Instant, changes: u64) {
        self.in_time = Some((until, changes));
    }

    /// The time until which elastic data on a channel waits for promises of others; `None`: it need not.
    pub(super) fn held_until(&self, now: Instant, channel: ChannelId) -> Option<Instant> {
        self.hold.as_ref()?.until(now, channel)
    }

    /// True if [`Self::part_of`] may have changed since the last call.
    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    fn beside(&self, channel: ChannelId) -> Option<&Beside> {
        self.beside.iter().find(|beside| beside.channel == channel)
    }

    /// True if other sessions have promises on the channel's uplink, and share its capacity.
    pub(super) fn are_promised_beside(&self, channel: ChannelId) -> bool {
        self.beside(channel).is_some()
    }

    /// The part of one flow's share that a channel takes beside them, at a rate of its own of `bps` bits per second.
    pub(super) fn part_of(&mut self, channel: ChannelId, bps: f64) -> f64 {
        let beside = self.beside.iter().find(|beside| beside.channel == channel);
        beside.map_or(1.0, |beside| beside.part(bps, &mut self.shares_bps))
    }
}

impl Session {
    /// True if windows of capacity end now: the session needs to know its neighbours.
    pub(crate) fn is_window_over(&self, now: Instant) -> bool {
        let due = self.channels.estimator.due();
        due.is_some_and(|at| at <= now)
    }

    /// True if other sessions were noted beside it.
    pub(crate) fn has_neighbours(&self) -> bool {
        self.neighbours.are_known()
    }

    /// True if data of a promised stream is late.
    pub(crate) fn is_behind_on_promises(&self) -> bool {
        self.neighbours.is_behind
    }

    /// True if data of a promise of this session is sent on a channel.
    pub(crate) fn is_promised_on(&self, channel: ChannelId) -> bool {
        self.promises.is_on(channel)
    }

    /// Its channels.
    pub(crate) fn channel_ids(&self) -> impl Iterator<Item = ChannelId> {
        self.channels.states.iter().map(|state| state.id)
    }

    /// The local socket of each of its paths, and the account at the far end where there is one.
    pub(crate) fn ends(&self, now: Instant) -> impl Iterator<Item = (SocketId, Option<Far>)> {
        let estimator = &self.channels.estimator;
        let paths = estimator.sockets().zip(estimator.channels());
        paths.map(move |(socket, channel)| (socket, self.far_end(now, channel)))
    }

    /// Promises in force, and those that are waited for, by local socket, as of the last [`Self::publish`].
    pub(crate) fn published(&self) -> &[(SocketId, Reservation)] {
        let published = self.neighbours.published.as_ref();
        published.map_or(&[], |published| &published.reservations)
    }

    /// Updates what the other sessions see of its promises; returns whether that changed. O(paths) where nothing can have changed,
    /// else O(promised streams).
    pub(crate) fn publish(&mut self) -> bool {
        let known = self.neighbours.published.as_ref();
        if self.promises.is_empty() && known.is_none_or(|known| known.reservations.is_empty()) {
            return false;
        }
        let published = self.neighbours.published.get_or_insert_default();
        let estimator = &self.channels.estimator;
        let changes = Some(self.promises.changes());
        let is_known = published.changes == changes
            && estimator.sockets().eq(published.sockets.iter().copied())
            && estimator.channels().eq(published.channels.iter().copied());
        if is_known {
            return false;
        }
        published.changes = changes;
        published.sockets.clear();
        published.sockets.extend(estimator.sockets());
        published.channels.clear();
        published.channels.extend(estimator.channels());
        let on = |(path, reservation): (usize, Reservation)| {
            let socket = published.sockets.get(path).copied()?;
            Some((socket, reservation))
        };
        let now = || {
            self.promises
                .reservations(&published.channels)
                .filter_map(on)
        };
        if now().eq(published.reservations.iter().copied()) {
            return false;
        }
        let mut reservations = std::mem::take(&mut published.reservations);
        reservations.clear();
        reservations.extend(now());
        published.reservations = reservations;
        true
    }

    /// Notes what the others carry and were promised on the uplink of each path. O(paths²) where their promises did not change.
    pub(crate) fn set_neighbours(&mut self, now: Instant, on_uplinks: &[OnUplink]) {
        let neighbours = &mut self.neighbours;
        let acked = on_uplinks.iter().map(|on| (on.uplink, on.acked_bytes));
        neighbours.acked_bytes.clear();
        neighbours.acked_bytes.extend(acked);
        let first = |on: &OnUplink| {
            let mut all = on_uplinks.iter();
            all.position(|other| other.uplink == on.uplink)
        };
        neighbours.uplinks.clear();
        neighbours
            .uplinks
            .extend(on_uplinks.iter().filter_map(first));
        let uplinks = &neighbours.uplinks;
        let firsts = (0..on_uplinks.len().min(64))
            .filter(|&path| uplinks[path] == path && on_uplinks[path].promised.is_some());
        neighbours.firsts.clear();
        neighbours.firsts.extend(firsts);
        (neighbours.firsts).sort_unstable_by_key(|&path| on_uplinks[path].uplink);
        let with_promises = neighbours.firsts.iter().filter_map(|&path| {
            let promised = on_uplinks[path].promised.as_ref()?;
            let paths = uplinks.iter().enumerate().take(64);
            let paths = paths.filter(|(_, first)| **first == path);
            Some(Uplink {
                paths: paths.fold(ChannelMask::NONE, |set, (path, _)| set.with(path)),
                reserved: promised.all().clone(),
            })
        });
        self.promises.set_uplinks(with_promises);
        self.find_beside(on_uplinks);
        let neighbours = &mut self.neighbours;
        let beside = &neighbours.beside;
        let held = self.channels.estimator.channels().zip(on_uplinks);
        let held = held.filter(|(_, on)| on.are_behind);
        let held = held.filter_map(|(channel, _)| channel);
        let mut held = held
            .filter(|channel| beside.iter().any(|one| one.channel == *channel))
            .peekable();
        if held.peek().is_some() || neighbours.hold.is_some() {
            neighbours.hold.get_or_insert_default().renew(now, held);
        }
    }

    /// Finds the channels that share capacity with promises of others.
    fn find_beside(&mut self, on_uplinks: &[OnUplink]) {
        let neighbours = &mut self.neighbours;
        let had_any = !neighbours.beside.is_empty();
        neighbours.beside.clear();
        let channels = self.channels.estimator.channels();
        for (path, (channel, on)) in channels.zip(on_uplinks).enumerate().take(64) {
            let (Some(channel), Some(promised)) = (channel, &on.promised) else {
                continue;
            };
            if !self.promises.is_shared(path) {
                continue;
            }
            neighbours.beside.push(Beside {
                channel,
                promised: promised.clone(),
                own: promised.place(self.id),
                others_bps: neighbours.rates_bps.get(path).copied().unwrap_or(0.0),
                busy: on.busy,
            });
        }
        neighbours.is_new |= had_any || !neighbours.beside.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use anabranch_admission::{Kind, Standing};
    use anabranch_base::SessionId;

    use super::*;

    const OWN: u64 = 1;
    const OTHER: u64 = 2;
    const THIRD: u64 = 3;

    /// The part of a session at 4 Mbit/s beside others at so many, and promises in order of precedence.
    fn part(others_mbps: f64, promised: &[(u64, f64)]) -> f64 {
        let mut all: Vec<Reservation> = (promised.iter().zip(1..))
            .map(|(&(session, mbps), second)| Reservation {
                standing: Standing {
                    kind: Kind::Renewable,
                    since: Instant::from_secs(second),
                    session: SessionId(session),
                },
                tenant: None,
                // Headroom comes on top.
                bps: mbps * 1e6 / 1.05,
            })
            .collect();
        all.sort_by_key(|one| one.standing.session);
        let promised = Arc::new(Reservations::of(&all));
        let beside = Beside {
            channel: ChannelId(0),
            own: promised.place(SessionId(OWN)),
            promised,
            others_bps: others_mbps * 1e6,
            busy: 1,
        };
        let part = beside.part(4e6, &mut vec![9.0; 9]);
        (part * 1e9).round() / 1e9
    }

    #[test]
    fn what_is_not_promised_is_divided_evenly() {
        // (0 + 4) to (8 + 4).
        assert_eq!(part(12.0, &[(OTHER, 8.0)]), 0.333_333_333);
        assert_eq!(part(12.0, &[(OTHER, 6.0), (OWN, 6.0)]), 1.0);
        // (4 + 2) to (8 + 2), of the session that was promised most.
        let three = [(OTHER, 5.0), (OWN, 4.0), (OTHER, 3.0), (THIRD, 1.0)];
        assert_eq!(part(12.5, &three), 0.589_743_59);
    }

    #[test]
    fn a_path_on_a_new_uplink_begins_without_a_rate() {
        let at = Instant::from_secs;
        let [first, second] = [1, 2].map(SocketId);
        let mut neighbours = Neighbours {
            acked_bytes: vec![(first, 5_000_000)],
            ..Neighbours::default()
        };
        assert_eq!(neighbours.take_rates(at(1)).1, [0.0]);
        // Others have used the second uplink for long; and then it is in the place of the first.
        neighbours.acked_bytes = vec![(first, 5_001_000), (second, 9_000_000)];
        assert_eq!(neighbours.take_rates(at(2)).1, [8_000.0, 0.0]);
        neighbours.acked_bytes = vec![(second, 9_002_000)];
        assert_eq!(neighbours.take_rates(at(3)).1, [16_000.0]);
    }

    #[test]
    fn what_is_not_used_is_lent() {
        assert_eq!(part(0.0, &[(OTHER, 8.0)]), 1.0);
        // Used: 2 of 8. They are left 4; 1 to 5.
        assert_eq!(part(2.0, &[(OTHER, 8.0)]), 0.2);
    }

    #[test]
    fn precedence_decides_when_there_is_not_enough() {
        assert_eq!(part(8.0, &[(OTHER, 8.0), (OWN, 8.0)]), 0.5);
        assert_eq!(part(8.0, &[(OWN, 8.0), (OTHER, 8.0)]), 1.0);
        assert_eq!(part(8.0, &[(OTHER, 15.0)]), PART_MIN);
        assert_eq!(part(0.0, &[]), 1.0);
    }
}
