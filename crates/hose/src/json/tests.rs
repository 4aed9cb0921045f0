use super::{schedule::upper_tail, *};
use crate::{AduFact, Limits, Objectives, Schedule, Vocabulary};

#[test]
fn the_normal_tail_is_as_in_tables() {
    for (z, tail) in [
        (0.0, 0.5),
        (1.0, 0.158_655),
        (1.96, 0.024_998),
        (-2.0, 0.977_25),
    ] {
        assert!((upper_tail(z) - tail).abs() < 1e-5, "{z}");
    }
}

#[test]
fn independent_losses_and_late_ones() {
    let text = r#"{"slots": [{"loss": 0.5, "rtt_ms": 100, "rtt_deviation_ms": 10}, {"loss": 0.5}],
            "adus": [{"stream_id": 1, "stream_seq": 1, "deadline_ms": 110, "queue_delay_ms": 10, "slot": 0},
                     {"stream_id": 1, "stream_seq": 2, "slot": 1}]}"#;
    let schedule = JsonSchedule::parse(text, &Vocabulary::default()).unwrap();
    assert!((schedule.correlated_loss(0, 1) - 1.0 / 3.0).abs() < 1e-12);
    assert!((schedule.adu(0, AduFact::Late) - 0.75).abs() < 1e-6);
    assert_eq!(schedule.adu(1, AduFact::Late), 0.5);
    assert!(schedule.adu(1, AduFact::Latency).is_nan());
}

#[test]
fn errors_name_their_place() {
    let parse = |text: &str| {
        let parsed = JsonSchedule::parse(text, &Vocabulary::default());
        parsed.unwrap_err().to_string()
    };
    assert!(parse("{").starts_with("not a schedule: "));
    assert!(parse(r#"{"slot": []}"#).contains("unknown field `slot`"));
    let error = parse(r#"{"slots": [{"loss": 30}]}"#);
    assert_eq!(
        error,
        "slots[0]: 'loss' is 30; it must be a probability from 0 to 1"
    );
    let adu = r#"{"stream_id": 1, "stream_seq": 1, "slot": 0}"#;
    let error = parse(&format!(r#"{{"adus": [{adu}]}}"#));
    assert_eq!(error, "adus[0]: there is no slot 0; there are 0");
    let error = parse(&format!(r#"{{"slots": [{{}}], "adus": [{adu}, {adu}]}}"#));
    assert_eq!(error, "adus[1]: slot 0 already carries another ADU");
}

#[test]
fn what_is_written_is_read() {
    let text = include_str!("../../samples/schedule.json");
    let schedule = JsonSchedule::parse(text, &Vocabulary::default()).unwrap();
    let written = serde_json::to_string(schedule.document()).unwrap();
    let again = JsonSchedule::parse(&written, &Vocabulary::default()).unwrap();
    assert_eq!(again, schedule);
}

#[test]
fn an_expected_slot_delays() {
    let text = r#"{"slots": [{"wait_ms": 30, "confidence": 0.5, "loss": 0, "rtt_ms": 100}],
        "adus": [{"stream_id": 1, "stream_seq": 1, "queue_delay_ms": 5, "slot": 0}]}"#;
    let schedule = JsonSchedule::parse(text, &Vocabulary::default()).unwrap();
    assert_eq!(schedule.adu(0, AduFact::Latency), 135.0);
    assert!(schedule.document().slots[0].is_phantom());
}

/// Two channels and three slots; the first two ADUs wait, and one was sent before. One objective is over one ADU, the other over two.
const CYCLE: &str = r#"{
    "channels": {"lte": {}, "wifi": {}},
    "slots": [
        {"channel": "wifi", "loss": 0, "rtt_ms": 20},
        {"channel": "lte", "loss": 0, "rtt_ms": 50, "bytes_max": 1000},
        {"channel": "wifi", "loss": 0, "rtt_ms": 20, "wait_ms": 10},
        {"channel": "wifi", "loss": 0, "rtt_ms": 20, "wait_ms": 40},
        {"channel": "lte", "loss": 0, "rtt_ms": 50}
    ],
    "adus": [
        {"stream_id": 1, "stream_seq": 2, "length": 1000, "label": "voice", "slot": 0},
        {"stream_id": 2, "stream_seq": 0, "length": 1200, "label": "bulk"},
        {"stream_id": 1, "stream_seq": 1, "length": 100, "label": "voice", "slot": 4, "sent": true}
    ]
}"#;

fn in_force() -> Objectives {
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    let text = r#"
        hose 2
        objective early {
          context { adu:v { label == "voice" } }
          goal { expected(v::latency) < 100 }
          utility { v { 100 - expected(v::latency) } }
        }
        objective apart {
          context { adu:a { label == "voice" } adu:b { label == "voice" } }
          goal { (a::stream_seq < b::stream_seq) && (a::channel::name != b::channel::name) }
          utility { b { 7 } }
        }"#;
    objectives.inject(text).unwrap();
    objectives
}

#[test]
fn alternatives_are_worth_what_the_whole_schedule_is() {
    let mut objectives = in_force();
    let mut schedule = JsonSchedule::parse(CYCLE, objectives.vocabulary()).unwrap();
    let before = schedule.clone();
    let all = schedule.alternatives(&mut objectives, 10);
    assert_eq!(schedule, before);
    let slots = |at: usize| -> Vec<_> { all[at].choices.iter().map(|c| c.slot).collect() };
    // The sent ADU has no choices; the slots that are free are the earliest of each channel that fit.
    assert_eq!(all.iter().map(|a| a.adu).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(slots(0), [Some(0), Some(1), Some(2), None]);
    assert_eq!(slots(1), [None, Some(2)]);
    let utility = |schedule: &JsonSchedule| objectives.explain(schedule, 0).utility;
    let chosen = utility(&schedule);
    // Its own slot gains 80 + 7; on the other channel 50, where its companion was sent; 70 + 7 if it waits.
    let differences: Vec<f64> = all[0].choices.iter().map(|c| c.difference).collect();
    assert_eq!(differences, [0.0, -37.0, -10.0, -87.0]);
    for choice in &all[0].choices {
        let mut moved = schedule.clone();
        moved.put(0, choice.slot);
        assert_eq!(utility(&moved) - chosen, choice.difference);
    }
    assert!(all[0].choices[0].is_chosen && all[1].choices[0].is_chosen);
    let latencies: Vec<_> = all[0].choices.iter().map(|c| c.latency_ms).collect();
    assert_eq!(latencies, [Some(20.0), Some(50.0), Some(30.0), None]);
    assert_eq!(all[0].choices[1].late, Some(0.0));
    assert_eq!(schedule.alternatives(&mut in_force(), 1).len(), 1);
}

#[test]
fn a_channel_that_an_adu_may_not_use_is_no_alternative() {
    let text = CYCLE.replace(
        r#""label": "bulk""#,
        r#""label": "bulk", "channels": ["lte"], "bytes": 900"#,
    );
    let mut objectives = in_force();
    let mut schedule = JsonSchedule::parse(&text, objectives.vocabulary()).unwrap();
    let all = schedule.alternatives(&mut objectives, 10);
    let slots: Vec<_> = all[1].choices.iter().map(|choice| choice.slot).collect();
    assert_eq!(slots, [None, Some(1)]);
}
