//! Settings of the published search.

use std::{fmt, str::FromStr};

/// Settings of `random_walk` [Horde §6.4: k, N, T].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Schedules that are looked at in a cycle; at least 1.
    pub length: u16,
    /// Lead ahead slots are expected, in milliseconds.
    pub look_ahead_ms: u16,
    /// Time from one cycle to the next, in milliseconds,
    pub period_ms: u16,
    /// unless so many slots can be used before [Horde §6.3: m]; 0 counts as 1.
    pub slots: u16,
}

impl Walk {
    /// Those of the experiments S0 to S4 [Horde §7.3]. m is not given; a few packets are what a small
    /// congestion window holds.
    pub const PUBLISHED: Self = Self {
        length: 25,
        look_ahead_ms: 300,
        period_ms: 100,
        slots: 4,
    };

    /// Each slot as it comes.
    pub(in crate::policy) const AT_ONCE: Self = Self {
        length: 1,
        look_ahead_ms: 0,
        period_ms: 0,
        slots: 1,
    };
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            length,
            look_ahead_ms,
            period_ms,
            slots,
        } = self;
        write!(
            f,
            "length={length},look_ahead_ms={look_ahead_ms},period_ms={period_ms},slots={slots}"
        )
    }
}

impl FromStr for Walk {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut walk = Self::PUBLISHED;
        for setting in text.split(',') {
            let (key, value) = setting.split_once('=').ok_or(())?;
            let value: u16 = value.trim().parse().map_err(|_| ())?;
            match key.trim() {
                "length" if value > 0 => walk.length = value,
                "look_ahead_ms" => walk.look_ahead_ms = value,
                "period_ms" => walk.period_ms = value,
                "slots" => walk.slots = value,
                _ => return Err(()),
            }
        }
        Ok(walk)
    }
}
