//! Parts of records, written to the files of a set as they arrive, in any order.
//!
//! | file | holds |
//! |---|---|
//! | `mod` | [`Sink`]: what is there, and what is missing |
//! | `folder` | files beneath the set's directory, through which no link is followed |
//! | `note` | the note of what is there, for an attempt that goes on |
//! | `durable` | [`Work`]: what has to reach the disk before it is noted |

mod durable;
mod folder;
mod note;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_recordset::{Manifest, manifest::Extents};

pub use durable::Work;
use folder::Folder;
use note::{Line, Note};

use crate::{
    at,
    shelf::{MANIFEST_NAMES, NOTE_NAME, ShelfError, Text, read_text},
    source::places,
    spans::Spans,
    wire::{Item, Piece},
};

#[cfg(feature = "fuzzing")]
pub(crate) use note::fuzz as fuzz_note;

/// Files that are kept open.
const OPEN_MAX: usize = 64;
/// Files whose lengths are known before.
const SHARED_MAX: usize = 10_000;
/// Versions of parts that are not taken again.
const REFUSED_MAX: usize = 100_000;

/// A set cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SinkError {
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The directory has something else.
    #[error("{}: {why}", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// Its contents, and a remedy.
        why: &'static str,
    },
    /// The manifest has a file that a set cannot have.
    #[error("the set has the file '{0}', which is a name of Anabranch's own")]
    Reserved(String),
    /// The manifest that is there cannot be used.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// A piece is of no part of the set.
    #[error(
        "the peer sent bytes of record {record}, component {component}, that are none of the set"
    )]
    Foreign {
        /// Record.
        record: u64,
        /// Component.
        component: u16,
    },
}

impl SinkError {
    fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Write { path, source }
    }
}

/// A part of which some bytes are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Partial {
    version: u64,
    part_bytes: u64,
    there: Spans,
}

/// Parts of a component.
#[derive(Clone, Debug, Default)]
struct Parts {
    /// Records whose part is complete, or known not to be there.
    complete: Spans,
    partial: BTreeMap<u64, Partial>,
}

/// Records, components and bytes that are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Records.
    pub records: Range<u64>,
    /// Components, ascending.
    pub components: Vec<u16>,
    /// Bytes of each part; `None`: all.
    pub bytes: Option<Range<u64>>,
}

impl Selection {
    /// All of a set.
    pub fn all(manifest: &Manifest) -> Self {
        Self {
            records: 0..manifest.len(),
            components: (0..manifest.components.len() as u16).collect(),
            bytes: None,
        }
    }
}

/// A set that is being written. Every call blocks.
#[derive(Debug)]
pub struct Sink {
    manifest: Arc<Manifest>,
    path: PathBuf,
    folder: Folder,
    parts: Vec<Parts>,
    /// Versions of parts that the sender has given up.
    refused: BTreeSet<(u64, u16, u64)>,
    open: HashMap<String, (Arc<File>, u64)>,
    /// Lengths of files that parts share: some formats refuse a file that is shorter than its header says.
    lengths: BTreeMap<String, u64>,
    /// Number of uses of files.
    uses: u64,
    work: Work,
    note: Note,
}

