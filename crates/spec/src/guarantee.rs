//! Guarantees: the share of windows in which a stream gets what it needs.

use std::time::Duration;

use anabranch_base::Rate;

use crate::{ADU_BYTES_MAX, Levels, LevelsError, OnWarning};

/// The longest window over which a guarantee is stated.
const WINDOW_MAX: Duration = Duration::from_secs(10);
/// The longest term of a renewable promise: forecasts are calibrated for it.
const TERM_MAX: Duration = Duration::from_secs(10);
/// Most packets of one window of a window constraint.
const PACKETS_MAX: u32 = 1_000_000;

/// Need of each window, and the probability with which it must be met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Demand {
    /// At least `rate` in a share `probability` of all windows: the probabilistic guarantee
    /// [IQ-Paths §V-B.1a].
    Rate {
        /// Above 0.
        rate: Rate,
        /// Above 0 and below 1.
        probability: f64,
    },
    /// Of every `of` packets, which come in one window, at least `serve` in it, in a share
    /// `probability` of all windows: the window constraint [IQ-Paths §V-A; West & Poellabauer 2000].
    Packets {
        /// At least 1.
        serve: u32,
        /// At least `serve`.
        of: u32,
        /// Size of a packet.
        packet_bytes: u32,
        /// Above 0 and below 1.
        probability: f64,
    },
    /// Of the packets that `rate` makes in a window, at most `late_packets` miss it on average: the
    /// violation bound, E\[Z\] [IQ-Paths §V-B.1b].
    Late {
        /// Rate at which the stream sends.
        rate: Rate,
        /// Size of a packet.
        packet_bytes: u32,
        /// Above 0.
        late_packets: f64,
    },
}

/// Duration for which a promise is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grade {
    /// The best that can be had: durable, or else renewable.
    #[default]
    Best,
    /// Until the stream closes. Admitted with a margin, on paths whose distribution does not drift.
    Durable,
    /// For a term, and renewed from what is forecast then; with notice before it lapses.
    Renewable,
}

/// A guarantee that a stream asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// The demand on each window.
    pub demand: Demand,
    /// The window, `t_w`: 1 s to 10 s, in whole seconds, because capacity is judged second by second.
    pub window: Duration,
    /// For how long.
    pub grade: Grade,
    /// A renewable promise's term, from a window to 10 s.
    pub term: Duration,
    /// True if, while it cannot be promised yet, the stream opens all the same and is promised it as soon as it can be.
    /// Otherwise it does not open.
    pub waits: bool,
    /// Rates at which the source can send, that of the demand among them: the highest that can be promised is. None: only that of
    /// the demand is of use.
    pub levels: Levels,
    /// Reaction of the session when the promise is warned.
    pub on_warning: OnWarning,
}

/// A guarantee that nothing could give.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GuaranteeError {
    /// A rate of 0.
    #[error("a guaranteed rate of 0 promises nothing; give a rate above 0, or no guarantee")]
    Rate,
    /// A probability that is not within (0, 1).
    #[error(
        "a probability of {0} cannot be promised; it must be above 0 and below 1, such as 0.95 or \"95 %\""
    )]
    Probability(f64),
    /// More packets to serve than there are, or none, or too many.
    #[error(
        "{serve} of {of} packets is not a window constraint; serve from 1 up to all of them, at most 1000000"
    )]
    Packets {
        /// To be served.
        serve: u32,
        /// Of so many.
        of: u32,
    },
    /// A packet size that no ADU has.
    #[error("packets of {0} bytes; give a size from 1 byte to 16 MiB")]
    PacketBytes(u32),
    /// A bound on late packets that is not a positive number.
    #[error("a bound of {0} late packets in a window; it must be above 0")]
    Late(f64),
    /// A window that is too short, too long, or not of whole seconds.
    #[error(
        "a window of {0:?}; capacity is judged second by second, so it must be 1, 2, 3 … up to 10 whole seconds"
    )]
    Window(Duration),
    /// A term that is too short or too long.
    #[error("a term of {0:?}; it must be from one window to 10 s, as far as forecasts reach")]
    Term(Duration),
    /// Levels that no source has, or that do not fit the demand.
    #[error(transparent)]
    Levels(#[from] LevelsError),
}

