//! Channels on which controllers are compared.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Rate};
use anabranch_link::{
    Config, Queue, RateSource, Trace, duplex::Configs, preset::cdma2000, source::Playback,
};
use anabranch_session::Controller;

use crate::kit::recording::Recording;

/// Duration of a recording's run.
const RUN: Duration = Duration::from_secs(60);
/// Round trip and queue of a recording, which contains neither.
const RTT: Duration = Duration::from_millis(50);
const QUEUE: Duration = Duration::from_secs(1);

/// Technology that a channel represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Cdma,
    Lte,
    Nr,
    Satellite,
    Other,
}

/// A channel, and its measurement.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) configs: Configs,
    pub(super) run: Duration,
    /// Length of the windows over which goodput is measured.
    pub(super) window: Duration,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cdma => "cdma2000",
            Self::Lte => "lte",
            Self::Nr => "5g",
            Self::Satellite => "satellite",
            Self::Other => "other",
        }
    }

    /// Technology by the name of the network in an index or a folder.
    fn of(network: &str) -> Self {
        let network = network.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| network.contains(word));
        if has(&["satellite", "starlink", "leo"]) {
            Self::Satellite
        } else if has(&["5g"]) {
            Self::Nr
        } else if has(&["lte", "4g", "cellular", "3g", "hsdpa"]) {
            Self::Lte
        } else {
            Self::Other
        }
    }
}

impl Channel {
    /// Channel of the thesis: stationary, and in a van.
    pub(super) fn cdma() -> [Self; 2] {
        let of = |name: &str, configs, seconds| Self {
            name: format!("cdma2000/{name}"),
            kind: Kind::Cdma,
            configs,
            run: Duration::from_secs(seconds),
            window: Duration::from_secs(10),
        };
        [
            of("stationary", cdma2000::stationary(), 600),
            of("mobile", cdma2000::mobile(), 1_200),
        ]
    }

    /// A recorded channel; `None` if it carries nothing.
    pub(super) fn of(recording: &Recording) -> Option<Self> {
        let step_s = recording.step_s().filter(|&step| step > 0.0)?;
        let bandwidths = recording.bandwidths_bps();
        let rates = bandwidths.iter().map(|&bps| Rate::from_bps(bps as u64));
        let rates: Vec<Rate> = rates.collect();
        if rates.is_empty() {
            return None;
        }
        let trace = Trace::from_rates(&recording.name, Duration::from_secs_f64(step_s), &rates);
        let mean = trace.rate_mean();
        if mean < Rate::from_kbps(100) {
            return None;
        }
        let forward = Config {
            rate: RateSource::Trace(Playback {
                trace: Arc::new(trace),
                scale: 1.0,
                start: Duration::ZERO,
            }),
            delay: RTT / 2,
            queue: Queue::bytes(mean.bytes_in(QUEUE)),
            ..Config::default()
        };
        let backward = Config {
            rate: RateSource::Constant(mean),
            ..forward.clone()
        };
        Some(Self {
            name: recording.name.clone(),
            kind: Kind::of(&recording.network),
            configs: Configs { forward, backward },
            run: RUN,
            window: Duration::from_secs(1),
        })
    }

    /// Maximum that it can carry over its run, in bits.
    pub(super) fn capacity_bits(&self) -> f64 {
        match &self.configs.forward.rate {
            RateSource::Trace(playback) => playback.trace.bits(self.run),
            other => other
                .mean()
                .map_or(0.0, |rate| rate.as_bps() as f64 * self.run.as_secs_f64()),
        }
    }

    /// Time at which its run ends.
    pub(super) fn end(&self) -> Instant {
        Instant::EPOCH + self.run
    }

    /// Controllers compared on it, by name; `verb` first.
    pub(super) fn controllers(&self) -> Vec<(&'static str, Controller)> {
        let verb = match self.kind {
            Kind::Cdma => "verb:cdma2000",
            Kind::Lte | Kind::Other => "verb:lte",
            Kind::Nr => "verb:5g",
            Kind::Satellite => "verb:satellite",
        };
        let mut all = Vec::new();
        for (name, text) in [
            ("verb", verb),
            ("aimd", "aimd"),
            ("binomial", "binomial:sqrt"),
            ("cubic", "cubic"),
            ("bbr3", "bbr3"),
            ("auto", "auto"),
        ] {
            // Our own texts are valid, as a test checks.
            if let Ok(controller) = text.parse() {
                all.push((name, controller));
            }
        }
        match self.kind {
            Kind::Cdma => {
                let fixed = |kbps| Controller::Fixed(Rate::from_kbps(kbps));
                all.extend([("constant 120", fixed(120)), ("constant 60", fixed(60))]);
            }
            _ => {
                let mean_bps = self.capacity_bits() / self.run.as_secs_f64();
                let mean = Rate::from_bps((mean_bps as u64).max(1_000));
                all.push(("constant", Controller::Fixed(mean)));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_names_a_controller() {
        for channel in Channel::cdma() {
            assert_eq!(channel.controllers().len(), 8);
        }
    }
}
