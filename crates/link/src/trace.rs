//! Recorded rates: the capacity of a real path over time.

mod csv;
mod mahimahi;

use std::{fmt, time::Duration};

use anabranch_base::Rate;

/// The bytes that one delivery opportunity carries: a full Ethernet packet, by mahimahi's definition.
pub const OPPORTUNITY_BYTES: u64 = 1500;
/// The longest recording accepted, 1,000 hours.
pub const DURATION_MAX: Duration = Duration::from_secs(3_600_000);
/// The highest rate accepted, 1,000 Tbit/s; anything above is a wrong unit.
pub const RATE_MAX: Rate = Rate::from_mbps(1_000_000_000);

/// The maximum number of rows of a trace; at most 56 bytes of memory each.
pub const ROWS_MAX: usize = 10_000_000;

/// A recording of a path's rate. It begins at time zero and repeats from its beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    name: String,
    shape: Shape,
    duration: Duration,
    rate_mean: Rate,
    rate_min: Rate,
    rate_max: Rate,
}

/// The two kinds of recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A rate that holds until the next step (bandwidth CSV). The first step is at zero; times strictly
    /// increase.
    Steps(Vec<Step>),
    /// Times at which [`OPPORTUNITY_BYTES`] may leave (mahimahi's packet-delivery files). Times never decrease. An
    /// opportunity at which nothing waits is lost.
    Opportunities(Vec<Duration>),
}

/// One row of a bandwidth CSV.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Time at which it begins, from the trace's beginning.
    pub at: Duration,
    /// The rate until the next step.
    pub rate: Rate,
    /// The round-trip time measured last, `None` before the first measurement. Links do not use it.
    pub rtt: Option<Duration>,
    /// The loss measured last, a fraction; `None` before the first measurement. Links do not use it.
    pub loss: Option<f64>,
}

/// Error in the text of a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTraceError {
    /// A cell or line with unexpected contents.
    #[error("line {line}, column {column}: found '{found}', expected {expected}")]
    Cell {
        /// The line, from 1.
        line: usize,
        /// The comma-separated column, from 1.
        column: usize,
        /// Contents, at most [`FOUND_MAX_CHARS`] characters of them.
        found: String,
        /// Expected contents.
        expected: &'static str,
    },
    /// Nothing usable at all.
    #[error("the trace has no {missing}; expected lines of {expected}")]
    Empty {
        /// Missing element.
        missing: &'static str,
        /// The form of a line.
        expected: &'static str,
    },
    /// More lines than the memory limit allows.
    #[error("line {line}: more than {most} rows; split the file into shorter ones")]
    TooMany {
        /// The first line beyond the limit, from 1.
        line: usize,
        /// Number of rows that are accepted.
        most: usize,
    },
    /// The bytes are not text.
    #[error("line {line}: not UTF-8 text; unpack .gz files first")]
    NotText {
        /// The line, from 1.
        line: usize,
    },
}

/// Length of the part of a wrong cell that an error quotes, in characters.
pub const FOUND_MAX_CHARS: usize = 40;

impl ParseTraceError {
    pub(crate) fn cell(line: usize, column: usize, found: &str, expected: &'static str) -> Self {
        Self::Cell {
            line,
            column,
            found: found.chars().take(FOUND_MAX_CHARS).collect(),
            expected,
        }
    }
}

