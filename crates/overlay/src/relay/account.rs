//! Accounts of packets forwarded and dropped.

use std::ops::AddAssign;

/// Packets and bytes of UDP payload in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Packets.
    pub packets: u64,
    /// Bytes of UDP payload.
    pub bytes: u64,
}

impl Flow {
    pub(super) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }

    pub(super) fn take(&mut self, packets: u64, bytes: u64) {
        self.packets = self.packets.saturating_sub(packets);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl AddAssign for Flow {
    fn add_assign(&mut self, rhs: Self) {
        self.add(rhs.packets, rhs.bytes);
    }
}

/// Reason for dropping packets of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// The circuit's rate was exceeded.
    CircuitRate,
    /// The total rate of the source's circuits was exceeded.
    PeerRate,
    /// The source's bytes for the period were used up.
    PeerBytes,
    /// The next hop has not answered yet, and the limit for unanswered bytes is reached.
    Unanswered,
    /// An answer for a source that has not sent a packet yet, so its port is not known.
    NotLearnt,
    /// The relay's own queue towards the network was full.
    Congested,
    /// The system refused to send it: too large for the path, or no route.
    Unsendable,
}

impl Reason {
    /// All of them, in the order of [`Dropped`].
    pub const ALL: [Self; 7] = [
        Self::CircuitRate,
        Self::PeerRate,
        Self::PeerBytes,
        Self::Unanswered,
        Self::NotLearnt,
        Self::Congested,
        Self::Unsendable,
    ];

    /// Name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CircuitRate => "circuit_rate",
            Self::PeerRate => "peer_rate",
            Self::PeerBytes => "peer_bytes",
            Self::Unanswered => "unanswered",
            Self::NotLearnt => "not_learnt",
            Self::Congested => "congested",
            Self::Unsendable => "unsendable",
        }
    }
}

/// Packets dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped([u64; Reason::ALL.len()]);

impl Dropped {
    /// Packets dropped for this reason.
    pub const fn by(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// Packets dropped.
    pub fn packets(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn add(&mut self, reason: Reason, packets: u64) {
        self.0[reason as usize] += packets;
    }
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, rhs: Self) {
        for (count, more) in self.0.iter_mut().zip(rhs.0) {
            *count += more;
        }
    }
}

/// Traffic of a circuit, or of all circuits of a source. Every packet from one of the circuit's two peers is counted in
/// exactly one of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Away from the source.
    pub outward: Flow,
    /// Back to the source.
    pub back: Flow,
    /// Dropped packets.
    pub dropped: Dropped,
}

impl AddAssign for Account {
    fn add_assign(&mut self, rhs: Self) {
        self.outward += rhs.outward;
        self.back += rhs.back;
        self.dropped += rhs.dropped;
    }
}

/// Traffic and decisions of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Traffic of all circuits, past and present.
    pub account: Account,
    /// Packets that came to its ports from senders that are not peers of a circuit there.
    pub foreign_packets: u64,
    /// Circuits opened.
    pub opened: u64,
    /// Requests refused.
    pub refused: u64,
    /// Circuits closed by their sources, or by the host for them.
    pub closed: u64,
    /// Circuits that were not refreshed in time.
    pub expired: u64,
}
