//! Stream specifications in text form: in a TOML file, in flags, in a control request.
//!
//! ```
//! use anabranch::spec::SpecText;
//!
//! let text = r#"
//!     label = "frames"
//!     lifetime = "500 ms"
//!     [guarantee]
//!     rate = "22 Mbit/s"
//!     probability = "95 %"
//! "#;
//! let spec = SpecText::from_toml(text)?.resolve()?;
//! assert_eq!(spec.guarantee.unwrap().probability(), Some(0.95));
//!
//! let wrong = SpecText::from_toml("[guarantee]\nrate = \"22\"\nprobability = \"95 %\"")?.resolve();
//! assert!(wrong.unwrap_err().to_string().starts_with("guarantee.rate"));
//! # Ok::<(), anabranch::config::ConfigError>(())
//! ```
//!
//! `stream.example.toml` shows every key with its unit, range and default.

mod service;

use std::time::Duration;

use anabranch_base::{ChannelId, Rate};
use anabranch_session::{
    Demand, DropOrder, Grade, Guarantee, GuaranteeError, OnWarning, Order, Preferences, Priority,
    Profile, SpecError, StreamSpec,
};
use serde::{Deserialize, Serialize};

pub use self::service::ServiceText;
use crate::config::{ConfigError, missing, parsed, percent, refused, set, time};

/// A [`StreamSpec`] as texts with units; a key that is absent has its default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpecText {
    /// Profile whose values are those of all keys that are absent: `interactive`, `live`, `bulk`, `background`, `redundant` or
    /// `telemetry`.
    pub profile: Option<String>,
    /// Label for people and for the accepting application, at most 128 bytes.
    pub label: Option<String>,
    /// Lost data is retransmitted, until its lifetime is over if it has one.
    pub reliable: Option<bool>,
    /// `ordered`, `unordered` or `newest_first`.
    pub order: Option<String>,
    /// Time after which a message is of no use, 1 ms to 1 h.
    pub lifetime: Option<String>,
    /// `scavenger`, `bulk`, `normal`, `urgent`, or a number from 0 to 255.
    pub priority: Option<String>,
    /// Share among streams of equal priority; 1 to 10,000.
    pub weight: Option<u32>,
    /// Rate limit of the stream, such as `4 Mbit/s`.
    pub cap: Option<String>,
    /// Choice of the messages that an unreliable stream drops when it exceeds its share: `oldest`, `newest`, `least_important`
    /// or `none`.
    pub drop: Option<String>,
    /// Path preferences, the first that matches decides: such as `never metered`, `prefer interface=eth*`, `backup any`.
    pub paths: Option<Vec<String>>,
    /// Every packet is sent on every path.
    pub redundant: Option<bool>,
    /// Number of the only channel that the stream may use.
    pub pinned: Option<u64>,
    /// A guaranteed stream may be spread over several paths.
    pub may_split: Option<bool>,
    /// The accepting node may send on the stream, too.
    pub duplex: Option<bool>,
    /// An unreliable stream delivers the rest of a message of which a part was lost.
    pub partial: Option<bool>,
    /// The outcome of every message is reported.
    pub notify: Option<bool>,
    /// The outcome of every fragment is reported.
    pub notify_fragments: Option<bool>,
    /// The guarantee requested.
    pub guarantee: Option<GuaranteeText>,
}

