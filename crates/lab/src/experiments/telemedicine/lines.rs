//! The six paths.

use std::{sync::Arc, time::Duration};

use anabranch_base::Rate;
use anabranch_link::{
    Config, Jitter, Loss, Outage, Queue, RateSource, Trace, duplex::Configs, source::Playback,
};
use anabranch_session::Link;
use anabranch_sim::{World, topology::TopologyError, world::NodeIndex};

use crate::kit::{
    recording::Recording,
    series::median,
    streams::{RecordedPath, figures::mean_and_deviation},
};

/// Number of paths [Horde §7.2].
pub const COUNT: usize = 6;
/// Upward load, relative to the average capacity of the paths.
pub const LOAD: f64 = 0.8;
/// Ratio of the downward rate to the upward rate [Horde Figure A-1].
const DOWN: f64 = 3.0;
/// Queue of a path at its mean rate, as in `preset::hsdpa`.
const QUEUE: Duration = Duration::from_secs(1);
/// One-way jitter of packets on a radio link.
const JITTER: Duration = Duration::from_millis(6);

/// Median round trip in milliseconds, fraction of pings lost, and mean length of a burst of them: pings of
/// `rtt/nuwins_multicarrier`, AT&T, T-Mobile, Verizon on two days of driving, 6 and 7 August 2023.
const PINGS: [(f64, f64, f64); COUNT] = [
    (62.0, 0.0063, 1.93),
    (50.0, 0.0099, 2.04),
    (44.0, 0.0096, 3.30),
    (52.0, 0.0043, 3.23),
    (51.0, 0.0115, 3.18),
    (48.0, 0.0253, 4.12),
];

/// A path.
#[derive(Clone, Debug)]
pub struct Line {
    /// The recording's name.
    pub name: String,
    trace: Arc<Trace>,
    start: Duration,
    /// Factor on the recorded rate.
    pub scale: f64,
    /// One-way delay.
    pub delay: Duration,
    /// Fraction of packets lost in one direction, and their mean burst.
    pub loss: (f64, f64),
    /// Times without service, since the world began.
    pub outages: Vec<Outage>,
}

/// [`COUNT`] paths with an average capacity of `offered_bps` / [`LOAD`] together, of the recordings made on the ground if there
/// is one, else of all. If there are too few recordings, they are used again, from later on.
///
/// # Errors
/// A message that names the recording that is no path.
pub fn lines(recordings: &[Recording], offered_bps: f64) -> Result<Vec<Line>, String> {
    let is_cellular = |recording: &&Recording| {
        let network = recording.network.as_str();
        !["satellite", "fixed"]
            .iter()
            .any(|word| network.contains(word))
    };
    let mut used: Vec<&Recording> = recordings.iter().filter(is_cellular).collect();
    if used.is_empty() {
        used = recordings.iter().collect();
    }
    if used.is_empty() {
        return Err("there is no recording".to_owned());
    }
    let laps = COUNT.div_ceil(used.len()) as u32;
    let mut lines = Vec::with_capacity(COUNT);
    for (index, ping) in PINGS.iter().enumerate() {
        let recording = used[index % used.len()];
        let path = RecordedPath::new(recording)
            .ok_or_else(|| format!("{} has no bandwidth above 0", recording.name))?;
        let lap = (index / used.len()) as u32;
        let own_rtt = median(recording.rtt_ms.iter().flatten().flatten().copied());
        let own_loss = recording.loss.as_ref().map(|rows| {
            let (known, _) =
                mean_and_deviation(&rows.iter().flatten().copied().collect::<Vec<_>>());
            known.min(0.5)
        });
        let loss = own_loss.unwrap_or(ping.1);
        let again = if lap == 0 {
            String::new()
        } else {
            format!(" again {lap}")
        };
        lines.push(Line {
            name: format!("{}{again}", recording.name),
            trace: Arc::clone(path.trace()),
            start: path.duration() / laps * lap,
            scale: 1.0,
            delay: Duration::from_secs_f64(own_rtt.unwrap_or(ping.0) / 2e3),
            // A ping may be lost in either direction.
            loss: (loss / 2.0, ping.2),
            outages: Vec::new(),
        });
    }
    let sum: f64 = lines.iter().map(Line::mean_bps).sum();
    let scale = offered_bps / LOAD / sum;
    for line in &mut lines {
        line.scale = scale;
    }
    Ok(lines)
}

impl Line {
    /// Average upward capacity, in bits per second.
    pub fn mean_bps(&self) -> f64 {
        self.trace.rate_mean().as_bps() as f64 * self.scale
    }

    /// Both directions: forward is up. The recording applies to both, because without signal neither has capacity.
    pub fn configs(&self) -> Configs {
        let config = |factor: f64| Config {
            rate: RateSource::Trace(Playback {
                trace: Arc::clone(&self.trace),
                scale: self.scale * factor,
                start: self.start,
            }),
            delay: self.delay,
            jitter: Jitter::normal(JITTER),
            // Values out of range were clamped.
            loss: Loss::bursts(self.loss.0, self.loss.1).unwrap_or(Loss::None),
            queue: Queue::time(QUEUE),
            outages: self.outages.clone(),
            ..Config::default()
        };
        Configs {
            forward: config(1.0),
            backward: config(DOWN),
        }
    }
}

/// Places the paths between two nodes of a world.
///
/// # Errors
/// A recording cannot be played.
pub fn lay(
    lines: &[Line],
    world: &mut World,
    nodes: [NodeIndex; 2],
) -> Result<Vec<Link>, TopologyError> {
    let mut links = Vec::new();
    for line in lines {
        let wire = world.add_wire(nodes[0], nodes[1], line.configs())?;
        links.push(world.link(nodes[0], wire));
    }
    Ok(links)
}

/// Mean rate of all together.
pub fn sum(lines: &[Line]) -> Rate {
    Rate::from_bps(lines.iter().map(Line::mean_bps).sum::<f64>() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::corpus::Corpus;

    #[test]
    fn six_paths_have_the_planned_capacity() {
        let corpus = Corpus::bundled();
        let lines = lines(&corpus.recordings, 1e6).unwrap();
        assert_eq!(lines.len(), COUNT);
        assert!((sum(&lines).as_bps() as f64 / 1.25e6 - 1.0).abs() < 1e-4);
        // Only one of them is cellular; it is used from six positions.
        assert!(
            lines
                .iter()
                .all(|line| line.name.starts_with("bundled/hsdpa-bus"))
        );
        let mut starts: Vec<Duration> = lines.iter().map(|line| line.start).collect();
        starts.dedup();
        assert_eq!(starts.len(), COUNT);
        assert_eq!(lines[1].delay, Duration::from_millis(25));
        assert_ne!(lines[1].configs().forward.loss, Loss::None);
        assert!(super::lines(&[], 1e6).is_err());
    }
}
