//! Transcripts of sessions over simulated links: replays that repeat every decision, and what other policies would have done.

use crate::common;

use std::time::Duration;

use anabranch_base::{Instant, Rate};
use anabranch_session::{
    Config, Guarantee, Policy, StreamSpec,
    transcript::{Record, Replayed, Transcript, Unrepeatable, replay, what_if},
};
use anabranch_sim::{
    World,
    apps::{Load, Sender, make_adu},
};
use proptest::prelude::*;

use common::{link, world_with};

/// Policies whose decisions follow from what a transcript contains.
const POLICIES: [Policy; 12] = [
    Policy::Default,
    Policy::RoundRobin,
    Policy::WeightedRoundRobin,
    Policy::MinRtt,
    Policy::Ecf,
    Policy::Blest,
    Policy::Redundant,
    Policy::Pinned,
    Policy::Wfq,
    Policy::Msfq,
    Policy::PriorityMean,
    // Without objectives it decides as the default does.
    Policy::Assign,
];

fn loads() -> Vec<Load> {
    let guarantee = Guarantee::rate(Rate::from_mbps(2), 0.9).waiting();
    let promised = Load {
        spec: StreamSpec::messages("promised").with_guarantee(guarantee),
        ..Load::messages(10_000, Duration::from_millis(40), u64::MAX)
    };
    let live = Load {
        spec: StreamSpec::live("live", Duration::from_millis(150)),
        ..Load::messages(3_000, Duration::from_millis(20), u64::MAX)
    };
    vec![Load::bulk(1 << 40), promised, live]
}

/// A session of some seconds, of which the first path is cut for a while.
fn run(seed: u64, policy: Policy, transcript_bytes: usize, seconds: u64) -> Vec<u8> {
    let config = Config {
        policy,
        transcript_bytes,
        ..Config::default()
    };
    let mut world = world_with(seed, config, [link(12, 30), link(6, 80)], loads());
    world.run_until(Instant::from_millis(seconds * 600));
    world.set_wire_up(0, false);
    world.run_until(Instant::from_millis(seconds * 750));
    world.set_wire_up(0, true);
    world.run_until(Instant::from_secs(seconds));
    transcript(&mut world)
}

fn transcript(world: &mut World) -> Vec<u8> {
    let session = world.app::<Sender>(0).session().expect("connected");
    let mut session = world.engine(0).session(session).expect("it is open");
    session.transcript().expect("it is recorded")
}

fn assert_same(replayed: &Replayed, least: u64) {
    assert_eq!(replayed.difference, None, "{replayed:#?}");
    assert_eq!(replayed.broken, None, "{replayed:#?}");
    assert!(replayed.same >= least, "{replayed:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_session_decides_again_as_it_did(seed in 0..1_000_u64, policy in 0..POLICIES.len()) {
        let file = run(seed, POLICIES[policy], 64 << 20, 6);
        let replayed = replay(&file).unwrap();
        prop_assert!(replayed.is_from_start);
        prop_assert_eq!(&replayed.policy, &POLICIES[policy].to_string());
        prop_assert_eq!(replayed.unrepeatable, None);
        prop_assert!(replayed.fragments > 500, "{:?}", replayed);
        assert_same(&replayed, 1_000);
    }
}

#[test]
fn a_session_with_promises_decides_again_as_it_did() {
    let file = run(4, Policy::Default, 256 << 20, 60);
    let has_plan = records(&file).iter().any(
        |record| matches!(record, Record::Plan { plan, .. } if plan.assignments.iter().any(|it| !it.shares.is_empty())),
    );
    assert!(has_plan, "a promise was given");
    assert_same(&replay(&file).unwrap(), 10_000);
}

