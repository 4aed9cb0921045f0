//! Numbers of each second, as lines of a table.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
};

use anabranch::AduStream;

use super::{
    Report,
    case::{Case, next},
    live::Vital,
};
use crate::{
    error::ClinicError,
    wire::{Purpose, Request, WireError, decode},
};

const HEAD: &str = "second,age_ms,heart_rate_per_minute\n";

/// Table of numbers.
#[derive(Debug)]
struct Table {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines.
    bytes: u64,
}

impl Table {
    /// Goes on after the last line that is whole.
    fn open(path: PathBuf) -> Result<Self, ClinicError> {
        let opened = || {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false);
            let mut file = options.open(&path)?;
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n');
            let bytes = whole.map_or(0, |at| at as u64 + 1);
            file.set_len(bytes)?;
            file.seek(SeekFrom::Start(bytes))?;
            Ok((file, bytes))
        };
        let opened = opened().map_err(|why: io::Error| ClinicError::file(&path, why));
        let (file, bytes) = opened?;
        let mut table = Self { path, file, bytes };
        if bytes == 0 {
            table.append(HEAD)?;
        }
        Ok(table)
    }

    /// Appends a line, or nothing.
    fn append(&mut self, line: &str) -> Result<(), ClinicError> {
        if let Err(why) = self.file.write_all(line.as_bytes()) {
            // Of a part that was written, nothing may stay.
            let _ = self.file.set_len(self.bytes);
            let _ = self.file.seek(SeekFrom::Start(self.bytes));
            return Err(ClinicError::file(&self.path, why));
        }
        self.bytes += line.len() as u64;
        Ok(())
    }
}

/// Receives numbers until the ambulance has sent them.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let mut table = Table::open(case.folder.join("vitals.csv"))?;
    let mut has_failed = false;
    let mut last = None;
    while let Some(adu) = next(stream).await? {
        match decode(&adu.data)? {
            Request::Vitals { origin } => case.live().origin(case.number, &origin),
            Request::Vital {
                number,
                at_us,
                heart_rate,
            } if last.is_none_or(|last| number > last) => {
                last = Some(number);
                let heart_rate = heart_rate.filter(|rate| rate.is_finite());
                let age = case.age(at_us).map(|age| age.age.as_millis().to_string());
                let rate = heart_rate.map(|rate| format!("{rate:.1}"));
                let line = format!(
                    "{number},{},{}\n",
                    age.unwrap_or_default(),
                    rate.unwrap_or_default()
                );
                match table.append(&line) {
                    Ok(()) => has_failed = false,
                    // A line that the disk does not take is lost; the numbers are shown, and others follow.
                    Err(error) if !has_failed => {
                        case.failed(Purpose::Vitals, &error);
                        has_failed = true;
                    }
                    Err(_) => {}
                }
                case.live().vital(
                    case.number,
                    Vital {
                        number,
                        heart_rate,
                        dated: case.dated(at_us),
                    },
                );
                case.report(Report::Vital { number, heart_rate });
            }
            Request::Vital { .. } => {}
            _ => return Err(WireError("another message among numbers".to_owned()).into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_line_that_was_written_in_part_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vitals.csv");
        Table::open(path.clone())
            .unwrap()
            .append("0,9,60.0\n")
            .unwrap();
        let text = format!("{HEAD}0,9,60.0\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::write(&path, format!("{text}1,9")).unwrap();
        Table::open(path.clone())
            .unwrap()
            .append("2,8,61.0\n")
            .unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!("{text}2,8,61.0\n")
        );
    }
}
