//! Replay of recorded packets.

use std::{sync::Arc, time::Duration};

use anabranch_base::{Instant, Rate};

use super::Arrival;
use crate::{limits::ConfigError, recording::Recording};

/// The largest factor by which a recording may be sped up.
pub const SPEED_MAX: f64 = 1e6;

/// A recording as played by one source, repeated from its beginning when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The packets; many sources may share them.
    pub recording: Arc<Recording>,
    /// Factor on the recorded speed, above 0: 20 makes 28 Mbit/s of 1.4 Mbit/s.
    pub speed: f64,
    /// Position in the recording at which to begin, in recorded time; counted modulo its duration. Sources that play
    /// the same recording from different positions represent different users.
    pub start: Duration,
}

impl Replay {
    /// As recorded, from the beginning.
    pub fn new(recording: impl Into<Arc<Recording>>) -> Self {
        Self {
            recording: recording.into(),
            speed: 1.0,
            start: Duration::ZERO,
        }
    }

    pub(super) fn mean(&self) -> Rate {
        self.recording.rate_mean() * self.speed
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        // Written so that NaN is refused too.
        if !(self.speed > 0.0 && self.speed <= SPEED_MAX) {
            return Err(ConfigError::Speed {
                value: self.speed,
                most: SPEED_MAX,
            });
        }
        Ok(())
    }
}

/// State of a replay.
#[derive(Debug, Clone)]
pub(super) struct Process {
    replay: Replay,
    begin: Instant,
    /// Position in the recording at which it began, within the first lap.
    start_ns: u64,
    /// The next packet.
    index: usize,
    /// Laps completed since the one in which it began.
    laps: u64,
}

impl Process {
    pub(super) fn new(replay: Replay, begin: Instant) -> Self {
        let duration = replay.recording.duration();
        let start_ns = (replay.start.as_nanos() % duration.as_nanos()) as u64;
        let packets = replay.recording.packets();
        let index = packets.partition_point(|packet| packet.at_ns < start_ns);
        let mut process = Self {
            replay,
            begin,
            start_ns,
            index,
            laps: 0,
        };
        process.wrap();
        process
    }

    pub(super) fn next(&mut self) -> Arrival {
        let recording = &self.replay.recording;
        let packet = recording.packets()[self.index];
        let lap_ns = u128::from(self.laps) * recording.duration().as_nanos();
        let since_ns = (lap_ns + u128::from(packet.at_ns)) - u128::from(self.start_ns);
        // A float counts nanoseconds exactly for 104 days; the cast saturates.
        let wait_ns = (since_ns as f64 / self.replay.speed) as u64;
        self.index += 1;
        self.wrap();
        Arrival {
            at: self.begin + Duration::from_nanos(wait_ns),
            bytes: packet.bytes as usize,
        }
    }

    fn wrap(&mut self) {
        if self.index == self.replay.recording.packets().len() {
            self.index = 0;
            self.laps += 1;
        }
    }
}
