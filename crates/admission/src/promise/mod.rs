//! Promises to streams: their evidence, and whether they were kept.
//!
//! | file | holds |
//! |---|---|
//! | `beside`, `others`, `left` | other sessions on the same uplinks: their promises, their traffic, and the capacity that they leave |
//! | `early` | evidence of the last seconds: what can be promised before whole windows are known |
//! | `prior` | knowledge of a path's interface from earlier sessions |
//! | `probabilities` | probabilities for which rates are known, and rates at those between |
//! | `history` | the capacity of sets of paths in one scheduling window: the evidence |
//! | `answer` | [`Grant`] and [`Refusal`]: the answers for applications |
//! | `explain` | [`Explanation`]: the reasons for a stream's promise or refusal |
//! | `notes` | the last decisions about a stream's promise |
//! | `own` | the caution with which a stream's promise is judged, from its own windows |
//! | `stream` | the state of one promised stream, and the statistics of its windows |
//! | `share` | the most that the streams of a user, or of a rule, may have promised together |
//! | `controller` | [`AdmissionController`]: the same without a session, for experiments |
//! | `levels` | the highest rate of a layered or adaptive source that can be promised |
//! | `reduced` | offers of warnings that a stream takes by itself, and the return to its demand |
//! | `review` | renewal, warning, withdrawal, during and after windows |
//! | `mod` | admission |
//!
//! A stream is admitted when it can be mapped together with all existing promises
//! ([`crate::mapping`]). A *durable* promise is made with a margin on paths that do not drift, and
//! holds until the stream closes; if it cannot be kept any more, its owner is notified, and a minute later it lapses. A
//! *renewable* one holds for its term; two seconds before the end it is renewed from the forecast at that time, or its owner is
//! notified that it will lapse. Streams of lower probability yield first, because the others are mapped before them. A stream
//! without a promise in force (it waits, or lost it) is still served before elastic ones of its priority or a lower one, up to the
//! rate it demanded, after all promised streams.

mod ages;
mod answer;
mod beside;
mod controller;
mod early;
mod explain;
mod history;
mod left;
mod levels;
mod notes;
mod others;
mod own;
mod partial;
mod prior;
mod probabilities;
mod reduced;
mod review;
mod share;
mod stream;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::mapping::{
    self, Hold, Offer, Placement, Reduction, Request, Shortage, Term, offer, request::Precedence,
};
use anabranch_base::{ChannelId, Instant, Rate, SessionId, StreamId};
use anabranch_spec::{Assignment, ChannelMask, Claim, Grade, Guarantee, Plan, Shares, StreamSpec};
use anabranch_stats::joint::Cell;

use self::{
    beside::Uplinks,
    history::{SampleHistory, View},
    others::Neighbour,
    stream::Promised,
};

pub use self::{
    answer::{Grant, Reason, Refusal},
    beside::{Kind, Reservation, Standing, Uplink},
    controller::{AdmissionController, Candidate},
    early::Measured,
    explain::Explanation,
    notes::Note,
    prior::{Prior, Steadiness},
    probabilities::PROBABILITIES,
    stream::Account,
};

/// Streams of a session that have a promise or wait for one, at most: each window maps them all again.
pub const PROMISED_MAX: usize = 128;
/// Time before its end at which a promise is renewed, or its owner notified that it cannot be.
pub const NOTICE: Duration = Duration::from_secs(2);
/// Overhead of headers, as a factor of a stream's bytes.
const OVERHEAD: f64 = 1.02;
/// The scheduling window in which capacity is measured.
const WINDOW: Duration = Guarantee::WINDOW;

/// Promises to the streams of one session, and the evidence for them.
#[derive(Debug)]
pub struct Promises {
    history: SampleHistory,
    /// The streams that demanded a promise.
    streams: BTreeMap<StreamId, Promised>,
    /// True if the mapping has to be passed to the scheduler.
    is_changed: bool,
    /// Channels that promised streams use.
    on: Vec<ChannelId>,
    /// The uplinks that other sessions use beside this one.
    uplinks: Uplinks,
    /// Number of changes after which [`Self::reservations`] may be others than before.
    changes: u64,
    /// The largest shares of tenants.
    shares: Arc<Shares>,
}

