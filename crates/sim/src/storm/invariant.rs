//! Invariants that hold in every storm.

/// Invariants of every storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Delivered data has the bytes that were sent, and gaps only where they are marked.
    Intact,
    /// No ADU is delivered twice.
    Once,
    /// Ordered streams deliver in order.
    Order,
    /// The engine's numbers of ADUs are the application's, at both ends; nothing is delivered that was not sent.
    Identity,
    /// Reliable streams without lifetime deliver every ADU.
    Complete,
    /// Both ends of a stream are notified once that it is over.
    End,
    /// Every ADU has exactly one outcome.
    OneOutcome,
    /// Every acknowledged ADU was delivered.
    AckedDelivered,
    /// Reliable streams lose nothing.
    ReliableKept,
    /// An ADU reported as dropped before it was sent is not delivered.
    DroppedUnsent,
    /// The parts of a lost ADU reported to the sender are those that the receiver has.
    PartsReported,
    /// Codes of resets and stops are those of the other end, and nothing is delivered afterwards.
    GivenUp,
    /// Nothing of an ADU is sent after its lifetime.
    Lifetime,
    /// The session survives the faults.
    SessionLives,
    /// The two nodes have one session.
    OneSession,
    /// Send buffers stay within their bound.
    SendBuffer,
    /// Data waiting to be read stays within the session's window.
    SessionWindow,
    /// Data of a reliable stream waiting to be read stays within the stream's window.
    StreamWindow,
    /// Copies stay within their budget.
    Copies,
    /// Capped streams stay within their caps.
    Cap,
    /// No more is promised on a path than it can carry.
    Promised,
    /// The account of a promise agrees with what was acknowledged.
    PromiseAccount,
    /// The state of a promise is that of its last event.
    PromiseState,
    /// A metered path carries no byte beyond its cap.
    Budget,
    /// The network accounts for every packet, and keeps order where it promises to.
    Network,
    /// The process holds no more memory than the windows in use allow.
    Memory,
}

impl Invariant {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Intact,
        Self::Once,
        Self::Order,
        Self::Identity,
        Self::Complete,
        Self::End,
        Self::OneOutcome,
        Self::AckedDelivered,
        Self::ReliableKept,
        Self::DroppedUnsent,
        Self::PartsReported,
        Self::GivenUp,
        Self::Lifetime,
        Self::SessionLives,
        Self::OneSession,
        Self::SendBuffer,
        Self::SessionWindow,
        Self::StreamWindow,
        Self::Copies,
        Self::Cap,
        Self::Promised,
        Self::PromiseAccount,
        Self::PromiseState,
        Self::Budget,
        Self::Network,
        Self::Memory,
    ];
}