impl Guarantee {
    /// The scheduling window unless another is asked for; the shortest, and what others are multiples of.
    pub const WINDOW: Duration = Duration::from_secs(1);
    /// The term unless another is asked for.
    pub const TERM: Duration = TERM_MAX;

    /// The best grade of `demand`, with the usual window and term.
    pub const fn new(demand: Demand) -> Self {
        Self {
            demand,
            window: Self::WINDOW,
            grade: Grade::Best,
            term: Self::TERM,
            waits: false,
            levels: Levels::NONE,
            on_warning: OnWarning::Stay,
        }
    }

    /// At least `rate` in a share `probability` of all windows of one second.
    pub const fn rate(rate: Rate, probability: f64) -> Self {
        Self::new(Demand::Rate { rate, probability })
    }

    /// Opens the stream even before the promise can be made.
    #[must_use]
    pub const fn waiting(self) -> Self {
        Self {
            waits: true,
            ..self
        }
    }

    /// The same with this reaction to a warning.
    #[must_use]
    pub const fn with_on_warning(self, on_warning: OnWarning) -> Self {
        Self { on_warning, ..self }
    }

    /// The same for a source that can also send at these rates, as a layered or adaptive one can.
    ///
    /// # Errors
    /// There are more than [`Levels::MAX`], or one is 0; the demand has no rate.
    pub fn with_levels(
        self,
        others: impl IntoIterator<Item = Rate>,
    ) -> Result<Self, GuaranteeError> {
        let (Demand::Rate { rate, .. } | Demand::Late { rate, .. }) = self.demand else {
            return Err(LevelsError::Demand.into());
        };
        let levels = Levels::new(rate, others)?;
        Ok(Self { levels, ..self })
    }

    /// The same at `rate`. A window constraint stays as it is.
    #[must_use]
    pub fn at(mut self, new: Rate) -> Self {
        if let Demand::Rate { rate, .. } | Demand::Late { rate, .. } = &mut self.demand {
            *rate = new;
        }
        self
    }

    /// The same without levels, and with at most `rate`: a window constraint serves fewer of as many packets. `None` if that is
    /// nothing.
    #[must_use]
    pub fn reduced_to(&self, rate: Rate) -> Option<Self> {
        let mut reduced = Self {
            levels: Levels::NONE,
            ..*self
        };
        match &mut reduced.demand {
            Demand::Rate { rate: own, .. } | Demand::Late { rate: own, .. } => {
                *own = rate.min(*own);
            }
            Demand::Packets {
                serve,
                packet_bytes,
                ..
            } => {
                let bytes = rate.bytes_in(self.window);
                let packets = bytes.checked_div(u64::from(*packet_bytes)).unwrap_or(0);
                *serve = u32::try_from(packets).unwrap_or(u32::MAX).min(*serve);
            }
        }
        reduced.validate().is_ok().then_some(reduced)
    }

    /// The same with this probability. A bound on late packets stays as it is.
    #[must_use]
    pub fn at_probability(mut self, new: f64) -> Self {
        if let Demand::Rate { probability, .. } | Demand::Packets { probability, .. } =
            &mut self.demand
        {
            *probability = new;
        }
        self
    }

    /// The guarantee at each of its levels, the highest first; itself, if it has none.
    pub fn by_level(&self) -> impl Iterator<Item = Self> + use<> {
        let own = self.levels.is_empty().then_some(*self);
        let this = *self;
        let levels = self.levels;
        own.into_iter()
            .chain(levels.into_iter().map(move |rate| this.at(rate)))
    }

