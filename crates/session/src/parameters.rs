//! Parameters of an open stream that may be changed.

use std::{num::NonZeroU32, time::Duration};

use anabranch_base::{ChannelId, Rate};
use anabranch_spec::{DropOrder, Priority, StreamSpec};

/// Changes to the parameters by which one side sends on an open stream; those that are `None` stay as they are. The
/// guarantee has a command of its own: [`StreamMut::change_guarantee`](crate::StreamMut::change_guarantee).
///
/// They apply from the next packet. The peer is not informed of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamParameters {
    /// Share among streams of equal priority; 1 to 10,000.
    pub weight: Option<u32>,
    /// [`StreamSpec::cap`]; `Some(None)` removes the cap.
    pub cap: Option<Option<Rate>>,
    /// [`StreamSpec::drop`]; `Some(None)` removes the drop order.
    pub drop: Option<Option<DropOrder>>,
    /// Bytes that may wait unsent: while so many do, `send` returns `Full`; `Writable` follows when half of them are left at most.
    /// For applications with queues of their own, which decide late what to send. `Some(None)` removes the limit; the send buffer
    /// bounds every stream in addition.
    pub unsent_max: Option<Option<NonZeroU32>>,
    /// [`StreamSpec::redundant`]; not of a stream with a guarantee.
    pub redundant: Option<bool>,
    /// [`StreamSpec::priority`]; what waits is sent by it, too.
    pub priority: Option<Priority>,
    /// [`StreamSpec::lifetime`] of ADUs that are handed over from now on, 1 ms to 1 h; those that wait keep theirs. `Some(None)`: they
    /// never become useless. The receiver of an unreliable stream drops what outlives the lifetime with which it was opened on its way.
    pub lifetime: Option<Option<Duration>>,
    /// [`StreamSpec::pinned`], for what waits, too; `Some(None)`: any channel. A stream whose only channel is closed sends nothing
    /// until it is pinned to another one, or to none.
    pub pinned: Option<Option<ChannelId>>,
    /// [`StreamSpec::notify`], of what is in flight, too: how the side that accepted a stream asks for outcomes of what it sends.
    pub notify: Option<bool>,
}

impl StreamParameters {
    pub(crate) fn apply(self, spec: &mut StreamSpec) {
        spec.weight = self.weight.unwrap_or(spec.weight);
        spec.cap = self.cap.unwrap_or(spec.cap);
        spec.drop = self.drop.unwrap_or(spec.drop);
        spec.redundant = self.redundant.unwrap_or(spec.redundant);
        spec.priority = self.priority.unwrap_or(spec.priority);
        spec.lifetime = self.lifetime.unwrap_or(spec.lifetime);
        spec.pinned = self.pinned.unwrap_or(spec.pinned);
        spec.notify = self.notify.unwrap_or(spec.notify);
    }
}
