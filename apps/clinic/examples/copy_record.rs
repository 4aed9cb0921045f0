//! Copy of a WFDB record as the hospital writes one: `copy_record SOURCE.hea FOLDER NAME [FIRST FRAMES]`. Frames from FIRST on, so many, are
//! left out, as if they had been lost. `tools/wfdb` compares the copy with what other programs read.

use std::{error::Error, path::Path};

use anabranch_clinic::wfdb::files::{Reader, Writer};

/// Frames that are copied at a time: 40 ms at 1 kHz.
const FRAMES: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (source, folder, name, lost) = match &words[..] {
        [source, folder, name] => (source, folder, name, 0..0),
        [source, folder, name, first, frames] => {
            let first: u64 = first.parse()?;
            (source, folder, name, first..first + frames.parse::<u64>()?)
        }
        _ => return Err("give SOURCE.hea FOLDER NAME [FIRST FRAMES]".into()),
    };
    let mut reader = Reader::open(Path::new(source))?;
    let mut writer = Writer::create(Path::new(folder), name, reader.header())?;
    let leads = reader.header().leads.len();
    let mut first = 0;
    loop {
        let samples = reader.read(FRAMES)?;
        if samples.is_empty() {
            break;
        }
        for frame in samples.chunks_exact(leads) {
            if !lost.contains(&first) {
                writer.append(first, frame)?;
            }
            first += 1;
        }
    }
    writer.sync()?;
    match &reader.deviations()[..] {
        [] => Ok(()),
        some => Err(some.join("; ").into()),
    }
}
