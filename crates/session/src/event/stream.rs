//! Events of one stream: outcomes of its ADUs, its share, and its promise.

use std::{fmt, ops::Range, time::Duration};

use anabranch_base::{ChannelId, Rate};

use anabranch_admission::{Grant, Refusal};

/// Outcome of an ADU, or the rate that the network allows; see [`StreamSpec::notify`](crate::StreamSpec::notify).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// An ADU is at the peer's node (streams with `notify`). Its application gets it, except one of an unreliable stream that
    /// outlived its lifetime on the way, or that was not read in time.
    Acked {
        /// Its sequence.
        adu: u64,
        /// Time from `send` to the acknowledgement of its last byte.
        rtt: Duration,
        /// The channel of the packet whose acknowledgement completed it.
        channel: ChannelId,
        /// Round-trip time of that packet.
        packet_rtt: Duration,
    },
    /// Outcome of a fragment (streams with `notify_fragments`). A byte may be in several: each retransmission and
    /// copy counts, and a fragment that was declared lost may have arrived.
    Fragment {
        /// Its ADU's sequence.
        adu: u64,
        /// Its bytes in the ADU.
        bytes: Range<u64>,
        /// The channel it was sent on.
        channel: ChannelId,
        /// Round-trip time of its packet; `None`: lost.
        rtt: Option<Duration>,
    },
    /// An ADU of an unreliable stream, or part of it, is lost (streams with `notify`). The event comes when the outcome of
    /// everything sent of it is known. Every byte is in exactly one of `arrived` and `lost`.
    Lost {
        /// Its sequence.
        adu: u64,
        /// The bytes of it that arrived at the peer's node, ascending.
        arrived: Vec<Range<u64>>,
        /// The bytes that were lost or, except for streams with `partial`, not sent any more once others were lost, ascending.
        lost: Vec<Range<u64>>,
    },
    /// An ADU outlived its lifetime before it was known to be delivered.
    Expired {
        /// Its sequence.
        adu: u64,
    },
    /// An ADU was dropped before any of it was sent: the application gives the stream more than its
    /// share, and this one was next in the stream's drop order. Or the application has discarded it before all of it was sent
    /// ([`StreamMut::discard`](crate::StreamMut::discard)).
    Dropped {
        /// Its sequence.
        adu: u64,
    },
    /// The rate that a stream may send has changed by more than a quarter: its share of the channels' capacity if
    /// it uses all that its cap allows and other streams stay as they are.
    Throttle {
        /// The rate that it may send now.
        rate: Rate,
    },
}

/// Outcome of a stream's demand for a promise.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PromiseEvent {
    /// The demand is promised: when the stream was opened, after it waited, or again after it had lost its promise; or another
    /// level of it, or an offer that was taken for it or its own demand after that. [`Grant::guarantee`] is what is promised.
    Promised(Grant),
    /// The promise will not be kept, or not be renewed, as far as can be foreseen: the reason, and what
    /// could be promised instead. It is still in force.
    Warned(Refusal),
    /// The promise has lapsed: the reason, and what could be promised instead. The stream is still served
    /// before elastic ones, and `Promised` follows when it can be promised again.
    Withdrawn(Refusal),
    /// The stream was finished for this reason, which `Warned` or `Withdrawn` has reported before
    /// ([`OnWarning::Close`](crate::OnWarning::Close)). What was sent before is still delivered; no more is accepted.
    Closed(Refusal),
}

impl fmt::Display for PromiseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Promised(grant) => write!(f, "promised: {grant}"),
            Self::Warned(refusal) => write!(f, "warned: {refusal}"),
            Self::Withdrawn(refusal) => write!(f, "withdrawn: {refusal}"),
            Self::Closed(refusal) => write!(f, "closed: {refusal}"),
        }
    }
}
