//! Faults have defined results and are reported once, contexts are bounded, and partial evaluation agrees with full
//! evaluation.

use anabranch_base::{Instant, StreamId};
use anabranch_hose::{
    AduFact, Faults, Limits, NUMBER_MAX, Objectives, Schedule, StreamFact, Vocabulary,
    evaluate::InjectError, symbol,
};
use proptest::prelude::*;

/// `n` ADUs of streams 0 to 2 in turn, each in its slot of `slots`; `None`: not sent.
#[derive(Clone, Debug)]
struct Plan {
    slots: Vec<Option<u32>>,
}

impl Plan {
    fn all(n: u32) -> Self {
        let slots = (0..n).map(Some).collect();
        Self { slots }
    }
}

impl Schedule for Plan {
    fn adus(&self) -> u32 {
        self.slots.len() as u32
    }

    fn is_sent(&self, adu: u32) -> bool {
        self.slots[adu as usize].is_some()
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        let slot = f64::from(self.slots[adu as usize].unwrap_or_default());
        match fact {
            AduFact::StreamId => f64::from(adu % 3),
            AduFact::StreamSeq => f64::from(adu / 3),
            AduFact::Length => 768.0,
            AduFact::Latency => 100.0 + 70.0 * (slot % 7.0),
            AduFact::Loss => 0.04 * (slot % 5.0),
            AduFact::QueueDelay => 0.0,
            AduFact::Field(_) if adu == 1 => f64::NAN,
            AduFact::Field(_) => f64::from(adu),
            _ => f64::NAN,
        }
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        match (stream.0, fact) {
            (0, StreamFact::LossRate) => 0.026,
            _ => f64::NAN,
        }
    }

    /// Streams 0 and 2 are labelled `v`, stream 1 is labelled `w`.
    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        let labels = ["v", "w", "v"];
        let label = labels.get(number as usize)?;
        Some((StreamId(number.into()), symbol(label)))
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        let slot = |adu: u32| self.slots[adu as usize].unwrap_or_default();
        if slot(one) % 3 == slot(other) % 3 {
            0.9
        } else {
            0.0
        }
    }
}

fn objectives(text: &str) -> Objectives {
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    objectives
        .inject(text)
        .unwrap_or_else(|error| panic!("{error}"));
    objectives
}

fn objective(filter: &str, goal: &str, utility: &str) -> String {
    format!(
        "objective {{ context {{ adu:a {{ {filter} }} }} goal {{ {goal} }} utility {{ a {{ {utility} }} }} }}\n"
    )
}

/// Utility over three ADUs, and the faults.
fn evaluate(text: &str) -> (f64, Faults) {
    let mut objectives = objectives(text);
    objectives.begin(&Plan::all(3));
    let utility = objectives.utility(&Plan::all(3));
    assert_eq!(objectives.utility(&Plan::all(3)), utility);
    let faults = objectives.take_faults();
    assert!(objectives.take_faults().is_empty(), "reported once");
    objectives.utility(&Plan::all(3));
    assert!(
        objectives.take_faults().is_empty(),
        "reported once, though it happens again"
    );
    (
        utility,
        faults.first().map_or(Faults::NONE, |(_, faults)| *faults),
    )
}

#[test]
fn numbers_are_whole_in_the_published_language_only() {
    let quotient = objective("stream_id == 0", "true", "7 / 2 - 7 / -2");
    assert_eq!(evaluate(&quotient), (6.0, Faults::NONE));
    assert_eq!(evaluate(&format!("hose 2 {quotient}")), (7.0, Faults::NONE));
    let loss = "objective { context { stream:s { stream_id == 0 } } goal { true } utility { s { s::loss_rate } } }";
    assert_eq!(evaluate(loss), (3.0, Faults::NONE));
    assert_eq!(
        evaluate(&format!("hose 2 {loss}")),
        (0.026 * 100.0, Faults::NONE)
    );
}

#[test]
fn division_by_zero_adds_nothing() {
    let text = objective("true", "true", "100 / a::stream_id");
    assert_eq!(evaluate(&text), (150.0, Faults::DIVISION_BY_ZERO));
    let text = objective(
        "true",
        "(a::stream_id != 0) && (100 / a::stream_id > 0)",
        "1",
    );
    assert_eq!(
        evaluate(&text),
        (2.0, Faults::NONE),
        "the left side guards the right one"
    );
    let text = objective("(stream_id != 0) && (100 / stream_id > 60)", "true", "1");
    assert_eq!(evaluate(&format!("hose 2 {text}")), (1.0, Faults::NONE));
    let text = objective("100 / stream_id > 60", "true", "1");
    assert_eq!(
        evaluate(&format!("hose 2 {text}")),
        (1.0, Faults::DIVISION_BY_ZERO)
    );
}

