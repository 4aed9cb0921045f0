//! The film that the experiments stream.

use std::{fs, path::Path, sync::Arc, time::Duration};

#[cfg(test)]
use anabranch_base::Seed;
use anabranch_twoflow::{Class, Frame, Schedule, Segments, rate::RETRANSMITTED};

use crate::{
    Options,
    kit::{
        corpus::DATA_FOLDERS,
        sources::frames::{FrameSizes, FramesError},
    },
};

/// Path of the film below a folder of data.
const FILM: &str = "video/starwars_mpeg1.csv";
/// Frames from one I frame to the next, if a trace has no types: IBBPBBPBBPBB.
const GROUP: usize = 12;
/// Number of segments of the paper's film of about 100 minutes, and their length.
pub(super) const SEGMENTS: usize = 25;
pub(super) const SEGMENT: Duration = Duration::from_secs(256);
/// Mean rates of the I frames and of the others [Two-flow §5.1, §6], and the maximum that both flows need, in bits per second.
const MEANS_BPS: [f64; 2] = [134e3, 361e3];
const MAX_BPS: f64 = 529e3;

/// A film in frames.
#[derive(Clone, Debug)]
pub(super) struct Film {
    pub(super) name: String,
    pub(super) frames: Vec<Frame>,
    pub(super) segments: Segments,
    pub(super) schedule: Schedule,
    /// Number of each frame's group; groups begin with an I frame.
    pub(super) groups: Arc<[u32]>,
}

/// Cause for which a file is not a film.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilmError {
    /// It cannot be read.
    #[error("cannot read the film {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// It is not a trace of frames.
    #[error(transparent)]
    Frames(#[from] FramesError),
    /// It is shorter than two segments.
    #[error("{file} lasts {seconds} s; the experiments need 512 s of film, two segments")]
    Short {
        /// The file.
        file: String,
        /// Its duration.
        seconds: u64,
    },
}

/// Checks that a file is a film that the experiments can stream.
///
/// # Errors
/// It is not; the error explains why.
pub fn check_film(path: &Path) -> Result<(), FilmError> {
    read(path).map(|_| ())
}

fn read(path: &Path) -> Result<(String, FrameSizes, Vec<char>), FilmError> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|source| FilmError::Read {
        file: file.clone(),
        source,
    })?;
    let sizes = FrameSizes::parse(&file, &text)?;
    let seconds = (sizes.period * sizes.bytes.len() as u32).as_secs();
    if seconds < 2 * SEGMENT.as_secs() {
        return Err(FilmError::Short { file, seconds });
    }
    let name = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    Ok((
        name.unwrap_or_default(),
        sizes,
        types(&text).unwrap_or_default(),
    ))
}

