//! Settings of a service.

use std::time::Duration;

use anabranch_process::{Modules, serve::GRACE};

/// Choices of the operator of a processing node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Memory for what is kept for sources and subscribers, in bytes. Beside it, each source has an ADU in work and one in its stream.
    pub memory: usize,
    /// Time for which sources and reliable subscribers are waited for that are away.
    pub grace: Duration,
    /// WebAssembly modules that pipelines can name. Without the feature `wasm`, there are none.
    pub modules: Modules,
}

impl Settings {
    /// Least memory: two ADUs of the largest size, for a source and a subscriber.
    pub const MEMORY_MIN: usize = 64 << 20;
}

impl Default for Settings {
    /// 512 MiB and 30 s.
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            grace: GRACE,
            modules: Modules::default(),
        }
    }
}
