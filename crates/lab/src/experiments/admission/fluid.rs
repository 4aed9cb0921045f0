//! A session's promises on recorded windows, with data as a fluid that is served by strict rank.

use std::collections::BTreeMap;

use anabranch_admission::mapping::{Capacity, Request, Term, map};
use anabranch_admission::{AdmissionController, Candidate, Notice};
use anabranch_base::StreamId;
use anabranch_spec::ChannelMask;
use anabranch_stats::durable::Durable;

use super::{
    Rows,
    customers::{Customer, id},
    exact::{self, Unanswered},
    records::{Asked, CustomerRecord, KEPT, Outcome, Rates},
    warnings,
};

/// Windows from one comparison of the mapping to the next: a term.
const EVERY: usize = 10;
/// Future windows by which the clairvoyant judges paths.
const FUTURE: usize = 60;
/// Past windows on which a durable promise is based.
const PAST: usize = 500;

/// A durable promise, to be judged by the drift of the paths.
struct Stood {
    /// Sets on which it was placed, one after the other.
    sets: Vec<ChannelMask>,
    /// Windows in which it was in force.
    windows: Vec<usize>,
    probability: f64,
}

impl Stood {
    /// The largest drift, from the windows before the promise to those in which it was in force, of any path, and of any set on which it
    /// was placed; `None` if too little came before, or one of them carried nothing too often to have a rate that it could fall from.
    fn drift(&self, windows: &[Vec<f64>]) -> Option<f64> {
        let from = *self.windows.first()?;
        let each = (0..windows[from].len()).map(ChannelMask::only);
        let drifts = each.chain(self.sets.iter().copied()).map(|set| {
            let sum = |at: usize| set.iter().map(|path| windows[at][path]).sum();
            let past: Vec<f64> = (from.saturating_sub(PAST)..from).map(sum).collect();
            let mut since: Vec<f64> = self.windows.iter().copied().map(sum).collect();
            let durable = Durable::of(&past, self.probability).ok()?;
            let is_known = durable.kept_rate > 0.0;
            durable.drift_to(&mut since).filter(|_| is_known)
        });
        drifts
            .collect::<Option<Vec<f64>>>()?
            .into_iter()
            .reduce(f64::max)
    }
}

/// The state of one run.
struct Run<'a> {
    /// By window and path, in bits per second.
    windows: &'a [Vec<f64>],
    controller: AdmissionController,
    /// By customer.
    records: BTreeMap<usize, CustomerRecord>,
    stood: BTreeMap<usize, Stood>,
    rates: Rates,
}

/// Runs the customers over `windows` (rows are windows of 1 s, columns paths, in bits per second).
pub(super) fn run(windows: &[Vec<f64>], customers: &[Customer]) -> Outcome {
    let paths = windows.first().map_or(0, Vec::len);
    let mut run = Run {
        windows,
        controller: AdmissionController::new(paths),
        records: BTreeMap::new(),
        stood: BTreeMap::new(),
        rates: Rates::default(),
    };
    for at in 0..windows.len() {
        for (index, customer) in customers.iter().enumerate() {
            if customer.stay.end == at {
                run.leave(index, at);
            }
        }
        for (index, customer) in customers.iter().enumerate() {
            if customer.stay.start == at {
                run.ask(index, customer);
            }
        }
        if at.is_multiple_of(EVERY) {
            run.look(at);
        }
        run.window(at);
    }
    for index in 0..customers.len() {
        run.leave(index, windows.len());
    }
    Outcome {
        records: run.records.into_values().collect(),
        rates: run.rates,
        ..Outcome::default()
    }
}

