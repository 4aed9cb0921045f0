//! The order of [`Picker`](super::Picker), kept from decision to decision.

use anabranch_base::{Instant, StreamId};

use super::{Claim, heap::Heap};
use crate::view::{Changes, StreamView, View};
use anabranch_spec::Priority;

/// Streams that wait, in the order in which they go: by priority, by virtual finish time, by deadline, by id.
///
/// It decides as [`Picker`](super::Picker) does, but looks at no more streams than it has to: O(log streams) for a
/// decision and its booking, and as much for each stream that declines, which is asked again in the next run.
/// Nothing is allocated but when streams are new.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    entries: Vec<Entry>,
    /// Indices into `entries`, by stream, ascending.
    by_stream: Vec<(StreamId, u32)>,
    free: Vec<u32>,
    /// By priority, the highest first.
    classes: Vec<Class>,
    /// Virtual time; see [`Picker`](super::Picker).
    clock: f64,
    /// Those that have declined in this run.
    declined: Vec<u32>,
    /// Those whose views may have changed since the last decision.
    stale: Vec<u32>,
}

/// A stream. It keeps its virtual finish time until it is closed.
#[derive(Clone, Debug)]
struct Entry {
    stream: StreamId,
    finish: f64,
    /// Place where it was in the last view.
    place: usize,
    /// In which class it is, if it is in one.
    class: Option<Priority>,
}

/// Streams of one priority. Those that have had no more than their share go first, by deadline; the others are ahead
/// of the virtual time, and go by how much.
#[derive(Debug)]
struct Class {
    priority: Priority,
    /// By deadline, then id.
    even: Heap<(u64, StreamId)>,
    /// By virtual finish time, as bits, then deadline, then id.
    ahead: Heap<(u64, u64, StreamId)>,
}

/// Verdict on a stream whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<T> {
    /// It goes.
    Take(T),
    /// Not in this run, unless it is sent from.
    NotNow,
    /// Not until its view changes or it is [`touched`](FairQueue::touch).
    NotYet,
}

impl Class {
    /// Those that the virtual time has caught up with are even.
    fn catch_up(&mut self, clock: f64) {
        let clock = clock.to_bits();
        while let Some(((finish, deadline, stream), entry)) = self.ahead.first()
            && finish <= clock
        {
            self.ahead.take(entry);
            self.even.put(entry, (deadline, stream));
        }
    }

    fn first(&self) -> Option<u32> {
        let even = self.even.first().map(|(_, entry)| entry);
        even.or_else(|| Some(self.ahead.first()?.1))
    }
}

impl FairQueue {
    /// A run of decisions begins: brings the order up to date with the view.
    pub(crate) fn begin(&mut self, view: &View<'_>, changes: Changes<'_>) {
        match changes {
            Changes::Any => {
                for class in &mut self.classes {
                    class.even.clear();
                    class.ahead.clear();
                }
                self.entries.iter_mut().for_each(|entry| entry.class = None);
                self.stale.clear();
                self.declined.clear();
                for (place, stream) in view.streams.iter().enumerate() {
                    if stream.is_waiting() {
                        let entry = self.entry(stream.id);
                        self.entries[entry as usize].place = place;
                        self.enter(entry, stream);
                    }
                }
            }
            Changes::Only(streams) => {
                self.stale.append(&mut self.declined);
                for &stream in streams {
                    // What was never seen to wait is new only if it does so now.
                    if let Some(entry) = self.find(stream) {
                        self.stale.push(entry);
                    } else if let Ok(place) = search(view, stream)
                        && view.streams[place].is_waiting()
                    {
                        let entry = self.entry(stream);
                        self.stale.push(entry);
                    }
                }
            }
        }
    }

    /// The first stream that takes its turn, as an index into `view.streams`, with what it takes.
    pub(crate) fn next<T>(
        &mut self,
        view: &View<'_>,
        mut ask: impl FnMut(usize) -> Answer<T>,
    ) -> Option<(usize, T)> {
        self.refresh(view);
        for class in 0..self.classes.len() {
            self.classes[class].catch_up(self.clock);
            while let Some(entry) = self.classes[class].first() {
                let Some(place) = self.place(view, entry) else {
                    self.leave(entry);
                    continue;
                };
                match ask(place) {
                    Answer::Take(taken) => return Some((place, taken)),
                    Answer::NotNow => self.declined.push(entry),
                    Answer::NotYet => {}
                }
                self.leave(entry);
            }
        }
        None
    }

