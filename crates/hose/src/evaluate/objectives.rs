//! Set of the objectives in force.

use super::{
    contexts::{ByStream, Candidates, Involving, visit},
    faults::Faults,
    machine::Machine,
    reach::Reach,
    schedule::Schedule,
    sent::Sent,
    tally::Intervals,
};
use crate::{
    Report,
    explain::Explanation,
    fact::FieldId,
    program::{Objective, RateObjective, Shape},
    types::Type,
    vocabulary::{Vocabulary, VocabularyError},
};

/// Largest number of objectives in force at a time, and of rates.
pub const OBJECTIVES_MAX: usize = 1024;

/// Identifier of an objective or rate in force; never reused by one [`Objectives`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectiveId(pub u64);

/// Bounds on the work of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bindings that are tried for one objective in one evaluation; the rest is left out and reported
    /// ([`Faults::TOO_MANY_CONTEXTS`]). An objective over two variables has at most the square of the number of ADUs.
    pub tries: u64,
}

impl Default for Limits {
    /// Two variables over a thousand ADUs.
    fn default() -> Self {
        Self { tries: 1_000_000 }
    }
}

/// Items added by an injection.
#[derive(Clone, Debug, PartialEq)]
pub struct Injected {
    /// The objectives, in order of place.
    pub objectives: Vec<ObjectiveId>,
    /// The rates, in order of place, to be turned into promises.
    pub rates: Vec<(ObjectiveId, RateObjective)>,
    /// Warnings about the text.
    pub warnings: Report,
}

/// Error of an injection.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InjectError {
    /// The text has errors.
    #[error("{0}")]
    Text(Box<Report>),
    /// There would be more than [`OBJECTIVES_MAX`] of a kind. Carries the number of that kind in force.
    #[error(
        "{0} objectives of this kind are in force, and these would exceed the limit of {OBJECTIVES_MAX}; remove some first"
    )]
    Full(usize),
}

/// One objective in force.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: ObjectiveId,
    pub(super) objective: Objective,
    pub(super) candidates: Candidates,
    /// Contexts that some slot can make count, if the set is narrowed.
    pub(super) reach: Reach,
    /// All faults so far.
    faults: Faults,
    /// Faults that have been reported.
    reported: Faults,
    /// Faults that are in no interval of the tally yet.
    pub(super) fresh: Faults,
    pub(super) tally: Intervals,
}

impl Entry {
    pub(super) fn add_faults(&mut self, faults: Faults) {
        self.faults = self.faults.union(faults);
        self.fresh = self.fresh.union(faults);
    }
}

/// An objective over one ADU, and the ADUs that pass its filter.
#[derive(Clone, Copy, Debug)]
pub struct Single<'o> {
    /// The objective.
    pub id: ObjectiveId,
    /// Its index among the objectives in force, for [`Objectives::at`].
    pub place: u32,
    /// The compiled objective.
    pub objective: &'o Objective,
    /// ADUs in ascending order, as of the last [`Objectives::begin`].
    pub adus: &'o [u32],
}

/// The set of objectives in force, which may change at any time, with the data for their evaluation.
///
/// When the set of ADUs or of objectives has changed, call [`begin`](Self::begin); then
/// [`utility`](Self::utility) for as many schedules of these ADUs as you like. Evaluation allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Objectives {
    pub(super) limits: Limits,
    vocabulary: Vocabulary,
    pub(super) entries: Vec<Entry>,
    rates: Vec<(ObjectiveId, RateObjective)>,
    next: u64,
    by_stream: ByStream,
    pub(super) sent: Sent,
    /// Bindings tried since [`Objectives::begin`].
    pub(super) tried: u64,
    /// True from [`Objectives::narrow`] to the next [`Objectives::begin`].
    pub(super) is_narrowed: bool,
}

impl Objectives {
    /// Creates an empty set. `vocabulary` holds the fields that applications declared.
    pub fn new(limits: Limits, vocabulary: Vocabulary) -> Self {
        Self {
            limits,
            vocabulary,
            ..Self::default()
        }
    }

