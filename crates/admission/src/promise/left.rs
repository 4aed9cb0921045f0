//! Capacity that the promises of other sessions leave of a set of paths, window by window (see `beside`).

use anabranch_spec::ChannelMask;
use anabranch_stats::durable::Durable;

use super::{
    beside::Beside,
    history::{WINDOWS_MIN, sum},
    others::Window,
};

/// Capacity of one set beside the promises that count.
#[derive(Clone, Debug)]
pub(super) struct Left {
    set: ChannelMask,
    /// Promises of others, as far as they count: paths of an uplink, and the rate reserved there, in bits per second.
    reserved: Vec<(ChannelMask, f64)>,
    /// By window, oldest first, in bits per second.
    sums: Vec<f64>,
    /// Those in which the paths were full, or, while these are few, all; ascending.
    sorted: Vec<f64>,
    /// Durable rates by probability, each computed at the first question.
    durable: Vec<(f64, Option<f64>)>,
}

impl Left {
    /// Capacity left of `set` in these windows; `shared` are the paths that share capacity with others.
    pub(super) fn of(
        windows: &[Window<'_>],
        shared: ChannelMask,
        set: ChannelMask,
        beside: Beside<'_>,
    ) -> Self {
        let reserved: Vec<(ChannelMask, f64)> = beside.reserved(set).collect();
        let counted = (reserved.iter()).filter(|(paths, _)| !paths.and(shared).is_empty());
        let mut sums = Vec::with_capacity(windows.len());
        let mut full = Vec::with_capacity(windows.len());
        for window in windows {
            let Some(all) = sum(window.row, set) else {
                continue;
            };
            let taken = counted.clone().map(|&(paths, bps)| {
                let own = sum(window.row, paths).map_or(0.0, |sample| sample.bps());
                let by_others = paths.iter().map(|path| window.carried(path));
                own.min((bps - by_others.fold(0.0, f64::max)).max(0.0))
            });
            let left = (all.bps() - taken.sum::<f64>()).max(0.0);
            sums.push(left);
            if !all.is_censored() {
                full.push(left);
            }
        }
        // Windows in which the session had little to send say little about what it could have sent.
        let mut sorted = if full.len() >= WINDOWS_MIN {
            full
        } else {
            sums.clone()
        };
        sorted.sort_unstable_by(f64::total_cmp);
        Self {
            set,
            reserved,
            sums,
            sorted,
            durable: Vec::new(),
        }
    }

    /// True if it answers this question.
    pub(super) fn is_of(&self, set: ChannelMask, beside: Beside<'_>) -> bool {
        self.set == set && beside.reserved(set).eq(self.reserved.iter().copied())
    }

    /// Rate that a share `probability` of the windows reach; `None`: too few are known.
    pub(super) fn quantile(&self, probability: f64) -> Option<f64> {
        let missed = ((1.0 - probability) * self.sorted.len() as f64 + 1e-9) as usize;
        let is_known = self.sorted.len() >= WINDOWS_MIN;
        is_known.then(|| self.sorted[missed.min(self.sorted.len() - 1)])
    }

    /// The same for a durable promise.
    pub(super) fn durable(&mut self, probability: f64) -> Option<f64> {
        let known = self.durable.iter().find(|(of, _)| *of == probability);
        if let Some(&(_, rate)) = known {
            return rate;
        }
        let durable = Durable::of(&self.sums, probability).ok();
        let steady = durable.filter(Durable::is_steady);
        let rate = steady.map(|durable| durable.rate);
        self.durable.push((probability, rate));
        rate
    }

    /// Mean of what the windows lack of `need_bps`.
    pub(super) fn shortfall(&self, need_bps: f64) -> Option<f64> {
        let missing: f64 = self.sums.iter().map(|sum| (need_bps - sum).max(0.0)).sum();
        (self.sums.len() >= WINDOWS_MIN).then(|| missing / self.sums.len() as f64)
    }
}
