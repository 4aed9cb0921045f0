//! Flows of a client whose packets come in a class, and the way back for the answers: the same class.
//!
//! A flow is noted here when its packets show a class, by their stream or by their bucket, so that other clients cost nothing. Its answers keep
//! the bucket that they begin with, and follow the flow to another stream.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::{
    base::{Instant, NodeId},
    daemon::FlowReport,
};

use crate::{
    class::{Class, Classes},
    client::report::{protocol, target},
    exit::Incoming,
    flows::Table,
    outlet::Outlet,
    packet::{BUCKETS, FlowKey, Header, bucket_of},
};

/// Time after which a flow is forgotten, when a class ends.
const IDLE: Duration = Duration::from_secs(60);
/// Flows that are remembered for one client.
const FLOWS_MAX: usize = 1024;

#[derive(Debug)]
struct Reply {
    bucket: u16,
    /// The class on whose stream its last packet came.
    class: Option<Arc<Class>>,
    /// The class in which its answers wait; `None`: they wait with all others.
    queued_in: Option<Arc<Class>>,
    since: Instant,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Reply {
    fn new(bucket: u16, now: Instant) -> Self {
        Self {
            bucket,
            class: None,
            queued_in: None,
            since: now,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }
}

/// The flows, and the classes.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) classes: Classes,
    table: Mutex<Table<Reply>>,
}

fn same(one: Option<&Arc<Class>>, other: Option<&Arc<Class>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

impl Replies {
    pub(super) fn new() -> Self {
        Self {
            classes: Classes::default(),
            table: Mutex::new(Table::new(FLOWS_MAX)),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table<Reply>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a packet of the client.
    pub(super) fn note(&self, now: Instant, packet: &Incoming<'_>, outlet: &Outlet) {
        let range = packet.bucket - packet.bucket % BUCKETS;
        let is_classed = packet.class.is_some() || range > 0;
        let mut table = self.table();
        if !is_classed && table.len() == 0 {
            return;
        }
        let key = FlowKey::of(packet.ip, packet.header).reversed();
        let hash = outlet.hash(&key);
        let reply = match is_classed {
            true => Some(table.get_or_insert(now, (key, hash), || {
                outlet.numbers().keep();
                Reply::new(range + bucket_of(hash), now)
            })),
            false => table.get(now, &key, hash),
        };
        if let Some(reply) = reply {
            reply.received_bytes += packet.ip.len() as u64;
            if !same(reply.class.as_ref(), packet.class) {
                reply.class = packet.class.cloned();
            }
        }
    }

    /// The class of a packet for the client, and its bucket. Packets of its flow that wait elsewhere are moved there.
    pub(super) fn assign(
        &self,
        now: Instant,
        (ip, header): (&[u8], &Header),
        outlet: &Outlet,
    ) -> (Option<Arc<Class>>, u16) {
        let key = FlowKey::of(ip, header);
        let hash = outlet.hash(&key);
        let mut table = self.table();
        if table.len() == 0 {
            return (None, bucket_of(hash));
        }
        let Some(reply) = table.get(now, &key, hash) else {
            return (None, bucket_of(hash));
        };
        let class = reply.class.clone().filter(|class| !class.is_over());
        if !same(class.as_ref(), reply.queued_in.as_ref()) {
            // What waited in a class that is over was moved already.
            let before = reply.queued_in.as_ref().filter(|class| !class.is_over());
            let from = before.map_or(outlet, |class| &class.queues);
            let to = class.as_ref().map_or(outlet, |class| &class.queues);
            if !std::ptr::eq(from, to) {
                from.move_flow(reply.bucket, &key, to);
            }
            reply.queued_in = class.clone();
        }
        reply.sent_bytes += ip.len() as u64;
        (class, reply.bucket)
    }

    /// Takes the flows of a class that is over out of it. They keep their buckets until they were unused for some time.
    pub(super) fn forget(&self, now: Instant, class: &Arc<Class>) {
        self.table().retain(|_, used_at, reply| {
            for own in [&mut reply.class, &mut reply.queued_in] {
                if own.as_ref().is_some_and(|own| Arc::ptr_eq(own, class)) {
                    *own = None;
                }
            }
            now.since(used_at) < IDLE
        });
    }

    /// The flows that are in a class now, those with the latest packets first, `count` at most.
    pub(super) fn report(&self, now: Instant, node: NodeId, count: usize) -> Vec<FlowReport> {
        let table = self.table();
        let rows = table.latest(count).into_iter().filter_map(|(key, reply)| {
            let class = reply.class.as_ref().filter(|class| !class.is_over())?;
            Some(FlowReport {
                source: None,
                target: target(&key.reversed()),
                protocol: protocol(key.protocol),
                peer: Some(node),
                rule: None,
                service: "of the peer".to_owned(),
                promise: class.promise(),
                promise_back: None,
                sent_bytes: reply.sent_bytes,
                received_bytes: reply.received_bytes,
                age: now.since(reply.since),
            })
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{class::Limit, numbers::first_of, packet::samples::tcp4};

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// A packet of a client, and the answer of its target.
    fn pair() -> (Vec<u8>, Vec<u8>) {
        let there = tcp4(100, b"question");
        let mut back = there.clone();
        back[12..16].copy_from_slice(&there[16..20]);
        back[16..20].copy_from_slice(&there[12..16]);
        back[20..22].copy_from_slice(&there[22..24]);
        back[22..24].copy_from_slice(&there[20..22]);
        (there, back)
    }

    #[test]
    fn answers_follow_the_flow_to_its_class_and_back() {
        let (outlet, replies) = (Outlet::new(1 << 20), Replies::new());
        let (there, back) = pair();
        let headers = [&there, &back].map(|ip| Header::read(ip).unwrap());
        let class = replies.classes.add(&outlet, Limit::None, at(0)).unwrap();
        let note = |bucket, class| {
            let packet = Incoming {
                ip: &there,
                header: &headers[0],
                bucket,
                class,
            };
            replies.note(at(1), &packet, &outlet);
        };
        let assigned = || replies.assign(at(2), (&back, &headers[1]), &outlet);
        let rest = bucket_of(outlet.hash(&FlowKey::of(&back, &headers[1])));
        // Nothing shows a class.
        note(7, None);
        assert!(assigned().0.is_none() && assigned().1 == rest);
        // The bucket does, before the stream carries it.
        note(first_of(0) + 7, None);
        assert_eq!(
            (assigned().0.is_none(), assigned().1),
            (true, first_of(0) + rest)
        );
        note(first_of(0) + 7, Some(&class));
        let (place, bucket) = assigned();
        assert!(place.is_some_and(|place| Arc::ptr_eq(&place, &class)));
        assert_eq!(bucket, first_of(0) + rest, "as before: its numbers go on");
        let node = NodeId::from_public_key([1; 32]);
        let report = replies.report(at(3), node, 10);
        assert_eq!(report[0].received_bytes, 2 * there.len() as u64);
        note(first_of(0) + 7, None);
        assert!(assigned().0.is_none() && assigned().1 == bucket);
        note(first_of(0) + 7, Some(&class));
        replies.classes.remove(&class, &outlet);
        assert!(assigned().0.is_none());
        replies.forget(at(60_000), &class);
        assert_eq!(assigned().1, bucket);
        replies.forget(at(120_000), &class);
        assert_eq!(assigned().1, rest);
    }
}
