//! Corpus of recordings that an experiment runs on.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::kit::recording::{Recording, RecordingError};

/// Recordings bundled with the program; see `data/README.md` for their origin.
const BUNDLED: [(&str, &str, &str); 4] = [
    (
        "hsdpa-bus",
        "3G",
        include_str!("../../../../data/hsdpa-bus.csv"),
    ),
    (
        "starlink-down",
        "satellite",
        include_str!("../../../../data/starlink-down.csv"),
    ),
    (
        "starlink-up",
        "satellite",
        include_str!("../../../../data/starlink-up.csv"),
    ),
    ("fixed", "fixed", include_str!("../../../../data/fixed.csv")),
];

/// Beginning of their names.
const BUNDLED_PREFIX: &str = "bundled/";

/// Folders of recordings that are too many, or not free, to be bundled with the program.
pub const DATA_FOLDERS: [&str; 2] = ["../shared/data", "shared/data"];

/// Folders below a given one that are searched.
const DEPTH_MAX: usize = 4;

/// Recordings, and files left out.
#[derive(Clone, Debug, Default)]
pub struct Corpus {
    /// In order of their names.
    pub recordings: Vec<Recording>,
    /// Files in folders that are no recordings, with the reason.
    pub skipped: Vec<String>,
    /// Trace of a film's frames, for experiments that stream one; `None`: the published one if it is available.
    pub film: Option<PathBuf>,
}

/// Kind and group of a file, as listed in an index.
#[derive(Clone, Debug, Default)]
struct Entry {
    network: String,
    group: String,
}

/// Text of a bundled recording by its file name, such as `fixed.csv`; `None` if there is no such file.
pub fn bundled_file(name: &str) -> Option<&'static str> {
    let stem = name.strip_suffix(".csv")?;
    let found = BUNDLED.iter().find(|(own, _, _)| *own == stem);
    found.map(|(_, _, text)| *text)
}

impl Corpus {
    /// The few recordings bundled with the program.
    pub fn bundled() -> Self {
        let recordings = BUNDLED
            .iter()
            .filter_map(|(name, network, text)| {
                let recording = Recording::parse(name, text).ok()?;
                Some(Recording {
                    name: format!("{BUNDLED_PREFIX}{name}"),
                    network: (*network).to_owned(),
                    ..recording
                })
            })
            .collect();
        Self {
            recordings,
            skipped: Vec::new(),
            film: None,
        }
    }

    /// True if it is that of [`Corpus::bundled`].
    pub fn is_bundled(&self) -> bool {
        let mut recordings = self.recordings.iter();
        !self.recordings.is_empty() && recordings.all(|one| one.name.starts_with(BUNDLED_PREFIX))
    }

    /// Reads every file of `paths`, and every `.csv` in those of them that are folders. An `index.csv` in a folder above
    /// (columns `file`, `type`, `group`) gives their networks and groups.
    ///
    /// # Errors
    /// A file that was named itself cannot be read. In a folder, such a file is only left out.
    pub fn read(paths: &[PathBuf]) -> Result<Self, RecordingError> {
        let mut corpus = Self::default();
        let mut indices = BTreeMap::new();
        for path in paths {
            if path.is_dir() {
                let mut files = Vec::new();
                list(path, DEPTH_MAX, &mut files).map_err(|source| RecordingError::Read {
                    file: path.display().to_string(),
                    source,
                })?;
                files.sort();
                for file in files {
                    match Recording::read(&file) {
                        Ok(recording) => corpus.add(&file, recording, &mut indices),
                        Err(error) => corpus.skipped.push(error.to_string()),
                    }
                }
            } else {
                let recording = Recording::read(path)?;
                corpus.add(path, recording, &mut indices);
            }
        }
        corpus.recordings.sort_by(|a, b| a.name.cmp(&b.name));
        corpus.recordings.dedup_by(|a, b| a.name == b.name);
        Ok(corpus)
    }

    fn add(
        &mut self,
        file: &Path,
        mut recording: Recording,
        indices: &mut BTreeMap<PathBuf, BTreeMap<PathBuf, Entry>>,
    ) {
        for folder in file.ancestors().skip(1).take(DEPTH_MAX) {
            let known = indices
                .entry(folder.to_owned())
                .or_insert_with(|| read_index(folder));
            if let Ok(relative) = file.strip_prefix(folder)
                && let Some(entry) = known.get(relative)
            {
                recording.network.clone_from(&entry.network);
                recording.group.clone_from(&entry.group);
                break;
            }
        }
        self.recordings.push(recording);
    }
}

fn list(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if depth > 0 {
                list(&path, depth - 1, files)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "csv") {
            files.push(path);
        }
    }
    Ok(())
}

/// Entries that the index of a folder has for the files below it; empty without an index.
fn read_index(folder: &Path) -> BTreeMap<PathBuf, Entry> {
    let Ok(text) = fs::read_to_string(folder.join("index.csv")) else {
        return BTreeMap::new();
    };
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name);
    let (Some(file), Some(network), Some(group)) =
        (column("file"), column("type"), column("group"))
    else {
        return BTreeMap::new();
    };
    lines
        .filter_map(|line| {
            let cells = cells(line);
            let entry = Entry {
                network: cells.get(network)?.clone(),
                group: cells.get(group)?.clone(),
            };
            Some((PathBuf::from(cells.get(file)?), entry))
        })
        .collect()
}

/// Cells of a line; a quoted one may contain commas (RFC 4180, without line breaks).
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    for character in line.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells.last_mut().expect("never empty").push(other),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_recordings_are_recordings() {
        let corpus = Corpus::bundled();
        assert_eq!(corpus.recordings.len(), BUNDLED.len());
        assert!(corpus.is_bundled() && !Corpus::default().is_bundled());
        assert!(
            corpus
                .recordings
                .iter()
                .all(|r| r.bandwidths_bps().len() > 100)
        );
    }

    #[test]
    fn a_folder_gives_its_recordings_with_the_entries_of_the_index() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("sea")).unwrap();
        fs::write(root.join("sea/one.csv"), "t_s,bandwidth_bps\n0,1\n1,2\n").unwrap();
        fs::write(root.join("sea/two.csv"), "t_s,bandwidth_bps\n1,1\n0,2\n").unwrap();
        fs::write(
            root.join("index.csv"),
            "file,type,group\nsea/one.csv,\"ship, at sea\",g\n",
        )
        .unwrap();
        let corpus = Corpus::read(&[root.to_owned()]).unwrap();
        let [one] = &corpus.recordings[..] else {
            panic!("{corpus:?}");
        };
        assert_eq!(
            (one.name.as_str(), one.network.as_str(), one.group.as_str()),
            ("sea/one", "ship, at sea", "g")
        );
        assert!(
            corpus
                .skipped
                .iter()
                .any(|words| words.contains("two.csv, line 3"))
        );
        // Named explicitly, it is an error.
        assert!(Corpus::read(&[root.join("sea/two.csv")]).is_err());
    }
}
