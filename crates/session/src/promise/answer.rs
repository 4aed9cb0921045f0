//! What an application is told that asked for a promise.

use std::{fmt, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_sched::{
    Guarantee,
    mapping::{Offer, Placement, Term},
};

use super::Channels;

/// A promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// What is promised.
    pub guarantee: Guarantee,
    /// For how long.
    pub term: Term,
    /// When a renewable promise lapses unless it is renewed.
    pub until: Option<Instant>,
    /// The paths that are to carry it, with the rate on each.
    pub shares: Vec<(ChannelId, Rate)>,
}

impl Grant {
    pub(super) fn new(
        now: Instant,
        guarantee: &Guarantee,
        term: Term,
        placement: &Placement,
        channels: Channels<'_>,
    ) -> Self {
        Self {
            guarantee: *guarantee,
            term,
            until: (term == Term::Renewable).then(|| now + guarantee.term),
            shares: placement
                .shares
                .iter()
                .filter_map(|&(path, rate)| {
                    Some((channels.get(path).copied()??, Rate::from_bps(rate as u64)))
                })
                .collect(),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term {
            Term::Standing => write!(f, "standing, ")?,
            Term::Renewable => write!(f, "renewable every {:?}, ", self.guarantee.term)?,
        }
        write!(f, "on")?;
        for (index, (channel, rate)) in self.shares.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma} {channel} {rate}")?;
        }
        Ok(())
    }
}

/// Why nothing is promised.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The spec asks for no guarantee.
    NoGuarantee,
    /// Capacity is not known for long enough.
    TooLittleKnown {
        /// Windows known so far.
        windows: usize,
        /// The grade that was tried last.
        term: Term,
    },
    /// The paths that come closest hold too little at the probability asked for.
    TooLittle {
        /// These channels.
        channels: Vec<ChannelId>,
        /// What they hold together.
        holds: Rate,
        /// What streams before this one were promised of that.
        taken: Rate,
    },
    /// A stream that has a promise would lose it.
    Displaces(StreamId),
    /// The window is shorter than what capacity is measured in.
    Window {
        /// The shortest.
        shortest: Duration,
    },
}

/// A refusal, with what could be promised instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// What would be admitted.
    pub offer: Offer,
}

impl Refusal {
    pub(crate) fn bare(reason: Reason) -> Self {
        Self {
            reason,
            offer: Offer::default(),
        }
    }
}

impl Refusal {
    /// The window is shorter than the `shortest`.
    pub(crate) fn of_window(shortest: Duration) -> Self {
        Self::bare(Reason::Window { shortest })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGuarantee => write!(f, "the stream asks for no guarantee"),
            Self::TooLittleKnown { windows, .. } => write!(
                f,
                "too little is known of the paths after {windows} windows with traffic; send on, or open the \
                 stream without waiting for a promise, and ask again"
            ),
            Self::TooLittle {
                channels,
                holds,
                taken,
            } => {
                for (index, channel) in channels.iter().enumerate() {
                    let joint = if index == 0 { "" } else { " and " };
                    write!(f, "{joint}{channel}")?;
                }
                write!(
                    f,
                    " hold {holds} at that probability, of which {taken} are promised"
                )
            }
            Self::Displaces(stream) => {
                write!(f, "{stream}, which has a promise, would lose it")
            }
            Self::Window { shortest } => write!(
                f,
                "the window is shorter than {shortest:?}, in which capacity is measured"
            ),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        let Offer {
            rate,
            probability,
            reduction,
        } = &self.offer;
        if rate.is_none() && probability.is_none() && reduction.is_none() {
            return write!(f, "; nothing can be offered instead");
        }
        write!(f, "; could be promised:")?;
        if let Some(rate) = rate {
            write!(f, " {rate} at that probability;")?;
        }
        if let Some(probability) = probability {
            write!(f, " that rate in {} % of windows;", probability * 100.0)?;
        }
        if let Some(reduction) = reduction {
            if reduction.to == Rate::ZERO {
                write!(f, " all of it without {}'s promise;", reduction.stream)?;
            } else {
                write!(
                    f,
                    " all of it with {} at {};",
                    reduction.stream, reduction.to
                )?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
