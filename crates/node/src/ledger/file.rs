//! File of the usage ledger: a short TOML text, replaced as a whole.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use anabranch_net::{Counted, Place};
use anabranch_session::metering::Date;
use serde::Deserialize;

use crate::whole_file::{beside, folder, private, replace};

/// Version of the format that this program writes, and the only one that it reads.
const VERSION: i64 = 1;
/// Largest ledger that is read: some ten thousand places.
const LEDGER_BYTES_MAX: u64 = 1 << 20;
const HEAD: &str = "\
# What was sent where sending costs something, and a little ahead of it. Anabranch writes this file while it runs;
# stop it before you change anything here.
";

/// The ledger cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// It cannot be read.
    #[error("cannot read the ledger {}: {source}; name another file with --ledger", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write the ledger {}: {source}; free some space, or name another file with --ledger", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process has it open.
    #[error(
        "another anabranch process uses the ledger {}; stop it, or name another file with --ledger \
         for this one", path.display()
    )]
    Taken {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a newer version of the program.
    #[error(
        "the ledger {} is of version {version}, and this program knows version 1; it was left as it is: run the program \
         that wrote it, or move it away, and the count starts at 0", path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version stated in the file.
        version: i64,
    },
    /// It cannot be parsed.
    #[error(
        "the ledger {} cannot be parsed: {reason}; it was left as it is: correct it, or move it away, and \
         the count starts at 0", path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// The error and its position.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(rename = "version")]
    _version: i64,
    #[serde(default)]
    place: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    began: String,
    used_bytes: u64,
}

/// The file and its lock.
#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    /// Lock file beside the ledger, because the ledger itself is replaced; `None` after the last write.
    lock: Option<fs::File>,
    /// State last written. Places without a tariff are kept.
    places: BTreeMap<Place, Counted>,
}

impl File {
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        let lock = lock(path)?;
        let places = match read_bounded(path) {
            Ok(text) => read(path, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => {
                return Err(LedgerError::Read {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        Ok(Self {
            path: path.to_owned(),
            lock: Some(lock),
            places,
        })
    }

    pub(super) fn counted(&self, place: &Place) -> Option<Counted> {
        self.places.get(place).copied()
    }

    /// Replaces the entries of these places. After the last write it does nothing.
    pub(super) fn write(&mut self, changes: Vec<(Place, Counted)>) -> Result<(), LedgerError> {
        if self.is_closed() {
            return Ok(());
        }
        let mut places = self.places.clone();
        places.extend(changes);
        replace(&self.path, &text(&places)).map_err(|source| LedgerError::Write {
            path: self.path.clone(),
            source,
        })?;
        self.places = places;
        Ok(())
    }

    /// Writes for the last time, and unlocks the file.
    pub(super) fn write_last(&mut self, changes: Vec<(Place, Counted)>) -> Result<(), LedgerError> {
        let written = self.write(changes);
        self.lock = None;
        written
    }

    /// True after the last write.
    pub(super) fn is_closed(&self) -> bool {
        self.lock.is_none()
    }
}

/// Text of the file, read only up to the largest size of a ledger.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(LEDGER_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LEDGER_BYTES_MAX {
        return Err(io::Error::other(
            "it is longer than 1 MiB, the limit of a ledger",
        ));
    }
    Ok(text)
}

pub(super) fn read(path: &Path, text: &str) -> Result<BTreeMap<Place, Counted>, LedgerError> {
    let wrong = |reason: String| LedgerError::Content {
        path: path.to_owned(),
        reason,
    };
    let wrong_toml = |error: toml::de::Error| wrong(error.to_string().trim_end().to_owned());
    // The version is checked first: another one may have other keys.
    let table: toml::Table = text.parse().map_err(wrong_toml)?;
    match table.get("version").and_then(toml::Value::as_integer) {
        Some(VERSION) => {}
        Some(version) => {
            return Err(LedgerError::Version {
                path: path.to_owned(),
                version,
            });
        }
        None => return Err(wrong("it has no line such as `version = 1`".to_owned())),
    }
    let whole: Text = toml::from_str(text).map_err(wrong_toml)?;
    let mut places = BTreeMap::new();
    for entry in whole.place {
        let place: Place = entry
            .name
            .parse()
            .map_err(|error| wrong(format!("name = \"{}\": {error}", entry.name)))?;
        let began: Date = entry
            .began
            .parse()
            .map_err(|error| wrong(format!("began = \"{}\": {error}", entry.began)))?;
        let counted = Counted {
            period: began.period(),
            used_bytes: entry.used_bytes,
        };
        if places.insert(place, counted).is_some() {
            return Err(wrong(format!("\"{}\" occurs twice", entry.name)));
        }
    }
    Ok(places)
}

fn text(places: &BTreeMap<Place, Counted>) -> String {
    let mut text = format!("{HEAD}version = {VERSION}\n");
    for (place, counted) in places {
        let name = toml::Value::String(place.to_string());
        let began = Date::from(counted.period);
        // TOML integers are signed 64-bit numbers.
        let used = counted.used_bytes.min(i64::MAX as u64);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[place]]\nname = {name}\nbegan = \"{began}\"\nused_bytes = {used}\n"
        );
    }
    text
}

