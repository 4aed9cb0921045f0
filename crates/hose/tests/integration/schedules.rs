//! Schedules in JSON: what is written is read, and alternatives are worth what the whole schedule is.

use anabranch_hose::{
    Limits, Objectives, Vocabulary,
    json::{AduEntry, CorrelationEntry, Document, JsonSchedule, Outcome, SlotEntry, Value},
};
use proptest::{collection, prelude::*};

/// Objectives over one ADU, over two, and over correlated losses.
const SEVERAL: &str = r#"
    hose 2
    objective early {
      context { adu:v { length < 1000 } }
      goal { expected(v::latency) < 90 }
      utility { v { 90 - expected(v::latency) } }
    }
    objective in_order {
      context { adu:a { length > 10 } adu:b { stream_id == a::stream_id } }
      goal { (a::stream_seq < b::stream_seq) && (expected(a::latency) <= expected(b::latency)) }
      utility { a { 3 } b { 2 } }
    }
    objective apart {
      context { adu:a { length > 10 } adu:b { length > 10 } }
      goal { (a::stream_seq < b::stream_seq) && (correlated_loss(a, b) < 40) }
      utility { b { 5 } }
    }"#;

/// Any schedule: each slot has a channel, a wait, a round trip and a loss; an ADU a stream, a length, perhaps a slot, and it may have been
/// sent before.
fn documents() -> impl Strategy<Value = Document> {
    let slot = (0..3_u8, 0..2_u8, 0..100_u8, 0..=100_u8).prop_map(|(channel, wait, rtt, loss)| {
        SlotEntry {
            channel: Some(format!("c{channel}")),
            wait_ms: f64::from(wait) * 10.0,
            rtt_ms: (rtt > 5).then(|| f64::from(rtt)),
            loss: Some(f64::from(loss) / 100.0),
            bytes_max: (rtt % 3 == 0).then_some(1_200),
            ..SlotEntry::default()
        }
    });
    let adu = (0..2_u64, 1..2_000_u64, any::<bool>(), 0..4_u8);
    let slots = collection::vec(slot, 1..8);
    (slots, collection::vec(adu, 1..7)).prop_map(|(slots, adus)| {
        let adus = adus.into_iter().enumerate();
        let adu =
            |(at, (stream, length, has_slot, fate)): (usize, (u64, u64, bool, u8))| AduEntry {
                stream_id: stream,
                stream_seq: at as u64,
                length: Some(length),
                bytes: None,
                queue_delay_ms: 1.5,
                deadline_ms: (length % 2 == 0).then_some(80.0),
                label: None,
                fields: [("frame".to_owned(), Value::Text("I".to_owned()))].into(),
                channels: (length % 5 == 0).then(|| vec!["c1".to_owned()]),
                slot: (has_slot && at < slots.len()).then_some(at),
                outcome: match fate {
                    0 => Some(Outcome::Lost),
                    1 => Some(Outcome::AckedMs(12.0)),
                    _ => None,
                },
                sent: fate == 2,
            };
        Document {
            adus: adus.map(adu).collect(),
            correlated_loss: (1..slots.len())
                .map(|at| CorrelationEntry {
                    slots: [at - 1, at],
                    probability: 0.5,
                })
                .collect(),
            slots,
            ..Document::default()
        }
    })
}

proptest! {
    #[test]
    fn schedules_are_read_as_they_are_written(document in documents()) {
        let text = serde_json::to_string(&document).unwrap();
        let read = JsonSchedule::parse(&text, &Vocabulary::default()).unwrap();
        prop_assert_eq!(read.document(), &document);
    }

    /// The difference that an alternative makes is that of the utility of the whole schedule.
    #[test]
    fn alternatives_differ_as_the_whole_schedule_does(document in documents()) {
        let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
        objectives.inject(SEVERAL).unwrap();
        let mut schedule = JsonSchedule::new(document.clone(), objectives.vocabulary()).unwrap();
        let before = objectives.explain(&schedule, 0).utility;
        for of in schedule.alternatives(&mut objectives, usize::MAX) {
            prop_assert!(document.adus[of.adu].is_waiting());
            for choice in &of.choices {
                let mut other = document.clone();
                other.adus[of.adu].slot = choice.slot;
                // No choice is a slot that another ADU has.
                let other = JsonSchedule::new(other, objectives.vocabulary()).unwrap();
                let after = objectives.explain(&other, 0).utility;
                prop_assert!((after - before - choice.difference).abs() < 1e-9, "{:?}", choice);
                prop_assert_eq!(choice.is_chosen, choice.slot == document.adus[of.adu].slot);
            }
        }
        prop_assert_eq!(schedule.document(), &document);
    }
}
