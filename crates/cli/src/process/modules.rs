//! WebAssembly modules of a folder.

use std::{fs, io, path::Path};

use anabranch_processing::process::{Modules, Step};
use serde_json::json;

use super::tell;
use crate::exit::Failure;

/// Reads the modules of a folder, and prints the hash of each.
pub(super) fn read(folder: &Path, is_json: bool) -> Result<Modules, Failure> {
    let unread = |path: &Path, error: io::Error| {
        Failure::file(format!("cannot read {}: {error}", path.display()))
    };
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| unread(folder, error))?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "wasm"));
    paths.sort();
    let mut modules = Modules::default();
    for path in paths {
        let bytes = fs::read(&path).map_err(|error| unread(&path, error))?;
        let hash = modules.add(&bytes);
        let hash = hash.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let step = Step::Wasm {
            hash,
            parameters: String::new(),
        };
        let event = json!({"kind": "module", "file": file, "step": step.to_string()});
        tell(is_json, &event, &format!("{file}: {step}"))?;
    }
    Ok(modules)
}
