//! `cargo run --release -p anabranch-lab --example lab -- pairs [only]`

use anabranch_base::Seed;
use anabranch_lab::{Experiment, Options};

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or("pairs".into());
    let only = args.next();
    let seed = args.next().and_then(|text| text.parse().ok()).unwrap_or(1);
    let experiment = Experiment::find(&name).expect("a known experiment");
    let outcome = experiment.run(&Options {
        seed: Seed(seed),
        only: only.as_deref(),
        progress: &|line| eprintln!("{line}"),
    });
    for row in outcome.rows {
        println!("{}", serde_json::to_string(&row).expect("rows are JSON"));
    }
}
