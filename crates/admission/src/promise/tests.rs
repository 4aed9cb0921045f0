use std::time::Duration;

use crate::mapping::{Capacity, Term};
use anabranch_base::{ChannelId, Instant, Rate, Seed, SessionId, StreamId};
use anabranch_spec::{ChannelMask, Demand, Grade, Guarantee, StreamSpec};
use anabranch_stats::joint::Cell;

use super::{AdmissionController, Notice, PROMISED_MAX, Promises, Reason, WINDOW};

const STREAM: StreamId = StreamId(1);

fn guarantee(kbps: u64, probability: f64) -> Guarantee {
    Guarantee::rate(Rate::from_kbps(kbps), probability)
}

fn spec(guarantee: Guarantee) -> StreamSpec {
    StreamSpec::default().with_guarantee(guarantee)
}

fn with(guarantee: Guarantee, grade: Grade) -> Guarantee {
    Guarantee { grade, ..guarantee }
}

/// So many windows in which the only path held `bps`, and every stream got what it had.
fn pass(controller: &mut AdmissionController, windows: usize, bps: f64) -> Vec<Notice> {
    (0..windows)
        .flat_map(|_| controller.end_window(&[bps], |_| false))
        .collect()
}

fn known(windows: usize, bps: f64) -> AdmissionController {
    let mut controller = AdmissionController::new(1);
    pass(&mut controller, windows, bps);
    controller
}

/// The scheduler counts bytes of the application in the stream's own window; a placement is bits a second, headers included.
#[test]
fn a_plan_is_in_bytes_of_a_window_without_headers() {
    let mut promises = Promises::new(SessionId(0), Duration::from_secs(1));
    let channels = [Some(ChannelId(4))];
    for _ in 0..60 {
        promises.observe(Instant::EPOCH, &[Cell::Exact(4e6)]);
    }
    let guarantee = Guarantee {
        window: Duration::from_secs(2),
        ..guarantee(3_000, 0.9)
    };
    let opened = promises.open(
        Instant::EPOCH,
        STREAM,
        (&spec(guarantee), ChannelMask::ALL),
        &channels,
    );
    assert!(
        matches!(opened, Ok(Some(Notice::Promised(..)))),
        "{opened:?}"
    );
    let plan = promises.take_plan(&channels).expect("it changed");
    let [assignment] = &plan.assignments[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (assignment.stream, assignment.window),
        (STREAM, guarantee.window)
    );
    assert_eq!(assignment.window_bytes, 750_000.0);
    let [(channel, bytes)] = assignment.shares[..] else {
        panic!("{plan:?}");
    };
    assert_eq!(channel, ChannelId(4));
    assert!((bytes - 750_000.0).abs() < 1e-6, "{bytes}");
    assert!(promises.is_on(ChannelId(4)) && !promises.is_on(ChannelId(0)));
    assert_eq!(
        promises.take_plan(&channels),
        None,
        "nothing has changed since"
    );
}

#[test]
fn a_change_that_waits_keeps_what_is_promised() {
    let mut controller = known(60, 4e6);
    let small = guarantee(3_000, 0.9);
    assert!(controller.open(STREAM, &spec(small)).unwrap().is_some());
    // Refused, and not to wait: all is as it was.
    let large = guarantee(6_000, 0.9);
    assert!(controller.change(STREAM, &spec(large)).is_err());
    assert_eq!(controller.explain(STREAM).unwrap().wanted, None);
    assert_eq!(controller.change(STREAM, &spec(large.waiting())), Ok(None));
    let kept = controller.explain(STREAM).unwrap();
    assert_eq!(kept.term, Some(Term::Renewable), "{kept:#?}");
    assert_eq!(kept.guarantee, small);
    assert_eq!(kept.wanted, Some(large.waiting()));
    // What the stream has is not in its own way: all that the path provides is offered.
    let refusal = controller.admit_again(STREAM, &spec(large.waiting()));
    let offered = refusal.unwrap_err().offer.rate.unwrap();
    assert!(offered > Rate::from_kbps(3_800), "{offered}");
    assert_eq!(controller.explain(STREAM).unwrap(), kept, "it only asks");
    pass(&mut controller, 20, 4e6);
    assert_eq!(controller.explain(STREAM).unwrap().guarantee, small);
    // There is capacity now.
    let notices = pass(&mut controller, 60, 9e6);
    let promised = notices.iter().any(
        |notice| matches!(notice, Notice::Promised(_, grant) if grant.guarantee == large.waiting()),
    );
    assert!(promised, "{notices:?}");
    let now = controller.explain(STREAM).unwrap();
    assert_eq!((now.guarantee, now.wanted), (large.waiting(), None));
    assert_eq!(now.account.withdrawn, 0);
}

