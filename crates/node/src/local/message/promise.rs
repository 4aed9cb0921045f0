//! Promises in messages: grants, refusals and explanations.
//!
//! Reasons are a closed set in a version of the protocol. Times are those of the node's clock, in nanoseconds.

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_session::{
    self as session, Explanation, Grant, Guarantee, Offer, Reason, Reduction, Refusal, Term,
    promise::{Account, Note},
};
use serde::{Deserialize, Serialize};

use crate::{config::ConfigError, spec::GuaranteeText};

/// Grade of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TermBody {
    /// Until the stream closes.
    Durable,
    /// For a term, then renewed.
    Renewable,
}

impl From<Term> for TermBody {
    fn from(term: Term) -> Self {
        match term {
            Term::Durable => Self::Durable,
            Term::Renewable => Self::Renewable,
        }
    }
}

impl From<TermBody> for Term {
    fn from(term: TermBody) -> Self {
        match term {
            TermBody::Durable => Self::Durable,
            TermBody::Renewable => Self::Renewable,
        }
    }
}

/// A channel, and the rate on it in bits per second.
type Share = (u64, u64);

fn shares_of(shares: &[(ChannelId, Rate)]) -> Vec<Share> {
    let share = |(channel, rate): &(ChannelId, Rate)| (channel.0, rate.as_bps());
    shares.iter().map(share).collect()
}

fn shares(body: &[Share]) -> Vec<(ChannelId, Rate)> {
    let share = |(channel, bps): &Share| (ChannelId(*channel), Rate::from_bps(*bps));
    body.iter().map(share).collect()
}

fn guarantee(text: &GuaranteeText) -> Result<Guarantee, ConfigError> {
    text.resolve(|key| format!("guarantee.{key}"))
}

/// A promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrantBody {
    /// The guarantee.
    pub guarantee: GuaranteeText,
    /// Its grade.
    pub term: TermBody,
    /// Time at which it lapses unless it is renewed.
    #[serde(default)]
    pub until_ns: Option<u64>,
    /// The paths that carry it.
    #[serde(default)]
    pub shares: Vec<Share>,
    /// The promise in words.
    #[serde(default)]
    pub text: String,
}

impl GrantBody {
    /// The message of a grant.
    pub fn of(grant: &Grant) -> Self {
        Self {
            guarantee: GuaranteeText::of(&grant.guarantee),
            term: grant.term.into(),
            until_ns: grant.until.map(Instant::as_nanos),
            shares: shares_of(&grant.shares),
            text: grant.to_string(),
        }
    }

    /// The grant.
    ///
    /// # Errors
    /// Its guarantee is not valid.
    pub fn resolve(&self) -> Result<Grant, ConfigError> {
        Ok(Grant {
            guarantee: guarantee(&self.guarantee)?,
            term: self.term.into(),
            until: self.until_ns.map(Instant::from_nanos),
            shares: shares(&self.shares),
        })
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusalBody {
    /// The reason.
    #[serde(flatten)]
    pub reason: ReasonBody,
    /// The reason in words.
    #[serde(default)]
    pub text: String,
    /// Alternatives that could be promised.
    #[serde(default)]
    pub offer: OfferBody,
}

/// Alternatives that could be promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OfferBody {
    /// The largest rate at the same probability.
    pub rate_bps: Option<u64>,
    /// The largest probability at the same rate.
    pub probability: Option<f64>,
    /// The stream that would have to be reduced.
    pub reduce_stream: Option<u64>,
    /// The rate that it would be left with.
    pub reduce_to_bps: Option<u64>,
}

/// Reason for a refusal; the fields are those of [`Reason`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum ReasonBody {
    NoGuarantee,
    TooLittleKnown {
        windows: usize,
        needed: usize,
        term: TermBody,
    },
    Unsteady {
        windows: usize,
    },
    TooSure {
        highest: f64,
        term: TermBody,
    },
    TooLittle {
        channels: Vec<u64>,
        holds_bps: u64,
        taken_bps: u64,
        needed_bps: u64,
        probability: Option<f64>,
    },
    OverShare {
        share: f64,
        whole_bps: u64,
        has_bps: u64,
        needed_bps: u64,
    },
    Displaces {
        stream: u64,
    },
    TooMany,
}

