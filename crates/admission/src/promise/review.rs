//! Review of promises during and after windows.

use crate::mapping::{self, Hold, Placement, Request, Term};
use anabranch_base::{Instant, StreamId};
use anabranch_spec::{ChannelMask, StreamSpec};

use super::{
    Channels, LateAfter, Notice, OVERHEAD, Promises, WINDOW,
    answer::Grant,
    first, is_within_reach, refusal,
    stream::{Promised, Running, Window},
};

impl Promises {
    /// Ends a scheduling window: judges it, renews, warns, withdraws. `late` is the time after which a byte is late, by path;
    /// `since` returns the time since which the oldest byte of a stream that is not known to have arrived has been waiting.
    pub fn end_window(
        &mut self,
        now: Instant,
        channels: Channels<'_>,
        late: LateAfter<'_>,
        since: impl Fn(StreamId) -> Option<Instant>,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        self.changes += 1;
        for (&stream, entry) in &mut self.streams {
            let oldest = since(stream);
            entry.end_window(Window {
                length: WINDOW,
                is_behind: oldest.is_some_and(|at| now.since(at) > entry.late_after(late)),
            });
        }
        self.review(now, channels, &mut notices);
        notices
    }

    /// Ends a part of a scheduling window: warns streams whose window can no longer be kept, if that, or the rate that the
    /// paths carried in it so far, means that the promise will not be renewed. `late` and `since` as for
    /// [`Self::end_window`].
    pub fn watch_window(
        &mut self,
        now: Instant,
        channels: Channels<'_>,
        late: LateAfter<'_>,
        since: impl Fn(StreamId) -> Option<Instant>,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        let Some(passed) = self.history.passed() else {
            return notices;
        };
        let recent_bps = self.history.recent_bps();
        let (mut before_bps, mut are_failing, mut is_anyone_unwarned) = (0.0, false, false);
        for stream in self.order() {
            let Some(entry) = self.streams.get_mut(&stream) else {
                continue;
            };
            let running = Running {
                passed,
                bytes_per_s: (recent_bps - before_bps).max(0.0) / 8.0,
            };
            let late_after = entry.late_after(late);
            let is_behind = since(stream).is_some_and(|at| now.since(at) > late_after);
            are_failing |= entry.watch(running, is_behind);
            is_anyone_unwarned |= entry.is_failing && !entry.is_warned();
            before_bps += entry.guarantee.required().as_bps() as f64;
        }
        if are_failing && is_anyone_unwarned {
            self.foresee(now, channels, &mut notices);
        }
        notices
    }

    /// Warns of windows that fail before they are over, as [`Self::review`] will at their end. It copies the history, so it is
    /// only called when a stream may have to be warned.
    fn foresee(&mut self, now: Instant, channels: Channels<'_>, notices: &mut Vec<Notice>) {
        let mut history = self.history.clone();
        history.end_early();
        let mut kept: Vec<Request> = Vec::new();
        for stream in self.order() {
            let request = self.streams[&stream].request(stream, channels, OVERHEAD);
            let mut all = kept.clone();
            all.push(request.clone());
            Request::sort(&mut all);
            let before = self.last_standing(&all);
            let beside = self.uplinks.before(before);
            let mut view = history.view(channels, beside);
            let Err(shortage) = mapping::map(&all, &mut view) else {
                kept = all;
                continue;
            };
            let is_new = |entry: &&mut Promised| entry.is_failing && !entry.is_warned();
            if let Some(entry) = self.streams.get_mut(&stream).filter(is_new) {
                let refusal = refusal(&request, &kept, &all, shortage, &mut view, channels);
                entry.warn(now, &refusal);
                notices.push(Notice::Warned(stream, refusal));
            }
        }
    }

    /// Reviews the promises, if streams wait, after rates were measured while no window runs. Within a window nothing may change: it would
    /// be judged by another promise than it began with.
    pub fn look_again(&mut self, now: Instant, channels: Channels<'_>) -> Vec<Notice> {
        let mut notices = Vec::new();
        if self.is_waiting() {
            self.review(now, channels, &mut notices);
        }
        notices
    }

    /// Maps all promises again on the current history; renews, warns and withdraws.
    fn review(&mut self, now: Instant, channels: Channels<'_>, notices: &mut Vec<Notice>) {
        if self.streams.is_empty() {
            return;
        }
        self.history.early().set_now(now);
        self.review_promises(now, channels, notices);
        self.review_wishes(now, channels, notices);
        self.review_levels(now, channels, notices);
        self.review_reduced(now, channels, notices);
    }