#[test]
fn a_filter_that_divides_selects_the_adus_of_an_assignment() {
    let text = objective("10 / stream_id > 5", "true", "1");
    let mut objectives = objectives(&format!("hose 2 {text}"));
    objectives.begin(&Plan::all(6));
    let single = objectives.singles().next().unwrap();
    // Those of stream 0 divide by zero, those of stream 2 are not above 5.
    assert_eq!(single.adus, [1, 4]);
}

/// An extended objective over the ADUs `a` of stream 1, and streams.
fn with_streams(streams: &str, goal: &str, utility: &str) -> String {
    format!(
        "hose 2 objective {{ context {{ adu:a {{ stream_id == 1 }} {streams} }} goal {{ {goal} }} utility {{ {utility} }} }}"
    )
}

#[test]
fn a_label_binds_each_of_its_streams() {
    let v = r#"stream:v { label == "v" }"#;
    let sum = "v { v::stream_id + 1 }";
    let alone =
        format!("hose 2 objective {{ context {{ {v} }} goal {{ true }} utility {{ {sum} }} }}");
    assert_eq!(evaluate(&alone), (4.0, Faults::NONE), "1 for 0, 3 for 2");
    let one = alone.replace("true", "v::stream_id > 0");
    assert_eq!(evaluate(&one), (3.0, Faults::NONE));
    assert_eq!(
        evaluate(&alone.replace("\"v\"", "\"x\"")),
        (0.0, Faults::NONE)
    );

    // With each ADU, in contexts and in an assignment.
    let with_adus = with_streams(v, "a::length > 0", sum);
    assert_eq!(evaluate(&with_adus), (4.0, Faults::NONE));
    let objectives = objectives(&with_adus);
    let (_, objective) = objectives.iter().next().unwrap();
    let mut faults = Faults::NONE;
    assert_eq!(objective.gain(&Plan::all(3), 1, &mut faults), 4.0);
    assert!(objective.reads_streams());

    // Two of them.
    let pairs = with_streams(
        &format!(r#"{v} stream:w {{ label == "v" }}"#),
        "v::stream_id != w::stream_id",
        "v { 1 }",
    );
    assert_eq!(evaluate(&pairs), (2.0, Faults::NONE));

    // Stream 2 has not been measured.
    let measured = with_streams(v, "v::loss_rate < 5", "v { 10 * v::loss_rate }");
    assert_eq!(evaluate(&measured), (26.0, Faults::UNKNOWN));
}

#[test]
fn the_bindings_of_labels_are_bounded() {
    struct Many;
    impl Schedule for Many {
        fn adus(&self) -> u32 {
            1
        }
        fn adu(&self, _: u32, _: AduFact) -> f64 {
            1.0
        }
        fn stream(&self, _: StreamId, _: StreamFact) -> f64 {
            1.0
        }
        fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
            (number < 200).then(|| (StreamId(number.into()), symbol("v")))
        }
        fn correlated_loss(&self, _: u32, _: u32) -> f64 {
            0.0
        }
    }
    let streams = ["p", "q", "r", "s"].map(|name| format!(r#"stream:{name} {{ label == "v" }}"#));
    let mut objectives = objectives(&with_streams(
        &streams.join(" "),
        "p::stream_id + q::stream_id + r::stream_id + s::stream_id >= 0",
        "a { 1 }",
    ));
    objectives.begin(&Many);
    let utility = objectives.utility(&Many);
    assert!((900.0..=1024.0).contains(&utility), "{utility}");
    let (_, faults) = objectives.take_faults()[0];
    assert_eq!(faults, Faults::TOO_MANY_CONTEXTS);
}

#[test]
fn tallies_count_what_was_sent_in_the_last_minute() {
    let text = [
        objective("stream_id == 1", "expected(a::latency) < 200", "10"),
        objective("stream_id == 1", "a::length / a::queue_delay > 0", "1"),
        "objective { context { adu:a { stream_id == 1 } adu:b { stream_id == 1 } } goal { a::stream_seq <= b::stream_seq }
            utility { a { 1 } } }"
            .to_owned(),
        "objective { context { stream:s { stream_id == 0 } } goal { s::loss_rate < 5 } utility { s { 3 } } }".to_owned(),
    ];
    let mut objectives = objectives(&text.concat());
    let plan = Plan::all(6);
    let at = Instant::from_secs;
    let tallies = |objectives: &Objectives, now| -> Vec<(u64, u64, f64, u64)> {
        let all = objectives.tallies(at(now));
        all.map(|(_, one)| {
            (
                one.contexts,
                one.contexts_met,
                one.utility,
                one.contexts_faulty,
            )
        })
        .collect()
    };
    // ADU 1 has a latency of 170 ms, ADU 4 one of 380 ms; ADU 0 is of another stream.
    for (now, adu) in [(0, 1), (30, 4), (30, 0)] {
        objectives.note_sent(at(now), &plan, adu);
    }
    objectives.note_streams(at(30), &plan);
    // Of pairs, those of each with itself and with the other, which both are in the plan from the start.
    let expected = [
        (2, 1, 10.0, 0),
        (2, 0, 0.0, 2),
        (6, 4, 4.0, 0),
        (1, 1, 3.0, 0),
    ];
    assert_eq!(tallies(&objectives, 31), expected);
    let faults: Vec<Faults> = objectives
        .tallies(at(31))
        .map(|(_, one)| one.faults)
        .collect();
    assert_eq!(faults[1], Faults::DIVISION_BY_ZERO);
    assert_eq!(tallies(&objectives, 61)[0], (1, 0, 0.0, 0));
    assert_eq!(tallies(&objectives, 95)[0], (0, 0, 0.0, 0));

    // What planning alone has found is shown, too.
    let (id, _) = objectives.iter().next().unwrap();
    objectives.note(id, Faults::OVERFLOW);
    let (_, first) = objectives.tallies(at(200)).next().unwrap();
    assert_eq!((first.contexts, first.faults), (0, Faults::OVERFLOW));
}

#[test]
fn overflow_saturates() {
    let text = objective("stream_id == 0", "true", "-9007199254740991 * 2");
    assert_eq!(evaluate(&text), (-NUMBER_MAX, Faults::OVERFLOW));
    let huge = vec!["9007199254740991"; 40].join(" * ");
    let text = objective("stream_id == 0", "true", &huge);
    assert_eq!(evaluate(&text), (NUMBER_MAX, Faults::OVERFLOW));
}

#[test]
fn unknown_values_add_nothing_and_pass_no_filter() {
    let text = objective("mark >= 0", "true", "1");
    assert_eq!(evaluate(&text), (2.0, Faults::NONE));
    let text = objective("!(mark < 0)", "true", "1");
    assert_eq!(evaluate(&text), (2.0, Faults::NONE));
    let text = objective("true", "a::mark >= 0", "1");
    assert_eq!(evaluate(&text), (2.0, Faults::UNKNOWN));
    let text = "objective { context { stream:s { stream_id == 9 } } goal { s::latency_ave < 1 } utility { s { 1 } } }";
    assert_eq!(evaluate(text), (0.0, Faults::UNKNOWN));
}

#[test]
fn several_kinds_of_faults_have_words() {
    let both = Faults::DIVISION_BY_ZERO.union(Faults::OVERFLOW);
    assert_eq!(both.words().count(), 2);
    assert!(both.to_string().contains("divides by zero") && both.to_string().contains("2^53"));
}

#[test]
fn contexts_that_explode_are_bounded_and_reported() {
    let variables = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let bindings: String = variables
        .iter()
        .map(|v| format!("adu:{v} {{ true }} "))
        .collect();
    let sum: Vec<String> = variables.iter().map(|v| format!("{v}::length")).collect();
    let text = format!(
        "objective {{ context {{ {bindings} }} goal {{ {} > 0 }} utility {{ a {{ 1 }} }} }}",
        sum.join(" + ")
    );
    let limits = Limits { tries: 1000 };
    let mut objectives = Objectives::new(limits, Vocabulary::default());
    objectives.inject(&text).unwrap();
    let plan = Plan::all(100);
    objectives.begin(&plan);
    // Six tries bind the first six variables; then each value of the seventh takes one try, and each of the eighth one: 6
    // + 9 · 101 + 1 + 84.
    assert_eq!(objectives.utility(&plan), 984.0);
    let faults = objectives.take_faults();
    assert_eq!(faults[0].1, Faults::TOO_MANY_CONTEXTS);
}

#[test]
fn objectives_come_and_go() {
    let mut objectives = objectives(&objective("stream_id == 0", "true", "1"));
    let injected = objectives
        .inject(&objective("stream_id == 1", "true", "10"))
        .unwrap();
    let plan = Plan::all(3);
    objectives.begin(&plan);
    assert_eq!(objectives.utility(&plan), 11.0);
    assert!(objectives.remove(injected.objectives[0]));
    assert!(!objectives.remove(injected.objectives[0]));
    assert_eq!(objectives.utility(&plan), 1.0);
    let rate =
        "hose 2 rate { context { stream:s { stream_id == 3 } } at_least { 1 } probability { 95 } }";
    let injected = objectives.inject(rate).unwrap();
    assert_eq!(objectives.rates().len(), 1);
    assert!(objectives.remove(injected.rates[0].0));
    assert!(objectives.rates().is_empty());
    let error = objectives.inject("objective {").unwrap_err();
    assert!(matches!(error, InjectError::Text(_)), "{error}");
    let many = objective("true", "true", "1").repeat(1024);
    assert_eq!(objectives.inject(&many), Err(InjectError::Full(1)));
    let item = rate.strip_prefix("hose 2 ").unwrap();
    for _ in 0..2 {
        let half = format!("hose 2 {}", item.repeat(512));
        objectives.inject(&half).unwrap();
    }
    assert_eq!(objectives.inject(rate), Err(InjectError::Full(1024)));
}

#[test]
fn fields_have_one_type_in_all_texts_in_force() {
    let mut objectives = objectives(&objective("mark == 1", "true", "1"));
    let error = objectives
        .inject(&objective("mark == \"x\"", "true", "1"))
        .unwrap_err();
    assert!(
        error.to_string().contains("'mark' is declared numeric"),
        "{error}"
    );
}

/// Separable objectives, pairs, a sequence, three at a time, and one over a stream.
const MIXED: &str = "
objective { context { adu:a { stream_id == 1 } } goal { expected(a::latency) <= 400 } utility { a { 400 - expected(a::latency) } } }
objective { context { adu:a { true } } goal { prob(a::lost?) >= 10 } utility { a { -15 } } }
objective { context { adu:a { stream_id == 0 } adu:b { stream_id == 0 } } goal { correlated_loss(a, b) <= 25 } utility { a { 125 } } }
objective { context { adu:a { stream_id == 2 } adu:b { (stream_id == 2) && (stream_seq == a::stream_seq + 1) } }
  goal { expected(b::latency) >= expected(a::latency) } utility { a { 3 } b { 4 } } }
objective { context { adu:a { stream_id == 0 } adu:b { stream_id == 1 } adu:c { stream_seq == b::stream_seq } }
  goal { prob(a::lost?) < prob(c::lost?) } utility { b { 1 } } }
objective { context { stream:s { stream_id == 0 } adu:a { stream_id == 0 } } goal { s::loss_rate < 5 } utility { s { 2 } a { 1 } } }
";

fn plans() -> impl Strategy<Value = Plan> {
    let slot = prop_oneof![4 => (0u32..20).prop_map(Some), 1 => Just(None)];
    prop::collection::vec(slot, 1..14).prop_map(|slots| Plan { slots })
}

proptest! {
    /// A change of the slots of some ADUs changes the utility by the change of its part that involves these ADUs: local
    /// searches rely on it.
    #[test]
    fn involving_equals_the_change(plan in plans(), changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0u32..20)), 1..4)) {
        let mut objectives = objectives(MIXED);
        objectives.begin(&plan);
        let mut changed = plan.clone();
        let mut adus = Vec::new();
        for (index, slot) in changes {
            let adu = index.index(plan.slots.len());
            changed.slots[adu] = slot;
            if !adus.contains(&(adu as u32)) {
                adus.push(adu as u32);
            }
        }
        let before = objectives.utility(&plan);
        let after = objectives.utility(&changed);
        let delta = objectives.utility_involving(&changed, &adus) - objectives.utility_involving(&plan, &adus);
        prop_assert!((after - before - delta).abs() < 1e-6, "{after} - {before} is not {delta}");
    }

    /// Separable and combinatorial parts add up to the whole.
    #[test]
    fn parts_add_up(plan in plans()) {
        let mut objectives = objectives(MIXED);
        objectives.begin(&plan);
        let mut faults = Faults::NONE;
        let mut singles = 0.0;
        for single in objectives.singles() {
            for &adu in single.adus.iter().filter(|&&adu| plan.is_sent(adu)) {
                singles += single.objective.gain(&plan, adu, &mut faults);
            }
        }
        let all: Vec<u32> = (0..plan.adus()).collect();
        let others = objectives.combinatorial_involving(&plan, &all);
        let whole = objectives.utility(&plan);
        prop_assert!((whole - singles - others).abs() < 1e-6);
        prop_assert!((objectives.explain(&plan, 0).utility - whole).abs() < 1e-6);
    }
}
