//! Cost of objectives: `cargo bench -p anabranch-hose`.
//!
//! Compilation of a file of 100 objectives, and evaluation per context over schedules of 64 and 512 ADUs. Prints one JSON
//! object in the lab's format. Times are CPU times of one thread: the median, minimum and maximum of several runs; quote
//! ratios, and never across machines.

use std::{hint::black_box, time::Instant as Clock};

use anabranch_base::StreamId;
use anabranch_hose::{
    AduFact, Faults, Limits, Objectives, Schedule, StreamFact, Vocabulary, compile, format,
};
use serde_json::{Value, json};

const RUNS: usize = 5;
const X1: &str = include_str!("../samples/x1.hose");
const X2: &str = include_str!("../samples/x2.hose");
const X4: &str = include_str!("../samples/x4.hose");
const Y1: &str = include_str!("../samples/y1.hose");
const B1: &str = include_str!("../samples/b1.hose");

/// ADUs of four streams in turn, each in a slot of one of six channels.
struct Plan {
    adus: u32,
    /// Shifts ADUs over slots, so that schedules differ.
    shift: u32,
}

impl Schedule for Plan {
    fn adus(&self) -> u32 {
        self.adus
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        let slot = (adu + self.shift) % 6;
        match fact {
            AduFact::StreamId => f64::from(adu % 4),
            AduFact::StreamSeq => f64::from(adu / 4),
            AduFact::Latency => 300.0 + 150.0 * f64::from(slot),
            AduFact::Loss => 0.01 * f64::from(1 + slot),
            AduFact::Field(_) => f64::from(adu % 3),
            _ => 768.0,
        }
    }

    fn stream(&self, _: StreamId, _: StreamFact) -> f64 {
        1.0
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        if one % 6 == other % 6 { 0.9 } else { 0.0 }
    }
}

/// A file of 100 objectives, of each kind among the samples.
fn hundred() -> String {
    let mut text = String::new();
    for index in 0..100 {
        text.push_str([X1, X2, X4, Y1, B1][index % 5]);
    }
    text
}

/// CPU seconds of this thread, where the system reports them (Linux); else elapsed seconds.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn seconds(start: Clock) -> f64 {
    let worked = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let worked = worked.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    worked.map_or_else(|| start.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

/// Nanoseconds per call: median, minimum and maximum of `RUNS`, each over enough calls to take a while.
#[allow(clippy::disallowed_methods)] // A bench measures real time.
fn measure(mut call: impl FnMut()) -> [f64; 3] {
    let clock = Clock::now();
    // The system counts CPU time in ticks of milliseconds: a run takes many of them.
    let mut calls = 1u32;
    loop {
        let before = seconds(clock);
        for _ in 0..calls {
            call();
        }
        if seconds(clock) - before > 0.05 || calls > 1 << 28 {
            break;
        }
        calls *= 4;
    }
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let before = seconds(clock);
            for _ in 0..calls {
                call();
            }
            (seconds(clock) - before) * 1e9 / f64::from(calls)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    [times[RUNS / 2], times[0], times[RUNS - 1]]
}

fn row(bench: &str, what: &str, per: f64, [median, min, max]: [f64; 3]) -> Value {
    let round = |ns: f64| (ns / per * 100.0).round() / 100.0;
    json!({
        "bench": bench,
        "what": what,
        "ns_median": round(median),
        "ns_min": round(min),
        "ns_max": round(max),
        "runs": RUNS,
    })
}

fn texts(rows: &mut Vec<Value>) {
    let text = hundred();
    let compiled = || {
        let compiled = compile(black_box(&text), &mut Vocabulary::default());
        assert_eq!(
            black_box(compiled.expect("sound")).program.objectives.len(),
            100
        );
    };
    rows.push(row(
        "parse_and_check",
        "100 objectives",
        1.0,
        measure(compiled),
    ));
    let formatted = || {
        black_box(format(black_box(&text)).expect("sound"));
    };
    rows.push(row("format", "100 objectives", 1.0, measure(formatted)));
}

fn evaluations(rows: &mut Vec<Value>) {
    for (name, text) in [("x1", X1), ("x2", X2), ("x4", X4), ("y1", Y1), ("b1", B1)] {
        for adus in [64, 512] {
            let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
            objectives.inject(text).expect("sound");
            let mut plan = Plan { adus, shift: 0 };
            objectives.begin(&plan);
            let contexts = objectives.explain(&plan, 0).objectives[0].contexts as f64;
            let begin = measure(|| objectives.begin(black_box(&plan)));
            let whole = measure(|| {
                plan.shift += 1;
                black_box(objectives.utility(black_box(&plan)));
            });
            let what = format!("{name}, {adus} ADUs, {contexts} contexts");
            rows.push(row("filters_per_adu", &what, f64::from(adus), begin));
            if contexts > 0.0 {
                rows.push(row("utility_per_context", &what, contexts, whole));
            }
            let swap = measure(|| {
                plan.shift += 1;
                black_box(objectives.utility_involving(black_box(&plan), &[0, 5]));
            });
            rows.push(row("utility_involving_two_adus", &what, 1.0, swap));
        }
    }
}

/// The matrix for a linear assignment: 64 ADUs in 64 slots under 20 objectives.
fn matrix(rows: &mut Vec<Value>) {
    let mut objectives = Objectives::new(Limits::default(), Vocabulary::default());
    for index in 0..20 {
        objectives.inject([X1, X2][index % 2]).expect("sound");
    }
    objectives.begin(&Plan { adus: 64, shift: 0 });
    let mut faults = Faults::NONE;
    let mut gains = vec![0.0; 64 * 64];
    let fill = || {
        gains.fill(0.0);
        for single in objectives.singles() {
            for &adu in single.adus {
                for slot in 0..64 {
                    let plan = Plan {
                        adus: 64,
                        shift: slot,
                    };
                    gains[(adu * 64 + slot) as usize] +=
                        single.objective.gain(&plan, adu, &mut faults);
                }
            }
        }
        black_box(&gains);
    };
    rows.push(row(
        "assignment_matrix",
        "64 ADUs x 64 slots x 20 objectives",
        1.0,
        measure(fill),
    ));
}

fn main() {
    // `cargo test --benches` also runs this; measuring there would only cost time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let mut rows = Vec::new();
    texts(&mut rows);
    evaluations(&mut rows);
    matrix(&mut rows);
    let outcome = json!({
        "experiment": "objectives",
        "version": env!("CARGO_PKG_VERSION"),
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