impl Trace {
    /// Parses either form: a bandwidth CSV if the first line that is neither blank nor a comment names a column, a
    /// mahimahi file otherwise. `name` is for messages and descriptions, usually a file name.
    ///
    /// # Errors
    /// The first line and column that is invalid.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, ParseTraceError> {
        let text = text_of(bytes)?;
        let is_csv = lines(text)
            .next()
            .is_some_and(|(_, line)| line.contains(|c: char| c.is_alphabetic() || c == ','));
        if is_csv {
            Self::from_csv(name, text)
        } else {
            Self::from_mahimahi(name, text)
        }
    }

    /// Parses a bandwidth CSV: a header naming `t_s`, `bandwidth_bps` and optionally `rtt_ms` and `loss`, then one row
    /// per measurement, in order of time.
    ///
    /// An empty cell repeats the value above it; empty bandwidth cells before the first measurement take
    /// its value. The last row holds as long as the one before it (a single row: 1 s). Time is counted
    /// from the first row. Blank lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The first line and column that is invalid.
    pub fn from_csv(name: &str, text: &str) -> Result<Self, ParseTraceError> {
        let (steps, duration) = csv::parse(text)?;
        Ok(Self::of_steps(name, steps, duration))
    }

    /// Parses a mahimahi packet-delivery file: one whole number of milliseconds per line, in order, each an opportunity
    /// for [`OPPORTUNITY_BYTES`]. The trace lasts until its last line.
    ///
    /// # Errors
    /// The first line that is invalid.
    pub fn from_mahimahi(name: &str, text: &str) -> Result<Self, ParseTraceError> {
        let times = mahimahi::parse(text)?;
        Ok(Self::of_opportunities(name, times))
    }

    /// A trace of equal steps of `every`, for tests and generated series.
    ///
    /// # Panics
    /// When `rates` is empty or `every` is zero.
    pub fn from_rates(name: &str, every: Duration, rates: &[Rate]) -> Self {
        assert!(!rates.is_empty() && !every.is_zero(), "an empty trace");
        let steps = rates.iter().zip(0u32..).map(|(&rate, index)| Step {
            at: every * index,
            rate,
            rtt: None,
            loss: None,
        });
        let steps: Vec<_> = steps.collect();
        let duration = every * u32::try_from(rates.len()).unwrap_or(u32::MAX);
        Self::of_steps(name, steps, duration)
    }

    fn of_steps(name: &str, steps: Vec<Step>, duration: Duration) -> Self {
        let rates = || steps.iter().map(|step| step.rate);
        let mut trace = Self {
            name: clean(name),
            rate_mean: Rate::ZERO,
            rate_min: rates().min().unwrap_or_default(),
            rate_max: rates().max().unwrap_or_default(),
            shape: Shape::Steps(steps),
            duration,
        };
        trace.rate_mean = Rate::from_bps((trace.bits(duration) / duration.as_secs_f64()) as u64);
        trace
    }

    fn of_opportunities(name: &str, times: Vec<Duration>) -> Self {
        let duration = times.last().copied().unwrap_or_default();
        let mut trace = Self {
            name: clean(name),
            rate_mean: Rate::ZERO,
            rate_min: Rate::ZERO,
            rate_max: Rate::ZERO,
            shape: Shape::Opportunities(times),
            duration,
        };
        trace.rate_mean = Rate::from_bps((trace.bits(duration) / duration.as_secs_f64()) as u64);
        if let Some((least, most)) = trace.opportunities_a_second() {
            let rate = |count| Rate::from_bps(count * OPPORTUNITY_BYTES * 8);
            (trace.rate_min, trace.rate_max) = (rate(least), rate(most));
        } else {
            (trace.rate_min, trace.rate_max) = (trace.rate_mean, trace.rate_mean);
        }
        trace
    }

    /// The fewest and the most opportunities in a whole second; `None` if there is no whole second, and for steps.
    /// Linear in the number of opportunities, however long the trace lasts.
    fn opportunities_a_second(&self) -> Option<(u64, u64)> {
        let Shape::Opportunities(times) = &self.shape else {
            return None;
        };
        let seconds = self.duration.as_secs();
        // An opportunity at the end of a second belongs to it.
        let second = |time: &Duration| time.saturating_sub(Duration::from_nanos(1)).as_secs();
        let (mut busy, mut least, mut most) = (0, u64::MAX, 0);
        for times in times.chunk_by(|a, b| second(a) == second(b)) {
            if second(&times[0]) < seconds {
                let count = times.len() as u64;
                (busy, least, most) = (busy + 1, least.min(count), most.max(count));
            }
        }
        let least = if busy < seconds { 0 } else { least };
        (seconds > 0).then_some((least, most))
    }

    /// Name of the trace; never contains a quotation mark or a line break.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The recording itself.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Duration before it repeats; above zero.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Total bits over total time, rounded down.
    pub fn rate_mean(&self) -> Rate {
        self.rate_mean
    }

    /// The lowest rate of a step; for delivery opportunities, of a whole second.
    pub fn rate_min(&self) -> Rate {
        self.rate_min
    }

    /// The highest rate of a step; for delivery opportunities, of a whole second.
    pub fn rate_max(&self) -> Rate {
        self.rate_max
    }

    /// The rate at a position, modulo the duration; for delivery opportunities, that of the whole second around it.
    pub fn rate_at(&self, position: Duration) -> Rate {
        let position = modulo(position, self.duration);
        match &self.shape {
            Shape::Steps(steps) => {
                let index = steps.partition_point(|step| step.at <= position);
                steps[index.saturating_sub(1)].rate
            }
            Shape::Opportunities(_) => {
                let from = Duration::from_secs(position.as_secs());
                let to = self.duration.min(from + Duration::from_secs(1));
                let bits = self.bits(to) - self.bits(from);
                Rate::from_bps((bits / (to - from).as_secs_f64()) as u64)
            }
        }
    }

    /// The row that applies at a position, modulo the duration; `None` for delivery opportunities.
    pub fn step_at(&self, position: Duration) -> Option<&Step> {
        let Shape::Steps(steps) = &self.shape else {
            return None;
        };
        let position = modulo(position, self.duration);
        let index = steps.partition_point(|step| step.at <= position);
        steps.get(index.saturating_sub(1))
    }

    /// The bits the path could carry from the trace's beginning up to and including `position`, which
    /// may lie in a later lap. Linear in the number of steps.
    pub fn bits(&self, position: Duration) -> f64 {
        let laps = position.as_nanos() / self.duration.as_nanos();
        let within = modulo(position, self.duration);
        let lap_bits = if laps == 0 {
            0.0
        } else {
            laps as f64 * self.bits_in_lap(self.duration)
        };
        lap_bits + self.bits_in_lap(within)
    }

    /// As [`Self::bits`], for a position within the first lap. An opportunity at zero counts to the lap before.
    fn bits_in_lap(&self, position: Duration) -> f64 {
        match &self.shape {
            Shape::Steps(steps) => {
                let ends = steps.iter().skip(1).map(|step| step.at);
                steps
                    .iter()
                    .zip(ends.chain([self.duration]))
                    .map(|(step, end)| {
                        let time = end.min(position).saturating_sub(step.at);
                        step.rate.as_bps() as f64 * time.as_secs_f64()
                    })
                    .sum()
            }
            Shape::Opportunities(_) if position.is_zero() => 0.0,
            Shape::Opportunities(times) => {
                let count = times.partition_point(|&time| time <= position);
                count as f64 * OPPORTUNITY_BYTES as f64 * 8.0
            }
        }
    }
}

impl fmt::Display for Trace {
    /// One line for display: name, duration, mean, extremes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            rate_mean,
            rate_min,
            rate_max,
            ..
        } = self;
        let seconds = self.duration.as_secs_f64();
        write!(
            f,
            "{name}: {seconds:.1} s, mean {rate_mean}, {rate_min} to {rate_max}"
        )
    }
}

/// Decodes the bytes as UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, ParseTraceError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        ParseTraceError::NotText {
            line: 1 + before.iter().filter(|&&b| b == b'\n').count(),
        }
    })
}

/// The lines that are neither blank nor comments, with their numbers from 1, trimmed.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .zip(1..)
        .map(|(line, number)| (number, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn modulo(position: Duration, period: Duration) -> Duration {
    Duration::from_nanos((position.as_nanos() % period.as_nanos()) as u64)
}

/// The name, made fit for quotation marks on one line.
fn clean(name: &str) -> String {
    let harmless = |c: char| if c == '"' || c.is_control() { '_' } else { c };
    name.chars().map(harmless).collect()
}
