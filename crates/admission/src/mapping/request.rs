//! A stream to be mapped, and the order of precedence.

use std::{cmp::Ordering, time::Duration};

use anabranch_base::StreamId;

use super::{Capacity, Placement, Term};
use anabranch_spec::{ChannelMask, Demand, Guarantee};

/// Hold of a stream on its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// None yet, or for a term: the paths have to hold the rate for it.
    #[default]
    New,
    /// A durable promise in force: it was made with a margin, and stands while the paths hold the rate for either term.
    Standing,
    /// A promise in force that the paths may not hold any more. It keeps its place all the same, and leaves it to nobody who comes now.
    Kept,
}

/// A promised stream, or one that wants to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The stream; the order of ids decides between equals.
    pub stream: StreamId,
    /// The demand on each window.
    pub demand: Demand,
    /// The rate of that, in bits per second.
    pub rate_bps: f64,
    /// The window.
    pub window: Duration,
    /// x/y of its window constraint; 1 without one.
    pub constraint: f64,
    /// For how long.
    pub term: Term,
    /// Of what may fail (1 − P, or the bound on late packets), the share that is made use of; above 0, at most
    /// 1. Less than 1 when the stream's own windows have failed more often than was promised.
    pub caution: f64,
    /// Several paths may carry it.
    pub is_divisible: bool,
    /// The paths it may use.
    pub permitted: ChannelMask,
    /// Place where it has been; empty when it is new.
    pub before: Placement,
    /// Its hold on that.
    pub hold: Hold,
}

impl Request {
    /// The request of `guarantee` for the stream; divisible, on any path, new.
    pub fn new(stream: StreamId, guarantee: &Guarantee, term: Term) -> Self {
        Self {
            stream,
            demand: guarantee.demand,
            rate_bps: guarantee.required().as_bps() as f64,
            window: guarantee.window,
            constraint: guarantee.constraint(),
            term,
            caution: 1.0,
            is_divisible: true,
            permitted: ChannelMask::ALL,
            before: Placement::default(),
            hold: Hold::New,
        }
    }

    /// The share of windows that must be kept, with the caution that the stream is judged with; `None` for a bound
    /// on late packets.
    pub fn judged(&self) -> Option<f64> {
        match self.demand {
            Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => {
                Some(1.0 - (1.0 - probability) * self.caution)
            }
            Demand::Late { .. } => None,
        }
    }

    /// The rate that `set` holds for this stream with `probability`; `None` when too little is known.
    pub fn held(
        &self,
        set: ChannelMask,
        probability: f64,
        capacity: &mut dyn Capacity,
    ) -> Option<f64> {
        let terms: &[Term] = match self.hold {
            Hold::Standing => &[Term::Durable, Term::Renewable],
            Hold::New | Hold::Kept => &[self.term],
        };
        let held = terms
            .iter()
            .filter_map(|&term| capacity.holds(set, probability, term));
        held.reduce(f64::max)
    }

    /// Order of precedence: `Less` goes first.
    pub fn precedence(&self, other: &Self) -> Ordering {
        self.place().compare(&other.place())
    }

    fn place(&self) -> Precedence {
        Precedence::of(self.stream, &self.demand, self.constraint)
    }

    /// Brings requests into order of precedence.
    pub fn sort(requests: &mut [Self]) {
        requests.sort_by(Self::precedence);
    }

    /// The paths it may use, of the first `count`.
    pub(super) fn paths(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let permitted = self.permitted;
        (0..count).filter(move |&path| permitted.contains(path))
    }
}

/// Place of a stream in the order of precedence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Precedence {
    class: u8,
    /// The smaller, the stricter, within a class.
    strictness: f64,
    constraint: f64,
    pub(crate) stream: StreamId,
}

impl Precedence {
    /// Place of a stream with this demand, and this x/y of its window constraint.
    pub(crate) fn of(stream: StreamId, demand: &Demand, constraint: f64) -> Self {
        let (class, strictness) = match *demand {
            Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => {
                (0, 1.0 - probability)
            }
            Demand::Late { late_packets, .. } => (1, late_packets),
        };
        Self {
            class,
            strictness,
            constraint,
            stream,
        }
    }

    /// `Less` goes first. Streams with a probability come before those with a bound on late packets [IQ-Paths §V-B.2a, Table I].
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        (self.class.cmp(&other.class))
            .then(self.strictness.total_cmp(&other.strictness))
            .then(other.constraint.total_cmp(&self.constraint))
            .then(self.stream.cmp(&other.stream))
    }
}