impl Sink {
    /// Opens a directory for a set: a new or empty one, or one in which an earlier attempt at the same set has left off or is
    /// complete.
    ///
    /// # Errors
    /// The directory has something else; the manifest names files that a set cannot have; something cannot be written.
    pub fn open(path: &Path, manifest: Arc<Manifest>, text: &Text) -> Result<Self, SinkError> {
        let occupied = |why| SinkError::Occupied {
            path: path.to_owned(),
            why,
        };
        let folder = Folder::open(path).map_err(SinkError::write(path))?;
        let note_path = path.join(NOTE_NAME);
        let (is_fresh, is_noted) = match read_text(path) {
            Ok(there) if there.digest == text.digest => (false, note_path.exists()),
            Ok(_) => {
                return Err(occupied(
                    "it has another set, or another version of this one; name another directory, or remove this one",
                ));
            }
            Err(ShelfError::NoManifest(_)) => {
                let mut entries = path.read_dir().map_err(SinkError::write(path))?;
                if entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != NOTE_NAME)) {
                    return Err(occupied(
                        "it is not empty, and has no manifest of a set; name another directory",
                    ));
                }
                (true, true)
            }
            Err(error) => return Err(error.into()),
        };
        for record in sample(&manifest) {
            for component in 0..manifest.components.len() {
                if let Some(part) = manifest.part(record, component) {
                    check_name(&part.file)?;
                }
            }
        }
        let mut parts = vec![Parts::default(); manifest.components.len()];
        let note = if is_noted {
            let (note, lines) = Note::open(&note_path, &text.digest.to_string(), is_fresh)
                .map_err(SinkError::write(&note_path))?;
            for line in lines {
                load(&mut parts, manifest.len(), line);
            }
            note
        } else {
            // An earlier attempt has completed it.
            for parts in &mut parts {
                parts.complete.insert(0..manifest.len());
            }
            Note::none()
        };
        if is_fresh {
            let to = path.join(text.file_name());
            std::fs::write(&to, &text.bytes).map_err(SinkError::write(&to))?;
        }
        let lengths = lengths(&manifest);
        Ok(Self {
            manifest,
            lengths,
            path: path.to_owned(),
            folder,
            parts,
            refused: BTreeSet::new(),
            open: HashMap::new(),
            uses: 0,
            work: Work::default(),
            note,
        })
    }

    /// The set.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The note, to be written by what makes the data durable.
    pub fn note(&self) -> Note {
        self.note.clone()
    }

    /// True if every part of the set is there.
    pub fn is_complete(&self) -> bool {
        let all = 0..self.manifest.len();
        self.parts.iter().all(|parts| parts.complete.has(&all))
    }

    /// True if a record has each of these components, or is known to be without it.
    pub fn has(&self, record: u64, components: &[u16]) -> bool {
        components.iter().all(|component| {
            (self.parts.get(usize::from(*component)))
                .is_some_and(|parts| parts.complete.has(&(record..record + 1)))
        })
    }

    /// Records of a component that are complete.
    pub fn records_complete(&self, component: u16) -> u64 {
        let parts = self.parts.get(usize::from(component));
        parts.map_or(0, |parts| parts.complete.count())
    }

    /// Writes a piece. Returns the bytes that were not there before, and true if the part is complete now.
    ///
    /// # Errors
    /// The piece is of no part of the set; its file cannot be written.
    pub fn take(&mut self, piece: &Piece) -> Result<(u64, bool), SinkError> {
        let foreign = || SinkError::Foreign {
            record: piece.record,
            component: piece.component,
        };
        let index = usize::from(piece.component);
        let manifest = self.manifest.clone();
        if piece.record >= manifest.len() || index >= self.parts.len() {
            return Err(foreign());
        }
        let record = piece.record..piece.record + 1;
        let is_refused = (self.refused).contains(&(piece.record, piece.component, piece.version));
        if is_refused || self.parts[index].complete.has(&record) {
            return Ok((0, false));
        }
        if piece.is_absent {
            if !manifest.components[index].is_optional {
                return Err(foreign());
            }
            self.complete(piece.record, piece.component);
            return Ok((0, true));
        }
        let part = manifest.part(piece.record, index).ok_or_else(foreign)?;
        if part
            .extents
            .bytes()
            .is_some_and(|bytes| bytes != piece.part_bytes)
        {
            return Err(foreign());
        }
        let file = self.file(&part.file)?;
        let failed = |source| SinkError::Write {
            path: self.path.join(&*part.file),
            source,
        };
        match &part.extents {
            Extents::Whole => at::write(&file, &piece.data, piece.offset).map_err(failed)?,
            Extents::Some(extents) => {
                for (place, from, to) in places(extents, piece.offset, piece.data.len()) {
                    at::write(&file, &piece.data[from..to], place).map_err(failed)?;
                }
            }
        }
        let partial = self.parts[index].partial.entry(piece.record).or_default();
        if (partial.version, partial.part_bytes) != (piece.version, piece.part_bytes) {
            *partial = Partial {
                version: piece.version,
                part_bytes: piece.part_bytes,
                there: Spans::default(),
            };
        }
        let end = piece.offset + piece.data.len() as u64;
        let new = partial.there.insert(piece.offset..end);
        let is_complete = partial.there.has(&(0..piece.part_bytes));
        self.work.wrote(&part.file);
        if is_complete {
            if part.extents == Extents::Whole {
                // What an earlier, longer version has left.
                file.set_len(piece.part_bytes).map_err(failed)?;
            }
            self.complete(piece.record, piece.component);
        } else {
            self.work.note_partial(piece.record, piece.component);
        }
        Ok((new, is_complete))
    }

    fn complete(&mut self, record: u64, component: u16) {
        let parts = &mut self.parts[usize::from(component)];
        parts.partial.remove(&record);
        parts.complete.insert(record..record + 1);
        self.work.note_complete(record, component);
    }

    /// Forgets what is there of a part in this version; further bytes of it are ignored.
    pub fn give_up(&mut self, record: u64, component: u16, version: u64) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.insert((record, component, version));
        }
        if let Some(parts) = self.parts.get_mut(usize::from(component))
            && (parts.partial.get(&record)).is_some_and(|partial| partial.version == version)
        {
            parts.partial.remove(&record);
            self.work.note_partial(record, component);
        }
    }

    /// Forgets a part: it is fetched again.
    pub fn forget(&mut self, record: u64, component: u16) {
        let Some(parts) = self.parts.get_mut(usize::from(component)) else {
            return;
        };
        parts.partial.remove(&record);
        let mut rest = Spans::default();
        for span in parts.complete.iter() {
            rest.insert(span.start..span.end.min(record));
            rest.insert(span.start.max(record + 1)..span.end);
        }
        parts.complete = rest;
        self.work.note_forgotten(record, component);
    }

    /// Items that are missing of a component, in the order of the records.
    pub fn missing(&self, selection: &Selection, component: u16) -> Vec<Item> {
        let mut items = Vec::new();
        let Some(parts) = self.parts.get(usize::from(component)) else {
            return items;
        };
        let bytes = selection
            .bytes
            .as_ref()
            .map(|bytes| (bytes.start, bytes.end));
        let records = |from: u64, to: u64| Item::Records {
            from,
            to,
            components: vec![component],
            bytes,
        };
        for gap in parts.complete.missing(selection.records.clone()) {
            let mut from = gap.start;
            for (record, partial) in parts.partial.range(gap.clone()) {
                if from < *record {
                    items.push(records(from, *record));
                }
                from = record + 1;
                let wanted = selection.bytes.clone().unwrap_or(0..partial.part_bytes);
                let within = wanted.start..wanted.end.min(partial.part_bytes);
                let missing = partial.there.missing(within);
                let ranges: Vec<(u64, u64)> =
                    missing.map(|range| (range.start, range.end)).collect();
                if !ranges.is_empty() {
                    items.push(Item::Part {
                        record: *record,
                        component,
                        version: partial.version,
                        ranges,
                    });
                }
            }
            if from < gap.end {
                items.push(records(from, gap.end));
            }
        }
        items
    }

    /// Items that are missing of all components of a selection: record by record where records lack all of it, which is the order in which a
    /// layout divides them, and then component by component.
    pub fn missing_together(&self, selection: &Selection) -> Vec<Item> {
        let each = |component: &u16| self.missing(selection, *component);
        let lists: Vec<Vec<Item>> = selection.components.iter().map(each).collect();
        let whole = |item: &Item| match item {
            Item::Records { from, to, .. } => Some(*from..*to),
            Item::Part { .. } => None,
        };
        let mut together = Vec::new();
        let first = lists.first().into_iter().flatten().filter_map(whole);
        for span in first {
            let is_in_all = lists
                .iter()
                .all(|list| list.iter().filter_map(whole).any(|other| other == span));
            if is_in_all {
                together.push(span);
            }
        }
        let bytes = selection
            .bytes
            .as_ref()
            .map(|bytes| (bytes.start, bytes.end));
        let mut items: Vec<Item> = together
            .iter()
            .map(|span| Item::Records {
                from: span.start,
                to: span.end,
                components: selection.components.clone(),
                bytes,
            })
            .collect();
        let rest = lists.into_iter().flatten();
        items.extend(rest.filter(|item| whole(item).is_none_or(|span| !together.contains(&span))));
        items
    }

    /// Takes what has to reach the disk; `None`: nothing.
    pub fn take_work(&mut self) -> Option<Work> {
        if self.work.is_empty() {
            return None;
        }
        let mut work = std::mem::take(&mut self.work);
        let parts = &self.parts;
        work.describe(|record, component| {
            let partial = parts[usize::from(component)].partial.get(&record)?;
            Some(Line::Partial {
                component,
                record,
                part_bytes: partial.part_bytes,
                version: partial.version,
                there: partial.there.iter().collect(),
            })
        });
        work.root = self.path.clone();
        Some(work)
    }

    /// Ends the note of a set of which all is there and durable.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub fn conclude(&self) -> Result<(), SinkError> {
        let path = self.path.join(NOTE_NAME);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(SinkError::write(&path)(error))
            }
            _ => Ok(()),
        }
    }

    fn file(&mut self, name: &str) -> Result<Arc<File>, SinkError> {
        self.uses += 1;
        if let Some((file, used)) = self.open.get_mut(name) {
            *used = self.uses;
            return Ok(file.clone());
        }
        check_name(name)?;
        if self.open.len() >= OPEN_MAX {
            let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.open.remove(&name);
            }
        }
        let file = self.folder.file(name);
        let path = self.path.join(name);
        let sized = file.and_then(|file| {
            if let Some(length) = self.lengths.get(name)
                && file.metadata()?.len() < *length
            {
                file.set_len(*length)?;
            }
            Ok(file)
        });
        let file = Arc::new(sized.map_err(SinkError::write(&path))?);
        self.open.insert(name.to_owned(), (file.clone(), self.uses));
        Ok(file)
    }
}

