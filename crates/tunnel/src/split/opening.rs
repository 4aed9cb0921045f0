//! A connection from its opening: the server is asked to make it, then its second half is accepted, and both are joined; or the opening
//! is answered with a refusal, or passes as a packet.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use anabranch::{base::Instant, net::tun::ReadBatch};
use anabranch_gateway::{
    Code,
    divert::{Made, NotMade},
};
use tokio::{sync::oneshot, time::timeout};

use super::{Split, table::Number};
use crate::{
    client::dispatch::Assigned,
    fq_codel::Packet,
    notice::Notice,
    packet::{Cause, Ends, Header, Segment, answer, clamp},
};

/// Time in which the listener must answer the opening of a second half: both are on this machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which a second half must be accepted once the listener has answered: the program is on this machine, or in the network behind
/// it, but the machine may be very busy.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(60);

impl Split {
    /// Begins a connection; false if it is to pass as packets.
    pub(super) fn begin(&self, now: Instant, segment: Segment, batch: &mut ReadBatch) -> bool {
        let ends = segment.ends;
        if self.bypass().contains(now, ends.destination) {
            return false;
        }
        // Without a session, the program sends its opening again.
        if !self.0.joined.is_there() {
            return true;
        }
        let mut opening = None;
        let is_read = batch.divide(|ip| opening = Some(Box::from(&*ip)));
        let Some(opening) = opening.filter(|_| is_read.is_ok()) else {
            return true;
        };
        let Some(number) = self.table().begin(now, ends) else {
            return true;
        };
        let (mut over, connecting) = (
            self.0.is_over.subscribe(),
            self.clone().connect(number, segment, opening),
        );
        let task = async move {
            tokio::select! {
                _ = over.wait_for(|is_over| *is_over) => {}
                () = connecting => {}
            }
        };
        if !self.0.diverter.spawn(task) {
            self.table().withdraw(number);
        }
        true
    }

    /// Makes a connection, and carries it until it ends.
    async fn connect(self, number: Number, segment: Segment, opening: Box<[u8]>) {
        let Ends {
            source,
            destination,
        } = segment.ends;
        let made = match self.0.diverter.ask(source, destination).await {
            Ok(made) => made,
            Err(error) => {
                self.table().withdraw(number);
                self.refuse(&segment, &opening, error);
                return;
            }
        };
        // Only a connection that was made takes the memory of its relay.
        Box::pin(self.carry(number, segment, opening, made)).await;
        self.table().end(self.0.clock.now(), number);
    }

    async fn carry(&self, number: Number, segment: Segment, opening: Box<[u8]>, made: Made) {
        let (sender, mut accepted) = oneshot::channel();
        let second = {
            let halves = self.halves();
            let is_v4 = segment.ends.source.is_ipv4();
            let mut all = halves.iter();
            let half = all.find(|half| half.listener.is_ipv4() == is_v4);
            half.map(|half| half.ends(number))
        };
        let Some(second) = second.filter(|_| self.table().offer(number, sender)) else {
            return;
        };
        let mut changed = opening.clone();
        segment.readdress(&mut changed, false, second);
        self.put(&changed);
        drop(changed);
        let accepted = match timeout(ANSWER_TIMEOUT, &mut accepted).await {
            Ok(accepted) => Ok(accepted),
            Err(_) if self.table().take_back(number) => {
                self.blocked(segment.ends.destination);
                return self.pass(&opening);
            }
            Err(_) => timeout(ACCEPT_TIMEOUT, accepted).await,
        };
        let Ok(Ok(accepted)) = accepted else {
            return;
        };
        self.0.made.fetch_add(1, Ordering::Relaxed);
        made.carry(accepted).await;
    }

    /// Answers the opening of a connection that is not made, or lets it pass.
    fn refuse(&self, segment: &Segment, opening: &[u8], error: NotMade) {
        let target = segment.ends.destination;
        tracing::debug!(%target, %error, "a connection was not made");
        let cause = match error {
            NotMade::Denied(_) => Cause::Prohibited,
            NotMade::Refused(refusal) => match refusal.code {
                Code::Refused => return self.put(&segment.refusal(opening)),
                Code::Unreachable => Cause::NoHost,
                Code::NotAllowed | Code::Unsupported => {
                    // The server's kernel decides on packets.
                    self.bypass().add(self.0.clock.now(), target);
                    return self.pass(opening);
                }
                // The program sends its opening again.
                _ => return,
            },
            _ => {
                let is_first = self.bypass().add_all(self.0.clock.now());
                if is_first {
                    let text = "the server makes no TCP connections for this machine; they pass as packets";
                    self.0.notices.show(&Notice::Warning(text.to_owned()));
                }
                return self.pass(opening);
            }
        };
        let header = Header::read(opening).ok();
        if let Some(reply) = header.and_then(|header| answer(opening, &header, cause)) {
            self.put(&reply);
        }
    }

    /// Lets connections pass as packets: their second halves do not reach the listener.
    fn blocked(&self, target: SocketAddr) {
        let device = self.0.device.name();
        let is_first = self.bypass().add_all(self.0.clock.now());
        if is_first {
            let text = format!(
                "a firewall of this machine drops connections from {device} to the tunnel's own listener, as that to {target}; allow TCP in \
                 from the device {device}; until then, connections pass as packets"
            );
            self.0.notices.show(&Notice::Warning(text));
        }
    }

    /// Sends the opening of a connection as a packet; the connection then passes as packets.
    fn pass(&self, opening: &[u8]) {
        let Ok(header) = Header::read(opening) else {
            return;
        };
        let now = self.0.clock.now();
        let dispatch = &self.0.dispatch;
        let assigned = dispatch.assign(now, opening, &header);
        let (outlet, bucket) = match &assigned {
            Assigned::Rest(bucket) => (dispatch.rest(), *bucket),
            Assigned::Class(class, bucket) => (&class.queues, *bucket),
            // The rules let the connection pass before; the program sends its opening again.
            Assigned::Denied | Assigned::Limited => return,
        };
        let mut packet = Packet::new(opening);
        clamp(packet.ip_mut(), &header, self.0.mtu.load(Ordering::Relaxed));
        self.0.counters.note_sent(opening.len());
        outlet.push_into(now, bucket, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the future that a function with these arguments returns.
    fn future_bytes<A, B, C, D, F: Future>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// There may be 16,384 of them, and each opening of a flood is one.
    #[test]
    fn a_connection_that_waits_for_its_target_takes_little() {
        let bytes = future_bytes(Split::connect);
        println!("{bytes} bytes");
        assert!(bytes <= 2_048, "{bytes} bytes");
    }
}
