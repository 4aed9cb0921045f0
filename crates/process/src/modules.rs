//! WebAssembly modules by their hash.

#[cfg(feature = "wasm")]
pub use crate::operators::wasm::{ModuleError, Modules};

/// WebAssembly modules by their hash; without the feature `wasm` there are none.
#[cfg(not(feature = "wasm"))]
#[derive(Clone, Debug, Default)]
pub struct Modules {}

#[cfg(not(feature = "wasm"))]
impl Modules {
    pub(crate) fn begin(
        &self,
        _: &crate::step::ModuleHash,
        _: &str,
        _: crate::Limits,
    ) -> Result<Box<dyn crate::operator::Operator>, String> {
        Err(
            "this program was built without WebAssembly; build it with the feature \"wasm\""
                .to_owned(),
        )
    }
}
