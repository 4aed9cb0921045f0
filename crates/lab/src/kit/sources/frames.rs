//! Sizes of the frames of a video.
//!
//! A trace is a CSV text whose header names `bytes` and `pts_s`, in any order and among others: the size of each frame and the
//! time at which it is shown.

use std::time::Duration;

use anabranch_base::Seed;

/// Limit on the frames of a trace.
pub const FRAMES_MAX: usize = 2_000_000;
/// Limit on the bytes of a frame.
pub const BYTES_MAX: f64 = 16.0 * 1024.0 * 1024.0;

/// Sizes of a video's frames.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameSizes {
    /// Bytes of each frame, in the order in which they are shown; there is at least one frame, and at least one that is not
    /// empty.
    pub bytes: Vec<f64>,
    /// Time between two frames.
    pub period: Duration,
}

/// Error in the text of a trace of frames.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {problem}")]
pub struct FramesError {
    /// The file.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// The error, and what is expected.
    pub problem: String,
}

impl FrameSizes {
    /// Reads a text; `file` is for messages.
    ///
    /// # Errors
    /// The first malformed line.
    pub fn parse(file: &str, text: &str) -> Result<Self, FramesError> {
        let problem = |line: usize, problem: String| FramesError {
            file: file.to_owned(),
            line,
            problem,
        };
        let mut lines = text
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.trim().is_empty());
        let missing = "no header; expected one that names bytes and pts_s";
        let (header, line) = lines.next().ok_or_else(|| problem(1, missing.to_owned()))?;
        let column = |name: &str| {
            let mut names = header.split(',').map(str::trim);
            let found = names.position(|column| column == name);
            found.ok_or_else(|| problem(line, format!("the header does not name {name}")))
        };
        let (bytes_column, time_column) = (column("bytes")?, column("pts_s")?);
        let mut bytes = Vec::new();
        let (mut first_s, mut last_s) = (0.0, 0.0);
        let mut last_line = line;
        for (row, line) in lines {
            last_line = line;
            let cells: Vec<&str> = row.split(',').map(str::trim).collect();
            let number = |column: usize, name: &str| {
                let cell = cells.get(column).copied().unwrap_or_default();
                let value = cell.parse().ok().filter(|v: &f64| v.is_finite());
                value.ok_or_else(|| {
                    let found: String = cell.chars().take(40).collect();
                    problem(line, format!("{name}: '{found}' is not a number"))
                })
            };
            let size = number(bytes_column, "bytes")?;
            if !(0.0..=BYTES_MAX).contains(&size) {
                return Err(problem(
                    line,
                    format!("bytes: {size} is no size of a frame"),
                ));
            }
            let time_s = number(time_column, "pts_s")?;
            if bytes.is_empty() {
                first_s = time_s;
            } else if time_s <= last_s {
                let words =
                    format!("pts_s: {time_s} does not come after {last_s}, as frames are shown");
                return Err(problem(line, words));
            }
            last_s = time_s;
            bytes.push(size);
            if bytes.len() > FRAMES_MAX {
                return Err(problem(line, format!("more than {FRAMES_MAX} frames")));
            }
        }
        if bytes.len() < 2 || bytes.iter().all(|&size| size == 0.0) {
            let words = "expected two frames at least, and not all of them empty";
            return Err(problem(last_line + 1, words.to_owned()));
        }
        let period_s = (last_s - first_s) / (bytes.len() - 1) as f64;
        if !(0.001..=10.0).contains(&period_s) {
            let words = format!("frames are {period_s} s apart; expected 1 ms to 10 s");
            return Err(problem(last_line, words));
        }
        Ok(Self {
            bytes,
            period: Duration::from_secs_f64(period_s),
        })
    }

    /// A synthetic film: scenes of 2 to 10 s with a size of their own, groups of 12 frames `IBBPBBPBBPBB` with sizes as 5 : 2 :
    /// 1, and a tenth of noise from frame to frame; 24 frames a second.
    pub fn generated(frames: usize, seed: Seed) -> Self {
        let mut random = seed.stream("film");
        let mut bytes = Vec::with_capacity(frames);
        let (mut scene, mut left) = (1.0, 0);
        for frame in 0..frames.max(2) {
            if left == 0 {
                left = random.between(48, 240);
                scene = random.normal(0.0, 0.35).exp();
            }
            left -= 1;
            let kind = match frame % 12 {
                0 => 5.0,
                3 | 6 | 9 => 2.0,
                _ => 1.0,
            };
            bytes.push(1_000.0 * scene * kind * random.normal(1.0, 0.1).clamp(0.5, 1.5));
        }
        Self {
            bytes,
            period: Duration::from_secs(1) / 24,
        }
    }

    /// Frames from `from` on, `count` of them, continuing from the beginning at the end.
    #[must_use]
    pub fn part(&self, from: usize, count: usize) -> Self {
        let frames = self.bytes.iter().cycle().skip(from % self.bytes.len());
        Self {
            bytes: frames.take(count.max(1)).copied().collect(),
            period: self.period,
        }
    }

    /// Mean rate, in bits per second.
    pub fn mean_bps(&self) -> f64 {
        let sum: f64 = self.bytes.iter().sum();
        sum * 8.0 / (self.bytes.len() as f64 * self.period.as_secs_f64())
    }

    /// Rate that the share `probability` of whole seconds exceeds, in bits per second.
    pub fn exceeded_bps(&self, probability: f64) -> f64 {
        let per_second = (1.0 / self.period.as_secs_f64()).round().max(1.0) as usize;
        let width_s = per_second as f64 * self.period.as_secs_f64();
        let mut rates: Vec<f64> = self
            .bytes
            .chunks_exact(per_second)
            .map(|second| second.iter().sum::<f64>() * 8.0 / width_s)
            .collect();
        rates.sort_by(f64::total_cmp);
        let rank = ((1.0 - probability) * rates.len() as f64) as usize;
        let found = rates.get(rank).copied();
        found.unwrap_or_else(|| self.mean_bps())
    }

    /// The same film at another mean rate.
    #[must_use]
    pub fn at_mean(&self, mean_bps: f64) -> Self {
        let scale = mean_bps / self.mean_bps();
        self.map(|size| size * scale)
    }

    /// The film with this mean rate, of which the share `probability` of seconds exceeds `exceeded_bps`: every frame is scaled,
    /// then moved towards the mean frame, or away from it. Frames keep one byte at least, so a film that would need more
    /// variation than it can have may miss the figures.
    #[must_use]
    pub fn fitted(&self, mean_bps: f64, (exceeded_bps, probability): (f64, f64)) -> Self {
        let scaled = self.at_mean(mean_bps);
        let spread = mean_bps - scaled.exceeded_bps(probability);
        let wanted = mean_bps - exceeded_bps;
        let factor = if spread > 0.0 { wanted / spread } else { 1.0 };
        let mean_bytes = mean_bps / 8.0 * self.period.as_secs_f64();
        scaled.map(|size| mean_bytes + (size - mean_bytes) * factor)
    }

    fn map(&self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            bytes: self.bytes.iter().map(|&size| change(size)).collect(),
            period: self.period,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_and_the_period() {
        let text = "frame,type,bytes,pts_s\n0,I,1000,0\n1,P,500,0.04\n2,P,0,0.08\n";
        let sizes = FrameSizes::parse("f.csv", text).unwrap();
        assert_eq!(sizes.bytes, [1000.0, 500.0, 0.0]);
        assert_eq!(sizes.period, Duration::from_millis(40));
        assert_eq!(sizes.mean_bps(), 100_000.0);
        assert_eq!(sizes.part(2, 2).bytes, [0.0, 1000.0]);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, words) in [
            ("", "f.csv, line 1: no header"),
            (
                "frame,pts_s\n",
                "f.csv, line 1: the header does not name bytes",
            ),
            ("bytes\n", "f.csv, line 1: the header does not name pts_s"),
            ("bytes,pts_s\n", "f.csv, line 2: expected two frames"),
            (
                "bytes,pts_s\n0,0\n0,1\n",
                "f.csv, line 4: expected two frames",
            ),
            (
                "bytes,pts_s\nx,0\n",
                "f.csv, line 2: bytes: 'x' is not a number",
            ),
            ("bytes,pts_s\n-1,0\n", "f.csv, line 2: bytes: -1 is no size"),
            (
                "bytes,pts_s\n1\n",
                "f.csv, line 2: pts_s: '' is not a number",
            ),
            (
                "bytes,pts_s\n1,0\n2,0\n",
                "f.csv, line 3: pts_s: 0 does not come after 0",
            ),
            (
                "bytes,pts_s\n1,0\n2,11\n",
                "f.csv, line 3: frames are 11 s apart",
            ),
        ] {
            let error = FrameSizes::parse("f.csv", text).unwrap_err().to_string();
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_film_is_fitted_to_mean_and_percentile() {
        let film = FrameSizes::generated(24 * 400, Seed(1));
        let fitted = film.fitted(1.482e6, (1.22e6, 0.95));
        assert!((fitted.mean_bps() - 1.482e6).abs() < 1.0);
        assert!((fitted.exceeded_bps(0.95) - 1.22e6).abs() < 1.0);
        assert!(fitted.bytes.iter().all(|&size| size > 0.0));
    }
}
