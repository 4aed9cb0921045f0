//! Register of open flows, with the bytes that each has carried: what `anabranch flows` shows.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anabranch::{
    base::NodeId,
    daemon::{FlowReport, PromiseState},
    rights::Transport,
};

use crate::{endpoint::Endpoint, route::Choice, rules::Rule, source::Source};

/// Bytes both ways.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    pub(crate) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes sent to peers, and those received from them.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let sent = self.sent.load(Ordering::Relaxed);
        (sent, self.received.load(Ordering::Relaxed))
    }
}

/// State of a flow's promise; `None`: it asks for none.
#[derive(Debug, Default)]
pub(crate) struct Promise(Mutex<Option<PromiseState>>);

impl Promise {
    pub(crate) fn new(state: Option<PromiseState>) -> Self {
        Self(Mutex::new(state))
    }

    fn lock(&self) -> MutexGuard<'_, Option<PromiseState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<PromiseState> {
        *self.lock()
    }

    pub(crate) fn set(&self, state: PromiseState) {
        *self.lock() = Some(state);
    }

    /// True if its owner was warned that the promise is in danger.
    pub(crate) fn is_warned(&self) -> bool {
        self.get() == Some(PromiseState::Warned)
    }
}

/// A flow as it began.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) source: Source,
    pub(crate) target: Endpoint,
    pub(crate) peer: Option<NodeId>,
    /// The rule that it is under; `None`: it has a service of its own.
    pub(crate) rule: Option<Arc<Rule>>,
    pub(crate) service: Arc<str>,
    /// State of its promise; `None`: it asks for none.
    pub(crate) promise: Option<PromiseState>,
}

impl Begun {
    /// A flow for which this was chosen.
    pub(crate) fn by(choice: &Choice, source: Source, target: &Endpoint) -> Self {
        Self {
            source,
            target: target.clone(),
            peer: Some(choice.uplink.peer()),
            rule: choice.rule.clone(),
            service: choice.service.name().clone(),
            promise: choice.promise,
        }
    }

    /// A flow that a peer asked for.
    pub(crate) fn of_peer(peer: NodeId, target: &Endpoint) -> Self {
        Self {
            source: Source::Peer,
            target: target.clone(),
            peer: Some(peer),
            rule: None,
            service: "of the peer".into(),
            promise: None,
        }
    }
}

#[derive(Debug)]
struct Entry {
    begun: Begun,
    since: Instant,
    traffic: Traffic,
    promise: Promise,
}

/// The open flows of a gateway. Clones share it. Bounded by the places of connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Register(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    open: BTreeMap<u64, Arc<Entry>>,
    next: u64,
}

/// Place of a flow in the register, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    register: Register,
    number: u64,
    entry: Arc<Entry>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.register.lock().open.remove(&self.number);
    }
}

impl Registered {
    /// Counts bytes of the program that were sent to the peer.
    pub(crate) fn sent(&self, bytes: usize) {
        self.entry.traffic.add_sent(bytes);
        if let Some(rule) = &self.entry.begun.rule {
            rule.traffic().add_sent(bytes);
            rule.account().sent(bytes);
        }
    }

    /// State of its promise.
    pub(crate) fn promise(&self) -> &Promise {
        &self.entry.promise
    }

    /// Waits until the rate of its rule permits to send.
    pub(crate) async fn ready(&self) {
        if let Some(rule) = &self.entry.begun.rule {
            rule.account().ready().await;
        }
    }

    /// True if the rate of its rule permits to send now.
    pub(crate) fn is_ready(&self) -> bool {
        let rule = self.entry.begun.rule.as_ref();
        rule.is_none_or(|rule| rule.account().is_ready())
    }

    /// Counts bytes of the peer.
    pub(crate) fn received(&self, bytes: usize) {
        self.entry.traffic.add_received(bytes);
        if let Some(rule) = &self.entry.begun.rule {
            rule.traffic().add_received(bytes);
        }
    }
}

impl Register {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a flow.
    pub(crate) fn enter(&self, begun: Begun) -> Registered {
        let promise = Promise::new(begun.promise);
        let entry = Arc::new(Entry {
            begun,
            promise,
            since: Instant::now(),
            traffic: Traffic::default(),
        });
        let mut entries = self.lock();
        let number = entries.next;
        entries.next += 1;
        entries.open.insert(number, entry.clone());
        Registered {
            register: self.clone(),
            number,
            entry,
        }
    }

    /// All open flows, those that began first at the front.
    pub(crate) fn report(&self) -> Vec<FlowReport> {
        let open: Vec<Arc<Entry>> = self.lock().open.values().cloned().collect();
        open.iter().map(|entry| entry.report()).collect()
    }
}

impl Entry {
    fn report(&self) -> FlowReport {
        let (sent_bytes, received_bytes) = self.traffic.counts();
        let begun = &self.begun;
        FlowReport {
            source: (begun.source != Source::Peer).then(|| begun.source.to_string()),
            target: begun.target.to_string(),
            protocol: protocol(&begun.target),
            peer: begun.peer,
            rule: begun.rule.as_ref().and_then(|rule| rule.name()),
            service: begun.service.to_string(),
            promise: self.promise.get(),
            promise_back: None,
            sent_bytes,
            received_bytes,
            age: self.since.elapsed(),
        }
    }
}

/// Protocol of a target, as rules name it.
pub(crate) fn protocol(target: &Endpoint) -> &'static str {
    match target {
        Endpoint::Unix(_) => "unix",
        Endpoint::Port {
            transport: Transport::Tcp,
            ..
        } => "tcp",
        Endpoint::Port {
            transport: Transport::Udp,
            ..
        } => "udp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    #[test]
    fn a_flow_shows_the_state_of_its_promise() {
        let register = Register::default();
        let flow = register.enter(Begun {
            source: Source::Unknown,
            target: "udp:10.0.0.1:5004".parse().unwrap(),
            peer: None,
            rule: None,
            service: "live".into(),
            promise: Some(PromiseState::Waiting),
        });
        let shown = || register.report()[0].promise.map(PromiseState::name);
        assert_eq!(
            (shown(), flow.promise().is_warned()),
            (Some("waiting"), false)
        );
        flow.promise().set(PromiseState::Warned);
        assert_eq!(
            (shown(), flow.promise().is_warned()),
            (Some("warned"), true)
        );
    }

    #[test]
    fn flows_are_listed_while_they_are_open_and_their_bytes_stay_with_the_rule() {
        let register = Register::default();
        let rule = Rules::default().remainder();
        let begun = |source: Source| Begun {
            source,
            target: "db:5432".parse().unwrap(),
            peer: None,
            rule: Some(rule.clone()),
            service: "preset".into(),
            promise: None,
        };
        let first = register.enter(begun(Source::Unix(Some(7))));
        let second = register.enter(begun(Source::Peer));
        first.sent(3);
        first.received(4);
        second.sent(5);
        let report = register.report();
        let sources: Vec<Option<&str>> = report.iter().map(|row| row.source.as_deref()).collect();
        assert_eq!(sources, [Some("process 7"), None]);
        assert_eq!((report[0].sent_bytes, report[0].received_bytes), (3, 4));
        assert_eq!((report[0].protocol, &*report[0].target), ("tcp", "db:5432"));
        drop(first);
        assert_eq!(register.report().len(), 1);
        drop(second);
        assert!(register.report().is_empty());
        assert_eq!(rule.traffic().counts(), (8, 4));
    }
}