/// A [`Guarantee`] as texts with units. One of three demands: `rate` with `probability`; `packets` with
/// `packet_bytes` and `probability`; `rate` with `packet_bytes` and `late_packets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuaranteeText {
    /// Rate, such as `22 Mbit/s`.
    pub rate: Option<String>,
    /// Share of the windows, such as `95 %`.
    pub probability: Option<String>,
    /// Packets to be served of so many, such as `80/100`.
    pub packets: Option<String>,
    /// Size of a packet, in bytes.
    pub packet_bytes: Option<u32>,
    /// Packets that may miss their window, on average.
    pub late_packets: Option<f64>,
    /// The window, 1 s to 10 s, in whole seconds.
    pub window: Option<String>,
    /// Term of a renewable promise, from one window to 10 s.
    pub term: Option<String>,
    /// `best`, `durable` or `renewable`.
    pub grade: Option<String>,
    /// The stream opens even if the guarantee cannot be promised yet.
    pub waits: Option<bool>,
    /// Other rates at which the source can send, such as `["6 Mbit/s", "1 Mbit/s"]`: the highest of all that can be promised is.
    // Left out where it is absent, as the following ones: an older reader does not know them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<String>>,
    /// Reaction to a warning of the promise: `stay`, `take offer` or `close`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_warning: Option<String>,
}

impl SpecText {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// It is not TOML, has an unknown key or a value of the wrong type; the message shows the line.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| crate::config::mistake::syntax(text, &error))
    }

    /// The texts of a specification, which resolve to the same one.
    pub fn of(spec: &StreamSpec) -> Self {
        let order = match spec.order {
            Order::Ordered => "ordered",
            Order::Unordered => "unordered",
            Order::NewestFirst => "newest_first",
        };
        Self {
            label: Some(spec.label.clone()),
            reliable: Some(spec.reliable),
            order: Some(order.to_owned()),
            lifetime: spec.lifetime.map(nanoseconds),
            priority: Some(spec.priority.0.to_string()),
            weight: Some(spec.weight),
            cap: spec.cap.map(bits),
            drop: spec.drop.map(|order| drop_name(order).to_owned()),
            profile: None,
            paths: (!spec.paths.rules().is_empty())
                .then(|| spec.paths.rules().iter().map(ToString::to_string).collect()),
            redundant: Some(spec.redundant),
            pinned: spec.pinned.map(|channel| channel.0),
            may_split: Some(spec.may_split),
            duplex: Some(spec.duplex),
            partial: Some(spec.partial),
            notify: Some(spec.notify),
            notify_fragments: Some(spec.notify_fragments),
            guarantee: spec.guarantee.as_deref().map(GuaranteeText::of),
        }
    }

    /// Checks every value and fills in the defaults.
    ///
    /// # Errors
    /// The first value that is refused, with its key and the values that would be accepted.
    pub fn resolve(&self) -> Result<StreamSpec, ConfigError> {
        let mut spec = match &self.profile {
            None => StreamSpec::default(),
            Some(text) => parsed::<Profile>(text)
                .map_err(|why| refused("profile", text, why))?
                .spec(),
        };
        set(&mut spec.order, "order", &self.order, order)?;
        set(&mut spec.priority, "priority", &self.priority, priority)?;
        if let Some(text) = &self.lifetime {
            spec.lifetime = Some(time(text).map_err(|why| refused("lifetime", text, why))?);
        }
        if let Some(text) = &self.cap {
            spec.cap = Some(parsed(text).map_err(|why| refused("cap", text, why))?);
        }
        set(&mut spec.drop, "drop", &self.drop, drop_order)?;
        spec.reliable = self.reliable.unwrap_or(spec.reliable);
        spec.weight = self.weight.unwrap_or(spec.weight);
        if let Some(rules) = &self.paths {
            spec.paths = preferences("paths", rules)?;
        }
        spec.redundant = self.redundant.unwrap_or(spec.redundant);
        spec.pinned = self.pinned.map(ChannelId);
        spec.may_split = self.may_split.unwrap_or(spec.may_split);
        spec.duplex = self.duplex.unwrap_or(spec.duplex);
        spec.partial = self.partial.unwrap_or(spec.partial);
        spec.notify = self.notify.unwrap_or(spec.notify);
        spec.notify_fragments = self.notify_fragments.unwrap_or(spec.notify_fragments);
        if let Some(label) = &self.label {
            spec.label.clone_from(label);
        }
        if let Some(guarantee) = &self.guarantee {
            spec.guarantee = Some(Box::new(
                guarantee.resolve(|key| format!("guarantee.{key}"))?,
            ));
        }
        match spec.validate() {
            Ok(()) => Ok(spec),
            Err(error) => {
                let (key, value) = match &error {
                    SpecError::Weight(weight) => ("weight", weight.to_string()),
                    SpecError::Lifetime(_) => ("lifetime", text_of(&self.lifetime)),
                    SpecError::Cap(_) | SpecError::CapBelowGuarantee { .. } => {
                        ("cap", text_of(&self.cap))
                    }
                    SpecError::Drop => ("drop", text_of(&self.drop)),
                    SpecError::Partial => ("partial", true.to_string()),
                    SpecError::Redundant => ("redundant", true.to_string()),
                    SpecError::Label(_) => ("label", spec.label),
                    SpecError::Guarantee(_) => ("guarantee", String::new()),
                };
                Err(refused(key, &value, error.to_string()))
            }
        }
    }
}