fn records(file: &[u8]) -> Vec<Record> {
    let records = Transcript::new(file).unwrap();
    records.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_changed_decision_is_found() {
    let file = run(3, Policy::Default, 64 << 20, 4);
    assert_same(&replay(&file).unwrap(), 1_000);
    // The position of some decision on one of several channels with a slot.
    let mut transcript = Transcript::new(&file).unwrap();
    let (mut position, mut found, mut free) = (0, Vec::new(), 0);
    while let Some(record) = transcript.next() {
        match record.unwrap() {
            Record::Run { channels, .. } => {
                free = channels.iter().filter(|channel| channel.slots > 0).count();
            }
            Record::Decision { stream: 0, .. } if free == 2 => {
                found.push((position, transcript.read()));
                free = 0;
            }
            _ => free = 0,
        }
        position = transcript.position();
    }
    let (position, _) = found[found.len() / 2];
    let mut changed = file.clone();
    // Tag, stream, channels: the other of the two.
    assert!([1, 2].contains(&changed[position + 2]));
    changed[position + 2] ^= 3;
    let difference = replay(&changed).unwrap().difference.expect("it differs");
    let (recorded, replayed) = (difference.recorded.unwrap(), difference.replayed.unwrap());
    assert_eq!(recorded.0, replayed.0);
    assert_ne!(recorded.1, replayed.1);
    assert!(!difference.before.is_empty() && !difference.fragments.is_empty());
}

#[test]
fn a_transcript_that_begins_in_the_middle_is_judged_after_a_while() {
    let mut world = world_with(2, Config::default(), [link(12, 30), link(6, 80)], loads());
    world.run_until(Instant::from_secs(30));
    let session = world.app::<Sender>(0).session().expect("connected");
    world.with_node(0, |context| {
        let now = context.now();
        let mut session = context.engine().session(session).expect("it is open");
        session.record(now, Some(64 << 20));
    });
    world.run_until(Instant::from_secs(60));
    let file = transcript(&mut world);
    let replayed = replay(&file).unwrap();
    assert!(!replayed.is_from_start);
    assert_same(&replayed, 5_000);
}

#[test]
fn memory_is_bounded_and_what_is_left_is_repeated() {
    let file = run(7, Policy::Default, 4 << 20, 60);
    assert!(file.len() < 5 << 20, "{} bytes", file.len());
    let replayed = replay(&file).unwrap();
    assert!(!replayed.is_from_start);
    assert_same(&replayed, 1_000);
}

#[test]
fn a_transcript_contains_nothing_of_what_is_sent() {
    let file = run(5, Policy::Default, 64 << 20, 3);
    // An ADU repeats a byte that depends on its number.
    let adu = make_adu(Instant::EPOCH, 1, 3_000);
    let is_content = |window: &[u8]| window[0] != 0 && window.iter().all(|&byte| byte == window[0]);
    assert!(adu.windows(12).any(is_content));
    assert!(!file.windows(12).any(is_content));
    let sent: u64 = records(&file)
        .iter()
        .filter_map(|record| match record {
            Record::Packet { bytes, .. } => Some(*bytes),
            _ => None,
        })
        .sum();
    assert!(
        sent > 10 * file.len() as u64,
        "{sent} bytes, {} in the file",
        file.len()
    );
}

#[test]
fn decisions_by_objectives_are_not_compared() {
    let objective = "hose 2\nobjective cheap { context { adu:a { stream_id >= 0 } } goal { cost(a) > 0 } utility { a { -1 } } }";
    let config = Config {
        policy: Policy::Assign,
        objectives: Some(objective.into()),
        transcript_bytes: 8 << 20,
        ..Config::default()
    };
    let mut world = world_with(2, config, [link(12, 30)], loads());
    world.run_until(Instant::from_secs(3));
    let replayed = replay(&transcript(&mut world)).unwrap();
    assert_eq!(replayed.difference, None, "{replayed:#?}");
    let cause = replayed.unrepeatable.map(|(_, cause)| cause);
    assert_eq!(cause, Some(Unrepeatable::Objectives), "{replayed:#?}");
}

#[test]
fn the_model_is_near_the_record_for_the_policy_that_decided() {
    let file = run(6, Policy::Default, 256 << 20, 30);
    let what_if = what_if(&file, Policy::RoundRobin).unwrap();
    let modelled = what_if.modelled.expect("the policy has a name");
    for (stream, recorded) in &what_if.recorded.streams {
        let model = &modelled.streams[stream];
        let share = |arrived: u64| arrived as f64 / recorded.adus as f64;
        let difference = share(model.arrived) - share(recorded.arrived);
        assert!(difference.abs() < 0.1, "{recorded:#?} {model:#?}");
    }
    let live = |estimate: &anabranch_session::transcript::Estimate| {
        let of = estimate.streams.values().find(|of| of.label == "live");
        of.cloned().expect("it was sent")
    };
    let (recorded, asked) = (live(&what_if.recorded), live(&what_if.asked));
    // Round robin puts urgent data on the slow path as well.
    assert!(
        asked.transit_p95 > recorded.transit_p95,
        "{recorded:#?} {asked:#?}"
    );
}
