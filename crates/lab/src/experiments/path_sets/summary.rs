//! All sets together.

use serde_json::{Value, json};

use crate::{
    Row,
    kit::{
        output::Published,
        streams::show::{distinct, find, has, number, rounded},
    },
};

/// Share of windows that was promised.
const PROMISED: f64 = 0.95;
/// The same less one percentage point.
const NEARLY: f64 = 0.94;
/// Algorithm that determines the achievable figures.
const REFERENCE: &str = "opt";
/// Tolerance of rounding in the comparison of sets and of streams with few windows.
const ROUNDING: f64 = 1e-9;

/// A row for each algorithm.
pub(super) fn of(rows: &[Row]) -> Vec<Row> {
    let algorithms = distinct(rows, "algorithm");
    let has_reference = algorithms.contains(&REFERENCE);
    // Without the reference, every set counts.
    let judged: Vec<&str> = distinct(rows, "set")
        .into_iter()
        .filter(|set| {
            let row = row_of(rows, set, REFERENCE);
            !has_reference || row.is_some_and(|row| met(row) >= PROMISED - ROUNDING)
        })
        .collect();
    let summary = |algorithm: &&str| {
        let own: Vec<&Row> = judged
            .iter()
            .filter_map(|set| row_of(rows, set, algorithm))
            .collect();
        let share = |least: f64| {
            let kept = own.iter().filter(|row| met(row) >= least - ROUNDING);
            rounded(kept.count() as f64 / own.len().max(1) as f64)
        };
        let mut ratios: Vec<f64> = judged
            .iter()
            .filter_map(|set| {
                let own = number(row_of(rows, set, algorithm)?, "goodput_mbps")?;
                Some(own / number(row_of(rows, set, REFERENCE)?, "goodput_mbps")?)
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        let sum = |field: &str| -> f64 { own.iter().filter_map(|row| number(row, field)).sum() };
        let mut row = Row::new();
        row.insert("kind".into(), json!("summary"));
        row.insert("algorithm".into(), json!(algorithm));
        row.insert(
            "reference".into(),
            json!(if has_reference { REFERENCE } else { "none" }),
        );
        row.insert("sets".into(), json!(own.len()));
        let wanted = [("kind", "set"), ("algorithm", algorithm)];
        let all: Vec<&Row> = rows.iter().filter(|row| has(row, &wanted)).collect();
        let total = |field: &str| -> f64 { all.iter().filter_map(|row| number(row, field)).sum() };
        let mean = |field: &str| rounded(total(field) / all.len().max(1) as f64);
        row.insert("all_sets".into(), json!(all.len()));
        row.insert("atom_met_mean".into(), mean("atom_met_fraction"));
        row.insert("bond1_met_mean".into(), mean("bond1_met_fraction"));
        row.insert(
            "all_goodput_over_available".into(),
            rounded(total("goodput_mbps") / total("available_mbps")),
        );
        // An empty selection has no row.
        if own.is_empty() {
            return row;
        }
        row.insert("sets_met_fraction".into(), share(PROMISED));
        row.insert("sets_within_one_point_fraction".into(), share(NEARLY));
        row.insert(
            "goodput_over_available".into(),
            rounded(sum("goodput_mbps") / sum("available_mbps")),
        );
        if let (Some(least), Some(middle)) = (ratios.first(), ratios.get(ratios.len() / 2)) {
            row.insert("goodput_over_opt_least".into(), rounded(*least));
            row.insert("goodput_over_opt_median".into(), rounded(*middle));
        }
        row
    };
    algorithms.iter().map(summary).collect()
}

/// Share of windows in which the worse-off critical stream got its rate.
fn met(row: &Row) -> f64 {
    let of = |field: &str| row.get(field).and_then(Value::as_f64).unwrap_or(0.0);
    of("atom_met_fraction").min(of("bond1_met_fraction"))
}

fn row_of<'a>(rows: &'a [Row], set: &str, algorithm: &str) -> Option<&'a Row> {
    let wanted = [("kind", "set"), ("set", set), ("algorithm", algorithm)];
    rows.iter().find(|row| has(row, &wanted))
}

pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for algorithm in distinct(rows, "algorithm") {
        let wanted = [("kind", "summary"), ("algorithm", algorithm)];
        let of = |field: &str| find(rows, &wanted, field);
        if let (Some(atom), Some(bond1)) = (of("atom_met_mean"), of("bond1_met_mean")) {
            let count = |field| of(field).unwrap_or(0.0);
            lines.push(Published::new(
                format!("{algorithm}: windows met by Atom; Bond1, mean of all sets; goodput of what there is"),
                "–",
                format!("opt met both on {} of {} sets", count("sets"), count("all_sets")),
                format!("{atom}; {bond1}; {}", count("all_goodput_over_available")),
            ));
        }
        if let Some(share) = of("sets_within_one_point_fraction") {
            lines.push(Published::new(
                format!("{algorithm}: share of sets on which both critical streams are within one point of 95 %"),
                "target for pgos",
                "0.95",
                share.to_string(),
            ));
        }
        if let Some(ratio) = of("goodput_over_opt_median") {
            lines.push(Published::new(
                format!("{algorithm}: goodput over that of opt, median of sets"),
                "target for pgos",
                "0.97",
                ratio.to_string(),
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(set: &str, algorithm: &str, met: f64, goodput: f64) -> Row {
        let value = json!({
            "kind": "set", "set": set, "algorithm": algorithm,
            "atom_met_fraction": 1.0, "bond1_met_fraction": met,
            "goodput_mbps": goodput, "available_mbps": 10.0,
        });
        value.as_object().unwrap().clone()
    }

    #[test]
    fn only_sets_that_can_be_done_count() {
        let rows = [
            row("a", "opt", 0.96, 10.0),
            row("a", "pgos", 0.945, 9.0),
            row("b", "opt", 0.97, 8.0),
            row("b", "pgos", 0.99, 8.0),
            row("c", "opt", 0.90, 5.0),
            row("c", "pgos", 0.10, 1.0),
        ];
        let summaries = of(&rows);
        let pgos = |field| find(&summaries, &[("algorithm", "pgos")], field);
        assert_eq!(pgos("sets"), Some(2.0));
        assert_eq!(pgos("sets_met_fraction"), Some(0.5));
        assert_eq!(pgos("sets_within_one_point_fraction"), Some(1.0));
        assert_eq!(pgos("goodput_over_opt_least"), Some(0.9));
        assert_eq!(pgos("goodput_over_available"), Some(0.85));
        // Without the reference all sets count.
        let alone = of(&rows[1..2]);
        assert_eq!(find(&alone, &[("algorithm", "pgos")], "sets"), Some(1.0));
        assert_eq!(compare(&alone).len(), 2);
        assert_eq!(pgos("all_sets"), Some(3.0));
        assert_eq!(pgos("bond1_met_mean"), Some(0.6783));
        assert_eq!(pgos("all_goodput_over_available"), Some(0.6));
    }
}
