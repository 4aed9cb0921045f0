//! Explanation of a stream's promise.

use crate::mapping::Term;
use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_spec::Guarantee;

use super::{
    Channels,
    notes::Note,
    stream::{Account, Promised},
};

/// The state of one stream's promise, and the decisions that led to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The stream.
    pub stream: StreamId,
    /// The guarantee that it demanded, or the smaller one that took its place after a warning.
    pub guarantee: Guarantee,
    /// The guarantee that it demands instead, and will get as soon as it can be promised; after an offer was taken for it, its
    /// own demand.
    pub wanted: Option<Guarantee>,
    /// The grade of the promise in force; `None`: there is none.
    pub term: Option<Term>,
    /// Time at which the promise lapses: unless a renewable one is renewed, or a durable one can be kept again, of which its owner
    /// was warned.
    pub until: Option<Instant>,
    /// True if its owner was warned and the reason persists.
    pub is_warned: bool,
    /// Its place in the order of precedence, from 0.
    pub rank: u32,
    /// Its paths, with the rate on each; empty while it is on none.
    pub shares: Vec<(ChannelId, Rate)>,
    /// Statistics of its windows.
    pub account: Account,
    /// Windows of capacity in the sample history.
    pub windows_known: usize,
    /// The last decisions, oldest first.
    pub notes: Vec<Note>,
}

impl Explanation {
    pub(super) fn new(
        stream: StreamId,
        entry: &Promised,
        rank: u32,
        channels: Channels<'_>,
        windows_known: usize,
    ) -> Self {
        let share = |&(path, rate): &(usize, f64)| {
            Some((channels.get(path).copied()??, Rate::from_bps(rate as u64)))
        };
        Self {
            stream,
            guarantee: entry.guarantee,
            wanted: entry
                .wanted
                .as_ref()
                .and_then(|spec| spec.guarantee.as_deref().copied())
                .or(entry.reduced.from),
            term: entry.is_in_force().then(|| entry.term()),
            until: entry.lapses_at(),
            is_warned: entry.is_warned(),
            rank,
            shares: entry.placement.shares.iter().filter_map(share).collect(),
            account: entry.account,
            windows_known,
            notes: entry.notes.iter().cloned().collect(),
        }
    }
}
