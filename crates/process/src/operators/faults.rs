//! An operator that panics, for tests.

use std::num::NonZeroU32;

use crate::{
    adu::Adu,
    operator::{Fault, Operator, Output},
};

/// `panic K`.
#[derive(Debug)]
pub(crate) struct Panic(pub(crate) NonZeroU32);

impl Operator for Panic {
    fn process(&mut self, adu: Adu, output: &mut Output) -> Result<(), Fault> {
        let Self(count) = self;
        assert!(
            !adu.sequence.is_multiple_of(u64::from(count.get())),
            "ADU {} is a multiple of {count}",
            adu.sequence
        );
        output.push(adu)
    }
}
