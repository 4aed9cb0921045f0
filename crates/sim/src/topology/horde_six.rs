//! Horde's six simulated radio channels [Horde Figures 7-5 and 7-6].

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_link::{Config, Jitter, Loss, Queue, RateSource, duplex::Configs, loss::Doubling};

use super::Topology;

/// Size of the IP packet for which a channel's latency is stated. Assumed: the experiments on real channels sent 1400
/// bytes [Horde Appendix A].
pub const PACKET_BYTES: usize = 1_400;

/// A row of Figure 7-5.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// Name in the figure.
    pub name: &'static str,
    /// Rate from the van to the network.
    pub rate: Rate,
    /// Mean round-trip time of a packet of [`PACKET_BYTES`].
    pub rtt_mean: Duration,
    /// Standard deviation of the round-trip time, which is Gaussian.
    pub rtt_deviation: Duration,
    /// Fraction of packets lost: the middle of the figure's range.
    pub loss: f64,
    /// Longest loss burst; all powers of two up to it occur.
    pub burst_max: u32,
}

/// Rows of Figure 7-5. An ellipsis there repeats the value above.
pub const HORDE_CHANNELS: [Channel; 6] = [
    // "0-1 %", "1, 2, 4, 8, and 16".
    row("cdma1", 120, [600, 50], 0.005, 16),
    // "≈ 20 %".
    row("cdma2", 120, [300, 15], 0.20, 16),
    // "1-5 %", "1, 2 and 4".
    row("gprs1", 22, [900, 100], 0.03, 4),
    row("gprs2", 22, [900, 100], 0.03, 4),
    row("gprs3", 22, [1_000, 100], 0.03, 4),
    row("gprs4", 22, [1_000, 100], 0.03, 4),
];

/// The six channels, as routes from a van to a host; each has points of its own, since the paper's channels share
/// nothing.
///
/// Loss follows the Markov process of Figure 7-6. Each packet's round-trip time is drawn independently, so packets may
/// overtake each other. Unlike the paper's channels, a channel here also has a rate and a queue: the stated latency is
/// that of a single packet, including its transmission time. The reverse direction is free of loss and three times as
/// fast (Figure A-1's ratio); a queue of two seconds is assumed (`deviation: horde-channels`).
pub fn horde_six() -> Topology {
    let mut topology = Topology::default();
    for channel in &HORDE_CHANNELS {
        let (van, host) = (
            format!("van {}", channel.name),
            format!("host {}", channel.name),
        );
        topology
            .wire(&van, &host, channel.configs())
            .route(channel.name, &[&van, &host]);
    }
    topology
}

impl Channel {
    /// Configuration of both directions: forward is from the van.
    ///
    /// # Panics
    /// If the loss cannot be reached with the bursts, which no row of the figure requires.
    pub fn configs(&self) -> Configs {
        let send = self.rate.time_to_send(PACKET_BYTES as u64);
        // The mean of the Gaussian part is three deviations; the remainder is the same in both directions.
        let fixed = self.rtt_mean.saturating_sub(send + self.rtt_deviation * 3);
        let loss = Doubling::horde(self.loss, self.burst_max).expect("a row is in range");
        Configs {
            forward: Config {
                rate: RateSource::Constant(self.rate),
                delay: fixed / 2,
                jitter: Jitter::gaussian(self.rtt_deviation).reordering(),
                loss: Loss::Doubling(loss),
                queue: Queue::time(Duration::from_secs(2)),
                ..Config::default()
            },
            backward: Config {
                rate: RateSource::Constant(self.rate * 3.0),
                delay: fixed / 2,
                queue: Queue::time(Duration::from_secs(2)),
                ..Config::default()
            },
        }
    }
}

const fn row(
    name: &'static str,
    kbps: u64,
    [mean_ms, deviation_ms]: [u64; 2],
    loss: f64,
    burst_max: u32,
) -> Channel {
    Channel {
        name,
        rate: Rate::from_kbps(kbps),
        rtt_mean: Duration::from_millis(mean_ms),
        rtt_deviation: Duration::from_millis(deviation_ms),
        loss,
        burst_max,
    }
}
