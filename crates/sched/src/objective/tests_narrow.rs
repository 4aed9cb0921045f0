use anabranch_base::StreamId;
use anabranch_hose::{Limits, Objectives, Type, Vocabulary};
use proptest::prelude::*;

use anabranch_spec::Correlation;

use super::{
    prospects::Prospects,
    tests::{adu, slot},
    *,
};

const NO_ORPHANS: &str = "hose 2
    objective { context { adu:key { kind == 1 } adu:orphan { (kind == 2) && (group == key::group) } }
        goal { prob(key::lost?) > 50 } utility { orphan { -1000 } } }";
/// Of each kind of operator, level and number of variables.
const TEXTS: [&str; 9] = [
    NO_ORPHANS,
    "objective { context { adu:foo { stream_id == 0 } adu:bar { stream_id == 0 } }
        goal { correlated_loss(foo, bar) <= 25 } utility { foo { 125 } } }",
    "objective { context { adu:one { stream_id == 0 } adu:two { (stream_id == 1) && (stream_seq == one::stream_seq + 1) } }
        goal { expected(two::latency) >= expected(one::latency) } utility { one { 1 } two { 7 / 2 } } }",
    "hose 2
    objective { context { adu:a { stream_id == 0 } adu:b { kind == 2 } adu:c { group == a::group } }
        goal { (prob(a::lost?) < 20) && ((expected(b::latency) > 300) || (prob(c::late?) >= 40)) }
        utility { a { 100 - prob(c::late?) } c { min(5, abs(20 - expected(b::latency))) } } }",
    "hose 2
    objective { context { adu:a { stream_id == 1 } adu:b { stream_id == 1 } }
        goal { (jitter(a::latency) < 40) && (a::channel::id != b::channel::id) }
        utility { a { 1000 / (expected(a::latency) - 300) } b { max(cost(b), a::queue_delay) } } }",
    "hose 2
    objective { context { adu:a { label == \"v\" } adu:b { true } stream:s { label == \"v\" } }
        goal { (s::loss_rate < 20) == (prob(b::lost?) > 30) } utility { b { -3 } } }",
    "objective { context { adu:a { stream_id == 0 } adu:b { stream_id == 1 } }
        goal { !(expected(a::latency) < 400) } utility { b { -(expected(b::latency) * prob(a::lost?)) } } }",
    // Impossible, and always so.
    "objective { context { adu:a { true } adu:b { true } } goal { prob(a::lost?) > 100 } utility { b { 9 } } }",
    "objective { context { adu:a { true } adu:b { true } } goal { 1 != 2 } utility { a { a::length / b::queue_delay } } }",
];

fn objectives(texts: &[usize]) -> Objectives {
    let mut vocabulary = Vocabulary::default();
    for field in ["kind", "group"] {
        vocabulary.declare(field, Type::Numeric).expect("a field");
    }
    let mut objectives = Objectives::new(Limits::default(), vocabulary);
    for &which in texts {
        objectives.inject(TEXTS[which]).expect("a good text");
    }
    objectives
}

fn frame(stream: u64, sequence: u64, kind: f64, group: f64) -> Adu {
    Adu {
        fields: Fields::new(&[kind, group]),
        label: anabranch_hose::symbol("v"),
        ..adu(stream, sequence)
    }
}

type Frame = (u64, u8, u8, Option<f64>);

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let deadline = prop::option::of(100.0..900.0_f64);
    prop::collection::vec((0u64..3, 0u8..4, 0u8..3, deadline), 0..8)
}

fn adus(frames: &[Frame]) -> Vec<Adu> {
    let numbered = (0u64..).zip(frames);
    let mut adus: Vec<Adu> = numbered
        .map(|(n, &(stream, kind, group, deadline))| Adu {
            waited_ms: n as f64 * 7.0,
            deadline_ms: deadline.unwrap_or(f64::NAN),
            // One in four has no kind.
            ..frame(
                stream,
                n,
                if kind == 0 { f64::NAN } else { f64::from(kind) },
                f64::from(group),
            )
        })
        .collect();
    adus.sort_by_key(|adu| (adu.stream, adu.sequence));
    adus
}