impl Film {
    /// The named trace; else the published one; else a generated film. The paper's length and rates.
    pub(super) fn load(options: &Options<'_>) -> Self {
        let named = options.corpus.film.as_deref();
        let places = DATA_FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join(FILM));
        let found = match named {
            Some(path) => read(path).ok(),
            None => places.into_iter().find_map(|path| read(&path).ok()),
        };
        let (name, sizes, types) = found.unwrap_or_else(|| {
            (options.progress)("no trace of a film at hand; a generated one is used");
            let frames = SEGMENTS * SEGMENT.as_secs() as usize * 24;
            let sizes = FrameSizes::generated(frames, options.seed);
            ("generated".to_owned(), sizes, Vec::new())
        });
        Self::published(&name, &sizes, &types)
    }

    /// A generated film, for tests.
    #[cfg(test)]
    pub(super) fn generated(segments: usize) -> Self {
        let sizes = FrameSizes::generated(segments * SEGMENT.as_secs() as usize * 24, Seed(1));
        Self::published("generated", &sizes, &[])
    }

    /// The first 25 segments, both flows of each scaled such that mean rates and the maximum needed are the published ones: the
    /// unscaled trace has 0.35 Mbit/s over 100 minutes, and the published figures in its last 20 only.
    fn published(name: &str, sizes: &FrameSizes, types: &[char]) -> Self {
        let period_s = sizes.period.as_secs_f64();
        let first = types.iter().position(|&kind| kind == 'I').unwrap_or(0);
        let per_segment = (SEGMENT.as_secs_f64() / period_s).round() as usize;
        let count = SEGMENTS
            .min((sizes.bytes.len() - first).div_ceil(per_segment))
            .max(1);
        let end = (first + count * per_segment).min(sizes.bytes.len());
        let bytes = &sizes.bytes[first..end];
        let is_key = |index: usize| match types.get(first + index) {
            Some(kind) => *kind == 'I',
            None => index.is_multiple_of(GROUP),
        };
        // Rate of each segment's I frames, and of its others.
        let rates: Vec<[f64; 2]> = bytes
            .chunks(per_segment)
            .enumerate()
            .map(|(segment, part)| {
                let time_s = part.len() as f64 * period_s;
                let mut rates = [0.0; 2];
                for (place, size) in part.iter().enumerate() {
                    rates[usize::from(!is_key(segment * per_segment + place))] +=
                        size * 8.0 / time_s;
                }
                rates
            })
            .collect();
        let mean = |flow: usize| rates.iter().map(|of| of[flow]).sum::<f64>() / rates.len() as f64;
        let means = [mean(0), mean(1)];
        let make = |liveliness: f64| -> Vec<Frame> {
            let frame = |(index, &size): (usize, &f64)| {
                let flow = usize::from(!is_key(index));
                let own = rates[index / per_segment][flow];
                let wanted = MEANS_BPS[flow] * (1.0 + liveliness * (own / means[flow] - 1.0));
                Frame {
                    bytes: (size * wanted / own).round().max(1.0) as u32,
                    at: sizes.period * index as u32,
                    class: if flow == 0 {
                        Class::Essential
                    } else {
                        Class::Enhanced {
                            rank: rank(index, types.get(first + index)),
                        }
                    },
                }
            };
            bytes.iter().enumerate().map(frame).collect()
        };
        let of = |frames: Vec<Frame>| {
            let film = sizes.period * frames.len() as u32;
            // A film has frames, in order of time, and segments are long.
            let segments = Segments::new(&frames, film, SEGMENT).ok();
            segments.map(|segments| (Schedule::new(&segments, RETRANSMITTED), segments, frames))
        };
        let needs = |liveliness: f64| of(make(liveliness)).map_or(0.0, |(s, ..)| needed_bps(&s));
        let (mut low, mut high) = (0.0, 2.0);
        for _ in 0..20 {
            let middle = (low + high) / 2.0;
            if needs(middle) < MAX_BPS {
                low = middle;
            } else {
                high = middle;
            }
        }
        let Some((schedule, segments, frames)) = of(make(low)) else {
            unreachable!("a film has frames in order of time");
        };
        let mut group = 0;
        let groups = frames
            .iter()
            .map(|frame| {
                group += u32::from(frame.class.is_essential());
                group
            })
            .collect();
        Self {
            name: name.to_owned(),
            frames,
            segments,
            schedule,
            groups,
        }
    }
}

/// Maximum that both flows need at any time, in bits per second of the application: a step's essential part travels beside its
/// own enhanced part and, as that begins later, beside the end of the one before.
pub(super) fn needed_bps(schedule: &Schedule) -> f64 {
    let steps = schedule.steps();
    let before = |index: usize| steps.get(index.wrapping_sub(1)).unwrap_or(&steps[index]);
    (0..steps.len())
        .map(|index| {
            let enhanced = steps[index].enhanced_rate.max(before(index).enhanced_rate);
            (steps[index].essential_rate.as_bps() + enhanced.as_bps()) as f64
        })
        .fold(0.0, f64::max)
}

/// Rank of a frame: P frames rank above B frames, and those early in a group above late ones.
fn rank(index: usize, kind: Option<&char>) -> u8 {
    let place = index % GROUP;
    let is_predicted = kind.map_or(place.is_multiple_of(3), |&kind| kind == 'P');
    if is_predicted {
        100 - place as u8
    } else {
        50 - place as u8
    }
}

/// Column `type` of a trace, if it has one.
fn types(text: &str) -> Option<Vec<char>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let column = lines
        .next()?
        .split(',')
        .position(|name| name.trim() == "type")?;
    let kinds: Vec<char> = lines
        .map(|line| {
            let cell = line.split(',').nth(column).unwrap_or_default();
            cell.trim().chars().next().unwrap_or('?')
        })
        .collect();
    kinds.contains(&'I').then_some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_has_the_published_rates() {
        let film = Film::generated(4);
        let bytes: u64 = film.frames.iter().map(|frame| u64::from(frame.bytes)).sum();
        let mean = bytes as f64 * 8.0 / film.segments.film().as_secs_f64();
        assert!((mean / 495e3 - 1.0).abs() < 0.01, "{mean}");
        assert!(needed_bps(&film.schedule) <= MAX_BPS + 1.0);
        assert!(film.frames[0].class.is_essential());
        assert_eq!(film.groups.last(), Some(&(4 * 512)));
    }
}
