//! Pipeline at work: the state of its operators, and what each costs.

use std::fmt;

use crate::{
    Modules, Pipeline,
    adu::Adu,
    contained::contain,
    operator::{Limits, Operator, Output},
    operators,
    step::Step,
};

/// Work of an operator since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// ADUs that it received.
    pub adus_in: u64,
    /// ADUs that it returned.
    pub adus_out: u64,
    /// ADUs that it could not process.
    pub failures: u64,
    /// Units of work: about one byte read or written, or one instruction of a WebAssembly module, each. The host multiplies
    /// them by what a unit takes on its processor.
    pub work: u64,
}

/// ADUs that were derived from one, and the work that this took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processed {
    /// In order.
    pub adus: Vec<Adu>,
    /// Units of work of all operators.
    pub work: u64,
}

/// Error of a pipeline that cannot begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {position}, \"{operator}\": {reason}")]
pub struct StartError {
    /// Place in the pipeline, from 1.
    pub position: usize,
    /// Name of the operator.
    pub operator: &'static str,
    /// One sentence without a full stop.
    pub reason: String,
}

/// Error of an operator. Nothing was derived from the ADU; the operator has begun anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Place in the pipeline, from 1.
    pub position: usize,
    /// Name of the operator.
    pub operator: &'static str,
    /// The ADU's number in the source stream.
    pub sequence: u64,
    /// One sentence without a full stop.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            position,
            operator,
            sequence,
            reason,
        } = self;
        write!(
            f,
            "step {position}, \"{operator}\", cannot process ADU {sequence}: {reason}"
        )
    }
}

impl std::error::Error for Failure {}

/// One operator with its step.
#[derive(Debug)]
struct Stage {
    step: Step,
    /// `None` after a fault, until the next ADU.
    operator: Option<Box<dyn Operator>>,
    cost: Cost,
}

/// A pipeline at work.
#[derive(Debug)]
pub struct Running {
    pipeline: Pipeline,
    stages: Vec<Stage>,
    limits: Limits,
    /// Fuel that modules have taken since it began.
    burnt: u64,
}

impl Running {
    pub(crate) fn start(
        pipeline: Pipeline,
        modules: &Modules,
        limits: Limits,
    ) -> Result<Self, StartError> {
        let mut running = Self {
            pipeline: Pipeline::default(),
            stages: Vec::new(),
            limits,
            burnt: 0,
        };
        running.replace(pipeline, modules)?;
        Ok(running)
    }

