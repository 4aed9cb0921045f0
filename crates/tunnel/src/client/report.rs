//! Report of the flows that a client carries as packets, for the control socket.

use std::net::{IpAddr, SocketAddr};

use anabranch::{base::Instant, daemon::FlowReport};
use anabranch_gateway::packets::PacketRule;

use super::{
    dispatch::{Dispatch, Verdict},
    served::State,
};
use crate::packet::FlowKey;

/// Flows in a report.
const SHOWN_MAX: usize = 256;

impl Dispatch {
    /// The flows with the latest packets, the latest first.
    pub(crate) fn report(&self, now: Instant) -> Vec<FlowReport> {
        let flows = self.flows();
        let latest = flows.table.latest(SHOWN_MAX);
        let rows = latest.into_iter().map(|(key, flow)| {
            let served = flow.served.as_ref().filter(|served| !served.is_over());
            let rule = match &flow.verdict {
                Verdict::None => None,
                Verdict::Carried(admitted) => Some(admitted.rule()),
                Verdict::Denied(rule) => Some(rule),
            };
            let open = served.filter(|served| served.state() == State::Open);
            let service = match (&flow.verdict, open) {
                (Verdict::Denied(_), _) => "deny".to_owned(),
                (_, Some(served)) => served.rule.service_name(),
                _ => "preset".to_owned(),
            };
            FlowReport {
                source: Some(end(key.source, key.ports.map(|(from, _)| from))),
                target: target(key),
                protocol: protocol(key.protocol),
                peer: Some(self.server),
                rule: rule.and_then(PacketRule::name),
                service,
                promise: served.and_then(|served| served.promise()),
                promise_back: served.and_then(|served| served.promise_back()),
                sent_bytes: flow.sent_bytes,
                received_bytes: flow.received_bytes,
                age: now.since(flow.since),
            }
        });
        rows.collect()
    }
}

/// An end of a flow in words.
fn end(address: IpAddr, port: Option<u16>) -> String {
    match port {
        Some(port) => SocketAddr::new(address, port).to_string(),
        None => address.to_string(),
    }
}

/// Destination of a flow in words, as that of a forward.
pub(crate) fn target(key: &FlowKey) -> String {
    let text = end(key.destination, key.ports.map(|(_, to)| to));
    match (key.protocol, key.ports) {
        (17, Some(_)) => format!("udp:{text}"),
        _ => text,
    }
}

/// Name of a protocol in reports.
pub(crate) fn protocol(number: u8) -> &'static str {
    match number {
        1 => "icmp",
        6 => "tcp",
        17 => "udp",
        47 => "gre",
        50 => "esp",
        58 => "icmpv6",
        132 => "sctp",
        _ => "ip",
    }
}