#[test]
fn what_was_kept_meanwhile_may_lapse_and_the_wish_waits_on() {
    let mut controller = known(60, 4e6);
    controller
        .open(STREAM, &spec(guarantee(3_000, 0.9)))
        .unwrap();
    let large = guarantee(6_000, 0.9).waiting();
    assert_eq!(controller.change(STREAM, &spec(large)), Ok(None));
    pass(&mut controller, 20, 1e6);
    let now = controller.explain(STREAM).unwrap();
    assert_eq!((now.term, now.guarantee), (None, large), "{now:#?}");
    assert_eq!((now.wanted, now.account.withdrawn), (None, 1));
}

#[test]
fn a_stream_that_waited_for_the_best_grade_rises_to_it_when_it_is_renewed() {
    let mut controller = AdmissionController::new(1);
    controller
        .open(STREAM, &spec(guarantee(1_000, 0.9).waiting()))
        .unwrap();
    pass(&mut controller, 60, 4e6);
    let term = |controller: &AdmissionController| controller.explain(STREAM).unwrap().term;
    assert_eq!(term(&controller), Some(Term::Renewable));
    let notices = pass(&mut controller, 260, 4e6);
    assert_eq!(term(&controller), Some(Term::Durable));
    let durable = notices.iter().filter(
        |notice| matches!(notice, Notice::Promised(_, grant) if grant.term == Term::Durable),
    );
    assert_eq!(durable.count(), 1, "{notices:?}");
    // Who asked for a renewable promise keeps that.
    let renewable = with(guarantee(1_000, 0.9), Grade::Renewable);
    controller.open(StreamId(2), &spec(renewable)).unwrap();
    pass(&mut controller, 30, 4e6);
    let second = controller.explain(StreamId(2)).unwrap();
    assert_eq!(second.term, Some(Term::Renewable));
}

#[test]
fn what_no_memory_can_bear_out_is_refused_even_to_those_who_wait() {
    let mut controller = known(500, 4e6);
    let sure = guarantee(100, 0.999);
    for grade in [Grade::Best, Grade::Durable] {
        let wanted = with(sure, grade);
        for wanted in [wanted, wanted.waiting()] {
            let refusal = controller.open(STREAM, &spec(wanted)).unwrap_err();
            let expected = Reason::TooSure {
                highest: 0.996,
                term: Term::Durable,
            };
            assert_eq!(refusal.reason, expected);
            assert!(refusal.to_string().contains("99.6 %"), "{refusal}");
        }
    }
    let renewable = with(guarantee(100, 0.995), Grade::Renewable);
    let refusal = controller.open(STREAM, &spec(renewable)).unwrap_err();
    assert!(refusal.to_string().contains("99 %"), "{refusal}");
    // The offer is admitted.
    let grant = controller.admit(&spec(with(guarantee(100, 0.996), Grade::Durable)));
    assert_eq!(grant.unwrap().term, Term::Durable);
    let grant = controller.admit(&spec(with(guarantee(100, 0.99), Grade::Renewable)));
    assert_eq!(grant.unwrap().term, Term::Renewable);
}

