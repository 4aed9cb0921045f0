//! Capacity of sets of paths, as the mapping needs it.

use anabranch_spec::ChannelMask;

/// For how long a promise is to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// Until the stream closes.
    Durable,
    /// For the usual term, then it is made anew.
    Renewable,
}

/// Known capacity of paths, which are numbered from 0. Rates are in bits per second.
pub trait Capacity {
    /// Number of paths, at most 64.
    fn paths(&self) -> usize;

    /// The rate that the paths of `set` together reach in a share `probability` of the windows of `term`;
    /// `None` when too little is known, or `term` cannot be had on these paths. It never falls when
    /// `probability` does.
    fn holds(&mut self, set: ChannelMask, probability: f64, term: Term) -> Option<f64>;

    /// Mean of what the paths of `set` together lack of `need_bps`, E\[(need − b)⁺\] [IQ-Paths Lemma 2];
    /// `None` as for [`Capacity::holds`].
    fn shortfall(&mut self, set: ChannelMask, need_bps: f64, term: Term) -> Option<f64>;

    /// Of `late_bps`, which may be missing on average, the most that [`Capacity::shortfall`] may return so that no more
    /// *is* missing in the windows to come; `None` as for [`Capacity::holds`]. All of it, where what is known
    /// is what comes.
    fn allowed(&mut self, set: ChannelMask, late_bps: f64, term: Term) -> Option<f64> {
        let _ = (set, term);
        Some(late_bps)
    }

    /// Probabilities that can be promised, descending.
    fn probabilities(&self) -> &[f64];
}
