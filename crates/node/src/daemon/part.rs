//! Parts of a program above the node that take their settings from its configuration, and follow its reloads.

use std::{
    fmt,
    sync::{Arc, PoisonError},
};

use super::{Core, Handle};
use crate::config::NodeConfig;

/// Puts prepared settings into force.
pub type Commit = Box<dyn FnOnce() + Send>;

/// A part of a program that takes its settings from the node's configuration.
///
/// A part must not hold a [`Handle`], which would keep it and the node alive for ever.
pub trait Part: Send + Sync + fmt::Debug {
    /// Prepares the settings of a configuration, and acquires what they need; nothing changes before the result is called.
    /// Dropping it instead releases what was acquired. A reload calls it before anything of the node changes.
    ///
    /// # Errors
    /// The reason for which the settings cannot be used; the reload is refused.
    fn prepare(&self, config: &NodeConfig) -> Result<Commit, String>;
}

impl Handle {
    /// Makes a part follow every reload from now on. It stays for as long as the node.
    pub fn attach(&self, part: Arc<dyn Part>) {
        let parts = self.core().parts.lock();
        parts.unwrap_or_else(PoisonError::into_inner).push(part);
    }
}

impl Core {
    /// Prepares all parts for a configuration.
    pub(super) fn prepare_parts(&self, config: &NodeConfig) -> Result<Vec<Commit>, String> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = parts.iter().map(|part| part.prepare(config));
        prepared.collect()
    }
}
