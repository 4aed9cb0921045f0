//! Rows, and the targets beside them.

use serde_json::{Value, json};

use super::{
    Done, Mode,
    customers::LEVELS,
    fates::{Asked, Fate, Rates, Tally},
};
use crate::{
    Row,
    output::Published,
    streams::show::{find, mbps, rounded},
};

/// Fewest windows of a stream that is judged on its own.
const WINDOWS_MIN: u64 = 100;
/// Within one point.
const POINT: f64 = 0.01;
/// Paths that fall by less are meant by a standing promise.
const DRIFT_MAX: f64 = anabranch_stats::standing::DRIFT_MAX;
const ROUNDING: f64 = 1e-9;

/// A row, to be filled.
struct Line(Row);

impl Line {
    fn new(kind: &str, mode: Mode) -> Self {
        let mut line = Self(Row::new());
        line.put("kind", json!(kind));
        line.put("mode", json!(mode.name()));
        line
    }

    fn put(&mut self, field: &str, value: Value) {
        self.0.insert(field.to_owned(), value);
    }

    /// A share, where there is something to have a share of.
    fn share(&mut self, field: &str, part: f64, whole: f64) {
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

fn sum<'a>(fates: impl Iterator<Item = &'a Fate>, of: impl Fn(&Fate) -> &Tally) -> Tally {
    let mut all = Tally::default();
    for fate in fates {
        all.add(of(fate));
    }
    all
}

/// A row about one run.
pub(super) fn of_set(done: &Done<'_>) -> Row {
    let mut line = Line::new("set", done.job.mode);
    let fates = &done.outcome.fates;
    line.put("set", json!(done.job.set.name()));
    line.put("origin", json!(done.job.set.origin()));
    line.put("paths", json!(done.job.set.recordings.len()));
    line.put("windows", json!(done.windows));
    line.put("streams", json!(fates.len()));
    let admitted = fates.iter().filter(|fate| fate.asked == Asked::Admitted);
    line.put("admitted_at_once", json!(admitted.count()));
    let promised = fates.iter().filter(|fate| fate.is_promised());
    line.put("promised", json!(promised.count()));
    line.tally("renewable", &sum(fates.iter(), |fate| &fate.renewable));
    line.tally("standing", &sum(fates.iter(), |fate| &fate.standing));
    line.put(
        "withdrawals",
        json!(fates.iter().map(|fate| fate.withdrawals).sum::<u64>()),
    );
    let moments = done.outcome.rates.moments.max(1) as f64;
    line.put("asked_mbps", mbps(done.outcome.rates.asked / moments));
    line.rates(&done.outcome.rates);
    line.0
}

/// A row for each probability.
pub(super) fn of_levels(mode: Mode, all: &[&Done<'_>]) -> Vec<Row> {
    let fates: Vec<&Fate> = all.iter().flat_map(|done| &done.outcome.fates).collect();
    let row = |&level: &f64| {
        let own: Vec<&Fate> = fates
            .iter()
            .filter(|fate| fate.probability == level)
            .copied()
            .collect();
        let mut line = Line::new("level", mode);
        line.put("promised_fraction", json!(level));
        line.put("streams", json!(own.len()));
        line.tally(
            "renewable",
            &sum(own.iter().copied(), |fate| &fate.renewable),
        );
        line.tally("standing", &sum(own.iter().copied(), |fate| &fate.standing));
        let (near, judged) = within_one_point(own.iter().copied());
        line.put("streams_judged", json!(judged));
        line.share("streams_within_one_point_fraction", near, judged as f64);
        line.0
    };
    LEVELS.iter().map(row).collect()
}

/// How many streams with enough renewable windows are within one point, of how many.
fn within_one_point<'a>(fates: impl Iterator<Item = &'a Fate>) -> (f64, u64) {
    let (mut near, mut judged) = (0.0, 0);
    for fate in fates {
        let Some(kept) = fate.renewable.kept_share() else {
            continue;
        };
        if fate.renewable.windows >= WINDOWS_MIN {
            judged += 1;
            near += f64::from(kept >= fate.probability - POINT - ROUNDING);
        }
    }
    (near, judged)
}

/// Whether a stream's windows were kept as often as promised.
fn is_held(tally: &Tally, probability: f64) -> bool {
    let may_break = (1.0 - probability) * tally.windows as f64 + ROUNDING;
    tally.broken() as f64 <= may_break.floor()
}

/// The row about all runs of a mode.
pub(super) fn of_mode(mode: Mode, all: &[&Done<'_>]) -> Row {
    let fates: Vec<&Fate> = all.iter().flat_map(|done| &done.outcome.fates).collect();
    let count = |which: &dyn Fn(&Fate) -> bool| {
        let some = fates.iter().filter(|fate| which(fate));
        some.count() as f64
    };
    let mut line = Line::new("summary", mode);
    line.put("sets", json!(all.len()));
    line.put("streams", json!(fates.len()));
    let whole = fates.len() as f64;
    line.share(
        "admitted_at_once_fraction",
        count(&|fate| fate.asked == Asked::Admitted),
        whole,
    );
    line.share("promised_fraction", count(&Fate::is_promised), whole);
    // All promises together: what was kept of what was promised.
    let each = || fates.iter().copied();
    let renewable = sum(each(), |fate| &fate.renewable);
    line.tally("renewable", &renewable);
    let due: f64 = each()
        .map(|fate| fate.probability * fate.renewable.windows as f64)
        .sum();
    line.share("renewable_due_fraction", due, renewable.windows as f64);
    let (near, judged) = within_one_point(each());
    line.put("streams_judged", json!(judged));
    line.share("streams_within_one_point_fraction", near, judged as f64);
    let held = count(&|fate| {
        fate.renewable.windows >= WINDOWS_MIN && is_held(&fate.renewable, fate.probability)
    });
    line.share("streams_held_fraction", held, judged as f64);
    standing(&mut line, &fates);
    let total = |of: fn(&Fate) -> u64| each().map(of).sum::<u64>() as f64;
    let withdrawals = total(|fate| fate.withdrawals);
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
    offers(&mut line, &fates);
    let account = total(|fate| fate.account.1) / total(|f| f.account.0 + f.account.1).max(1.0);
    line.put("account_broken_fraction", rounded(account));
    let mut rates = Rates::default();
    for done in all {
        rates.add(&done.outcome.rates);
    }
    line.rates(&rates);
    // Sets count alike here, however fast their paths.
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

/// Standing promises, by whether their paths drifted.
fn standing(line: &mut Line, fates: &[&Fate]) {
    line.tally(
        "standing",
        &sum(fates.iter().copied(), |fate| &fate.standing),
    );
    for (name, is_own) in [("steady", true), ("drifting", false)] {
        let own: Vec<&&Fate> = fates
            .iter()
            .filter(|fate| {
                fate.drift
                    .is_some_and(|drift| (drift < DRIFT_MAX) == is_own)
            })
            .collect();
        let held = own
            .iter()
            .filter(|fate| is_held(&fate.standing, fate.probability));
        let held = held.count() as f64;
        line.put(&format!("standing_{name}_streams"), json!(own.len()));
        line.share(
            &format!("standing_{name}_held_fraction"),
            held,
            own.len() as f64,
        );
        let tally = sum(own.iter().map(|fate| **fate), |fate| &fate.standing);
        let whole = tally.windows as f64;
        line.share(
            &format!("standing_{name}_kept_fraction"),
            tally.kept as f64,
            whole,
        );
    }
}

/// Counter-offers: how many were made, accepted, promised and held.
fn offers(line: &mut Line, fates: &[&Fate]) {
    let refused = fates.iter().filter(|fate| fate.asked != Asked::Admitted);
    let refused = refused.count() as f64;
    let has_offer = |fate: &&&Fate| {
        matches!(
            fate.asked,
            Asked::Refused { had_offer: true } | Asked::Took { .. }
        )
    };
    line.put("refused", json!(refused as u64));
    let offered = fates.iter().filter(has_offer).count() as f64;
    line.share("refusals_with_offer_fraction", offered, refused);
    let took: Vec<&&Fate> = fates
        .iter()
        .filter(|fate| matches!(fate.asked, Asked::Took { .. }))
        .collect();
    line.put("offers_taken", json!(took.len()));
    let promised = took
        .iter()
        .filter(|fate| fate.asked == Asked::Took { is_promised: true });
    line.share(
        "offers_promised_fraction",
        promised.count() as f64,
        took.len() as f64,
    );
    let tally = sum(took.iter().map(|fate| **fate), |fate| &fate.renewable);
    let whole = tally.windows as f64;
    line.share("offers_kept_fraction", tally.kept as f64, whole);
    let due = took
        .iter()
        .map(|fate| fate.probability * fate.renewable.windows as f64);
    line.share("offers_due_fraction", due.sum::<f64>(), whole);
    let (near, judged) = within_one_point(took.iter().map(|fate| **fate));
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
                "standing_steady_held_fraction",
                "standing promises held, where paths drift less than a quarter",
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
