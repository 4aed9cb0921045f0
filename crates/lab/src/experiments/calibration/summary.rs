//! Figures of many series as one row for each method and level.

use serde_json::json;

use super::{SAMPLES_LONG, begin, measure::Figures};
use crate::{
    Row,
    kit::series::{insert, median, quantile},
};

/// One row, beginning with `header`, for each method and level of `members`: the length of each series in samples, and
/// its figures. Figures are medians, of the errors without their sign; counts are of series.
pub(super) fn rows(header: &Row, members: &[(usize, &[Figures])]) -> Vec<Row> {
    let Some((_, first)) = members.iter().find(|(_, figures)| !figures.is_empty()) else {
        return Vec::new();
    };
    first
        .iter()
        .map(|kind| {
            let same: Vec<(usize, &Figures)> = members
                .iter()
                .flat_map(|(samples, figures)| figures.iter().map(|figures| (*samples, figures)))
                .filter(|(_, figures)| {
                    figures.method == kind.method && figures.promised == kind.promised
                })
                .collect();
            let mut row = header.clone();
            begin(&mut row, kind);
            sum_up(&mut row, &same);
            row
        })
        .collect()
}

fn sum_up(row: &mut Row, same: &[(usize, &Figures)]) {
    let count = |holds: &dyn Fn(usize, &Figures) -> bool| {
        json!(same.iter().filter(|(n, f)| holds(*n, f)).count())
    };
    let is_long = |samples: usize| samples >= SAMPLES_LONG;
    row.insert("traces".into(), json!(same.len()));
    row.insert(
        "within_half_point".into(),
        count(&|_, figures| figures.is_calibrated()),
    );
    row.insert(
        "within_point".into(),
        count(&|_, figures| figures.is_within_point()),
    );
    row.insert("long_traces".into(), count(&|samples, _| is_long(samples)));
    row.insert(
        "long_within_half_point".into(),
        count(&|samples, figures| is_long(samples) && figures.is_calibrated()),
    );
    row.insert(
        "block_met".into(),
        count(&|_, figures| figures.is_block_met()),
    );
    let values = |of: fn(&Figures) -> f64| same.iter().map(move |(_, figures)| of(figures));
    let mut middle = |field: &str, of: fn(&Figures) -> f64| {
        if let Some(median) = median(values(of)) {
            insert(row, field, median);
        }
    };
    middle("kept_fraction", |f| f.score.kept());
    middle("error_points", |f| {
        100.0 * (f.score.kept() - f.promised).abs()
    });
    middle("worst_block_fraction", |f| f.score.block_kept_least);
    let is_term = same.iter().any(|(_, figures)| figures.term.is_some());
    if !is_term {
        // No successor of a broken promise broke, if there is no successor.
        middle("repeat_fraction", |f| f.score.repeat().unwrap_or(0.0));
    }
    middle("useful_rate_bps", |f| f.score.useful);
    middle("useful_over_best_fixed", |f| f.over_fixed);
    middle("useful_over_best_constant", |f| f.over_constant);
    middle("pinball_over_window500", |f| f.pinball_ratio);
    for (field, p) in [("kept_fraction_p5", 0.05), ("kept_fraction_p95", 0.95)] {
        if let Some(kept) = quantile(values(|f| f.score.kept()), p) {
            insert(row, field, kept);
        }
    }
    if let Some(gain) = quantile(values(|f| f.over_fixed), 0.1) {
        insert(row, "useful_over_best_fixed_p10", gain);
    }
    if is_term {
        return sum_up_terms(row, same);
    }
    let (repeated, followed) = same.iter().fold((0, 0), |sum, (_, figures)| {
        (
            sum.0 + figures.score.repeated,
            sum.1 + figures.score.followed,
        )
    });
    if followed > 0 {
        insert(
            row,
            "repeat_fraction_pooled",
            repeated as f64 / followed as f64,
        );
    }
}

/// Figures that only promises for terms have.
fn sum_up_terms(row: &mut Row, same: &[(usize, &Figures)]) {
    let terms = || {
        same.iter()
            .filter_map(|(_, f)| Some((f.promised, f.term.as_ref()?)))
    };
    if let Some(median) = median(terms().map(|(_, term)| term.over_whole)) {
        insert(row, "useful_over_whole", median);
    }
    if let Some(median) = median(terms().map(|(_, term)| term.renewed[0])) {
        insert(row, "renewed_kept_fraction", median);
    }
    let near: usize = terms()
        .map(|(promised, term)| term.within_point(promised))
        .sum();
    let all: usize = terms().map(|(_, term)| term.renewed.len()).sum();
    row.insert("renewed_within_point".into(), json!(near));
    row.insert("renewed".into(), json!(all));
}