impl Run<'_> {
    fn ask(&mut self, index: usize, customer: &Customer) {
        let stream = id(index);
        let mut record = CustomerRecord::new(customer.probability);
        let wanted = customer.wanted("");
        if let Err(refusal) = self.controller.open(stream, &wanted) {
            record.asked = Asked::Refused {
                had_offer: refusal.offer.rate.is_some() || refusal.offer.probability.is_some(),
            };
            if let Some(taken) = customer.accepts(&refusal.offer, "") {
                let is_promised = self.controller.open(stream, &taken).is_ok();
                record.asked = Asked::Took { is_promised };
                if is_promised {
                    let guarantee = taken.guarantee.and_then(|g| g.probability());
                    record.probability = guarantee.unwrap_or(customer.probability);
                }
            }
            let is_open = record.asked == Asked::Took { is_promised: true };
            if !is_open {
                let waiting = wanted.guarantee.map(|guarantee| guarantee.waiting());
                let spec = anabranch_session::StreamSpec {
                    guarantee: waiting.map(Box::new),
                    ..wanted
                };
                // A stream that waits has not been refused.
                let _ = self.controller.open(stream, &spec);
            }
        }
        self.records.insert(index, record);
    }

    fn leave(&mut self, index: usize, at: usize) {
        let stream = id(index);
        let (Some(explained), Some(record)) = (
            self.controller.explain(stream),
            self.records.get_mut(&index),
        ) else {
            return;
        };
        record.account = (explained.account.kept, explained.account.broken);
        record.ends_at = at;
        if let Some(stood) = self.stood.remove(&index) {
            record.drift = stood.drift(self.windows);
        }
        self.controller.close(stream);
    }

    /// Serves and judges window `at`.
    fn window(&mut self, at: usize) {
        let row = &self.windows[at];
        let mut candidates = self.controller.candidates();
        let mut free = row.clone();
        // Load that the plan puts on each path for the streams so far.
        let mut load = vec![0.0; row.len()];
        let mut behind: Vec<StreamId> = Vec::new();
        for candidate in &mut candidates {
            let request = &candidate.request;
            let needed = request.rate_bps;
            // A stream without a promise goes wherever capacity is left.
            let everywhere: Vec<usize> = (0..row.len()).collect();
            let (paths, shares) = if candidate.is_in_force {
                let placement = &request.before;
                (placement.set.iter().collect(), &placement.shares[..])
            } else {
                (everywhere, &[][..])
            };
            let got = take(&mut free, needed, &paths, shares);
            let is_kept = got >= KEPT * needed;
            if !is_kept {
                behind.push(request.stream);
            }
            let bytes = got / AdmissionController::OVERHEAD / 8.0;
            self.controller
                .arrived(request.stream, bytes.round() as u64);
            if !candidate.is_in_force {
                continue;
            }
            let held: f64 = paths.iter().map(|&path| row[path]).sum();
            let before: f64 = paths.iter().map(|&path| load[path]).sum();
            let is_moved = held >= before + needed;
            for &(path, rate) in shares {
                load[path] += rate;
            }
            let index = request.stream.0 as usize;
            if let Some(record) = self.records.get_mut(&index) {
                if request.term == Term::Durable {
                    let stood = self.stood.entry(index).or_insert_with(|| Stood {
                        sets: Vec::new(),
                        windows: Vec::new(),
                        probability: record.probability,
                    });
                    stood.windows.push(at);
                    if stood.sets.last() != Some(&request.before.set) {
                        stood.sets.push(request.before.set);
                    }
                }
                record.judge(at, request.term, is_kept, is_moved);
            }
        }
        let notices = self
            .controller
            .end_window(row, |stream| behind.contains(&stream));
        for notice in notices {
            match notice {
                Notice::Promised(..) => {}
                Notice::Warned(stream, refusal) => {
                    let explained = self.controller.explain(stream);
                    let (Some(explained), Some(record)) =
                        (explained, self.records.get_mut(&(stream.0 as usize)))
                    else {
                        continue;
                    };
                    let kind = warnings::kind(&explained, self.controller.now());
                    let is_own = warnings::is_own(&refusal, record.probability);
                    record.warn(at, kind, is_own);
                }
                Notice::Withdrawn(stream, _) => {
                    if let Some(record) = self.records.get_mut(&(stream.0 as usize)) {
                        record.withdraw(at);
                    }
                }
            }
        }
        for candidate in &candidates {
            let stream = candidate.request.stream;
            let explained = self.controller.explain(stream);
            if let Some(record) = self.records.get_mut(&(stream.0 as usize)) {
                record.is_warned(explained.is_some_and(|explained| explained.is_warned));
            }
        }
    }

    /// Compares the rates in force with those possible.
    fn look(&mut self, at: usize) {
        let candidates = self.controller.candidates();
        if candidates.is_empty() {
            return;
        }
        let mut future = Rows::new(self.windows[at..].iter().take(FUTURE).cloned().collect());
        match compare(&candidates, &mut self.controller.capacity(), &mut future) {
            Ok(rates) => self.rates.add(&rates),
            Err(_) => self.rates.given_up += 1,
        }
    }
}

/// Takes `needed` from the `free` capacity on `paths`: first as planned, then from any path.
pub(super) fn take(free: &mut [f64], needed: f64, paths: &[usize], shares: &[(usize, f64)]) -> f64 {
    let mut got = 0.0;
    let planned = shares.iter().copied();
    let rest = paths.iter().map(|&path| (path, f64::INFINITY));
    for (path, most) in planned.chain(rest) {
        let taken = most.min(free[path]).min(needed - got);
        free[path] -= taken;
        got += taken;
    }
    got
}