#[test]
fn a_refusal_says_how_much_is_known_and_how_much_is_needed() {
    let late = Guarantee::new(Demand::Late {
        rate: Rate::from_kbps(100),
        packet_bytes: 1_200,
        late_packets: 0.5,
    });
    for (wanted, grade, needs) in [
        (guarantee(100, 0.95), Grade::Renewable, 20),
        (guarantee(100, 0.99), Grade::Renewable, 100),
        (guarantee(100, 0.95), Grade::Durable, 300),
        (guarantee(100, 0.995), Grade::Durable, 400),
        (late, Grade::Renewable, 20),
        (late, Grade::Durable, 300),
    ] {
        let wanted = spec(with(wanted, grade));
        let mut controller = known(needs - 1, 4e6);
        let refusal = controller.admit(&wanted).unwrap_err();
        let Reason::TooLittleKnown {
            windows, needed, ..
        } = refusal.reason
        else {
            panic!("{refusal}");
        };
        assert_eq!((windows, needed), (needs - 1, needs));
        pass(&mut controller, 1, 4e6);
        assert!(controller.admit(&wanted).is_ok(), "{wanted:?}");
    }
}

#[test]
fn a_path_that_falls_is_no_ground_for_a_durable_promise() {
    let mut controller = known(200, 8e6);
    pass(&mut controller, 200, 2e6);
    let wanted = with(guarantee(100, 0.95), Grade::Durable);
    let refusal = controller.admit(&spec(wanted)).unwrap_err();
    assert_eq!(refusal.reason, Reason::Unsteady { windows: 400 });
}

#[test]
fn ten_thousand_demands_are_answered_and_most_are_refused() {
    let mut controller = known(60, 4e6);
    let small = spec(guarantee(10, 0.9).waiting());
    let mut refused = 0;
    for number in 0..10_000 {
        if let Err(refusal) = controller.open(StreamId(number), &small) {
            assert_eq!(refusal.reason, Reason::TooMany);
            refused += 1;
        }
    }
    assert_eq!(refused, 10_000 - PROMISED_MAX);
    let refusal = controller.admit(&small).expect_err("there is no place");
    assert!(refusal.to_string().contains("128 streams"), "{refusal}");
    // A demand is changed within its place, and a stream that closes leaves one.
    assert!(
        controller
            .change(StreamId(5), &spec(guarantee(20, 0.9)))
            .is_ok()
    );
    controller.close(StreamId(6));
    assert!(controller.open(StreamId(10_001), &small).is_ok());
}

/// A durable promise on a path that falls for good is in force for a minute after the warning, and then waits.
#[test]
fn a_durable_promise_lapses_when_a_warning_stands() {
    let durable = spec(with(guarantee(2_000, 0.9), Grade::Durable).waiting());
    let opened = |recovers_after: usize| {
        let mut controller = known(320, 4e6);
        let grant = controller.open(STREAM, &durable).expect("it waits");
        assert_eq!(grant.map(|grant| grant.term), Some(Term::Durable));
        let mut warned_at = None;
        let mut lapsed_after = Vec::new();
        for window in 0..400 {
            let bps = if window < recovers_after { 5e5 } else { 4e6 };
            for notice in controller.end_window(&[bps], |_| bps < 2e6) {
                match notice {
                    Notice::Warned(..) => warned_at = warned_at.or(Some(window)),
                    Notice::Withdrawn(..) => {
                        lapsed_after.push(window - warned_at.expect("warned before"));
                    }
                    Notice::Promised(..) => {}
                }
            }
        }
        let explained = controller.explain(STREAM).expect("it asked");
        (warned_at.expect("the path fell"), lapsed_after, explained)
    };
    let (warned_at, lapsed_after, explained) = opened(400);
    assert!(warned_at < 100, "{warned_at}");
    assert_eq!((lapsed_after, explained.term), (vec![60], None));
    assert_eq!((explained.until, explained.is_warned), (None, false));
    // If the path recovers soon enough, the promise stays.
    let (_, lapsed_after, explained) = opened(warned_at + 3);
    assert_eq!(
        (lapsed_after, explained.term),
        (vec![], Some(Term::Durable))
    );
    assert!(!explained.is_warned);
}

