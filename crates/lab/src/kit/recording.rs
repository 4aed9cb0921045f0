//! Recorded measurements of a path, as experiments read them: values and times, with a gap where nothing was measured.
//!
//! `anabranch_link::Trace` reads the same files for driving a link; there, every time needs a rate.

use std::{fmt, fs, path::Path};

/// Limit on the size of a file; the largest recording known is a fiftieth of it.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Round trip that some pings write if no answer came.
const UNANSWERED: f64 = -1.0;
/// Columns that the first line of a recording may name.
const COLUMNS: &str = "t_s and bandwidth_bps, rtt_ms or loss";

/// Measurements of one path. All columns present have the length of `times_s`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Folder and file name without its ending: `norway_hsdpa/bus_1`.
    pub name: String,
    /// Kind of network, if an index gives it; else the folder's name.
    pub network: String,
    /// Name of the group of recordings made at the same time; empty: none.
    pub group: String,
    /// Time of each row in seconds, never decreasing: some loggers write two rows in a second.
    pub times_s: Vec<f64>,
    /// Bandwidth in bits per second.
    pub bandwidth_bps: Option<Vec<Option<f64>>>,
    /// Round-trip time in milliseconds. Some pings write −1 if no answer came; that is a gap here, and a loss in
    /// [`Recording::loss`] unless the recording has such a column itself.
    pub rtt_ms: Option<Vec<Option<f64>>>,
    /// Fraction of packets lost.
    pub loss: Option<Vec<Option<f64>>>,
}

/// Cause for which a file is not a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// It is longer than any recording.
    #[error(
        "{file} has {bytes} bytes; a recording has at most {FILE_BYTES_MAX}; cut it into parts"
    )]
    Large {
        /// The file.
        file: String,
        /// Its size.
        bytes: u64,
    },
    /// A line is malformed.
    #[error("{file}, line {line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: usize,
        /// The error, and what is expected.
        problem: String,
    },
    /// It has no rows at all.
    #[error("{file} has no rows of measurements; expected a header naming {COLUMNS}, then rows")]
    Empty {
        /// The file.
        file: String,
    },
}

/// The columns a recording may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Bandwidth,
    Rtt,
    Loss,
}

impl Column {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "t_s" => Self::Time,
            "bandwidth_bps" => Self::Bandwidth,
            "rtt_ms" => Self::Rtt,
            "loss" => Self::Loss,
            _ => return None,
        })
    }

    /// Objection to a number as a value of this column.
    fn objection(self, value: f64) -> Option<&'static str> {
        match self {
            _ if !value.is_finite() => {
                Some("a finite number, or nothing where nothing was measured")
            }
            Self::Bandwidth if value < 0.0 => Some("a bandwidth of at least 0 bit/s"),
            Self::Rtt if value < 0.0 => {
                Some("a round-trip time of at least 0 ms, or nothing where no answer came")
            }
            Self::Loss if !(0.0..=1.0).contains(&value) => Some("a loss fraction from 0 to 1"),
            _ => None,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "t_s",
            Self::Bandwidth => "bandwidth_bps",
            Self::Rtt => "rtt_ms",
            Self::Loss => "loss",
        })
    }
}

