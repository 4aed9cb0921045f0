//! Operators: what each [`Step`] does.

pub mod delta;
#[cfg(feature = "faults")]
pub(crate) mod faults;
pub mod filter;
pub mod precision;
pub mod region;
#[cfg(feature = "wasm")]
pub mod wasm;

use crate::{
    Modules,
    operator::{Limits, Operator},
    step::Step,
};

/// The operator of a step, at its beginning, for which a module may take so much `fuel`: what it leaves of that is left in it.
///
/// # Errors
/// A module is not known or cannot begin, as a sentence without a full stop.
pub(crate) fn build(
    step: &Step,
    modules: &Modules,
    limits: Limits,
    fuel: &mut u64,
) -> Result<Box<dyn Operator>, String> {
    Ok(match step {
        Step::Where(predicate) => Box::new(filter::Where::new(predicate)),
        Step::Every(count) => Box::new(filter::Every::new(*count)),
        Step::DropLayer(layer) => Box::new(filter::DropLayer(*layer)),
        Step::Select(names) => Box::new(filter::Select(names.clone())),
        Step::Region {
            shape,
            element,
            with_indices,
        } => Box::new(region::Region {
            shape: *shape,
            element: *element,
            with_indices: *with_indices,
        }),
        Step::Precision { bits, element } => Box::new(precision::Precision {
            bits: *bits,
            element: *element,
        }),
        Step::Delta { element, whole } => Box::new(delta::Encoder::new(*element, *whole)),
        Step::Wasm { hash, parameters } => modules.begin(hash, parameters, limits, fuel)?,
        #[cfg(feature = "faults")]
        Step::Panic(count) => Box::new(faults::Panic(*count)),
    })
}
