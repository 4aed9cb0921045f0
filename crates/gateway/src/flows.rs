//! Table of flows: one for each client and target, of a bounded number; the one that was unused for longest leaves.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
};

use bytes::Bytes;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    connections::{Means, WeakConnections},
    endpoint::Endpoint,
    error::{Code, Refusal},
    flow::{self, Reply},
    limits::FLOWS_MAX,
    notice::Notice,
    register::Begun,
    route::Chooser,
    rules::Facts,
    source::Source,
    wire::Action,
};

/// Datagrams of a flow that wait for its session; beyond, they are dropped.
const WAITING_MAX: usize = 64;

/// Client and target of a flow.
pub(crate) type Key = (SocketAddr, Endpoint);

#[derive(Debug)]
struct Entry {
    datagrams: mpsc::Sender<Bytes>,
    used: u64,
}

/// The flows of one socket.
#[derive(Debug)]
pub(crate) struct Flows {
    entries: HashMap<Key, Entry>,
    /// The same by their last use.
    order: BTreeMap<u64, Key>,
    next: u64,
    max: usize,
    connections: WeakConnections,
}

/// Initial state of a flow.
pub(crate) struct Beginning {
    pub(crate) source: Source,
    pub(crate) dscp: Option<u8>,
    pub(crate) chooser: Chooser,
    pub(crate) action: Action,
    pub(crate) reply: Reply,
}

impl Flows {
    pub(crate) fn new(connections: WeakConnections) -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            max: FLOWS_MAX,
            connections,
        }
    }

    /// Hands a framed datagram to its flow, which begins if there is none. Dropped if the flow cannot
    /// take it now.
    pub(crate) fn forward(
        &mut self,
        key: Key,
        datagram: Bytes,
        begin: impl FnOnce(&Key) -> Beginning,
    ) {
        let tick = self.next;
        self.next += 1;
        if let Some(entry) = self.entries.get_mut(&key) {
            self.order.remove(&entry.used);
            if !entry.datagrams.is_closed() {
                entry.used = tick;
                self.order.insert(tick, key);
                // A full queue means that there is no session yet.
                let _ = entry.datagrams.try_send(datagram);
                return;
            }
            self.entries.remove(&key);
        }
        if self.entries.len() >= self.max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            // Its task ends with the queue.
            self.entries.remove(&oldest);
        }
        let beginning = begin(&key);
        let (datagrams, queue) = mpsc::channel(WAITING_MAX);
        let _ = datagrams.try_send(datagram);
        if self.begin(&key, beginning, queue) {
            self.order.insert(tick, key.clone());
            let used = tick;
            self.entries.insert(key, Entry { datagrams, used });
        }
    }

    /// Starts the task of a flow; false if there is no place for it.
    fn begin(&self, key: &Key, beginning: Beginning, queue: mpsc::Receiver<Bytes>) -> bool {
        let Some(connections) = self.connections.upgrade() else {
            return false;
        };
        let Some(place) = connections.try_place() else {
            return false;
        };
        let (to, means) = (key.1.clone(), connections.means().clone());
        connections.spawn(async move {
            let _place = place;
            if let Err(refusal) = carry(beginning, &to, queue, &means).await {
                means.notices.show(&Notice::Failed { to, refusal });
            }
        });
        true
    }
}

