//! Calls into the QUIC library that process packets or time, or write packets: a panic in one ends its channel only.
//!
//! The library processes packets from any sender before a key is verified, and writes some frames without checking that
//! they fit: packets whose numbers are far apart make it write more than a packet holds, and panic. A connection shares
//! only locked data with others, so it can be given up in whatever state a panic leaves it.
//!
//! Code that the library calls back, congestion control above all, is contained as well. This requires panics that
//! unwind. A program that aborts on other panics can query [`is_contained`] in its panic hook.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
    static FAULTS: Cell<u64> = const { Cell::new(0) };
}

/// True while a panic of this thread would end a channel only.
pub fn is_contained() -> bool {
    IS_CONTAINED.get()
}

/// Number of panics of this thread that ended a channel only; for tests and simulations, in which none is expected.
pub fn faults() -> u64 {
    FAULTS.get()
}

/// Makes the call.
///
/// # Errors
/// The message of the panic, if the call panicked.
pub(crate) fn contain<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let outer = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(outer);
    result.map_err(|payload| {
        FAULTS.set(FAULTS.get() + 1);
        words(payload.as_ref())
    })
}

fn words(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().map(|words| (*words).into());
    literal
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_words() {
        assert_eq!(contain(|| 1), Ok(1));
        let panicked = contain(|| -> u8 {
            assert!(is_contained());
            panic!("it is {}", 2)
        });
        assert_eq!(panicked, Err("it is 2".into()));
        assert!(!is_contained());
        assert_eq!(faults(), 1);
    }
}
