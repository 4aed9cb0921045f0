//! Work of the disk: files that must be durable before the note tells of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::PathBuf,
};

use super::note::{Line, Note};
use crate::spans::Spans;

/// Files that are made durable one by one; more, and the file system is, all of it.
const FILES_MAX: usize = 16;

/// Files that were written, and lines of the note that tell of them.
#[derive(Debug, Default)]
pub struct Work {
    pub(super) root: PathBuf,
    files: BTreeSet<String>,
    complete: BTreeMap<u16, Spans>,
    partial: BTreeSet<(u64, u16)>,
    forgotten: BTreeSet<(u64, u16)>,
    text: String,
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.complete.is_empty()
            && self.partial.is_empty()
            && self.forgotten.is_empty()
    }

    pub(super) fn wrote(&mut self, file: &str) {
        if !self.files.contains(file) {
            self.files.insert(file.to_owned());
        }
    }

    pub(super) fn note_complete(&mut self, record: u64, component: u16) {
        self.partial.remove(&(record, component));
        let complete = self.complete.entry(component).or_default();
        complete.insert(record..record + 1);
    }

    pub(super) fn note_partial(&mut self, record: u64, component: u16) {
        self.partial.insert((record, component));
    }

    pub(super) fn note_forgotten(&mut self, record: u64, component: u16) {
        self.forgotten.insert((record, component));
    }

    /// Makes the lines of the note. `partial` describes what is there of a part.
    pub(super) fn describe(&mut self, partial: impl Fn(u64, u16) -> Option<Line>) {
        // What was forgotten may be there again by now.
        for (record, component) in &self.forgotten {
            let (record, component) = (*record, *component);
            Line::Forgotten { component, record }.append_to(&mut self.text);
        }
        for (component, spans) in &self.complete {
            for span in spans.iter() {
                let line = Line::Complete {
                    component: *component,
                    from: span.start,
                    to: span.end,
                };
                line.append_to(&mut self.text);
            }
        }
        for (record, component) in &self.partial {
            let (record, component) = (*record, *component);
            let line = partial(record, component).unwrap_or(Line::Forgotten { component, record });
            line.append_to(&mut self.text);
        }
    }

    /// Makes the files durable, and then notes them. Blocks, for as long as the disk takes.
    ///
    /// # Errors
    /// Something cannot be written.
    pub fn perform(self, note: &Note) -> io::Result<()> {
        if !self.sync_all()? {
            for name in &self.files {
                let path = self.root.join(name);
                File::options().write(true).open(&path)?.sync_data()?;
                #[cfg(unix)]
                if let Some(parent) = path.parent() {
                    File::open(parent)?.sync_all()?;
                }
            }
        }
        note.append(&self.text)
    }

    /// Makes the whole file system durable if there are many files; false otherwise.
    #[cfg(target_os = "linux")]
    fn sync_all(&self) -> io::Result<bool> {
        if self.files.len() <= FILES_MAX {
            return Ok(false);
        }
        rustix::fs::syncfs(File::open(&self.root)?)?;
        Ok(true)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    fn sync_all(&self) -> io::Result<bool> {
        Ok(false && self.files.len() > FILES_MAX)
    }
}
