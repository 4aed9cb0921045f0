//! Promises of a session over simulated links: admission, windows that are kept, warnings, withdrawal.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Rate, StreamId};
use anabranch_session::{
    Grade, Guarantee, OnWarning, Reason, SendError, StreamError, StreamSpec, Term,
};
use anabranch_sim::{
    World,
    apps::{Load, Receiver, Sender, make_adu},
};

use common::{link, world};

const SEED: u64 = 5;
const FRAME: Duration = Duration::from_millis(40);

/// An endless stream of frames at `kbps`, 25 a second, that asks for `guarantee`.
fn frames(label: &str, kbps: u64, guarantee: Guarantee) -> Load {
    Load {
        spec: StreamSpec {
            label: label.to_owned(),
            guarantee: Some(Box::new(guarantee)),
            ..StreamSpec::default()
        },
        ..Load::messages(kbps as usize * 5, FRAME, u64::MAX)
    }
}

fn rate(kbps: u64, probability: f64) -> Guarantee {
    Guarantee::rate(Rate::from_kbps(kbps), probability)
}

fn admit(world: &mut World, guarantee: Guarantee) -> Result<Term, StreamError> {
    let session = world.app::<Sender>(0).session().expect("connected");
    let spec = StreamSpec::default().with_guarantee(guarantee);
    world.with_node(0, |context| {
        let now = context.now();
        context
            .engine()
            .session(session)?
            .admit(now, &spec)
            .map(|grant| grant.term)
    })
}

fn explain(world: &mut World, stream: u64) -> anabranch_session::Explanation {
    let session = world.app::<Sender>(0).session().expect("connected");
    let explained = world
        .engine(0)
        .session(session)
        .ok()
        .and_then(|session| session.stream(StreamId::new(stream, true)).explain());
    explained.expect("it asked for a promise")
}

#[test]
fn a_stream_is_promised_what_the_paths_hold_and_gets_it() {
    let mut world = world(
        SEED,
        vec![link(20, 30), link(10, 60)],
        vec![
            Load::bulk(1 << 40),
            frames("live", 8_000, rate(8_000, 0.95).waiting()),
        ],
    );
    world.run_until(Instant::from_secs(1));
    // Nothing is known yet, and nothing is assumed.
    let early = admit(&mut world, rate(1_000, 0.95));
    let Err(StreamError::Refused(refusal)) = early else {
        panic!("{early:?}");
    };
    assert!(
        matches!(refusal.reason, Reason::TooLittleKnown { .. }),
        "{refusal}"
    );
    world.run_until(Instant::from_secs(60));
    let explained = explain(&mut world, 1);
    assert_eq!(explained.term, Some(Term::Renewable), "{explained:#?}");
    assert_eq!(explained.shares.len(), 1, "one path suffices");
    assert!(explained.account.kept >= 25, "{:?}", explained.account);
    assert_eq!(explained.account.broken, 0, "{:?}", explained.account);
    let record = world.app::<Receiver>(1).record("live");
    assert!(record.delay_quantile(0.99) < Duration::from_millis(120));

    // The paths hold 30 together, of which 8 are taken.
    assert_eq!(
        admit(&mut world, rate(12_000, 0.9)).ok(),
        Some(Term::Renewable)
    );
    let too_much = admit(&mut world, rate(28_000, 0.9));
    let Err(StreamError::Refused(refusal)) = too_much else {
        panic!("{too_much:?}");
    };
    assert!(
        matches!(refusal.reason, Reason::TooLittle { .. }),
        "{refusal}"
    );
    let offered = refusal.offer.rate.expect("something is left");
    assert!(
        offered > Rate::from_mbps(15) && offered < Rate::from_mbps(22),
        "{refusal}"
    );
    let accepted = Guarantee::rate(offered, 0.9);
    assert!(admit(&mut world, accepted).is_ok(), "an offer holds");
}

