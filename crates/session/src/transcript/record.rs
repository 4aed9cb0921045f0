//! Records of a transcript.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_sched::{ChannelView, StreamView};
use anabranch_spec::{ChannelMask, Plan, Priority};

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Beginning of a part: what is known is stated again. The scheduler is built anew when such a part is the first that is read.
    Begin {
        /// Time.
        at: Instant,
        /// The session began here; otherwise it had run before.
        is_start: bool,
        /// Number of records that follow and state what was known before.
        restated: u64,
    },
    /// The policy in use from now on.
    Policy {
        /// Its text; empty: a scheduler of the application.
        policy: String,
        /// Seed of its random decisions.
        seed: u64,
    },
    /// A stream was opened, or had been before the part began.
    Opened {
        /// Time.
        at: Instant,
        /// The stream.
        stream: StreamId,
        /// Its label.
        label: String,
        /// Its priority.
        priority: Priority,
        /// Lost data is sent again.
        is_reliable: bool,
        /// Its lifetime.
        lifetime: Option<Duration>,
        /// Rate and window of its guarantee.
        guarantee: Option<(Rate, Duration)>,
    },
    /// An ADU was handed over.
    Adu {
        /// Time.
        at: Instant,
        /// Its stream.
        stream: StreamId,
        /// Its number there.
        sequence: u64,
        /// Its size.
        bytes: u64,
    },
    /// A stream is over.
    Over {
        /// The stream.
        stream: StreamId,
    },
    /// The state of a channel changed.
    Channel {
        /// Time.
        at: Instant,
        /// The channel.
        channel: ChannelId,
        /// The change.
        change: ChannelChange,
    },
    /// The outcome of a packet is known.
    Outcome {
        /// Time.
        at: Instant,
        /// The channel.
        channel: ChannelId,
        /// The container's number there.
        container: u64,
        /// The outcome.
        outcome: Outcome,
    },
    /// A new mapping of promised streams to paths.
    Plan {
        /// Time.
        at: Instant,
        /// The mapping.
        plan: Plan,
    },
    /// The policy is asked: a run of decisions begins.
    Run {
        /// Time.
        at: Instant,
        /// View of all channels.
        channels: Vec<ChannelView>,
        /// Views of streams: all, or those that changed.
        views: Vec<StreamView>,
        /// `views` is all.
        are_all: bool,
        /// The streams that changed; `None`: any may have.
        changed: Option<Vec<StreamId>>,
        /// Time at which promised data are expected.
        expected: Option<Instant>,
        /// The run follows objectives.
        is_planned: bool,
    },
    /// The policy decided to send.
    Decision {
        /// Index of the stream in the view.
        stream: usize,
        /// Indices of channels in the view.
        channels: ChannelMask,
        /// The ADU that it names; only of a run that follows objectives.
        adu: Option<u64>,
    },
    /// Data of a stream was put into the packet.
    Took {
        /// Index of the stream in the view.
        stream: usize,
        /// Bytes.
        bytes: usize,
    },
    /// A container was handed to a channel.
    Packet {
        /// The channel.
        channel: ChannelId,
        /// Its number there.
        container: u64,
        /// Its size.
        bytes: u64,
        /// Fragments in it.
        fragments: Vec<Fragment>,
    },
    /// A decision was carried out.
    Filled {
        /// Backlog and deadline of streams, by index in the view.
        views: Vec<(usize, u64, Option<Instant>)>,
        /// Bytes in flight on each of the decision's channels; empty: nothing was sent.
        in_flight: Vec<u64>,
    },
    /// It turned out that a stream has nothing that may be sent.
    Rested {
        /// Index of the stream in the view.
        stream: usize,
    },
    /// The policy waits: the run is over.
    Wait,
}

/// A fragment in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fragment {
    /// Its stream.
    pub stream: StreamId,
    /// Its ADU.
    pub sequence: u64,
    /// Position in the ADU at which it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// It had been sent before, and its loss was not certain.
    pub is_copy: bool,
}

/// Change of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelChange {
    /// It is being opened.
    Opened,
    /// It can carry data.
    Connected,
    /// Acknowledgements have stopped.
    Suspected,
    /// They arrive again.
    Recovered,
    /// It is over.
    Closed,
}

impl ChannelChange {
    pub(super) const ALL: [Self; 5] = [
        Self::Opened,
        Self::Connected,
        Self::Suspected,
        Self::Recovered,
        Self::Closed,
    ];
}

/// Outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was acknowledged after this time.
    Acked(Duration),
    /// It was declared lost.
    Lost,
}
