//! Store of rows: a file of JSON objects, one in a line, to which each set is appended when it is done. A run that was interrupted
//! continues after the sets that are in it.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anabranch_base::Seed;
use serde_json::{Value, json};

use super::{
    observed::Observed,
    rows::{self, Mode},
    setting::Setting,
};
use crate::Row;

/// Rows of completed sets.
#[derive(Debug, Default)]
pub struct Store {
    /// `None`: in memory only.
    file: Option<PathBuf>,
    rows: Vec<Row>,
}

/// A file of rows cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It cannot be read or written.
    #[error("cannot use {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A line is no row.
    #[error("{file}, line {line} is no row ({reason}); remove it, and that set is run again")]
    Line {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// The error.
        reason: serde_json::Error,
    },
}

impl Store {
    /// Store with the rows of a file, if there is one already.
    ///
    /// # Errors
    /// The file cannot be read, or has a line that is no row.
    pub fn open(file: &Path) -> Result<Self, StoreError> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            other => other.map_err(|source| failed(file, source))?,
        };
        let parse = |(index, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|reason| StoreError::Line {
                file: file.display().to_string(),
                line: index + 1,
                reason,
            })
        };
        let rows: Result<Vec<Row>, StoreError> = text.lines().enumerate().map(parse).collect();
        Ok(Self {
            file: Some(file.to_owned()),
            rows: rows?,
        })
    }

    /// Rows of a set in a mode: of the set, and of each stream; `None` if it was not run with this duration and seed.
    pub fn rows_of(&self, mode: Mode, setting: &Setting, seed: Seed) -> Option<Vec<Row>> {
        let key = key(mode, setting, seed);
        let is_it = |row: &Row| {
            key.iter()
                .all(|(field, value)| row.get(*field) == Some(value))
        };
        let at = self.rows.iter().position(is_it)?;
        let own = self.rows.get(at..=at + setting.streams.len())?;
        let mut own = own.to_vec();
        // Its place may be another one now.
        for row in &mut own {
            row.insert("set".into(), json!(setting.number));
        }
        Some(own)
    }

    /// Adds a set that was run. Its rows are written with one call.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(
        &mut self,
        mode: Mode,
        (setting, seed): (&Setting, Seed),
        observed: &[Observed],
    ) -> Result<(), StoreError> {
        let mut rows = rows::of_set(mode, setting, observed);
        if let Some(set) = rows.first_mut() {
            let key = key(mode, setting, seed);
            set.extend(key.map(|(field, value)| (field.to_owned(), value)));
        }
        if let Some(file) = &self.file {
            let lines: String = rows
                .iter()
                .map(|row| Value::Object(row.clone()).to_string() + "\n")
                .collect();
            let mut options = OpenOptions::new();
            let open = options.create(true).append(true).open(file);
            open.and_then(|mut open| open.write_all(lines.as_bytes()))
                .map_err(|source| failed(file, source))?;
        }
        self.rows.extend(rows);
        Ok(())
    }
}

fn failed(file: &Path, source: io::Error) -> StoreError {
    StoreError::Io {
        file: file.display().to_string(),
        source,
    }
}

/// Fields of the row of a set by which a run is found again.
fn key(mode: Mode, setting: &Setting, seed: Seed) -> [(&'static str, Value); 5] {
    [
        ("kind", json!("set")),
        ("mode", json!(mode.name())),
        ("recordings", json!(setting.name)),
        ("seconds", json!(setting.plan.seconds)),
        ("seed", json!(seed.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::promises_live::setting::{Plan, settings},
        kit::corpus::Corpus,
    };

    #[test]
    fn sets_in_the_file_are_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows");
        let corpus = Corpus::bundled();
        let setting = &settings(&corpus, Seed(1), Plan::default())[0];
        let observed = vec![Observed::default(); setting.streams.len()];
        let mut store = Store::open(&file).unwrap();
        assert!(store.rows_of(Mode::Live, setting, Seed(1)).is_none());
        store
            .add(Mode::Live, (setting, Seed(1)), &observed)
            .unwrap();
        let again = Store::open(&file).unwrap();
        let rows = again.rows_of(Mode::Live, setting, Seed(1)).unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(Some(rows), store.rows_of(Mode::Live, setting, Seed(1)));
        assert!(again.rows_of(Mode::Live, setting, Seed(2)).is_none());
        assert!(again.rows_of(Mode::Virtual, setting, Seed(1)).is_none());
        let mut longer = setting.clone();
        longer.plan.seconds += 1;
        assert!(again.rows_of(Mode::Live, &longer, Seed(1)).is_none());
        fs::write(&file, "{}\n{\"kind\":").unwrap();
        let error = Store::open(&file).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
