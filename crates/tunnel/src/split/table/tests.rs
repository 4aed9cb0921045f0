use proptest::prelude::*;

use super::*;

const SEGMENT: Progress = Progress {
    next: 1,
    acknowledged: Some(1),
    is_last: false,
    is_reset: false,
};
const LAST: Progress = Progress {
    is_last: true,
    ..SEGMENT
};
const RESET: Progress = Progress {
    is_reset: true,
    ..SEGMENT
};

fn ends(port: u16) -> Ends {
    Ends {
        source: ([10, 77, 0, 2], port).into(),
        destination: ([192, 0, 2, 1], 80).into(),
    }
}

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

#[test]
fn a_connection_from_its_opening_to_its_end() {
    let mut table = Table::new();
    let number = table.begin(at(1), ends(5)).unwrap();
    assert_eq!(
        table.sent(at(1), &ends(5), &SEGMENT),
        Some((number, Stage::Asked))
    );
    assert_eq!(table.begin(at(1), ends(5)), None, "it has begun");
    assert_eq!(table.accept(number), None, "nothing was offered");
    assert!(table.offer(number, "task"));
    assert!(!table.offer(number, "another"));
    assert_eq!(table.answered(at(1), number, &SEGMENT), Some(ends(5)));
    let offered = Stage::Offered { is_answered: true };
    assert_eq!(
        table.sent(at(1), &ends(5), &SEGMENT),
        Some((number, offered))
    );
    assert_eq!(table.accept(number), Some("task"));
    assert_eq!(table.accept(number), None);
    assert!(!table.take_back(number));
    table.end(at(9), number);
    // Its last segments still pass.
    assert_eq!(table.answered(at(9), number, &SEGMENT), Some(ends(5)));
    assert_eq!(
        table.sent(at(9), &ends(5), &SEGMENT),
        Some((number, Stage::Ended))
    );
    let second = table.begin(at(9), ends(5)).unwrap();
    assert_ne!(second, number, "a number is not used again at once");
    assert_eq!(table.answered(at(9), number, &SEGMENT), None);
}

/// The relay learns of the end later than both kernels, and the program may use its port again at once.
#[test]
fn a_connection_that_both_halves_have_ended_is_over() {
    for (from_program, from_listener) in [(&LAST, &LAST), (&RESET, &SEGMENT), (&SEGMENT, &RESET)] {
        let mut table = Table::new();
        let first = table.begin(at(0), ends(5)).unwrap();
        table.offer(first, ());
        table.accept(first);
        table.sent(at(1), &ends(5), from_program);
        table.answered(at(1), first, from_listener);
        assert_eq!(
            table.sent(at(1), &ends(5), &SEGMENT),
            Some((first, Stage::Ended))
        );
        let second = table.begin(at(1), ends(5)).unwrap();
        // The relay of the first takes nothing from the second.
        table.end(at(2), first);
        assert_eq!(
            table.sent(at(2), &ends(5), &SEGMENT),
            Some((second, Stage::Asked))
        );
    }
    let mut table = Table::new();
    let number = table.begin(at(0), ends(5)).unwrap();
    table.offer(number, ());
    table.accept(number);
    table.sent(at(1), &ends(5), &LAST);
    assert_eq!(table.begin(at(1), ends(5)), None, "the other half goes on");
}

#[test]
fn connections_without_their_addresses_are_left_with_the_numbers_of_resets() {
    let mut table = Table::new();
    table.begin(at(0), ends(5)).unwrap();
    let number = table.begin(at(0), ends(6)).unwrap();
    table.offer(number, ());
    table.sent(
        at(0),
        &ends(6),
        &Progress {
            next: 10,
            acknowledged: Some(20),
            ..SEGMENT
        },
    );
    table.answered(
        at(0),
        number,
        &Progress {
            next: 25,
            acknowledged: Some(10),
            ..SEGMENT
        },
    );
    assert!(table.leave(false).is_empty());
    let left = table.leave(true);
    assert_eq!(left.len(), 1, "the other has no halves");
    assert_eq!((left[0].number, left[0].ends), (number, ends(6)));
    assert_eq!(
        (&left[0].for_program[..], &left[0].for_listener[..]),
        (&[20, 25][..], &[10][..])
    );
    assert_eq!((table.flows.len(), table.numbers.len()), (0, 0));
}

