//! Clients that are served in one session, by endpoint.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    imd::{Sections, SessionInfo},
    queue::Queue,
};

/// Bytes of frames that wait for one client.
const QUEUE_BYTES: usize = 64 << 20;
/// The same for all clients of an endpoint together; each may have one frame beyond it.
const QUEUES_BYTES: usize = 256 << 20;

/// A client that is served.
#[derive(Debug)]
pub(super) struct Seat {
    /// Packets of whole frames.
    pub(super) queue: Queue<Bytes>,
    pub(super) skipped: AtomicU64,
}

/// One session with a simulation.
#[derive(Debug)]
pub(super) struct Room {
    info: SessionInfo,
    /// A client has sent its go.
    pub(super) go: Notify,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug)]
struct Endpoint {
    sections: Sections,
    /// Its clients; `None`: the session is over.
    seats: Mutex<Option<Vec<Arc<Seat>>>>,
}

impl Room {
    pub(super) fn new(info: SessionInfo, endpoints: impl Iterator<Item = Sections>) -> Self {
        let endpoint = |sections: Sections| Endpoint {
            sections: sections.and(info.sections),
            seats: Mutex::new(Some(Vec::new())),
        };
        Self {
            info,
            go: Notify::new(),
            endpoints: endpoints.map(endpoint).collect(),
        }
    }

    fn seats(&self, endpoint: usize) -> MutexGuard<'_, Option<Vec<Arc<Seat>>>> {
        let seats = self.endpoints[endpoint].seats.lock();
        seats.unwrap_or_else(PoisonError::into_inner)
    }

    /// The session as it is announced to clients of an endpoint.
    pub(super) fn info(&self, endpoint: usize) -> SessionInfo {
        let sections = self.endpoints[endpoint].sections;
        SessionInfo {
            sections,
            ..self.info
        }
    }

    /// Adds a client, which gets the frames from now on.
    pub(super) fn sit(&self, endpoint: usize) -> Arc<Seat> {
        let seat = Arc::new(Seat {
            queue: Queue::new(QUEUE_BYTES),
            skipped: AtomicU64::new(0),
        });
        match &mut *self.seats(endpoint) {
            Some(seats) => seats.push(seat.clone()),
            None => seat.queue.close(),
        }
        seat
    }

    /// Removes a client.
    pub(super) fn leave(&self, endpoint: usize, seat: &Arc<Seat>) {
        seat.queue.abandon();
        if let Some(seats) = &mut *self.seats(endpoint) {
            seats.retain(|other| !Arc::ptr_eq(other, seat));
        }
    }

    /// Gives the packets of a frame to all clients of an endpoint. `is_waiting`: as soon as each has space; otherwise clients without
    /// space lose it.
    pub(super) async fn give(&self, endpoint: usize, packets: &Bytes, is_waiting: bool) {
        let seats = self.seats(endpoint).clone().unwrap_or_default();
        let bytes = packets.len();
        let mut held: usize = seats.iter().map(|seat| seat.queue.bytes()).sum();
        for seat in seats {
            if is_waiting {
                seat.queue.put(bytes, packets.clone()).await;
                continue;
            }
            let has_space = held + bytes <= QUEUES_BYTES || seat.queue.bytes() == 0;
            if has_space && seat.queue.offer(bytes, packets.clone()).is_ok() {
                held += bytes;
            } else {
                seat.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the session: what is queued is still served.
    pub(super) fn close(&self) {
        for endpoint in 0..self.endpoints.len() {
            for seat in self.seats(endpoint).take().unwrap_or_default() {
                seat.queue.close();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imd::{ByteOrder, Section};

    fn room() -> Room {
        let info = SessionInfo {
            order: ByteOrder::Little,
            sections: Sections::of(&[Section::Time, Section::Positions]),
            is_wrapped: true,
        };
        let positions = Sections::of(&[Section::Positions, Section::Forces]);
        Room::new(info, [Sections::ALL, positions].into_iter())
    }

    #[test]
    fn clients_are_told_what_is_sent_and_wanted() {
        let room = room();
        assert_eq!(room.info(0).sections.to_string(), "time+positions");
        assert_eq!(room.info(1).sections.to_string(), "positions");
        assert!(room.info(1).is_wrapped);
    }

    #[tokio::test]
    async fn who_does_not_read_loses_frames_and_others_do_not() {
        let room = room();
        let (idle, reading) = (room.sit(0), room.sit(0));
        let packets = Bytes::from(vec![0; 16 << 20]);
        for _ in 0..6 {
            room.give(0, &packets, false).await;
            assert_eq!(reading.queue.take().await, Some(packets.clone()));
        }
        let skipped = |seat: &Seat| seat.skipped.load(Ordering::Relaxed);
        assert_eq!((skipped(&idle), skipped(&reading)), (2, 0));
        room.leave(0, &idle);
        room.close();
        assert_eq!(reading.queue.take().await, None);
        assert_eq!(room.sit(0).queue.take().await, None, "it is over");
    }

    #[tokio::test]
    async fn clients_of_an_endpoint_have_a_bound_together() {
        let room = room();
        let idle: Vec<_> = (0..40).map(|_| room.sit(0)).collect();
        let packets = Bytes::from(vec![0; 8 << 20]);
        for _ in 0..4 {
            room.give(0, &packets, false).await;
        }
        let held: Vec<usize> = idle.iter().map(|seat| seat.queue.bytes()).collect();
        assert!(held.iter().all(|&bytes| bytes >= packets.len()));
        assert!(held.iter().sum::<usize>() <= (256 << 20) + idle.len() * packets.len());
    }
}
