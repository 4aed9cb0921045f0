//! Contexts of one objective: all bindings of its ADU variables.

use anabranch_base::StreamId;

use super::{faults::Faults, machine::Machine, schedule::Schedule};
use crate::{
    NUMBER_MAX,
    program::{Binding, NodeId, Objective},
};

/// Candidates: the ADUs that pass the parts of a filter that depend on the ADU alone, for each ADU variable of one
/// objective. Computed once for a set of ADUs, used for every schedule of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Candidates {
    lists: Vec<List>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct List {
    /// In ascending order.
    adus: Vec<u32>,
    /// The same ADUs by their `stream_seq`, if the filter requires one; in ascending order.
    by_sequence: Vec<(f64, u32)>,
}

/// ADUs by stream, so that a filter examines only those of the streams that it allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByStream {
    /// In ascending order. Ids as the language sees them, rounded and bounded: at worst two large ones coincide.
    adus: Vec<(f64, u32)>,
}

impl ByStream {
    /// Index of the ADUs of a schedule.
    pub(crate) fn of<S: Schedule + ?Sized>(schedule: &S) -> Self {
        let mut found = Self::default();
        found.fill(schedule);
        found
    }

    /// Rebuilds the index; keeps its memory.
    pub(crate) fn fill<S: Schedule + ?Sized>(&mut self, schedule: &S) {
        self.adus.clear();
        let stream = |adu| stream_of(schedule, adu).map(|id| (id, adu));
        self.adus.extend((0..schedule.adus()).filter_map(stream));
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if !self.adus.is_sorted_by(|a, b| order(a, b).is_le()) {
            self.adus.sort_unstable_by(order);
        }
    }

    /// ADUs of a stream, in ascending order.
    fn adus(&self, stream: StreamId) -> impl Iterator<Item = u32> + '_ {
        let id = stream.0 as f64;
        let start = self.adus.partition_point(|one| one.0 < id);
        let of_it = self.adus[start..].iter().take_while(move |one| one.0 == id);
        of_it.map(|one| one.1)
    }
}

/// The stream of an ADU as the language sees it; `None` if it is unknown.
fn stream_of<S: Schedule + ?Sized>(schedule: &S, adu: u32) -> Option<f64> {
    let id = schedule.adu(adu, crate::AduFact::StreamId).round();
    (!id.is_nan()).then(|| id.clamp(-NUMBER_MAX, NUMBER_MAX))
}

/// Selection of the contexts to visit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Involving<'i> {
    /// All.
    Any,
    /// Those in which at least one variable is bound to one of these ADUs.
    These(&'i [u32]),
}

impl Candidates {
    /// Rebuilds the candidates; keeps their memory. O(ADUs of the streams that filters allow × variables).
    pub(crate) fn find<S: Schedule + ?Sized>(
        &mut self,
        objective: &Objective,
        schedule: &S,
        by_stream: &ByStream,
    ) -> Faults {
        let mut machine = Machine::new(objective, schedule);
        self.lists.resize_with(objective.adus.len(), List::default);
        for (number, list) in self.lists.iter_mut().enumerate() {
            list.adus.clear();
            list.by_sequence.clear();
            let Some((streams, own, joined, sequence)) = filter(objective, number) else {
                continue;
            };
            // Of the first variable, all parts depend on the ADU alone; those that divide come last.
            let joined = if number == 0 { joined } else { &[] };
            let mut look = |adu| {
                machine.bound[number] = adu;
                let mut parts = own.iter().chain(joined);
                if parts.all(|&part| machine.passes(part)) {
                    list.adus.push(adu);
                }
            };
            match streams {
                None => (0..schedule.adus()).for_each(look),
                Some(streams) => {
                    let adus = |&stream: &StreamId| by_stream.adus(stream);
                    streams.iter().flat_map(adus).for_each(&mut look);
                    if !list.adus.is_sorted() {
                        list.adus.sort_unstable();
                    }
                    // Two streams whose ids coincide for the caller.
                    list.adus.dedup();
                }
            }
            if sequence.is_some() {
                let key = |adu| (schedule.adu(adu, crate::AduFact::StreamSeq), adu);
                list.by_sequence.extend(list.adus.iter().copied().map(key));
                list.by_sequence
                    .sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            }
        }
        machine.faults
    }

    /// The same for one ADU alone and an objective over one, all others left out.
    pub(super) fn find_only<S: Schedule + ?Sized>(
        &mut self,
        objective: &Objective,
        schedule: &S,
        adu: u32,
    ) -> Faults {
        self.lists.resize_with(objective.adus.len(), List::default);
        self.clear();
        let Some((streams, own, joined, sequence)) = filter(objective, 0) else {
            return Faults::NONE;
        };
        let is_of_streams = streams.is_none_or(|streams| {
            let stream = stream_of(schedule, adu);
            streams.iter().any(|id| Some(id.0 as f64) == stream)
        });
        if !is_of_streams {
            return Faults::NONE;
        }
        let mut machine = Machine::new(objective, schedule);
        machine.bound[0] = adu;
        let mut parts = own.iter().chain(joined);
        if parts.all(|&part| machine.passes(part)) {
            let list = &mut self.lists[0];
            list.adus.push(adu);
            if sequence.is_some() {
                let key = schedule.adu(adu, crate::AduFact::StreamSeq);
                list.by_sequence.push((key, adu));
            }
        }
        machine.faults
    }

