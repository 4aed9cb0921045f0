//! The note of what is there of a set that is not complete: lines of text, each written after the data that it tells of is durable.
//!
//! ```text
//! anabranch-records 1 HASH-OF-THE-MANIFEST
//! c COMPONENT FROM TO                            records of which the component is complete
//! p COMPONENT RECORD BYTES VERSION FROM-TO …     a part, and its bytes that are there, instead of an earlier line
//! f COMPONENT RECORD                             a part that is not there any more
//! ```

use std::{
    fmt::Write as _,
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, SeekFrom, Write},
    ops::Range,
    path::Path,
    str::FromStr,
    sync::Arc,
};

const HEADER: &str = "anabranch-records 1";

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Complete {
        component: u16,
        from: u64,
        to: u64,
    },
    Partial {
        component: u16,
        record: u64,
        part_bytes: u64,
        version: u64,
        there: Vec<Range<u64>>,
    },
    Forgotten {
        component: u16,
        record: u64,
    },
}

impl Line {
    pub(super) fn append_to(&self, text: &mut String) {
        // A text can always be written to.
        let _ = match self {
            Self::Complete {
                component,
                from,
                to,
            } => write!(text, "c {component} {from} {to}"),
            Self::Partial {
                component,
                record,
                part_bytes,
                version,
                ..
            } => write!(text, "p {component} {record} {part_bytes} {version}"),
            Self::Forgotten { component, record } => write!(text, "f {component} {record}"),
        };
        if let Self::Partial { there, .. } = self {
            for span in there {
                let _ = write!(text, " {}-{}", span.start, span.end);
            }
        }
        text.push('\n');
    }

    /// Reads a line; `None`: it is none.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = words.next()?;
        let mut number = || u64::from_str(words.next()?).ok();
        let component = u16::try_from(number()?).ok()?;
        let first = number()?;
        match kind {
            "c" => {
                let to = number()?;
                Some(Self::Complete {
                    component,
                    from: first,
                    to,
                })
            }
            "p" => {
                let (part_bytes, version) = (number()?, number()?);
                let span = |text: &str| {
                    let (from, to) = text.split_once('-')?;
                    Some(from.parse().ok()?..to.parse().ok()?)
                };
                Some(Self::Partial {
                    component,
                    record: first,
                    part_bytes,
                    version,
                    there: words.map(span).collect::<Option<_>>()?,
                })
            }
            "f" => Some(Self::Forgotten {
                component,
                record: first,
            }),
            _ => None,
        }
    }
}

/// Checks that a line that is read is written as it was understood.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    if let Some(line) = Line::read(text) {
        let mut written = String::new();
        line.append_to(&mut written);
        assert_eq!(Line::read(written.trim_end()), Some(line));
    }
}

/// The file of a note. Clones share it.
#[derive(Clone, Debug)]
pub struct Note(Option<Arc<File>>);

impl Note {
    /// No note: all is there.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Opens the note of a set, or begins it. Returns the lines that it has. A line whose end was not written is dropped, and so is
    /// everything of another manifest.
    ///
    /// # Errors
    /// It cannot be read or written, or another process writes the set at this time.
    pub(super) fn open(
        path: &Path,
        manifest: &str,
        is_fresh: bool,
    ) -> io::Result<(Self, Vec<Line>)> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        let mut file = options.open(path)?;
        lock(&file)?;
        let header = format!("{HEADER} {manifest}\n");
        let (mut lines, mut end) = (Vec::new(), 0);
        if !is_fresh {
            let mut reader = BufReader::new(&file);
            let mut text = String::new();
            loop {
                text.clear();
                // What is no text is no line of ours.
                let length = reader.read_line(&mut text).unwrap_or(0);
                if length == 0 || !text.ends_with('\n') || (end == 0 && text != header) {
                    break;
                }
                if end > 0 {
                    match Line::read(text.trim_end()) {
                        Some(line) => lines.push(line),
                        None => break,
                    }
                }
                end += length as u64;
            }
        }
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        if end == 0 {
            file.write_all(header.as_bytes())?;
        }
        Ok((Self(Some(Arc::new(file))), lines))
    }

    /// Appends lines, and makes them durable.
    ///
    /// # Errors
    /// They cannot be written.
    pub(super) fn append(&self, text: &str) -> io::Result<()> {
        let Some(file) = &self.0 else {
            return Ok(());
        };
        (&**file).write_all(text.as_bytes())?;
        file.sync_data()
    }
}

#[cfg(unix)]
fn lock(file: &File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => {
            io::Error::other("another command writes the set at this time")
        }
        error => error.into(),
    })
}

#[cfg(not(unix))]
fn lock(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        let lines = [
            Line::Complete {
                component: 1,
                from: 0,
                to: 7,
            },
            Line::Partial {
                component: 0,
                record: 9,
                part_bytes: 100,
                version: u64::MAX,
                there: vec![0..10, 20..30],
            },
            Line::Forgotten {
                component: 2,
                record: 4,
            },
        ];
        let mut text = String::new();
        lines.iter().for_each(|line| line.append_to(&mut text));
        let (note, before) = Note::open(&path, "abc", true).unwrap();
        assert_eq!(before, []);
        #[cfg(unix)]
        assert!(Note::open(&path, "abc", false).is_err(), "it is in use");
        note.append(&text).unwrap();
        note.append("c 1 8").unwrap();
        drop(note);
        // The last line has no end.
        let (note, read) = Note::open(&path, "abc", false).unwrap();
        assert_eq!(read, lines);
        note.append("c 0 1 2\n").unwrap();
        drop(note);
        let (note, read) = Note::open(&path, "abc", false).unwrap();
        assert_eq!(read.len(), 4);
        drop(note);
        // Another manifest, bytes that are no text.
        let (note, read) = Note::open(&path, "abd", false).unwrap();
        assert_eq!(read, []);
        drop(note);
        std::fs::write(&path, [0xff, 0xfe, b'\n']).unwrap();
        assert_eq!(Note::open(&path, "abc", false).unwrap().1, []);
    }
}