    /// The first of `places`, indices into `view.streams`, whether they are in the order or not. O(places · log streams).
    pub(crate) fn first_of<T>(
        &self,
        view: &View<'_>,
        places: impl Iterator<Item = usize>,
        mut accept: impl FnMut(usize) -> Option<T>,
    ) -> Option<(usize, T)> {
        let mut best: Option<(usize, T, Claim)> = None;
        for place in places {
            let stream = &view.streams[place];
            let claim = Claim {
                priority: stream.priority,
                finish: self.finish_time(stream.id),
                deadline: stream.deadline,
            };
            let is_first = best.as_ref().is_none_or(|(_, _, best)| {
                claim.priority > best.priority
                    || (claim.priority == best.priority && claim.beats(best))
            });
            if is_first && let Some(taken) = accept(place) {
                best = Some((place, taken, claim));
            }
        }
        best.map(|(place, taken, _)| (place, taken))
    }

    /// The stream has been given `bytes`.
    pub(crate) fn charge(&mut self, stream: &StreamView, bytes: usize) {
        let entry = self.entry(stream.id);
        let known = &mut self.entries[entry as usize];
        let start = known.finish.max(self.clock);
        self.clock = start;
        known.finish = start + bytes as f64 / f64::from(stream.weight);
        self.stale.push(entry);
    }

    /// One that was to come later may come now.
    pub(crate) fn touch(&mut self, stream: StreamId) {
        let entry = self.entry(stream);
        self.stale.push(entry);
    }

    /// The stream is closed.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        let Ok(at) = self.by_stream.binary_search_by_key(&stream, |&(id, _)| id) else {
            return;
        };
        let (_, entry) = self.by_stream.remove(at);
        self.leave(entry);
        self.stale.retain(|&other| other != entry);
        self.declined.retain(|&other| other != entry);
        self.free.push(entry);
    }

    fn finish_time(&self, stream: StreamId) -> f64 {
        let finish = self
            .find(stream)
            .map_or(0.0, |entry| self.entries[entry as usize].finish);
        finish.max(self.clock)
    }

    fn find(&self, stream: StreamId) -> Option<u32> {
        let at = self.by_stream.binary_search_by_key(&stream, |&(id, _)| id);
        at.ok().map(|at| self.by_stream[at].1)
    }

    /// The number of a stream, which gets one if it is new.
    fn entry(&mut self, stream: StreamId) -> u32 {
        let at = match self.by_stream.binary_search_by_key(&stream, |&(id, _)| id) {
            Ok(at) => return self.by_stream[at].1,
            Err(at) => at,
        };
        let new = Entry {
            stream,
            finish: 0.0,
            place: 0,
            class: None,
        };
        let entry = match self.free.pop() {
            Some(entry) => {
                self.entries[entry as usize] = new;
                entry
            }
            None => {
                self.entries.push(new);
                self.entries.len() as u32 - 1
            }
        };
        self.by_stream.insert(at, (stream, entry));
        entry
    }

    /// Index in the view of an entry that waits. O(1) while it stays at its place.
    fn place(&mut self, view: &View<'_>, entry: u32) -> Option<usize> {
        let known = &mut self.entries[entry as usize];
        let is_here = |place: usize| {
            view.streams
                .get(place)
                .is_some_and(|s| s.id == known.stream)
        };
        if !is_here(known.place) {
            known.place = search(view, known.stream).ok()?;
        }
        view.streams[known.place]
            .is_waiting()
            .then_some(known.place)
    }

    /// Looks again at those whose views may have changed.
    fn refresh(&mut self, view: &View<'_>) {
        while let Some(entry) = self.stale.pop() {
            match self.place(view, entry) {
                Some(place) => self.enter(entry, &view.streams[place]),
                None => self.leave(entry),
            }
        }
    }

    /// Puts the entry where it belongs.
    fn enter(&mut self, entry: u32, stream: &StreamView) {
        let known = &mut self.entries[entry as usize];
        let deadline = stream.deadline.map_or(u64::MAX, Instant::as_nanos);
        let is_even = known.finish <= self.clock;
        if known.class != Some(stream.priority) {
            self.leave(entry);
        }
        self.entries[entry as usize].class = Some(stream.priority);
        let finish = self.entries[entry as usize].finish;
        let class = self.class(stream.priority);
        if is_even {
            class.ahead.take(entry);
            class.even.put(entry, (deadline, stream.id));
        } else {
            class.even.take(entry);
            class
                .ahead
                .put(entry, (finish.to_bits(), deadline, stream.id));
        }
    }

    fn leave(&mut self, entry: u32) {
        if let Some(priority) = self.entries[entry as usize].class.take() {
            let class = self.class(priority);
            class.even.take(entry);
            class.ahead.take(entry);
        }
    }

    fn class(&mut self, priority: Priority) -> &mut Class {
        let at = self
            .classes
            .iter()
            .position(|class| class.priority <= priority);
        let at = at.unwrap_or(self.classes.len());
        if self
            .classes
            .get(at)
            .is_none_or(|class| class.priority != priority)
        {
            let new = Class {
                priority,
                even: Heap::default(),
                ahead: Heap::default(),
            };
            self.classes.insert(at, new);
        }
        &mut self.classes[at]
    }
}

