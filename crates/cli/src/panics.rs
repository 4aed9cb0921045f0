//! Panic policy. A panic ends the program at once, so that it does not continue in an inconsistent state and a supervisor restarts
//! it. The exceptions are a panic in the QUIC library, which a peer may cause: it closes only the channel to that peer; and one in an operator
//! on the way, which is the error of one ADU.

use std::{
    panic,
    sync::atomic::{AtomicU32, Ordering},
};

use anabranch::net::session;

/// Contained panics that are printed with their location; later ones have their effect without it.
const SHOWN_MAX: u32 = 10;

/// Installs the panic hook, which aborts the process on panics that are not contained.
pub(crate) fn end_the_program() {
    let show = panic::take_hook();
    let contained = AtomicU32::new(0);
    panic::set_hook(Box::new(move |info| {
        if !is_contained() {
            show(info);
            std::process::abort();
        }
        if contained.fetch_add(1, Ordering::Relaxed) < SHOWN_MAX {
            show(info);
        }
    }));
}

fn is_contained() -> bool {
    #[cfg(feature = "process")]
    if anabranch_processing::process::contained::is_contained() {
        return true;
    }
    session::is_contained()
}
