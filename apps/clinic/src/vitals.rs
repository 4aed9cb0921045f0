//! Heart rate from an ECG lead: slopes, squared and averaged, against a threshold that follows them, after Pan and Tompkins (IEEE Trans.
//! Biomed. Eng. 32, 1985), without their filters and their search for missed beats.
//!
//! It is a number to see that the chain works, and no monitor: it was compared with one record, and no figure of its errors is known.

use std::collections::VecDeque;

use crate::wfdb::INVALID;

/// Time over which a slope is measured, in seconds.
const SLOPE: f64 = 0.012;
/// Time over which squared slopes are averaged, in seconds.
const AVERAGED: f64 = 0.12;
/// Time after a beat in which no other can begin, in seconds.
const REFRACTORY: f64 = 0.25;
/// Part of the last peaks that begins a beat.
const THRESHOLD: f64 = 0.35;
/// Time in which the memory of peaks falls to half, in seconds.
const HALF_LIFE: f64 = 2.0;
/// Intervals whose mean is the rate.
const INTERVALS: usize = 8;
/// Intervals from which on there is a rate.
const INTERVALS_MIN: usize = 3;
/// Longest interval between beats, and longest time without one until the rate is unknown, in seconds.
const INTERVAL_MAX: f64 = 3.0;

/// Counter of beats in one lead.
#[derive(Clone, Debug)]
pub struct HeartRate {
    frequency: f64,
    /// Samples of the time of a slope, the newest last.
    recent: VecDeque<f64>,
    /// Squared slopes of the averaging time, and their sum.
    squares: VecDeque<f64>,
    sum: f64,
    peak: f64,
    decay: f64,
    is_above: bool,
    at: u64,
    beat: Option<u64>,
    intervals: VecDeque<f64>,
}

impl HeartRate {
    /// A counter for samples at this frequency, in Hz.
    pub fn new(frequency: f64) -> Self {
        Self {
            frequency,
            recent: VecDeque::new(),
            squares: VecDeque::new(),
            sum: 0.0,
            peak: 0.0,
            decay: 0.5_f64.powf(1.0 / (HALF_LIFE * frequency)),
            is_above: false,
            at: 0,
            beat: None,
            intervals: VecDeque::new(),
        }
    }

    /// Takes a sample. An invalid one counts as the one before it.
    pub fn push(&mut self, sample: i16) {
        let value = match (sample, self.recent.back()) {
            (INVALID, last) => last.copied().unwrap_or_default(),
            (sample, _) => f64::from(sample),
        };
        let length = |seconds: f64| ((seconds * self.frequency).round() as usize).max(1);
        let (of_slope, of_average) = (length(SLOPE), length(AVERAGED));
        self.recent.push_back(value);
        if self.recent.len() <= of_slope {
            self.at += 1;
            return;
        }
        let before = self.recent.pop_front().unwrap_or(value);
        let square = (value - before).powi(2);
        self.squares.push_back(square);
        self.sum += square;
        if self.squares.len() > of_average {
            // Squares of integers are exact, and so is their sum.
            self.sum -= self.squares.pop_front().unwrap_or_default();
        }
        self.peak = self.sum.max(self.peak * self.decay);
        let is_above = self.sum > THRESHOLD * self.peak && self.peak > 0.0;
        let since = self
            .beat
            .map(|beat| (self.at - beat) as f64 / self.frequency);
        if is_above && !self.is_above && since.is_none_or(|since| since >= REFRACTORY) {
            self.beat = Some(self.at);
            match since {
                Some(since) if since <= INTERVAL_MAX => self.intervals.push_back(since),
                _ => self.intervals.clear(),
            }
            if self.intervals.len() > INTERVALS {
                self.intervals.pop_front();
            }
        }
        self.is_above = is_above;
        self.at += 1;
    }

    /// Beats per minute, the mean of up to eight intervals; `None` before the third, and after 3 s without a beat.
    pub fn per_minute(&self) -> Option<f64> {
        let since = (self.at - self.beat?) as f64 / self.frequency;
        if self.intervals.len() < INTERVALS_MIN || since > INTERVAL_MAX {
            return None;
        }
        let sum: f64 = self.intervals.iter().sum();
        Some(60.0 * self.intervals.len() as f64 / sum)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::wfdb::files::Reader;

    /// A lead with a QRS complex and a T wave for each beat, on a wandering baseline.
    fn lead(frequency: f64, per_minute: f64, seconds: f64) -> Vec<i16> {
        let bump = |at: f64, width: f64| (-(at / width).powi(2)).exp();
        let sample = |number: usize| {
            let time = number as f64 / frequency;
            let phase = time % (60.0 / per_minute);
            let noise = f64::from((number as u32).wrapping_mul(2_654_435_761) >> 28);
            (1_200.0 * bump(phase - 0.2, 0.015) - 300.0 * bump(phase - 0.24, 0.015)
                + 350.0 * bump(phase - 0.45, 0.06)
                + 200.0 * (time * 1.3).sin()
                + noise) as i16
        };
        (0..(seconds * frequency) as usize).map(sample).collect()
    }

    #[test]
    fn the_rate_of_made_leads_is_found_within_a_hundredth() {
        for frequency in [125.0, 360.0, 1_000.0] {
            for per_minute in [40.0, 75.0, 140.0] {
                let mut rate = HeartRate::new(frequency);
                for sample in lead(frequency, per_minute, 20.0) {
                    rate.push(sample);
                }
                let found = rate.per_minute().unwrap();
                assert!(
                    (found / per_minute - 1.0).abs() < 0.01,
                    "{frequency} {per_minute} {found}"
                );
            }
        }
    }

    #[test]
    fn silence_and_invalid_samples_have_no_rate() {
        let mut rate = HeartRate::new(250.0);
        assert_eq!(rate.per_minute(), None);
        for sample in lead(250.0, 60.0, 2.5) {
            rate.push(sample);
        }
        assert_eq!(rate.per_minute(), None, "two intervals");
        for sample in lead(250.0, 60.0, 10.0) {
            rate.push(sample);
        }
        assert!(rate.per_minute().is_some());
        for _ in 0..1_000 {
            rate.push(INVALID);
        }
        assert_eq!(rate.per_minute(), None);
    }

    #[test]
    fn the_rate_of_a_recorded_lead_is_plausible() {
        let data = std::env::var_os("ANABRANCH_DATA").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
            Into::into,
        );
        let path = data.join("media/s0010_re.hea");
        if !path.is_file() {
            return;
        }
        let mut reader = Reader::open(&path).unwrap();
        let leads = reader.header().leads.len();
        let mut rate = HeartRate::new(reader.header().frequency);
        let mut found = Vec::new();
        for _ in 0..38 {
            for frame in reader.read(1_000).unwrap().chunks(leads) {
                rate.push(frame[1]);
            }
            found.extend(rate.per_minute());
        }
        assert!(found.len() > 30, "{found:?}");
        // By autocorrelation of the slopes of lead ii, beats are 730 ms apart: 82.2 per minute.
        assert!(
            found.iter().all(|rate| (76.0..88.0).contains(rate)),
            "{found:?}"
        );
    }
}