    /// The fields known to the objectives; all of them use the same numbers.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Applies the objectives of a text atomically: all of them, or none if there is an error.
    ///
    /// # Errors
    /// The text has errors, or there would be too many objectives.
    pub fn inject(&mut self, text: &str) -> Result<Injected, InjectError> {
        let mut vocabulary = self.vocabulary.clone();
        let compiled = crate::compile(text, &mut vocabulary)
            .map_err(|report| InjectError::Text(Box::new(report)))?;
        let program = compiled.program;
        for (known, added) in [
            (self.entries.len(), program.objectives.len()),
            (self.rates.len(), program.rates.len()),
        ] {
            if known + added > OBJECTIVES_MAX {
                return Err(InjectError::Full(known));
            }
        }
        self.vocabulary = vocabulary;
        let mut ids = Vec::new();
        for objective in program.objectives {
            ids.push(self.fresh());
            self.entries.push(Entry {
                id: self.last(),
                objective,
                candidates: Candidates::default(),
                reach: Reach::default(),
                faults: Faults::NONE,
                reported: Faults::NONE,
                fresh: Faults::NONE,
                tally: Intervals::default(),
            });
        }
        let mut rates = Vec::new();
        for rate in program.rates {
            rates.push((self.fresh(), rate));
        }
        self.rates.extend(rates.iter().cloned());
        Ok(Injected {
            objectives: ids,
            rates,
            warnings: compiled.warnings,
        })
    }

    fn fresh(&mut self) -> ObjectiveId {
        self.next += 1;
        self.last()
    }

    fn last(&self) -> ObjectiveId {
        ObjectiveId(self.next - 1)
    }

    /// Removes an objective or rate; false if it was not in force.
    pub fn remove(&mut self, id: ObjectiveId) -> bool {
        let before = self.entries.len() + self.rates.len();
        self.entries.retain(|entry| entry.id != id);
        self.rates.retain(|(rate, _)| *rate != id);
        before != self.entries.len() + self.rates.len()
    }