#[test]
fn numbers_are_free_some_time_after_the_last_segment() {
    let mut table = Table::<()>::new();
    let number = table.begin(at(0), ends(1)).unwrap();
    table.end(at(0), number);
    table.answered(at(60), number, &SEGMENT);
    table.begin(at(66), ends(2)).unwrap();
    assert_eq!(table.flows.len(), 2, "a segment came late");
    table.begin(at(126), ends(3)).unwrap();
    assert_eq!(table.flows.len(), 2);
    assert_eq!(table.answered(at(126), number, &SEGMENT), None);
}

#[test]
fn a_connection_that_is_not_made_leaves_nothing() {
    let mut table = Table::<()>::new();
    let number = table.begin(at(0), ends(1)).unwrap();
    table.withdraw(number);
    assert_eq!(table.flows.len(), 0);
    assert!(!table.offer(number, ()));
    let number = table.begin(at(0), ends(1)).unwrap();
    table.offer(number, ());
    table.withdraw(number);
    assert_eq!(table.flows.len(), 1, "its second half may have begun");
    assert!(table.take_back(number));
    assert_eq!((table.flows.len(), table.numbers.len()), (0, 0));
}

/// The machine is too busy to accept it soon: the program is connected already, so it is no connection that passes as packets.
#[test]
fn a_connection_that_the_listener_has_answered_is_not_taken_back() {
    let mut table = Table::<()>::new();
    let number = table.begin(at(0), ends(1)).unwrap();
    table.offer(number, ());
    table.answered(at(1), number, &SEGMENT);
    assert!(!table.take_back(number));
    assert_eq!(table.accept(number), Some(()));
}

#[test]
fn a_full_table_forgets_what_ended_first_and_nothing_else() {
    let mut table = Table::<()>::new();
    let all: Vec<Number> = (0..FLOWS_MAX as u16)
        .map(|port| table.begin(at(0), ends(port)).unwrap())
        .collect();
    assert_eq!(table.begin(at(0), ends(60_000)), None);
    table.end(at(1), all[7]);
    table.end(at(2), all[3]);
    table.begin(at(3), ends(60_000)).unwrap();
    assert_eq!(table.answered(at(3), all[7], &SEGMENT), None);
    assert_eq!(table.answered(at(3), all[3], &SEGMENT), Some(ends(3)));
}

proptest! {
    /// Whatever happens, each number belongs to one connection, and both tables agree.
    #[test]
    fn both_tables_agree(steps in prop::collection::vec((0u8..7, 0u16..8, 0u64..40), 1..200)) {
        let mut table = Table::new();
        let (mut now, mut numbers) = (0, Vec::new());
        for (step, port, seconds) in steps {
            now += seconds;
            let number = numbers.get(usize::from(port) % numbers.len().max(1)).copied();
            match (step, number) {
                (0 | 1, _) => numbers.extend(table.begin(at(now), ends(port))),
                (2, Some(number)) => drop(table.offer(number, ())),
                (3, Some(number)) => drop(table.accept(number)),
                (4, Some(number)) => table.withdraw(number),
                (5, Some(number)) => drop(table.answered(at(now), number, &RESET)),
                (_, Some(number)) => table.end(at(now), number),
                _ => {}
            }
            prop_assert_eq!(table.flows.len(), table.numbers.len());
            for (ends, number) in &table.numbers {
                prop_assert_eq!(&table.flows[number].ends, ends);
            }
            let lingering = table.flows.values().filter(|flow| flow.stage == Stage::Ended);
            prop_assert!(lingering.count() <= table.ended.len());
        }
        // In the end, all are forgotten.
        for number in numbers {
            table.end(at(now), number);
        }
        table.forget(at(now + 200));
        table.forget(at(now + 400));
        prop_assert_eq!((table.flows.len(), table.ended.len()), (0, 0));
    }
}
