//! WebAssembly modules by their hash.

/// WebAssembly modules by their hash; there are none yet.
#[derive(Debug, Default)]
pub struct Modules {}

impl Modules {
    pub(crate) fn begin(
        &self,
        _: &crate::step::ModuleHash,
        _: &str,
        _: crate::Limits,
    ) -> Result<Box<dyn crate::operator::Operator>, String> {
        Err("WebAssembly modules cannot be run yet; use the other operators".to_owned())
    }
}