/// Lengths of the files that parts share, as far as there are not too many.
fn lengths(manifest: &Manifest) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for component in 0..manifest.components.len() {
        let records = match manifest.stated_bytes(component) {
            // Parts at equal distances, or in files of their own: the last tells.
            Some(_) => manifest.len().saturating_sub(1)..manifest.len(),
            None => 0..manifest.len(),
        };
        for record in records {
            let Some(part) = manifest.part(record, component) else {
                continue;
            };
            let end = part.extents.end();
            if let Some(length) = all.get_mut(&*part.file) {
                *length = end.max(*length);
            } else if end > 0 && all.len() < SHARED_MAX {
                all.insert(part.file.into_owned(), end);
            }
        }
    }
    all
}

/// Records that are looked at before anything is written; every file is checked when it is opened.
fn sample(manifest: &Manifest) -> impl Iterator<Item = u64> {
    let last = manifest.len().saturating_sub(1);
    [0, last].into_iter().take(manifest.len().min(2) as usize)
}

/// Refuses names that are of a manifest or a note.
fn check_name(name: &str) -> Result<(), SinkError> {
    let lower = name.to_lowercase();
    let is_manifest = MANIFEST_NAMES.iter().any(|(own, _)| lower == *own);
    if is_manifest || lower.starts_with(".anabranch") {
        return Err(SinkError::Reserved(name.to_owned()));
    }
    Ok(())
}

/// Applies a line of a note.
fn load(parts: &mut [Parts], records: u64, line: Line) {
    let component = match &line {
        Line::Complete { component, .. }
        | Line::Partial { component, .. }
        | Line::Forgotten { component, .. } => usize::from(*component),
    };
    let Some(parts) = parts.get_mut(component) else {
        return;
    };
    match line {
        Line::Complete { from, to, .. } => {
            parts.complete.insert(from..to.min(records));
            parts
                .partial
                .retain(|record, _| !(from..to).contains(record));
        }
        Line::Partial {
            record,
            part_bytes,
            version,
            there,
            ..
        } if record < records => {
            let partial = parts.partial.entry(record).or_default();
            *partial = Partial {
                version,
                part_bytes,
                there: Spans::default(),
            };
            for span in there {
                partial.there.insert(span.start..span.end.min(part_bytes));
            }
        }
        Line::Partial { .. } => {}
        Line::Forgotten { record, .. } => {
            parts.partial.remove(&record);
            let mut rest = Spans::default();
            for span in parts.complete.iter() {
                rest.insert(span.start..span.end.min(record));
                rest.insert(span.start.max(record.saturating_add(1))..span.end);
            }
            parts.complete = rest;
        }
    }
}
