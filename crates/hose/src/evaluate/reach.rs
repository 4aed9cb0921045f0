//! Contexts within reach: those whose goal some slot can make true.
//!
//! An objective over several ADUs has many contexts, and most of them add nothing, whatever the schedule: an ADU that depends on
//! another is of no concern while no slot is likely to lose that one. Before a search, the contexts of one cycle are listed without
//! those; what a change of slots is worth then follows from the few in which the ADUs are.

use anabranch_base::StreamId;

use super::{
    contexts::{Candidates, Involving, visit},
    machine::Machine,
    range::{Outlook, Range, Ranges},
    schedule::Schedule,
};
use crate::{
    fact::{AduFact, StreamFact},
    program::{ADU_VARIABLES_MAX, Objective},
};

/// Most contexts of one objective that are listed, and bindings that are tried to find them.
const LISTED_MAX: usize = 8_192;
const TRIES: u64 = 32_768;

/// The contexts of one objective that are within reach, as of the last [`find`](Reach::find).
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    /// False if there are too many contexts to be listed: then only the ADUs are known.
    is_listed: bool,
    /// ADUs that pass the filters, and can take part in a context within reach.
    candidates: Candidates,
    /// The ADUs of each context, one for each variable.
    contexts: Vec<u32>,
    width: usize,
    /// For each ADU, the place in `of_adus` where its contexts begin; one more at the end.
    starts: Vec<u32>,
    of_adus: Vec<u32>,
    /// More than each context can add, and more than those of each ADU can.
    most_each: Vec<f64>,
    most_of: Vec<f64>,
    /// More than all contexts together can add.
    most: f64,
}

/// A schedule in which every ADU is sent, of which only facts are asked that do not depend on slots.
struct Unplaced<'s, S: ?Sized>(&'s S);

impl<S: Schedule + ?Sized> Schedule for Unplaced<'_, S> {
    fn adus(&self) -> u32 {
        self.0.adus()
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        self.0.adu(adu, fact)
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        self.0.stream(stream, fact)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        self.0.labelled(number)
    }

    fn correlated_loss(&self, _: u32, _: u32) -> f64 {
        f64::NAN
    }
}

impl Reach {
    /// Lists the contexts within reach in at most `left` bindings. Returns the number of bindings tried.
    ///
    /// O(candidates × nodes + contexts × nodes); keeps its memory.
    pub(super) fn find<S, O>(
        &mut self,
        (objective, all): (&Objective, &Candidates),
        schedule: &S,
        outlook: &O,
        left: u64,
    ) -> u64
    where
        S: Schedule + ?Sized,
        O: Outlook + ?Sized,
    {
        self.width = objective.adus.len();
        self.is_listed = true;
        self.contexts.clear();
        self.most_each.clear();
        let goal = |bound: &[Option<u32>]| {
            let ranges = Ranges {
                objective,
                schedule,
                outlook,
                bound,
            };
            ranges.of(objective.goal)
        };
        let mut bound = [None; ADU_VARIABLES_MAX];
        let mut is_empty = false;
        for number in 0..self.width {
            self.candidates.keep(all, number, |&adu| {
                bound[number] = Some(adu);
                !goal(&bound).is_never()
            });
            bound[number] = None;
            is_empty |= self.candidates.of(number).is_empty();
        }
        let mut tried = 0;
        if is_empty {
            self.candidates.clear();
        } else {
            let unplaced = Unplaced(schedule);
            let mut machine = Machine::new(objective, &unplaced);
            let (contexts, most_each, width) =
                (&mut self.contexts, &mut self.most_each, self.width);
            let mut count = 0;
            let mut at = |machine: &mut Machine<'_, Unplaced<'_, S>>| {
                let adus = &machine.bound[..width];
                // Streams that are bound by label multiply contexts; these count once.
                let is_again =
                    contexts.len() >= width && contexts[contexts.len() - width..] == *adus;
                if is_again || count >= LISTED_MAX {
                    return;
                }
                let mut bound = [None; ADU_VARIABLES_MAX];
                bound
                    .iter_mut()
                    .zip(adus)
                    .for_each(|(bound, &adu)| *bound = Some(adu));
                if goal(&bound).is_never() {
                    return;
                }
                count += 1;
                contexts.extend_from_slice(adus);
                most_each.push(most_gained(objective, schedule, outlook, &bound));
            };
            tried = visit(
                objective,
                &self.candidates,
                &mut machine,
                Involving::Any,
                TRIES.min(left),
                &mut at,
            );
            self.is_listed = tried < TRIES.min(left) && count < LISTED_MAX;
        }
        self.most = self.most_each.iter().sum();
        self.index(schedule.adus());
        tried
    }

