//! Dispatch of packets by the rules of this machine's gateway: to the class of their rule, to the queues for all others, or to nowhere.
//!
//! A flow is decided with its first packet; the decision is kept with the flow until other rules are in force. While the stream of a class
//! is not open, its packets go with all others.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch::{
    base::{Instant, NodeId},
    net::Clock,
};
use anabranch_gateway::packets::{Admitted, Decision, PacketFlow, PacketRule, PacketRules};
use tokio::sync::{Notify, Semaphore};

use super::served::{Served, State};
use crate::{
    class::{Class, Classes, Limit},
    flows::Table,
    notice::Notices,
    numbers::{CLASSES_MAX, first_of},
    outlet::Outlet,
    packet::{FlowKey, Header, bucket_of, dscp},
};

/// Flows that are remembered.
const FLOWS_MAX: usize = 4096;
/// Searches for programs at a time; a flow beyond them is searched for with its next packet.
const SEARCHES_MAX: usize = 64;

/// Destination of a packet.
#[derive(Debug)]
pub(crate) enum Assigned {
    /// The queues for packets without a class, in this bucket.
    Rest(u16),
    /// Those of a class.
    Class(Arc<Class>, u16),
    /// None: a rule denies its flow.
    Denied,
    /// None: it is beyond the rate of its rule.
    Limited,
}

/// Decision about a flow.
#[derive(Debug)]
pub(super) enum Verdict {
    /// None yet: nothing was sent, or its program is searched for.
    None,
    Carried(Admitted),
    Denied(PacketRule),
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) bucket: u16,
    /// Rules in force at the decision; `None`: not decided.
    pub(super) generation: Option<u64>,
    pub(super) verdict: Verdict,
    pub(super) is_searching: bool,
    pub(super) served: Option<Arc<Served>>,
    /// The class in which its packets wait; `None`: they wait with all others.
    pub(super) queued_in: Option<Arc<Class>>,
    pub(super) since: Instant,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}

impl Flow {
    fn new(bucket: u16, now: Instant) -> Self {
        Self {
            bucket,
            generation: None,
            verdict: Verdict::None,
            is_searching: false,
            served: None,
            queued_in: None,
            since: now,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    fn decide(&mut self, decision: Decision, generation: u64) {
        self.generation = Some(generation);
        self.served = None;
        self.verdict = match decision {
            Decision::Carried(admitted) => Verdict::Carried(admitted),
            Decision::Denied(rule) => Verdict::Denied(rule),
        };
    }

    /// Moves its packets to other queues, if they wait elsewhere.
    fn move_to(&mut self, key: &FlowKey, class: Option<&Arc<Class>>, rest: &Outlet) {
        let is_there = match (&self.queued_in, class) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        if is_there {
            return;
        }
        // What waited in a class that is over was moved already.
        let before = self.queued_in.as_ref().filter(|class| !class.is_over());
        let from = before.map_or(rest, |class| &class.queues);
        let to = class.map_or(rest, |class| &class.queues);
        if !std::ptr::eq(from, to) {
            from.move_flow(self.bucket, key, to);
        }
        self.queued_in = class.cloned();
    }
}

#[derive(Debug)]
pub(super) struct Flows {
    pub(super) table: Table<Flow>,
    pub(super) served: Vec<Arc<Served>>,
    /// True once the server is known to have classes, false once it is known to have none; `None` before, and without a session.
    pub(super) has_classes: Option<bool>,
}

/// The dispatch of a client's packets.
pub(crate) struct Dispatch {
    pub(super) rules: PacketRules,
    pub(super) server: NodeId,
    pub(super) outlet: Arc<Outlet>,
    pub(super) clock: Clock,
    pub(super) notices: Notices,
    pub(super) classes: Classes,
    /// Wakes the task that opens streams.
    pub(super) wanted: Notify,
    flows: Mutex<Flows>,
    searches: Arc<Semaphore>,
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").finish_non_exhaustive()
    }
}

fn packet_flow(key: &FlowKey, dscp: u8) -> PacketFlow {
    PacketFlow {
        protocol: key.protocol,
        source: key.source,
        destination: key.destination,
        ports: key.ports,
        dscp,
    }
}

impl Dispatch {
    /// By these rules, to a server, with queues for packets without a class.
    pub(crate) fn new(
        rules: PacketRules,
        server: NodeId,
        outlet: Arc<Outlet>,
        (clock, notices): (Clock, Notices),
    ) -> Arc<Self> {
        Arc::new(Self {
            rules,
            server,
            outlet,
            clock,
            notices,
            classes: Classes::default(),
            wanted: Notify::new(),
            flows: Mutex::new(Flows {
                table: Table::new(FLOWS_MAX),
                served: Vec::new(),
                has_classes: None,
            }),
            searches: Arc::new(Semaphore::new(SEARCHES_MAX)),
        })
    }

    pub(super) fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The classes, whose streams are to be read.
    pub(crate) fn classes(&self) -> &Classes {
        &self.classes
    }

    /// The queues for packets without a class.
    pub(crate) fn rest(&self) -> &Outlet {
        &self.outlet
    }

