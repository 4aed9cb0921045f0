//! Rows, and the targets beside them.

use serde_json::{Value, json};

use super::{
    Done, Mode,
    customers::LEVELS,
    records::{Asked, CustomerRecord, Rates, Tally},
    warnings::{Judged, Kind, Warning},
};
use crate::{
    Row,
    kit::{
        output::Published,
        streams::show::{find, mbps, rounded},
    },
};

/// Windows without which a stream is not judged on its own.
const WINDOWS_MIN: u64 = 100;
/// Tolerance of one percentage point.
const POINT: f64 = 0.01;
/// Largest drop of paths for which a durable promise is meant.
const DRIFT_MAX: f64 = anabranch_stats::durable::DRIFT_MAX;
const ROUNDING: f64 = 1e-9;

/// A row under construction.
pub(super) struct Line(pub(super) Row);

impl Line {
    pub(super) fn new(kind: &str, mode: Mode) -> Self {
        let mut line = Self(Row::new());
        line.put("kind", json!(kind));
        line.put("mode", json!(mode.name()));
        line
    }

    pub(super) fn put(&mut self, field: &str, value: Value) {
        self.0.insert(field.to_owned(), value);
    }

    /// Adds a share, unless the whole is zero.
    pub(super) fn share(&mut self, field: &str, part: f64, whole: f64) {
        if whole > 0.0 {
            self.put(field, rounded(part / whole));
        }
    }

    fn tally(&mut self, prefix: &str, tally: &Tally) {
        self.put(&format!("{prefix}_windows"), json!(tally.windows));
        let whole = tally.windows as f64;
        self.share(&format!("{prefix}_kept_fraction"), tally.kept as f64, whole);
        self.share(
            &format!("{prefix}_broken_unwarned_fraction"),
            (tally.broken() - tally.broken_warned) as f64,
            whole,
        );
        self.share(
            &format!("{prefix}_broken_by_moves_fraction"),
            tally.broken_by_moves as f64,
            whole,
        );
    }

    fn rates(&mut self, rates: &Rates) {
        self.share("in_force_over_asked", rates.in_force, rates.asked);
        self.share("in_force_over_optimum", rates.in_force, rates.exact);
        self.share("mapped_over_optimum", rates.mapped, rates.exact);
        self.share("in_force_over_best_subset", rates.in_force, rates.best);
        self.share(
            "in_force_over_clairvoyant",
            rates.in_force,
            rates.clairvoyant,
        );
        self.put("moments", json!(rates.moments));
        self.put("moments_given_up", json!(rates.given_up));
    }
}

fn sum<'a>(
    records: impl Iterator<Item = &'a CustomerRecord>,
    of: impl Fn(&CustomerRecord) -> &Tally,
) -> Tally {
    let mut all = Tally::default();
    for record in records {
        all.add(of(record));
    }
    all
}

/// A row about one run.
pub(super) fn of_set(done: &Done<'_>) -> Row {
    let mut line = Line::new("set", done.job.mode);
    let records = &done.outcome.records;
    line.put("set", json!(done.job.set.name()));
    line.put("origin", json!(done.job.set.origin()));
    line.put("paths", json!(done.job.set.recordings.len()));
    line.put("windows", json!(done.windows));
    line.put("streams", json!(records.len()));
    let admitted = records
        .iter()
        .filter(|record| record.asked == Asked::Admitted);
    line.put("admitted_at_once", json!(admitted.count()));
    let promised = records.iter().filter(|record| record.is_promised());
    line.put("promised", json!(promised.count()));
    line.tally(
        "renewable",
        &sum(records.iter(), |record| &record.renewable),
    );
    line.tally("durable", &sum(records.iter(), |record| &record.durable));
    line.put(
        "withdrawals",
        json!(records.iter().map(|record| record.withdrawals).sum::<u64>()),
    );
    let moments = done.outcome.rates.moments.max(1) as f64;
    line.put("asked_mbps", mbps(done.outcome.rates.asked / moments));
    line.rates(&done.outcome.rates);
    line.0
}

/// A row for each probability.
pub(super) fn of_levels(mode: Mode, all: &[&Done<'_>]) -> Vec<Row> {
    let records: Vec<&CustomerRecord> = all.iter().flat_map(|done| &done.outcome.records).collect();
    let row = |&level: &f64| {
        let own: Vec<&CustomerRecord> = records
            .iter()
            .filter(|record| record.probability == level)
            .copied()
            .collect();
        let mut line = Line::new("level", mode);
        line.put("promised_fraction", json!(level));
        line.put("streams", json!(own.len()));
        line.tally(
            "renewable",
            &sum(own.iter().copied(), |record| &record.renewable),
        );
        line.tally(
            "durable",
            &sum(own.iter().copied(), |record| &record.durable),
        );
        let (near, judged) = within_one_point(own.iter().copied());
        line.put("streams_judged", json!(judged));
        line.share("streams_within_one_point_fraction", near, judged as f64);
        line.0
    };
    LEVELS.iter().map(row).collect()
}

/// Number of streams within one point, among those with enough renewable windows, and the number of those.
fn within_one_point<'a>(records: impl Iterator<Item = &'a CustomerRecord>) -> (f64, u64) {
    let (mut near, mut judged) = (0.0, 0);
    for record in records {
        let Some(kept) = record.renewable.kept_share() else {
            continue;
        };
        if record.renewable.windows >= WINDOWS_MIN {
            judged += 1;
            near += f64::from(kept >= record.probability - POINT - ROUNDING);
        }
    }
    (near, judged)
}

