//! Recorded packets: time and size of each.
//!
//! Three forms are read:
//!
//! | form | a line | sizes |
//! |---|---|---|
//! | Bellcore (`BC-pAug89.TL` and similar) | seconds, spaces, bytes of the Ethernet frame | the frame's, less the 18 bytes that Ethernet adds |
//! | mahimahi | whole milliseconds | 1500 bytes each |
//! | CSV | a header `t_s,bytes`, then seconds and bytes of the IP packet | as stated |
//!
//! In all of them, lines are in order of time; blank lines and lines that begin with `#` are skipped.

mod parse;

use std::{fmt, time::Duration};

use anabranch_base::Rate;

use crate::trace::ParseTraceError;

/// The maximum number of packets of a recording; 16 bytes of memory each.
pub const PACKETS_MAX: usize = 10_000_000;

/// Bytes of an Ethernet frame besides the IP packet: addresses, type, checksum.
pub const ETHERNET_BYTES: u32 = 18;

/// Packets captured on a wire. It begins with the first packet, and repeats from its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    name: String,
    /// In order of time, the first at 0.
    packets: Vec<Packet>,
    duration: Duration,
}

/// One packet of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Time since the first packet, in nanoseconds.
    pub at_ns: u64,
    /// The size of the IP packet.
    pub bytes: u32,
}

/// Error in the file of a recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {cause}")]
pub struct ParseRecordingError {
    /// The file, as the caller named it.
    pub name: String,
    /// The error, and its line.
    #[source]
    pub cause: ParseTraceError,
}

impl Recording {
    /// Parses any of the three forms: CSV if the first line that is neither blank nor a comment has a letter, Bellcore
    /// if it has two columns, mahimahi otherwise. `name` is for messages, usually a file name.
    ///
    /// # Errors
    /// The first line and column that is invalid, or too few or too many packets.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, ParseRecordingError> {
        let packets = parse::parse(bytes).map_err(|cause| ParseRecordingError {
            name: name.to_owned(),
            cause,
        })?;
        Ok(Self::of(name, packets))
    }

    /// Makes a recording of packets that have been checked: at least two, not all at the same time, in order.
    fn of(name: &str, packets: Vec<Packet>) -> Self {
        let begin_ns = packets.first().map_or(0, |packet| packet.at_ns);
        let packets: Vec<Packet> = packets
            .into_iter()
            .map(|packet| Packet {
                at_ns: packet.at_ns - begin_ns,
                ..packet
            })
            .collect();
        let span_ns = packets.last().map_or(0, |packet| packet.at_ns);
        // After the last packet, one mean gap until the first is repeated.
        let gap_ns = span_ns.div_ceil(packets.len() as u64 - 1);
        Self {
            name: name.to_owned(),
            packets,
            duration: Duration::from_nanos(span_ns + gap_ns),
        }
    }

    /// Name of the recording.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The packets, in order of time, the first at 0; at least two.
    pub fn packets(&self) -> &[Packet] {
        &self.packets
    }

    /// Duration before it repeats: from the first packet to the last, and a mean gap.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Total bits over total time, rounded down.
    pub fn rate_mean(&self) -> Rate {
        let bytes = self.packets.iter().map(|p| u64::from(p.bytes)).sum();
        Rate::from_bytes_per(bytes, self.duration)
    }
}

impl fmt::Display for Recording {
    /// One line for people: name, packets, duration, mean.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, seconds) = (self.packets.len(), self.duration.as_secs_f64());
        let mean = self.rate_mean();
        write!(
            f,
            "{}: {count} packets in {seconds:.1} s, mean {mean}",
            self.name
        )
    }
}
