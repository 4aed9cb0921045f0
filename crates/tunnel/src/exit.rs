//! Receiving side of the tunnel: packets are checked, put in order, and handed to a device.

use std::{future::poll_fn, task::Poll, time::Duration};

use anabranch::{
    StreamFailure,
    net::{Clock, tun::Tun},
};
use bytes::Bytes;

use crate::{
    counters::{Counters, Dropped},
    order::Order,
    outlet::Lanes,
    packet::Header,
    wire::{HEADER_BYTES, HELLO, PacketHeader},
};

/// Bytes that are read from a stream in one turn.
const TURN_BYTES: usize = 256 << 10;
/// Time without a packet after which nothing is kept of the flows.
const REST: Duration = Duration::from_secs(2);

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

/// Hands the packets of both streams to a device until one is over. `check` names the reason why a packet is not to be handed
/// on.
pub(crate) async fn deliver(
    lanes: &Lanes,
    (device, clock): (&Tun, Clock),
    counters: &[&Counters],
    mut check: impl FnMut(&[u8], &Header) -> Result<(), Dropped>,
) -> End {
    let mut order = Order::new();
    let (mut adus, mut ready) = (Vec::new(), Vec::new());
    let note_dropped = |reason| counters.iter().for_each(|all| all.note_dropped(reason));
    loop {
        let now = clock.now();
        let wait = match order.next_at() {
            Some(at) => at.since(now),
            None if order.flows() > 0 => REST,
            None => Duration::MAX,
        };
        let reading = poll_fn(|cx| {
            let urgent = lanes.urgent.poll_recv_many(cx, &mut adus, TURN_BYTES);
            match lanes.rest.poll_recv_many(cx, &mut adus, TURN_BYTES) {
                // What ended it is reported by the next call.
                _ if matches!(urgent, Poll::Ready(Ok(true))) => urgent,
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
                (adus, ready) = (Vec::new(), Vec::new());
                continue;
            }
            None => {}
        }
        for adu in adus.drain(..) {
            if adu.data == HELLO {
                continue;
            }
            let Ok(place) = PacketHeader::read(&adu.data) else {
                return End::Protocol;
            };
            let packet = adu.data.slice(HEADER_BYTES..);
            let checked = Header::read(&packet).map_err(|_| Dropped::Malformed);
            if let Err(reason) = checked.and_then(|header| check(&packet, &header)) {
                note_dropped(reason);
                // Its number is used up all the same.
                order.arrive(
                    now,
                    (place.bucket, place.sequence),
                    Bytes::new(),
                    0,
                    &mut ready,
                );
                continue;
            }
            let bytes = packet.len();
            order.arrive(
                now,
                (place.bucket, place.sequence),
                packet,
                bytes,
                &mut ready,
            );
        }
        order.expire(now, &mut ready);
        for packet in ready.drain(..) {
            if packet.is_empty() {
                continue;
            }
            match device.try_send(&packet) {
                Ok(_) => counters
                    .iter()
                    .for_each(|all| all.note_received(packet.len())),
                Err(error) => {
                    tracing::trace!(%error, "packet not delivered");
                    note_dropped(Dropped::Device);
                }
            }
        }
    }
}