/// A path falls below a promise. What it still carries is not promised to a stream that waits, until the promise is over.
#[test]
fn a_warned_promise_leaves_its_place_to_nobody_who_waits() {
    for (windows, grade) in [(60, Grade::Renewable), (320, Grade::Durable)] {
        let mut controller = known(windows, 12e6);
        let wanted = with(guarantee(8_000, 0.75), grade);
        controller.open(STREAM, &spec(wanted)).unwrap();
        let waiting = with(guarantee(5_000, 0.9), Grade::Renewable).waiting();
        let second = StreamId(2);
        assert_eq!(controller.open(second, &spec(waiting)), Ok(None));
        let (mut is_warned, mut is_over, mut is_promised) = (false, false, false);
        for _ in 0..300 {
            let fallen = |stream| stream == STREAM;
            for notice in controller.end_window(&[6e6], fallen) {
                match notice {
                    Notice::Warned(STREAM, _) => is_warned = true,
                    Notice::Withdrawn(STREAM, _) => is_over = true,
                    Notice::Promised(stream, _) if stream == second => {
                        assert!(is_over, "{grade:?}: its place is taken");
                        is_promised = true;
                    }
                    _ => {}
                }
            }
        }
        assert!(is_warned && is_over && is_promised, "{grade:?}");
    }
}

#[test]
fn what_an_offer_says_in_words_is_admitted() {
    for bps in [1_234_567.0, 8_765_432.0, 19_996_000.0] {
        let mut controller = known(60, bps);
        let wanted = with(guarantee(40_000, 0.9), Grade::Renewable);
        let refusal = controller.admit(&spec(wanted)).unwrap_err();
        let offered = refusal.offer.rate.expect("something is left");
        assert!(
            offered.as_bps() as f64 > 0.95 * bps / AdmissionController::OVERHEAD,
            "{refusal}"
        );
        let read: Rate = offered.to_string().parse().unwrap();
        let accepted = with(Guarantee::rate(read, 0.9), Grade::Renewable);
        assert!(controller.admit(&spec(accepted)).is_ok(), "{refusal}");
    }
}

/// The path holds what is asked for in four of five windows, and three of four are promised. A stream that gets
/// nothing all the same is not promised it again.
#[test]
fn a_stream_that_gets_less_than_its_path_carries_is_warned() {
    let notices_of = |is_behind: bool| {
        let mut controller = AdmissionController::new(1);
        let window = |controller: &mut AdmissionController, at: usize, is_behind: bool| {
            let bps = if at.is_multiple_of(5) { 2.5e6 } else { 4e6 };
            controller.end_window(&[bps], |_| is_behind)
        };
        for at in 0..100 {
            window(&mut controller, at, false);
        }
        let wanted = with(guarantee(3_000, 0.75), Grade::Renewable);
        controller.open(STREAM, &spec(wanted)).unwrap();
        let notices: Vec<Notice> = (100..160)
            .flat_map(|at| window(&mut controller, at, is_behind))
            .collect();
        notices
    };
    assert_eq!(notices_of(false), []);
    let notices = notices_of(true);
    assert!(
        matches!(notices.first(), Some(Notice::Warned(STREAM, _))),
        "{notices:?}"
    );
    let is_withdrawn = |notice: &Notice| matches!(notice, Notice::Withdrawn(..));
    assert!(notices.iter().any(is_withdrawn), "{notices:?}");
}

