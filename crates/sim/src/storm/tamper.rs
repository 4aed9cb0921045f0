//! Deliberate faults: each breaks one invariant, so that a check that cannot fail is detected.
//!
//! They are placed between the engine and the application of a storm ([`Actor`](super::actor::Actor)), or between the
//! world and the checks; the engine itself is the one that is shipped.

use anabranch_base::{Instant, SessionId};
use anabranch_session::{Adu, Event, Order, StreamEvent, StreamSpec};

use super::{invariant::Invariant, ledger::Flow};

/// A deliberate fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tamper {
    /// A byte of an ADU is changed.
    Corrupt,
    /// An ADU is delivered twice.
    Duplicate,
    /// Two ADUs of an ordered stream are delivered in the wrong order.
    Swap,
    /// An ADU gets the number of the next.
    Renumber,
    /// An ADU of a reliable stream is lost on its way to the application.
    Lose,
    /// An ADU of a stream with a lifetime is recorded as sent an hour later.
    Delay,
    /// The receiver is not notified of a stream's end.
    SwallowEnd,
    /// The sender is not notified of an acknowledgement.
    SwallowOutcome,
    /// The sender is notified of an acknowledgement twice.
    RepeatOutcome,
    /// An ADU that was lost is reported as acknowledged.
    ForgeAck,
    /// An ADU that was acknowledged is reported as lost.
    ForgeLoss,
    /// An ADU that was acknowledged is reported as dropped before it was sent.
    ForgeDrop,
    /// The parts of a lost ADU that arrived and those that did not are exchanged.
    ExchangeParts,
    /// The code of a reset or a stop is replaced by another.
    ChangeCode,
    /// An ADU is delivered once more after the stream was given up.
    Linger,
    /// The session is closed by its initiator.
    CloseSession,
    /// A second session is opened beside the first.
    ConnectAgain,
    /// A gibibyte more is held for sending than is reported.
    InflateHeldForSending,
    /// A gibibyte more is held for reading by the session.
    InflateHeldForReading,
    /// A gibibyte more is held for reading by one stream.
    InflateStreamHeld,
    /// A mebibyte more was copied.
    InflateCopies,
    /// Capped streams send a megabyte more each second.
    InflateRate,
    /// A hundred times as much is promised.
    InflatePromise,
    /// Windows are judged the other way round.
    MisjudgeWindow,
    /// The sender is not notified of a promise.
    SwallowPromise,
    /// A metered path carries twice its cap.
    Overspend,
    /// A packet that no node sent is put on a wire.
    Smuggle,
    /// 256 MiB are allocated and kept.
    Leak,
}

impl Tamper {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::Corrupt,
        Self::Duplicate,
        Self::Swap,
        Self::Renumber,
        Self::Lose,
        Self::Delay,
        Self::SwallowEnd,
        Self::SwallowOutcome,
        Self::RepeatOutcome,
        Self::ForgeAck,
        Self::ForgeLoss,
        Self::ForgeDrop,
        Self::ExchangeParts,
        Self::ChangeCode,
        Self::Linger,
        Self::CloseSession,
        Self::ConnectAgain,
        Self::InflateHeldForSending,
        Self::InflateHeldForReading,
        Self::InflateStreamHeld,
        Self::InflateCopies,
        Self::InflateRate,
        Self::InflatePromise,
        Self::MisjudgeWindow,
        Self::SwallowPromise,
        Self::Overspend,
        Self::Smuggle,
        Self::Leak,
    ];

    /// The invariant that must report it.
    pub fn breaks(self) -> Invariant {
        match self {
            Self::Corrupt => Invariant::Intact,
            Self::Duplicate => Invariant::Once,
            Self::Swap => Invariant::Order,
            Self::Renumber => Invariant::Identity,
            Self::Lose => Invariant::Complete,
            Self::Delay => Invariant::Lifetime,
            Self::SwallowEnd => Invariant::End,
            Self::SwallowOutcome | Self::RepeatOutcome => Invariant::OneOutcome,
            Self::ForgeAck => Invariant::AckedDelivered,
            Self::ForgeLoss => Invariant::ReliableKept,
            Self::ForgeDrop => Invariant::DroppedUnsent,
            Self::ExchangeParts => Invariant::PartsReported,
            Self::ChangeCode | Self::Linger => Invariant::GivenUp,
            Self::CloseSession => Invariant::SessionLives,
            Self::ConnectAgain => Invariant::OneSession,
            Self::InflateHeldForSending => Invariant::SendBuffer,
            Self::InflateHeldForReading => Invariant::SessionWindow,
            Self::InflateStreamHeld => Invariant::StreamWindow,
            Self::InflateCopies => Invariant::Copies,
            Self::InflateRate => Invariant::Cap,
            Self::InflatePromise => Invariant::Promised,
            Self::MisjudgeWindow => Invariant::PromiseAccount,
            Self::SwallowPromise => Invariant::PromiseState,
            Self::Overspend => Invariant::Budget,
            Self::Smuggle => Invariant::Network,
            Self::Leak => Invariant::Memory,
        }
    }
}

/// State of a deliberate fault in one node.
#[derive(Debug, Default)]
pub(super) struct Tampering {
    what: Option<Tamper>,
    /// True if a fault that happens once has happened.
    is_done: bool,
    kept: Option<(Flow, Adu)>,
    ballast: Vec<u8>,
}