fn search(view: &View<'_>, stream: StreamId) -> Result<usize, usize> {
    view.streams.binary_search_by_key(&stream, |view| view.id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pick::{Picker, tests::stream};

    fn seen(streams: &[StreamView]) -> View<'_> {
        View {
            now: Instant::EPOCH,
            channels: &[],
            streams,
        }
    }

    const DEADLINES: [Option<u64>; 5] = [None, None, Some(5), Some(9), Some(30)];
    const PRIORITIES: [Priority; 4] = [
        Priority::BULK,
        Priority::NORMAL,
        Priority::NORMAL,
        Priority::URGENT,
    ];

    proptest! {
        /// Step by step the same as the plain search, where a stream that declined in a run counts as if it
        /// did not wait.
        #[test]
        fn it_decides_as_the_picker_does(
            start in prop::collection::vec((0..4_usize, 1..4_u32, 0..3_u64, 0..5_usize), 1..24),
            runs in prop::collection::vec(
                (prop::collection::vec((0..24_usize, 0..4_usize, 0..3_u64, 0..5_usize), 0..4), 0..9_u32, any::<u32>(), any::<bool>()),
                1..30,
            ),
        ) {
            let backlog = |packets: u64| packets * 1000;
            let at = |index: usize| DEADLINES[index].map(Instant::from_millis);
            let mut all: Vec<StreamView> = start.iter().enumerate().map(|(id, &(priority, weight, packets, deadline))| {
                StreamView { deadline: at(deadline), ..stream(2 * id as u64, PRIORITIES[priority], 100 * weight, backlog(packets)) }
            }).collect();
            let mut queue = FairQueue::default();
            let mut picker = Picker::default();
            let mut is_first = true;
            for (changes, decisions, decliners, is_any) in runs {
                let mut changed = Vec::new();
                for (place, priority, packets, deadline) in changes {
                    let place = place % all.len();
                    let view = &mut all[place];
                    if packets == 2 && deadline == 0 {
                        queue.forget(view.id);
                        picker.forget(view.id);
                    }
                    view.priority = PRIORITIES[priority];
                    view.backlog_bytes = backlog(packets);
                    view.deadline = at(deadline);
                    changed.push(view.id);
                }

                let only = Changes::Only(&changed);
                queue.begin(&seen(&all), if is_first || is_any { Changes::Any } else { only });
                is_first = false;
                let mut declined: Vec<usize> = Vec::new();
                for _ in 0..decisions {
                    let declines = |place: usize| decliners >> (place % 32) & 1 == 1;
                    let mut asked = Vec::new();
                    let mine = queue.next(&seen(&all), |place| {
                        asked.push(place);
                        if declines(place) { Answer::NotNow } else { Answer::Take(()) }
                    });
                    prop_assert!(asked.iter().all(|place| !declined.contains(place)), "asked twice");
                    declined.extend(asked.iter().filter(|place| declines(**place)));
                    let theirs = picker.pick_with(&seen(&all), |place| (!declines(place)).then_some(()));
                    prop_assert_eq!(mine, theirs);
                    let Some((place, ())) = mine else { break };
                    queue.charge(&all[place], 700);
                    picker.charge(&all[place], 700);
                    let view = &mut all[place];
                    view.backlog_bytes = view.backlog_bytes.saturating_sub(700);
                    view.deadline = view.deadline.map(|at| at + std::time::Duration::from_millis(3));
                }
            }
        }
    }

    #[test]
    fn what_is_not_yet_its_turn_is_asked_again_when_it_is_touched() {
        let all = [
            stream(0, Priority::NORMAL, 100, 5),
            stream(2, Priority::NORMAL, 100, 5),
        ];
        let view = View {
            now: Instant::EPOCH,
            channels: &[],
            streams: &all,
        };
        let mut queue = FairQueue::default();
        queue.begin(&view, Changes::Any);
        let mut asked = Vec::new();
        let mut ask = |queue: &mut FairQueue| {
            asked.clear();
            let none = queue.next::<()>(&view, |place| {
                asked.push(place);
                Answer::NotYet
            });
            assert!(none.is_none());
            asked.clone()
        };
        assert_eq!(ask(&mut queue), [0, 1]);
        queue.begin(&view, Changes::Only(&[]));
        assert_eq!(ask(&mut queue), [0_usize; 0]);
        queue.touch(StreamId(2));
        assert_eq!(ask(&mut queue), [1]);
        queue.begin(&view, Changes::Only(&[StreamId(0)]));
        assert_eq!(ask(&mut queue), [0]);
    }
}
