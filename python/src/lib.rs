//! Extension module `anabranch._anabranch`: nodes, sessions and streams as the Python package `anabranch` wraps them.
//!
//! Thin: no decisions are made here, and values cross as buffers, numbers, texts and dictionaries, of which the package makes
//! its classes. No thread but Python's own ever enters the interpreter: a pending `Operation` is polled by the
//! Python thread that waits for it, and what wakes it writes to a socket (`bridge`) or unparks that thread. So an event of
//! the node never waits for the interpreter, and none arrives while the interpreter ends.
//!
//! | module | holds |
//! |---|---|
//! | `fork` | handles that are inert in a forked child |
//! | `runtime` | the tokio runtime, one a process |
//! | `signal`, `bridge`, `operation` | wake-ups of threads and of event loops; pending operations |
//! | `buffer`, `message` | buffers in, received messages out |
//! | `failure` | errors as classes of `anabranch.errors` |
//! | `words`, `report`, `event` | specifications in; statistics, promises and events out |
//! | `exports` | exported directories of a peer |
//! | `node`, `client`, `session`, `stream` | the handles |
//! | `objective` | findings about objectives, and what they did |
//! | `emulator` | emulated links |
//! | `transfer` | files to the receiver of a ticket |
//! | `statistics` | the library's statistics on arrays |

use pyo3::prelude::*;

mod bridge;
mod buffer;
mod client;
mod emulator;
mod event;
mod exports;
mod failure;
mod fork;
mod message;
mod node;
mod objective;
mod operation;
mod report;
mod runtime;
mod session;
mod signal;
mod statistics;
mod stream;
mod transfer;
mod words;

/// The module.
#[pymodule]
mod _anabranch {
    #[pymodule_export]
    use crate::{
        bridge::Bridge,
        client::{Client, Service},
        emulator::Emulator,
        exports::Exports,
        message::Message,
        node::{Node, parse_ticket},
        objective::check_objectives,
        operation::Operation,
        session::Session,
        statistics::{
            forecast::{forecast, score},
            joint::{correlation, joint_share, split_quantile, total_quantile, total_share},
            loss::loss_model,
            order::{drift, durable, partial_means, quantiles, rolling_quantile, shares},
        },
        stream::Stream,
    };

    /// Watches for forks.
    #[pymodule_init]
    fn start() {
        crate::fork::watch();
    }
}