impl Tampering {
    pub(super) fn new(what: Option<Tamper>) -> Self {
        Self {
            what,
            ..Self::default()
        }
    }

    pub(super) fn what(&self) -> Option<Tamper> {
        self.what
    }

    /// True if `what` is to happen now; it happens once.
    pub(super) fn once(&mut self, what: Tamper) -> bool {
        let happens = self.what == Some(what) && !self.is_done;
        self.is_done |= happens;
        happens
    }

    pub(super) fn leak(&mut self) {
        self.ballast = vec![1; 256 << 20];
    }

    /// ADU delivered to the application in place of the original.
    pub(super) fn of_adu(
        &mut self,
        mut adu: Adu,
        departed: Option<Instant>,
        flow: Flow,
        spec: &StreamSpec,
    ) -> Vec<(Adu, Option<Instant>)> {
        if self.what == Some(Tamper::Linger) && self.kept.is_none() {
            self.kept = Some((flow, adu.clone()));
        }
        let is_plain = spec.reliable && spec.lifetime.is_none();
        if self.once(Tamper::Corrupt) {
            let mut data = adu.data.to_vec();
            let last = data.len() - 1;
            data[last] ^= 1;
            adu.data = data.into();
        } else if self.once(Tamper::Renumber) {
            adu.sequence += 1;
        } else if self.once(Tamper::Duplicate) {
            return vec![(adu.clone(), departed), (adu, departed)];
        } else if is_plain && self.once(Tamper::Lose) {
            return Vec::new();
        } else if let Some(at) = departed
            && spec.lifetime.is_some()
            && self.once(Tamper::Delay)
        {
            return vec![(adu, Some(at + std::time::Duration::from_secs(3600)))];
        } else if self.what == Some(Tamper::Swap) && !self.is_done && spec.order == Order::Ordered {
            return match self.kept.take() {
                Some((of, before)) if of == flow => {
                    self.is_done = true;
                    vec![(adu, departed), (before, departed)]
                }
                Some((of, before)) => {
                    self.kept = Some((of, before));
                    vec![(adu, departed)]
                }
                None => {
                    self.kept = Some((flow, adu));
                    Vec::new()
                }
            };
        }
        vec![(adu, departed)]
    }

    /// Events passed to the application in place of the original.
    pub(super) fn of_event(&mut self, event: Event) -> Vec<Event> {
        match event {
            Event::Finished { .. } if self.once(Tamper::SwallowEnd) => Vec::new(),
            Event::Promise { .. } if self.once(Tamper::SwallowPromise) => Vec::new(),
            Event::Stream {
                event: StreamEvent::Acked { .. },
                ..
            } if self.once(Tamper::SwallowOutcome) => Vec::new(),
            Event::Stream {
                event: StreamEvent::Acked { .. },
                ..
            } if self.once(Tamper::RepeatOutcome) => vec![event.clone(), event],
            Event::Stream {
                session,
                stream,
                event: StreamEvent::Acked { adu, .. },
            } if self.what == Some(Tamper::ForgeLoss) => vec![Event::Stream {
                session,
                stream,
                event: StreamEvent::Lost {
                    adu,
                    arrived: Vec::new(),
                    lost: Vec::new(),
                },
            }],
            Event::Stream {
                session,
                stream,
                event: StreamEvent::Acked { adu, .. },
            } if self.once(Tamper::ForgeDrop) => vec![Event::Stream {
                session,
                stream,
                event: StreamEvent::Dropped { adu },
            }],
            Event::Stream {
                session,
                stream,
                event: StreamEvent::Lost { adu, arrived, lost },
            } => self.of_loss(session, stream, adu, (arrived, lost)),
            Event::Reset {
                session,
                stream,
                code,
            } if self.once(Tamper::ChangeCode) => vec![Event::Reset {
                session,
                stream,
                code: code ^ 1,
            }],
            Event::Stopped {
                session,
                stream,
                code,
            } if self.once(Tamper::ChangeCode) => vec![Event::Stopped {
                session,
                stream,
                code: code ^ 1,
            }],
            Event::Reset {
                session, stream, ..
            } => {
                let mut events = vec![event];
                if let Some((_, adu)) = self.kept.take().filter(|_| self.once(Tamper::Linger)) {
                    events.push(Event::Remainder {
                        session,
                        stream,
                        adus: vec![adu],
                        is_end: false,
                    });
                }
                events
            }
            event => vec![event],
        }
    }

    fn of_loss(
        &self,
        session: SessionId,
        stream: anabranch_base::StreamId,
        adu: u64,
        (arrived, lost): (Vec<std::ops::Range<u64>>, Vec<std::ops::Range<u64>>),
    ) -> Vec<Event> {
        let (arrived, lost) = match self.what {
            Some(Tamper::ForgeAck) => {
                return vec![Event::Stream {
                    session,
                    stream,
                    event: StreamEvent::Acked {
                        adu,
                        rtt: std::time::Duration::ZERO,
                        channel: anabranch_base::ChannelId(0),
                        packet_rtt: std::time::Duration::ZERO,
                    },
                }];
            }
            Some(Tamper::ExchangeParts) => (lost, arrived),
            _ => (arrived, lost),
        };
        vec![Event::Stream {
            session,
            stream,
            event: StreamEvent::Lost { adu, arrived, lost },
        }]
    }
}