#[test]
fn a_window_that_can_no_longer_be_kept_is_warned_of_while_it_runs() {
    let part = Duration::from_millis(200);
    let channels = [Some(ChannelId(0))];
    let late = [Some(Duration::from_millis(130))];
    let mut promises = Promises::new(SessionId(0), part);
    let mut now = Instant::EPOCH;
    for _ in 0..300 {
        promises.observe(now, &[Cell::Exact(4e6)]);
        now += part;
    }
    let wanted = with(guarantee(3_800, 0.9), Grade::Renewable);
    let opened = promises.open(now, STREAM, (&spec(wanted), ChannelMask::ALL), &channels);
    assert!(opened.unwrap().is_some());
    // What is not behind breaks no window.
    let mut after = |promises: &mut Promises, bps: f64, behind: Duration| {
        promises.acked(STREAM, (bps / 8.0 * 0.2) as u64);
        assert!(
            !promises.observe(now, &[Cell::Exact(bps)]),
            "the window runs"
        );
        now += part;
        promises.watch_window(now, &channels, &late, |_| Some(now - behind))
    };
    assert_eq!(after(&mut promises, 4e6, Duration::ZERO), []);
    // Not even if the rest were as good as the part before.
    let notices = after(&mut promises, 2e5, part);
    assert!(
        matches!(&notices[..], [Notice::Warned(STREAM, _)]),
        "{notices:?}"
    );
    assert_eq!(after(&mut promises, 2e5, part * 2), [], "once is enough");
    let explanation = promises.explain(STREAM, &channels).unwrap();
    assert!(explanation.is_warned && explanation.term.is_some());
    assert_eq!(explanation.account.broken, 0, "it is not over yet");
}

#[test]
fn lemma_2_is_asked_for_less_where_its_promises_would_have_been_broken() {
    let late_bps = 4e5;
    let allowed = |controller: &mut AdmissionController| {
        let path = ChannelMask::only(0);
        controller
            .capacity()
            .allowed(path, late_bps, Term::Renewable)
    };
    assert_eq!(allowed(&mut known(300, 8e6)), Some(late_bps));
    let mut falling = AdmissionController::new(1);
    for at in 0..300 {
        falling.end_window(&[8e6 - 2e4 * f64::from(at)], |_| false);
    }
    let less = allowed(&mut falling).unwrap();
    assert!(less < 0.5 * late_bps, "{less}");
}

/// A stream on a near path is judged by that path, however far others are.
#[test]
fn data_is_late_by_the_slowest_path_of_its_promise() {
    let channels = [Some(ChannelId(0)), Some(ChannelId(1))];
    let late = [100, 3_000].map(|ms| Some(Duration::from_millis(ms)));
    let mut promises = Promises::new(SessionId(0), WINDOW);
    let mut now = Instant::EPOCH;
    for _ in 0..60 {
        // The far path carries too little for the stream.
        promises.observe(now, &[Cell::Exact(4e6), Cell::Exact(1e5)]);
        now += WINDOW;
    }
    let wanted = with(guarantee(2_000, 0.9), Grade::Renewable);
    let opened = promises.open(now, STREAM, (&spec(wanted), ChannelMask::ALL), &channels);
    let Ok(Some(Notice::Promised(_, grant))) = opened else {
        panic!("{opened:?}");
    };
    let on: Vec<ChannelId> = grant.shares.iter().map(|share| share.0).collect();
    assert_eq!(on, [ChannelId(0)]);
    // Nothing arrives, and what waits has waited for longer than the near path takes.
    promises.observe(now, &[Cell::Exact(4e6), Cell::Exact(1e5)]);
    now += WINDOW;
    let oldest = now - Duration::from_millis(500);
    promises.end_window(now, &channels, &late, |_| Some(oldest));
    let explained = promises.explain(STREAM, &channels).unwrap();
    assert_eq!((explained.account.kept, explained.account.broken), (0, 1));
}

/// The plan is made when the session is next polled, the explanation whenever somebody asks.
#[test]
fn the_rank_of_a_stream_is_explained_before_the_next_plan() {
    let channels = [Some(ChannelId(0))];
    let mut promises = Promises::new(SessionId(0), WINDOW);
    let rank = |promises: &Promises, id| promises.explain(StreamId(id), &channels).unwrap().rank;
    for id in [5, 2, 9] {
        let waits = spec(guarantee(1_000, 0.9).waiting());
        let asked = promises.open(
            Instant::EPOCH,
            StreamId(id),
            (&waits, ChannelMask::ALL),
            &channels,
        );
        assert!(matches!(asked, Ok(None)), "{asked:?}");
    }
    let before = [5, 2, 9].map(|id| rank(&promises, id));
    promises.take_plan(&channels).expect("streams came");
    assert_eq!(before, [5, 2, 9].map(|id| rank(&promises, id)));
    assert_eq!(before, [1, 0, 2]);
}