    fn review_promises(&mut self, now: Instant, channels: Channels<'_>, notices: &mut Vec<Notice>) {
        let order = self.order();
        let mut all = self.requests(|_, _| true, channels);
        Request::sort(&mut all);
        // Usually all can be mapped at once; else one after the other, the first in precedence
        // first.
        if self.may_all_have(&all, channels)
            && let Ok(placements) = mapping::map(&all, &mut self.view(channels))
        {
            let placed = all.iter().map(|request| request.stream);
            self.settle(placed.zip(placements).collect());
            for stream in order {
                self.confirm(now, stream, channels, notices);
            }
            return;
        }
        let mut kept: Vec<Request> = Vec::new();
        // Promises in force that found no place: their capacity is left to nobody who waits for a promise.
        let mut unplaced: Vec<Request> = Vec::new();
        for stream in order {
            let request = self.streams[&stream].request(stream, channels, OVERHEAD);
            let is_in_force = self.streams[&stream].is_in_force();
            if !is_in_force {
                kept.append(&mut unplaced);
            }
            if !is_in_force && !self.may_have(&request, channels) {
                if let Some((all, placements)) = self.step_down(now, stream, &kept, channels) {
                    kept = self.keep(all, placements);
                    self.change_level(now, stream, channels, notices);
                }
                continue;
            }
            let mut all = kept.clone();
            all.push(request.clone());
            Request::sort(&mut all);
            let before = self.last_standing(&all);
            match mapping::map(&all, &mut self.view_before(before, channels)) {
                Ok(placements) => {
                    kept = self.keep(all, placements);
                    self.confirm(now, stream, channels, notices);
                }
                Err(shortage) => {
                    if let Some((all, placements)) = self.step_down(now, stream, &kept, channels) {
                        kept = self.keep(all, placements);
                        self.change_level(now, stream, channels, notices);
                        continue;
                    }
                    if !is_in_force {
                        continue;
                    }
                    let entry = &self.streams[&stream];
                    let is_due = entry.is_due(now);
                    let may_act = !entry.is_warned() || is_due || entry.may_take_offer(now);
                    let claimed = Request {
                        hold: Hold::Kept,
                        ..request.clone()
                    };
                    let may_recover = |entry: &mut Promised| entry.may_recover(now);
                    if !may_act || self.streams.get_mut(&stream).is_some_and(may_recover) {
                        unplaced.push(claimed);
                        continue;
                    }
                    let mut view = self.view_before(before, channels);
                    let refusal = refusal(&request, &kept, &all, shortage, &mut view, channels);
                    if let Some((all, placements)) =
                        self.take_offer(now, (stream, &refusal), &kept, channels, notices)
                    {
                        kept = self.keep(all, placements);
                        self.change_level(now, stream, channels, notices);
                        continue;
                    }
                    let Some(entry) = self.streams.get_mut(&stream) else {
                        continue;
                    };
                    if is_due {
                        entry.withdraw(now, &refusal);
                        self.is_changed = true;
                        notices.push(Notice::Withdrawn(stream, refusal));
                        continue;
                    }
                    unplaced.push(claimed);
                    if !entry.is_warned() {
                        entry.warn(now, &refusal);
                        notices.push(Notice::Warned(stream, refusal));
                    }
                }
            }
        }
    }

    /// Settles the placements of requests, which are returned.
    fn keep(&mut self, requests: Vec<Request>, placements: Vec<Placement>) -> Vec<Request> {
        let placed = requests.iter().map(|request| request.stream);
        self.settle(placed.zip(placements).collect());
        requests
    }

    /// Promises the changed demands of streams whose earlier promise is in force, as soon as possible.
    fn review_wishes(&mut self, now: Instant, channels: Channels<'_>, notices: &mut Vec<Notice>) {
        let wishes: Vec<(StreamId, Box<StreamSpec>, ChannelMask)> = self
            .streams
            .iter()
            .filter_map(|(&stream, entry)| Some((stream, entry.wanted.clone()?, entry.permitted)))
            .collect();
        for (stream, spec, permitted) in wishes {
            let demand = (&*spec, permitted);
            let Some(guarantee) = spec.guarantee.as_deref().copied() else {
                continue;
            };
            if let Some((grant, placements)) = self.find(now, stream, &guarantee, demand, channels)
            {
                notices.push(self.exchange(now, stream, demand, grant, placements));
            } else if let Some(entry) = self.streams.get_mut(&stream)
                && !entry.is_in_force()
            {
                // The promise kept meanwhile has lapsed: from now on the stream waits for its new demand.
                self.replace(stream, Promised::new(first(&guarantee), &spec, permitted));
                self.is_changed = true;
            }
        }
    }

    /// Confirms a stream for which a placement was found: renews its promise, or makes one; a durable one, where that was
    /// demanded and is possible now.
    fn confirm(
        &mut self,
        now: Instant,
        stream: StreamId,
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) {
        let Some(entry) = self.streams.get(&stream) else {
            return;
        };
        let mut risen = None;
        if entry.may_rise(now) {
            let wanted = Request {
                term: Term::Durable,
                ..entry.request(stream, channels, OVERHEAD)
            };
            if is_within_reach(&entry.guarantee, Term::Durable)
                && self.may_have(&wanted, channels)
                && let Some(placements) = self.map_with(&wanted, channels)
            {
                self.settle(placements);
                risen = Some(Term::Durable);
            }
        }
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        let was_in_force = entry.is_in_force();
        if let Some(term) = risen.or_else(|| entry.holds(now)) {
            let grant = Grant::new(now, &entry.guarantee, term, &entry.placement, channels);
            entry.grant(now, term, &grant);
            self.is_changed = true;
            notices.push(Notice::Promised(stream, grant));
        }
        if was_in_force {
            let (guarantee, placement, term) = (&entry.guarantee, &entry.placement, entry.term());
            let places = || Grant::new(now, guarantee, term, placement, channels).places();
            entry.notes.placed(now, places);
        }
    }
}
