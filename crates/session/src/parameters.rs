//! Parameters of an open stream that may be changed.

use anabranch_base::Rate;
use anabranch_sched::{DropOrder, StreamSpec};

/// Changes to what one side sends on an open stream; what is `None` stays as it is. The guarantee has a
/// command of its own: [`StreamMut::change_guarantee`](crate::StreamMut::change_guarantee).
///
/// They hold from the next packet. The peer does not learn of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamParameters {
    /// Share among streams of equal priority; 1 to 10,000.
    pub weight: Option<u32>,
    /// [`StreamSpec::cap`]; `Some(None)`: no cap any more.
    pub cap: Option<Option<Rate>>,
    /// [`StreamSpec::drop`]; `Some(None)`: nothing is dropped any more.
    pub drop: Option<Option<DropOrder>>,
}

impl StreamParameters {
    pub(crate) fn apply(self, spec: &mut StreamSpec) {
        spec.weight = self.weight.unwrap_or(spec.weight);
        spec.cap = self.cap.unwrap_or(spec.cap);
        spec.drop = self.drop.unwrap_or(spec.drop);
    }
}