/// True if a stream's windows were kept as often as promised.
fn is_held(tally: &Tally, probability: f64) -> bool {
    let may_break = (1.0 - probability) * tally.windows as f64 + ROUNDING;
    tally.broken() as f64 <= may_break.floor()
}

/// The row about all runs of a mode.
pub(super) fn of_mode(mode: Mode, all: &[&Done<'_>]) -> Row {
    let records: Vec<&CustomerRecord> = all.iter().flat_map(|done| &done.outcome.records).collect();
    let count = |which: &dyn Fn(&CustomerRecord) -> bool| {
        let some = records.iter().filter(|record| which(record));
        some.count() as f64
    };
    let mut line = Line::new("summary", mode);
    line.put("sets", json!(all.len()));
    line.put("streams", json!(records.len()));
    let whole = records.len() as f64;
    line.share(
        "admitted_at_once_fraction",
        count(&|record| record.asked == Asked::Admitted),
        whole,
    );
    line.share(
        "promised_fraction",
        count(&CustomerRecord::is_promised),
        whole,
    );
    // All promises together: kept as a share of promised.
    let each = || records.iter().copied();
    let renewable = sum(each(), |record| &record.renewable);
    line.tally("renewable", &renewable);
    let due: f64 = each()
        .map(|record| record.probability * record.renewable.windows as f64)
        .sum();
    line.share("renewable_due_fraction", due, renewable.windows as f64);
    let (near, judged) = within_one_point(each());
    line.put("streams_judged", json!(judged));
    line.share("streams_within_one_point_fraction", near, judged as f64);
    let held = count(&|record| {
        record.renewable.windows >= WINDOWS_MIN && is_held(&record.renewable, record.probability)
    });
    line.share("streams_held_fraction", held, judged as f64);
    durable(&mut line, &records);
    let total = |of: fn(&CustomerRecord) -> u64| each().map(of).sum::<u64>() as f64;
    let withdrawals = total(|record| record.withdrawals);
    line.put("withdrawals", json!(withdrawals as u64));
    line.share(
        "withdrawals_announced_fraction",
        total(|f| f.announced),
        withdrawals,
    );
    line.share(
        "withdrawals_before_it_bit_fraction",
        total(|f| f.before_it_bit),
        withdrawals,
    );
    line.share(
        "withdrawals_by_the_end_of_the_window_fraction",
        total(|f| f.by_its_end),
        withdrawals,
    );
    line.share(
        "withdrawals_before_more_broke_than_may_fraction",
        total(|f| f.as_allowed),
        withdrawals,
    );
    warned(&mut line, &records);
    offers(&mut line, &records);
    let account = total(|record| record.account.1) / total(|f| f.account.0 + f.account.1).max(1.0);
    line.put("account_broken_fraction", rounded(account));
    let mut rates = Rates::default();
    for done in all {
        rates.add(&done.outcome.rates);
    }
    line.rates(&rates);
    // Sets have equal weight here, however fast their paths.
    let ratios = |of: &dyn Fn(&Rates) -> f64| {
        let rates = all.iter().map(|done| &done.outcome.rates);
        let ratios: Vec<f64> = rates.filter(|r| r.exact > 0.0).map(of).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    };
    if let Some(mean) = ratios(&|rates| rates.in_force / rates.exact) {
        line.put("in_force_over_optimum_mean_of_sets", rounded(mean));
    }
    if let Some(mean) = ratios(&|rates| rates.mapped / rates.exact) {
        line.put("mapped_over_optimum_mean_of_sets", rounded(mean));
    }
    line.0
}

/// Durable promises, by whether their paths drifted.
fn durable(line: &mut Line, records: &[&CustomerRecord]) {
    line.tally(
        "durable",
        &sum(records.iter().copied(), |record| &record.durable),
    );
    for (name, is_own) in [("steady", true), ("drifting", false)] {
        let own: Vec<&&CustomerRecord> = records
            .iter()
            .filter(|record| {
                record
                    .drift
                    .is_some_and(|drift| (drift < DRIFT_MAX) == is_own)
            })
            .collect();
        let held = own
            .iter()
            .filter(|record| is_held(&record.durable, record.probability));
        let held = held.count() as f64;
        line.put(&format!("durable_{name}_streams"), json!(own.len()));
        line.share(
            &format!("durable_{name}_held_fraction"),
            held,
            own.len() as f64,
        );
        let tally = sum(own.iter().map(|record| **record), |record| &record.durable);
        let whole = tally.windows as f64;
        line.share(
            &format!("durable_{name}_kept_fraction"),
            tally.kept as f64,
            whole,
        );
    }
}

/// Warnings, and the share of those that were false: of all, of each kind, and of those that were due to broken windows of their own.
fn warned(line: &mut Line, records: &[&CustomerRecord]) {
    let all: usize = records.iter().map(|record| record.warnings.len()).sum();
    line.put("warnings", json!(all));
    let mut row = |name: &str, which: &dyn Fn(&Warning) -> bool| {
        let each = records.iter().map(|record| record.judge_warnings(which));
        let judged = each.fold(Judged::default(), |sum, one| Judged {
            all: sum.all + one.all,
            false_ones: sum.false_ones + one.false_ones,
        });
        line.put(&format!("warnings{name}_judged"), json!(judged.all));
        let (part, whole) = (judged.false_ones as f64, judged.all as f64);
        line.share(&format!("warnings{name}_false_fraction"), part, whole);
    };
    row("", &|_| true);
    for kind in Kind::ALL {
        row(&format!("_{}", kind.name()), &|warning| {
            warning.kind == kind
        });
    }
    row("_own", &|warning| warning.is_own);
}

/// Counter-offers: numbers made, accepted, promised and held.
fn offers(line: &mut Line, records: &[&CustomerRecord]) {
    let refused = records
        .iter()
        .filter(|record| record.asked != Asked::Admitted);
    let refused = refused.count() as f64;
    let has_offer = |record: &&&CustomerRecord| {
        matches!(
            record.asked,
            Asked::Refused { had_offer: true } | Asked::Took { .. }
        )
    };
    line.put("refused", json!(refused as u64));
    let offered = records.iter().filter(has_offer).count() as f64;
    line.share("refusals_with_offer_fraction", offered, refused);
    let took: Vec<&&CustomerRecord> = records
        .iter()
        .filter(|record| matches!(record.asked, Asked::Took { .. }))
        .collect();
    line.put("offers_taken", json!(took.len()));
    let promised = took
        .iter()
        .filter(|record| record.asked == Asked::Took { is_promised: true });
    line.share(
        "offers_promised_fraction",
        promised.count() as f64,
        took.len() as f64,
    );
    let tally = sum(took.iter().map(|record| **record), |record| {
        &record.renewable
    });
    let whole = tally.windows as f64;
    line.share("offers_kept_fraction", tally.kept as f64, whole);
    let due = took
        .iter()
        .map(|record| record.probability * record.renewable.windows as f64);
    line.share("offers_due_fraction", due.sum::<f64>(), whole);
    let (near, judged) = within_one_point(took.iter().map(|record| **record));
    line.put("offers_judged", json!(judged));
    line.share("offers_within_one_point_fraction", near, judged as f64);
}

/// Targets beside ours.
pub(super) fn compare(rows: &[Row]) -> Vec<Published> {
    let mut lines = Vec::new();
    for mode in Mode::ALL {
        let name = mode.name();
        for level in LEVELS {
            let own = rows.iter().find(|row| {
                row["kind"] == "level" && row["mode"] == name && row["promised_fraction"] == level
            });
            let kept = own.and_then(|row| row.get("renewable_kept_fraction"));
            if let Some(kept) = kept {
                lines.push(Published::new(
                    format!("{name}: renewable windows kept, promised {level}"),
                    "target",
                    format!("at least {level}"),
                    kept.to_string(),
                ));
            }
        }
        let wanted = [("kind", "summary"), ("mode", name)];
        for (field, what, target) in [
            (
                "streams_within_one_point_fraction",
                "streams kept within one point, of those with 100 renewable windows",
                "at least 0.93",
            ),
            (
                "in_force_over_optimum",
                "rate in force over that of the exact mapping in the same order",
                "at least 0.95",
            ),
            (
                "withdrawals_announced_fraction",
                "withdrawals announced",
                "1",
            ),
            (
                "warnings_false_fraction",
                "warnings after which the promise was neither withdrawn nor broken too often in a minute",
                "at most 0.20",
            ),
            (
                "durable_steady_held_fraction",
                "durable promises held, where paths drift less than a quarter",
                "1",
            ),
            (
                "offers_promised_fraction",
                "counter-offers that were promised when accepted",
                "1",
            ),
        ] {
            if let Some(ours) = find(rows, &wanted, field) {
                lines.push(Published::new(
                    format!("{name}: {what}"),
                    "target",
                    target,
                    ours.to_string(),
                ));
            }
        }
    }
    lines
}
