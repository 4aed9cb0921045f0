//! Channels of a session: the state of each, the links that they are dialled on, their rates and measurements.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, SocketId};
use anabranch_channel::{CloseReason, Endpoint, Liveness, QueueGoal};
use anabranch_estimate::{Ends, Estimator};

use super::{coupling::Couplings, latency::Traffic, probing::Probing, taken_out::Orders};
use anabranch_metering::{Marginal, Quotas};
use anabranch_spec::{PathPrice, PathTraits};

use crate::{
    attempt::Attempt,
    flight::Flight,
    links::{Link, LinkState},
    local::LocalDescription,
    report::Collector,
    stats::{ChannelReport, ChannelStatus},
    wire::Control,
};

/// State of a channel in its session. Key: channel.
#[derive(Debug)]
pub(crate) struct ChannelState {
    pub(crate) id: ChannelId,
    /// Description of its local socket.
    pub(super) description: Arc<LocalDescription>,
    pub(super) flight: Flight,
    /// True if the peer has acknowledged a container that names the session of this channel.
    pub(super) introduced: bool,
    pub(super) connected: bool,
    pub(super) suspected: bool,
    /// Parameters that were set on the channel last.
    pub(super) given: Given,
    /// Rate that it holds instead of the session's.
    own_rate: Option<Rate>,
    /// Congestion events that its partners were notified of; kept while it is coupled.
    pub(super) congestion_reported: Option<u64>,
    /// Cost of the next byte.
    pub(super) marginal: Marginal,
    pub(super) barred: Barred,
    pub(super) collector: Collector,
    pub(super) peer_report: Option<Control>,
    pub(super) timestamp_at: Instant,
    pub(super) payload_sent_bytes: u64,
    pub(super) payload_received_bytes: u64,
    /// Control frames for this channel only.
    pub(super) control: VecDeque<Control>,
    /// Containers sent.
    pub(super) launched: u64,
    /// Time of the last one.
    pub(super) launched_at: Option<Instant>,
    /// Time at which it was opened, or last carried something besides reports.
    pub(super) active_at: Instant,
}

/// Causes for which a channel carries no data of streams. Key: channel.
#[derive(Debug, Default)]
pub(super) struct Barred {
    /// No slot is left of its quota.
    pub(super) is_used_up: bool,
    /// Its user has taken the path out of use.
    pub(super) is_out: bool,
}

/// Parameters of a channel that the session sets. Key: channel.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) queue_goal: QueueGoal,
    /// Rate to hold; `None`: as configured.
    pub(super) rate: Option<Rate>,
    /// Share of one flow at the bottleneck that it shares with coupled channels; 1 if it is not coupled.
    pub(super) share: f64,
    /// Queue of its packets by the peer's latest report, until the channel has it.
    reported_queue: Option<Duration>,
}

impl ChannelState {
    fn new(now: Instant, id: ChannelId) -> Self {
        Self {
            id,
            description: Arc::default(),
            flight: Flight::default(),
            introduced: false,
            connected: false,
            suspected: false,
            given: Given {
                queue_goal: QueueGoal::default(),
                rate: None,
                share: 1.0,
                reported_queue: None,
            },
            own_rate: None,
            congestion_reported: None,
            marginal: Marginal::FREE,
            barred: Barred::default(),
            collector: Collector::new(now),
            peer_report: None,
            timestamp_at: Instant::EPOCH,
            payload_sent_bytes: 0,
            payload_received_bytes: 0,
            control: VecDeque::new(),
            launched: 0,
            launched_at: None,
            active_at: now,
        }
    }

    /// True if the channel can carry new data: connected, and not silent.
    pub(super) fn is_usable(&self) -> bool {
        self.connected && !self.suspected
    }

    /// Price of the next byte, if it has one.
    fn price(&self) -> Option<PathPrice> {
        let unit = self.marginal.unit;
        let price = self.marginal.price.filter(|price| !price.is_free());
        price.map(|price| PathPrice { unit, price })
    }