    /// The pipeline.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Costs of the operators, in the order of the steps.
    pub fn costs(&self) -> impl Iterator<Item = Cost> + '_ {
        self.stages.iter().map(|stage| stage.cost)
    }

    /// Fuel that modules have taken since it began.
    pub(crate) fn burnt(&self) -> u64 {
        self.burnt
    }

    /// Units of work of the operators that are at work now.
    pub(crate) fn work(&self) -> u64 {
        self.costs().map(|cost| cost.work).sum()
    }

    /// Phase of each operator, in the order of the steps ([`Operator::phase`]).
    pub fn phases(&self) -> Vec<u32> {
        let phase = |stage: &Stage| stage.operator.as_ref().map_or(0, |one| one.phase());
        self.stages.iter().map(phase).collect()
    }

    /// Sets the phases of another run of the same pipeline, so that this one passes the same ADUs from here on. Without effect if
    /// there is not one for each step.
    pub fn set_phases(&mut self, phases: &[u32]) {
        if phases.len() != self.stages.len() {
            return;
        }
        for (stage, &phase) in self.stages.iter_mut().zip(phases) {
            if let Some(operator) = &mut stage.operator {
                operator.set_phase(phase);
            }
        }
    }

    /// The phases right after an ADU that passed all steps.
    pub fn phases_after(&self) -> Vec<u32> {
        let after = |stage: &Stage| match &stage.step {
            Step::Every(count) => count.get() - 1,
            _ => 0,
        };
        self.stages.iter().map(after).collect()
    }

    /// Replaces the pipeline, between two ADUs: the next is processed by the new one. Operators whose step is the same at the
    /// same place keep their state and their costs; the others begin.
    ///
    /// # Errors
    /// An operator cannot begin; the pipeline then stays as it was.
    pub fn replace(&mut self, pipeline: Pipeline, modules: &Modules) -> Result<(), StartError> {
        let mut begun = Vec::new();
        let mut fuel = self.limits.fuel;
        let mut before = fuel;
        for (index, step) in pipeline.steps().iter().enumerate() {
            let is_same = self
                .stages
                .get(index)
                .is_some_and(|stage| stage.step == *step);
            begun.push(match is_same {
                true => None,
                false => {
                    let operator = begin(index, step, modules, (self.limits, &mut fuel));
                    self.burnt += std::mem::replace(&mut before, fuel) - fuel;
                    Some(operator?)
                }
            });
        }
        let mut former = std::mem::take(&mut self.stages).into_iter();
        for (step, operator) in pipeline.steps().iter().zip(begun) {
            let same = former.next();
            self.stages.push(match operator {
                None => same.expect("it was compared with the step"),
                Some(operator) => Stage {
                    step: step.clone(),
                    operator: Some(operator),
                    cost: Cost::default(),
                },
            });
        }
        self.pipeline = pipeline;
        Ok(())
    }

    /// Has the next ADU be one that a receiver can use without those before.
    pub fn resync(&mut self) {
        for stage in &mut self.stages {
            // An operator that begins anew does so by itself.
            let operator = stage.operator.take();
            stage.operator = operator.and_then(|mut operator| {
                let resynced = contain(|| operator.resync());
                resynced.is_ok().then_some(operator)
            });
        }
    }

    /// Memory that the state of its operators takes, in bytes, about.
    pub fn held_bytes(&self) -> usize {
        let of = |stage: &Stage| stage.operator.as_ref().map_or(0, |one| one.held_bytes());
        self.stages.iter().map(of).sum()
    }

    /// Derives from an ADU. ADUs should be given in their order.
    ///
    /// # Errors
    /// An operator cannot process the ADU or what was derived from it. It begins anew with the next one, and all others
    /// return ADUs that need none before.
    pub fn process(&mut self, adu: Adu, modules: &Modules) -> Result<Processed, Failure> {
        let sequence = adu.sequence;
        let mut adus = vec![adu];
        let mut work = 0;
        let mut fuel = self.limits.fuel;
        for index in 0..self.stages.len() {
            let before = fuel;
            let stage = &mut self.stages[index];
            let processed = stage.process(index, adus, modules, (self.limits, &mut fuel));
            self.burnt += before - fuel;
            match processed {
                Ok((derived, done)) => {
                    work += done;
                    adus = derived;
                }
                Err(reason) => return Err(self.fail(index, sequence, reason)),
            }
        }
        Ok(Processed { adus, work })
    }

    /// Leaves out an ADU that the operator at this place, from 1, would process.
    pub(crate) fn leave_out(&mut self, position: usize, sequence: u64, reason: String) -> Failure {
        self.failure(position - 1, sequence, reason)
    }

    fn fail(&mut self, index: usize, sequence: u64, reason: String) -> Failure {
        self.stages[index].operator = None;
        self.failure(index, sequence, reason)
    }

    fn failure(&mut self, index: usize, sequence: u64, reason: String) -> Failure {
        let stage = &mut self.stages[index];
        let operator = stage.step.name();
        stage.cost.failures += 1;
        self.resync();
        Failure {
            position: index + 1,
            operator,
            sequence,
            reason,
        }
    }
}

fn begin(
    index: usize,
    step: &Step,
    modules: &Modules,
    (limits, fuel): (Limits, &mut u64),
) -> Result<Box<dyn Operator>, StartError> {
    let begun = contain(|| operators::build(step, modules, limits, fuel));
    let begun = begun.unwrap_or_else(|panic| Err(format!("it panicked: {panic}")));
    begun.map_err(|reason| StartError {
        position: index + 1,
        operator: step.name(),
        reason,
    })
}

impl Stage {
    fn process(
        &mut self,
        index: usize,
        adus: Vec<Adu>,
        modules: &Modules,
        (limits, fuel): (Limits, &mut u64),
    ) -> Result<(Vec<Adu>, u64), String> {
        let mut operator = match self.operator.take() {
            Some(operator) => operator,
            None => {
                let before = *fuel;
                let begun = begin(index, &self.step, modules, (limits, fuel));
                self.cost.work = self.cost.work.saturating_add(before - *fuel);
                begun.map_err(|error| error.reason)?
            }
        };
        let mut output = Output::new(limits, *fuel);
        let received = adus.len() as u64;
        let result = contain(|| {
            let mut adus = adus.into_iter();
            adus.try_for_each(|adu| operator.process(adu, &mut output))
        });
        *fuel = output.fuel();
        self.cost.adus_in += received;
        self.cost.work = self.cost.work.saturating_add(output.work());
        match result {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => return Err(fault.0),
            Err(panic) => {
                return Err(format!(
                    "it panicked ({panic}); this is a fault of the program, please report it"
                ));
            }
        }
        self.operator = Some(operator);
        let derived = output.take();
        self.cost.adus_out += derived.len() as u64;
        Ok((derived, output.work()))
    }
}

#[cfg(test)]
mod tests;