    /// Takes the candidates of one variable from `all`, those without `is_kept` left out; keeps its memory.
    pub(super) fn keep(&mut self, all: &Self, number: usize, is_kept: impl FnMut(&u32) -> bool) {
        if self.lists.len() <= number {
            self.lists.resize_with(number + 1, List::default);
        }
        let List { adus, by_sequence } = &mut self.lists[number];
        adus.clear();
        by_sequence.clear();
        if let Some(all) = all.lists.get(number) {
            adus.extend(all.adus.iter().copied().filter(is_kept));
            let of_kept = |(_, adu): &(f64, u32)| adus.binary_search(adu).is_ok();
            by_sequence.extend(all.by_sequence.iter().copied().filter(of_kept));
        }
    }

    /// Leaves no candidates.
    pub(super) fn clear(&mut self) {
        for list in &mut self.lists {
            list.adus.clear();
            list.by_sequence.clear();
        }
    }

    /// Candidates of an ADU variable, in ascending order.
    pub(crate) fn of(&self, number: usize) -> &[u32] {
        self.lists.get(number).map_or(&[], |list| &list.adus)
    }
}

/// Streams that may pass, the conditions on the ADU alone, the others, and the required sequence number.
type Filter<'o> = (
    Option<&'o [StreamId]>,
    &'o [NodeId],
    &'o [NodeId],
    Option<NodeId>,
);

fn filter(objective: &Objective, number: usize) -> Option<Filter<'_>> {
    match &objective.variables[usize::from(objective.adus[number])].binding {
        Binding::Adu {
            streams,
            own,
            joined,
            sequence,
        } => Some((streams.as_deref(), own, joined, *sequence)),
        Binding::Stream(_) => None,
    }
}

/// Calls `at` in every context, with the variables bound; in the order of ADUs, the last variable fastest. Tries at most
/// `tries` bindings of a variable and returns the number tried.
pub(crate) fn visit<S, F>(
    objective: &Objective,
    candidates: &Candidates,
    machine: &mut Machine<'_, S>,
    involving: Involving<'_>,
    tries: u64,
    at: &mut F,
) -> u64
where
    S: Schedule + ?Sized,
    F: FnMut(&mut Machine<'_, S>),
{
    let mut walk = Walk {
        objective,
        candidates,
        involving: &[],
        pivot: usize::MAX,
        tries,
        at,
    };
    match involving {
        Involving::Any => walk.bind(machine, 0),
        // Each context once: by the first variable that is bound to one of them.
        Involving::These(adus) => {
            walk.involving = adus;
            for pivot in 0..objective.adus.len() {
                walk.pivot = pivot;
                walk.bind(machine, 0);
            }
        }
    }
    tries - walk.tries
}

struct Walk<'w, F> {
    objective: &'w Objective,
    candidates: &'w Candidates,
    involving: &'w [u32],
    /// The first variable that is bound to one of `involving`.
    pivot: usize,
    tries: u64,
    at: &'w mut F,
}

impl<F> Walk<'_, F> {
    fn bind<S>(&mut self, machine: &mut Machine<'_, S>, number: usize)
    where
        S: Schedule + ?Sized,
        F: FnMut(&mut Machine<'_, S>),
    {
        if number == self.objective.adus.len() {
            machine.each_stream(&self.objective.labelled, self.at);
            return;
        }
        let list = &self.candidates.lists[number];
        if number == self.pivot {
            for &adu in self.involving {
                if list.adus.binary_search(&adu).is_ok() && !self.try_one(machine, number, adu) {
                    return;
                }
            }
            return;
        }
        let wanted = filter(self.objective, number).and_then(|(.., sequence)| sequence);
        if let Some(sequence) = wanted {
            // NaN is equal to nothing.
            let value = machine.value_of_filter(sequence);
            let start = list.by_sequence.partition_point(|&(seq, _)| seq < value);
            for &(seq, adu) in &list.by_sequence[start..] {
                if seq > value || !self.try_one(machine, number, adu) {
                    return;
                }
            }
            return;
        }
        for &adu in &list.adus {
            if !self.try_one(machine, number, adu) {
                return;
            }
        }
    }

    /// Binds the variable and those after it; false when the tries are used up.
    fn try_one<S>(&mut self, machine: &mut Machine<'_, S>, number: usize, adu: u32) -> bool
    where
        S: Schedule + ?Sized,
        F: FnMut(&mut Machine<'_, S>),
    {
        if self.tries == 0 {
            machine.faults = machine.faults.union(Faults::TOO_MANY_CONTEXTS);
            return false;
        }
        self.tries -= 1;
        let is_later =
            self.pivot != usize::MAX && number < self.pivot && self.involving.contains(&adu);
        if is_later || !machine.schedule.is_sent(adu) {
            return true;
        }
        machine.bound[number] = adu;
        let index = usize::from(self.objective.adus[number]);
        if let Binding::Adu { joined, .. } = &self.objective.variables[index].binding
            && joined.iter().all(|&part| machine.passes(part))
        {
            self.bind(machine, number + 1);
        }
        true
    }
}
