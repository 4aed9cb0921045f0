//! Random cycles with random objectives.

use anabranch_base::{Random, StreamId};
use anabranch_hose::{Limits, Objectives, Vocabulary};
use anabranch_sched::objective::{Adu, Cycle, Fields};
use anabranch_spec::{ChannelMask, Correlation, Slot};

const CHANNELS: u64 = 3;
const STREAMS: u64 = 3;

/// A cycle, and the utility of its schedules.
pub(super) struct Instance {
    pub cycle: Cycle,
    pub objectives: Objectives,
}

/// Draws an instance of at most `most` slots and ADUs.
pub(super) fn draw(random: &mut Random, is_combinatorial: bool, most: u64) -> Instance {
    let mut text = String::new();
    for _ in 0..random.between(1, 4) {
        text += &single(random);
    }
    if is_combinatorial {
        for _ in 0..random.between(1, 2) {
            text += &pair(random);
        }
    }
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    objectives.inject(&text).expect("what is drawn is correct");
    Instance {
        cycle: cycle(random, most),
        objectives,
    }
}

/// An objective over one ADU.
fn single(random: &mut Random) -> String {
    let stream = random.below(STREAMS);
    let (goal, utility) = match random.below(4) {
        0 => {
            let bound = random.between(3, 12) * 100;
            (
                format!("expected(a::latency) <= {bound}"),
                format!("{bound} - expected(a::latency)"),
            )
        }
        1 => {
            let bound = random.between(3, 30);
            let weight = random.between(1, 100);
            (
                format!("prob(a::lost?) < {bound}"),
                format!("{weight} * ({bound} - prob(a::lost?))"),
            )
        }
        2 => (
            format!("expected(a::latency) > {}", random.between(3, 12) * 100),
            format!("-{}", random.between(1, 400)),
        ),
        _ => ("true".to_owned(), random.between(1, 300).to_string()),
    };
    objective(
        &format!("adu:a {{ stream_id == {stream} }}"),
        &goal,
        &format!("a {{ {utility} }}"),
    )
}

/// An objective over two ADUs.
fn pair(random: &mut Random) -> String {
    let (one, other) = (random.below(STREAMS), random.below(STREAMS));
    let weight = random.between(20, 300);
    match random.below(3) {
        0 => objective(
            &format!("adu:a {{ stream_id == {one} }} adu:b {{ stream_id == {one} }}"),
            "correlated_loss(a, b) <= 25",
            &format!("a {{ {weight} }}"),
        ),
        1 => objective(
            &format!(
                "adu:a {{ stream_id == {one} }}
                 adu:b {{ (stream_id == {one}) && (stream_seq == a::stream_seq + 1) }}"
            ),
            "expected(b::latency) >= expected(a::latency)",
            &format!("a {{ {weight} }} b {{ {weight} }}"),
        ),
        _ => objective(
            &format!("adu:a {{ stream_id == {one} }} adu:b {{ stream_id == {other} }}"),
            "expected(a::latency) < expected(b::latency)",
            &format!("b {{ {weight} }}"),
        ),
    }
}

fn objective(context: &str, goal: &str, utility: &str) -> String {
    format!("objective {{ context {{ {context} }} goal {{ {goal} }} utility {{ {utility} }} }}\n")
}

fn cycle(random: &mut Random, most: u64) -> Cycle {
    let mut correlation = Correlation::independent(CHANNELS as usize);
    let channels: Vec<(f64, f64)> = (0..CHANNELS as usize)
        .map(|channel| {
            correlation.set_apart(channel, vec![1.0, 0.5, 0.25]);
            (random.uniform(0.0, 0.3), random.uniform(100.0, 1_100.0))
        })
        .collect();
    let mut sent = [0; CHANNELS as usize];
    let slots = (0..random.between(most / 5, most)).map(|_| {
        let channel = random.below(CHANNELS) as usize;
        let (loss, round_trip_ms) = channels[channel];
        let sequence = sent[channel];
        sent[channel] += 1;
        Slot {
            channel: channel as u32,
            sequence,
            wait_ms: sequence as f64 * 50.0,
            confidence: 1.0,
            loss,
            round_trip_ms,
            deviation_ms: 0.1 * round_trip_ms,
            predicted_ms: round_trip_ms,
            cost_per_byte: 0.0,
            bytes_max: 768,
        }
    });
    let slots = slots.collect();
    let mut sequences = [0; STREAMS as usize];
    let mut adus: Vec<Adu> = (0..random.between(most / 5, most))
        .map(|_| {
            let stream = random.below(STREAMS);
            let sequence = sequences[stream as usize];
            sequences[stream as usize] += 1;
            Adu {
                stream: StreamId(stream),
                sequence,
                bytes: 768,
                length: 768,
                waited_ms: random.uniform(0.0, 200.0),
                deadline_ms: f64::NAN,
                fields: Fields::default(),
                turn: 0,
                channels: ChannelMask::ALL,
                label: f64::NAN,
            }
        })
        .collect();
    adus.sort_by_key(|adu| (adu.stream, adu.sequence));
    Cycle {
        slots,
        adus,
        correlation,
        ..Cycle::default()
    }
}
