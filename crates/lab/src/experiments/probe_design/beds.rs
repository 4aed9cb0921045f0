//! Links to probe: as formulas, and in the link model.

use std::time::Duration;

use anabranch_base::{Random, Rate, Seed};
use anabranch_link::traffic::{ParetoOnOff, Sizes, Traffic};
use anabranch_route::design;
use anabranch_stats::regression::LineFit;

use crate::experiments::regression::links::{Case, PACKET_BYTES, Probed};

/// Approximate number of links that leave a node.
const LINKS: usize = 12;
/// Sizes of probes on each link.
const SIZES: usize = 5;
/// Delay of the largest probe.
const LONGEST: Duration = Duration::from_millis(250);
/// Mean pause between messages on a link.
const PAUSE: Duration = Duration::from_millis(100);
/// Messages of every size from which the true parameters of a link with other traffic are taken.
const TRUTH: usize = 400;

/// True parameters of a link.
#[derive(Debug, Clone)]
pub(super) struct Truth {
    pub(super) rate: Rate,
    pub(super) intercept_s: f64,
    pub(super) slope_s_per_byte: f64,
    /// Standard deviation of a delay around the line.
    pub(super) noise_s: f64,
    pub(super) sizes: Vec<u64>,
    /// Messages whose delays are to be predicted, and their mean delays.
    pub(super) messages: Vec<(u64, f64)>,
}

/// Sizes of the messages to predict where delays are lines.
const MESSAGES: [u64; 3] = [100_000, 1_000_000, 10_000_000];

/// Kinds of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Delays are lines with normal errors; rates of 1 to 100 Mbit/s, errors of 0.5 to 20 ms.
    Unequal,
    /// All of 10 Mbit/s, with errors of 3 ms: control.
    Equal,
    /// The link model, 1 to 100 Mbit/s with Pareto on–off traffic of up to 60 % of it.
    Busy,
}

pub(super) const KINDS: [(&str, Kind); 3] = [
    ("unequal", Kind::Unequal),
    ("equal", Kind::Equal),
    ("busy", Kind::Busy),
];

/// Links of one trial.
pub(super) struct Bed {
    pub(super) truth: Vec<Truth>,
    /// Cases of a busy link.
    cases: Vec<Case>,
}

/// Random value, log-uniform between two limits.
fn between(random: &mut Random, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.unit())
}

impl Bed {
    /// Draws links. The same seed gives the same ones.
    pub(super) fn draw(kind: Kind, seed: Seed) -> Self {
        let mut random = seed.stream("links");
        let mut bed = Self {
            truth: Vec::new(),
            cases: Vec::new(),
        };
        for number in 0..LINKS {
            let mbps = match kind {
                Kind::Equal => 10.0,
                Kind::Unequal | Kind::Busy => between(&mut random, 1.0, 100.0),
            };
            let noise_s = match kind {
                Kind::Equal => 3e-3,
                Kind::Unequal | Kind::Busy => between(&mut random, 5e-4, 2e-2),
            };
            let rate = Rate::from_kbps((mbps * 1e3) as u64);
            let delay = Duration::from_millis(random.between(5, 50));
            let load = random.uniform(0.0, 0.6);
            let packets = |bytes: u64| bytes.next_multiple_of(PACKET_BYTES);
            let sizes = design::sizes(SIZES, PACKET_BYTES, rate, LONGEST);
            let mut truth = Truth {
                rate,
                intercept_s: delay.as_secs_f64(),
                slope_s_per_byte: 1.0 / rate.as_bytes_per_s(),
                noise_s,
                sizes: sizes.into_iter().map(packets).collect(),
                messages: Vec::new(),
            };
            if kind == Kind::Busy {
                let mut case = Case::new("busy", rate, delay);
                case.cross = Some(Traffic::ParetoOnOff(ParetoOnOff {
                    sources: 8,
                    peak: rate * (load / 4.0),
                    on_mean: Duration::from_millis(200),
                    off_mean: Duration::from_millis(200),
                    shape: 1.5,
                    sizes: Sizes::Fixed(1_000),
                }));
                truth.learn(&case, seed.child(&format!("truth {number}")));
                bed.cases.push(case);
            } else {
                let line = MESSAGES.map(|bytes| (bytes, truth.delay_s(bytes)));
                truth.messages = line.into();
            }
            bed.truth.push(truth);
        }
        bed
    }

    /// Source of the measured delays of one run.
    pub(super) fn probes(&self, seed: Seed) -> Probes<'_> {
        let links = self.cases.iter().zip(0..).map(|(case, number)| {
            let seed = seed.child(&format!("link {number}"));
            Probed::new(case, seed).expect("what is drawn is in range")
        });
        Probes {
            bed: self,
            links: links.collect(),
            random: seed.stream("delays"),
        }
    }
}

impl Truth {
    /// Determines means and noise from very many messages: they need not lie on a line.
    fn learn(&mut self, case: &Case, seed: Seed) {
        let mut random = seed.stream("pauses");
        let mut link = Probed::new(case, seed).expect("what is drawn is in range");
        let mut fit = LineFit::new(f64::INFINITY).expect("a memory of any length");
        let mut sums = vec![0.0; self.sizes.len()];
        for _ in 0..TRUTH {
            for (&bytes, sum) in self.sizes.iter().zip(&mut sums) {
                link.now += PAUSE.mul_f64(random.exponential(1.0));
                let delay_s = link.message(bytes).as_secs_f64();
                *sum += delay_s / TRUTH as f64;
                fit.observe(bytes as f64, delay_s)
                    .expect("delays are finite");
            }
        }
        self.noise_s = fit.scatter().expect("many").deviation;
        self.messages = self.sizes.iter().copied().zip(sums).collect();
    }

    /// Mean delay of a message by the line.
    fn delay_s(&self, bytes: u64) -> f64 {
        self.intercept_s + self.slope_s_per_byte * bytes as f64
    }
}

/// Delays of one run.
pub(super) struct Probes<'a> {
    bed: &'a Bed,
    links: Vec<Probed>,
    random: Random,
}

impl Probes<'_> {
    /// Sends a message; returns its delay in seconds.
    pub(super) fn message(&mut self, link: usize, bytes: u64) -> f64 {
        if let Some(probed) = self.links.get_mut(link) {
            probed.now += PAUSE.mul_f64(self.random.exponential(1.0));
            return probed.message(bytes).as_secs_f64();
        }
        let truth = &self.bed.truth[link];
        truth.delay_s(bytes) + self.random.normal(0.0, truth.noise_s)
    }
}