/// Path preferences as they are written under `key`, a rule a text.
///
/// # Errors
/// A rule is not valid, or there are too many.
pub(crate) fn preferences(key: &str, rules: &[String]) -> Result<Preferences, ConfigError> {
    let mut all = Vec::new();
    for text in rules {
        all.push(parsed(text).map_err(|why| refused(key, text, why))?);
    }
    let count = all.len().to_string();
    Preferences::new(all).map_err(|error| refused(key, &count, error.to_string()))
}

impl GuaranteeText {
    /// The texts of a guarantee, which resolve to the same one, but for the last digit of a probability.
    pub fn of(guarantee: &Guarantee) -> Self {
        let grade = match guarantee.grade {
            Grade::Best => "best",
            Grade::Durable => "durable",
            Grade::Renewable => "renewable",
        };
        let mut text = Self {
            window: Some(nanoseconds(guarantee.window)),
            term: Some(nanoseconds(guarantee.term)),
            grade: Some(grade.to_owned()),
            waits: Some(guarantee.waits),
            ..Self::default()
        };
        let own = guarantee.required();
        let others = guarantee.levels.into_iter().filter(|rate| *rate != own);
        text.levels = (!guarantee.levels.is_empty()).then(|| others.map(bits).collect());
        let reaction = guarantee.on_warning;
        text.on_warning = (reaction != OnWarning::Stay).then(|| reaction.to_string());
        let share = |probability: f64| Some(format!("{} %", probability * 100.0));
        match guarantee.demand {
            Demand::Rate { rate, probability } => {
                text.rate = Some(bits(rate));
                text.probability = share(probability);
            }
            Demand::Packets {
                serve,
                of,
                packet_bytes,
                probability,
            } => {
                text.packets = Some(format!("{serve}/{of}"));
                text.packet_bytes = Some(packet_bytes);
                text.probability = share(probability);
            }
            Demand::Late {
                rate,
                packet_bytes,
                late_packets,
            } => {
                text.rate = Some(bits(rate));
                text.packet_bytes = Some(packet_bytes);
                text.late_packets = Some(late_packets);
            }
        }
        text
    }

