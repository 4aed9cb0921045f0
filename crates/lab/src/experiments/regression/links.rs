//! Links that are probed, and the delays of messages on them.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{
    Config, ConfigError, Jitter, Link, Loss, Queue, RateSource, Verdict,
    jitter::Shape,
    traffic::{Arrival, ParetoOnOff, Sizes, Source, Traffic},
};

/// A packet of a message, headers included.
pub(crate) const PACKET_BYTES: u64 = 1500;

/// A link to probe.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) config: Config,
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
    pub(crate) cross: Option<Traffic>,
}

impl Case {
    pub(crate) fn new(name: &'static str, rate: Rate, delay: Duration) -> Self {
        Self {
            name,
            config: Config {
                rate: RateSource::Constant(rate),
                delay,
                // Only the losses of the plan may occur.
                queue: Queue::time(Duration::from_secs(5)),
                ..Config::default()
            },
            rate,
            delay,
            cross: None,
        }
    }

    /// True if the true parameters are those configured.
    pub(crate) fn is_quiet(&self) -> bool {
        self.cross.is_none() && self.config.jitter == Jitter::None
    }

    /// The same without losses.
    pub(crate) fn lossless(&self) -> Self {
        let mut case = self.clone();
        case.config.loss = Loss::None;
        case
    }

    /// Ten sizes, from two packets to the amount that takes half a second.
    pub(crate) fn sizes(&self) -> [u64; 10] {
        let largest = (self.rate.as_bytes_per_s() / 2.0) as u64;
        std::array::from_fn(|step| {
            let packets = (largest * (step as u64 + 1) / 10).div_ceil(PACKET_BYTES);
            packets.max(2 + step as u64) * PACKET_BYTES
        })
    }
}

/// Simulated links.
pub(crate) fn all() -> Vec<Case> {
    let ms = Duration::from_millis;
    let quiet = Case::new("quiet", Rate::from_mbps(100), ms(5));
    let mut figure2 = Case::new("figure2", Rate::from_mbps(1), ms(35));
    figure2.config.jitter = Jitter::Some {
        shape: Shape::Normal(ms(3)),
        reorders: false,
    };
    let mut busy = Case::new("busy", Rate::from_mbps(10), ms(20));
    busy.cross = Some(Traffic::ParetoOnOff(ParetoOnOff {
        sources: 8,
        peak: Rate::from_mbps(1),
        on_mean: ms(200),
        off_mean: ms(200),
        shape: 1.5,
        sizes: Sizes::Fixed(1000),
    }));
    let mut lossy = Case::new("lossy", Rate::from_mbps(10), ms(20));
    lossy.config.loss = Loss::Random { probability: 0.002 };
    vec![quiet, figure2, busy, lossy]
}

/// A link with the traffic of others.
pub(crate) struct Probed {
    link: Link,
    cross: Option<std::iter::Peekable<Source>>,
    rate: Rate,
    round_trip: Duration,
    /// Time at which the next message may begin.
    pub(crate) now: Instant,
}

impl Probed {
    pub(crate) fn new(case: &Case, seed: Seed) -> Result<Self, ConfigError> {
        let cross = match &case.cross {
            Some(traffic) => {
                let source = Source::new(traffic, Instant::EPOCH, seed.child("cross"))?;
                Some(source.peekable())
            }
            None => None,
        };
        Ok(Self {
            link: Link::new(case.config.clone(), seed.child("link"))?,
            cross,
            rate: case.rate,
            round_trip: case.delay * 2,
            now: Instant::EPOCH,
        })
    }

    /// Sends a message; returns its delay until the arrival of its last packet.
    pub(crate) fn message(&mut self, bytes: u64) -> Duration {
        let begin = self.now;
        let mut arrived = begin;
        let mut lost = Vec::new();
        let gap = self.rate.time_to_send(PACKET_BYTES);
        let packets = bytes.div_ceil(PACKET_BYTES);
        for index in 0..packets {
            let at = begin + gap * u32::try_from(index).unwrap_or(u32::MAX);
            match self.packet(at) {
                Some(arrival) => arrived = arrived.max(arrival),
                None => lost.push(at),
            }
        }
        let timeout = self.round_trip * 3;
        while let Some(at) = lost.pop() {
            let again = self.now.max(at + timeout);
            match self.packet(again) {
                Some(arrival) => arrived = arrived.max(arrival),
                None => lost.push(again),
            }
        }
        self.now = self.now.max(arrived);
        arrived.since(begin)
    }

    /// Time at which a packet offered at `at` arrives; `None`: it is lost.
    fn packet(&mut self, at: Instant) -> Option<Instant> {
        self.now = self.now.max(at);
        if let Some(cross) = &mut self.cross {
            while let Some(Arrival { at, bytes }) = cross.next_if(|arrival| arrival.at <= self.now)
            {
                let _ = self.link.offer(at, bytes, false);
            }
        }
        match self.link.offer(self.now, PACKET_BYTES as usize, false) {
            Verdict::Deliver { at, .. } => Some(at),
            Verdict::Drop(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_on_a_quiet_link_takes_its_size_and_the_delay() {
        let case = &all()[0];
        let mut link = Probed::new(case, Seed(1)).unwrap();
        for packets in [1, 7, 300] {
            let bytes = packets * PACKET_BYTES;
            assert_eq!(
                link.message(bytes),
                case.rate.time_to_send(PACKET_BYTES) * packets as u32 + case.delay
            );
            link.now += Duration::from_millis(1);
        }
    }

    #[test]
    fn lost_packets_arrive_later() {
        let mut case = all().pop().unwrap();
        case.config.loss = Loss::Random { probability: 0.5 };
        let mut link = Probed::new(&case, Seed(1)).unwrap();
        let bytes = 100 * PACKET_BYTES;
        assert!(link.message(bytes) > case.rate.time_to_send(bytes) + case.delay * 4);
    }
}
