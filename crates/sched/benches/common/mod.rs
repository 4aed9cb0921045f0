//! Common parts of the benches: whether to measure, several runs of one measurement, and the lab's shape of results.

use serde_json::{Value, json};

/// Runs of one measurement.
pub(crate) const RUNS: usize = 5;

/// True if this is a bench: `cargo test --benches` runs it, too, where measuring would only cost time.
pub(crate) fn is_measuring() -> bool {
    !cfg!(debug_assertions) && std::env::args().all(|argument| argument != "--test")
}

/// Median, least and most of [`RUNS`] measurements, each rounded to so many `parts` of its unit.
pub(crate) fn times(parts: f64, mut measure: impl FnMut() -> f64) -> [f64; 3] {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| (measure() * parts).round() / parts)
        .collect();
    times.sort_by(f64::total_cmp);
    [times[RUNS / 2], times[0], times[RUNS - 1]]
}

/// Prints the rows as one JSON object in the lab's shape.
pub(crate) fn print(experiment: &str, rows: &[Value]) {
    let outcome = json!({
        "experiment": experiment,
        "version": env!("CARGO_PKG_VERSION"),
        "rows": rows,
    });
    let text = serde_json::to_string_pretty(&outcome).expect("rows are JSON");
    #[allow(clippy::print_stdout)] // The bench's result.
    {
        println!("{text}");
    }
}