impl Recording {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// It cannot be read, or a line is malformed; the message names file and line.
    pub fn read(path: &Path) -> Result<Self, RecordingError> {
        let file = path.display().to_string();
        let failed = |source| RecordingError::Read {
            file: file.clone(),
            source,
        };
        let bytes = fs::metadata(path).map_err(failed)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(RecordingError::Large { file, bytes });
        }
        let text = fs::read(path).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let folder = path
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default()
            .to_string_lossy();
        let mut recording = Self::parse(&file, &text)?;
        recording.name = if folder.is_empty() {
            stem.into_owned()
        } else {
            format!("{folder}/{stem}")
        };
        recording.network = folder.into_owned();
        Ok(recording)
    }

    /// Reads a text; `file` is for messages.
    ///
    /// # Errors
    /// As [`Recording::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, RecordingError> {
        let problem = |line: usize, problem: String| RecordingError::Line {
            file: file.to_owned(),
            line,
            problem,
        };
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let empty = || RecordingError::Empty {
            file: file.to_owned(),
        };
        let (header_line, header) = lines.next().ok_or_else(empty)?;
        let mut columns: Vec<Option<Column>> = Vec::new();
        for name in header.split(',').map(str::trim) {
            let column = Column::parse(name);
            if column.is_some() && columns.contains(&column) {
                return Err(problem(
                    header_line,
                    format!("the column {name} stands twice"),
                ));
            }
            columns.push(column);
        }
        let has = |column| columns.contains(&Some(column));
        if !has(Column::Time) || !(has(Column::Bandwidth) || has(Column::Rtt) || has(Column::Loss))
        {
            return Err(problem(
                header_line,
                format!("the header '{}' does not name {COLUMNS}", cut(header)),
            ));
        }
        let mut recording = Self {
            bandwidth_bps: has(Column::Bandwidth).then(Vec::new),
            rtt_ms: has(Column::Rtt).then(Vec::new),
            loss: has(Column::Loss).then(Vec::new),
            ..Self::default()
        };
        // True for each row that records that no answer came.
        let mut unanswered = Vec::new();
        for (line, row) in lines {
            let cells: Vec<&str> = row.split(',').map(str::trim).collect();
            if cells.len() != columns.len() {
                return Err(problem(
                    line,
                    format!(
                        "{} cells, but the header has {}",
                        cells.len(),
                        columns.len()
                    ),
                ));
            }
            let mut is_unanswered = false;
            for (column, cell) in columns.iter().zip(cells) {
                let Some(column) = *column else { continue };
                let value = if cell.is_empty() {
                    None
                } else if column == Column::Rtt && cell.parse() == Ok(UNANSWERED) {
                    is_unanswered = true;
                    None
                } else {
                    let value: f64 = cell.parse().map_err(|_| {
                        problem(line, format!("{column}: '{}' is not a number", cut(cell)))
                    })?;
                    if let Some(expected) = column.objection(value) {
                        return Err(problem(
                            line,
                            format!("{column}: found {value}, expected {expected}"),
                        ));
                    }
                    Some(value)
                };
                recording
                    .push(column, value)
                    .map_err(|words| problem(line, words))?;
            }
            unanswered.push(is_unanswered);
        }
        if recording.times_s.is_empty() {
            return Err(empty());
        }
        if recording.loss.is_none() && unanswered.contains(&true) {
            let trips = recording.rtt_ms.iter().flatten();
            let rows = trips.zip(&unanswered);
            let loss = rows.map(|(trip, &lost)| match (trip, lost) {
                (_, true) => Some(1.0),
                (Some(_), false) => Some(0.0),
                (None, false) => None,
            });
            recording.loss = Some(loss.collect());
        }
        Ok(recording)
    }

    fn push(&mut self, column: Column, value: Option<f64>) -> Result<(), String> {
        let values = match column {
            Column::Time => {
                let time = value.ok_or("t_s: empty cell, expected a time in seconds")?;
                if let Some(&before) = self.times_s.last()
                    && time < before
                {
                    return Err(format!(
                        "t_s: {time} comes before {before}, the time of the row above; sort the rows"
                    ));
                }
                self.times_s.push(time);
                return Ok(());
            }
            Column::Bandwidth => &mut self.bandwidth_bps,
            Column::Rtt => &mut self.rtt_ms,
            Column::Loss => &mut self.loss,
        };
        if let Some(values) = values {
            values.push(value);
        }
        Ok(())
    }

    /// Median time between rows, in seconds; `None` for fewer than two rows.
    pub fn step_s(&self) -> Option<f64> {
        let mut steps: Vec<f64> = self
            .times_s
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        steps.sort_by(f64::total_cmp);
        steps.get(steps.len() / 2).copied()
    }

    /// Measured bandwidths, in order; empty if the recording has none.
    pub fn bandwidths_bps(&self) -> Vec<f64> {
        self.bandwidth_bps
            .iter()
            .flatten()
            .flatten()
            .copied()
            .collect()
    }

    /// Bandwidths as measured over windows of `window_s`: means of the rows that fall into each window. Windows without any row
    /// are left out. The recording itself if its rows are that far apart already; `None` if they are farther apart.
    pub fn bandwidths_over(&self, window_s: f64) -> Option<Vec<f64>> {
        let step = self.step_s()?;
        if step > window_s * 1.2 {
            return None;
        }
        if step > window_s / 1.5 {
            return Some(self.bandwidths_bps());
        }
        let values = self.bandwidth_bps.as_ref()?;
        let begin = *self.times_s.first()?;
        let mut means = Vec::new();
        let mut current = (0_u64, 0.0, 0_u32);
        for (&time, value) in self.times_s.iter().zip(values) {
            let Some(value) = value else { continue };
            // Rounding must not move a row into the window before.
            let window = ((time - begin) / window_s + 1e-6) as u64;
            if window != current.0 && current.2 > 0 {
                means.push(current.1 / f64::from(current.2));
                current = (window, 0.0, 0);
            }
            current = (window, current.1 + value, current.2 + 1);
        }
        if current.2 > 0 {
            means.push(current.1 / f64::from(current.2));
        }
        Some(means)
    }
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Recording, String> {
        Recording::parse("f.csv", text).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_the_measurements() {
        let recording = parse("t_s,bandwidth_bps,rtt_ms\n0,8e6,\n1,,50\n2,4e6,60\n").unwrap();
        assert_eq!(
            recording.bandwidth_bps.as_deref(),
            Some(&[Some(8e6), None, Some(4e6)][..])
        );
        assert_eq!(
            recording.rtt_ms.as_deref(),
            Some(&[None, Some(50.0), Some(60.0)][..])
        );
        assert_eq!(recording.loss, None);
        assert_eq!(recording.step_s(), Some(1.0));
        assert_eq!(recording.bandwidths_bps(), [8e6, 4e6]);
    }

    #[test]
    fn no_answer_is_a_loss() {
        let recording = parse("t_s,rtt_ms\n0,40\n1,-1\n2,\n").unwrap();
        assert_eq!(recording.rtt_ms, Some(vec![Some(40.0), None, None]));
        assert_eq!(recording.loss, Some(vec![Some(0.0), Some(1.0), None]));
        let recorded = parse("t_s,rtt_ms,loss\n0,-1,0\n").unwrap();
        assert_eq!(recorded.loss, Some(vec![Some(0.0)]));
    }

    #[test]
    fn unknown_columns_are_ignored() {
        let recording = parse("t_s,gap,bandwidth_bps\n0,x,1\n1,y,2\n").unwrap();
        assert_eq!(recording.bandwidths_bps(), [1.0, 2.0]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let cases = [
            ("", "f.csv has no rows"),
            ("t_s,bandwidth_bps\n", "f.csv has no rows"),
            (
                "a,b\n1,2\n",
                "f.csv, line 1: the header 'a,b' does not name",
            ),
            (
                "t_s,loss,loss\n",
                "f.csv, line 1: the column loss stands twice",
            ),
            (
                "t_s,loss\n\n0\n",
                "f.csv, line 3: 1 cells, but the header has 2",
            ),
            (
                "t_s,loss\n0,x\n",
                "f.csv, line 2: loss: 'x' is not a number",
            ),
            (
                "t_s,loss\n0,1.5\n",
                "f.csv, line 2: loss: found 1.5, expected a loss",
            ),
            (
                "t_s,bandwidth_bps\n0,NaN\n",
                "f.csv, line 2: bandwidth_bps: found NaN, expected a finite",
            ),
            (
                "t_s,bandwidth_bps\n0,-1\n",
                "f.csv, line 2: bandwidth_bps: found -1, expected a bandwidth",
            ),
            ("t_s,rtt_ms\n0,-2\n", "f.csv, line 2: rtt_ms: found -2"),
            (
                "t_s,rtt_ms\n1,5\n0.5,6\n",
                "f.csv, line 3: t_s: 0.5 comes before 1",
            ),
            ("t_s,rtt_ms\n,5\n", "f.csv, line 2: t_s: empty cell"),
        ];
        for (text, words) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn windows_combine_rows() {
        let rows: String = (0..10)
            .map(|i| format!("{},{}\n", f64::from(i) * 0.1, i))
            .collect();
        let recording = parse(&format!("t_s,bandwidth_bps\n{rows}")).unwrap();
        assert_eq!(recording.bandwidths_over(0.1).unwrap().len(), 10);
        assert_eq!(recording.bandwidths_over(0.5).unwrap(), [2.0, 7.0]);
        assert_eq!(recording.bandwidths_over(1.0).unwrap(), [4.5]);
        assert_eq!(recording.bandwidths_over(0.05), None);
    }
}
