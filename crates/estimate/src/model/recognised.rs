//! Technology of a channel, recognised by its behaviour.

use anabranch_base::Instant;

use super::{
    Cellular, ChannelModel, Expectation, Generic, Packet, Satellite, Technology,
    periodicity::Periodicity,
};
use crate::order::{Outcome, in_ms};

/// Packets between verdicts.
const EVERY: u64 = 256;
/// Round trips by their logarithm, from 0.1 ms in steps of a tenth.
const BINS: usize = 160;
const RTT_LOW_MS: f64 = 0.1;
const STEP: f64 = 0.1;
/// Round trips after which the weight of one has fallen to 1/e.
const MEMORY: f64 = 4000.0;
/// Weight of round trips that a verdict needs.
const WEIGHT_MIN: f64 = 400.0;
/// A cellular channel's 90th percentile is so many times its 10th, and that is at least so long.
const SPREAD_MIN: f64 = 1.25;
const FLOOR_MIN_MS: f64 = 15.0;
/// Packets that a new model must know before it answers.
const LEARN: u64 = 256;

/// A rule: a channel that changes with the period of handovers is a satellite's; one whose round trips begin at 15 ms
/// or more, and vary by a quarter or more, is cellular; any other one is generic.
#[derive(Clone, Debug)]
pub struct Recogniser {
    periodicity: Periodicity,
    weights: Box<[f64]>,
    gain: f64,
    total: f64,
}

impl Recogniser {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self {
            periodicity: Periodicity::new(),
            weights: vec![0.0; BINS].into(),
            gain: 1.0,
            total: 0.0,
        }
    }

    /// See [`ChannelModel::observe`].
    pub fn observe(&mut self, outcome: &Outcome<'_>) {
        if let Some(rtt) = outcome.rtt {
            self.gain *= 1.0 + 1.0 / MEMORY;
            if self.gain > 1e12 {
                self.weights
                    .iter_mut()
                    .for_each(|weight| *weight /= self.gain);
                self.total /= self.gain;
                self.gain = 1.0;
            }
            let bin = ((in_ms(rtt) / RTT_LOW_MS).ln() / STEP).max(0.0) as usize;
            self.weights[bin.min(BINS - 1)] += self.gain;
            self.total += self.gain;
        }
        for settled in outcome.settled {
            self.periodicity.observe(settled.at, settled.rtt_ms());
        }
    }

    /// The technology that the channel is recognised as; `None` while too little is known. O(160).
    pub fn verdict(&self) -> Option<Technology> {
        if self.periodicity.period().is_some() {
            return Some(Technology::Satellite);
        }
        if self.total / self.gain < WEIGHT_MIN {
            return None;
        }
        let (low, high) = (self.quantile_ms(0.1), self.quantile_ms(0.9));
        let is_cellular = low >= FLOOR_MIN_MS && high >= SPREAD_MIN * low;
        Some(if is_cellular {
            Technology::Cellular
        } else {
            Technology::Generic
        })
    }

    fn quantile_ms(&self, p: f64) -> f64 {
        let target = p * self.total;
        let (mut bin, mut below) = (0, 0.0);
        while bin < BINS - 1 && below + self.weights[bin] < target {
            below += self.weights[bin];
            bin += 1;
        }
        let inside = ((target - below) / self.weights[bin].max(f64::MIN_POSITIVE)).min(1.0);
        RTT_LOW_MS * ((bin as f64 + inside) * STEP).exp()
    }
}

impl Default for Recogniser {
    fn default() -> Self {
        Self::new()
    }
}

/// Answers as the model of the technology that it recognises; [`Generic`] until then. A model that is changed to
/// first learns beside the old one.
#[derive(Debug)]
pub struct Recognised {
    recogniser: Recogniser,
    model: Box<dyn ChannelModel>,
    /// The next model, and the number of packets after which it takes over.
    next: Option<(Box<dyn ChannelModel>, u64)>,
    acked: u64,
}

impl Recognised {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self {
            recogniser: Recogniser::new(),
            model: Box::new(Generic::new()),
            next: None,
            acked: 0,
        }
    }

    fn look(&mut self) {
        let Some(verdict) = self.recogniser.verdict() else {
            return;
        };
        if verdict == self.model.technology() {
            self.next = None;
            return;
        }
        let is_coming = (self.next.as_ref()).is_some_and(|(next, _)| next.technology() == verdict);
        if !is_coming {
            let next: Box<dyn ChannelModel> = match verdict {
                Technology::Generic => Box::new(Generic::new()),
                Technology::Cellular => Box::new(Cellular::new()),
                Technology::Satellite => Box::new(Satellite::new()),
            };
            self.next = Some((next, LEARN));
        }
    }
}

impl Default for Recognised {
    fn default() -> Self {
        Self::new()
    }
}

impl ChannelModel for Recognised {
    fn technology(&self) -> Technology {
        self.model.technology()
    }

    fn sent(&mut self, packet: Packet) {
        self.model.sent(packet);
        if let Some((next, _)) = &mut self.next {
            next.sent(packet);
        }
    }

    fn observe(&mut self, outcome: &Outcome<'_>) {
        self.recogniser.observe(outcome);
        self.model.observe(outcome);
        let is_acked = outcome.rtt.is_some();
        if let Some((next, left)) = &mut self.next {
            next.observe(outcome);
            *left = left.saturating_sub(u64::from(is_acked));
        }
        if let Some((next, _)) = self.next.take_if(|(_, left)| *left == 0) {
            self.model = next;
        }
        self.acked += u64::from(is_acked);
        if is_acked && self.acked.is_multiple_of(EVERY) {
            self.look();
        }
    }

    fn expect(&mut self, ahead: u32, at: Instant) -> Expectation {
        self.model.expect(ahead, at)
    }

    fn lost_together(&self, apart: u64) -> f64 {
        self.model.lost_together(apart)
    }
}