/// Rates at one time. The order is that of `candidates`.
fn compare(
    candidates: &[Candidate],
    known: &mut dyn Capacity,
    future: &mut dyn Capacity,
) -> Result<Rates, Unanswered> {
    let mut sorted: Vec<Request> = candidates.iter().map(|c| c.request.clone()).collect();
    Request::sort(&mut sorted);
    let place = |candidate: &Candidate| {
        let own = |request: &Request| request.stream == candidate.request.stream;
        sorted.iter().position(own)
    };
    let arrival: Vec<usize> = candidates.iter().filter_map(place).collect();
    let sum = |which: &dyn Fn(&Candidate) -> bool| -> f64 {
        let some = candidates.iter().filter(|candidate| which(candidate));
        some.map(|candidate| candidate.request.rate_bps).sum()
    };
    let mut mapped: Vec<Request> = Vec::new();
    for candidate in candidates {
        let mut more = mapped.clone();
        more.push(candidate.request.clone());
        Request::sort(&mut more);
        if map(&more, known).is_ok() {
            mapped = more;
        }
    }
    Ok(Rates {
        moments: 1,
        given_up: 0,
        asked: sum(&|_| true),
        in_force: sum(&|candidate| candidate.is_in_force),
        mapped: mapped.iter().map(|request| request.rate_bps).sum(),
        exact: exact::in_order(&sorted, &arrival, known)?.rate_bps,
        best: exact::best(&sorted, known)?.rate_bps,
        clairvoyant: exact::in_order(&sorted, &arrival, future)?.rate_bps,
    })
}

#[cfg(test)]
mod tests {
    use anabranch_base::Rate;
    use anabranch_session::Grade;

    use super::*;

    fn customer(stay: std::ops::Range<usize>, kbps: u64, probability: f64) -> Customer {
        Customer {
            stay,
            rate: Rate::from_kbps(kbps),
            probability,
            is_divisible: true,
            grade: Grade::Renewable,
            takes_offers: true,
        }
    }

    #[test]
    fn the_plan_is_served_first() {
        let mut free = [5.0, 5.0];
        assert_eq!(take(&mut free, 6.0, &[0, 1], &[(0, 2.0), (1, 4.0)]), 6.0);
        assert_eq!(free, [3.0, 1.0]);
        assert_eq!(take(&mut free, 3.5, &[0, 1], &[(1, 3.5)]), 3.5);
        assert_eq!(free, [0.5, 0.0]);
        assert_eq!(take(&mut free, 3.0, &[0], &[(0, 3.0)]), 0.5);
    }

    #[test]
    fn on_steady_paths_all_that_fits_is_promised_and_kept() {
        let windows = vec![vec![4e6, 2e6]; 300];
        let customers = [
            customer(60..250, 3_000, 0.95),
            customer(80..260, 1_500, 0.9),
            // Too much: takes the offer, the 1.38 Mbit/s that are left after headers.
            customer(100..300, 3_000, 0.75),
        ];
        let outcome = run(&windows, &customers);
        let records = &outcome.records;
        assert_eq!(records[0].asked, Asked::Admitted);
        assert_eq!(records[0].renewable.windows, 190);
        assert_eq!(records[2].asked, Asked::Took { is_promised: true });
        for record in records {
            assert_eq!(record.renewable.broken(), 0, "{record:?}");
            assert_eq!(record.account.0, record.renewable.windows, "{record:?}");
        }
        let rates = &outcome.rates;
        assert!(
            (rates.in_force / rates.exact - 1.0).abs() < 0.01,
            "{rates:?}"
        );
        assert!(rates.exact <= rates.best + 1.0 && rates.best <= rates.asked + 1.0);
    }

    #[test]
    fn a_fall_is_announced() {
        let windows: Vec<Vec<f64>> = (0..300)
            .map(|at| vec![if at < 150 { 4e6 } else { 1e6 }])
            .collect();
        let outcome = run(&windows, &[customer(60..300, 3_000, 0.9)]);
        let record = &outcome.records[0];
        assert_eq!((record.withdrawals, record.announced), (1, 1), "{record:?}");
        // Not predictable.
        assert_eq!(record.before_it_bit, 0, "{record:?}");
        assert!(record.renewable.broken() >= 2, "{record:?}");
        assert!(outcome.rates.in_force > outcome.rates.clairvoyant);
    }
}