impl RefusalBody {
    /// The message of a refusal.
    pub fn of(refusal: &Refusal) -> Self {
        let reason = match &refusal.reason {
            Reason::TooLittleKnown {
                windows,
                needed,
                term,
            } => ReasonBody::TooLittleKnown {
                windows: *windows,
                needed: *needed,
                term: (*term).into(),
            },
            Reason::Unsteady { windows } => ReasonBody::Unsteady { windows: *windows },
            Reason::TooSure { highest, term } => ReasonBody::TooSure {
                highest: *highest,
                term: (*term).into(),
            },
            Reason::TooLittle {
                channels,
                holds,
                taken,
                needed,
                probability,
            } => ReasonBody::TooLittle {
                channels: channels.iter().map(|channel| channel.0).collect(),
                holds_bps: holds.as_bps(),
                taken_bps: taken.as_bps(),
                needed_bps: needed.as_bps(),
                probability: *probability,
            },
            Reason::OverShare {
                share,
                whole,
                has,
                needed,
            } => ReasonBody::OverShare {
                share: share.get(),
                whole_bps: whole.as_bps(),
                has_bps: has.as_bps(),
                needed_bps: needed.as_bps(),
            },
            Reason::Displaces(stream) => ReasonBody::Displaces { stream: stream.0 },
            Reason::TooMany => ReasonBody::TooMany,
            // A reason of a later version gets a place here with it.
            _ => ReasonBody::NoGuarantee,
        };
        let Offer {
            rate,
            probability,
            reduction,
        } = refusal.offer;
        Self {
            reason,
            text: refusal.to_string(),
            offer: OfferBody {
                rate_bps: rate.map(Rate::as_bps),
                probability,
                reduce_stream: reduction.map(|reduction| reduction.stream.0),
                reduce_to_bps: reduction.map(|reduction| reduction.to.as_bps()),
            },
        }
    }

    /// The refusal.
    pub fn resolve(&self) -> Refusal {
        let rate = Rate::from_bps;
        let reason = match self.reason.clone() {
            ReasonBody::NoGuarantee => Reason::NoGuarantee,
            ReasonBody::TooLittleKnown {
                windows,
                needed,
                term,
            } => Reason::TooLittleKnown {
                windows,
                needed,
                term: term.into(),
            },
            ReasonBody::Unsteady { windows } => Reason::Unsteady { windows },
            ReasonBody::TooSure { highest, term } => Reason::TooSure {
                highest,
                term: term.into(),
            },
            ReasonBody::TooLittle {
                channels,
                holds_bps,
                taken_bps,
                needed_bps,
                probability,
            } => Reason::TooLittle {
                channels: channels.into_iter().map(ChannelId).collect(),
                holds: rate(holds_bps),
                taken: rate(taken_bps),
                needed: rate(needed_bps),
                probability,
            },
            ReasonBody::OverShare {
                share,
                whole_bps,
                has_bps,
                needed_bps,
            } => Reason::OverShare {
                // One that is out of range is of no node.
                share: session::Share::new(share).unwrap_or(session::Share::ALL),
                whole: rate(whole_bps),
                has: rate(has_bps),
                needed: rate(needed_bps),
            },
            ReasonBody::Displaces { stream } => Reason::Displaces(StreamId(stream)),
            ReasonBody::TooMany => Reason::TooMany,
        };
        let offer = &self.offer;
        let reduction = offer.reduce_stream.map(|stream| Reduction {
            stream: StreamId(stream),
            to: rate(offer.reduce_to_bps.unwrap_or(0)),
        });
        Refusal {
            reason,
            offer: Offer {
                rate: offer.rate_bps.map(rate),
                probability: offer.probability,
                reduction,
            },
        }
    }
}

/// Explanation of a stream's promise; the fields are those of [`Explanation`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplanationBody {
    /// Number of the stream in its session.
    pub stream: u64,
    /// The guarantee that it asked for.
    pub guarantee: GuaranteeText,
    /// The guarantee that it asks for instead.
    pub wanted: Option<GuaranteeText>,
    /// Grade of the promise in force.
    pub term: Option<TermBody>,
    /// Time at which it lapses unless it is renewed.
    pub until_ns: Option<u64>,
    /// Its owner was warned.
    pub is_warned: bool,
    /// Place in the order of precedence.
    pub rank: u32,
    /// Its paths.
    pub shares: Vec<Share>,
    /// Windows in which it was kept.
    pub windows_kept: u64,
    /// Windows in which it was broken.
    pub windows_broken: u64,
    /// Promises withdrawn.
    pub withdrawn: u64,
    /// Windows of capacity that are known.
    pub windows_known: usize,
    /// Time and text of the last decisions.
    pub notes: Vec<(u64, String)>,
}

