//! Slot: the expected outcome of sending one packet.

/// The capability to send one packet on one channel, with its expected outcome [Horde §4.1, Figure 4-1]; a
/// *phantom* is one that is expected soon and cannot be used yet [Horde §4.2].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Its channel, as an index into the channels of a cycle.
    pub channel: u32,
    /// Its number among the channel's packets.
    pub sequence: u64,
    /// Milliseconds until it exists; 0 for one that does.
    pub wait_ms: f64,
    /// Probability in [0, 1] that it will exist by then; 1 for one that does.
    pub confidence: f64,
    /// Probability in [0, 1] that a packet sent in it is lost.
    pub loss: f64,
    /// Mean and standard deviation of the time from sending to acknowledgement that may be counted on, in milliseconds; where a
    /// model expects a skewed distribution, those of a normal one with its median and as wide a middle. Longer than
    /// [`predicted_ms`](Self::predicted_ms) where the channel holds so much data that its queue will take longer, if its rate lasts.
    pub round_trip_ms: f64,
    /// See [`Slot::round_trip_ms`].
    pub deviation_ms: f64,
    /// Mean time from sending to acknowledgement by the channel's model alone, in milliseconds.
    pub predicted_ms: f64,
    /// Cost of a byte, in the unit of the configuration.
    pub cost_per_byte: f64,
    /// Payload that fits.
    pub bytes_max: u32,
}

impl Slot {
    /// True if it does not exist yet.
    pub fn is_phantom(&self) -> bool {
        self.wait_ms > 0.0 || self.confidence < 1.0
    }

    /// Cost of sending so many bytes.
    pub fn cost(&self, bytes: u32) -> f64 {
        self.cost_per_byte * f64::from(bytes)
    }

    /// True if the two are equal for any ADU.
    pub fn is_like(&self, other: &Self) -> bool {
        self.wait_ms == other.wait_ms
            && self.confidence == other.confidence
            && self.is_like_in_time(other)
    }

    /// The same, if both existed at one time.
    pub fn is_like_in_time(&self, other: &Self) -> bool {
        self.channel == other.channel
            && self.loss == other.loss
            && self.round_trip_ms == other.round_trip_ms
            && self.deviation_ms == other.deviation_ms
            && self.cost_per_byte == other.cost_per_byte
            && self.bytes_max == other.bytes_max
    }
}