#[test]
fn a_steady_path_gets_a_durable_promise() {
    let guarantee = rate(4_000, 0.95).waiting();
    let mut world = world(SEED, vec![link(10, 20)], vec![Load::bulk(1 << 40)]);
    world.run_until(Instant::from_secs(320));
    assert_eq!(admit(&mut world, guarantee).ok(), Some(Term::Durable));
    let renewable = Guarantee {
        grade: Grade::Renewable,
        ..guarantee
    };
    assert_eq!(admit(&mut world, renewable).ok(), Some(Term::Renewable));
}

#[test]
fn the_owner_is_warned_before_a_promise_lapses() {
    let mut world = world(
        SEED,
        vec![link(10, 30), link(10, 60)],
        vec![
            Load::bulk(1 << 40),
            frames("high", 5_000, rate(5_000, 0.99).waiting()),
            frames("low", 9_000, rate(9_000, 0.75).waiting()),
        ],
    );
    world.run_until(Instant::from_secs(150));
    for stream in [1, 2] {
        let explained = explain(&mut world, stream);
        assert!(explained.term.is_some(), "{explained:#?}");
    }
    // One path fails, and half of the capacity with it.
    world.set_wire_up(1, false);
    world.run_until(Instant::from_secs(190));
    let high = explain(&mut world, 1);
    assert!(high.term.is_some(), "{high:#?}");
    assert_eq!(high.account.withdrawn, 0);
    let low = explain(&mut world, 2);
    assert_eq!(low.term, None, "{low:#?}");
    assert_eq!(low.account.withdrawn, 1);
    let at = |word: &str| low.notes.iter().find(|note| note.text.starts_with(word));
    let warned = at("warned").expect("a warning").at;
    let withdrawn = at("withdrawn").expect("a withdrawal").at;
    assert!(warned < withdrawn, "{low:#?}");
    // It is granted again when the path has been back for long enough.
    world.set_wire_up(1, true);
    world.run_until(Instant::from_secs(400));
    let low = explain(&mut world, 2);
    assert!(low.term.is_some(), "{low:#?}");
}

/// One of two paths fails and comes back; a layered source is promised what they hold, and never nothing.
#[test]
fn a_layered_source_has_the_highest_level_that_holds() {
    let levels = [9, 4, 2].map(Rate::from_mbps);
    let layered = rate(9_000, 0.9).waiting().with_levels(levels).unwrap();
    let mut world = world(
        SEED,
        vec![link(10, 30), link(6, 60)],
        vec![Load::bulk(1 << 40), frames("layered", 9_000, layered)],
    );
    let level = |world: &mut World, seconds| {
        world.run_until(Instant::from_secs(seconds));
        let explained = explain(world, 1);
        assert!(explained.term.is_some(), "{explained:#?}");
        explained.guarantee.required().as_bps() / 1_000_000
    };
    assert_eq!(level(&mut world, 120), 9);
    world.set_wire_up(0, false);
    assert_eq!(level(&mut world, 200), 4);
    world.set_wire_up(0, true);
    assert_eq!(level(&mut world, 420), 9);
    let explained = explain(&mut world, 1);
    let account = explained.account;
    assert_eq!(account.withdrawn, 0, "{explained:#?}");
    assert!(account.kept > 350 && account.broken < 30, "{account:?}");
}

