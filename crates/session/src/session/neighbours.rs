//! Neighbours: the other sessions of the node, as far as they use the same uplinks.
//!
//! An *uplink* is a local socket, or all sockets of one interface, or all that share a meter. Whether sessions that begin at one share its capacity is judged by
//! the evidence of their paths ([`anabranch_admission::promise`]).

use std::{collections::BTreeMap, time::Duration};

use anabranch_admission::{Kind, Reservation, Standing, Uplink};
use anabranch_base::{ChannelId, Instant, SessionId, SocketId};
use anabranch_spec::ChannelMask;

use super::Session;

/// Others are left so many times the rate that they use, up to what they were promised.
const RETURNED: f64 = 2.0;
/// Part of what was promised by which a session's share exceeds it: no controller takes exactly its share.
const HEADROOM: f64 = 1.05;
/// Elastic data waits for so long when a promise of another session is behind, and for so long at a stretch.
const HOLD: Duration = Duration::from_millis(250);
const HOLD_MAX: Duration = Duration::from_secs(1);
/// The smallest part of a flow's share that a session takes beside others' promises.
const PART_MIN: f64 = 0.2;

/// Traffic and promises of other sessions on an uplink.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// Bytes acknowledged so far.
    pub(crate) acked_bytes: u64,
    /// Sessions that carried something lately.
    pub(crate) busy: usize,
    /// Data of a promise in force there is late.
    pub(crate) are_behind: bool,
    /// Promises in force, and those that are waited for.
    pub(crate) reserved: Vec<Reservation>,
}

/// A channel on an uplink whose capacity it shares with promises of other sessions.
#[derive(Clone, Debug, PartialEq)]
struct Beside {
    channel: ChannelId,
    /// All promises on the uplink, of this session and of others, in order of precedence: whose, and the rate with headroom in bits per
    /// second.
    promised: Vec<(Whose, f64)>,
    /// Rate of all others on the uplink, in bits per second, and the number of those that are busy.
    others_bps: f64,
    busy: usize,
}

/// Session that a promise belongs to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Whose {
    Own,
    Other(SessionId),
}

