//! Pipelines with WebAssembly modules: those of a folder, for a processing node, and files that a subscriber brings.

#[cfg(feature = "wasm")]
mod read;

use std::collections::BTreeMap;

use anabranch_processing::process::{ModuleHash, Modules, Pipeline};
use bytes::Bytes;

#[cfg(feature = "wasm")]
pub(super) use self::read::folder;
use crate::exit::Failure;

/// Pipeline, and the modules that a subscriber brings for it.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Pipeline, such as 'every 5 then precision 12 of f32' [default: messages as they are].
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pipeline: String,
    /// WebAssembly module for the pipeline, which names it by its hash or by the file's name without '.wasm': 'wasm mean "3"'; may be repeated. A
    /// processing node that lacks it is sent it, which needs the right use-service there, services = ["process/1/module/NAME/*"].
    #[cfg(feature = "wasm")]
    #[arg(long = "module", value_name = "FILE")]
    files: Vec<std::path::PathBuf>,
}

/// Modules that were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Own {
    /// All of them, to run.
    pub(super) modules: Modules,
    /// By their hash, to send.
    pub(super) bytes: BTreeMap<ModuleHash, Bytes>,
    names: BTreeMap<String, ModuleHash>,
}

impl Flags {
    /// Reads the files, and the pipeline.
    pub(super) fn read(&self) -> Result<(Own, Pipeline), Failure> {
        let own = self.modules()?;
        let pipeline = own.parse(&self.pipeline);
        let pipeline = pipeline.map_err(|error| Failure::usage(format!("--pipeline: {error}")))?;
        Ok((own, pipeline))
    }

    #[cfg(feature = "wasm")]
    fn modules(&self) -> Result<Own, Failure> {
        read::files(&self.files)
    }

    /// None: this program was built without WebAssembly.
    #[cfg(not(feature = "wasm"))]
    fn modules(&self) -> Result<Own, Failure> {
        Ok(Own::default())
    }
}

impl Own {
    /// Reads a pipeline, in which the names of the files stand for their hashes.
    pub(super) fn parse(&self, text: &str) -> Result<Pipeline, String> {
        let parsed = Pipeline::parse_with(text, |word| self.names.get(word).copied());
        parsed.map_err(|error| {
            let names: Vec<_> = self.names.keys().map(String::as_str).collect();
            let is_module = error.message.contains("hash of a module");
            match cfg!(feature = "wasm") && is_module {
                true if names.is_empty() => format!("{error}; a file has a name with --module"),
                true => format!("{error}; those of --module are named {}", names.join(", ")),
                false => error.to_string(),
            }
        })
    }
}
