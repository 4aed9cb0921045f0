//! Drop orders of streams that have more to send than they may.

/// The ADUs that are dropped first when an unreliable stream's queue is longer than its share can send in time. None
/// that has begun to be sent is dropped, and the last one waiting stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropOrder {
    /// The oldest: positions, pictures, whatever the newest makes obsolete.
    Oldest,
    /// The newest: what was accepted is kept.
    Newest,
    /// The one with the smallest importance, which the application gave each ADU; of equals the oldest.
    LeastImportant,
}
