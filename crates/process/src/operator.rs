//! Interface of operators, and the bounds on what they return.

use std::fmt;

use crate::adu::{Adu, FieldError};

/// Units of work that an operator is charged for each ADU, beside those for its bytes.
pub const WORK_OF_ADU: u64 = 64;

/// Bounds on what an operator returns for one ADU, and on the resources of WebAssembly modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// ADUs.
    pub adus: usize,
    /// Bytes of their bodies together.
    pub bytes: usize,
    /// Fuel of all WebAssembly modules of a pipeline together for one ADU of the source, and for their beginning: about one
    /// instruction each.
    pub fuel: u64,
    /// Fuel for a second of all WebAssembly modules that run for a peer. What is beyond is left out, or waits.
    pub fuel_per_s: u64,
    /// Memory of an instance of a WebAssembly module, in bytes.
    pub memory: usize,
}

impl Default for Limits {
    /// ADUs of up to some megabytes; fuel for ten million instructions, which an interpreter executes in some 100 ms, and for half
    /// of a processor.
    fn default() -> Self {
        Self {
            adus: 1_024,
            bytes: 64 << 20,
            fuel: 10_000_000,
            fuel_per_s: 50_000_000,
            memory: 32 << 20,
        }
    }
}

/// Reason for which an operator could not process an ADU, as one sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<FieldError> for Fault {
    fn from(error: FieldError) -> Self {
        Self(error.to_string())
    }
}

/// ADUs that an operator returns for one, and the work that they took.
#[derive(Debug)]
pub struct Output {
    limits: Limits,
    adus: Vec<Adu>,
    bytes: usize,
    work: u64,
    fuel: u64,
}

impl Output {
    /// For operators that may take so much fuel.
    pub(crate) fn new(limits: Limits, fuel: u64) -> Self {
        Self {
            limits,
            adus: Vec::new(),
            bytes: 0,
            work: 0,
            fuel,
        }
    }

    /// Adds an ADU.
    ///
    /// # Errors
    /// The operator would return more than the limits allow.
    pub fn push(&mut self, adu: Adu) -> Result<(), Fault> {
        let bytes = self.bytes.saturating_add(adu.body.len());
        if self.adus.len() >= self.limits.adus || bytes > self.limits.bytes {
            return Err(Fault(format!(
                "it returns more than {} ADUs or {} bytes for one ADU; make the ADUs of the source smaller, or raise the limit",
                self.limits.adus, self.limits.bytes
            )));
        }
        self.bytes = bytes;
        self.adus.push(adu);
        Ok(())
    }

    /// Adds to the work done, in units of about one byte read or written, or one instruction of a WebAssembly module.
    pub fn add_work(&mut self, units: u64) {
        self.work = self.work.saturating_add(units);
    }

    /// Fuel that is left.
    pub(crate) fn fuel(&self) -> u64 {
        self.fuel
    }

    /// Takes fuel, which is work.
    #[cfg(feature = "wasm")]
    pub(crate) fn burn(&mut self, units: u64) {
        self.fuel = self.fuel.saturating_sub(units);
        self.add_work(units);
    }

    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    pub(crate) fn take(&mut self) -> Vec<Adu> {
        std::mem::take(&mut self.adus)
    }
}

/// An operator at work, with its state.
///
/// Calls: [`process`](Self::process) for each ADU in order; [`resync`](Self::resync) between two ADUs. After a fault or a
/// panic it is not called again: another one with the same parameters takes its place.
pub trait Operator: fmt::Debug + Send {
    /// Maps an ADU to those that it adds to `output`.
    ///
    /// # Errors
    /// The ADU cannot be processed. What was added to `output` is discarded.
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault>;

    /// Has the next ADU that the operator returns be one that a receiver can use without those before. Operators without
    /// such dependencies do nothing.
    fn resync(&mut self) {}

    /// Memory that its state takes, in bytes, beyond a few kilobytes. That of operators which keep ADUs is 0 after [`resync`](Self::resync).
    fn held_bytes(&self) -> usize {
        0
    }

    /// Place in its cycle, for operators that count: ADUs that it leaves out before the next that passes. 0 for all others.
    fn phase(&self) -> u32 {
        0
    }

    /// Sets the place in its cycle, as [`phase`](Self::phase) returns it. Operators without a cycle do nothing.
    fn set_phase(&mut self, _phase: u32) {}
}
