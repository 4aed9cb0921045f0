//! Levels: rates at which a layered or adaptive source can send.

use anabranch_base::Rate;

/// Rates of a source, the highest first, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Those there are, then zeros.
    rates: [Rate; Self::MAX],
}

/// Levels that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelsError {
    /// A rate of 0.
    #[error("a level of 0 promises nothing; give rates above 0")]
    Zero,
    /// Too many.
    #[error("{0} levels; give at most {max}, that of the demand included", max = Levels::MAX)]
    Many(usize),
    /// The demand is one of packets, or its rate is not one of the levels.
    #[error("levels are rates, and that of the demand is one of them; demand a rate, not packets")]
    Demand,
}

impl Levels {
    /// Most levels of a source.
    pub const MAX: usize = 8;
    /// No levels.
    pub const NONE: Self = Self {
        rates: [Rate::ZERO; Self::MAX],
    };

    /// The levels `own` and `others`, in any order. None if there is no other.
    ///
    /// # Errors
    /// One is 0, or there are more than [`Self::MAX`] different ones.
    pub fn new(own: Rate, others: impl IntoIterator<Item = Rate>) -> Result<Self, LevelsError> {
        let mut all = vec![own];
        all.extend(others);
        if all.contains(&Rate::ZERO) {
            return Err(LevelsError::Zero);
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.dedup();
        if all.len() > Self::MAX {
            return Err(LevelsError::Many(all.len()));
        }
        let mut levels = Self::NONE;
        if all.len() > 1 {
            levels.rates[..all.len()].copy_from_slice(&all);
        }
        Ok(levels)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rates[0] == Rate::ZERO
    }

    /// The highest; `None` if there are none.
    pub fn highest(&self) -> Option<Rate> {
        self.into_iter().next()
    }
}

impl IntoIterator for Levels {
    type Item = Rate;
    type IntoIter =
        std::iter::TakeWhile<std::array::IntoIter<Rate, { Levels::MAX }>, fn(&Rate) -> bool>;

    fn into_iter(self) -> Self::IntoIter {
        let is_level: fn(&Rate) -> bool = |rate| *rate != Rate::ZERO;
        self.rates.into_iter().take_while(is_level)
    }
}

impl IntoIterator for &Levels {
    type Item = Rate;
    type IntoIter = <Levels as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (*self).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_in_order_and_bounded() {
        let rates = |list: &[u64]| {
            list.iter()
                .map(|mbps| Rate::from_mbps(*mbps))
                .collect::<Vec<_>>()
        };
        let levels = |list: &[u64]| Levels::new(Rate::from_mbps(3), rates(list));
        let all = |list: &[u64]| levels(list).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(all(&[1, 6, 3, 1]), rates(&[6, 3, 1]));
        assert_eq!(levels(&[1, 6]).unwrap().highest(), Some(Rate::from_mbps(6)));
        assert_eq!(levels(&[3]), Ok(Levels::NONE));
        assert!(Levels::NONE.is_empty() && Levels::NONE.highest().is_none());
        assert_eq!(all(&[1, 2, 4, 5, 6, 7, 8]).len(), 8);
        assert_eq!(levels(&[1, 2, 4, 5, 6, 7, 8, 9]), Err(LevelsError::Many(9)));
        assert_eq!(levels(&[0]), Err(LevelsError::Zero));
    }
}
