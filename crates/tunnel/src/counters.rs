//! Counters of a tunnel's packets, and of those that it did not carry.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A reason why a packet was not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dropped {
    /// It is not an IP packet.
    Malformed,
    /// Its source is not an address that its sender has in the tunnel.
    Source,
    /// Its destination is not an address of this side.
    Destination,
    /// It carries a packet of the tunnel itself.
    Loop,
    /// It is larger than the other side takes, and must not be fragmented.
    TooBig,
    /// Nobody in the tunnel has its destination.
    NoHost,
    /// The kernel did not take it.
    Device,
    /// The server does not allow its destination.
    Prohibited,
    /// A rule of this node denies its flow.
    Denied,
    /// Its rule limits the rate, and it had no stream to wait for.
    Limited,
}

impl Dropped {
    /// All reasons.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::Source,
        Self::Destination,
        Self::Loop,
        Self::TooBig,
        Self::NoHost,
        Self::Device,
        Self::Prohibited,
        Self::Denied,
        Self::Limited,
    ];

    /// Name of the reason in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Loop => "loop",
            Self::TooBig => "too_big",
            Self::NoHost => "no_host",
            Self::Device => "device",
            Self::Prohibited => "prohibited",
            Self::Denied => "denied",
            Self::Limited => "limited",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Source => "with a source that is not the sender's",
            Self::Destination => "for others than this machine",
            Self::Loop => "of the tunnel itself, which a route sent into it",
            Self::TooBig => "larger than the tunnel's MTU",
            Self::NoHost => "for addresses that nobody has",
            Self::Device => "that the kernel did not take",
            Self::Prohibited => "for destinations that the server does not allow",
            Self::Denied => "that a rule denies",
            Self::Limited => "beyond the rate of a rule",
        }
    }
}

/// The counters of a tunnel, or of one of its clients.
#[derive(Debug, Default)]
pub struct Counters {
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    received: AtomicU64,
    received_bytes: AtomicU64,
    dropped: [AtomicU64; Dropped::ALL.len()],
}

/// Values of the counters at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets that entered the tunnel here.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that left the tunnel here.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were dropped, in the order of [`Dropped::ALL`].
    dropped: [u64; Dropped::ALL.len()],
}

impl Counters {
    pub(crate) fn note_sent(&self, bytes: usize) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_received(&self, bytes: usize) {
        self.received.fetch_add(1, Ordering::Relaxed);
        self.received_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_dropped(&self, reason: Dropped) {
        self.dropped[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Their values now.
    pub fn totals(&self) -> Totals {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            sent: get(&self.sent),
            sent_bytes: get(&self.sent_bytes),
            received: get(&self.received),
            received_bytes: get(&self.received_bytes),
            dropped: Dropped::ALL.map(|reason| get(&self.dropped[reason as usize])),
        }
    }
}

impl Totals {
    /// Packets that were dropped for a reason.
    pub fn dropped(&self, reason: Dropped) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets that were dropped, by the name of the reason.
    pub fn dropped_by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let all = Dropped::ALL.into_iter();
        all.map(|reason| (reason.name(), self.dropped(reason)))
    }

    /// Those that were dropped since `before`; `None` if none was.
    pub fn dropped_since(&self, before: &Self) -> Option<DroppedSince> {
        let of = |reason: Dropped| self.dropped(reason) - before.dropped(reason);
        let since = DroppedSince(Dropped::ALL.map(of));
        (since.0 != [0; Dropped::ALL.len()]).then_some(since)
    }
}

/// Numbers of packets that were dropped in some time, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedSince([u64; Dropped::ALL.len()]);

impl DroppedSince {
    /// The reasons that occurred, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Dropped, u64)> + '_ {
        let all = Dropped::ALL.into_iter().zip(self.0);
        all.filter(|(_, count)| *count > 0)
    }
}

impl fmt::Display for DroppedSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.iter().map(|(reason, count)| {
            let noun = if count == 1 { "packet" } else { "packets" };
            format!("{count} {noun} {}", reason.words())
        });
        write!(f, "dropped {}", parts.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_reason() {
        for (index, reason) in Dropped::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
        let counters = Counters::default();
        let before = counters.totals();
        assert_eq!(counters.totals().dropped_since(&before), None);
        counters.note_dropped(Dropped::Source);
        counters.note_dropped(Dropped::Source);
        counters.note_dropped(Dropped::Malformed);
        let now = counters.totals();
        assert_eq!(now.dropped(Dropped::Source), 2);
        let text = now.dropped_since(&before).unwrap().to_string();
        assert_eq!(
            text,
            "dropped 1 packet malformed, 2 packets with a source that is not the sender's"
        );
    }
}