/// Carries a flow until it is over. The error is that of its beginning.
async fn carry(
    beginning: Beginning,
    to: &Endpoint,
    queue: mpsc::Receiver<Bytes>,
    means: &Means,
) -> Result<(), Refusal> {
    let Beginning {
        source,
        dscp,
        chooser,
        action,
        reply,
    } = beginning;
    let facts = Facts {
        target: to,
        source: &source,
        dscp,
    };
    let choice = chooser.choose(means, facts).await?;
    let flow = means.register.enter(Begun::by(&choice, source, to));
    let session = choice
        .uplink
        .session(Instant::now() + means.timeouts.connect())
        .await?;
    let stream = choice.open(&session, to, &means.notices);
    let stream = stream.map_err(|failure| Refusal::new(Code::Unreachable, failure.to_string()))?;
    drop(session);
    tokio::select! {
        result = flow::ask(&stream, &action, queue, &reply, &flow, means.timeouts.flow()) => result,
        () = choice.service.watch(&stream, to, &means.notices, &flow) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use anabranch::{SecretKey, base::NodeId};

    use super::*;
    use crate::{
        connections::Connections,
        notice::Notices,
        uplink::{OnlyExit, Uplink, Waiting},
    };

    /// Never has a session.
    #[derive(Debug)]
    struct Nowhere;

    impl Uplink for Nowhere {
        fn peer(&self) -> NodeId {
            SecretKey::from_seed([1; 32]).node_id()
        }

        fn session(&self, _: Instant) -> Waiting<'_> {
            Box::pin(std::future::pending())
        }
    }

    /// Refuses at once.
    #[derive(Debug)]
    struct Closed;

    impl Uplink for Closed {
        fn peer(&self) -> NodeId {
            SecretKey::from_seed([1; 32]).node_id()
        }

        fn session(&self, _: Instant) -> Waiting<'_> {
            Box::pin(std::future::ready(Err(Refusal::new(Code::Failed, "no"))))
        }
    }

    fn key(port: u16) -> Key {
        let client = SocketAddr::from(([127, 0, 0, 1], port));
        (client, "udp:192.0.2.1:53".parse().unwrap())
    }

    fn send_by(flows: &mut Flows, port: u16, uplink: Arc<dyn Uplink>) -> bool {
        let mut is_new = false;
        flows.forward(key(port), Bytes::from_static(b"\0x"), |key| {
            is_new = true;
            Beginning {
                source: Source::Unknown,
                dscp: None,
                chooser: Chooser::new(None, Arc::new(OnlyExit(uplink))),
                action: Action::Connect(key.1.clone()),
                reply: Arc::new(|_| ()),
            }
        });
        is_new
    }

    fn send(flows: &mut Flows, port: u16) -> bool {
        send_by(flows, port, Arc::new(Nowhere))
    }

    fn flows() -> (Flows, Connections) {
        let connections = Connections::new(Notices::new(|_| ()));
        (Flows::new(connections.downgrade()), connections)
    }

    #[tokio::test]
    async fn the_flow_that_was_unused_for_longest_leaves() {
        let (mut flows, _connections) = flows();
        flows.max = 2;
        assert!(send(&mut flows, 1));
        assert!(send(&mut flows, 2));
        assert!(!send(&mut flows, 1));
        assert!(send(&mut flows, 3));
        assert!(!send(&mut flows, 1), "it was used after 2");
        assert!(send(&mut flows, 2), "it had left");
        assert_eq!((flows.entries.len(), flows.order.len()), (2, 2));
    }

    #[tokio::test]
    async fn datagrams_that_wait_are_bounded() {
        let (mut flows, _connections) = flows();
        for _ in 0..1_000 {
            send(&mut flows, 1);
        }
        let entry = &flows.entries[&key(1)];
        assert_eq!(entry.datagrams.capacity(), 0);
        assert_eq!(entry.datagrams.max_capacity(), WAITING_MAX);
    }

    #[tokio::test]
    async fn a_flow_that_failed_begins_again_with_the_next_datagram() {
        let failures = Arc::new(Mutex::new(0));
        let counted = failures.clone();
        let connections = Connections::new(Notices::new(move |_| *counted.lock().unwrap() += 1));
        let mut flows = Flows::new(connections.downgrade());
        assert!(send_by(&mut flows, 1, Arc::new(Closed)));
        while *failures.lock().unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        assert!(send_by(&mut flows, 1, Arc::new(Closed)));
        assert_eq!((flows.entries.len(), flows.order.len()), (1, 1));
    }
}