    /// Checks every value and fills in the defaults. `name` translates a key to the name that the user knows, such as a flag.
    ///
    /// # Errors
    /// The first value that is refused, with its key and the values that would be accepted; the keys make no demand, or two.
    pub fn resolve(&self, name: impl Fn(&str) -> String) -> Result<Guarantee, ConfigError> {
        let mut guarantee = Guarantee::new(self.demand(&name)?);
        set(&mut guarantee.window, &name("window"), &self.window, time)?;
        set(&mut guarantee.term, &name("term"), &self.term, time)?;
        set(&mut guarantee.grade, &name("grade"), &self.grade, grade)?;
        guarantee.waits = self.waits.unwrap_or(false);
        let reaction = &mut guarantee.on_warning;
        set(reaction, &name("on_warning"), &self.on_warning, parsed)?;
        if let Some(texts) = &self.levels {
            let key = name("levels");
            let read = |text: &String| parsed(text).map_err(|why| refused(&key, text, why));
            let levels: Vec<Rate> = texts.iter().map(read).collect::<Result<_, _>>()?;
            guarantee = guarantee
                .with_levels(levels)
                .map_err(|error| refused(&key, &texts.join(", "), error.to_string()))?;
        }
        guarantee.validate().map_err(|error| {
            let (key, value) = match error {
                GuaranteeError::Rate if self.packets.is_some() => ("packets", &self.packets),
                GuaranteeError::Rate => ("rate", &self.rate),
                GuaranteeError::Probability(_) => ("probability", &self.probability),
                GuaranteeError::Packets { .. } => ("packets", &self.packets),
                GuaranteeError::PacketBytes(bytes) => {
                    return refused(&name("packet_bytes"), &bytes.to_string(), error.to_string());
                }
                GuaranteeError::Late(packets) => {
                    return refused(
                        &name("late_packets"),
                        &packets.to_string(),
                        error.to_string(),
                    );
                }
                GuaranteeError::Window(_) => ("window", &self.window),
                GuaranteeError::Term(_) => ("term", &self.term),
                GuaranteeError::Levels(_) => ("rate", &self.rate),
            };
            refused(&name(key), &text_of(value), error.to_string())
        })?;
        Ok(guarantee)
    }

    fn demand(&self, name: &impl Fn(&str) -> String) -> Result<Demand, ConfigError> {
        let with = |key: &str, other: &str| {
            let reason = format!("requires {}, which is missing", name(other));
            missing(&name(key), reason)
        };
        let without = |key: &str, value: &str, other: &str| {
            let reason = format!(
                "cannot be combined with {}; leave one of them out",
                name(other)
            );
            refused(&name(key), value, reason)
        };
        let probability = |beside: &str| {
            let text = self.probability.as_ref();
            let text = text.ok_or_else(|| with(beside, "probability"))?;
            percent(text).map_err(|why| refused(&name("probability"), text, why))
        };
        let packet_bytes = |beside: &str| {
            self.packet_bytes
                .ok_or_else(|| with(beside, "packet_bytes"))
        };
        if let Some(text) = &self.packets {
            if self.late_packets.is_some() {
                return Err(without("packets", text, "late_packets"));
            }
            if self.rate.is_some() {
                return Err(without("packets", text, "rate"));
            }
            let (serve, of) = packets(text).map_err(|why| refused(&name("packets"), text, why))?;
            return Ok(Demand::Packets {
                serve,
                of,
                packet_bytes: packet_bytes("packets")?,
                probability: probability("packets")?,
            });
        }
        let Some(text) = &self.rate else {
            let reason = format!(
                "no guarantee is requested; give {} with {}, or {} with {} and {}, or {} with {} and {}",
                name("rate"),
                name("probability"),
                name("packets"),
                name("packet_bytes"),
                name("probability"),
                name("rate"),
                name("packet_bytes"),
                name("late_packets"),
            );
            return Err(missing(&name("rate"), reason));
        };
        let rate: Rate = parsed(text).map_err(|why| refused(&name("rate"), text, why))?;
        let Some(late_packets) = self.late_packets else {
            if let Some(bytes) = self.packet_bytes {
                let bytes = bytes.to_string();
                let reason = format!("requires {} or {}", name("packets"), name("late_packets"));
                return Err(refused(&name("packet_bytes"), &bytes, reason));
            }
            return Ok(Demand::Rate {
                rate,
                probability: probability("rate")?,
            });
        };
        if let Some(text) = &self.probability {
            return Err(without("probability", text, "late_packets"));
        }
        Ok(Demand::Late {
            rate,
            packet_bytes: packet_bytes("late_packets")?,
            late_packets,
        })
    }
}

