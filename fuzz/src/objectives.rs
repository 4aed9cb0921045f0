//! The language of objectives: any text, and any answers from a schedule.

use anabranch_base::StreamId;
use anabranch_hose::{
    AduFact, Limits, Objectives, Schedule, StreamFact, Vocabulary, format, json::JsonSchedule,
    symbol,
};

/// A schedule whose answers are the input's bytes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn at(&self, place: usize) -> f64 {
        match self.0.get(place % self.0.len().max(1)) {
            None | Some(0xff) => f64::NAN,
            Some(0xfe) => f64::INFINITY,
            Some(0xfd) => f64::MAX,
            Some(&byte) => f64::from(byte) - 40.0,
        }
    }
}

impl Schedule for Bytes<'_> {
    fn adus(&self) -> u32 {
        8
    }

    fn is_sent(&self, adu: u32) -> bool {
        self.at(adu as usize) != 0.0
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        match fact {
            AduFact::StreamId => f64::from(adu % 3),
            fact => self.at(adu as usize * 5 + usize::from(fact.is_of_slot())),
        }
    }

    fn stream(&self, stream: StreamId, _: StreamFact) -> f64 {
        self.at(stream.0 as usize % 100)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        let label = ["v", "voice", "video", "telemetry"].get(number as usize)?;
        Some((StreamId(number.into()), symbol(label)))
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        self.at((one + 3 * other) as usize)
    }
}

/// A text is refused, or formatted to a text that formats to itself and has the same meaning; every evaluation has a finite
/// result; a report can be displayed.
pub fn objectives(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    schedule(text);
    let formatted = format(text).ok();
    let worth = worth(text, data);
    assert!(
        formatted.is_some() || worth.is_none(),
        "checked, but not parsed"
    );
    if let Some(once) = formatted {
        assert_eq!(format(&once).expect("it was formatted"), once);
        assert_eq!(self::worth(&once, data), worth, "{once}");
    }
}

/// A schedule is refused, or each of its ADUs has choices that differ by a finite utility.
fn schedule(text: &str) {
    let mut objectives = Objectives::new(Limits { tries: 1000 }, Vocabulary::default());
    let early = "objective { context { adu:a { length > 0 } } goal { expected(a::latency) < 500 } utility { a { 500 } } }";
    objectives.inject(early).expect("a good text");
    if let Ok(mut schedule) = JsonSchedule::parse(text, objectives.vocabulary()) {
        for of in schedule.alternatives(&mut objectives, 8) {
            assert!(
                of.choices
                    .iter()
                    .all(|choice| choice.difference.is_finite())
            );
        }
    }
}

/// Utility of the schedule that `data` stands for; `None` if the text is refused.
fn worth(text: &str, data: &[u8]) -> Option<f64> {
    let mut objectives = Objectives::new(Limits { tries: 1000 }, Vocabulary::default());
    if let Err(error) = objectives.inject(text) {
        assert!(!error.to_string().is_empty());
        return None;
    }
    let schedule = Bytes(data);
    objectives.begin(&schedule);
    let utility = objectives.utility(&schedule);
    assert!(utility.is_finite());
    assert!(objectives.utility_involving(&schedule, &[1, 6]).is_finite());
    let explained = objectives.explain(&schedule, 2).utility;
    assert!((explained - utility).abs() <= utility.abs() * 1e-9);
    Some(utility)
}