fn channels() -> Vec<Channel> {
    let channel = |id| Channel {
        id,
        name: f64::NAN,
        technology: f64::NAN,
        is_metered: id == 1,
        rate_bps: 1e6,
        fields: Vec::new(),
    };
    (0..3).map(channel).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Whatever is left out adds nothing in any schedule.
    #[test]
    fn narrowed_objectives_have_the_same_utility(
        slots in prop::collection::vec((0u32..3, 0.0..1.0_f64, 50.0..900.0_f64), 1..6),
        waiting in frames(),
        sent in prop::collection::vec((0u8..3, 0.0..1.0_f64), 0..4),
        placements in prop::collection::vec(prop::collection::vec(0usize..7, 8), 1..6),
        texts in prop::collection::vec(0..TEXTS.len(), 1..4),
    ) {
        let slots = (0u64..).zip(slots).map(|(n, (channel, loss, trip))| slot(channel, n, loss, trip));
        let history = (100u64..).zip(sent).map(|(n, (outcome, loss))| Sent {
            adu: frame(n % 2, n, (n % 3) as f64, (n % 2) as f64),
            slot: slot(0, n, loss, 300.0),
            outcome: match outcome {
                0 => Outcome::Open,
                1 => Outcome::Lost,
                _ => Outcome::Acked { latency_ms: 310.0 },
            },
        });
        let stream = Stream {
            id: StreamId(0),
            label: anabranch_hose::symbol("v"),
            latency_ms: 40.0,
            deviation_ms: 4.0,
            loss: 0.1,
            jitter_ms: f64::NAN,
        };
        let cycle = Cycle {
            slots: slots.collect(),
            adus: adus(&waiting),
            history: history.collect(),
            streams: vec![stream],
            channels: channels(),
            correlation: Correlation::independent(3),
        };
        let mut all = objectives(&texts);
        let mut narrowed = all.clone();
        let nowhere = vec![None; cycle.adus.len()];
        let placed = Placed { cycle: &cycle, slots: &nowhere };
        all.begin(&placed);
        narrowed.begin(&placed);
        narrowed.narrow(&placed, &Prospects::of(&cycle));
        for placement in placements {
            let slots: Schedule = (0..cycle.adus.len())
                .map(|adu| (placement[adu] < cycle.slots.len()).then_some(placement[adu] as u32))
                .collect();
            let placed = Placed { cycle: &cycle, slots: &slots };
            let is_same = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
            for adu in 0..cycle.adus.len() as u32 {
                let pair = [adu, (adu + 1) % cycle.adus.len() as u32];
                let movers = if pair[0] == pair[1] { &pair[..1] } else { &pair[..] };
                let one = all.combinatorial_involving(&placed, movers);
                let other = narrowed.combinatorial_involving(&placed, movers);
                prop_assert!(is_same(one, other), "{} and {} of {:?}", one, other, movers);
                let alone = narrowed.combinatorial_involving(&placed, &[adu]);
                prop_assert!(alone <= narrowed.combinatorial_most_of(adu) + 1e-6, "{}", alone);
            }
            let past: f64 = all.combinatorial(&Placed { cycle: &cycle, slots: &nowhere });
            let one = all.combinatorial(&placed);
            let other = narrowed.combinatorial(&placed);
            // Contexts of the history alone may be left out, or not.
            prop_assert!(is_same(one, other) || is_same(one - past, other), "{} and {}", one, other);
            prop_assert!(other <= narrowed.combinatorial_most() + 1e-6, "{}", other);
        }
    }
}

/// Six channels, of which the last loses `loss` of its packets; ten frames, of which the first is the key of the others.
fn pictures(loss: f64) -> Cycle {
    let slots = (0..12).map(|n| {
        slot(
            n % 6,
            u64::from(n),
            if n % 6 == 5 { loss } else { 0.02 },
            300.0,
        )
    });
    let frames = (0..10).map(|n| frame(0, n, if n == 0 { 1.0 } else { 2.0 }, 7.0));
    Cycle {
        slots: slots.collect(),
        adus: frames.collect(),
        correlation: Correlation::independent(6),
        ..Cycle::default()
    }
}

fn planned(cycle: &Cycle) -> (Objectives, Schedule) {
    let mut objectives = objectives(&[0]);
    let mut schedule = Schedule::new();
    Assign::default().plan(cycle, &mut objectives, &mut schedule);
    (objectives, schedule)
}

#[test]
fn nothing_is_searched_while_no_slot_makes_the_goal_true() {
    let cycle = pictures(0.4);
    let (objectives, schedule) = planned(&cycle);
    assert!(schedule.iter().all(Option::is_some), "{schedule:?}");
    assert_eq!(objectives.tried(), 0);
    assert_eq!(objectives.companions().count(), 0);
}

#[test]
fn the_search_ends_when_nothing_more_can_be_gained() {
    // Without another objective, the key may be anywhere: the search moves it away from where it is likely to be lost.
    let mut cycle = pictures(0.6);
    cycle.adus[0].bytes = 768;
    cycle.slots.reverse();
    let (mut objectives, schedule) = planned(&cycle);
    let channel = schedule[0].map(|slot| cycle.slots[slot as usize].channel);
    assert!(channel.is_some_and(|channel| channel != 5), "{schedule:?}");
    assert!(schedule.iter().all(Option::is_some), "{schedule:?}");
    // Ten frames; a full search would try thousands.
    assert!(objectives.tried() < 500, "{}", objectives.tried());
    // A key that was lost: what hangs on it is not sent.
    cycle.history = vec![Sent {
        adu: cycle.adus.remove(0),
        slot: cycle.slots[0],
        outcome: Outcome::Lost,
    }];
    let (mut after, schedule) = planned(&cycle);
    assert!(schedule.iter().all(Option::is_none), "{schedule:?}");
    for objectives in [&mut objectives, &mut after] {
        assert!(objectives.take_faults().is_empty());
    }
}
