//! Checks of packets that enter the tunnel from a device, and the answers to those that may not.

use std::{net::IpAddr, time::Duration};

use anabranch::{base::Instant, net::tun::Tun};

use crate::{
    counters::{Counters, Dropped},
    fq_codel::Packet,
    outlet::Outlet,
    own::Own,
    packet::{self, Cause, Header, Segment, reset},
};

/// Reads from a device in one turn.
pub(crate) const READS_MAX: usize = 64;
/// Answers that may follow each other at once, and those of a second.
const ANSWERS_MAX: u32 = 100;

/// Limit on the answers to packets that are not carried.
#[derive(Debug)]
pub(crate) struct Answers {
    left: u32,
    since: Instant,
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self {
            left: ANSWERS_MAX,
            since: Instant::EPOCH,
        }
    }

    /// True if one more may be sent now.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        if now.since(self.since) >= Duration::from_secs(1) {
            self.left = ANSWERS_MAX;
            self.since = now;
        }
        let is_left = self.left > 0;
        self.left -= u32::from(is_left);
        is_left
    }
}

/// One side of the tunnel, for what enters it there.
#[derive(Debug)]
pub(crate) struct Entrance<'a> {
    pub(crate) device: &'a Tun,
    pub(crate) own: &'a Own,
    pub(crate) counters: &'a Counters,
    pub(crate) answers: Answers,
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way<'a> {
    pub(crate) outlet: &'a Outlet,
    /// Bucket of its flow.
    pub(crate) bucket: u16,
    /// Largest packet that the other side takes.
    pub(crate) mtu: u16,
}

impl Entrance<'_> {
    /// Reads the headers of a packet; `None`, and it is counted, if it may not enter whoever it is for. `local`: addresses of the tunnel
    /// that this machine has.
    pub(crate) fn look(&self, now: Instant, ip: &[u8], local: &[IpAddr]) -> Option<Header> {
        let Ok(header) = Header::read(ip) else {
            self.counters.note_dropped(Dropped::Malformed);
            return None;
        };
        if self.own.sent(now, ip, &header, local) {
            self.counters.note_dropped(Dropped::Loop);
            return None;
        }
        Some(header)
    }

    /// Drops a packet that a rule denies, and answers it: a segment of an open connection by a reset, since programs take an ICMP message
    /// there for a passing trouble.
    pub(crate) fn deny(&mut self, now: Instant, (ip, header): (&[u8], &Header)) {
        let segment = Segment::read(ip, header).filter(|segment| !segment.is_opening());
        let Some(segment) = segment else {
            self.refuse(now, (ip, header), Dropped::Denied, Cause::Prohibited);
            return;
        };
        self.counters.note_dropped(Dropped::Denied);
        if !segment.is_reset() && self.answers.admit(now) {
            let reply = match segment.progress(ip).acknowledged {
                Some(number) => reset(segment.ends.reversed(), number),
                None => segment.refusal(ip),
            };
            // As below.
            let _ = self.device.try_send(&reply);
        }
    }

    /// Drops a packet, and answers it.
    pub(crate) fn refuse(
        &mut self,
        now: Instant,
        (ip, header): (&[u8], &Header),
        reason: Dropped,
        cause: Cause,
    ) {
        self.counters.note_dropped(reason);
        if let Some(reply) = packet::answer(ip, header, cause)
            && self.answers.admit(now)
        {
            // One that the kernel does not take is lost, as on any way.
            let _ = self.device.try_send(&reply);
        }
    }

    /// Sends a packet on its way.
    pub(crate) fn enter(&mut self, now: Instant, (ip, header): (&[u8], &Header), way: Way<'_>) {
        if ip.len() > usize::from(way.mtu) && header.is_whole {
            let cause = Cause::TooBig(way.mtu);
            self.refuse(now, (ip, header), Dropped::TooBig, cause);
            return;
        }
        let mut packet = Packet::new(ip);
        packet::clamp(packet.ip_mut(), header, way.mtu);
        self.counters.note_sent(ip.len());
        way.outlet.push_into(now, way.bucket, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_limited_by_the_second() {
        let mut answers = Answers::new();
        let admitted = |answers: &mut Answers, millis: u64| {
            (0..1000)
                .filter(|_| answers.admit(Instant::from_millis(millis)))
                .count()
        };
        assert_eq!(admitted(&mut answers, 0), 100);
        assert_eq!(admitted(&mut answers, 500), 0);
        assert_eq!(admitted(&mut answers, 1100), 100);
    }
}