/// Event of a promise, for its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// It was made.
    Promised(StreamId, Grant),
    /// It will lapse, or break, unless the paths recover.
    Warned(StreamId, Refusal),
    /// It has lapsed.
    Withdrawn(StreamId, Refusal),
}

/// The channel on each path; `None`: there is none.
pub type Channels<'a> = &'a [Option<ChannelId>];

/// Time after which a byte that was sent on each path, and has not arrived, is late; `None`: nothing travels there.
pub type LateAfter<'a> = &'a [Option<Duration>];

/// The part of it that does not depend on the path.
pub const LATE: Duration = Duration::from_millis(50);

impl Promises {
    /// Creates the promises of `session`, over capacity that is measured in parts of `measured`, which divides a second.
    pub fn new(session: SessionId, measured: Duration) -> Self {
        Self {
            history: SampleHistory::new(WINDOW, measured),
            streams: BTreeMap::new(),
            is_changed: false,
            on: Vec::new(),
            uplinks: Uplinks::new(session),
            changes: 0,
            shares: Arc::default(),
        }
    }

    /// Sets the largest shares of tenants, for promises that are made or raised from now on.
    pub fn set_shares(&mut self, shares: Arc<Shares>) {
        self.shares = shares;
    }

    /// Sets the uplinks that other sessions use beside this one, and what they were promised there. It applies to new streams at
    /// once, and to promises in force from the next review on. O(uplinks) where the lists are those of the last call.
    pub fn set_uplinks(&mut self, uplinks: impl Iterator<Item = Uplink>) {
        if self.uplinks.set(uplinks) {
            self.history.forget_left();
        }
    }

    /// The uplinks on which other sessions have promises.
    pub fn uplinks(&self) -> &[Uplink] {
        self.uplinks.all()
    }

    /// True unless the evidence contradicts that a path shares the capacity of its uplink with other sessions. O(windows) once a
    /// window.
    pub fn is_shared(&mut self, path: usize) -> bool {
        self.history.is_shared(path)
    }

