//! Meters on local sockets: paying for packets, and leaving a socket whose budget is spent.

use std::{collections::BTreeMap, net::SocketAddr, num::NonZeroUsize};

use anabranch_base::{ChannelId, Instant, SocketId};
use anabranch_channel::Transmit;
use anabranch_metering::{Marginal, Meter, Period, Stage};

use super::Engine;
use crate::event::Event;

/// IP and UDP headers of a packet.
const HEADERS_V4_BYTES: u64 = 20 + 8;
const HEADERS_V6_BYTES: u64 = 40 + 8;

/// Largest packet with its headers.
pub(super) fn packet_max_bytes(mtu_max_bytes: u16) -> u64 {
    u64::from(mtu_max_bytes) + HEADERS_V6_BYTES
}

/// All bytes of packets, headers of IP and UDP included.
pub(super) fn wire_bytes(transmit: &Transmit) -> u64 {
    let headers = match transmit.remote {
        SocketAddr::V4(_) => HEADERS_V4_BYTES,
        SocketAddr::V6(_) => HEADERS_V6_BYTES,
    };
    transmit.size as u64 + transmit.packets() as u64 * headers
}

impl Engine {
    /// Counts what is sent on a local socket from now on, headers of IP and UDP included; `None`: no more. With
    /// a cap, not a byte is sent beyond it: when all but about 24 packets of it are spent, the socket's channels are closed
    /// ([`Event::BudgetSpent`]), and it is used again when a period begins.
    pub fn set_meter(&mut self, now: Instant, socket: SocketId, meter: Option<Meter>) {
        let was_spent = self.quotas.is_spent(socket);
        let is_taken_away = meter.is_none();
        let paid_for = self.quotas.sockets(socket);
        let stage = self.quotas.set(socket, meter);
        self.uplinks.forget_sockets();
        self.enter(now, socket, stage, was_spent);
        if is_taken_away {
            for &further in paid_for.iter().skip(1).filter(|_| was_spent) {
                self.socket_up(now, further);
            }
            // Nobody asks any more when it was the last one.
            self.apportion();
            for session in self.sessions.values_mut() {
                session.price(&mut self.endpoint, &self.quotas);
            }
        }
        self.look_again();
    }

    /// The meter of a local socket, if it has one.
    pub fn meter(&self, socket: SocketId) -> Option<&Meter> {
        self.quotas.meter(socket)
    }

    /// True if a local socket must not be used any more in its current period.
    pub fn is_spent(&self, socket: SocketId) -> bool {
        self.quotas.is_spent(socket)
    }

    /// Has a local socket paid for by the meter of another one, as for a further address of the same modem. Nothing
    /// changes where `with` has no meter.
    pub fn share_meter(&mut self, now: Instant, socket: SocketId, with: SocketId) {
        let was_spent = self.quotas.is_spent(socket);
        if !self.quotas.share(socket, with) {
            return;
        }
        self.uplinks.forget_sockets();
        match (was_spent, self.quotas.is_spent(socket)) {
            (false, true) => self.spent.push(socket),
            (true, false) => self.socket_up(now, socket),
            _ => {}
        }
    }

    /// From now on, lets `total_bytes` of a period be used on the meter of a socket, whatever its cap: for a host that
    /// first writes down what it will spend. Nothing changes when `period` is not the current one, and nothing is
    /// granted of a new period until this is called again. O(channels²).
    pub fn grant(&mut self, socket: SocketId, period: Period, total_bytes: u64) {
        self.quotas.grant(socket, period, total_bytes);
        self.look_again();
    }

    /// Marks all channels and sessions, because data that waits may be able to leave now. O(channels²).
    fn look_again(&mut self) {
        for id in self.endpoint.channel_ids() {
            if !self.touched.contains(&id) {
                self.touched.push_back(id);
            }
        }
        for session in self.sessions.values_mut() {
            session.pump.is_due = true;
        }
    }

    /// Cost of the next byte on a channel; `None`: no such channel. Bytes that are queued already are not counted.
    pub fn marginal(&mut self, channel: ChannelId) -> Option<Marginal> {
        let socket = self.endpoint.channel(channel)?.socket();
        Some(self.quotas.marginal(socket))
    }

    /// A period of a socket's meter began; one that is not later than its current one changes nothing.
    pub fn begin_period(&mut self, now: Instant, socket: SocketId, period: Period) {
        let was_spent = self.quotas.is_spent(socket);
        self.quotas.begin(socket, period);
        if let Some(stage) = self.quotas.review(socket) {
            self.enter(now, socket, stage, was_spent);
        }
        self.look_again();
    }

    pub(super) fn pay(&mut self, now: Instant, transmit: &Transmit) {
        let socket = transmit.socket;
        self.uplinks.probes.sent(now, wire_bytes(transmit));
        let was_spent = self.quotas.is_spent(socket);
        if let Some(stage) = self.quotas.pay(socket, wire_bytes(transmit)) {
            self.enter(now, socket, stage, was_spent);
        }
    }

    /// Sets the allowance of the channels of metered sockets. O(channels · log accounts), if any socket has a meter.
    pub(super) fn allow_slots(&mut self) {
        if !self.quotas.is_empty() {
            self.apportion();
        }
    }

    fn apportion(&mut self) {
        let mut sharing = BTreeMap::<SocketId, usize>::new();
        for id in self.endpoint.channel_ids() {
            if let Some(channel) = self.endpoint.peek(id) {
                let account = self.quotas.account_of(channel.socket());
                *sharing.entry(account).or_default() += 1;
            }
        }
        let ids: Vec<ChannelId> = self.endpoint.channel_ids().collect();
        for id in ids {
            let Some(channel) = self.endpoint.channel(id) else {
                continue;
            };
            // Channels of one account share what is left evenly: each may use its part before the next look.
            let socket = channel.socket();
            let sharing = sharing.get(&self.quotas.account_of(socket));
            channel.set_allowance(self.quotas.slots(socket, sharing.copied().unwrap_or(1)));
            channel.set_held(self.quotas.packets(socket, NonZeroUsize::MIN).is_none());
        }
    }

    fn enter(&mut self, now: Instant, socket: SocketId, stage: Stage, was_spent: bool) {
        let socket = self.quotas.account_of(socket);
        if was_spent && stage != Stage::Spent {
            self.events.push_back(Event::BudgetRenewed { socket });
            for socket in self.quotas.sockets(socket) {
                self.socket_up(now, socket);
            }
        }
        match stage {
            Stage::Enough => {}
            Stage::Low => {
                let meter = self.quotas.meter(socket);
                let left_bytes = meter.and_then(Meter::left_bytes).unwrap_or(0);
                let event = Event::BudgetLow { socket, left_bytes };
                self.events.push_back(event);
            }
            Stage::Spent if was_spent => {}
            Stage::Spent => {
                self.events.push_back(Event::BudgetSpent { socket });
                self.spent.extend(self.quotas.sockets(socket));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transmit(size: usize, segment_size: Option<usize>, remote: &str) -> Transmit {
        Transmit {
            socket: SocketId(1),
            remote: remote.parse().unwrap(),
            local_ip: None,
            size,
            segment_size,
            ecn: None,
        }
    }

    #[test]
    fn headers_are_paid_for() {
        let one = transmit(1000, None, "192.0.2.1:7");
        assert_eq!(wire_bytes(&one), 1000 + 28);
        let three = transmit(2500, Some(1000), "[2001:db8::1]:7");
        assert_eq!(wire_bytes(&three), 2500 + 3 * 48);
        assert_eq!(packet_max_bytes(1472), 1472 + 48);
    }
}
