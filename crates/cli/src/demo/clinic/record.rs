//! Record of the demonstration: one of a file, repeated, or a generated one, in the folder of the demonstration.

use std::path::{Path, PathBuf};

use anabranch_clinic::wfdb::{
    Header,
    files::{Reader, Writer},
};

use crate::exit::Failure;

/// Name of the record.
const NAME: &str = "demo";
/// Frames per second of the generated record, and its heart rate.
const FREQUENCY: usize = 500;
const PER_MINUTE: f64 = 72.0;
/// Units of the converter per mV.
const GAIN: f64 = 1_000.0;
/// Leads, with the amplitudes of their waves P, Q, R, S and T, in mV: of the usual order of size, and of no person.
const LEADS: [(&str, [f64; 5]); 12] = [
    ("i", [0.10, -0.05, 0.70, -0.10, 0.20]),
    ("ii", [0.15, -0.08, 1.10, -0.15, 0.30]),
    ("iii", [0.06, -0.06, 0.45, -0.10, 0.12]),
    ("avr", [-0.12, 0.06, -0.85, 0.12, -0.25]),
    ("avl", [0.04, -0.03, 0.25, -0.05, 0.08]),
    ("avf", [0.10, -0.07, 0.75, -0.12, 0.20]),
    ("v1", [0.06, 0.00, 0.20, -0.80, -0.10]),
    ("v2", [0.08, 0.00, 0.35, -1.00, 0.35]),
    ("v3", [0.09, -0.02, 0.60, -0.70, 0.40]),
    ("v4", [0.10, -0.05, 1.20, -0.40, 0.40]),
    ("v5", [0.10, -0.07, 1.10, -0.20, 0.30]),
    ("v6", [0.09, -0.06, 0.85, -0.10, 0.25]),
];
/// Place and width of each wave, in seconds after the begin of a beat.
const WAVES: [(f64, f64); 5] = [
    (0.12, 0.022),
    (0.235, 0.008),
    (0.26, 0.011),
    (0.285, 0.009),
    (0.50, 0.045),
];

/// The record that is played, and its samples.
pub(super) struct Record {
    pub(super) header: PathBuf,
    pub(super) leads: usize,
    pub(super) samples: Vec<i16>,
    pub(super) is_generated: bool,
}

/// Writes a record of so many seconds into the folder: that of a file, repeated, or a generated one.
pub(super) fn write(source: Option<&Path>, seconds: u64, folder: &Path) -> Result<Record, Failure> {
    let (header, samples) = match source {
        Some(path) => repeated(path, seconds)?,
        None => generated(seconds)?,
    };
    let mut writer = Writer::create(folder, NAME, &header).map_err(Failure::file)?;
    writer.append(0, &samples).map_err(Failure::file)?;
    writer.sync().map_err(Failure::file)?;
    Ok(Record {
        header: folder.join(format!("{NAME}.hea")),
        leads: header.leads.len(),
        samples,
        is_generated: source.is_none(),
    })
}

fn repeated(path: &Path, seconds: u64) -> Result<(Header, Vec<i16>), Failure> {
    let mut reader = Reader::open(path).map_err(Failure::file)?;
    let header = reader.header().clone();
    let wanted = (seconds as f64 * header.frequency) as usize * header.leads.len();
    let mut samples = Vec::new();
    while samples.len() < wanted {
        let left = (wanted - samples.len()) / header.leads.len();
        let more = reader.read(left).map_err(Failure::file)?;
        if more.is_empty() {
            if samples.is_empty() {
                return Err(Failure::file(format!("{}: no samples", path.display())));
            }
            reader.rewind().map_err(Failure::file)?;
        }
        samples.extend(more);
    }
    Ok((header, samples))
}

fn generated(seconds: u64) -> Result<(Header, Vec<i16>), Failure> {
    let mut text = format!("{NAME} {} {FREQUENCY}\n", LEADS.len());
    for (name, _) in LEADS {
        text += &format!("{NAME}.dat 16 {GAIN}(0)/mV 16 0 0 0 0 {name}\n");
    }
    let header = Header::read(text.as_bytes()).map_err(Failure::other)?;
    let frames = seconds as usize * FREQUENCY;
    let mut samples = Vec::with_capacity(frames * LEADS.len());
    for frame in 0..frames {
        let time = frame as f64 / FREQUENCY as f64;
        let phase = time % (60.0 / PER_MINUTE);
        let shapes = WAVES.map(|(at, width)| (-((phase - at) / width).powi(2)).exp());
        let wander = 0.03 * (time * 1.6).sin();
        for (_, amplitudes) in LEADS {
            let waves = amplitudes.iter().zip(shapes);
            let mv: f64 = waves.map(|(amplitude, shape)| amplitude * shape).sum();
            samples.push(((mv + wander) * GAIN).round() as i16);
        }
    }
    Ok((header, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_record_is_read_again_and_can_be_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let first = write(None, 2, folder.path()).unwrap();
        assert_eq!((first.leads, first.samples.len()), (12, 2 * 500 * 12));
        // The R wave of lead ii, within its neighbours and the wander.
        let ii = first.samples.iter().skip(1).step_by(12);
        assert!((1_000..1_200).contains(ii.max().unwrap()));
        let other = tempfile::tempdir().unwrap();
        let longer = write(Some(&first.header), 5, other.path()).unwrap();
        assert_eq!(longer.samples.len(), 5 * 500 * 12);
        assert_eq!(longer.samples[12_000..24_000], first.samples);
        assert!(first.is_generated && !longer.is_generated);
        let mut reader = Reader::open(&longer.header).unwrap();
        assert_eq!(reader.read(usize::MAX).unwrap(), longer.samples);
        assert_eq!(reader.deviations(), [""; 0]);
    }
}
