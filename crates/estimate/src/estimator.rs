//! Estimator of the paths of one session.

use std::time::Duration;

use anabranch_base::{ChannelId, Instant, SocketId};
use anabranch_spec::{Correlation, Slot};
use anabranch_stats::joint::Cell;

use crate::{
    model::{Choice, Packet, Supply, Technology},
    models::Models,
    on_time::Question,
    order::PacketOrder,
    paths::{Ends, Paths, Replaced},
    report::PathReport,
};

/// Acknowledgement of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acked {
    /// Number of the packet on its channel.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// Time at which it was sent.
    pub sent_at: Instant,
    /// Time from sending to the acknowledgement.
    pub rtt: Duration,
}

/// Estimates of all paths of a session, from its packets and their outcomes.
///
/// For each channel, calls come in the order of time: [`sent`](Self::sent) for each packet, numbers ascending, then one of
/// [`acked`](Self::acked) and [`lost`](Self::lost), in any order of packets.
#[derive(Debug)]
pub struct Estimator {
    orders: Vec<(ChannelId, PacketOrder)>,
    paths: Paths,
    models: Models,
}

impl Estimator {
    /// Creates an estimator that measures bandwidth in windows of `window`, 100 ms to 1 s.
    pub fn new(window: Duration) -> Self {
        Self {
            orders: Vec::new(),
            paths: Paths::new(window),
            models: Models::default(),
        }
    }

    /// Adds a channel that uses the path with these ends; estimates of that path, or of one whose place it takes, are kept
    /// ([`Self::take_replaced`]).
    pub fn join(&mut self, channel: ChannelId, ends: Ends) {
        if self.order(channel).is_none() {
            self.orders.push((channel, PacketOrder::new()));
        }
        self.paths.join(channel, ends);
    }

    /// Removes a channel that is over; another one may use its path later.
    pub fn leave(&mut self, channel: ChannelId) {
        self.orders.retain(|&(id, _)| id != channel);
        self.paths.leave(channel);
        self.models.close(channel);
    }

    /// Paths whose places in the rows became those of others since the last call.
    pub fn take_replaced(&mut self) -> Vec<Replaced> {
        self.paths.take_replaced()
    }

    fn order(&mut self, channel: ChannelId) -> Option<&mut PacketOrder> {
        let mut orders = self.orders.iter_mut();
        orders.find_map(|(id, order)| (*id == channel).then_some(order))
    }

    /// Records that packet `number` of `bytes` was sent on `channel`.
    pub fn sent(&mut self, at: Instant, channel: ChannelId, number: u64, bytes: usize) {
        self.paths.sent(at, channel, bytes);
        let Some(index) = self.order(channel).and_then(|order| order.sent(number, at)) else {
            return;
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.models.sent(channel, Packet { index, at, bytes });
    }

    /// Records that a packet was acknowledged at `now`.
    pub fn acked(&mut self, now: Instant, channel: ChannelId, acked: Acked) {
        self.paths
            .acked(channel, acked.bytes, acked.sent_at, acked.rtt);
        self.observe(now, channel, acked.number, acked.sent_at, Some(acked.rtt));
    }

    /// Records that packet `number`, sent at `sent_at`, was declared lost at `now`.
    pub fn lost(&mut self, now: Instant, channel: ChannelId, number: u64, sent_at: Instant) {
        self.paths.lost(channel);
        self.observe(now, channel, number, sent_at, None);
    }

    fn observe(
        &mut self,
        now: Instant,
        channel: ChannelId,
        number: u64,
        sent_at: Instant,
        rtt: Option<Duration>,
    ) {
        let mut orders = self.orders.iter_mut();
        let Some((_, order)) = orders.find(|(id, _)| *id == channel) else {
            return;
        };
        let outcome = match rtt {
            Some(rtt) => order.acked(number, now, rtt),
            None => order.lost(number, now),
        };
        let Some(outcome) = outcome else { return };
        self.paths.settle(channel, outcome.settled);
        self.models.observe(channel, &outcome, sent_at);
    }

    /// Records that `channel` had capacity and there was nothing to send.
    pub fn ran_dry(&mut self, channel: ChannelId) {
        self.paths.ran_dry(channel);
    }

    /// Records whether data of the session waits for its paths from now on: then what they carry is all that they have for it.
    pub fn note_backlog(&mut self, is_there: bool) {
        self.paths.note_backlog(is_there);
    }

    /// Records that data waits which no path takes: that they carry nothing is measured, too.
    pub fn waits(&mut self, now: Instant) {
        self.paths.measure(now);
    }

    /// Time at which [`Self::advance`] is due; `None` while nothing is sent.
    pub fn due(&self) -> Option<Instant> {
        self.paths.due()
    }

    /// Evaluates the windows that have ended by `now`, and passes the row of samples of each to `row`: a cell for each path, in
    /// the order of [`Self::channels`].
    pub fn advance(&mut self, now: Instant, row: impl FnMut(&[Cell])) {
        self.paths.advance(now, row);
    }

    /// The channel of each path, in the order of the cells of a row; `None` while a path has none.
    pub fn channels(&self) -> impl Iterator<Item = Option<ChannelId>> {
        self.paths.channels()
    }

    /// The local socket of each path, in the same order.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> {
        self.paths.sockets()
    }

    /// Place of the channel's path in a row of samples; `None` if it is not measured.
    pub fn place(&self, channel: ChannelId) -> Option<usize> {
        self.paths.place(channel)
    }

    /// Probability that so many packets in a row are sent without a loss on the path in this place, from the last 2,000; 1 before
    /// anything is known.
    pub fn loss_free(&self, place: usize, packets: usize) -> f64 {
        self.paths.loss_free(place, packets)
    }

    /// Probability that the data of `question`, whose window and phase are those of this estimator at `now`, arrives in time;
    /// `None` while too little is known.
    pub fn on_time(&self, now: Instant, question: Question<'_>) -> Option<f64> {
        self.paths.on_time(now, question)
    }

    /// True if two channels are found to share a bottleneck.
    pub fn share_bottleneck(&self, one: ChannelId, other: ChannelId) -> bool {
        self.paths.share_bottleneck(one, other)
    }

    /// Estimates of the path of `channel`; `None` before anything was measured.
    pub fn report(&mut self, channel: ChannelId) -> Option<PathReport> {
        self.paths.report(channel)
    }

    /// Begins to model each of these channels that has no model yet. A model learns from the packets that are sent from now on.
    pub fn model(&mut self, channels: impl Iterator<Item = ChannelId>, choice: Choice) {
        self.models.open(channels, choice);
    }

    /// Drops all models.
    pub fn drop_models(&mut self) {
        self.models.clear();
    }

    /// Technology of the channel's model, configured or recognised; `None` without a model.
    pub fn technology(&self, channel: ChannelId) -> Option<Technology> {
        self.models.technology(channel)
    }

    /// Adds the slots of the channel that has index `at` in a cycle, those that exist first, then phantoms of the coming
    /// `look_ahead`. Nothing for a channel without a model.
    pub fn offer(
        &mut self,
        at: usize,
        (channel, supply): (ChannelId, &Supply),
        look_ahead: Duration,
        slots: &mut Vec<Slot>,
    ) {
        self.models.offer(at, (channel, supply), look_ahead, slots);
    }

    /// Writes the correlation of losses between the channels of a cycle.
    pub fn correlate(&self, channels: &[ChannelId], correlation: &mut Correlation) {
        self.models.correlate(channels, correlation);
    }
}

#[cfg(test)]
mod tests;
