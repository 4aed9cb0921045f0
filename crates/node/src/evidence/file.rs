//! File of the evidence: a short TOML text, replaced as a whole. It holds nothing that cannot be learnt again.

use std::{
    fmt::Write as _,
    fs,
    io::{self, Read as _},
    path::Path,
};

use anabranch_session::PROBABILITIES;
use serde::Deserialize;

use super::{INTERFACES_MAX, Interfaces, Known};
use crate::whole_file;

/// Version of the format that this program writes, and the only one that it reads.
const VERSION: i64 = 1;
/// Largest file that is read.
const BYTES_MAX: u64 = 64 << 10;
/// Longest name of an interface.
const NAME_BYTES_MAX: usize = 128;
const HEAD: &str = "\
# How steady the interfaces of this node were: shares of the lowest rate of some seconds that held in the next ten, with probabilities of
# 50, 75, 90, 95 and 99 %. Anabranch writes this file while it runs, and learns again what is missing.
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: i64,
    #[serde(default)]
    interface: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    measured_ms: u64,
    windows: usize,
    shares: [f64; PROBABILITIES.len()],
}

/// Reads the file; one that does not exist has no entries.
pub(super) fn read(path: &Path) -> io::Result<Interfaces> {
    let mut text = String::new();
    match fs::File::open(path) {
        Ok(file) => file.take(BYTES_MAX + 1).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Interfaces::new()),
        Err(error) => return Err(error),
    };
    parse(&text).map_err(io::Error::other)
}

fn parse(text: &str) -> Result<Interfaces, String> {
    if text.len() as u64 > BYTES_MAX {
        return Err("it is longer than 64 KiB, the limit".to_owned());
    }
    let text: Text = toml::from_str(text).map_err(|error| error.to_string())?;
    if text.version != VERSION {
        return Err(format!(
            "it is of version {}, and this program knows version {VERSION}",
            text.version
        ));
    }
    let mut known = Interfaces::new();
    for entry in text.interface {
        let is_descending = entry.shares.windows(2).all(|pair| pair[0] >= pair[1]);
        let are_shares = entry.shares.iter().all(|share| (0.0..=1.0).contains(share));
        if !is_descending || !are_shares {
            return Err(format!(
                "shares of {:?}: they descend from 1 to 0 at most",
                entry.name
            ));
        }
        if entry.name.len() > NAME_BYTES_MAX || known.len() == INTERFACES_MAX {
            return Err("a name that is too long, or too many interfaces".to_owned());
        }
        known.insert(
            entry.name.into(),
            Known {
                shares: entry.shares,
                windows: entry.windows,
                measured_ms: entry.measured_ms,
            },
        );
    }
    Ok(known)
}

pub(super) fn text(known: &Interfaces) -> String {
    let mut text = format!("{HEAD}version = {VERSION}\n");
    for (name, known) in known
        .iter()
        .filter(|(name, _)| name.len() <= NAME_BYTES_MAX)
    {
        let name = toml::Value::String(name.to_string());
        let shares = known.shares.map(|share| format!("{share:.4}")).join(", ");
        // TOML integers are signed 64-bit numbers. Writing to a string cannot fail.
        let measured_ms = known.measured_ms.min(i64::MAX as u64);
        let _ = write!(
            text,
            "\n[[interface]]\nname = {name}\nmeasured_ms = {measured_ms}\nwindows = {}\nshares = [{shares}]\n",
            known.windows
        );
    }
    text
}

/// Replaces the file, whose folder is created if there is none.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(whole_file::folder(path))?;
    whole_file::replace(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Interfaces {
        let known = |shares, windows| Known {
            shares,
            windows,
            measured_ms: 1_764_000_000_000,
        };
        Interfaces::from([
            ("lte \"0\"".into(), known([1.0, 0.9, 0.5, 0.25, 0.0], 120)),
            ("wlan0".into(), known([1.0; 5], 500)),
        ])
    }

    #[test]
    fn evidence_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/state/evidence");
        assert_eq!(read(&path).unwrap(), Interfaces::new());
        write(&path, &text(&known())).unwrap();
        assert_eq!(read(&path).unwrap(), known());
    }

    #[test]
    fn damaged_evidence_is_refused() {
        let good = text(&known());
        assert!(parse(&good).is_ok());
        for (from, to) in [
            ("version = 1", "version = 2"),
            ("0.2500", "0.7500"),
            ("1.0000, 0.9000", "1.5000, 0.9000"),
            ("1.0000, 0.9000", "nan, 0.9000"),
            ("windows = 120", "windows = -1"),
            ("windows = 120", "windows = 120\nother = 1"),
            ("measured_ms", "measured"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(parse(&bad).is_err(), "{bad}");
        }
        assert!(parse(&"#".repeat(70_000)).is_err());
    }
}
