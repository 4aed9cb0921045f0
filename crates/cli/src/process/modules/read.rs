//! Modules that are read from files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anabranch_processing::process::{Modules, Step};
use serde_json::json;

use super::Own;
use crate::{exit::Failure, process::tell};

/// Reads the modules that a subscriber brings.
pub(super) fn files(paths: &[PathBuf]) -> Result<Own, Failure> {
    let mut own = Own::default();
    for path in paths {
        let bytes = fs::read(path).map_err(|error| unread(path, &error))?;
        let hash = own.modules.add(&bytes);
        let hash = hash.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let other = own.names.insert(name.clone().into_owned(), hash);
        if other.is_some_and(|other| other != hash) {
            return Err(Failure::usage(format!(
                "two modules are named '{name}'; rename a file"
            )));
        }
        own.bytes.insert(hash, bytes.into());
    }
    Ok(own)
}

fn unread(path: &Path, error: &io::Error) -> Failure {
    Failure::file(format!("cannot read {}: {error}", path.display()))
}

/// Reads the modules of a folder, and prints the hash of each.
pub(in crate::process) fn folder(path: &Path, is_json: bool) -> Result<Modules, Failure> {
    let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| unread(path, &error))?;
    let mut paths: Vec<_> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "wasm"));
    paths.sort();
    let modules = Modules::default();
    for path in paths {
        let bytes = fs::read(&path).map_err(|error| unread(&path, &error))?;
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
