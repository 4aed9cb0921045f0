//! Period of some seconds with which a channel changes: the handovers of satellites.

use std::{f64::consts::TAU, time::Duration};

use anabranch_base::Instant;

/// Time is cut into slices of this length.
const SLICE_S: f64 = 0.25;
const SLICE_NS: u64 = 250_000_000;
/// Periods that are known of constellations: all links of Starlink are assigned anew every 15 s.
const KNOWN_S: [f64; 1] = [15.0];
/// Others are looked for in this range, in steps of this frequency: a turn in 4800 s, an eighth of a turn over the
/// memory.
const PERIOD_MIN_S: f64 = 8.0;
const PERIOD_MAX_S: f64 = 60.0;
const STEP_HZ: f64 = 1.0 / 4800.0;
/// Angles that are computed one from the other, before one is computed anew: so that errors of rounding do not add up.
const TURNS: usize = 32;
/// Seconds after which the weight of a slice has fallen to 1/e.
const MEMORY_S: f64 = 600.0;
/// A period is a sum of so many harmonics: what happens twice in a period has little at its fundamental.
const HARMONICS: usize = 3;
/// Changes are cut at so many times their mean, so that an outage is not taken for a period.
const CUT: f64 = 6.0;
/// That mean's memory in slices, half a minute: changes count by it, so that a restless minute weighs no more than a calm
/// one.
const LOCAL: f64 = 120.0;
/// Tones on either side with which a tone is compared: noise is not as loud at all periods.
const BESIDE: usize = 48;
/// Power over the median beside it at which a known period is found, and any other one. Power of noise is a
/// sum of three exponentials: these are exceeded once in 25,000 looks at one, once in 26,000 at all 520.
const POWER_KNOWN: f64 = 15.0;
const POWER_OTHER: f64 = 22.0;
/// A period is kept down to this share of that.
const HOLD: f64 = 0.5;
/// The median of that sum.
const POWER_MEDIAN: f64 = 2.674;
/// Slices between looks, and slices (by their faded weight) that a look needs: two minutes.
const EVERY: u64 = 64;
const WEIGHT_MIN: f64 = 480.0;
/// Parts of a period, each with its own statistics.
const PARTS: usize = 30;
/// A part changes when its mean change, or its loss, is so many times that of all.
const NEAR: f64 = 2.0;

#[derive(Clone, Copy, Debug, Default)]
struct Tone {
    hz: f64,
    /// Sums of change times e^(iωt), by harmonic.
    sums: [(f64, f64); HARMONICS],
}

impl Tone {
    fn power(&self) -> f64 {
        self.sums.iter().map(|(re, im)| re * re + im * im).sum()
    }
}

/// State of one part of the period; faded.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    slices: f64,
    change: f64,
    packets: f64,
    lost: f64,
}

/// The slice that is going on.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    log_sum: f64,
    answered: u32,
    lost: u32,
}

/// Finds the period in which round trips jump and packets are lost, and which parts of it are affected.
///
/// The change from one slice of a quarter of a second to the next is correlated with a bank of periods (520, about
/// 40 µs for each slice on a busy machine, looks included); a period is one when its power stands out from that of those beside it. `observe` is O(1)
/// but for the first packet of a slice; no allocation.
#[derive(Clone, Debug)]
pub(super) struct Periodicity {
    tones: Box<[Tone]>,
    powers: Box<[f64]>,
    slice: Slice,
    /// Mean logarithm of the last slice with answers, and its number.
    last: Option<(u64, f64)>,
    /// Mean change of late.
    mean: f64,
    /// Faded: slices, and squares of changes.
    weight: f64,
    energy: f64,
    closed: u64,
    found: Option<usize>,
    parts: [Part; PARTS],
    all: Part,
}

impl Periodicity {
    pub(super) fn new() -> Self {
        let known = KNOWN_S.iter().map(|period| 1.0 / period);
        let (low, high) = (1.0 / PERIOD_MAX_S, 1.0 / PERIOD_MIN_S);
        let count = ((high - low) / STEP_HZ) as usize;
        let others = (0..=count).map(|n| low + n as f64 * STEP_HZ);
        let tones: Box<[Tone]> = known
            .chain(others)
            .map(|hz| Tone {
                hz,
                ..Tone::default()
            })
            .collect();
        Self {
            powers: vec![0.0; tones.len()].into(),
            tones,
            slice: Slice::default(),
            last: None,
            mean: 0.0,
            weight: 0.0,
            energy: 0.0,
            closed: 0,
            found: None,
            parts: [Part::default(); PARTS],
            all: Part::default(),
        }
    }

    /// A packet sent at `at` (never before the previous one) took so long, or was lost (`None`).
    pub(super) fn observe(&mut self, at: Instant, rtt_ms: Option<f64>) {
        let number = at.as_nanos() / SLICE_NS;
        if number > self.slice.number {
            self.close();
            self.slice = Slice {
                number,
                ..Slice::default()
            };
        }
        match rtt_ms {
            Some(ms) if ms > 0.0 => {
                self.slice.log_sum += ms.ln();
                self.slice.answered += 1;
            }
            Some(_) => {}
            None => self.slice.lost += 1,
        }
    }

