//! Forwarding thread of a relay.

use std::{
    io::{self, IoSliceMut},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anabranch_base::Instant;
use anabranch_overlay::relay::{PortId, Train, Verdict};
use noq_udp::RecvMeta;

use super::{
    Shared, State,
    outbox::{Cargo, Outbox},
    pool::Port,
};
use crate::moderation::Moderation;

/// Size of a buffer, which holds a full train of coalesced packets.
const BUFFER_BYTES: usize = 64 << 10;
/// Buffers filled by one call; the maximum of noq-udp.
const BUFFERS: usize = noq_udp::BATCH_SIZE;
/// Calls for one port before the next is served. The more packets are received together, the more of them belong to the
/// same circuit and leave with one call: a relay becomes more efficient under overload.
const CALLS_PER_TURN: usize = 16;
/// Packets received from one port before the next is served; trains are long.
const PACKETS_PER_TURN: usize = 1_024;
/// Trains at least this long are sent from the buffer in which they arrived.
const LONG_BYTES: usize = 16 << 10;
/// Bytes that may wait for the end of the turn.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// Coalescing delay for packets in quick succession. It adds to the delay of the path, so it is
/// short; and it saves system calls.
const GATHER: Duration = Duration::from_micros(150);

/// State of the thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    buffers: Vec<Box<[u8]>>,
    metas: [RecvMeta; BUFFERS],
    outbox: Outbox,
    moderation: Moderation,
}

/// A train that is sent from the buffer in which it arrived.
struct Long {
    buffer: usize,
    cargo: anabranch_overlay::relay::Forward,
    bytes: usize,
    port: Arc<Port>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            buffers: vec![vec![0; BUFFER_BYTES].into_boxed_slice(); BUFFERS],
            metas: [RecvMeta::default(); BUFFERS],
            outbox: Outbox::default(),
            moderation: Moderation::default(),
        }
    }

    /// Runs until the relay is dropped.
    pub(super) fn run(mut self) {
        let shared = self.shared.clone();
        let mut named = Vec::new();
        let mut ports: Vec<(PortId, Arc<Port>)> = Vec::new();
        loop {
            named.clear();
            shared.ready.list(&mut named);
            let next = {
                let mut state = shared.lock();
                if state.is_over {
                    return;
                }
                let now = shared.clock.now();
                if state.circuits.next_expiry().is_some_and(|at| at <= now) {
                    state.circuits.expire(now);
                    shared.close_unused(&mut state);
                }
                let port = |id: &PortId| Some((*id, state.ports.get(id)?.clone()));
                ports.extend(named.iter().filter_map(port));
                state.circuits.next_expiry()
            };
            let packets: usize = ports
                .drain(..)
                .map(|(id, port)| self.serve(id, &port))
                .sum();
            self.flush();
            let now = shared.clock.now();
            let hold_off = self.moderation.served(now, packets, GATHER);
            if !hold_off.is_zero() {
                shared.waker.sleep(std::iter::empty(), Some(hold_off));
            } else if packets == 0 {
                let most = next.map(|at| at.since(now));
                shared.ready.sleep(&shared.waker, most);
            }
        }
    }

    /// Forwards the packets of one port. Returns their number.
    fn serve(&mut self, id: PortId, port: &Port) -> usize {
        let mut packets = 0;
        for _ in 0..CALLS_PER_TURN {
            let filled = self.receive(port);
            packets += self.judge(id, port, filled);
            if self.outbox.bytes() > WAITING_BYTES_MAX {
                self.flush();
            }
            if filled < BUFFERS || packets >= PACKETS_PER_TURN {
                break;
            }
        }
        packets
    }

    /// Makes one call to the kernel. Returns the number of trains received.
    fn receive(&mut self, port: &Port) -> usize {
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [IoSliceMut<'_>; BUFFERS] = std::array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [], |buffer| buffer))
        });
        let socket = &port.socket;
        match socket
            .state()
            .recv(socket.io().into(), &mut slices, &mut self.metas)
        {
            Ok(filled) => {
                self.shared.calls_received.fetch_add(1, Ordering::Relaxed);
                filled
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => {
                // An ICMP error for an earlier packet; the two ends detect the loss.
                tracing::trace!(%error, "a relay's port");
                0
            }
        }
    }

    /// Gets a verdict on each train; permitted packets go to the outbox, or out at once if the train is long. Returns the
    /// number of packets received.
    fn judge(&mut self, id: PortId, port: &Port, filled: usize) -> usize {
        if filled == 0 {
            return 0;
        }
        let shared = self.shared.clone();
        let is_wildcard = port.socket.local.ip().is_unspecified();
        let now = shared.clock.now();
        let mut packets = 0;
        let mut long: Vec<Long> = Vec::new();
        {
            let mut state = shared.lock();
            for index in 0..filled {
                let meta = self.metas[index];
                if meta.len == 0 || meta.stride == 0 {
                    continue;
                }
                packets += meta.len.div_ceil(meta.stride);
                long.extend(self.take(&mut state, now, id, index, is_wildcard));
            }
        }
        for train in long {
            let meta = self.metas[train.buffer];
            let cargo = Cargo {
                forward: train.cargo,
                ecn: meta.ecn,
                segment: meta.stride,
                contents: &self.buffers[train.buffer][..train.bytes],
            };
            self.outbox.send_now(&train.port, cargo);
        }
        packets
    }

    /// Handles one train, which is dropped, put into the outbox, or returned to be sent at once.
    fn take(
        &mut self,
        state: &mut State,
        now: Instant,
        id: PortId,
        index: usize,
        is_wildcard: bool,
    ) -> Option<Long> {
        let meta = &self.metas[index];
        let train = Train {
            remote: meta.addr,
            local_ip: meta.dst_ip.filter(|_| is_wildcard),
            bytes: meta.len,
            packet_bytes: meta.stride,
        };
        let Verdict::Forward(forward) = state.circuits.admit(now, id, train) else {
            return None;
        };
        let bytes = (forward.packets * meta.stride).min(meta.len);
        let port = || state.ports.get(&forward.port).cloned();
        if bytes >= LONG_BYTES && !self.outbox.holds(forward.flow) {
            return Some(Long {
                buffer: index,
                cargo: forward,
                bytes,
                port: port()?,
            });
        }
        let cargo = Cargo {
            forward,
            ecn: meta.ecn,
            segment: meta.stride,
            contents: &self.buffers[index][..bytes],
        };
        self.outbox.push(cargo, port);
        None
    }

    /// Ends a turn: sends all packets, and reports those that could not be sent to the circuit table.
    fn flush(&mut self) {
        self.outbox.flush();
        let calls = std::mem::take(&mut self.outbox.calls);
        self.shared.calls_sent.fetch_add(calls, Ordering::Relaxed);
        if self.outbox.unsent.is_empty() {
            return;
        }
        let mut state = self.shared.lock();
        for unsent in self.outbox.unsent.drain(..) {
            let (packets, bytes) = (unsent.packets, unsent.bytes);
            state
                .circuits
                .undelivered(unsent.flow, packets, bytes, unsent.reason);
        }
    }
}
