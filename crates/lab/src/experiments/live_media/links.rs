//! Links of a run.

use std::{sync::Arc, time::Duration};

use anabranch_base::Rate;
use anabranch_link::{Config, Queue, RateSource, Trace, duplex::Configs, source::Playback};

use super::{INTERVAL, PACKET_BYTES};
use crate::kit::{corpus::Corpus, recording::Recording};

/// Recordings of the comparison on sockets, and one-way delays.
const NAMES: [&str; 3] = ["2767958-taxi1", "2925703-home1", "3199718-timessquare"];
const DELAYS_MS: [u64; 3] = [25, 35, 45];
/// Media rate over the sum of the links' mean rates.
const LOAD: f64 = 0.8;
const QUEUE: Duration = Duration::from_millis(250);
/// Time between the beginnings of two runs in the recordings.
const RUN_STEP: Duration = Duration::from_secs(20);

/// The three recordings; `None`: there are not as many.
pub(super) fn recordings(corpus: &Corpus) -> Option<[&Recording; 3]> {
    let usable = || {
        let recordings = corpus.recordings.iter();
        recordings.filter(|recording| mean_bps(recording) > 0.0)
    };
    let named = NAMES.map(|name| usable().find(|recording| recording.name.ends_with(name)));
    if let [Some(a), Some(b), Some(c)] = named {
        return Some([a, b, c]);
    }
    let first: Vec<&Recording> = usable().take(3).collect();
    first.try_into().ok()
}

fn mean_bps(recording: &Recording) -> f64 {
    let rates = recording.bandwidths_bps();
    rates.iter().sum::<f64>() / rates.len().max(1) as f64
}

/// Links of a run, by its number from 0.
pub(super) fn of_run(recordings: [&Recording; 3], run: u32) -> Vec<Configs> {
    let media_bps = (PACKET_BYTES * 8) as f64 / INTERVAL.as_secs_f64();
    let each_bps = media_bps / LOAD / recordings.len() as f64;
    let links = recordings.into_iter().zip(DELAYS_MS);
    let links = links.map(|(recording, delay_ms)| {
        let step = Duration::from_secs_f64(recording.step_s().unwrap_or(1.0).max(0.001));
        let rates: Vec<Rate> = (recording.bandwidths_bps().iter())
            .map(|&bps| Rate::from_bps(bps as u64))
            .collect();
        let trace = Trace::from_rates(&recording.name, step, &rates);
        let scale = each_bps / (trace.rate_mean().as_bps() as f64).max(1.0);
        let forward = Config {
            rate: RateSource::Trace(Playback {
                trace: Arc::new(trace),
                scale,
                start: RUN_STEP * run,
            }),
            delay: Duration::from_millis(delay_ms),
            queue: Queue::time(QUEUE),
            ..Config::default()
        };
        let backward = Config {
            rate: RateSource::Constant(Rate::from_mbps(20)),
            ..forward.clone()
        };
        Configs { forward, backward }
    });
    links.collect()
}

/// Rate of a link at a time of the run, in bits per second.
pub(super) fn rate_bps(link: &Configs, at: Duration) -> f64 {
    match &link.forward.rate {
        RateSource::Trace(playback) => {
            let position = playback.start + at;
            let within = position.as_secs_f64() % playback.trace.duration().as_secs_f64();
            let rate = playback.trace.rate_at(Duration::from_secs_f64(within));
            rate.as_bps() as f64 * playback.scale
        }
        other => other.mean().map_or(0.0, |rate| rate.as_bps() as f64),
    }
}
