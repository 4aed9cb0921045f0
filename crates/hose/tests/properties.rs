//! Any text is read without panic; formatting preserves the meaning; evaluation neither panics nor allocates.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::alloc::System;

use anabranch_base::StreamId;
use anabranch_hose::{
    AduFact, Faults, Limits, Objectives, Schedule, Shape, StreamFact, Vocabulary, compile,
    evaluate::{Batch, Places},
    format,
    json::JsonSchedule,
    symbol,
};
use proptest::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Answers with the given values.
#[derive(Debug)]
struct Any(Vec<f64>);

impl Any {
    fn at(&self, place: u64) -> f64 {
        self.0[(place % self.0.len() as u64) as usize]
    }
}

impl Schedule for Any {
    fn adus(&self) -> u32 {
        6
    }

    fn is_sent(&self, adu: u32) -> bool {
        self.at(u64::from(adu)) >= 0.0
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        match fact {
            AduFact::StreamId => f64::from(adu % 3),
            fact => self.at(u64::from(adu) * 7 + format!("{fact:?}").len() as u64),
        }
    }

    fn stream(&self, stream: StreamId, _: StreamFact) -> f64 {
        self.at(stream.0)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        (number < 4).then(|| {
            (
                StreamId(number.into()),
                symbol(["v", "w"][number as usize % 2]),
            )
        })
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        self.at(u64::from(one * other))
    }
}

/// Pieces of the language, so that random texts get beyond the first token.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "objective",
        "context",
        "goal",
        "utility",
        "rate",
        "field",
        "hose 2",
        "{",
        "}",
        "(",
        ")",
        "adu:a",
        "stream:s",
        "a::latency",
        "a::lost?",
        "a::x",
        "expected",
        "prob",
        "min",
        "max",
        "cost",
        "correlated_loss",
        "stream_id == 1",
        "label == \"v\"",
        "stream:s { label == \"v\" }",
        "&&",
        "||",
        "!",
        "-",
        "+",
        "*",
        "/",
        "<",
        "==",
        "0",
        "9007199254740991",
        "0.5",
        "\"I\"",
        "true",
        "false",
        ",",
        "::",
        ":",
        "// note\n",
        "\n",
        "a",
        "a::channel::name",
        "é",
        "'",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

/// Numeric expressions over the ADUs `a` and `b` and the stream `s`.
fn numeric() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (0u64..1 << 53).prop_map(|n| n.to_string()),
        (0u32..5).prop_map(|n| n.to_string()),
        prop::sample::select(vec![
            "expected(a::latency)",
            "prob(b::lost?)",
            "prob(correlated_loss(a, b))",
            "a::length",
            "b::mark",
            "s::latency_ave",
            "s::stream_id",
            "a::queue_delay",
        ])
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(5, 24, 3, |inner| {
        let pair = (
            inner.clone(),
            inner.clone(),
            prop::sample::select(vec!["+", "-", "*", "/"]),
        );
        prop_oneof![
            pair.prop_map(|(x, y, op)| format!("({x}) {op} ({y})")),
            (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("max({x}, min({y}, 7))")),
            inner.clone().prop_map(|x| format!("-({x})")),
            inner.prop_map(|x| format!("abs({x})")),
        ]
    })
}

fn boolean() -> impl Strategy<Value = String> {
    let operators = prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]);
    let leaf = (numeric(), operators, numeric()).prop_map(|(x, op, y)| format!("({x}) {op} ({y})"));
    leaf.prop_recursive(3, 8, 2, |inner| {
        let joined = (
            inner.clone(),
            prop::sample::select(vec!["&&", "||"]),
            inner.clone(),
        );
        prop_oneof![
            joined.prop_map(|(x, op, y)| format!("({x}) {op} ({y})")),
            inner.prop_map(|x| format!("!({x})")),
        ]
    })
}

fn objective() -> impl Strategy<Value = String> {
    let version = prop::sample::select(vec![
        ("", "stream_id == 1"),
        ("hose 2\n", "stream_id == 1"),
        ("hose 2\n", "label == \"v\""),
    ]);
    (version, boolean(), numeric(), numeric()).prop_map(|((version, stream), goal, one, other)| {
        format!(
            "{version}objective {{ context {{ adu:a {{ stream_id == 0 }} adu:b {{ (stream_id != 2) && (mark >= a::length - 5) }}
               stream:s {{ {stream} }} }} goal {{ {goal} }} utility {{ a {{ {one} }} s {{ {other} }} }} }}"
        )
    })
}

fn answers() -> impl Strategy<Value = Any> {
    let number = prop_oneof![
        4 => -10.0..1000.0,
        1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e-300]),
    ];
    prop::collection::vec(number, 1..20).prop_map(Any)
}

/// Meaning of a text, apart from its places and layout.
fn meaning(text: &str) -> String {
    let program = compile(text, &mut Vocabulary::default()).unwrap().program;
    // The nodes contain neither places nor words.
    let mut objectives = Objectives::default();
    objectives.inject(text).unwrap();
    let schedule = Any(vec![3.0, 0.5, 7.0, 0.25, 100.0]);
    objectives.begin(&schedule);
    let worth = objectives.utility(&schedule);
    format!(
        "{} {} {worth}",
        program.objectives.len(),
        program.rates.len()
    )
}