    fn index(&mut self, adus: u32) {
        self.starts.clear();
        self.of_adus.clear();
        self.most_of.clear();
        if !self.is_listed {
            return;
        }
        self.starts.resize(adus as usize + 2, 0);
        let firsts = |context: &[u32], at: usize| !context[..at].contains(&context[at]);
        for context in self.contexts.chunks_exact(self.width) {
            for (at, &adu) in context.iter().enumerate() {
                self.starts[adu as usize + 2] += u32::from(firsts(context, at));
            }
        }
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        self.of_adus.resize(sum as usize, 0);
        self.most_of.resize(adus as usize, 0.0);
        for (number, context) in (0..).zip(self.contexts.chunks_exact(self.width)) {
            for (at, &adu) in context.iter().enumerate() {
                if firsts(context, at) {
                    let next = &mut self.starts[adu as usize + 1];
                    self.of_adus[*next as usize] = number;
                    self.most_of[adu as usize] += self.most_each[number as usize];
                    *next += 1;
                }
            }
        }
    }

    /// Calls `at` in each context within reach that involves one of these ADUs, or in all of them; returns the number of
    /// bindings tried.
    pub(super) fn visit<S, F>(
        &self,
        objective: &Objective,
        machine: &mut Machine<'_, S>,
        involving: Involving<'_>,
        tries: u64,
        at: &mut F,
    ) -> u64
    where
        S: Schedule + ?Sized,
        F: FnMut(&mut Machine<'_, S>),
    {
        if !self.is_listed {
            return visit(objective, &self.candidates, machine, involving, tries, at);
        }
        let mut tried = 0;
        let mut go = |machine: &mut Machine<'_, S>, context: &[u32]| {
            tried += 1;
            if context.iter().all(|&adu| machine.schedule.is_sent(adu)) {
                machine.bound[..self.width].copy_from_slice(context);
                machine.each_stream(&objective.labelled, at);
            }
        };
        match involving {
            Involving::Any => {
                let contexts = self.contexts.chunks_exact(self.width);
                contexts.for_each(|context| go(machine, context));
            }
            Involving::These(adus) => {
                for (place, &adu) in adus.iter().enumerate() {
                    for &number in self.contexts_of(adu) {
                        let from = number as usize * self.width;
                        let context = &self.contexts[from..from + self.width];
                        // Each once: with the first of the ADUs that it involves.
                        if !adus[..place].iter().any(|before| context.contains(before)) {
                            go(machine, context);
                        }
                    }
                }
            }
        }
        tried
    }

    fn contexts_of(&self, adu: u32) -> &[u32] {
        let place = |at: usize| self.starts.get(at).map_or(0, |&start| start as usize);
        &self.of_adus[place(adu as usize)..place(adu as usize + 1)]
    }

    /// ADUs in contexts within reach, in any order and possibly repeated.
    pub(super) fn adus(&self) -> impl Iterator<Item = u32> + '_ {
        let listed = self.contexts.iter().filter(|_| self.is_listed);
        let lists = (0..self.width).filter(|_| !self.is_listed);
        let others = lists.flat_map(|number| self.candidates.of(number));
        listed.chain(others).copied()
    }

    /// More than the contexts of an ADU can add together, in any schedule.
    pub(super) fn most_of(&self, adu: u32) -> f64 {
        if self.is_listed {
            self.most_of.get(adu as usize).copied().unwrap_or(0.0)
        } else {
            f64::INFINITY
        }
    }

    /// More than the contexts can add together, in any schedule.
    pub(super) fn most(&self) -> f64 {
        if self.is_listed {
            self.most
        } else {
            f64::INFINITY
        }
    }
}

/// More than one context can add.
fn most_gained<S, O>(objective: &Objective, schedule: &S, outlook: &O, bound: &[Option<u32>]) -> f64
where
    S: Schedule + ?Sized,
    O: Outlook + ?Sized,
{
    if !objective.labelled.is_empty() {
        return f64::INFINITY;
    }
    let ranges = Ranges {
        objective,
        schedule,
        outlook,
        bound,
    };
    let gains = objective.gains.iter().map(|&(_, node)| ranges.of(node));
    gains.map(|Range { high, .. }| high).sum::<f64>().max(0.0)
}