    /// Assigns a packet that leaves this machine. One look at the table, without allocation, for a flow that is decided.
    pub(crate) fn assign(self: &Arc<Self>, now: Instant, ip: &[u8], header: &Header) -> Assigned {
        let key = FlowKey::of(ip, header);
        let hash = self.outlet.hash(&key);
        let generation = self.rules.generation();
        let mut flows = self.flows();
        let Flows {
            table,
            served: all,
            has_classes,
        } = &mut *flows;
        let begin = || Flow::new(bucket_of(hash), now);
        let flow = table.get_or_insert(now, (key, hash), begin);
        if flow.generation != Some(generation) && !flow.is_searching {
            // Its place under the limits is free for the new decision.
            flow.verdict = Verdict::None;
            let packets = packet_flow(&key, dscp(ip));
            match self.rules.decide(&packets) {
                Some(decision) => flow.decide(decision, generation),
                None => self.search(flow, (key, hash), packets, generation),
            }
        }
        let rule = match &flow.verdict {
            Verdict::None => None,
            Verdict::Denied(_) => return Assigned::Denied,
            Verdict::Carried(admitted) => Some(admitted.rule().clone()),
        };
        let mut class = None;
        if let Some(rule) = rule.as_ref().filter(|rule| rule.has_stream()) {
            if flow.served.as_ref().is_none_or(|served| served.is_over()) {
                flow.served = self.serve(all, rule, packet_flow(&key, dscp(ip)), now);
                let is_first = flow.sent_bytes == 0 && *has_classes == Some(true);
                if let Some(served) = flow.served.as_ref().filter(|_| is_first) {
                    flow.bucket = first_of(served.class.place()) + bucket_of(hash);
                }
            }
            match flow.served.as_ref().map(|served| (served, served.state())) {
                Some((_, State::Denied)) => return Assigned::Denied,
                Some((served, State::Open)) => class = Some(served.class.clone()),
                _ => {}
            }
            if class.is_none() && rule.rate_max().is_some() {
                if !rule.is_ready() {
                    return Assigned::Limited;
                }
                rule.pace(ip.len());
            }
        }
        flow.move_to(&key, class.as_ref(), &self.outlet);
        flow.sent_bytes += ip.len() as u64;
        if let Some(rule) = &rule {
            rule.count_sent(ip.len());
        }
        match class {
            Some(class) => Assigned::Class(class, flow.bucket),
            None => Assigned::Rest(flow.bucket),
        }
    }

    /// The class of a rule, which is begun if there is none and there may be one more.
    fn serve(
        &self,
        all: &mut Vec<Arc<Served>>,
        rule: &PacketRule,
        first: PacketFlow,
        now: Instant,
    ) -> Option<Arc<Served>> {
        let is_it = |served: &&Arc<Served>| served.rule.is(rule) && !served.is_over();
        if let Some(served) = all.iter().find(is_it) {
            return Some(served.clone());
        }
        if all.len() >= CLASSES_MAX {
            return None;
        }
        let limit = match rule.rate_max() {
            Some(_) => Limit::Rule(rule.clone()),
            None => Limit::None,
        };
        let class = self.classes.add(&self.outlet, limit, now)?;
        let served = Arc::new(Served::new(rule.clone(), class, first));
        all.push(served.clone());
        self.wanted.notify_one();
        Some(served)
    }

    /// Searches for the program of a flow, whose packets go with all others meanwhile.
    fn search(
        self: &Arc<Self>,
        flow: &mut Flow,
        (key, hash): (FlowKey, u64),
        packets: PacketFlow,
        generation: u64,
    ) {
        let Ok(permit) = self.searches.clone().try_acquire_owned() else {
            return;
        };
        flow.is_searching = true;
        let dispatch = Arc::downgrade(self);
        let rules = self.rules.clone();
        tokio::spawn(async move {
            let decision = rules.search(&packets).await;
            drop(permit);
            let Some(dispatch) = dispatch.upgrade() else {
                return;
            };
            let now = dispatch.clock.now();
            if let Some(flow) = dispatch.flows().table.get(now, &key, hash) {
                flow.is_searching = false;
                // One by other rules is made again with the next packet.
                flow.decide(decision, generation);
            }
        });
    }

    /// Counts a packet that has arrived.
    pub(crate) fn note_received(&self, now: Instant, ip: &[u8], header: &Header) {
        let key = FlowKey::of(ip, header).reversed();
        let hash = self.outlet.hash(&key);
        let mut flows = self.flows();
        let begin = || Flow::new(bucket_of(hash), now);
        let flow = flows.table.get_or_insert(now, (key, hash), begin);
        flow.received_bytes += ip.len() as u64;
        if let Verdict::Carried(admitted) = &flow.verdict {
            admitted.rule().count_received(ip.len());
        }
    }

    /// Forgets flows without a packet for as long as the gateway says.
    pub(crate) fn sweep(&self, now: Instant) {
        let idle = self.rules.idle();
        let mut flows = self.flows();
        flows
            .table
            .retain(|_, used_at, _| now.since(used_at) < idle);
    }
}

#[cfg(test)]
mod tests;