    /// Objectives in force, in order of injection.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectiveId, &Objective)> {
        self.entries
            .iter()
            .map(|entry| (entry.id, &entry.objective))
    }

    /// True if no objective is in force; rates do not count.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// One of the objectives in force, by its [place](Single::place).
    ///
    /// # Panics
    /// There is no such objective.
    pub fn at(&self, place: u32) -> (ObjectiveId, &Objective) {
        let entry = &self.entries[place as usize];
        (entry.id, &entry.objective)
    }

    /// True if an objective over several ADUs is in force.
    pub fn are_combinatorial(&self) -> bool {
        let mut shapes = self.entries.iter().map(|entry| entry.objective.shape());
        shapes.any(|shape| shape == Shape::Combinatorial)
    }

    /// Rates in force, in order of injection.
    pub fn rates(&self) -> &[(ObjectiveId, RateObjective)] {
        &self.rates
    }

    /// Finds the ADUs that pass each filter, as far as it depends on the ADU alone. To be called before the first
    /// evaluation, and whenever the set of ADUs, one of their fields, or the set of objectives has changed.
    ///
    /// O(ADUs · log ADUs + objectives × variables × ADUs of the streams that their filters allow).
    pub fn begin<S: Schedule + ?Sized>(&mut self, schedule: &S) {
        self.tried = 0;
        self.is_narrowed = false;
        self.by_stream.fill(schedule);
        for entry in &mut self.entries {
            let faults = (entry.candidates).find(&entry.objective, schedule, &self.by_stream);
            entry.add_faults(faults);
        }
    }

    /// Number of bindings tried since [`begin`](Self::begin): the measure of the work done. A search limits itself by it,
    /// because one evaluation may cost a thousand times as much as another.
    pub fn tried(&self) -> u64 {
        self.tried
    }

    /// Utility of the schedule: the sum over all objectives, contexts and gains.
    ///
    /// O(contexts), at most `limits.tries` for each objective.
    pub fn utility<S: Schedule + ?Sized>(&mut self, schedule: &S) -> f64 {
        self.sum(schedule, |_| true, Involving::Any)
    }

    /// Utility of the contexts that involve one of these ADUs (each listed once). When a schedule changes in the slots of
    /// some ADUs, its utility changes by the difference of this value: a local search needs no full evaluation.
    ///
    /// O(ADUs involved × variables × contexts of the others).
    pub fn utility_involving<S: Schedule + ?Sized>(&mut self, schedule: &S, adus: &[u32]) -> f64 {
        self.sum(schedule, |_| true, Involving::These(adus))
    }

    pub(super) fn sum<S: Schedule + ?Sized>(
        &mut self,
        schedule: &S,
        is_wanted: impl Fn(&Objective) -> bool,
        involving: Involving<'_>,
    ) -> f64 {
        let tries = self.limits.tries;
        let mut total = 0.0;
        for entry in &mut self.entries {
            if !is_wanted(&entry.objective) {
                continue;
            }
            let mut machine = Machine::new(&entry.objective, schedule);
            let objective = &entry.objective;
            let mut add = |machine: &mut Machine<'_, S>| total += machine.gain(objective);
            let is_narrowed = self.is_narrowed && objective.shape() == Shape::Combinatorial;
            self.tried += if is_narrowed {
                (entry.reach).visit(objective, &mut machine, involving, tries, &mut add)
            } else {
                let candidates = &entry.candidates;
                visit(
                    objective,
                    candidates,
                    &mut machine,
                    involving,
                    tries,
                    &mut add,
                )
            };
            let faults = machine.faults;
            entry.add_faults(faults);
        }
        total
    }

    /// Objectives over one ADU: their contribution is the sum of [`Objective::gain`] over ADUs, each alone in its slot,
    /// so that the best schedule under them is a linear assignment.
    pub fn singles(&self) -> impl Iterator<Item = Single<'_>> {
        (0..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.objective.shape() == Shape::Single)
            .map(|(place, entry)| Single {
                id: entry.id,
                place,
                objective: &entry.objective,
                adus: entry.candidates.of(0),
            })
    }

    /// Declares a field of applications' ADUs, as `field NAME: TYPE` does; declaring it again is no error.
    ///
    /// # Errors
    /// It is known with another type, its name or type is invalid, or there are too many.
    pub fn declare(&mut self, name: &str, value: Type) -> Result<FieldId, VocabularyError> {
        self.vocabulary.declare(name, value)
    }

    /// Records faults of an evaluation by [`Objective::gain`], to be reported with the others.
    pub fn note(&mut self, id: ObjectiveId, faults: Faults) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == id) {
            entry.add_faults(faults);
        }
    }

    /// Score of each objective, and its explanation; at most `contexts_max` contexts of each are described in full.
    /// Computes its own candidates: [`begin`](Self::begin) need not be called.
    pub fn explain<S: Schedule + ?Sized>(&self, schedule: &S, contexts_max: usize) -> Explanation {
        let mut explanation = Explanation::new(schedule);
        for entry in &self.entries {
            explanation.add(
                entry.id,
                &entry.objective,
                &self.vocabulary,
                self.limits,
                contexts_max,
                schedule,
            );
        }
        explanation
    }

    /// Takes the faults that have not been reported yet: each kind once for an objective as long as it is in force.
    pub fn take_faults(&mut self) -> Vec<(ObjectiveId, Faults)> {
        let mut taken = Vec::new();
        for entry in &mut self.entries {
            let new = entry.faults.without(entry.reported);
            if !new.is_empty() {
                entry.reported = entry.reported.union(new);
                taken.push((entry.id, new));
            }
        }
        taken
    }
}

impl Objective {
    /// Contribution of an objective over one ADU for an ADU that passes its filter, in its slot in `schedule`. `faults`
    /// are added to. 0 for objectives of another shape.
    pub fn gain<S: Schedule + ?Sized>(&self, schedule: &S, adu: u32, faults: &mut Faults) -> f64 {
        if self.shape() != Shape::Single {
            return 0.0;
        }
        let mut machine = Machine::new(self, schedule);
        machine.bound[0] = adu;
        let mut gain = 0.0;
        machine.each_stream(&self.labelled, &mut |machine| gain += machine.gain(self));
        *faults = faults.union(machine.faults);
        gain
    }
}