/// The sessions of a node read the reservations again only when the number has changed.
#[test]
fn reservations_never_change_without_their_number() {
    let mut random = Seed(7).stream("changes");
    let mut promises = Promises::new(SessionId(0), WINDOW);
    let channels = [Some(ChannelId(0)), Some(ChannelId(1))];
    let (mut before, mut number, mut changed) = (Vec::new(), promises.changes(), 0);
    for at in 0..2_000 {
        let now = Instant::from_secs(at / 4);
        let stream = StreamId(random.below(4));
        let demand = guarantee(random.between(300, 3_000), 0.9).waiting();
        let spec = spec(demand);
        let permitted = [ChannelMask::ALL, ChannelMask::only(0)][random.below(2) as usize];
        let wanted = (&spec, permitted);
        match random.below(12) {
            0 => drop(promises.open(now, stream, wanted, &channels)),
            1 => drop(promises.change(now, stream, wanted, &channels)),
            2 => promises.close(stream),
            3 => promises.permit(stream, permitted),
            4 => drop(promises.admit(now, wanted, &channels)),
            5 => promises.acked(stream, 1_000),
            6 => drop(promises.take_plan(&channels)),
            _ => {
                let slow = 1.0 + 0.8 * (at as f64 / 80.0).sin();
                promises.observe(now, &[Cell::Exact(3e6 * slow), Cell::Exact(2e6)]);
                let late = [Some(Duration::from_millis(50)); 2];
                let oldest = random.chance(0.3).then_some(Instant::EPOCH);
                drop(promises.end_window(now, &channels, &late, |_| oldest));
            }
        }
        let now: Vec<_> = promises.reservations(&channels).collect();
        if now != before {
            assert_ne!(promises.changes(), number, "step {at}");
            changed += 1;
        }
        (before, number) = (now, promises.changes());
    }
    assert!(changed > 100, "{changed}");
}

/// A path that carries nothing for a window has no forecast of 3 Mbit/s after it, and soon has one again.
#[test]
fn a_single_dip_early_in_a_term_is_no_reason_to_warn() {
    let warnings = |dips: usize, is_behind: bool| {
        let mut controller = known(60, 4e6);
        let demand = spec(guarantee(3_000, 0.9));
        controller.open(STREAM, &demand).expect("there is capacity");
        let mut notices: Vec<Notice> = (0..dips)
            .flat_map(|_| controller.end_window(&[1e5], |_| is_behind))
            .collect();
        notices.extend(pass(&mut controller, 3, 4e6));
        let warned = notices
            .iter()
            .filter(|notice| matches!(notice, Notice::Warned(..)));
        warned.count()
    };
    assert_eq!(warnings(0, false), 0);
    assert_eq!(warnings(1, false), 0);
    // The next review finds no placement either.
    assert_eq!(warnings(2, false), 1);
    // A window was broken.
    assert_eq!(warnings(1, true), 1);
}

/// With less than the notice and a window left, the first review without a placement warns.
#[test]
fn a_dip_late_in_a_term_is_a_reason_to_warn() {
    let warned_at = |kept: usize| {
        let mut controller = known(60, 4e6);
        let demand = spec(guarantee(3_000, 0.9));
        controller.open(STREAM, &demand).expect("there is capacity");
        pass(&mut controller, kept, 4e6);
        let notices = controller.end_window(&[1e5], |_| false);
        !notices.is_empty()
    };
    // A term is ten windows.
    assert_eq!(
        (5..8).map(warned_at).collect::<Vec<_>>(),
        [false, true, true]
    );
}
