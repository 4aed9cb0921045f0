//! IP packets as bytes: headers, flows, congestion marks, segment sizes, and the ICMP messages of a router.
//!
//! | module | holds |
//! |---|---|
//! | `header` | [`Header`]: the fields of an IPv4 or IPv6 packet that the tunnel uses |
//! | `flow` | [`FlowKey`], [`bucket`]: the packets of a flow, and those that share a queue and an order |
//! | `checksum` | the Internet checksum, whole and incremental |
//! | `ecn` | congestion marks |
//! | `mss` | the segment sizes that TCP connections agree on |
//! | `tcp` | [`Segment`]: ends of TCP segments, other ones in place of theirs, and resets |
//! | `icmp` | answers to packets that cannot be carried |

mod checksum;
mod ecn;
mod flow;
mod header;
mod icmp;
mod mss;
mod tcp;

pub use ecn::{dscp, is_capable, mark};
pub use flow::{BUCKETS, FlowKey, bucket, bucket_of, is_loss_sensitive};
pub use header::{Header, Malformed, Transport};
pub use icmp::{Cause, answer};
pub use mss::clamp;
pub use tcp::{Ends, Progress, Segment, reset};

/// Largest IP packet, in bytes.
pub const PACKET_BYTES_MAX: usize = 65_535;

#[cfg(test)]
pub(crate) mod samples;
