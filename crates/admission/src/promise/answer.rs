//! Answers to a demand for a promise.

use std::{fmt, time::Duration};

use crate::mapping::{Offer, Placement, Term};
use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_spec::{Guarantee, Share};

use super::{Channels, PROMISED_MAX, history::ROWS};

/// A promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// The promised guarantee.
    pub guarantee: Guarantee,
    /// Term of the promise.
    pub term: Term,
    /// Time at which a renewable promise lapses unless it is renewed.
    pub until: Option<Instant>,
    /// The paths that will carry it, with the rate on each.
    pub shares: Vec<(ChannelId, Rate)>,
}

impl Grant {
    pub(super) fn new(
        now: Instant,
        guarantee: &Guarantee,
        term: Term,
        placement: &Placement,
        channels: Channels<'_>,
    ) -> Self {
        Self {
            guarantee: *guarantee,
            term,
            until: (term == Term::Renewable).then(|| now + guarantee.term),
            shares: placement
                .shares
                .iter()
                .filter_map(|&(path, rate)| {
                    Some((channels.get(path).copied()??, Rate::from_bps(rate as u64)))
                })
                .collect(),
        }
    }

    /// The paths in words, with the rate on each; empty if there are none.
    pub(super) fn places(&self) -> String {
        let shares = self.shares.iter();
        let words: Vec<String> = shares
            .map(|(channel, rate)| format!("{channel} with {rate}"))
            .collect();
        words.join(" and ")
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.term {
            Term::Durable => write!(f, "durable")?,
            Term::Renewable => {
                write!(f, "renewable, {} at a time", seconds(self.guarantee.term))?;
            }
        }
        match self.places() {
            places if places.is_empty() => Ok(()),
            places => write!(f, ", on {places}"),
        }
    }
}

/// Reason for a refusal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// The spec demands no guarantee.
    NoGuarantee,
    /// Capacity is not known for long enough.
    TooLittleKnown {
        /// Windows of 1 s with traffic known so far, on the path that was measured longest.
        windows: usize,
        /// Number of windows needed.
        needed: usize,
        /// The grade that was tried last.
        term: Term,
    },
    /// A durable promise would have been broken too often in the sample history.
    Unsteady {
        /// Windows in the sample history.
        windows: usize,
    },
    /// No promise of this grade is made with so high a probability, however long the paths are known.
    TooSure {
        /// The highest probability that is promised.
        highest: f64,
        /// The grade that was tried last.
        term: Term,
    },
    /// The paths that come closest carry too little with the demanded probability.
    TooLittle {
        /// The channels of these paths.
        channels: Box<[ChannelId]>,
        /// Rate that they carry together, headers included.
        holds: Rate,
        /// Part of it that is promised to streams before this one.
        taken: Rate,
        /// Rate that this stream needs, headers included.
        needed: Rate,
        /// Share of windows in which the rate was reached; `None` for a bound on late packets.
        probability: Option<f64>,
    },
    /// The streams of the tenant together would have more than its share of what can be promised.
    OverShare {
        /// The share.
        share: Share,
        /// Rate that could be promised to a stream with this demand if nothing were promised, headers included.
        whole: Rate,
        /// Rate that other streams of the tenant have promised there, headers included.
        has: Rate,
        /// Rate that this stream needs, headers included.
        needed: Rate,
    },
    /// This stream, which has a promise, would lose it.
    Displaces(StreamId),
    /// As many streams of the session as may have a promise, or wait for one ([`PROMISED_MAX`](super::PROMISED_MAX)).
    TooMany,
}

impl Reason {
    /// True if it may change with time.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(
            self,
            Self::NoGuarantee | Self::TooSure { .. } | Self::TooMany
        )
    }
}

/// A refusal, with what could be promised instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Reason.
    pub reason: Reason,
    /// Demands that would be admitted.
    pub offer: Offer,
}

impl Refusal {
    pub(crate) fn bare(reason: Reason) -> Self {
        Self {
            reason,
            offer: Offer::default(),
        }
    }
}

/// Formats a duration as `10 s`.
fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// Formats a probability as `99.5 %`.
fn percent(probability: f64) -> String {
    format!("{} %", (probability * 1e8).round() / 1e6)
}