/// Lock file of a ledger.
pub(super) fn lock_file(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

/// Locks the ledger for this process until the returned file is closed.
fn lock(path: &Path) -> Result<fs::File, LedgerError> {
    let failed = |source| LedgerError::Write {
        path: path.to_owned(),
        source,
    };
    fs::create_dir_all(folder(path)).map_err(failed)?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false);
    match open_locked(&mut options, &lock_file(path)).map_err(failed)? {
        Some(file) => Ok(file),
        None => Err(LedgerError::Taken {
            path: path.to_owned(),
        }),
    }
}

/// Opens a file and locks it; `None`: another process has locked it.
#[cfg(unix)]
fn open_locked(options: &mut fs::OpenOptions, path: &Path) -> io::Result<Option<fs::File>> {
    let file = private(options).open(path)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens a file that no other process can open at the same time; `None`: another one has.
#[cfg(windows)]
fn open_locked(options: &mut fs::OpenOptions, path: &Path) -> io::Result<Option<fs::File>> {
    const ERROR_SHARING_VIOLATION: i32 = 32;
    std::os::windows::fs::OpenOptionsExt::share_mode(options, 0);
    match private(options).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(ERROR_SHARING_VIOLATION) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_session::metering::Period;
    use proptest::prelude::*;

    use super::*;

    fn counted(period: u64, used_bytes: u64) -> Counted {
        Counted {
            period: Period(period),
            used_bytes,
        }
    }

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    #[test]
    fn usage_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/state/ledger");
        let mut file = File::open(&path).unwrap();
        assert_eq!(file.counted(&place("wwan0")), None);
        file.write(vec![(place("wwan0"), counted(20_758, 7))])
            .unwrap();
        file.write(vec![(place("2001:db8::1"), counted(20_400, u64::MAX >> 1))])
            .unwrap();
        file.write_last(vec![(place("wwan0"), counted(20_758, 5))])
            .unwrap();
        // A write that was under way.
        file.write(vec![(place("wwan0"), counted(20_758, 9))])
            .unwrap();
        drop(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("began = \"2026-11-01\""), "{text}");
        let file = File::open(&path).unwrap();
        assert_eq!(file.counted(&place("wwan0")), Some(counted(20_758, 5)));
        let other = file.counted(&place("2001:db8::1"));
        assert_eq!(other, Some(counted(20_400, u64::MAX >> 1)));
        assert!(!beside(&path, ".new").exists());
    }

    #[test]
    fn a_file_longer_than_any_ledger_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let long = text(&BTreeMap::new()) + &"# long\n".repeat(1 << 20);
        fs::write(&path, &long).unwrap();
        let error = File::open(&path).unwrap_err().to_string();
        assert!(error.contains("1 MiB"), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().len(), long.len() as u64);
    }

    #[test]
    fn it_belongs_to_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let file = File::open(&path).unwrap();
        let error = File::open(&path).unwrap_err();
        assert!(matches!(error, LedgerError::Taken { .. }), "{error}");
        drop(file);
        File::open(&path).unwrap();
    }

    #[test]
    fn an_unreadable_ledger_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let whole = text(&[(place("wwan0"), counted(20_758, 7))].into());
        for (text, words) in [
            (String::new(), "version = 1"),
            ("no toml".to_owned(), "line 1"),
            (
                whole.replace("version = 1", "version = 2\nnew = 3"),
                "of version 2",
            ),
            (
                whole.replace("used_bytes = 7", "used_bytes = -7"),
                "used_bytes = -7",
            ),
            (whole.replace("used_bytes", "used_byte"), "used_byte"),
            (whole.replace("2026-11-01", "2026-11-31"), "2026-11-31"),
            (whole.replace("wwan0", "w/0"), "w/0"),
            (whole.replace("used_bytes = 7", ""), "used_bytes"),
            (
                format!("{whole}{}", &whole[whole.find("[[").unwrap()..]),
                "twice",
            ),
            (whole[..whole.len() - 14].to_owned(), "line"),
        ] {
            fs::write(&path, &text).unwrap();
            let error = File::open(&path).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains("left as it is"),
                "{error}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // The draft left by a node that died is not a ledger.
        fs::write(&path, &whole).unwrap();
        fs::write(beside(&path, ".new"), "version = ").unwrap();
        let mut file = File::open(&path).unwrap();
        assert_eq!(file.counted(&place("wwan0")), Some(counted(20_758, 7)));
        file.write(Vec::new()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    }

    #[test]
    fn a_failed_write_is_reported_and_not_taken_for_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut file = File::open(&path).unwrap();
        fs::create_dir(beside(&path, ".new")).unwrap();
        let error = file
            .write(vec![(place("wwan0"), counted(1, 7))])
            .unwrap_err();
        assert!(error.to_string().contains("--ledger"), "{error}");
        assert_eq!(file.counted(&place("wwan0")), None);
    }

    proptest! {
        #[test]
        fn texts_round_trip(entries in prop::collection::btree_map("[a-z0-9.\"\\\\é-]{1,7}", (0..100_000_u64, 0..=i64::MAX as u64), 0..5)) {
            let places: BTreeMap<Place, Counted> = entries
                .into_iter()
                .filter_map(|(name, (period, used))| Some((name.parse().ok()?, counted(period, used))))
                .collect();
            prop_assert_eq!(read(Path::new("x"), &text(&places)).unwrap(), places);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(version = 1\n)?[a-z_\\[\\]\" =0-9\n.-]{0,80}") {
            let _ = read(Path::new("x"), &text);
        }
    }
}