impl ExplanationBody {
    /// The message of an explanation.
    pub fn of(explanation: &Explanation) -> Self {
        let Account {
            kept,
            broken,
            withdrawn,
        } = explanation.account;
        let notes = explanation.notes.iter();
        Self {
            stream: explanation.stream.0,
            guarantee: GuaranteeText::of(&explanation.guarantee),
            wanted: explanation.wanted.as_ref().map(GuaranteeText::of),
            term: explanation.term.map(Into::into),
            until_ns: explanation.until.map(Instant::as_nanos),
            is_warned: explanation.is_warned,
            rank: explanation.rank,
            shares: shares_of(&explanation.shares),
            windows_kept: kept,
            windows_broken: broken,
            withdrawn,
            windows_known: explanation.windows_known,
            notes: notes
                .map(|note| (note.at.as_nanos(), note.text.clone()))
                .collect(),
        }
    }

    /// The explanation.
    ///
    /// # Errors
    /// A guarantee in it is not valid.
    pub fn resolve(&self) -> Result<Explanation, ConfigError> {
        let notes = self.notes.iter().map(|(at, text)| Note {
            at: Instant::from_nanos(*at),
            text: text.clone(),
        });
        Ok(Explanation {
            stream: StreamId(self.stream),
            guarantee: guarantee(&self.guarantee)?,
            wanted: self.wanted.as_ref().map(guarantee).transpose()?,
            term: self.term.map(Into::into),
            until: self.until_ns.map(Instant::from_nanos),
            is_warned: self.is_warned,
            rank: self.rank,
            shares: shares(&self.shares),
            account: Account {
                kept: self.windows_kept,
                broken: self.windows_broken,
                withdrawn: self.withdrawn,
            },
            windows_known: self.windows_known,
            notes: notes.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again<T: Serialize + for<'de> Deserialize<'de>>(body: &T) -> T {
        serde_json::from_str(&serde_json::to_string(body).unwrap()).unwrap()
    }

    #[test]
    fn refusals_round_trip() {
        let reasons = [
            Reason::NoGuarantee,
            Reason::TooLittleKnown {
                windows: 3,
                needed: 20,
                term: Term::Durable,
            },
            Reason::Unsteady { windows: 300 },
            Reason::TooSure {
                highest: 0.996,
                term: Term::Renewable,
            },
            Reason::TooLittle {
                channels: [ChannelId(1), ChannelId(4)].into(),
                holds: Rate::from_mbps(4),
                taken: Rate::from_mbps(1),
                needed: Rate::from_mbps(9),
                probability: None,
            },
            Reason::OverShare {
                share: session::Share::new(0.4).unwrap(),
                whole: Rate::from_mbps(10),
                has: Rate::from_mbps(3),
                needed: Rate::from_mbps(2),
            },
            Reason::Displaces(StreamId(6)),
            Reason::TooMany,
        ];
        for reason in reasons {
            let refusal = Refusal {
                reason,
                offer: Offer {
                    rate: Some(Rate::from_kbps(800)),
                    probability: Some(0.9),
                    reduction: Some(Reduction {
                        stream: StreamId(2),
                        to: Rate::ZERO,
                    }),
                },
            };
            let body = again(&RefusalBody::of(&refusal));
            assert_eq!(body.resolve(), refusal);
            assert_eq!(body.text, refusal.to_string());
        }
    }

    #[test]
    fn grants_and_explanations_round_trip() {
        let guarantee = Guarantee::rate(Rate::from_mbps(3), 0.95);
        let grant = Grant {
            guarantee,
            term: Term::Renewable,
            until: Some(Instant::from_millis(5_000)),
            shares: vec![(ChannelId(0), Rate::from_mbps(3))],
        };
        assert_eq!(again(&GrantBody::of(&grant)).resolve().unwrap(), grant);
        let explanation = Explanation {
            stream: StreamId(4),
            guarantee,
            wanted: Some(guarantee.waiting()),
            term: None,
            until: None,
            is_warned: true,
            rank: u32::MAX,
            shares: vec![],
            account: Account {
                kept: 1,
                broken: 2,
                withdrawn: 3,
            },
            windows_known: 9,
            notes: vec![Note {
                at: Instant::from_millis(7),
                text: "refused".to_owned(),
            }],
        };
        let body = again(&ExplanationBody::of(&explanation));
        assert_eq!(body.resolve().unwrap(), explanation);
    }
}
