#![doc = include_str!("plan.md")]

use std::time::{Duration, Instant};

use anabranch_base::{Rate, Seed};
use anabranch_overlay::Config;
use anabranch_sim::overlay::{Agents, Net, Traffic, check};
use serde_json::{Value, json};

use crate::{
    Experiment, Options, Row,
    kit::output::{Plot, Published},
};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "overlay-scale",
    summary: "overlays of 10 to 1,000 nodes: control traffic, convergence, route computation",
    plan: include_str!("plan.md"),
    folders: &[],
    run,
    compare,
    plots,
};

const SIZES: [usize; 7] = [10, 20, 50, 100, 200, 500, 1_000];
const SECOND: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(100);
/// Time limit for all to agree.
const LIMIT: Duration = Duration::from_secs(300);
const MESSAGE_BYTES: u64 = 10_000_000;
const DESTINATIONS: usize = 50;

fn run(options: &Options<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for nodes in SIZES {
        let name = format!("{nodes} nodes");
        if options.wants(&name) {
            rows.extend(overlay(nodes, options.seed.child(&name)));
            (options.progress)(&name);
        }
    }
    rows
}

/// Time until all agree on the members.
fn agree(agents: &mut Agents) -> Value {
    let took = agents.run_until(LIMIT, OFTEN, |agents| check::members(agents).is_none());
    json!(took.map(|took| took.as_secs_f64()))
}

fn traffic(agents: &Agents) -> Vec<Traffic> {
    (0..agents.len()).map(|n| agents.traffic(n)).collect()
}

fn overlay(nodes: usize, seed: Seed) -> Option<Row> {
    let mut config = Config::default();
    config.routing.relays = Some(Rate::from_mbps(100));
    let net = Net {
        noise: 0.1,
        ..Net::default()
    };
    let mut agents = Agents::new(nodes, config, net, seed);
    for n in 0..nodes {
        agents.start(n, (n > 0).then_some(n / 2)).ok()?;
    }
    let mut row = Row::new();
    row.insert("nodes".into(), json!(nodes));
    row.insert("join_s".into(), agree(&mut agents));
    // Large overlays are slow to simulate.
    let rest = if nodes > 200 {
        SECOND * 150
    } else {
        SECOND * 600
    };
    agents.run_for(rest);
    let before = traffic(&agents);
    agents.run_for(rest);
    let after = traffic(&agents);
    let per_s = |field: fn(&Traffic) -> u64| -> Vec<f64> {
        let pairs = before.iter().zip(&after);
        pairs
            .map(|(before, after)| (field(after) - field(before)) as f64 / rest.as_secs_f64())
            .collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let sent = per_s(|traffic| traffic.bytes * 8);
    row.insert("sent_bps".into(), json!(mean(&sent).round()));
    let most = sent.iter().copied().fold(0.0, f64::max);
    row.insert("sent_max_bps".into(), json!(most.round()));
    let messages = mean(&per_s(|traffic| traffic.messages));
    row.insert("messages_per_s".into(), json!(rounded(messages)));
    let probes = mean(&per_s(|traffic| traffic.probe_bytes * 8));
    row.insert("probe_bps".into(), json!(probes.round()));
    let sessions = 2.0 * agents.sessions() as f64 / nodes as f64;
    row.insert("sessions".into(), json!(rounded(sessions)));
    let routes = routes(&mut agents);
    row.insert("routes_ms".into(), json!(routes.0));
    row.insert("routes_max_ms".into(), json!(routes.1));

    agents.crash(nodes / 2);
    row.insert("crash_s".into(), agree(&mut agents));
    agents.run_for(SECOND * 10);
    agents.leave(nodes / 3);
    row.insert("leave_s".into(), agree(&mut agents));
    agents.run_for(SECOND * 10);
    agents.start(nodes / 2, Some(0)).ok()?;
    row.insert("newcomer_s".into(), agree(&mut agents));
    agents.run_for(SECOND * 10);
    agents.partition(|n| (n % 2) as u32);
    agents.run_for(SECOND * 120);
    agents.partition(|_| 0);
    row.insert("heal_s".into(), agree(&mut agents));
    Some(row)
}

/// Median and largest time of this machine for computing the best paths to a destination, in milliseconds.
fn routes(agents: &mut Agents) -> (f64, f64) {
    let targets: Vec<_> = (1..agents.len()).map(|n| agents.id(n)).collect();
    let Some((agent, now)) = agents.agent_mut(0) else {
        return (f64::NAN, f64::NAN);
    };
    let step = (targets.len() / DESTINATIONS).max(1);
    let mut times_ms: Vec<f64> = targets
        .iter()
        .step_by(step)
        .map(|to| {
            let begin = Instant::now();
            let _ = agent.best_routes(to, MESSAGE_BYTES, now);
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times_ms.sort_by(f64::total_cmp);
    let median = times_ms[times_ms.len() / 2];
    let most = times_ms.last().copied().unwrap_or(f64::NAN);
    (rounded(median), rounded(most))
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn compare(rows: &[Row]) -> Vec<Published> {
    let of = |nodes: usize, field: &str| {
        let row = rows.iter().find(|row| row["nodes"] == nodes)?;
        row[field].as_f64()
    };
    let mut lines = Vec::new();
    if let Some(bps) = of(50, "sent_bps") {
        lines.push(Published::new(
            "control traffic of a node, 50 nodes (sent)",
            "target",
            "5 kbit/s at most",
            format!("{:.2} kbit/s", bps / 1e3),
        ));
    }
    if let Some(ms) = of(1_000, "routes_ms") {
        lines.push(Published::new(
            "four paths among 1,000 nodes",
            "target",
            "50 ms at most",
            format!("{ms:.2} ms"),
        ));
    }
    lines
}

fn plots(_rows: &[Row]) -> Vec<Plot> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::corpus::Corpus;

    #[test]
    fn twenty_nodes_keep_to_the_budget_and_agree() {
        let corpus = Corpus::default();
        let rows = run(&Options {
            seed: Seed(1),
            only: Some("20 nodes"),
            corpus: &corpus,
            progress: &|_| {},
        });
        let row = &rows[0];
        let of = |field: &str| row[field].as_f64().unwrap();
        assert!(of("sent_bps") < 2_500.0, "{row:?}");
        assert!(of("join_s") < 10.0 && of("leave_s") < 3.0, "{row:?}");
        assert!(of("crash_s") < 15.0 && of("newcomer_s") < 5.0, "{row:?}");
        assert!(of("heal_s") < 60.0, "{row:?}");
        assert!(!compare(&rows).iter().any(|line| line.ours.is_empty()));
    }
}
