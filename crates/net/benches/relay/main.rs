//! Capacity of a relay: `cargo bench -p anabranch-net --bench relay`.
//!
//! One thread sends packets to a relay, or to a plain loop without circuits, and receives them at the
//! other end, never more than a window ahead; the relay is the other thread. The CPU time of that thread is
//! measured (Linux), so that the figures are valid on a machine with other work: `per_core` is the rate of a core that
//! does nothing else. On loopback this includes the kernel's work for the delivery of sent packets, and
//! not that for received ones, which the sender does. Prints one JSON object in the lab's format, with
//! medians of several runs, in turn with the baselines. Quote ratios, and never across machines.

mod baseline;
mod idle;
mod load;

use serde_json::{Value, json};

use self::{
    baseline::{Baseline, Kind},
    load::{Circuits, Load, Run},
};

const RUNS: usize = 5;

/// Median, smallest and largest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    [values[last / 2], values[0], values[last]]
}

fn row(what: &str, through: &str, load: &Load, runs: &[Run]) -> Value {
    let round = |value: f64, digits: f64| (value * digits).round() / digits;
    let of = |value: fn(&Run, &Load) -> f64, digits: f64| {
        let values = runs.iter().map(|run| value(run, load)).collect();
        spread(values).map(|value| round(value, digits))
    };
    let rate = of(|run, _| run.packets_per_core_s() / 1e3, 1.0);
    let bits = of(
        |run, load| run.packets_per_core_s() * load.packet_bytes as f64 * 8.0 / 1e9,
        100.0,
    );
    let wall = of(|run, _| run.packets as f64 / run.wall_s / 1e3, 1.0);
    let busy = of(|run, _| run.busy_s / run.wall_s, 100.0);
    json!({
        "bench": "forward",
        "what": what,
        "through": through,
        "kpackets_per_core_s_median": rate[0],
        "kpackets_per_core_s_min": rate[1],
        "kpackets_per_core_s_max": rate[2],
        "gbit_per_core_s_median": bits[0],
        "kpackets_per_s_median": wall[0],
        "busy_median": busy[0],
        "lost": runs.iter().map(|run| run.lost).sum::<u64>(),
        "runs": RUNS,
    })
}

fn forward(rows: &mut Vec<Value>) {
    let loads = [
        (
            "1,400 bytes, trains of 40, 1 circuit",
            Load::trains(1_400, 40),
        ),
        (
            "1,400 bytes, one by one, 1 circuit",
            Load::singles(1_400, 1),
        ),
        ("100 bytes, one by one, 1 circuit", Load::singles(100, 1)),
        (
            "100 bytes, one by one, 100 circuits in turn",
            Load::singles(100, 100),
        ),
        (
            "100 bytes, one by one, 100 circuits, more than it can take",
            Load::overload(100, 100),
        ),
    ];
    for (what, load) in loads {
        let mut ours = Vec::new();
        let mut others = vec![Vec::new(); Kind::ALL.len()];
        for _ in 0..RUNS {
            let circuits = Circuits::open(load.circuits);
            ours.push(load.run(&circuits.ends, "relay"));
            drop(circuits);
            for (kind, runs) in Kind::ALL.iter().zip(&mut others) {
                if let Some(baseline) = Baseline::start(*kind, load.circuits) {
                    runs.push(load.run(&baseline.ends, "baseline"));
                }
            }
        }
        rows.push(row(what, "relay", &load, &ours));
        for (kind, runs) in Kind::ALL.iter().zip(&others) {
            if !runs.is_empty() {
                rows.push(row(what, kind.name(), &load, runs));
            }
        }
    }
}

/// Packets from unknown addresses at the port of a circuit.
fn flood(rows: &mut Vec<Value>) {
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let circuits = Circuits::open(1);
        let busy_before = load::busy_s("relay");
        let before = circuits.relay.totals().foreign_packets;
        load::shoot(circuits.ends[0].entrance, 200_000);
        let dropped = circuits.relay.totals().foreign_packets - before;
        rates.push(dropped as f64 / (load::busy_s("relay") - busy_before) / 1e3);
    }
    let [median, min, max] = spread(rates).map(f64::round);
    rows.push(json!({
        "bench": "flood",
        "what": "100 bytes of a stranger, one by one",
        "kpackets_dropped_per_core_s_median": median,
        "kpackets_dropped_per_core_s_min": min,
        "kpackets_dropped_per_core_s_max": max,
        "runs": RUNS,
    }));
}

/// Delay that a relay adds to a single packet, both directions together.
fn delay(rows: &mut Vec<Value>) {
    const ROUNDS: usize = 2_000;
    let mut through = Vec::new();
    let mut direct = Vec::new();
    for _ in 0..RUNS {
        let mut circuits = Circuits::open(1);
        through.push(load::round_trip_s(&circuits.ends, circuits.back, ROUNDS) * 1e6);
        let (source, sink) = (
            circuits.ends[0].source.address(),
            circuits.ends.sink.address(),
        );
        circuits.ends.ends[0].entrance = sink;
        direct.push(load::round_trip_s(&circuits.ends, source, ROUNDS) * 1e6);
    }
    for (what, times) in [("through a relay", through), ("without", direct)] {
        let [median, min, max] = spread(times).map(|us| (us * 10.0).round() / 10.0);
        rows.push(json!({
            "bench": "round_trip",
            "what": what,
            "us_median": median,
            "us_min": min,
            "us_max": max,
            "runs": RUNS,
        }));
    }
}

fn main() {
    // `cargo test --benches` runs this, too; a measurement there would only take time.
    if std::env::args().any(|argument| argument == "--test") || cfg!(debug_assertions) {
        return;
    }
    let mut rows = Vec::new();
    idle::memory(&mut rows);
    forward(&mut rows);
    flood(&mut rows);
    delay(&mut rows);
    let outcome = json!({
        "experiment": "relay",
        "version": env!("CARGO_PKG_VERSION"),
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
