//! Load of a program that processes streams, in a message.

use anabranch_overlay::Load;
use serde::{Deserialize, Serialize};

use super::ErrorBody;
use crate::local::tables::error;

/// Most processors that operators can use, beyond every machine.
const OPERATORS_MAX: f64 = 1e6;

/// Load of a program that processes streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadBody {
    /// Share of the machine's processors in use by all programs, 0 to 1; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<f64>,
    /// Processors of the machine; 0: unknown.
    pub cores: u32,
    /// Processors that operators on streams are using; 1.5 is one and a half.
    pub operators: f64,
    /// Bytes that are kept for sources and subscribers.
    pub memory_used: u64,
    /// Bytes that may be kept for them.
    pub memory_bound: u64,
    /// Derived ADUs that wait to be sent.
    pub queued_adus: u64,
    /// Bytes of these.
    pub queued_bytes: u64,
    /// Mean time of a unit of work, in picoseconds; 0: unknown.
    pub unit_ps: u64,
}

impl LoadBody {
    /// The load. More than 255 processors count as 255.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn resolve(&self) -> Result<Load, ErrorBody> {
        let refused = |name: &str, value: f64, most: f64| {
            let words = format!("'{name}' of the load is {value}; it is 0 to {most}");
            error("request", words)
        };
        if let Some(machine) = self.machine
            && !(0.0..=1.0).contains(&machine)
        {
            return Err(refused("machine", machine, 1.0));
        }
        if !(0.0..=OPERATORS_MAX).contains(&self.operators) {
            return Err(refused("operators", self.operators, OPERATORS_MAX));
        }
        Ok(Load {
            machine: self.machine,
            cores: u8::try_from(self.cores).unwrap_or(u8::MAX),
            operators: self.operators,
            memory_used: self.memory_used,
            memory_bound: self.memory_bound,
            queued_adus: self.queued_adus,
            queued_bytes: self.queued_bytes,
            unit_ps: self.unit_ps,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused() {
        let body = LoadBody {
            machine: Some(0.5),
            cores: 300,
            operators: 1.5,
            ..LoadBody::default()
        };
        let load = body.resolve().expect("it is in range");
        assert_eq!((load.cores, load.operators), (255, 1.5));
        for machine in [-0.1, 1.1, f64::NAN] {
            let wrong = LoadBody {
                machine: Some(machine),
                ..body
            };
            assert!(wrong.resolve().unwrap_err().message.contains("machine"));
        }
        for operators in [-1.0, f64::INFINITY, f64::NAN] {
            let wrong = LoadBody { operators, ..body };
            assert!(wrong.resolve().unwrap_err().message.contains("operators"));
        }
    }
}