    /// The rate that each window needs: that of the packets to be served, for a window constraint.
    pub fn required(&self) -> Rate {
        match self.demand {
            Demand::Rate { rate, .. } | Demand::Late { rate, .. } => rate,
            Demand::Packets {
                serve,
                packet_bytes,
                ..
            } => Rate::from_bytes_per(u64::from(serve) * u64::from(packet_bytes), self.window),
        }
    }

    /// The share of windows that must get it; `None` for a bound on late packets.
    pub fn probability(&self) -> Option<f64> {
        match self.demand {
            Demand::Rate { probability, .. } | Demand::Packets { probability, .. } => {
                Some(probability)
            }
            Demand::Late { .. } => None,
        }
    }

    /// x/y of a window constraint, which decides between equal deadlines [IQ-Paths Table I]; 1 without one.
    pub fn constraint(&self) -> f64 {
        match self.demand {
            Demand::Packets { serve, of, .. } => f64::from(serve) / f64::from(of),
            _ => 1.0,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn validate(&self) -> Result<(), GuaranteeError> {
        if let Some(probability) = self.probability()
            && !(probability > 0.0 && probability < 1.0)
        {
            return Err(GuaranteeError::Probability(probability));
        }
        match self.demand {
            Demand::Packets { serve, of, .. } if serve == 0 || serve > of || of > PACKETS_MAX => {
                return Err(GuaranteeError::Packets { serve, of });
            }
            Demand::Late { late_packets, .. }
                if !(late_packets > 0.0 && late_packets.is_finite()) =>
            {
                return Err(GuaranteeError::Late(late_packets));
            }
            _ => {}
        }
        if let Demand::Packets { packet_bytes, .. } | Demand::Late { packet_bytes, .. } =
            self.demand
            && !(1..=ADU_BYTES_MAX as u32).contains(&packet_bytes)
        {
            return Err(GuaranteeError::PacketBytes(packet_bytes));
        }
        if !(Self::WINDOW..=WINDOW_MAX).contains(&self.window) || self.window.subsec_nanos() != 0 {
            return Err(GuaranteeError::Window(self.window));
        }
        if self.required() == Rate::ZERO {
            return Err(GuaranteeError::Rate);
        }
        if !(self.window..=TERM_MAX).contains(&self.term) {
            return Err(GuaranteeError::Term(self.term));
        }
        let rate = match self.demand {
            Demand::Rate { rate, .. } | Demand::Late { rate, .. } => Some(rate),
            Demand::Packets { .. } => None,
        };
        let mut levels = self.levels.into_iter();
        if !self.levels.is_empty() && levels.all(|level| Some(level) != rate) {
            return Err(LevelsError::Demand.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_demands_are_refused() {
        let rate = Rate::from_mbps(3);
        let check = |demand| Guarantee::new(demand).validate();
        assert_eq!(Guarantee::rate(rate, 0.95).validate(), Ok(()));
        assert_eq!(
            Guarantee::rate(Rate::ZERO, 0.95).validate(),
            Err(GuaranteeError::Rate)
        );
        for probability in [0.0, 1.0, -0.5, 95.0, f64::INFINITY] {
            assert_eq!(
                Guarantee::rate(rate, probability).validate(),
                Err(GuaranteeError::Probability(probability))
            );
        }
        assert!(Guarantee::rate(rate, f64::NAN).validate().is_err());
        let packets = |serve, of| Demand::Packets {
            serve,
            of,
            packet_bytes: 1200,
            probability: 0.9,
        };
        assert_eq!(check(packets(9, 10)), Ok(()));
        for (serve, of) in [(0, 10), (11, 10), (1, PACKETS_MAX + 1)] {
            assert_eq!(
                check(packets(serve, of)),
                Err(GuaranteeError::Packets { serve, of })
            );
        }
        let late = |late_packets, packet_bytes| Demand::Late {
            rate,
            packet_bytes,
            late_packets,
        };
        assert_eq!(check(late(2.5, 1200)), Ok(()));
        assert_eq!(check(late(0.0, 1200)), Err(GuaranteeError::Late(0.0)));
        assert_eq!(check(late(1.0, 0)), Err(GuaranteeError::PacketBytes(0)));
        let with = |change: fn(&mut Guarantee)| {
            let mut guarantee = Guarantee::rate(Rate::from_mbps(3), 0.9);
            change(&mut guarantee);
            guarantee.validate()
        };
        for ms in [0, 100, 999, 1_500, 10_500, 11_000] {
            let window = Duration::from_millis(ms);
            let guarantee = Guarantee {
                window,
                ..Guarantee::rate(rate, 0.9)
            };
            assert_eq!(guarantee.validate(), Err(GuaranteeError::Window(window)));
        }
        assert_eq!(with(|g| g.window = Duration::from_secs(3)), Ok(()));
        let long = Duration::from_secs(11);
        assert_eq!(
            with(|g| g.term = Duration::from_secs(11)),
            Err(GuaranteeError::Term(long))
        );
        let below_window = Duration::from_millis(500);
        assert_eq!(
            with(|g| g.term = Duration::from_millis(500)),
            Err(GuaranteeError::Term(below_window))
        );
    }

    #[test]
    fn a_guarantee_has_levels() {
        let mbps = Rate::from_mbps;
        let plain = Guarantee::rate(mbps(3), 0.95);
        assert!(plain.by_level().eq([plain]));
        let layered = plain.with_levels([mbps(1), mbps(6)]).unwrap();
        let rates: Vec<Rate> = layered.by_level().map(|at| at.required()).collect();
        assert_eq!(rates, [mbps(6), mbps(3), mbps(1)]);
        assert!(layered.by_level().all(|at| at.validate() == Ok(())));
        let lost = Guarantee {
            levels: layered.levels,
            ..Guarantee::rate(mbps(2), 0.95)
        };
        assert_eq!(lost.validate(), Err(LevelsError::Demand.into()));
        assert_eq!(
            plain.with_levels([Rate::ZERO]),
            Err(LevelsError::Zero.into())
        );
        let packets = Guarantee::new(Demand::Packets {
            serve: 8,
            of: 10,
            packet_bytes: 1200,
            probability: 0.9,
        });
        assert_eq!(
            packets.with_levels([mbps(1)]),
            Err(LevelsError::Demand.into())
        );
    }

    #[test]
    fn a_guarantee_is_reduced_to_a_rate() {
        let mbps = Rate::from_mbps;
        let layered = Guarantee::rate(mbps(3), 0.95)
            .with_levels([mbps(6)])
            .unwrap();
        let reduced = layered.reduced_to(mbps(1)).unwrap();
        assert_eq!(reduced, Guarantee::rate(mbps(1), 0.95));
        assert_eq!(layered.reduced_to(mbps(9)).unwrap().required(), mbps(3));
        assert_eq!(layered.reduced_to(Rate::ZERO), None);
        let packets = |serve| {
            Guarantee::new(Demand::Packets {
                serve,
                of: 100,
                packet_bytes: 1_250,
                probability: 0.9,
            })
        };
        // 80 packets of 10,000 bits a second; 35 of them are 350 kbit/s.
        let at = |kbps| packets(80).reduced_to(Rate::from_kbps(kbps));
        assert_eq!(at(359), Some(packets(35)));
        assert_eq!(at(9), None);
        assert_eq!(packets(80).at_probability(0.5).probability(), Some(0.5));
    }

    #[test]
    fn a_window_constraint_needs_the_rate_of_what_must_be_served() {
        let guarantee = Guarantee::new(Demand::Packets {
            serve: 80,
            of: 100,
            packet_bytes: 1250,
            probability: 0.9,
        });
        assert_eq!(guarantee.required(), Rate::from_kbps(800));
        assert_eq!(guarantee.constraint(), 0.8);
    }
}
