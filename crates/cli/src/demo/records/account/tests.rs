use super::*;

fn account(begin: Instant) -> Account {
    Account::new(&Set::new(None, 75, 1, 1).unwrap(), begin)
}

/// Records `from..to` of a component, each 1/25 s after the one before it.
fn arrive(account: &mut Account, component: u16, (from, to): (u64, u64), begin: Instant) {
    for record in from..to {
        let at = begin + Duration::from_secs_f64(record as f64 / RATE as f64);
        account.arrived(component, record, at);
    }
}

#[test]
fn a_second_is_served_unless_something_was_late_and_the_rate_was_not_carried() {
    let begin = Instant::now();
    let mut account = account(begin);
    let second = |number: u64| begin + Duration::from_secs(number);
    arrive(&mut account, 0, (0, 25), begin);
    account.second(second(1));
    // Twenty of the second second are late, and come in the third beside its own.
    arrive(&mut account, 0, (25, 30), begin);
    account.second(second(2));
    let late = second(2) + Duration::from_millis(500);
    for record in 30..50 {
        account.arrived(0, record, late);
    }
    arrive(&mut account, 0, (50, 75), begin);
    account.second(second(3));
    // All is there: no further second counts.
    account.second(second(4));
    let report = account.report();
    assert_eq!(report[0]["seconds"], 3);
    assert_eq!(report[0]["seconds_kept"], 2);
    assert_eq!(report[0]["records"], 75);
    // Record 30 was due after 1.2 s.
    assert_eq!(report[0]["delay_max_ms"], 1_300.0);
    // Nothing of the second component: it has no first record from which its seconds count.
    assert_eq!(report[1]["seconds"], 0);
}

#[test]
fn the_mean_is_that_between_the_first_and_the_last_record() {
    let begin = Instant::now();
    let mut account = account(begin);
    arrive(&mut account, 2, (0, 75), begin);
    assert_eq!(account.report()[2]["mean_bps"], 8 * 38_400 * 25);
}

#[test]
fn promises_are_those_in_force_with_the_time_of_the_first() {
    let begin = Instant::now();
    let mut account = account(begin);
    let promised = |rate_bps| Promised::Promised { rate_bps };
    let waiting = Promised::Waiting {
        why: "little is known".to_owned(),
    };
    let at = |seconds| begin + Duration::from_secs(seconds);
    let line = account.promise(0, &waiting, at(0));
    assert!(line.contains("little is known"), "{line}");
    account.promise(0, &promised(2_000_000), at(3));
    account.promise(0, &waiting, at(5));
    account.promise(0, &promised(3_456_000), at(6));
    let row = &account.report()[0];
    assert_eq!(row["promised_bps"], 3_456_000);
    assert_eq!(row["promised_after_s"], 3.0);
    assert_eq!(row["warnings"], 1);
    assert_eq!(row["is_promised_at_end"], true);
    let text = table(&json!([row]), 75).join("\n");
    assert!(text.contains("3.46 from 3.0 s, warned 1x"), "{text}");
}