    /// The period, if there is one.
    pub(super) fn period(&self) -> Option<Duration> {
        let tone = self.tones[self.found?];
        Some(Duration::from_secs_f64(1.0 / tone.hz))
    }

    /// True if a packet sent then falls into a part of the period in which the channel changes.
    pub(super) fn is_near(&self, at: Instant) -> bool {
        self.part(at).is_some_and(|part| self.is_affected(part))
    }

    /// The fraction lost in the part of the period that `at` falls into; `None` without a period, or when that part has
    /// seen too few packets.
    pub(super) fn loss(&self, at: Instant) -> Option<f64> {
        let part = self.part(at)?;
        (part.packets >= 30.0).then(|| (part.lost / part.packets).clamp(0.0, 1.0))
    }

    fn part(&self, at: Instant) -> Option<&Part> {
        self.found
            .map(|found| &self.parts[self.place(found, at.as_secs_f64())])
    }

    fn place(&self, tone: usize, at_s: f64) -> usize {
        let turn = (at_s * self.tones[tone].hz).rem_euclid(1.0);
        ((turn * PARTS as f64) as usize).min(PARTS - 1)
    }

    fn is_affected(&self, part: &Part) -> bool {
        let (here, all) = (part.change / part.slices, self.all.change / self.all.slices);
        let (lost, lost_all) = (part.lost / part.packets, self.all.lost / self.all.packets);
        // Comparisons with NaN fail: a part nobody saw is not affected.
        here > NEAR * all || (part.lost > 5.0 && lost > NEAR * lost_all)
    }

    fn close(&mut self) {
        let slice = self.slice;
        if slice.answered + slice.lost == 0 {
            return;
        }
        let lost_share = f64::from(slice.lost) / f64::from(slice.answered + slice.lost);
        let level = slice.log_sum / f64::from(slice.answered.max(1));
        let has_level = slice.answered > 0;
        let before = self.last.filter(|(number, _)| {
            // A second at most: what changed over a longer gap has no time.
            has_level && slice.number - number <= 4
        });
        if has_level {
            self.last = Some((slice.number, level));
        }
        let cut = CUT * self.mean;
        let change = match before {
            None if slice.lost == 0 => return,
            None => cut * lost_share,
            Some((_, before)) => {
                let change = (level - before).abs();
                let is_begun = self.closed > 20;
                let change = if is_begun { change.min(cut) } else { change };
                change.max(cut * lost_share)
            }
        };
        self.closed += 1;
        let weight = (1.0 / self.closed as f64).max(1.0 / LOCAL);
        // A mean of 0 would cut everything for ever.
        self.mean += weight * (change.max(1e-6) - self.mean);
        let relative = change / self.mean;
        self.correlate(slice.number, relative - 1.0);
        self.profile(&slice, relative);
        if self.closed.is_multiple_of(EVERY) {
            self.look();
        }
    }

    fn correlate(&mut self, number: u64, change: f64) {
        let keep = 1.0 - SLICE_S / MEMORY_S;
        self.weight = self.weight * keep + 1.0;
        self.energy = self.energy * keep * keep + change * change;
        let at_s = number as f64 * SLICE_S;
        // From one tone to the next, the angle grows by the same amount.
        let (step_sin, step_cos) = (TAU * (at_s * STEP_HZ).fract()).sin_cos();
        let (mut sin, mut cos) = (0.0, 1.0);
        for (number, tone) in self.tones.iter_mut().enumerate() {
            (sin, cos) = match number.checked_sub(KNOWN_S.len()) {
                Some(other) if !other.is_multiple_of(TURNS) => (
                    sin * step_cos + cos * step_sin,
                    cos * step_cos - sin * step_sin,
                ),
                _ => (TAU * (at_s * tone.hz).fract()).sin_cos(),
            };
            let (mut re, mut im) = (cos, sin);
            for sum in &mut tone.sums {
                sum.0 = sum.0 * keep + change * re;
                sum.1 = sum.1 * keep + change * im;
                (re, im) = (re * cos - im * sin, re * sin + im * cos);
            }
        }
    }

    fn profile(&mut self, slice: &Slice, change: f64) {
        let Some(found) = self.found else { return };
        let place = self.place(found, (slice.number as f64 + 0.5) * SLICE_S);
        // A part is seen once in a period; its memory is as many slices as fall into it.
        let keep = 1.0 - SLICE_S / (MEMORY_S / PARTS as f64);
        let keep_all = 1.0 - SLICE_S / MEMORY_S;
        for (part, keep) in [(&mut self.parts[place], keep), (&mut self.all, keep_all)] {
            part.slices = part.slices * keep + 1.0;
            part.change = part.change * keep + change;
            part.packets = part.packets * keep + f64::from(slice.answered + slice.lost);
            part.lost = part.lost * keep + f64::from(slice.lost);
        }
    }