fn grade(term: Term) -> &'static str {
    match term {
        Term::Durable => "durable",
        Term::Renewable => "renewable",
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGuarantee => write!(f, "the stream asks for no guarantee"),
            Self::TooLittleKnown {
                windows,
                needed,
                term,
            } => write!(
                f,
                "too little is known of the paths: a {} promise of this kind needs {needed} seconds with traffic, \
                 and there were {windows}; ask again after {} s more of traffic, or in 5 s if the paths can be probed, or let \
                 the stream wait for its promise",
                grade(*term),
                needed.saturating_sub(*windows)
            ),
            Self::Unsteady { windows } => write!(
                f,
                "the paths changed too much in the last {windows} seconds with traffic for a durable promise; ask for \
                 a renewable one"
            ),
            Self::TooSure { highest, term } => {
                let (grade, most) = (grade(*term), percent(*highest));
                match term {
                    Term::Durable => write!(
                        f,
                        "the sample history, {ROWS} seconds at most, cannot support a {grade} promise above {most}; ask for \
                         {most} or less"
                    ),
                    Term::Renewable => write!(
                        f,
                        "forecasts are calibrated up to {most}, and a {grade} promise is not made above; ask for {most} or less"
                    ),
                }
            }
            Self::TooLittle {
                channels,
                holds,
                taken,
                needed,
                probability,
            } => {
                let (paths, verb) = match &channels[..] {
                    [] => ("the paths".to_owned(), "provide"),
                    [one] => (one.to_string(), "provides"),
                    [others @ .., last] => {
                        let names: Vec<String> = others.iter().map(ToString::to_string).collect();
                        (
                            format!("{} and {last} together", names.join(", ")),
                            "provide",
                        )
                    }
                };
                write!(f, "{paths} {verb} {holds} ")?;
                match probability {
                    Some(probability) => write!(f, "in {} of windows", percent(*probability))?,
                    None => write!(f, "with no more late packets than demanded")?,
                }
                if *taken > Rate::ZERO {
                    write!(f, ", {taken} of it promised to others")?;
                }
                write!(f, "; {needed} would be needed, headers included")
            }
            Self::OverShare {
                share,
                whole,
                has,
                needed,
            } => {
                let most = *whole * share.get();
                write!(
                    f,
                    "your share of what can be promised is {share}, {most} of {whole}; your other streams have {has} of it, and \
                     {needed} would be needed, headers included"
                )
            }
            Self::Displaces(stream) => {
                write!(f, "{stream}, which has a promise, would lose it")
            }
            Self::TooMany => write!(
                f,
                "{PROMISED_MAX} streams of the session have a promise or wait for one, which is the most; close some, or open this \
                 one without a guarantee"
            ),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        let Offer {
            rate,
            probability,
            reduction,
        } = &self.offer;
        let offers = [
            rate.map(|rate| format!("{rate} at this probability")),
            probability
                .map(|probability| format!("the same rate in {} of windows", percent(probability))),
            reduction.map(|reduction| {
                let stream = reduction.stream;
                if reduction.to == Rate::ZERO {
                    format!("all of it without the promise of {stream}")
                } else {
                    format!("all of it with {stream} at {}", reduction.to)
                }
            }),
        ];
        let offers: Vec<String> = offers.into_iter().flatten().collect();
        if !offers.is_empty() {
            write!(f, "; could be promised: {}", offers.join(", or "))?;
        } else if matches!(
            self.reason,
            Reason::TooLittle { .. } | Reason::OverShare { .. } | Reason::Displaces(_)
        ) {
            write!(f, "; nothing can be offered instead")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use crate::mapping::Reduction;

    use super::*;

    #[test]
    fn answers_read_as_sentences() {
        let too_little = |channels: &[u64], taken| Reason::TooLittle {
            channels: channels.iter().map(|&id| ChannelId(id)).collect(),
            holds: Rate::from_mbps(5),
            taken: Rate::from_mbps(taken),
            needed: Rate::from_kbps(9_180),
            probability: Some(0.95),
        };
        let one = Refusal {
            reason: too_little(&[1], 0),
            offer: Offer {
                rate: Some(Rate::from_kbps(4_900)),
                probability: Some(0.75),
                reduction: Some(Reduction {
                    stream: StreamId(3),
                    to: Rate::ZERO,
                }),
            },
        };
        assert_eq!(
            one.to_string(),
            "channel-1 provides 5.00 Mbit/s in 95 % of windows; 9.18 Mbit/s would be needed, headers included; \
             could be promised: 4.90 Mbit/s at this probability, or the same rate in 75 % of windows, or all of it without \
             the promise of stream-3"
        );
        assert_eq!(
            Refusal::bare(too_little(&[1, 2], 2)).to_string(),
            "channel-1 and channel-2 together provide 5.00 Mbit/s in 95 % of windows, 2.00 Mbit/s of it promised to \
             others; 9.18 Mbit/s would be needed, headers included; nothing can be offered instead"
        );
        let three = Refusal::bare(too_little(&[0, 1, 2], 0)).to_string();
        assert!(
            three.starts_with("channel-0, channel-1 and channel-2 together provide 5.00 Mbit/s"),
            "{three}"
        );
        let known = Reason::TooLittleKnown {
            windows: 12,
            needed: 300,
            term: Term::Durable,
        };
        assert_eq!(
            known.to_string(),
            "too little is known of the paths: a durable promise of this kind needs 300 seconds with traffic, and \
             there were 12; ask again after 288 s more of traffic, or in 5 s if the paths can be probed, or let the stream \
             wait for its promise"
        );
        let mut grant = Grant {
            guarantee: Guarantee::rate(Rate::from_mbps(4), 0.95),
            term: Term::Renewable,
            until: None,
            shares: vec![
                (ChannelId(1), Rate::from_mbps(3)),
                (ChannelId(2), Rate::from_mbps(1)),
            ],
        };
        assert_eq!(
            grant.to_string(),
            "renewable, 10 s at a time, on channel-1 with 3.00 Mbit/s and channel-2 with 1.00 Mbit/s"
        );
        grant.term = Term::Durable;
        grant.shares.truncate(1);
        assert_eq!(grant.to_string(), "durable, on channel-1 with 3.00 Mbit/s");
    }
}
