//! `wasm`: operators as WebAssembly modules, which `spec/processing.md` §4 defines the interface of.
//!
//! A module is known by the BLAKE3 hash of its bytes. It can compute, and call the functions of `interface`; it has no clock,
//! no random numbers, no files and no network. Its fuel, memory, tables, stack and output are bounded, so that it ends.

mod instance;
mod interface;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_base::text::printable;
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, ExternType, FuncType, Module, ValType,
};

use crate::{
    contained::contain,
    modules::{MODULE_BYTES_MAX, MODULES_MAX},
    operator::{Limits, Operator},
    step::ModuleHash,
};
use instance::Instance;

/// Calls of functions within each other, and bytes of their stack.
const DEPTH_MAX: usize = 512;
const STACK_BYTES_MAX: usize = 1 << 20;

/// Characters that are shown of an error's text, which the module may have chosen.
const REASON_CHARS: usize = 200;

/// Error of bytes that cannot be used as a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The bytes have another hash than the one asked for.
    #[error(
        "these bytes have another hash than the module that was asked for; fetch it again, or from another node"
    )]
    Hash,
    /// There are [`MODULES_MAX`] already.
    #[error("{MODULES_MAX} modules are known already; remove one first")]
    Full,
    /// It is larger than [`MODULE_BYTES_MAX`].
    #[error(
        "a module has at most {MODULE_BYTES_MAX} bytes; this one has {0}; build it with optimisation for size and strip it"
    )]
    Size(usize),
    /// It is not WebAssembly, or uses what is not allowed.
    #[error("the module cannot be used: {0}")]
    Invalid(String),
    /// It imports what the interface does not have.
    #[error(
        "the module imports \"{0}\", which the interface does not have with these types; see spec/processing.md"
    )]
    Import(String),
    /// It does not export what the interface asks for.
    #[error("the module does not export {0}; see spec/processing.md")]
    Export(&'static str),
}

impl ModuleError {
    fn invalid(error: &wasmi::Error) -> Self {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Self::Invalid(printable(first, REASON_CHARS))
    }
}

/// WebAssembly modules by their hash, at most [`MODULES_MAX`]. A clone is the same set.
#[derive(Clone, Default)]
pub struct Modules {
    /// Each with an engine of its own, which owns the compiled code.
    known: Arc<Mutex<BTreeMap<ModuleHash, Module>>>,
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known().keys()).finish()
    }
}

impl Modules {
    fn known(&self) -> MutexGuard<'_, BTreeMap<ModuleHash, Module>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a module, and returns its hash; adding it again is no error. O(its size).
    ///
    /// # Errors
    /// It cannot be used; nothing is then changed.
    pub fn add(&self, bytes: &[u8]) -> Result<ModuleHash, ModuleError> {
        if bytes.len() > MODULE_BYTES_MAX {
            return Err(ModuleError::Size(bytes.len()));
        }
        let hash = ModuleHash(*blake3::hash(bytes).as_bytes());
        if self.contains(&hash) {
            return Ok(hash);
        }
        if self.known().len() >= MODULES_MAX {
            return Err(ModuleError::Full);
        }
        let compiled = contain(|| compile(bytes)).unwrap_or_else(|panic| {
            let reason = format!("the interpreter panicked: {panic}");
            Err(ModuleError::Invalid(printable(&reason, REASON_CHARS)))
        });
        let compiled = compiled?;
        let mut known = self.known();
        // Another thread may have added one meanwhile.
        if known.len() >= MODULES_MAX && !known.contains_key(&hash) {
            return Err(ModuleError::Full);
        }
        known.insert(hash, compiled);
        Ok(hash)
    }

    /// Adds a module that another node sent for its hash.
    ///
    /// # Errors
    /// It is another one, or it cannot be used; nothing is then changed.
    pub fn add_received(&self, hash: &ModuleHash, bytes: &[u8]) -> Result<(), ModuleError> {
        if bytes.len() <= MODULE_BYTES_MAX && *blake3::hash(bytes).as_bytes() != hash.0 {
            return Err(ModuleError::Hash);
        }
        self.add(bytes).map(|_| ())
    }

    /// True if the module is known.
    pub fn contains(&self, hash: &ModuleHash) -> bool {
        self.known().contains_key(hash)
    }

    /// Hashes of the modules.
    pub fn hashes(&self) -> Vec<ModuleHash> {
        self.known().keys().copied().collect()
    }

    /// Forgets a module; pipelines that run it go on, but do not begin it again after a fault. False if it was not known.
    pub fn remove(&self, hash: &ModuleHash) -> bool {
        self.known().remove(hash).is_some()
    }

    pub(crate) fn begin(
        &self,
        hash: &ModuleHash,
        parameters: &str,
        limits: Limits,
        fuel: &mut u64,
    ) -> Result<Box<dyn Operator>, String> {
        let module = self.known().get(hash).cloned();
        let module =
            module.ok_or("the module is not known here; add it, or have it fetched by its hash")?;
        let instance = Instance::begin(&module, parameters, limits, fuel);
        Ok(Box::new(instance.map_err(|fault| fault.0)?))
    }
}

fn compile(bytes: &[u8]) -> Result<Module, ModuleError> {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        // Code that is compiled when it is first called would be paid for by the ADU that is processed then.
        .compilation_mode(CompilationMode::Eager)
        .enforced_limits(EnforcedLimits::strict())
        .set_max_recursion_depth(DEPTH_MAX)
        .set_max_stack_height(STACK_BYTES_MAX)
        .allow_start_fn(false)
        .ignore_custom_sections(true)
        .wasm_multi_memory(false)
        .wasm_custom_page_sizes(false);
    let engine = Engine::new(&config);
    // First, because the translation asserts what it expects of bytes that it has not validated yet.
    Module::validate(&engine, bytes).map_err(|error| ModuleError::invalid(&error))?;
    let module = Module::new(&engine, bytes).map_err(|error| ModuleError::invalid(&error))?;
    for import in module.imports() {
        let is_offered = match import.ty() {
            ExternType::Func(function) => {
                interface::offers(import.module(), import.name(), function)
            }
            _ => false,
        };
        if !is_offered {
            let name = format!("{}.{}", import.module(), import.name());
            return Err(ModuleError::Import(printable(&name, REASON_CHARS)));
        }
    }
    if !matches!(module.get_export("memory"), Some(ExternType::Memory(_))) {
        return Err(ModuleError::Export("its memory as \"memory\""));
    }
    let is_function = |name, results: &[ValType]| match module.get_export(name) {
        Some(ExternType::Func(function)) => function == FuncType::new([], results.iter().copied()),
        Some(_) => false,
        None => name == "begin",
    };
    if !is_function("process", &[ValType::I32]) {
        return Err(ModuleError::Export(
            "a function \"process\" without parameters that returns an i32",
        ));
    }
    if !is_function("begin", &[]) {
        return Err(ModuleError::Export(
            "\"begin\" as a function without parameters and results",
        ));
    }
    Ok(module)
}

#[cfg(test)]
mod tests;