    /// Factor by which, compared with white noise, the tones beside one are: by their median, at least 1.
    fn noise(&self, at: usize) -> f64 {
        let low = at.saturating_sub(BESIDE).max(KNOWN_S.len());
        let high = (at + BESIDE).min(self.powers.len() - 1);
        let mut beside = [0.0; 2 * BESIDE + 1];
        let count = high - low + 1;
        beside[..count].copy_from_slice(&self.powers[low..=high]);
        let (_, median, _) = beside[..count].select_nth_unstable_by(count / 2, f64::total_cmp);
        (*median / POWER_MEDIAN).max(1.0)
    }

    /// True if a period stands out from those beside it.
    fn look(&mut self) {
        if self.weight < WEIGHT_MIN || self.energy <= 0.0 {
            return;
        }
        for (power, tone) in self.powers.iter_mut().zip(&self.tones) {
            *power = tone.power() / self.energy;
        }
        let others = KNOWN_S.len()..self.tones.len();
        let known_hz = self.tones[0].hz;
        let like_known =
            others.start + ((known_hz - 1.0 / PERIOD_MAX_S) / STEP_HZ).round() as usize;
        let known = self.powers[0] / self.noise(like_known);
        let mut best = (None, 0.0);
        for at in others {
            // Noise is 1 at least, so most need no look at their neighbours.
            if self.powers[at] > POWER_OTHER.max(best.1) {
                let power = self.powers[at] / self.noise(at);
                if power > best.1 {
                    best = (Some(at), power);
                }
            }
        }
        let held = self.found.map_or(0.0, |at| {
            let beside = if at == 0 { like_known } else { at };
            self.powers[at] / self.noise(beside)
        });
        let found = if known > POWER_KNOWN {
            Some(0)
        } else if best.1 > POWER_OTHER {
            best.0
        } else {
            let needed = if self.found == Some(0) {
                POWER_KNOWN
            } else {
                POWER_OTHER
            };
            self.found.filter(|_| held > HOLD * needed)
        };
        let is_moved = match (self.found, found) {
            // A neighbour in the bank is the same period, better known.
            (Some(old), Some(new)) => old.abs_diff(new) > 2 || (old == 0) != (new == 0),
            _ => true,
        };
        if self.found != found && is_moved {
            self.parts = [Part::default(); PARTS];
            self.all = Part::default();
            self.found = found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Seed;

    /// Levels that are drawn anew every `period_s`, noise around them, five probes a second.
    fn probe(periodicity: &mut Periodicity, period_s: f64, seconds: u64, seed: u64) {
        let mut random = Seed(seed).stream("handover");
        let (mut current, mut level) = (0, 60.0);
        for n in 0..seconds * 5 {
            let at_s = n as f64 * 0.2;
            let turn = (at_s / period_s) as u64;
            if turn != current {
                (current, level) = (turn, random.uniform(40.0, 90.0));
            }
            let ms = level * random.normal(1.0, 0.05);
            periodicity.observe(Instant::from_millis(n * 200), Some(ms));
        }
    }

    #[test]
    fn handovers_are_found_known_or_not() {
        for period_s in [15.0, 12.0, 23.0] {
            let mut periodicity = Periodicity::new();
            probe(&mut periodicity, period_s, 2000, 7);
            let found = periodicity.period().expect("it changes every so often");
            assert!(
                (found.as_secs_f64() / period_s - 1.0).abs() < 0.01,
                "{period_s}: {found:?}"
            );
            let near = |s: f64| periodicity.is_near(Instant::EPOCH + Duration::from_secs_f64(s));
            let begin = 2000.0 - 2000.0 % period_s;
            assert!(!near(begin + 0.5 * period_s));
            if period_s == 15.0 {
                assert!((0..3).any(|n| near(begin + 0.25 * f64::from(n))));
            }
        }
    }

    #[test]
    fn noise_has_no_period() {
        let mut found = 0;
        for seed in 0..20 {
            let mut random = Seed(seed).stream("noise");
            let mut periodicity = Periodicity::new();
            let mut level = 0.0;
            for n in 0..5 * 600 {
                level = 0.9 * level + random.normal(0.0, 0.1);
                let lost = random.chance(0.01);
                let ms = 60.0 * f64::exp(level);
                periodicity.observe(Instant::from_millis(n * 200), (!lost).then_some(ms));
            }
            found += usize::from(periodicity.period().is_some());
        }
        assert_eq!(found, 0);
    }

    #[test]
    fn losses_at_handovers_are_known_by_their_part() {
        let mut random = Seed(9).stream("lossy");
        let mut periodicity = Periodicity::new();
        for n in 0..5 * 1800_u64 {
            let phase = n % 75;
            let lost = random.chance(if phase < 3 { 0.5 } else { 0.002 });
            let ms = random.normal(50.0, 3.0);
            periodicity.observe(Instant::from_millis(n * 200), (!lost).then_some(ms));
        }
        assert!(periodicity.period().is_some());
        let begin = Instant::from_secs(1800);
        let loss = |ms| periodicity.loss(begin + Duration::from_millis(ms)).unwrap();
        assert!(
            loss(250) > 0.3 && loss(7_000) < 0.05,
            "{} {}",
            loss(250),
            loss(7_000)
        );
    }
}