    /// A number that grows whenever [`Self::reservations`] may have changed for the same channels.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Promises in force, by path, and those that are waited for, evenly on all paths that their streams may use.
    pub fn reservations<'a>(
        &'a self,
        channels: Channels<'a>,
    ) -> impl Iterator<Item = (usize, Reservation)> + 'a {
        self.streams.values().flat_map(move |entry| {
            let standing = entry.standing(self.uplinks.session());
            let tenant = entry.tenant;
            let reservation = move |bps: f64| Reservation {
                standing,
                tenant,
                bps,
            };
            let usable = match standing.kind {
                Kind::Waiting => entry.usable(channels),
                Kind::Durable | Kind::Renewable => ChannelMask::NONE,
            };
            let wanted_bps = entry.guarantee.required().as_bps() as f64 * OVERHEAD;
            let each_bps = wanted_bps / usable.iter().count().max(1) as f64;
            let waiting = usable.iter().map(move |path| (path, reservation(each_bps)));
            let placed = entry.placement.shares.iter();
            let placed = placed.map(move |&(path, bps)| (path, reservation(bps)));
            placed.chain(waiting)
        })
    }

    /// True if no stream demanded a promise.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// True if the scheduler has to be updated.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// True if promised streams use this channel; those that still wait use any.
    pub fn is_on(&self, channel: ChannelId) -> bool {
        self.on.contains(&channel)
    }

    /// Adds the rates of other sessions on the uplink of each path in the sub-window that [`Self::observe`] adds next, in bits per
    /// second, finite and at least 0; `uplinks` is the first path on the same uplink as each path. `is_behind`: data of a promised
    /// stream is late.
    pub fn observe_others(&mut self, uplinks: &[usize], rates_bps: &[f64], is_behind: bool) {
        let in_force = self.streams.values().filter(|entry| entry.is_in_force());
        let session = self.uplinks.session();
        let last = in_force.map(|entry| entry.standing(session)).max();
        let beside = self.uplinks.before(last);
        let with_yielding = |(path, &bps): (usize, &f64)| {
            let reserved = match path {
                0..64 => beside.reserved(ChannelMask::only(path)).next(),
                _ => None,
            };
            let reserved_bps = reserved.map_or(0.0, |(_, bps)| bps);
            let yielding_bps = match last {
                Some(_) if !is_behind => (bps - reserved_bps).max(0.0),
                _ => 0.0,
            };
            Neighbour { bps, yielding_bps }
        };
        let rates = rates_bps.iter().enumerate().map(with_yielding);
        self.history.push_others(uplinks, rates);
    }

    /// True if data of a promised stream is late; `late` and `since` as for [`Self::end_window`].
    pub fn is_behind(
        &self,
        now: Instant,
        late: LateAfter<'_>,
        since: impl Fn(StreamId) -> Option<Instant>,
    ) -> bool {
        self.streams.iter().any(|(&stream, entry)| {
            let late_after = entry.late_after(late);
            entry.is_in_force() && since(stream).is_some_and(|at| now.since(at) > late_after)
        })
    }

    /// Adds a rate that was measured on a path in the last moment, by a probe or by data; it counts before whole windows are known.
    pub fn note_rate(&mut self, now: Instant, path: usize, measured: Measured) {
        self.history.early().push(now, path, measured);
    }

    /// Adds the samples of all paths in a sub-window to the evidence that counts before whole windows are known.
    pub fn note_part(&mut self, now: Instant, row: &[Cell]) {
        self.history.early().push_part(now, row);
    }

    /// Sets what is known of a path's interface from earlier sessions.
    pub fn set_prior(&mut self, path: usize, prior: Option<Prior>) {
        self.history.early().set_prior(path, prior);
    }

    /// Shares of its level that a path kept in the windows known, for [`PROBABILITIES`], and the number of windows; `None` if
    /// they are too few. O(n log n) for n windows.
    pub fn shares_kept(&mut self, path: usize) -> Option<(Steadiness, usize)> {
        self.history.shares_kept(path)
    }

    /// True if probes of the path would show more: it is neither known from traffic that filled it, nor from probes. While a promise is
    /// wanted (`is_wanted`), traffic that filled it more than 20 s ago is not enough.
    pub fn needs_probes(&mut self, now: Instant, path: usize, is_wanted: bool) -> bool {
        self.history.needs_probes(now, path, is_wanted)
    }

    /// True if a stream waits for a promise.
    pub fn is_waiting(&self) -> bool {
        let mut streams = self.streams.values();
        streams.any(|entry| !entry.is_in_force() || entry.wanted.is_some())
    }

    /// Adds the samples of all paths in the sub-window that ends `now`; returns whether a scheduling window is complete.
    pub fn observe(&mut self, now: Instant, row: &[Cell]) -> bool {
        self.history.early().set_now(now);
        self.history.push(row)
    }

    /// The streams that demanded a promise.
    pub fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.streams.keys().copied()
    }

    /// Sets the paths that the preferences of a stream permit; they apply from the next review on.
    pub fn permit(&mut self, stream: StreamId, permitted: ChannelMask) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            let is_changed = entry.permitted != permitted;
            entry.permitted = permitted;
            self.is_changed |= is_changed;
            self.changes += u64::from(is_changed);
        }
    }

    /// Sets whether several paths may meet a stream's guarantee together; it applies from the next review on.
    pub fn set_divisible(&mut self, stream: StreamId, is_divisible: bool) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            self.is_changed |= entry.is_divisible != is_divisible;
            entry.is_divisible = is_divisible;
        }
    }

    /// Notes that a path was taken out of use, with the reason in words: the decisions that follow from it name it. It changes
    /// no promise; [`Self::permit`] does.
    pub fn path_out(&mut self, now: Instant, path: usize, text: &str) {
        let text = Arc::from(text);
        for entry in self.streams.values_mut().filter(|one| one.is_in_force()) {
            let is_own = entry.placement.set.contains(path);
            // There were other reasons for a warning that there is already.
            match entry.is_warned() {
                false => entry.notes.path_out(now, (path, is_own), &text),
                true if is_own => entry.notes.add(now, text.to_string()),
                true => {}
            }
        }
    }

    /// Notes that a path that was taken out is used again.
    pub fn path_in(&mut self, path: usize) {
        for entry in self.streams.values_mut() {
            entry.notes.path_in(path);
        }
    }

    /// The answer that a stream of `spec`, on the paths `permitted` by its preferences, would get if it were opened now.
    pub fn admit(
        &mut self,
        now: Instant,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Result<Grant, Refusal> {
        let Some(guarantee) = spec.guarantee.as_deref().copied() else {
            return Err(Refusal::bare(Reason::NoGuarantee));
        };
        self.has_place(NEW)?;
        self.history.early().set_now(now);
        self.place(now, NEW, &guarantee, (spec, permitted), channels)
            .map(|(grant, _)| grant)
    }

    /// The answer that the demand of an open stream, with its present spec, would get if it were made now, beside the promises of
    /// other streams: the reason why it waits, with what could be promised instead.
    pub fn admit_again(
        &mut self,
        now: Instant,
        stream: StreamId,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Result<Grant, Refusal> {
        let Some(guarantee) = spec.guarantee.as_deref().copied() else {
            return Err(Refusal::bare(Reason::NoGuarantee));
        };
        self.history.early().set_now(now);
        self.place(now, stream, &guarantee, (spec, permitted), channels)
            .map(|(grant, _)| grant)
    }

    /// Admits a new stream, or keeps it waiting where its guarantee allows that.
    pub fn open(
        &mut self,
        now: Instant,
        stream: StreamId,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Result<Option<Notice>, Refusal> {
        let Some(guarantee) = spec.guarantee.as_deref().copied() else {
            return Ok(None);
        };
        self.has_place(stream)?;
        self.history.early().set_now(now);
        self.changes += 1;
        let answer = self.place(now, stream, &guarantee, (spec, permitted), channels);
        let mut entry = Promised::new(first(&guarantee), spec, permitted);
        let notice = match answer {
            Ok((grant, placements)) => {
                entry.guarantee = grant.guarantee;
                entry.grant(now, grant.term, &grant);
                self.streams.insert(stream, entry);
                self.settle(placements);
                Some(Notice::Promised(stream, grant))
            }
            Err(refusal) if guarantee.waits && refusal.reason.may_pass() => {
                entry.notes.add(now, format!("waits: {refusal}"));
                self.streams.insert(stream, entry);
                None
            }
            Err(refusal) => return Err(refusal),
        };
        self.is_changed = true;
        Ok(notice)
    }

    /// Changes or withdraws the demand of an open stream. When the new demand is refused, nothing
    /// changes; when it has to wait, a promise in force stays so until the new demand can be promised.
    pub fn change(
        &mut self,
        now: Instant,
        stream: StreamId,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Result<Option<Notice>, Refusal> {
        let Some(guarantee) = spec.guarantee.as_deref().copied() else {
            self.close(stream);
            return Ok(None);
        };
        self.has_place(stream)?;
        self.history.early().set_now(now);
        self.changes += 1;
        match self.place(now, stream, &guarantee, (spec, permitted), channels) {
            Ok((grant, placements)) => Ok(Some(self.exchange(
                now,
                stream,
                (spec, permitted),
                grant,
                placements,
            ))),
            Err(refusal) if guarantee.waits && refusal.reason.may_pass() => {
                self.is_changed = true;
                let durable = self.streams.get_mut(&stream);
                if let Some(entry) = durable.filter(|entry| entry.is_in_force()) {
                    entry.notes.add(
                        now,
                        format!("demands another guarantee, which waits: {refusal}"),
                    );
                    entry.wanted = Some(Box::new(spec.clone()));
                    entry.reduced.from = None;
                    return Ok(None);
                }
                let mut entry = Promised::new(first(&guarantee), spec, permitted);
                entry.notes.add(now, format!("waits: {refusal}"));
                self.replace(stream, entry);
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }

    /// Refuses one stream more than are mapped, even if it would wait.
    fn has_place(&self, stream: StreamId) -> Result<(), Refusal> {
        if self.streams.len() < PROMISED_MAX || self.streams.contains_key(&stream) {
            return Ok(());
        }
        Err(Refusal::bare(Reason::TooMany))
    }

    /// Gives a stream the promise of `spec`, for which a placement was found.
    fn exchange(
        &mut self,
        now: Instant,
        stream: StreamId,
        (spec, permitted): (&StreamSpec, ChannelMask),
        grant: Grant,
        placements: Vec<(StreamId, Placement)>,
    ) -> Notice {
        let mut entry = Promised::new(grant.guarantee, spec, permitted);
        entry.grant(now, grant.term, &grant);
        self.replace(stream, entry);
        self.settle(placements);
        self.is_changed = true;
        Notice::Promised(stream, grant)
    }

    /// Replaces the entry of the stream by `entry`, which inherits its statistics.
    fn replace(&mut self, stream: StreamId, mut entry: Promised) {
        if let Some(before) = self.streams.remove(&stream) {
            entry.inherit(before);
        }
        self.streams.insert(stream, entry);
    }

    /// Removes a stream that is over.
    pub fn close(&mut self, stream: StreamId) {
        let is_removed = self.streams.remove(&stream).is_some();
        self.is_changed |= is_removed;
        self.changes += u64::from(is_removed);
    }

    /// Notes that a channel was opened or closed.
    pub fn on_channels_changed(&mut self) {
        self.is_changed |= !self.streams.is_empty();
    }

    /// Notes that the samples of a path are those of another one from now on, of whose capacity the latest `windows` of the
    /// earlier path still tell something.
    pub fn on_path_replaced(&mut self, path: usize, windows: usize) {
        self.history.forget(path, windows);
    }

    /// Notes that `bytes` of the stream were acknowledged.
    pub fn acked(&mut self, stream: StreamId, bytes: u64) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.acked_bytes += bytes;
        }
    }

    /// The claim of a stream for the scheduler.
    pub fn claim(&self, stream: StreamId) -> Option<Claim> {
        self.streams.get(&stream).map(|entry| Claim {
            bytes_per_s: entry.guarantee.required().as_bytes_per_s(),
            window: entry.guarantee.window,
            rank: entry.rank,
        })
    }

    /// The plan for the scheduler, if it changed.
    pub fn take_plan(&mut self, channels: Channels<'_>) -> Option<Plan> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let order = self.order();
        let mut assignments = Vec::with_capacity(order.len());
        for (rank, stream) in order.into_iter().enumerate() {
            let Some(entry) = self.streams.get_mut(&stream) else {
                continue;
            };
            entry.rank = rank as u32;
            let bytes = |rate_bps: f64| rate_bps / 8.0 * entry.guarantee.window.as_secs_f64();
            assignments.push(Assignment {
                stream,
                window: entry.guarantee.window,
                window_bytes: bytes(entry.guarantee.required().as_bps() as f64),
                constraint: entry.guarantee.constraint(),
                may_split: entry.is_divisible,
                shares: entry
                    .placement
                    .shares
                    .iter()
                    .filter_map(|&(path, rate)| {
                        Some((channels.get(path).copied()??, bytes(rate / OVERHEAD)))
                    })
                    .collect(),
            });
        }
        self.on.clear();
        let shares = assignments.iter().flat_map(|assignment| &assignment.shares);
        self.on.extend(shares.map(|(channel, _)| *channel));
        self.on.sort_unstable();
        self.on.dedup();
        Some(Plan { assignments })
    }

    /// Streams in order of precedence: those with a promise in force, then the others.
    fn order(&self) -> Vec<StreamId> {
        let place = |(&stream, entry): (&StreamId, &Promised)| {
            let (demand, constraint) = (&entry.guarantee.demand, entry.guarantee.constraint());
            let place = Precedence::of(stream, demand, constraint);
            (!entry.is_in_force(), place)
        };
        let mut order: Vec<(bool, Precedence)> = self.streams.iter().map(place).collect();
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.compare(&b.1)));
        order.into_iter().map(|(_, place)| place.stream).collect()
    }

    fn requests(
        &self,
        which: impl Fn(StreamId, &Promised) -> bool,
        channels: Channels<'_>,
    ) -> Vec<Request> {
        self.streams
            .iter()
            .filter(|(stream, entry)| which(**stream, entry))
            .map(|(&stream, entry)| entry.request(stream, channels, OVERHEAD))
            .collect()
    }

    /// Finds a placement for a stream beside all existing promises, at the highest of its levels for which there is one. The
    /// reason why there is none is that of the lowest.
    fn place(
        &mut self,
        now: Instant,
        stream: StreamId,
        guarantee: &Guarantee,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Result<(Grant, Vec<(StreamId, Placement)>), Refusal> {
        let found = self.find(now, stream, guarantee, (spec, permitted), channels);
        let lowest = guarantee.by_level().last().unwrap_or(*guarantee);
        found.ok_or_else(|| self.refuse(stream, &lowest, (spec, permitted), channels))
    }

    /// The same without a reason, which costs more than the placement.
    fn find(
        &mut self,
        now: Instant,
        stream: StreamId,
        guarantee: &Guarantee,
        demand: (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Option<(Grant, Vec<(StreamId, Placement)>)> {
        let mut levels = guarantee.by_level();
        levels.find_map(|level| self.find_level(now, stream, &level, demand, channels))
    }

    fn find_level(
        &mut self,
        now: Instant,
        stream: StreamId,
        guarantee: &Guarantee,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Option<(Grant, Vec<(StreamId, Placement)>)> {
        let request =
            Promised::new(*guarantee, spec, permitted).request(stream, channels, OVERHEAD);
        for &term in terms(guarantee.grade) {
            if !is_within_reach(guarantee, term) {
                continue;
            }
            let wanted = Request {
                term,
                ..request.clone()
            };
            if !self.is_within_share(spec.tenant, &wanted, channels) {
                continue;
            }
            if let Some(placements) = self.map_with(&wanted, channels) {
                let own = placements.iter().find(|(id, _)| *id == stream);
                let own = own.map(|(_, placement)| placement.clone());
                let grant = Grant::new(now, guarantee, term, &own.unwrap_or_default(), channels);
                return Some((grant, placements));
            }
        }
        None
    }

    /// Reason why [`Self::find`] found nothing: for the last grade that can be given at all, or else for the one of
    /// the highest probability.
    fn refuse(
        &mut self,
        stream: StreamId,
        guarantee: &Guarantee,
        (spec, permitted): (&StreamSpec, ChannelMask),
        channels: Channels<'_>,
    ) -> Refusal {
        let terms = terms(guarantee.grade);
        let within = terms
            .iter()
            .rfind(|term| is_within_reach(guarantee, **term));
        let Some(&term) = within else {
            let term = terms[0];
            let highest = history::highest(term);
            return Refusal::bare(Reason::TooSure { highest, term });
        };
        let entry = Promised::new(*guarantee, spec, permitted);
        let wanted = Request {
            term,
            ..entry.request(stream, channels, OVERHEAD)
        };
        let (others, all) = self.beside(&wanted, channels);
        if let Some(refusal) = self.refuse_over_share(spec.tenant, &wanted, &others, channels) {
            return refusal;
        }
        let mut view = self.view(channels);
        let shortage = mapping::map(&all, &mut view).err().unwrap_or(Shortage {
            request: all.len() - 1,
            binding: None,
        });
        refusal(&wanted, &others, &all, shortage, &mut view, channels)
    }

    /// Maps `wanted` together with all existing promises.
    fn map_with(
        &mut self,
        wanted: &Request,
        channels: Channels<'_>,
    ) -> Option<Vec<(StreamId, Placement)>> {
        let (_, all) = self.beside(wanted, channels);
        let placements = mapping::map(&all, &mut self.view(channels)).ok()?;
        Some(all.iter().map(|r| r.stream).zip(placements).collect())
    }

    /// The requests of all existing promises; and the same with `wanted`, in order of precedence.
    fn beside(&self, wanted: &Request, channels: Channels<'_>) -> (Vec<Request>, Vec<Request>) {
        let is_other =
            |stream: StreamId, entry: &Promised| stream != wanted.stream && entry.is_in_force();
        let others = self.requests(is_other, channels);
        let mut all = others.clone();
        all.push(wanted.clone());
        Request::sort(&mut all);
        (others, all)
    }

    /// The history as the mapping of new streams reads it: beside all promises of other sessions.
    fn view<'a>(&'a mut self, channels: Channels<'a>) -> View<'a> {
        self.view_before(None, channels)
    }

    /// The same beside those promises of other sessions only that go before `standing`.
    fn view_before<'a>(&'a mut self, before: Option<Standing>, channels: Channels<'a>) -> View<'a> {
        let beside = self.uplinks.before(before);
        self.history.view(channels, beside)
    }

    /// The last in precedence between sessions of these streams' promises; `None`: one of them has none in force.
    fn last_standing(&self, requests: &[Request]) -> Option<Standing> {
        let standing = |request: &Request| {
            let entry = self.streams.get(&request.stream)?;
            entry
                .is_in_force()
                .then(|| entry.standing(self.uplinks.session()))
        };
        let all: Option<Vec<Standing>> = requests.iter().map(standing).collect();
        all?.into_iter().max()
    }

    fn settle(&mut self, placements: Vec<(StreamId, Placement)>) {
        for (stream, placement) in placements {
            if let Some(entry) = self.streams.get_mut(&stream) {
                self.is_changed |= entry.placement != placement;
                entry.placement = placement;
            }
        }
    }

    /// Explanation of a stream's promise or refusal.
    pub fn explain(&self, stream: StreamId, channels: Channels<'_>) -> Option<Explanation> {
        let entry = self.streams.get(&stream)?;
        // The claim's rank is that of the last plan, which may not know the stream yet.
        let rank = self.order().iter().position(|&other| other == stream)?;
        let windows_known = self.history.rows();
        Some(Explanation::new(
            stream,
            entry,
            rank as u32,
            channels,
            windows_known,
        ))
    }
}

/// Terms to be tried, the best first.
fn terms(grade: Grade) -> &'static [Term] {
    match grade {
        Grade::Best => &[Term::Durable, Term::Renewable],
        Grade::Durable => &[Term::Durable],
        Grade::Renewable => &[Term::Renewable],
    }
}

/// The level of a guarantee that is tried first.
fn first(guarantee: &Guarantee) -> Guarantee {
    guarantee.by_level().next().unwrap_or(*guarantee)
}

/// True if a guarantee of this probability is ever given for `term`.
fn is_within_reach(guarantee: &Guarantee, term: Term) -> bool {
    let probability = guarantee.probability();
    probability.is_none_or(|probability| probability <= history::highest(term) + 1e-9)
}

/// The id of a stream that does not exist yet: the last in precedence among equals.
const NEW: StreamId = StreamId(u64::MAX);

fn refusal(
    wanted: &Request,
    others: &[Request],
    all: &[Request],
    shortage: Shortage,
    view: &mut View<'_>,
    channels: Channels<'_>,
) -> Refusal {
    // A smaller promise would be made anew.
    let made = Request {
        hold: Hold::New,
        ..wanted.clone()
    };
    let offer = offer::offer(&made, others, view);
    let offer = Offer {
        rate: offer.rate.map(as_displayed),
        reduction: offer.reduction.map(|reduction| Reduction {
            to: as_displayed(reduction.to),
            ..reduction
        }),
        ..offer
    };
    let failed = all[shortage.request].stream;
    let reason = match shortage.binding {
        _ if failed != wanted.stream => Reason::Displaces(failed),
        Some(binding) => Reason::TooLittle {
            channels: binding
                .set
                .iter()
                .filter_map(|path| channels.get(path).copied()?)
                .collect(),
            holds: Rate::from_bps(binding.holds_bps as u64),
            taken: Rate::from_bps(binding.taken_bps as u64),
            needed: Rate::from_bps(wanted.rate_bps as u64),
            // The judged probability, which is higher than the demanded one after windows of its own were broken.
            probability: wanted.judged().map(|p| (p * 1e3).round() / 1e3),
        },
        None => {
            let windows = view.known(wanted.permitted);
            let needed = history::needed(wanted.term, &wanted.demand);
            if wanted.term == Term::Durable && windows >= needed {
                Reason::Unsteady { windows }
            } else {
                Reason::TooLittleKnown {
                    windows,
                    needed: needed.max(windows + 1),
                    term: wanted.term,
                }
            }
        }
    };
    Refusal { reason, offer }
}

/// A rate with headers as the stream's own, rounded down to the three digits that are displayed: a demand for the displayed
/// rate is not more than was found.
fn as_displayed(rate: Rate) -> Rate {
    let own = (rate.as_bps() as f64 / OVERHEAD) as u64;
    let mut unit = 1;
    while own / unit >= 1_000 {
        unit *= 10;
    }
    Rate::from_bps(own / unit * unit)
}
