//! Calls of operators: a panic in one is an error of the ADU that it processed.
//!
//! This requires panics that unwind. A program that aborts on other panics can query [`is_contained`] in its panic hook.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// True while a panic of this thread would be an operator's error only.
pub fn is_contained() -> bool {
    IS_CONTAINED.get()
}

/// Makes the call. State that the call changes must be given up if it panics.
///
/// # Errors
/// The message of the panic, if the call panicked.
pub(crate) fn contain<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let outer = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(outer);
    result.map_err(|payload| message(payload.as_ref()))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|words| (*words).into());
    literal
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}