    /// True if `traits` are still those of its path.
    pub(super) fn has_traits(&self, traits: &PathTraits) -> bool {
        self.marginal.is_metered == traits.is_metered
            && self.barred.is_used_up == traits.is_used_up
            && self.barred.is_out == traits.is_out
            && self.price() == traits.price
    }

    /// Properties of its path that preferences select by.
    pub(super) fn traits(&self) -> PathTraits {
        PathTraits {
            interface: self.description.name.clone(),
            technology: self.description.technology.clone(),
            is_metered: self.marginal.is_metered,
            price: self.price(),
            is_used_up: self.barred.is_used_up,
            is_out: self.barred.is_out,
        }
    }

    fn status(&self) -> ChannelStatus {
        match self.suspected {
            true => ChannelStatus::Suspected,
            false => ChannelStatus::Active,
        }
    }
}

/// Channels in the order in which they were opened. Key: session.
#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) states: Vec<ChannelState>,
    pub(crate) links: Vec<LinkState>,
    /// Rate for channels whose controllers hold a fixed rate; `None`: as configured.
    rate: Option<Rate>,
    /// Time since which there has been no connected channel.
    alone_since: Option<Instant>,
    pub(super) couplings: Couplings,
    pub(super) estimator: Estimator,
    pub(super) probing: Probing,
    /// Paths out of use.
    pub(super) orders: Orders,
    /// Channels to ping in the next run of the pump.
    pub(super) pings: Vec<ChannelId>,
}

impl Channels {
    /// Creates the state of a session without channels; their paths will be measured in windows of `measure_window`.
    pub(super) fn new(now: Instant, measure_window: Duration) -> Self {
        Self {
            states: Vec::new(),
            links: Vec::new(),
            rate: None,
            alone_since: Some(now),
            couplings: Couplings::default(),
            estimator: Estimator::new(measure_window),
            probing: Probing::default(),
            orders: Orders::default(),
            pings: Vec::new(),
        }
    }

