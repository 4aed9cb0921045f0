//! Target of the minimisation.

/// A message of which part goes over paths that were chosen before. The time at which all of it has arrived, if a path of
/// bandwidth b and delay d joins them, is
///
/// T(b, d) = (W + b·d) / (B + b), with W = r + Σ bᵢ·dᵢ and B = Σ bᵢ over the paths chosen before
///
/// [Daemons Eqs. (11), (12) solved for the common finishing time]. Without such paths it is r/b + d, that of the quickest
/// path. T(b, d) < T exactly if d < T − (W − T·B)/b, which searches use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// W in bits × 10⁹, that is bit/s × ns.
    work: u128,
    /// B in bit/s.
    chosen_bps: u64,
}

/// Bits × 10⁹ in a byte.
const BYTE: u128 = 8_000_000_000;

impl Target {
    /// A message for which no path has been chosen yet.
    pub(crate) const fn message(bytes: u64) -> Self {
        Self {
            work: bytes as u128 * BYTE,
            chosen_bps: 0,
        }
    }

    /// Adds a chosen path.
    pub(crate) fn choose(&mut self, bandwidth_bps: u64, delay_ns: u64) {
        self.work = self.work.saturating_add(product(bandwidth_bps, delay_ns));
        self.chosen_bps = self.chosen_bps.saturating_add(bandwidth_bps);
    }

    /// T in nanoseconds without another path; `u64::MAX` if none has been chosen.
    pub(crate) fn time(&self) -> u64 {
        if self.chosen_bps == 0 {
            return u64::MAX;
        }
        narrow(self.work / u128::from(self.chosen_bps))
    }

    /// T(b, d) in nanoseconds, for b > 0.
    pub(crate) fn time_with(&self, bandwidth_bps: u64, delay_ns: u64) -> u64 {
        let work = self.work.saturating_add(product(bandwidth_bps, delay_ns));
        narrow(work / (u128::from(self.chosen_bps) + u128::from(bandwidth_bps)))
    }

    /// The greatest delay at which a path of b > 0 ends before `time`; `None`: no path of b does.
    pub(crate) fn delay_limit(&self, time: u64, bandwidth_bps: u64) -> Option<u64> {
        if time == u64::MAX {
            return Some(u64::MAX - 1);
        }
        let sending = self.rest(time) / u128::from(bandwidth_bps);
        u64::try_from(sending).ok().and_then(|sending| {
            time.checked_sub(sending)
                .and_then(|limit| limit.checked_sub(1))
        })
    }

    /// The least bandwidth with which a path of `delay_ns` ends before `time`; `None`: none does.
    pub(crate) fn bandwidth_limit(&self, time: u64, delay_ns: u64) -> Option<u64> {
        if time == u64::MAX {
            return Some(1);
        }
        let left = time.checked_sub(delay_ns).filter(|&left| left > 0)?;
        u64::try_from(self.rest(time) / u128::from(left) + 1).ok()
    }

    /// W − T·B: what the paths chosen before do not carry by T.
    fn rest(&self, time: u64) -> u128 {
        self.work.saturating_sub(product(self.chosen_bps, time))
    }
}

fn product(bps: u64, nanos: u64) -> u128 {
    u128::from(bps) * u128::from(nanos)
}

fn narrow(nanos: u128) -> u64 {
    u64::try_from(nanos).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The limits agree exactly with T.
        #[test]
        fn limits_are_exact(
            bytes in 0u64..1_000_000_000,
            chosen in prop::collection::vec((1u64..1_000_000_000, 0u64..1_000_000_000), 0..3),
            bps in 1u64..1_000_000_000,
            delay in 0u64..1_000_000_000,
            time in 1u64..100_000_000_000,
        ) {
            let mut target = Target::message(bytes);
            for (bps, delay) in chosen {
                target.choose(bps, delay);
            }
            // An incumbent is never later than the paths already chosen.
            let time = time.min(target.time());
            let is_before = target.time_with(bps, delay) < time;
            prop_assert_eq!(target.delay_limit(time, bps).is_some_and(|limit| delay <= limit), is_before);
            prop_assert_eq!(target.bandwidth_limit(time, delay).is_some_and(|limit| bps >= limit), is_before);
        }
    }
}
