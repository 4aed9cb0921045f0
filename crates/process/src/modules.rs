//! WebAssembly modules by their hash.

#[cfg(not(feature = "wasm"))]
use crate::{
    operator::{Limits, Operator},
    step::ModuleHash,
};

#[cfg(feature = "wasm")]
pub use crate::operators::wasm::{ModuleError, Modules};

/// Largest size of a module, in bytes.
pub const MODULE_BYTES_MAX: usize = 1 << 20;

/// Largest number of modules that are known at a time.
pub const MODULES_MAX: usize = 64;

/// WebAssembly modules by their hash; without the feature `wasm` there are none.
#[cfg(not(feature = "wasm"))]
#[derive(Clone, Debug, Default)]
pub struct Modules {}

/// Error of a program without WebAssembly.
#[cfg(not(feature = "wasm"))]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program was built without WebAssembly; build it with the feature \"wasm\"")]
pub struct ModuleError {}

#[cfg(not(feature = "wasm"))]
impl Modules {
    /// Adds a module that another node sent for its hash.
    ///
    /// # Errors
    /// Always.
    pub fn add_received(&self, _: &ModuleHash, _: &[u8]) -> Result<(), ModuleError> {
        Err(ModuleError {})
    }

    /// False: no module is known.
    pub fn contains(&self, _: &ModuleHash) -> bool {
        false
    }

    /// Hashes of the modules: none.
    pub fn hashes(&self) -> Vec<ModuleHash> {
        Vec::new()
    }

    /// False: no module was known.
    pub fn remove(&self, _: &ModuleHash) -> bool {
        false
    }

    pub(crate) fn begin(
        &self,
        _: &ModuleHash,
        _: &str,
        _: Limits,
        _: &mut u64,
    ) -> Result<Box<dyn Operator>, String> {
        Err(ModuleError {}.to_string())
    }
}