impl Beside {
    /// The part of one flow's share that the channel takes, at a rate of its own of `bps` bits per second.
    ///
    /// The capacity of the uplink goes to the promises in order of precedence, and the rest is divided evenly; the parts of all sessions
    /// are in proportion to that. What others do not use of their promises is lent; a session that begins to use it has it back after
    /// a few windows of measurement.
    fn part(&self, bps: f64) -> f64 {
        let of_others = |(whose, _): &&(Whose, f64)| *whose != Whose::Own;
        let promised_bps: f64 = self
            .promised
            .iter()
            .filter(of_others)
            .map(|(_, bps)| bps)
            .sum();
        let used = (RETURNED * self.others_bps / promised_bps).min(1.0);
        let mut left_bps = bps + self.others_bps;
        let (mut own_bps, mut by_session) = (0.0, BTreeMap::<SessionId, f64>::new());
        for &(whose, bps) in &self.promised {
            let (share_bps, due_bps) = match whose {
                Whose::Own => (&mut own_bps, bps),
                Whose::Other(session) => (by_session.entry(session).or_default(), used * bps),
            };
            let given_bps = due_bps.min(left_bps);
            *share_bps += given_bps;
            left_bps -= given_bps;
        }
        let most_bps = by_session.into_values().fold(0.0, f64::max);
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

/// Neighbours of a session. Key: session.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    /// The uplink of each path, and the bytes of others acknowledged on it so far; empty while there are no others.
    acked_bytes: Vec<(SocketId, u64)>,
    /// The first path on the same uplink as each path.
    uplinks: Vec<usize>,
    /// Others that are busy there.
    busy: Vec<usize>,
    /// The same bytes at the end of the last window, and its time.
    before: BTreeMap<SocketId, u64>,
    before_at: Option<Instant>,
    /// Rates of others in that window, in bits per second.
    rates_bps: Vec<f64>,
    beside: Vec<Beside>,
    /// `beside` was updated, and the channels' shares were not.
    is_new: bool,
    /// Data of a promised stream of this session is late.
    is_behind: bool,
    hold: Hold,
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
    fn renew(&mut self, now: Instant, channels: Vec<ChannelId>) {
        if self
            .since
            .is_some_and(|since| now.since(since) >= 2 * HOLD_MAX)
        {
            self.since = None;
        }
        let is_due = !channels.is_empty();
        let since = *self.since.get_or_insert(now);
        let may_hold = is_due && now.since(since) < HOLD_MAX;
        if !is_due && self.until.is_none_or(|until| until <= now) {
            self.since = None;
        }
        self.until = may_hold.then(|| now + HOLD);
        self.channels = channels;
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
        let rate = |(uplink, bytes): &(SocketId, u64)| match self.before.get(uplink) {
            Some(before) if passed_s > 0.0 => bytes.saturating_sub(*before) as f64 * 8.0 / passed_s,
            _ => 0.0,
        };
        self.rates_bps = self.acked_bytes.iter().map(rate).collect();
        self.before = self.acked_bytes.iter().copied().collect();
        self.before_at = Some(now);
        (&self.uplinks, &self.rates_bps)
    }

    /// Notes whether data of a promised stream of this session is late.
    pub(super) fn set_behind(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    /// The time until which elastic data on a channel waits for promises of others; `None`: it need not.
    pub(super) fn held_until(&self, now: Instant, channel: ChannelId) -> Option<Instant> {
        self.hold.until(now, channel)
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
    pub(super) fn part_of(&self, channel: ChannelId, bps: f64) -> f64 {
        self.beside(channel).map_or(1.0, |beside| beside.part(bps))
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

    /// The local sockets of its paths.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketId> {
        self.channels.estimator.sockets()
    }

    /// Promises in force, and those that are waited for, by local socket.
    pub(crate) fn reservations(&self) -> Vec<(SocketId, Reservation)> {
        if self.promises.is_empty() {
            return Vec::new();
        }
        let sockets: Vec<SocketId> = self.sockets().collect();
        let on = |(path, reservation): (usize, Reservation)| {
            let socket = sockets.get(path).copied()?;
            Some((socket, reservation))
        };
        let channels = self.channels.of_paths();
        self.promises
            .reservations(&channels)
            .filter_map(on)
            .collect()
    }

    /// Notes what the others carry and were promised on each uplink; `uplinks` is that of each path.
    pub(crate) fn set_neighbours(
        &mut self,
        now: Instant,
        uplinks: &[SocketId],
        others: &BTreeMap<SocketId, Others>,
    ) {
        let acked = |uplink: &SocketId| {
            let others = others.get(uplink);
            (*uplink, others.map_or(0, |others| others.acked_bytes))
        };
        self.neighbours.acked_bytes.clear();
        self.neighbours
            .acked_bytes
            .extend(uplinks.iter().map(acked));
        let busy = |uplink: &SocketId| others.get(uplink).map_or(0, |others| others.busy);
        let first = |uplink: &SocketId| uplinks.iter().position(|other| other == uplink);
        self.neighbours.uplinks.clear();
        self.neighbours
            .uplinks
            .extend(uplinks.iter().filter_map(first));
        self.neighbours.busy.clear();
        self.neighbours.busy.extend(uplinks.iter().map(busy));
        let with_promises = others
            .iter()
            .filter(|(_, others)| !others.reserved.is_empty());
        let shared = with_promises.filter_map(|(socket, others)| {
            let paths = uplinks.iter().enumerate().take(64);
            let paths = paths.filter(|(_, uplink)| *uplink == socket);
            let paths = paths.fold(ChannelMask::NONE, |set, (path, _)| set.with(path));
            (!paths.is_empty()).then(|| Uplink {
                paths,
                reserved: others.reserved.clone(),
            })
        });
        self.promises.set_uplinks(shared.collect());
        let beside = self.find_beside();
        self.neighbours.is_new |= !beside.is_empty() || !self.neighbours.beside.is_empty();
        self.neighbours.beside = beside;
        let are_behind = |path: usize| {
            let others = uplinks.get(path).and_then(|uplink| others.get(uplink));
            others.is_some_and(|others| others.are_behind)
        };
        let channels = self.channels.of_paths();
        let held = channels.iter().enumerate();
        let held = held.filter(|(path, _)| are_behind(*path));
        let held = held.filter_map(|(_, channel)| *channel);
        let held = held.filter(|channel| self.neighbours.are_promised_beside(*channel));
        let held = held.collect();
        self.neighbours.hold.renew(now, held);
    }

    /// The channels that share capacity with promises of others.
    fn find_beside(&self) -> Vec<Beside> {
        let channels = self.channels.of_paths();
        let mut all = Vec::new();
        for uplink in self.promises.uplinks() {
            let own = self.promises.reservations(&channels);
            let own = own.filter(|(path, _)| uplink.paths.contains(*path));
            let own = own.map(|(_, own)| (own.standing, Whose::Own, own.bps));
            let others = uplink.reserved.iter();
            let others = others.map(|other| {
                let whose = Whose::Other(other.standing.session);
                (other.standing, whose, other.bps)
            });
            let mut promised: Vec<(Standing, Whose, f64)> = own.chain(others).collect();
            promised.sort_by_key(|(standing, ..)| *standing);
            let with_headroom = |(standing, whose, bps): (Standing, Whose, f64)| {
                let headroom = match standing.kind {
                    Kind::Durable | Kind::Renewable => HEADROOM,
                    Kind::Waiting => 1.0,
                };
                (whose, headroom * bps)
            };
            let promised: Vec<(Whose, f64)> = promised.into_iter().map(with_headroom).collect();
            let shared = uplink
                .paths
                .iter()
                .filter(|path| self.promises.is_shared(*path));
            all.extend(shared.filter_map(|path| {
                Some(Beside {
                    channel: channels.get(path).copied()??,
                    promised: promised.clone(),
                    others_bps: self.neighbours.rates_bps.get(path).copied().unwrap_or(0.0),
                    busy: self.neighbours.busy.get(path).copied().unwrap_or(0),
                })
            }));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Whose = Whose::Other(SessionId(2));
    const THIRD: Whose = Whose::Other(SessionId(3));

    /// The part of a session at 4 Mbit/s beside others at so many.
    fn part(others_mbps: f64, promised: &[(Whose, f64)]) -> f64 {
        let beside = Beside {
            channel: ChannelId(0),
            promised: promised
                .iter()
                .map(|&(whose, mbps)| (whose, mbps * 1e6))
                .collect(),
            others_bps: others_mbps * 1e6,
            busy: 1,
        };
        beside.part(4e6)
    }

    #[test]
    fn what_is_not_promised_is_divided_evenly() {
        // (0 + 4) to (8 + 4).
        assert_eq!(part(12.0, &[(OTHER, 8.0)]), 1.0 / 3.0);
        assert_eq!(part(12.0, &[(OTHER, 6.0), (Whose::Own, 6.0)]), 1.0);
        // (4 + 2) to (8 + 2), of the session that was promised most.
        let three = [(OTHER, 5.0), (Whose::Own, 4.0), (OTHER, 3.0), (THIRD, 1.0)];
        assert_eq!(part(12.5, &three), (4.0 + 1.75) / (8.0 + 1.75));
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
        assert_eq!(part(8.0, &[(OTHER, 8.0), (Whose::Own, 8.0)]), 0.5);
        assert_eq!(part(8.0, &[(Whose::Own, 8.0), (OTHER, 8.0)]), 1.0);
        assert_eq!(part(8.0, &[(OTHER, 15.0)]), PART_MIN);
        assert_eq!(part(0.0, &[]), 1.0);
    }
}
