//! Pictures of the video as they came: a byte stream, and a table with a line for each.
//!
//! A program that was killed goes on after the last picture of which both are whole.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
    time::Duration,
};

use anabranch::AduStream;

use super::{
    Pictures, Report,
    case::{Case, next},
};
use crate::{
    error::ClinicError,
    wire::{Data, Picture, Purpose, WireError},
};

/// Age up to which a picture is in time.
const LIFETIME: Duration = Duration::from_millis(800);
const HEAD: &str = "picture,type,is_key,group,offset_bytes,bytes,age_ms\n";

/// Receives pictures until the ambulance has sent them.
pub(super) async fn receive<T: AduStream>(stream: &T, case: &Case) -> Result<(), ClinicError> {
    let mut pictures = Pictures::default();
    let received = pictures_of(stream, case, &mut pictures).await;
    case.report(Report::Pictures(pictures));
    received
}

async fn pictures_of<T: AduStream>(
    stream: &T,
    case: &Case,
    counts: &mut Pictures,
) -> Result<(), ClinicError> {
    let mut store = Store::open(case)?;
    let mut last: Option<u64> = None;
    let mut has_failed = false;
    while let Some(adu) = next(stream).await? {
        let Data::Picture(picture) = Data::read(adu.data)? else {
            return Err(WireError("other data among pictures".to_owned()).into());
        };
        if last.is_some_and(|last| picture.number <= last) {
            return Err(WireError("pictures that are not in order".to_owned()).into());
        }
        let age = case.age(picture.captured_us);
        counts.received += 1;
        counts.missing += last.map_or(0, |last| picture.number - last - 1);
        counts.in_time += u64::from(age.is_some_and(|age| age.age <= LIFETIME));
        last = Some(picture.number);
        case.keys.arrived(picture.number, picture.is_key);
        counts.keys_requested = case.keys.requests();
        let dated = case.dated(picture.captured_us);
        case.live().picture(case.number, &picture, dated, *counts);
        let age_ms = age.map(|age| age.age.as_millis().to_string());
        match store.append(&picture, &age_ms.unwrap_or_default()) {
            Ok(()) => has_failed = false,
            // A picture that the disk does not take is lost; others follow.
            Err(error) if !has_failed => {
                case.failed(Purpose::Video, &error);
                has_failed = true;
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Byte stream and table.
#[derive(Debug)]
struct Store {
    path: PathBuf,
    stream: File,
    table: File,
    /// Bytes of whole pictures, and of their lines.
    bytes: [u64; 2],
}

impl Store {
    fn open(case: &Case) -> Result<Self, ClinicError> {
        let path = case.folder.join("video.h264");
        let failed = |why| ClinicError::file(&path, why);
        let open = |path| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
        };
        let mut store = Self {
            stream: open(path.clone()).map_err(failed)?,
            table: open(path.with_extension("csv")).map_err(failed)?,
            path: path.clone(),
            bytes: [0, 0],
        };
        store.resume().map_err(failed)?;
        Ok(store)
    }

    /// Goes to the end of the last picture that is whole.
    fn resume(&mut self) -> io::Result<()> {
        let there = self.stream.metadata()?.len();
        let mut lines = BufReader::new(&self.table);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let end = match line == HEAD {
                true => Some(0),
                false => end(&line),
            };
            let Some(end) = end.filter(|end| *end <= there) else {
                break;
            };
            self.bytes = [end, self.bytes[1] + line.len() as u64];
            line.clear();
        }
        self.cut()?;
        if self.bytes[1] == 0 {
            self.table.write_all(HEAD.as_bytes())?;
            self.bytes[1] = HEAD.len() as u64;
        }
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        for (file, bytes) in [&mut self.stream, &mut self.table]
            .into_iter()
            .zip(self.bytes)
        {
            file.set_len(bytes)?;
            file.seek(SeekFrom::Start(bytes))?;
        }
        Ok(())
    }

    fn append(&mut self, picture: &Picture, age_ms: &str) -> Result<(), ClinicError> {
        let Picture {
            number,
            is_key,
            group,
            bytes,
            ..
        } = picture;
        let letter = picture.kind.letter();
        let line = format!(
            "{number},{letter},{is_key},{group},{},{},{age_ms}\n",
            self.bytes[0],
            bytes.len()
        );
        let written = self
            .stream
            .write_all(bytes)
            .and_then(|()| self.table.write_all(line.as_bytes()));
        if let Err(why) = written {
            // Of the part that was written, nothing may stay.
            let _ = self.cut();
            return Err(ClinicError::file(&self.path, why));
        }
        self.bytes[0] += bytes.len() as u64;
        self.bytes[1] += line.len() as u64;
        Ok(())
    }
}

/// End of a picture in the byte stream, from its line.
fn end(line: &str) -> Option<u64> {
    let mut words = line.split(',').skip(4);
    let offset: u64 = words.next()?.parse().ok()?;
    let bytes: u64 = words.next()?.parse().ok()?;
    offset.checked_add(bytes)
}
