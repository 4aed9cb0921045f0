//! Store of the speech of an ambulance: a file of sound, and a table with a line for each packet.
//!
//! A program that was killed goes on after the last page and the last line that are whole.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use crate::{
    error::ClinicError,
    speech::{Timeline, Track},
    wire::{Speech, WireError},
};

const HEAD: &str = "packet,place,captured_us,bytes,age_ms\n";
/// Serial number of the stream of Ogg.
const SERIAL: u32 = 1;
/// Bytes at the end of the table in which the last line is sought.
const TAIL_BYTES: u64 = 512;

/// A packet, and its age as it came; `None`: the clock of the ambulance was not known yet.
#[derive(Clone, Debug)]
pub(super) struct Spoken {
    pub(super) packet: Speech,
    pub(super) age_ms: Option<u64>,
}

/// File and table.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    track: Track,
    table: File,
    /// Bytes of whole lines.
    table_bytes: u64,
    timeline: Timeline,
    /// Place of the first packet of the timeline.
    begin: u64,
}

impl Store {
    /// Opens both in the folder of a case.
    pub(super) fn open(folder: &Path) -> Result<Self, ClinicError> {
        let path = folder.join("speech.opus");
        let opened = Track::open(&path, SERIAL).and_then(|track| {
            let table = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path.with_extension("csv"))?;
            Ok((track, table))
        });
        let (track, mut table) = opened.map_err(|why| ClinicError::file(&path, why))?;
        let (table_bytes, last) =
            resume(&mut table).map_err(|why| ClinicError::file(&path, why))?;
        let next = track.next();
        let (timeline, begin) = match (last, next.checked_sub(1)) {
            (Some((number, captured_us)), Some(place)) => {
                (Timeline::after(number, captured_us, place), 0)
            }
            _ => (Timeline::default(), next),
        };
        Ok(Self {
            path,
            track,
            table,
            table_bytes,
            timeline,
            begin,
        })
    }

    /// Appends a packet, which follows the last one; one that does not is left out, such as one that an earlier session had.
    pub(super) fn append(&mut self, spoken: &Spoken) -> Result<(), ClinicError> {
        let Speech {
            captured_us,
            number,
            bytes,
        } = &spoken.packet;
        let mut timeline = self.timeline;
        if timeline.is_before(*number) {
            return Ok(());
        }
        let place = timeline.place(*number, *captured_us);
        let Some(place) = place.and_then(|place| place.checked_add(self.begin)) else {
            return Err(
                WireError("speech of a time that is more than a day away".to_owned()).into(),
            );
        };
        let age_ms = spoken.age_ms.map(|age| age.to_string());
        let line = format!(
            "{number},{place},{captured_us},{},{}\n",
            bytes.len(),
            age_ms.unwrap_or_default()
        );
        let written = self.track.append(place, bytes).and_then(|()| {
            let written = self.table.write_all(line.as_bytes());
            if written.is_err() {
                // Of a line that was written in part, nothing may stay.
                let _ = cut(&mut self.table, self.table_bytes);
            }
            written
        });
        written.map_err(|why| ClinicError::file(&self.path, why))?;
        self.table_bytes += line.len() as u64;
        self.timeline = timeline;
        Ok(())
    }
}

/// Goes to the end of the last line that is whole; returns the bytes up to there, and number and time of its packet.
fn resume(table: &mut File) -> io::Result<(u64, Option<(u64, u64)>)> {
    let bytes = table.metadata()?.len();
    let from = bytes.saturating_sub(TAIL_BYTES);
    table.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    table.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |at| at + 1);
    if whole == 0 {
        cut(table, 0)?;
        table.write_all(HEAD.as_bytes())?;
        return Ok((HEAD.len() as u64, None));
    }
    let text = String::from_utf8_lossy(&tail[..whole]);
    let last = text.lines().last().and_then(|line| {
        let mut words = line.split(',');
        let number = words.next()?.parse().ok()?;
        let captured_us = words.nth(1)?.parse().ok()?;
        Some((number, captured_us))
    });
    let end = from + whole as u64;
    cut(table, end)?;
    Ok((end, last))
}

fn cut(file: &mut File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)?;
    file.seek(SeekFrom::Start(bytes)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn spoken(number: u64, captured_us: u64) -> Spoken {
        let packet = Speech {
            captured_us,
            number,
            bytes: vec![8, 1].into(),
        };
        let age_ms = (number > 0).then_some(90);
        Spoken { packet, age_ms }
    }

    #[test]
    fn a_store_goes_on_where_it_was_whatever_was_written_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.append(&spoken(0, 20_000)).unwrap();
        store.append(&spoken(2, 60_000)).unwrap();
        drop(store);
        let table = folder.path().join("speech.csv");
        let text = fs::read_to_string(&table).unwrap();
        assert_eq!(text, format!("{HEAD}0,0,20000,2,\n2,2,60000,2,90\n"));
        fs::write(&table, format!("{text}3,3,8")).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        // One that is there, one after a pause, and one of another time.
        store.append(&spoken(2, 60_000)).unwrap();
        store.append(&spoken(3, 1_060_000)).unwrap();
        let why = store.append(&spoken(4, u64::MAX)).unwrap_err();
        assert!(why.to_string().contains("a day away"), "{why}");
        let lines = fs::read_to_string(&table).unwrap();
        assert_eq!(lines, format!("{text}3,52,1060000,2,90\n"));
        assert_eq!(store.track.next(), 53);
        // Without its table, the sound goes on after what is there.
        drop(store);
        fs::remove_file(&table).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        store.append(&spoken(9, 5)).unwrap();
        assert_eq!(store.track.next(), 54);
    }
}
