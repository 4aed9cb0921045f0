//! Outbox of a turn: packets that are sent together.
//!
//! A system call costs as much as forwarding ten packets, and one call can send up to 64 packets
//! of one size from one port to one address (UDP segmentation offload). Therefore permitted packets wait
//! until the end of the turn, by direction of a circuit, and leave in order of arrival. A long train
//! is sent from the buffer in which it arrived; small ones are copied together.

use std::{io, net::SocketAddr, sync::Arc};

use anabranch_overlay::relay::{FlowId, Forward, Reason};
use noq_udp::{EcnCodepoint, Transmit};

use super::pool::Port;

/// Packets in one call, and bytes: limits of the kernel.
const BATCH_PACKETS_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 65_000;
/// Larger packets are sent one by one: the system refuses to segment packets that exceed the MTU, and does not report
/// which ones these are.
const SEGMENT_BYTES_MAX: usize = 1_472;
/// Memory kept for batches from turn to turn.
const SPARES_MAX: usize = 64;

/// Packets of one direction of a circuit, of one size but the last.
#[derive(Debug)]
struct Batch {
    flow: FlowId,
    port: Arc<Port>,
    forward: Forward,
    ecn: Option<EcnCodepoint>,
    segment: usize,
    packets: usize,
    /// True if the last packet is smaller, so that none may follow.
    is_complete: bool,
    bytes: Vec<u8>,
}

/// Packets that were let through but not sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsent {
    pub(super) flow: FlowId,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) reason: Reason,
}

/// Packets that wait for the end of the turn.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    batches: Vec<Batch>,
    /// Turn in which each direction of a circuit was last seen, and its last batch.
    latest: Vec<(u64, u32)>,
    turn: u64,
    bytes: usize,
    spares: Vec<Vec<u8>>,
    pub(super) unsent: Vec<Unsent>,
    /// Calls that sent packets.
    pub(super) calls: u64,
}

/// Part of a train that is permitted to pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cargo<'a> {
    pub(super) forward: Forward,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) segment: usize,
    pub(super) contents: &'a [u8],
}

impl Outbox {
    /// Waiting bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds packets to a batch. `port` returns the port from which they leave; it is called once for a batch.
    pub(super) fn push(&mut self, cargo: Cargo<'_>, port: impl FnOnce() -> Option<Arc<Port>>) {
        let index = cargo.forward.flow.index as usize;
        if self.latest.len() <= index {
            self.latest.resize(index + 1, (0, 0));
        }
        let (turn, place) = self.latest[index];
        if turn == self.turn
            && let Some(batch) = self.batches.get_mut(place as usize)
            && batch.append(&cargo)
        {
            self.bytes += cargo.contents.len();
            return;
        }
        let Some(port) = port() else {
            // It was closed a moment ago, together with its circuit.
            return;
        };
        let mut bytes = self.spares.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(cargo.contents);
        self.bytes += bytes.len();
        self.latest[index] = (self.turn, self.batches.len() as u32);
        self.batches.push(Batch {
            flow: cargo.forward.flow,
            port,
            forward: cargo.forward,
            ecn: cargo.ecn,
            segment: cargo.segment,
            packets: cargo.forward.packets,
            is_complete: !cargo.contents.len().is_multiple_of(cargo.segment),
            bytes,
        });
    }

    /// True if packets of this direction wait, which others must not overtake.
    pub(super) fn holds(&self, flow: FlowId) -> bool {
        let latest = self.latest.get(flow.index as usize);
        latest.is_some_and(|(turn, _)| *turn == self.turn)
    }

    /// Sends at once.
    pub(super) fn send_now(&mut self, port: &Port, cargo: Cargo<'_>) {
        let Cargo {
            forward,
            ecn,
            segment,
            contents,
        } = cargo;
        self.send(port, &forward, ecn, segment, contents);
    }

    /// Sends all waiting packets.
    pub(super) fn flush(&mut self) {
        let mut batches = std::mem::take(&mut self.batches);
        for batch in batches.drain(..) {
            let Batch {
                port,
                forward,
                ecn,
                segment,
                bytes,
                ..
            } = batch;
            self.send(&port, &forward, ecn, segment, &bytes);
            if self.spares.len() < SPARES_MAX {
                self.spares.push(bytes);
            }
        }
        self.batches = batches;
        self.bytes = 0;
        self.turn += 1;
    }

    fn send(
        &mut self,
        port: &Port,
        forward: &Forward,
        ecn: Option<EcnCodepoint>,
        segment: usize,
        contents: &[u8],
    ) {
        let at_once = port.socket.batch_packets_max().get().min(BATCH_PACKETS_MAX);
        let is_together = at_once > 1 && segment <= SEGMENT_BYTES_MAX;
        let packets = match is_together {
            true => at_once.min(BATCH_BYTES_MAX / segment.max(1)),
            false => 1,
        };
        for part in contents.chunks(segment * packets.max(1)) {
            let transmit = Transmit {
                destination: forward.remote,
                ecn,
                contents: part,
                segment_size: is_together.then_some(segment),
                src_ip: forward.local_ip,
            };
            self.calls += 1;
            match port
                .socket
                .state()
                .try_send(port.socket.io().into(), &transmit)
            {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.note(forward.flow, segment, part, Reason::Congested);
                }
                Err(_) if part.len() > segment => {
                    self.send_apart(port, &transmit, forward.flow, segment);
                }
                Err(error) => {
                    trace(forward.remote, &error);
                    self.note(forward.flow, segment, part, Reason::Unsendable);
                }
            }
        }
    }

    /// Sends packets one by one, because the device may lack segmentation, or one packet may be too large.
    fn send_apart(&mut self, port: &Port, whole: &Transmit<'_>, flow: FlowId, segment: usize) {
        for contents in whole.contents.chunks(segment) {
            let one = Transmit {
                contents,
                segment_size: None,
                ..whole.clone()
            };
            self.calls += 1;
            if let Err(error) = port.socket.state().try_send(port.socket.io().into(), &one) {
                trace(whole.destination, &error);
                let reason = match error.kind() {
                    io::ErrorKind::WouldBlock => Reason::Congested,
                    _ => Reason::Unsendable,
                };
                self.note(flow, segment, contents, reason);
            }
        }
    }

    fn note(&mut self, flow: FlowId, segment: usize, contents: &[u8], reason: Reason) {
        self.unsent.push(Unsent {
            flow,
            packets: contents.len().div_ceil(segment.max(1)) as u64,
            bytes: contents.len() as u64,
            reason,
        });
    }
}

fn trace(remote: SocketAddr, error: &io::Error) {
    tracing::trace!(%remote, %error, "a relay's packet was not sent");
}

impl Batch {
    /// Appends packets. Returns false if they do not belong to the batch.
    fn append(&mut self, cargo: &Cargo<'_>) -> bool {
        let is_alike = cargo.forward.flow == self.flow
            && cargo.forward.remote == self.forward.remote
            && cargo.ecn == self.ecn
            && (cargo.segment == self.segment
                || (cargo.forward.packets == 1 && cargo.segment < self.segment));
        let fits = self.packets + cargo.forward.packets <= BATCH_PACKETS_MAX
            && self.bytes.len() + cargo.contents.len() <= BATCH_BYTES_MAX;
        if self.is_complete || !is_alike || !fits {
            return false;
        }
        self.packets += cargo.forward.packets;
        self.is_complete = !cargo.contents.len().is_multiple_of(self.segment);
        self.bytes.extend_from_slice(cargo.contents);
        true
    }
}