    pub(super) fn get(&self, id: ChannelId) -> Option<&ChannelState> {
        self.states.iter().find(|state| state.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ChannelId) -> Option<&mut ChannelState> {
        self.states.iter_mut().find(|state| state.id == id)
    }

    /// Adds a channel that is being opened.
    pub(super) fn add(&mut self, now: Instant, id: ChannelId) {
        if self.states.is_empty() {
            // Most sessions of strangers never have a second channel.
            self.states.reserve_exact(1);
        }
        self.states.push(ChannelState::new(now, id));
    }

    /// Notes that a channel can carry data; `introduced`: the peer knows its session.
    pub(super) fn on_connected(&mut self, id: ChannelId, introduced: bool) {
        if let Some(state) = self.get_mut(id) {
            state.connected = true;
            state.introduced = introduced;
        }
        self.alone_since = None;
        if let Some(link) = self.links.iter_mut().find(|link| link.channel == Some(id)) {
            link.on_connected();
        }
    }

    /// Removes a channel that is over. All outcomes of its packets are known.
    pub(super) fn on_closed(&mut self, now: Instant, id: ChannelId, reason: &CloseReason) {
        assert!(
            self.get(id).is_none_or(|state| state.flight.is_empty()),
            "a channel closes when all outcomes are known"
        );
        self.states.retain(|state| state.id != id);
        self.estimator.leave(id);
        let is_alone = !self.is_connected();
        for link in &mut self.links {
            if link.channel == Some(id) {
                link.on_closed(now, reason.clone(), !is_alone);
            }
        }
        if is_alone && self.alone_since.is_none() {
            self.alone_since = Some(now);
            self.wake_links(now);
        }
    }

    /// Measures the path of a channel from now on.
    pub(super) fn measure(&mut self, id: ChannelId, socket: SocketId, remote: SocketAddr) {
        let interface = self
            .get(id)
            .and_then(|state| state.description.name.clone());
        let ends = Ends {
            socket,
            interface,
            remote,
        };
        self.estimator.join(id, ends);
    }

    /// Channel of each measured path, in the order of the measurements.
    pub(super) fn of_paths(&self) -> Vec<Option<ChannelId>> {
        self.estimator.channels().collect()
    }

    /// Properties of each measured path, in the same order; those of a path without a channel are unknown.
    pub(super) fn traits_of_paths(&self) -> Vec<PathTraits> {
        let traits = |channel: Option<ChannelId>| {
            let state = channel.and_then(|channel| self.get(channel));
            state.map(ChannelState::traits).unwrap_or_default()
        };
        self.estimator.channels().map(traits).collect()
    }

    /// Time at which a session without a connected channel is given up.
    pub(super) fn deadline(&self, timeout: Duration) -> Option<Instant> {
        self.alone_since.map(|since| since + timeout)
    }

    /// True if a channel can carry data, or could before it fell silent.
    pub(crate) fn is_connected(&self) -> bool {
        self.states.iter().any(|state| state.connected)
    }

    pub(super) fn set_socket_up(&mut self, now: Instant, socket: SocketId, up: bool) {
        for link in &mut self.links {
            if link.link.socket == socket {
                link.set_up(now, up);
            }
        }
        if up {
            self.wake_links(now);
        }
    }

    /// Dials links soon that rest because they have never answered.
    pub(crate) fn wake_links(&mut self, now: Instant) {
        for link in &mut self.links {
            link.wake(now);
        }
    }

    /// Result of the latest attempt on each link.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        let attempt = |state: &LinkState| Attempt {
            socket: state.link.socket,
            interface: None,
            remote: state.link.remote,
            failure: state.failure().cloned(),
        };
        self.links.iter().map(attempt).collect()
    }

    /// Time of the next dial.
    pub(super) fn next_dial(&self) -> Option<Instant> {
        self.links.iter().filter_map(LinkState::next_dial).min()
    }

    /// Local socket of each channel; true if the channel can carry new data, and the peer has acknowledged its introduction.
    pub(crate) fn sockets(&self, endpoint: &Endpoint) -> Vec<(SocketId, bool)> {
        let socket = |state: &ChannelState| {
            let channel = endpoint.peek(state.id)?;
            Some((channel.socket(), state.is_usable() && state.introduced))
        };
        self.states.iter().filter_map(socket).collect()
    }

    /// Channels that can carry new data.
    pub(super) fn usable(&self) -> impl Iterator<Item = &ChannelState> + Clone {
        self.states.iter().filter(|state| state.is_usable())
    }

    /// Usable channels that were not taken out of use.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &ChannelState> + Clone {
        self.usable().filter(|state| !state.barred.is_out)
    }

    /// The channel in use with the shortest round trip.
    fn nearest(&self, endpoint: &mut Endpoint) -> Option<ChannelId> {
        self.in_use()
            .filter_map(|state| Some((endpoint.channel(state.id)?.stats().rtt_min, state.id)))
            .min()
            .map(|(_, id)| id)
    }

    /// Shortest coalescing delay that a usable channel permits.
    pub(super) fn coalescing_delay(&self, endpoint: &Endpoint) -> Option<Duration> {
        self.usable()
            .filter_map(|state| Some(endpoint.peek(state.id)?.coalescing_delay()))
            .min()
    }

    /// Sets the queue goals of channels. Channels that carry promised streams keep their queues steady: packets in a queue are late
    /// when the path slows down. If all that this side sends has a lifetime, the other channels may use it up; otherwise, while it
    /// sends latency-sensitive data, the channel with the shortest round trip keeps its queue short.
    pub(super) fn set_queue_goals(
        &mut self,
        endpoint: &mut Endpoint,
        traffic: Traffic,
        is_promised: impl Fn(ChannelId) -> bool,
    ) {
        let nearest = match traffic {
            Traffic::Urgent => self.nearest(endpoint),
            Traffic::Live(_) | Traffic::Elastic => None,
        };
        for state in &mut self.states {
            let goal = match traffic {
                _ if nearest == Some(state.id) => QueueGoal::Short,
                _ if is_promised(state.id) => QueueGoal::Steady,
                Traffic::Live(lifetime) => QueueGoal::Within(lifetime),
                Traffic::Urgent | Traffic::Elastic => QueueGoal::Full,
            };
            if goal == state.given.queue_goal {
                continue;
            }
            if let Some(channel) = endpoint.channel(state.id) {
                channel.set_queue_goal(goal);
                state.given.queue_goal = goal;
            }
        }
    }

    /// Notes the mean queue of a report that arrived on a channel.
    pub(super) fn note_queue(&mut self, channel: ChannelId, queue: Duration) {
        if let Some(state) = self.get_mut(channel) {
            state.given.reported_queue = Some(queue);
        }
    }

    /// Passes reported queues to the channels.
    pub(super) fn give_queues(&mut self, endpoint: &mut Endpoint) {
        for state in &mut self.states {
            if let Some(queue) = state.given.reported_queue.take()
                && let Some(channel) = endpoint.channel(state.id)
            {
                channel.note_queue(queue);
            }
        }
    }

    /// Sets the rate that every channel holds.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.rate = Some(rate);
        for state in &mut self.states {
            state.own_rate = None;
        }
    }

    /// Sets the rate that one channel holds; false: there is no such channel.
    pub(super) fn set_rate_of(&mut self, channel: ChannelId, rate: Rate) -> bool {
        let state = self.get_mut(channel);
        state.map(|state| state.own_rate = Some(rate)).is_some()
    }

    /// Sets the rate that the application configured on all channels, including those that joined since.
    pub(super) fn give_rates(&mut self, endpoint: &mut Endpoint) {
        for state in &mut self.states {
            let Some(rate) = state.own_rate.or(self.rate) else {
                continue;
            };
            if state.given.rate != Some(rate)
                && let Some(channel) = endpoint.channel(state.id)
            {
                channel.set_rate(rate);
                state.given.rate = Some(rate);
            }
        }
    }

    /// Looks up the cost of the next byte on each channel.
    pub(super) fn price(&mut self, endpoint: &mut Endpoint, quotas: &Quotas) {
        for state in &mut self.states {
            if let Some(channel) = endpoint.channel(state.id) {
                state.marginal = quotas.marginal(channel.socket());
            }
        }
    }

    /// Time of the next report to the peer.
    pub(super) fn next_report(&self) -> Option<Instant> {
        let dues = self.states.iter();
        dues.filter_map(|state| state.collector.due()).min()
    }

    /// Queues the reports to the peer that are due; true if there are any.
    pub(super) fn queue_reports(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        for state in &mut self.states {
            if let Some(report) = state.collector.take(now) {
                // A report that could not be sent yet is out of date.
                let waiting = &mut state.control;
                waiting.retain(|control| !matches!(control, Control::Report { .. }));
                waiting.push_back(report);
                is_any = true;
            }
        }
        is_any
    }

    /// Statistics of the channels whose peer has answered.
    pub(super) fn reports(&mut self, endpoint: &mut Endpoint) -> Vec<ChannelReport> {
        let (estimator, orders) = (&mut self.estimator, &self.orders);
        let report = |state: &ChannelState| {
            if !state.connected {
                // Whether there is a path is not known yet.
                return None;
            }
            let channel = endpoint.channel(state.id)?;
            let delay_variation = match &state.peer_report {
                Some(Control::Report {
                    delay_min,
                    delay_mean,
                    delay_max,
                    ..
                }) => Some((*delay_min, *delay_mean, *delay_max)),
                _ => None,
            };
            Some(ChannelReport {
                channel: state.id,
                socket: channel.socket(),
                interface: state.description.name.clone(),
                remote: channel.remote(),
                state: state.status(),
                taken_out: {
                    let link = Link {
                        socket: channel.socket(),
                        remote: channel.remote(),
                    };
                    orders.about(state.id, &link).cloned()
                },
                silent_since: match channel.liveness() {
                    Liveness::Suspected { since, .. } => Some(since),
                    Liveness::Active => None,
                },
                stats: channel.stats(),
                payload_sent_bytes: state.payload_sent_bytes,
                payload_received_bytes: state.payload_received_bytes,
                delay_variation,
                path: estimator.report(state.id),
                model: estimator.technology(state.id),
            })
        };
        self.states.iter().filter_map(report).collect()
    }
}
