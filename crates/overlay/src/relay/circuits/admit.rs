//! Verdicts on packets.

use std::net::{IpAddr, SocketAddr};

use anabranch_base::Instant;

use super::{Circuit, CircuitTable};
use crate::relay::{
    account::{Account, Reason},
    ports::{PortId, Side},
};

/// Packets that arrived together: from one peer to one port, all of one size except the last, which may be smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Their sender.
    pub remote: SocketAddr,
    /// The relay's own address at which they arrived, if it has several on this port.
    pub local_ip: Option<IpAddr>,
    /// Bytes of UDP payload in total.
    pub bytes: usize,
    /// Bytes of one packet.
    pub packet_bytes: usize,
}

/// One direction of a circuit, as passed to [`CircuitTable::undelivered`]. Numbers are small, so that they can serve as
/// an index; a number is reused after its circuit has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId {
    /// Number of the direction.
    pub index: u32,
    generation: u32,
}

/// Instruction to forward packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Port from which they leave.
    pub port: PortId,
    /// Address to which they go.
    pub remote: SocketAddr,
    /// The relay's own address from which they leave, if it has several.
    pub local_ip: Option<IpAddr>,
    /// Number of packets to forward, from the front; at least one. The rest are dropped.
    pub packets: usize,
    /// Direction of the circuit to which they are charged.
    pub flow: FlowId,
}

/// Verdict on a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Forward all of it, or a part.
    Forward(Forward),
    /// Drop it; it is counted.
    Drop,
}

impl Train {
    fn packets(&self) -> u64 {
        self.bytes.div_ceil(self.packet_bytes.max(1)) as u64
    }

    /// Bytes of the first `packets`.
    fn bytes_of(&self, packets: u64) -> u64 {
        (packets * self.packet_bytes as u64).min(self.bytes as u64)
    }

    /// Packets that fit into `bytes`.
    fn fitting(&self, bytes: u64) -> u64 {
        match bytes >= self.bytes as u64 {
            true => self.packets(),
            // All but the last have the full size.
            false => (bytes / self.packet_bytes.max(1) as u64).min(self.packets() - 1),
        }
    }
}

impl CircuitTable {
    /// Gives the verdict on packets that arrived at `port`. Forwarded packets are charged to circuit and source at
    /// once. Does not allocate; O(log circuits on this port).
    pub fn admit(&mut self, now: Instant, port: PortId, train: Train) -> Verdict {
        let Some(end) = self.ports.find(port, train.remote) else {
            self.totals.foreign_packets += train.packets();
            return Verdict::Drop;
        };
        let circuit = self.circuits[end.slot as usize].as_mut();
        let circuit = circuit.expect("ports name circuits that exist");
        let arrived_at = match end.side {
            Side::Near => &circuit.near,
            Side::Far => &circuit.far,
        };
        let is_another = arrived_at
            .remote
            .is_some_and(|remote| remote != train.remote);
        if is_another || now >= circuit.expires_at {
            self.totals.foreign_packets += train.packets();
            return Verdict::Drop;
        }
        let arrived = match end.side {
            Side::Near => &mut circuit.near,
            Side::Far => {
                circuit.has_answered = true;
                &mut circuit.far
            }
        };
        arrived.remote = Some(train.remote);
        arrived.local_ip = train.local_ip;

        let peer = self.peers.get_mut(circuit.owner);
        let limits = [
            (circuit.bucket.bytes(now), Reason::CircuitRate),
            (peer.bucket.bytes(now), Reason::PeerRate),
            (peer.bytes_left(now, &self.config), Reason::PeerBytes),
            (
                circuit.unanswered_left(end.side, self.config.unanswered_bytes_max),
                Reason::Unanswered,
            ),
            (circuit.learnt_left(end.side), Reason::NotLearnt),
        ];
        let (least, reason) = limits
            .into_iter()
            .min_by_key(|(bytes, _)| *bytes)
            .expect("there are limits");
        let packets = train.fitting(least);
        let bytes = train.bytes_of(packets);
        let dropped = train.packets() - packets;
        if dropped > 0 {
            for account in [
                &mut circuit.account,
                &mut peer.account,
                &mut self.totals.account,
            ] {
                account.dropped.add(reason, dropped);
            }
        }
        if packets == 0 {
            return Verdict::Drop;
        }
        circuit.bucket.take(now, bytes);
        peer.bucket.take(now, bytes);
        peer.use_bytes(bytes);
        self.headroom.forwarded(now, bytes);
        for account in [
            &mut circuit.account,
            &mut peer.account,
            &mut self.totals.account,
        ] {
            match end.side {
                Side::Near => account.outward.add(packets, bytes),
                Side::Far => account.back.add(packets, bytes),
            }
        }
        let (out, side) = match end.side {
            Side::Near => (&circuit.far, 0),
            Side::Far => (&circuit.near, 1),
        };
        let Some(remote) = out.remote else {
            return Verdict::Drop;
        };
        Verdict::Forward(Forward {
            port: out.port,
            remote,
            local_ip: out.local_ip,
            packets: packets as usize,
            flow: FlowId {
                index: end.slot * 2 + side,
                generation: circuit.generation,
            },
        })
    }

    /// Handles that forwarded packets could not be sent. They count as dropped, and not as bytes of the period; the
    /// rate that they used is not returned.
    pub fn undelivered(&mut self, flow: FlowId, packets: u64, bytes: u64, reason: Reason) {
        self.headroom.returned(bytes);
        let move_over = |account: &mut Account| {
            match flow.index % 2 {
                0 => account.outward.take(packets, bytes),
                _ => account.back.take(packets, bytes),
            }
            account.dropped.add(reason, packets);
        };
        move_over(&mut self.totals.account);
        let slot = flow.index as usize / 2;
        let circuit = self.circuits.get_mut(slot).and_then(Option::as_mut);
        // Otherwise the circuit and its account have ended in the meantime; the source's account keeps the packets.
        if let Some(circuit) = circuit.filter(|circuit| circuit.generation == flow.generation) {
            move_over(&mut circuit.account);
            let peer = self.peers.get_mut(circuit.owner);
            move_over(&mut peer.account);
            peer.return_bytes(bytes);
        }
    }
}

impl Circuit {
    /// Bytes that may still be sent to a next hop that has not answered.
    fn unanswered_left(&self, from: Side, most: u64) -> u64 {
        match from {
            Side::Near if !self.has_answered => most.saturating_sub(self.account.outward.bytes),
            _ => u64::MAX,
        }
    }

    /// Bytes that may go to the other side: none until its address is known.
    fn learnt_left(&self, from: Side) -> u64 {
        let other = match from {
            Side::Near => &self.far,
            Side::Far => &self.near,
        };
        match other.remote {
            None => 0,
            Some(_) => u64::MAX,
        }
    }
}