/// A guarantee in words, such as `22.0 Mbit/s in 95 % of all windows of 1 s`.
pub fn words(guarantee: &Guarantee) -> String {
    let window = format!("{} s", guarantee.window.as_secs_f64());
    let words = match guarantee.demand {
        Demand::Rate { rate, probability } => {
            let percent = percent_of(probability);
            format!("{rate} in {percent} of all windows of {window}")
        }
        Demand::Packets {
            serve,
            of,
            packet_bytes,
            probability,
        } => {
            let percent = percent_of(probability);
            format!(
                "{serve} of {of} packets of {packet_bytes} bytes in {percent} of all windows of {window}"
            )
        }
        Demand::Late {
            rate,
            packet_bytes,
            late_packets,
        } => format!(
            "{rate} with at most {late_packets} packets of {packet_bytes} bytes late in a window of {window} on average"
        ),
    };
    let levels: Vec<String> = guarantee
        .levels
        .into_iter()
        .map(|rate| rate.to_string())
        .collect();
    let levels = match levels.is_empty() {
        true => String::new(),
        false => format!(", of levels {}", levels.join(", ")),
    };
    let reaction = match guarantee.on_warning {
        OnWarning::Stay => "",
        OnWarning::TakeOffer => ", takes an offer when warned",
        OnWarning::Close => ", closes when warned",
    };
    format!("{words}{levels}{reaction}")
}

/// A time with its unit, such as `500 ms` or `10 min`.
///
/// # Errors
/// It is not one; the message has the units.
pub fn time_of(text: &str) -> Result<Duration, String> {
    time(text)
}

/// A probability as a percentage, such as `99.5 %`.
pub fn percent_of(probability: f64) -> String {
    format!("{} %", (probability * 1e8).round() / 1e6)
}

fn text_of(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}

fn nanoseconds(time: Duration) -> String {
    format!("{} ns", time.as_nanos())
}

fn bits(rate: Rate) -> String {
    format!("{} bit/s", rate.as_bps())
}

/// Name of a drop order, as [`SpecText::drop`] has it.
pub(crate) fn drop_name(order: DropOrder) -> &'static str {
    match order {
        DropOrder::Oldest => "oldest",
        DropOrder::Newest => "newest",
        DropOrder::LeastImportant => "least_important",
    }
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "ordered" => Ok(Order::Ordered),
        "unordered" => Ok(Order::Unordered),
        "newest_first" => Ok(Order::NewestFirst),
        _ => Err("give \"ordered\", \"unordered\" or \"newest_first\"".to_owned()),
    }
}

pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    match text {
        "scavenger" => Ok(Priority::SCAVENGER),
        "bulk" => Ok(Priority::BULK),
        "normal" => Ok(Priority::NORMAL),
        "urgent" => Ok(Priority::URGENT),
        number => number.parse().map(Priority).map_err(|_| {
            "give \"scavenger\", \"bulk\", \"normal\", \"urgent\", or a number from 0 to 255"
                .to_owned()
        }),
    }
}

pub(crate) fn drop_order(text: &str) -> Result<Option<DropOrder>, String> {
    match text {
        "none" => Ok(None),
        "oldest" => Ok(Some(DropOrder::Oldest)),
        "newest" => Ok(Some(DropOrder::Newest)),
        "least_important" => Ok(Some(DropOrder::LeastImportant)),
        _ => Err("give \"none\", \"oldest\", \"newest\" or \"least_important\"".to_owned()),
    }
}

fn grade(text: &str) -> Result<Grade, String> {
    match text {
        "best" => Ok(Grade::Best),
        "durable" => Ok(Grade::Durable),
        "renewable" => Ok(Grade::Renewable),
        _ => Err("give \"best\", \"durable\" or \"renewable\"".to_owned()),
    }
}

fn packets(text: &str) -> Result<(u32, u32), String> {
    let pair = text.split_once('/');
    let number = |part: &str| part.trim().parse::<u32>().ok();
    pair.and_then(|(serve, of)| Some((number(serve)?, number(of)?)))
        .ok_or_else(|| "give two numbers such as \"80/100\", 80 of 100 packets".to_owned())
}

#[cfg(test)]
mod tests;
