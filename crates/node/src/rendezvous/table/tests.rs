use proptest::prelude::*;

use super::*;

const NOW: Instant = Instant::from_secs(1_000);

fn place(number: u16) -> Place {
    Place::new(number).unwrap()
}

#[test]
fn two_meet_at_a_place_and_the_third_has_to_wait() {
    let mut table = Table::default();
    let [waiter, first, second] = [1, 2, 3].map(Guest);
    assert_eq!(table.reach(first, place(7)), Err(Refusal::Nobody));
    table.wait(NOW, waiter, place(7)).unwrap();
    assert_eq!(table.wait(NOW, first, place(7)), Err(Refusal::Taken));
    assert_eq!(table.reach(first, place(7)), Ok(waiter));
    assert_eq!(table.reach(second, place(7)), Err(Refusal::Busy));
    assert_eq!(table.say(first), Ok(waiter));
    assert_eq!(table.say(waiter), Ok(first));
    assert_eq!(table.say(second), Err(Refusal::OutOfPlace));
    // A wrong code: the place stays, for the next.
    assert_eq!(table.part(waiter), Some(first));
    assert_eq!(table.reach(second, place(7)), Ok(waiter));
    assert_eq!(table.leave(waiter), Some(second));
    assert_eq!(table.reach(first, place(7)), Err(Refusal::Nobody));
}

#[test]
fn two_nodes_that_name_each_other_meet() {
    let mut table = Table::default();
    let [ada, bob, eve] = [1, 2, 3].map(|n| NodeId::from_public_key([n; 32]));
    assert_eq!(table.meet(Guest(1), ada, bob), Ok(None));
    assert_eq!(table.meet(Guest(2), eve, ada), Ok(None));
    assert_eq!(table.meet(Guest(3), bob, ada), Ok(Some(Guest(1))));
    assert_eq!(table.other(Guest(1)), Some(Guest(3)));
    assert_eq!(table.meet(Guest(1), ada, eve), Err(Refusal::OutOfPlace));
    assert_eq!(table.meet(Guest(4), ada, ada), Err(Refusal::OutOfPlace));
    // One that comes back replaces the one before it.
    assert_eq!(table.meet(Guest(5), eve, ada), Ok(None));
    assert_eq!(table.meet(Guest(6), ada, eve), Ok(Some(Guest(5))));
    assert_eq!(table.leave(Guest(5)), Some(Guest(6)));
}

#[test]
fn a_node_that_attends_is_called_by_its_id() {
    let mut table = Table::default();
    let [ada, bob] = [1, 2].map(|n| NodeId::from_public_key([n; 32]));
    assert_eq!(table.call(Guest(1), bob, ada, 0), Err(Refusal::Nobody));
    for guest in [2, 3, 4] {
        table.attend(Guest(guest), ada, 7).unwrap();
    }
    assert_eq!(table.attend(Guest(2), ada, 7), Err(Refusal::OutOfPlace));
    assert_eq!(table.call(Guest(2), ada, bob, 0), Err(Refusal::OutOfPlace));
    assert_eq!(table.call(Guest(5), ada, ada, 0), Err(Refusal::OutOfPlace));
    assert_eq!(table.leave(Guest(2)), None);
    assert_eq!(table.call(Guest(1), bob, ada, 0), Ok(Guest(3)));
    assert_eq!(table.other(Guest(3)), Some(Guest(1)));
    assert_eq!(table.call(Guest(6), bob, ada, 0), Ok(Guest(4)));
    assert_eq!(table.call(Guest(7), bob, ada, 0), Err(Refusal::Nobody));
    // One whose caller has left does not attend again by itself.
    assert_eq!(table.leave(Guest(1)), Some(Guest(3)));
    assert_eq!(table.call(Guest(7), bob, ada, 0), Err(Refusal::Nobody));
    table.attend(Guest(3), ada, 7).unwrap();
    table.attend(Guest(8), ada, 8).unwrap();
    assert_eq!(table.call(Guest(6), bob, ada, 9), Err(Refusal::OutOfPlace));
    assert_eq!(table.call(Guest(9), bob, ada, 9), Err(Refusal::Nobody));
    assert_eq!(table.call(Guest(9), bob, ada, 8), Ok(Guest(8)));
    assert_eq!(table.call(Guest(7), bob, ada, 0), Ok(Guest(3)));
}

#[test]
fn messages_are_counted() {
    let mut table = Table::default();
    table.wait(NOW, Guest(1), place(7)).unwrap();
    table.reach(Guest(2), place(7)).unwrap();
    for _ in 0..MESSAGES_MAX {
        table.say(Guest(2)).unwrap();
    }
    assert_eq!(table.say(Guest(2)), Err(Refusal::TooMuch));
}

#[test]
fn a_place_is_free_again_after_a_quarter_of_an_hour() {
    let mut table = Table::default();
    table.wait(NOW, Guest(1), place(7)).unwrap();
    table.wait(NOW, Guest(2), place(8)).unwrap();
    table.reach(Guest(3), place(8)).unwrap();
    assert_eq!(table.expire(NOW + LIFETIME - Duration::from_secs(1)), []);
    // Those that have met go on.
    assert_eq!(table.expire(NOW + LIFETIME), [Guest(1)]);
    assert_eq!(table.other(Guest(3)), Some(Guest(2)));
    table.wait(NOW + LIFETIME, Guest(4), place(7)).unwrap();
}

#[test]
fn places_are_bounded() {
    let mut table = Table::default();
    for number in 0..PLACES_MAX as u16 {
        table
            .wait(NOW, Guest(u64::from(number)), place(number))
            .unwrap();
    }
    let one_more = table.wait(NOW, Guest(5_000), place(PLACES_MAX as u16));
    assert_eq!(one_more, Err(Refusal::Full));
}

proptest! {
    /// Whatever guests do, each is together with one that is together with it, and nothing is left when all have gone.
    #[test]
    fn nobody_is_left_behind(steps in prop::collection::vec((0..8u8, 0..6u64, 0..3u16), 0..60)) {
        let mut table = Table::default();
        let node = |n: u64| NodeId::from_public_key([n as u8; 32]);
        for (step, guest, number) in steps {
            let guest = Guest(guest);
            match step {
                0 => _ = table.wait(NOW, guest, place(number)),
                1 => _ = table.reach(guest, place(number)),
                2 => _ = table.say(guest),
                3 => _ = table.part(guest),
                4 => {
                    let other = node(u64::from(number) + 2);
                    _ = table.meet(guest, node(guest.0), other);
                }
                5 => _ = table.attend(guest, node(guest.0), number),
                6 => _ = table.call(guest, node(guest.0), node(u64::from(number) + 2), number),
                _ => _ = table.leave(guest),
            }
            for waiting in table.attending.values() {
                prop_assert!(!waiting.is_empty());
                for (_, guest) in waiting {
                    prop_assert_eq!(table.other(*guest), None);
                }
            }
            for (one, pair) in &table.pairs {
                prop_assert_eq!(table.other(pair.other), Some(*one));
                prop_assert_ne!(pair.other, *one);
            }
            for waiting in table.places.values() {
                if let Some(other) = waiting.reached_by {
                    prop_assert_eq!(table.other(other), Some(waiting.guest));
                }
            }
        }
        for guest in 0..6 {
            table.leave(Guest(guest));
        }
        prop_assert!(table.places.is_empty() && table.pairs.is_empty());
        prop_assert!(table.meets.is_empty() && table.attending.is_empty());
    }
}