proptest! {
    #[test]
    fn any_text_is_read(text in prop_oneof![pieces(), any::<String>()]) {
        let _ = JsonSchedule::parse(&text, &Vocabulary::default());
        match compile(&text, &mut Vocabulary::default()) {
            Ok(_) => prop_assert!(format(&text).is_ok()),
            Err(report) => {
                prop_assert!(report.has_errors());
                prop_assert!(!report.render("x").is_empty());
            }
        }
        if let Ok(once) = format(&text) {
            prop_assert_eq!(format(&once).unwrap(), once);
        }
    }

    #[test]
    fn formatting_keeps_the_meaning(text in objective()) {
        let once = format(&text).unwrap();
        prop_assert_eq!(&format(&once).unwrap(), &once);
        prop_assert_eq!(meaning(&text), meaning(&once));
    }

    #[test]
    fn every_evaluation_has_a_finite_result(text in objective(), schedule in answers()) {
        let mut objectives = Objectives::new(Limits { tries: 50 }, Vocabulary::default());
        objectives.inject(&text).unwrap();
        objectives.begin(&schedule);
        let utility = objectives.utility(&schedule);
        prop_assert!(utility.is_finite(), "{utility}");
        prop_assert!(objectives.utility_involving(&schedule, &[0, 4]).is_finite());
        prop_assert!((objectives.explain(&schedule, 3).utility - utility).abs() <= utility.abs() * 1e-9);
    }
}

/// An ADU in 70 slots, each with different answers.
struct Many<'a>(&'a Any);

/// The same ADU in one of them.
struct One<'a>(&'a Any, u64);

impl Schedule for One<'_> {
    fn adus(&self) -> u32 {
        6
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        match fact {
            AduFact::StreamId => f64::from(adu % 3),
            fact if !fact.is_of_slot() => self.0.adu(adu, fact),
            fact => (self.0).at(self.1 + u64::from(adu) + format!("{fact:?}").len() as u64),
        }
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        self.0.stream(stream, fact)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        self.0.labelled(number)
    }

    fn correlated_loss(&self, _: u32, _: u32) -> f64 {
        f64::NAN
    }
}

impl Places for Many<'_> {
    type One<'p>
        = One<'p>
    where
        Self: 'p;

    fn count(&self) -> usize {
        70
    }

    fn adu(&self) -> u32 {
        1
    }

    fn one(&self, at: usize) -> One<'_> {
        One(self.0, at as u64)
    }

    fn fill(&self, fact: AduFact, from: usize, answers: &mut [f64]) {
        for (at, answer) in answers.iter_mut().enumerate() {
            *answer = self.one(from + at).adu(self.adu(), fact);
        }
    }
}

proptest! {
    #[test]
    fn side_by_side_gains_are_those_of_each(
        text in objective(),
        sane in prop::collection::vec(prop_oneof![0.0..9.0_f64, -3.0..900.0_f64], 1..100),
        odd in answers(),
    ) {
        // The second variable is replaced by the first.
        let text = text.replace("adu:b { (stream_id != 2) && (mark >= a::length - 5) }", "");
        let text = text.replace("b::", "a::").replace("(a, b)", "(a, a)");
        let mut vocabulary = Vocabulary::default();
        let Ok(compiled) = compile(&text, &mut vocabulary) else {
            return Err(TestCaseError::fail(text));
        };
        for answers in [Any(sane), odd] {
            for objective in &compiled.program.objectives {
                prop_assert_eq!(objective.shape(), Shape::Single);
                let (mut gains, mut faults) = ([0.0; 70], Faults::NONE);
                objective.gains(&Many(&answers), &mut Batch::default(), &mut gains, &mut faults);
                let mut faults_of_each = Faults::NONE;
                for (at, gain) in gains.iter().enumerate() {
                    let alone = objective.gain(&One(&answers, at as u64), 1, &mut faults_of_each);
                    prop_assert_eq!(*gain, alone, "in {}", at);
                }
                prop_assert_eq!(faults, faults_of_each);
            }
        }
    }
}

/// A schedule whose answers need no memory.
struct Still;

impl Schedule for Still {
    fn adus(&self) -> u32 {
        40
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        match fact {
            AduFact::StreamId => f64::from(adu % 4),
            AduFact::StreamSeq => f64::from(adu / 4),
            _ => 0.01,
        }
    }

    fn stream(&self, _: StreamId, _: StreamFact) -> f64 {
        1.0
    }

    fn correlated_loss(&self, _: u32, _: u32) -> f64 {
        0.1
    }
}

#[test]
fn evaluation_allocates_nothing() {
    let mut objectives = Objectives::default();
    for text in [
        include_str!("../samples/s4.hose"),
        include_str!("../samples/b1.hose"),
    ] {
        objectives.inject(text).unwrap();
    }
    objectives.begin(&Still);
    // Other tests of this file allocate at the same time: one evaluation without allocation among many is proof.
    let is_quiet = (0..1000).any(|_| {
        let region = Region::new(ALLOCATOR);
        let utility = objectives.utility(&Still) + objectives.utility_involving(&Still, &[3, 4]);
        objectives.begin(&Still);
        let change = region.change();
        assert!(utility != 0.0);
        change.allocations + change.reallocations == 0
    });
    assert!(is_quiet);
}