/// One of two paths fails and comes back; a stream that takes offers is promised what is left, and then its own demand again.
#[test]
fn a_stream_that_takes_offers_always_has_a_promise() {
    let asked = rate(9_000, 0.9)
        .waiting()
        .with_on_warning(OnWarning::TakeOffer);
    let mut world = world(
        SEED,
        vec![link(10, 30), link(6, 60)],
        vec![Load::bulk(1 << 40), frames("eager", 9_000, asked)],
    );
    let promised = |world: &mut World, seconds| {
        world.run_until(Instant::from_secs(seconds));
        let explained = explain(world, 1);
        assert!(explained.term.is_some(), "{explained:#?}");
        (explained.guarantee, explained.wanted)
    };
    assert_eq!(promised(&mut world, 120), (asked, None));
    world.set_wire_up(0, false);
    let (reduced, wanted) = promised(&mut world, 200);
    assert_eq!(wanted, Some(asked));
    let held = Rate::from_mbps(3)..Rate::from_mbps(6);
    assert!(held.contains(&reduced.required()), "{reduced:?}");
    world.set_wire_up(0, true);
    assert_eq!(promised(&mut world, 420), (asked, None));
    let explained = explain(&mut world, 1);
    assert_eq!(explained.account.withdrawn, 0, "{explained:#?}");
    let account = explained.account;
    assert!(account.kept > 350 && account.broken < 30, "{account:?}");
}

/// A path fails; the stream ends with the warning, and all that was sent before arrives over the other path.
#[test]
fn a_stream_that_closes_when_warned_is_finished_and_complete() {
    let asked = rate(9_000, 0.9).waiting().with_on_warning(OnWarning::Close);
    let mut world = world(
        SEED,
        vec![link(10, 30), link(6, 60)],
        vec![frames("strict", 9_000, asked)],
    );
    world.run_until(Instant::from_secs(60));
    assert!(explain(&mut world, 0).term.is_some());
    world.set_wire_up(0, false);
    let session = world.app::<Sender>(0).session().expect("connected");
    let stream = StreamId::new(0, true);
    let mut refused = None;
    while refused.is_none() && world.now() < Instant::from_secs(90) {
        world.run_until(world.now() + Duration::from_millis(50));
        let sent = world.with_node(0, |context| {
            context.send(session, stream, make_adu(context.now(), u64::MAX, 100))
        });
        refused = match sent {
            Err(SendError::Warned(refusal)) => Some(refusal),
            Ok(_) | Err(SendError::Full(_)) => None,
            Err(other) => panic!("{other}"),
        };
    }
    assert!(refused.is_some(), "the path is missed");
    world.run_until(Instant::from_secs(120));
    assert!(world.app::<Sender>(0).is_done());
    let sent = world.app::<Sender>(0).outcomes("strict").expect("it ran").0;
    let record = world.app::<Receiver>(1).record("strict");
    assert!(record.finished);
    let frames = record.numbers.iter().filter(|number| **number < u64::MAX);
    assert_eq!(frames.count() as u64, sent);
}

#[test]
fn a_stream_that_cannot_be_promised_does_not_open_unless_it_waits() {
    let mut world = world(SEED, vec![link(10, 20)], vec![Load::bulk(1 << 40)]);
    world.run_until(Instant::from_secs(2));
    let session = world.app::<Sender>(0).session().expect("connected");
    let open = |world: &mut World, guarantee| {
        world.with_node(0, |context| {
            context.open(session, StreamSpec::default().with_guarantee(guarantee))
        })
    };
    assert!(matches!(
        open(&mut world, rate(1_000, 0.9)),
        Err(StreamError::Refused(_))
    ));
    assert!(matches!(
        open(&mut world, rate(1_000, 1.5)),
        Err(StreamError::Spec(_))
    ));
    // A guarantee that is judged second by second is granted in whole seconds.
    for ms in [200, 1_500] {
        let odd = Guarantee {
            window: Duration::from_millis(ms),
            ..rate(1_000, 0.9)
        };
        let refused = open(&mut world, odd.waiting());
        assert!(
            refused.is_err_and(|error| error.to_string().contains("whole seconds")),
            "a window of {ms} ms"
        );
    }
    // No number of recorded seconds can support that: waiting would never end.
    let sure = open(&mut world, rate(1_000, 0.999).waiting());
    assert!(matches!(sure, Err(StreamError::Refused(_))), "{sure:?}");
    assert!(open(&mut world, rate(1_000, 0.9).waiting()).is_ok());
}
