//! Packets from the queues to the streams.

use std::collections::BTreeMap;

use super::*;
use crate::packet::{BUCKETS, samples::tcp4};

fn push(outlet: &Outlet, port: u16, bytes: usize) {
    let ip = tcp4(port, &vec![0; bytes - 47]);
    let header = Header::read(&ip).unwrap();
    outlet.push(Instant::from_millis(1000), Packet::new(&ip), &header);
}

fn take(outlet: &Outlet, capacity: usize, taken: &mut Taken) {
    take_beside(outlet, capacity, taken, false);
}

fn take_beside(outlet: &Outlet, capacity: usize, taken: &mut Taken, is_busy: bool) {
    let pace = Pace {
        unsent_bytes: 20_000,
        bytes_per_s: 1e6,
        is_busy,
        paths: 2,
        ..Pace::default()
    };
    outlet.take(Instant::from_millis(1000), capacity, &pace, taken);
}

#[test]
fn packets_are_taken_with_numbers_as_far_as_there_is_space() {
    let outlet = Outlet::new(1 << 20);
    for index in 0..20_u16 {
        push(&outlet, index % 2, 1000);
    }
    let mut taken = Taken::default();
    // All flows send much.
    taken.meter.advance(Instant::from_millis(1000), 0.0);
    for bucket in 0..BUCKETS {
        taken.meter.note(bucket, 1 << 20, false);
    }
    take(&outlet, 5_000, &mut taken);
    assert_eq!(taken.rest.adus.len(), 6, "five, and one more");
    take(&outlet, 5_000, &mut taken);
    assert_eq!(taken.rest.adus.len(), 6);
    take(&outlet, 100_000, &mut taken);
    assert_eq!((taken.rest.adus.len(), taken.urgent.adus.len()), (20, 0));
    let mut buckets = BTreeMap::new();
    for adu in &taken.rest.adus {
        let header = PacketHeader::read(&adu.data).unwrap();
        let next = buckets.entry(header.bucket).or_insert(0);
        assert_eq!((header.sequence, adu.data.len()), (*next, 1000));
        *next += 1;
    }
    assert_eq!(buckets.into_values().collect::<Vec<u32>>(), [10, 10]);
    assert_eq!(outlet.stats().queued, 20);
}

#[test]
fn a_flow_that_sends_little_overtakes_what_the_session_holds() {
    let outlet = Outlet::new(1 << 20);
    let mut taken = Taken::default();
    // Nothing waits: it need not.
    push(&outlet, 7, 100);
    take(&outlet, 20_000, &mut taken);
    assert_eq!((taken.rest.adus.len(), taken.urgent.adus.len()), (1, 0));
    // A flow that fills the paths, and holds what the session takes.
    for _ in 0..60 {
        push(&outlet, 1, 1000);
    }
    take(&outlet, 20_000, &mut taken);
    taken.rest = Lane::default();
    take(&outlet, 20_000, &mut taken);
    push(&outlet, 7, 100);
    take(&outlet, 0, &mut taken);
    let urgent: Vec<usize> = taken.urgent.adus.iter().map(|adu| adu.data.len()).collect();
    assert_eq!(urgent.last(), Some(&100));
    let rest = taken.rest.adus.len();
    take(&outlet, 0, &mut taken);
    assert_eq!(taken.rest.adus.len(), rest, "the other flow does not");
}

#[test]
fn a_flow_keeps_its_order_in_other_queues() {
    let outlet = Outlet::new(1 << 20);
    let other = outlet.beside(1 << 20);
    for _ in 0..6 {
        push(&outlet, 7, 1000);
        push(&outlet, 8, 500);
    }
    let ip = tcp4(7, &[0; 953]);
    let header = Header::read(&ip).unwrap();
    let key = FlowKey::of(&ip, &header);
    let bucket = bucket_of(outlet.hash(&key));
    let busy = || {
        let mut taken = Taken::default();
        taken.meter.advance(Instant::from_millis(1000), 0.0);
        taken.meter.note(bucket, 1 << 20, false);
        taken
    };
    let (mut taken, mut moved) = (busy(), busy());
    take(&outlet, 2_000, &mut taken);
    outlet.move_flow(bucket, &key, &other);
    push(&other, 7, 1000);
    take(&other, 100_000, &mut moved);
    take(&outlet, 100_000, &mut taken);
    let numbers = |taken: &Taken| {
        let adus = taken.rest.adus.iter();
        let headers = adus.map(|adu| PacketHeader::read(&adu.data).unwrap());
        let of_flow = headers.filter(|header| header.bucket == bucket);
        of_flow.map(|header| header.sequence).collect::<Vec<u32>>()
    };
    let all = [numbers(&taken), numbers(&moved)].concat();
    assert_eq!(all, (0..7).collect::<Vec<u32>>());
    assert!(!numbers(&moved).is_empty());
    assert!(outlet.lock().is_empty() && other.lock().is_empty());
}

/// Such as a split connection, whose bytes are not in these queues.
#[test]
fn a_flow_that_sends_little_overtakes_what_else_the_session_carries() {
    let outlet = Outlet::new(1 << 20);
    let mut taken = Taken::default();
    push(&outlet, 7, 100);
    take_beside(&outlet, 20_000, &mut taken, true);
    assert_eq!((taken.rest.adus.len(), taken.urgent.adus.len()), (0, 1));
}
