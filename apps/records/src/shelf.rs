//! A directory with sets: each is a directory in it with a manifest, `records.toml` or `records.json`; or it is a set itself.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_recordset::{Manifest, ManifestError, manifest::TEXT_BYTES_MAX};
use bytes::Bytes;

use crate::{
    source::{Source, version},
    wire::{Digest, Format, SET_NAME_BYTES_MAX, SetEntry},
};

/// Names of a manifest, by syntax.
pub const MANIFEST_NAMES: [(&str, Format); 2] = [
    ("records.toml", Format::Toml),
    ("records.json", Format::Json),
];
/// File that notes what is there of a set that is not complete.
pub const NOTE_NAME: &str = ".anabranch-records";
/// Most directories that are looked at.
const SETS_MAX: usize = 10_000;

/// A set cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShelfError {
    /// There is no manifest.
    #[error(
        "{} has no manifest; write records.toml or records.json into it (spec/records.md), or make one with `python -m anabranch.records`",
        .0.display()
    )]
    NoManifest(PathBuf),
    /// A manifest has errors.
    #[error("{}: {source}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The error.
        source: ManifestError,
    },
    /// Something cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The name of a set does not fit labels.
    #[error(
        "{}: the name '{name}' has {} bytes; that of a set that is served has {SET_NAME_BYTES_MAX} at most", path.display(), name.len()
    )]
    Name {
        /// The directory.
        path: PathBuf,
        /// The name.
        name: String,
    },
}

/// Text of a manifest.
#[derive(Clone, Debug)]
pub struct Text {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its syntax.
    pub format: Format,
    /// Its hash.
    pub digest: Digest,
}

impl Text {
    /// A text.
    pub fn new(bytes: Bytes, format: Format) -> Self {
        let digest = Digest::of(&bytes);
        Self {
            bytes,
            format,
            digest,
        }
    }

    /// The manifest.
    ///
    /// # Errors
    /// The text has errors, which the message names with their place.
    pub fn parse(&self) -> Result<Manifest, ManifestError> {
        let text = String::from_utf8_lossy(&self.bytes);
        match self.format {
            Format::Toml => Manifest::from_toml(&text),
            Format::Json => Manifest::from_json(&text),
        }
    }

    /// File name of such a manifest.
    pub fn file_name(&self) -> &'static str {
        let named = MANIFEST_NAMES
            .iter()
            .find(|(_, format)| *format == self.format);
        named.map_or("records.toml", |(name, _)| name)
    }
}

/// Reads the manifest of a directory.
///
/// # Errors
/// There is none, or it cannot be read, or is longer than one may be.
pub fn read_text(folder: &Path) -> Result<Text, ShelfError> {
    for (name, format) in MANIFEST_NAMES {
        let path = folder.join(name);
        let read = |source| ShelfError::Read {
            path: path.clone(),
            source,
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(read(error)),
            Ok(found) if found.len() > TEXT_BYTES_MAX as u64 => {
                let words = format!("{} bytes are too many for a manifest", found.len());
                return Err(read(io::Error::other(words)));
            }
            Ok(_) => {}
        }
        let bytes = fs::read(&path).map_err(read)?;
        return Ok(Text::new(bytes.into(), format));
    }
    Err(ShelfError::NoManifest(folder.to_owned()))
}

/// Opens the set in a directory.
///
/// # Errors
/// As [`read_text`]; the manifest has errors; the set's name is too long for labels.
pub fn open_set(folder: &Path) -> Result<Source, ShelfError> {
    // Before it is read: a change that comes later is noticed.
    let version = manifest_version(folder);
    let text = read_text(folder)?;
    let manifest = text.parse().map_err(|source| ShelfError::Manifest {
        path: folder.join(text.file_name()),
        source,
    })?;
    let in_folder = || {
        let absolute = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let name = absolute.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let name = manifest.name.clone().unwrap_or_else(in_folder);
    if name.is_empty() || name.len() > SET_NAME_BYTES_MAX || name.contains('/') {
        let path = folder.to_owned();
        return Err(ShelfError::Name { path, name });
    }
    Ok(Source::new(name, folder, Arc::new(manifest), text).of_version(version))
}

/// Version of the manifest in a directory, if there is one.
pub(crate) fn manifest_version(folder: &Path) -> Option<u64> {
    MANIFEST_NAMES.iter().find_map(|(name, _)| {
        let found = fs::metadata(folder.join(name)).ok()?;
        Some(version(&found))
    })
}

/// True if a set can have this name where it is a directory's.
pub fn is_set_name(name: &str) -> bool {
    (1..=SET_NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && !name.contains(|c: char| matches!(c, '/' | '\\' | ':') || c.is_control())
}

/// Sets of a directory, with those that cannot be used.
#[derive(Debug, Default)]
pub struct Found {
    /// Sets by name.
    pub sets: BTreeMap<String, Arc<Source>>,
    /// Reasons for which directories with a manifest are left out.
    pub left_out: Vec<String>,
}

/// Looks for sets. A set that `known` has, with the same manifest, is taken over from there.
///
/// # Errors
/// The directory cannot be read.
pub fn look(shelf: &Path, known: &BTreeMap<String, Arc<Source>>) -> Result<Found, ShelfError> {
    let mut found = Found::default();
    let failed = |source| ShelfError::Read {
        path: shelf.to_owned(),
        source,
    };
    let mut folders = vec![shelf.to_owned()];
    for entry in fs::read_dir(shelf).map_err(failed)?.take(SETS_MAX) {
        let path = entry.map_err(failed)?.path();
        let is_hidden =
            (path.file_name()).is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !is_hidden {
            folders.push(path);
        }
    }
    folders.sort();
    for folder in folders {
        let has_manifest = MANIFEST_NAMES
            .iter()
            .any(|(name, _)| folder.join(name).exists());
        if !has_manifest {
            continue;
        }
        if folder.join(NOTE_NAME).exists() {
            let words = format!("{}: it is not complete", folder.display());
            found.left_out.push(words);
            continue;
        }
        // Not read again unless it is another file: a manifest may be long.
        let before = known.values().find(|source| source.is_of(&folder));
        let opened = match before {
            Some(before) if before.is_current() => Ok(before.clone()),
            _ => open_set(&folder).map(Arc::new),
        };
        match opened {
            Ok(source) if found.sets.contains_key(source.name()) => {
                let words = format!(
                    "{}: another set has the name '{}'",
                    folder.display(),
                    source.name()
                );
                found.left_out.push(words);
            }
            Ok(source) => {
                found.sets.insert(source.name().to_owned(), source);
            }
            Err(error) => found.left_out.push(error.to_string()),
        }
    }
    Ok(found)
}

/// A set as an entry of a list.
pub fn entry(source: &Source) -> SetEntry {
    let manifest = source.manifest();
    let components = manifest.components.iter();
    SetEntry {
        name: source.name().to_owned(),
        records: manifest.len(),
        components: components.map(|component| component.name.clone()).collect(),
        bytes: source.stated_bytes(),
        manifest: source.text().digest,
    }
}
