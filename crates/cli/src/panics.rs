//! Panics: a defect anywhere ends the program at once, so that nothing half done goes on and a supervisor starts it anew. Only one
//! of the QUIC library, which a peer may bring about, ends no more than the channel to that peer.

use std::{
    panic,
    sync::atomic::{AtomicU32, Ordering},
};

use anabranch::net::session;

/// Contained panics that are shown, with the place where they arose; those after them end their channels only.
const SHOWN_MAX: u32 = 10;

/// From now on, aborts on panics that are not contained.
pub(crate) fn end_the_program() {
    let show = panic::take_hook();
    let contained = AtomicU32::new(0);
    panic::set_hook(Box::new(move |info| {
        if !session::is_contained() {
            show(info);
            std::process::abort();
        }
        if contained.fetch_add(1, Ordering::Relaxed) < SHOWN_MAX {
            show(info);
        }
    }));
}
