//! Receiving side of the tunnel: packets are checked, put in order, and handed to a device.

use std::{future::poll_fn, iter::repeat, sync::Arc, task::Poll, time::Duration};

use anabranch::{
    StreamFailure,
    net::{
        Clock,
        tun::{Tun, WRITES_MAX, WriteBatch},
    },
};
use bytes::Bytes;

use crate::{
    class::{Arrived, Class, Classes},
    counters::{Counters, Dropped},
    order::{Arrival, Order, Patience},
    outlet::Lanes,
    packet::{Header, is_loss_sensitive},
    wire::{HEADER_BYTES, HELLO, PACKET, PacketHeader},
};

/// Bytes that are read from a stream in one turn.
const TURN_BYTES: usize = 256 << 10;
/// Time without a packet after which nothing is kept of the flows.
const REST: Duration = Duration::from_secs(2);

/// Packets that waited and are handed on at once: a socket with the system's buffer holds some more of them. Beyond, they follow in parts.
const BURST_PACKETS: usize = 32;
/// Pause between the parts, and their number, roughly: the program at the socket reads meanwhile.
const BURST_PAUSE: Duration = Duration::from_millis(1);
const BURST_PARTS: usize = 16;

/// End of a stream of packets.
#[derive(Debug)]
pub(crate) enum End {
    /// The other side has finished.
    Finished,
    /// The stream is over.
    Failed(StreamFailure),
    /// The other side broke the rules.
    Protocol,
}

/// A packet that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) ip: &'a [u8],
    pub(crate) header: &'a Header,
    pub(crate) bucket: u16,
    /// The class on whose stream it came.
    pub(crate) class: Option<&'a Arc<Class>>,
}

/// Hands the packets of all streams to a device until one of both lanes is over. `check` names the reason why a packet is not to be
/// handed on.
pub(crate) async fn deliver(
    (lanes, classes): (&Lanes, &Classes),
    (device, clock): (&Tun, Clock),
    counters: &[&Counters],
    mut check: impl FnMut(Incoming<'_>) -> Result<(), Dropped>,
) -> End {
    let mut order = Order::new();
    let (mut arrived, mut ready) = (Arrived::default(), Vec::new());
    let note_dropped = |reason| counters.iter().for_each(|all| all.note_dropped(reason));
    loop {
        let now = clock.now();
        let wait = match order.next_at() {
            Some(at) => at.since(now),
            None if order.flows() > 0 => REST,
            None => Duration::MAX,
        };
        let reading = poll_fn(|cx| {
            let of_classes = classes.poll_arrived(cx, &mut arrived, TURN_BYTES);
            let adus = &mut arrived.adus;
            let urgent = lanes.urgent.poll_recv_many(cx, adus, TURN_BYTES);
            match lanes.rest.poll_recv_many(cx, adus, TURN_BYTES) {
                // What ended it is reported by the next call.
                _ if matches!(urgent, Poll::Ready(Ok(true))) => urgent,
                Poll::Pending if of_classes && urgent.is_pending() => Poll::Ready(Ok(true)),
                Poll::Pending => urgent,
                ready => ready,
            }
        });
        let read = match wait {
            Duration::MAX => Some(reading.await),
            wait => tokio::time::timeout(wait, reading).await.ok(),
        };
        let now = clock.now();
        match read {
            Some(Ok(true)) => {}
            Some(Ok(false)) => return End::Finished,
            Some(Err(failure)) => return End::Failed(failure),
            None if order.next_at().is_none() => {
                order.rest(now);
                (arrived, ready) = (Arrived::default(), Vec::new());
                continue;
            }
            None => {}
        }
        let count = arrived.adus.len();
        let origins = arrived.classes.drain(..);
        let origins = origins.flat_map(|(class, count)| std::iter::repeat_n(Some(class), count));
        for (adu, class) in arrived.adus.drain(..).zip(origins.chain(repeat(None))) {
            if adu.data == HELLO {
                continue;
            }
            if let Some(class) = &class {
                if adu.data.first().is_some_and(|&kind| kind != PACKET) {
                    class.tell(adu.data);
                    continue;
                }
                class.note_use(now);
            }
            let Ok(place) = PacketHeader::read(&adu.data) else {
                return End::Protocol;
            };
            let packet = adu.data.slice(HEADER_BYTES..);
            let checked = Header::read(&packet).map_err(|_| Dropped::Malformed);
            let checked = checked.and_then(|header| {
                check(Incoming {
                    ip: &packet,
                    header: &header,
                    bucket: place.bucket,
                    class: class.as_ref(),
                })?;
                Ok(patience(&packet, &header))
            });
            let (packet, patience) = match checked {
                Ok(patience) => (packet, patience),
                Err(reason) => {
                    note_dropped(reason);
                    // Its number is used up all the same.
                    (Bytes::new(), Patience::Short)
                }
            };
            let arrival = Arrival {
                place: (place.bucket, place.sequence),
                bytes: packet.len(),
                patience,
                packet,
            };
            order.arrive(now, arrival, &mut ready);
        }
        order.expire(now, &mut ready);
        if ready.is_empty() {
            continue;
        }
        // Of the device, for all its clients: one for each would be a megabyte.
        let mut writes = device.batch();
        let (at_once, is_burst) = burst(count, ready.len());
        for packet in ready.drain(..).filter(|packet| !packet.is_empty()) {
            if writes.len() == at_once {
                write(device, &mut writes, &note_dropped).await;
                if is_burst {
                    tokio::time::sleep(BURST_PAUSE).await;
                }
            }
            writes.push(&packet);
            for all in counters {
                all.note_received(packet.len());
            }
        }
        write(device, &mut writes, &note_dropped).await;
        device.put_back(writes);
    }
}

/// Packets that are written at once, and whether a pause follows, where so many have arrived and so many are handed on.
fn burst(arrived: usize, ready: usize) -> (usize, bool) {
    match ready > arrived + BURST_PACKETS {
        true => ((ready / BURST_PARTS).clamp(BURST_PACKETS, WRITES_MAX), true),
        false => (WRITES_MAX, false),
    }
}

/// Hands packets to the kernel.
async fn write(device: &Tun, writes: &mut WriteBatch, note_dropped: &impl Fn(Dropped)) {
    if writes.is_empty() {
        return;
    }
    if let Err(error) = device.send_batch(writes).await {
        tracing::trace!(%error, "packets not delivered");
        note_dropped(Dropped::Device);
    }
}

/// Worth of the order to the flow of a packet.
fn patience(packet: &[u8], header: &Header) -> Patience {
    match is_loss_sensitive(packet, header) {
        true => Patience::Long,
        false => Patience::Short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_waited_follow_in_parts() {
        assert_eq!(burst(100, 100), (WRITES_MAX, false));
        assert_eq!(burst(1, 30), (WRITES_MAX, false));
        assert_eq!(burst(1, 300), (BURST_PACKETS, true));
        assert_eq!(burst(1, 800), (50, true));
        assert_eq!(burst(1, 5000), (WRITES_MAX, true));
    }
}
