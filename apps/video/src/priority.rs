//! What goes first in a pipe.

use anabranch::Priority;

/// The enhanced flows: they yield first.
pub(crate) const ENHANCED: Priority = Priority::NORMAL;
/// What a viewer waits for, after a seek or at the start.
pub(crate) const FETCH: Priority = Priority(144);
/// The essential flows. They ask for no more than they need, so that they hold nothing up.
pub(crate) const ESSENTIAL: Priority = Priority(160);
