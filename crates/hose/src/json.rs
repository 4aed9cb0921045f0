//! Schedules in JSON, for evaluating objectives outside of a session. The format is in `docs/hose.md`.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_base::StreamId;
use serde::Deserialize;

use crate::{
    evaluate::Schedule,
    fact::{AduFact, FieldId, StreamFact, symbol},
    types::Type,
    vocabulary::Vocabulary,
};

/// Largest number of ADUs, slots, streams, channels or correlations.
const ENTRIES_MAX: usize = 100_000;

/// Deserialised form of the text.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    channels: BTreeMap<String, ChannelEntry>,
    #[serde(default)]
    slots: Vec<SlotEntry>,
    #[serde(default)]
    streams: Vec<StreamEntry>,
    #[serde(default)]
    adus: Vec<AduEntry>,
    #[serde(default)]
    correlated_loss: Vec<CorrelationEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChannelEntry {
    id: Option<u64>,
    technology: Option<String>,
    metered: Option<bool>,
    rate_bps: Option<f64>,
    #[serde(default)]
    attributes: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlotEntry {
    channel: Option<String>,
    loss: Option<f64>,
    rtt_ms: Option<f64>,
    #[serde(default)]
    rtt_deviation_ms: f64,
    #[serde(default)]
    cost: f64,
    #[serde(default)]
    cost_per_byte: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamEntry {
    stream_id: u64,
    label: Option<String>,
    latency_mean_ms: Option<f64>,
    latency_deviation_ms: Option<f64>,
    loss_rate: Option<f64>,
    jitter_ms: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AduEntry {
    stream_id: u64,
    stream_seq: u64,
    length: Option<u64>,
    #[serde(default)]
    queue_delay_ms: f64,
    deadline_ms: Option<f64>,
    label: Option<String>,
    #[serde(default)]
    fields: BTreeMap<String, Value>,
    /// Index into `slots`; none if it is not sent.
    slot: Option<usize>,
    /// Outcome of an ADU that was sent before.
    outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// Acknowledged this many milliseconds after its injection.
    AckedMs(f64),
    Lost,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CorrelationEntry {
    slots: [usize; 2],
    probability: f64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Value {
    Boolean(bool),
    Number(f64),
    Text(String),
}

/// Error of reading a schedule.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// It is not JSON, or has another structure.
    #[error("not a schedule: {0}")]
    Shape(#[from] serde_json::Error),
    /// A list is too long.
    #[error("a schedule has at most {ENTRIES_MAX} {0}")]
    TooMany(&'static str),
    /// A number is out of its range.
    #[error("{place}: '{name}' is {value}; it must be {range}")]
    Range {
        /// Place of the entry.
        place: String,
        /// Key within the entry.
        name: &'static str,
        /// The value.
        value: f64,
        /// Permitted range.
        range: &'static str,
    },
    /// A slot that does not exist, or already carries another ADU.
    #[error("{place}: {words}")]
    Slot {
        /// Place of the entry.
        place: String,
        /// Description of the error.
        words: String,
    },
    /// A field whose type differs from that known to the objectives.
    #[error("{place}: the field '{name}' must be {wanted}")]
    Type {
        /// Place of the entry.
        place: String,
        /// The field.
        name: String,
        /// The expected type.
        wanted: Type,
    },
}

/// A schedule that was read from JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonSchedule {
    document: Document,
    /// Fields of each ADU, by [`FieldId`]; NaN for missing ones.
    fields: Vec<Vec<f64>>,
    /// Attributes of each channel, as `fields`.
    attributes: BTreeMap<String, Vec<f64>>,
    streams: BTreeMap<u64, usize>,
    correlations: BTreeMap<(usize, usize), f64>,
}

impl JsonSchedule {
    /// Reads a schedule. `vocabulary` lists the fields that objectives use; others are ignored.
    ///
    /// # Errors
    /// The text is not a schedule, or a number is out of range; the error gives the reason.
    pub fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self, JsonError> {
        let document: Document = serde_json::from_str(text)?;
        document.check()?;
        let mut fields = Vec::with_capacity(document.adus.len());
        for (index, adu) in document.adus.iter().enumerate() {
            let place = || format!("adus[{index}]");
            fields.push(resolve(&adu.fields, false, vocabulary, place)?);
        }
        let mut attributes = BTreeMap::new();
        for (name, channel) in &document.channels {
            let place = || format!("channels.{name}");
            let values = resolve(&channel.attributes, true, vocabulary, place)?;
            attributes.insert(name.clone(), values);
        }
        let streams = document.streams.iter().enumerate();
        let correlations = document.correlated_loss.iter().map(|entry| {
            let [one, other] = entry.slots;
            ((one.min(other), one.max(other)), entry.probability)
        });
        Ok(Self {
            streams: streams.map(|(at, stream)| (stream.stream_id, at)).collect(),
            correlations: correlations.collect(),
            fields,
            attributes,
            document,
        })
    }

    fn slot(&self, adu: &AduEntry) -> Option<&SlotEntry> {
        self.document.slots.get(adu.slot?)
    }

    fn channel(&self, adu: &AduEntry) -> Option<(&str, &ChannelEntry)> {
        let name = self.slot(adu)?.channel.as_deref()?;
        Some((name, self.document.channels.get(name)?))
    }

    fn loss(&self, adu: &AduEntry) -> Option<f64> {
        match adu.outcome {
            Some(Outcome::Lost) => Some(1.0),
            Some(Outcome::AckedMs(_)) => Some(0.0),
            None => self.slot(adu)?.loss,
        }
    }

    fn latency(&self, adu: &AduEntry) -> Option<f64> {
        match adu.outcome {
            Some(Outcome::Lost) => None,
            Some(Outcome::AckedMs(ms)) => Some(ms),
            None => Some(adu.queue_delay_ms + self.slot(adu)?.rtt_ms?),
        }
    }

    fn deviation(&self, adu: &AduEntry) -> Option<f64> {
        match adu.outcome {
            Some(_) => Some(0.0),
            None => Some(self.slot(adu)?.rtt_deviation_ms),
        }
    }

    /// Probability of being lost or later than the deadline; latency as a normal variable [Horde §7.2.1].
    fn late(&self, adu: &AduEntry) -> Option<f64> {
        let loss = self.loss(adu)?;
        let Some(deadline) = adu.deadline_ms else {
            return Some(loss);
        };
        if loss >= 1.0 {
            return Some(1.0);
        }
        let (mean, deviation) = (self.latency(adu)?, self.deviation(adu)?);
        let beyond = if deviation > 0.0 {
            upper_tail((deadline - mean) / deviation)
        } else {
            f64::from(u8::from(mean > deadline))
        };
        Some(loss + (1.0 - loss) * beyond)
    }

    fn answer(&self, number: u32, fact: AduFact) -> Option<f64> {
        let adu = self.document.adus.get(number as usize)?;
        let truth = |value: bool| f64::from(u8::from(value));
        match fact {
            AduFact::StreamId => Some(adu.stream_id as f64),
            AduFact::StreamSeq => Some(adu.stream_seq as f64),
            AduFact::Length => adu.length.map(|bytes| bytes as f64),
            AduFact::QueueDelay => Some(adu.queue_delay_ms),
            AduFact::Deadline => adu.deadline_ms,
            AduFact::Label => adu.label.as_deref().map(symbol),
            AduFact::Field(FieldId(id)) => self
                .fields
                .get(number as usize)?
                .get(usize::from(id))
                .copied(),
            AduFact::Loss => self.loss(adu),
            AduFact::Latency => self.latency(adu),
            AduFact::Jitter => self.deviation(adu),
            AduFact::Late => self.late(adu),
            AduFact::Cost => {
                let slot = self.slot(adu)?;
                Some(slot.cost + slot.cost_per_byte * adu.length? as f64)
            }
            AduFact::ChannelId => self.channel(adu)?.1.id.map(|id| id as f64),
            AduFact::ChannelName => self.slot(adu)?.channel.as_deref().map(symbol),
            AduFact::ChannelTechnology => self.channel(adu)?.1.technology.as_deref().map(symbol),
            AduFact::ChannelMetered => self.channel(adu)?.1.metered.map(truth),
            AduFact::ChannelRate => self.channel(adu)?.1.rate_bps,
            AduFact::ChannelField(FieldId(id)) => {
                let values = self.attributes.get(self.channel(adu)?.0)?;
                values.get(usize::from(id)).copied()
            }
        }
    }

    /// P(both are lost | either is lost) as the schedule specifies it, or P(both) / P(either) for independent losses.
    fn correlation(&self, one: u32, other: u32) -> Option<f64> {
        let (one, other) = (
            self.document.adus.get(one as usize)?,
            self.document.adus.get(other as usize)?,
        );
        if let (None, None, Some(a), Some(b)) = (one.outcome, other.outcome, one.slot, other.slot)
            && let Some(&known) = self.correlations.get(&(a.min(b), a.max(b)))
        {
            return Some(known);
        }
        let (p, q) = (self.loss(one)?, self.loss(other)?);
        let either = p + q - p * q;
        Some(if either > 0.0 { p * q / either } else { 0.0 })
    }
}

impl Schedule for JsonSchedule {
    fn adus(&self) -> u32 {
        self.document.adus.len() as u32
    }

    fn is_sent(&self, adu: u32) -> bool {
        let adu = self.document.adus.get(adu as usize);
        adu.is_some_and(|adu| adu.slot.is_some() || adu.outcome.is_some())
    }

    fn adu(&self, adu: u32, fact: AduFact) -> f64 {
        self.answer(adu, fact).unwrap_or(f64::NAN)
    }

    fn stream(&self, stream: StreamId, fact: StreamFact) -> f64 {
        let at = self.streams.get(&stream.0);
        let known = at.and_then(|&at| {
            let entry = self.document.streams.get(at)?;
            match fact {
                StreamFact::StreamId => Some(entry.stream_id as f64),
                StreamFact::LatencyMean => entry.latency_mean_ms,
                StreamFact::LatencyDeviation => entry.latency_deviation_ms,
                StreamFact::LossRate => entry.loss_rate,
                StreamFact::Jitter => entry.jitter_ms,
            }
        });
        known.unwrap_or(f64::NAN)
    }

    fn labelled(&self, number: u32) -> Option<(StreamId, f64)> {
        let entry = self.document.streams.get(number as usize)?;
        let label = entry.label.as_deref().map_or(f64::NAN, symbol);
        Some((StreamId(entry.stream_id), label))
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        self.correlation(one, other).unwrap_or(f64::NAN)
    }
}

impl Document {
    /// Checks ranges, and that slots exist and carry one ADU each.
    fn check(&self) -> Result<(), JsonError> {
        for (count, what) in [
            (self.channels.len(), "channels"),
            (self.slots.len(), "slots"),
            (self.streams.len(), "streams"),
            (self.adus.len(), "ADUs"),
            (self.correlated_loss.len(), "correlations"),
        ] {
            if count > ENTRIES_MAX {
                return Err(JsonError::TooMany(what));
            }
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let place = || format!("slots[{index}]");
            probability(place, "loss", slot.loss)?;
            positive(place, "rtt_ms", slot.rtt_ms)?;
            positive(place, "rtt_deviation_ms", Some(slot.rtt_deviation_ms))?;
            positive(place, "cost", Some(slot.cost))?;
            positive(place, "cost_per_byte", Some(slot.cost_per_byte))?;
        }
        for (index, stream) in self.streams.iter().enumerate() {
            let place = || format!("streams[{index}]");
            probability(place, "loss_rate", stream.loss_rate)?;
            positive(place, "latency_mean_ms", stream.latency_mean_ms)?;
            positive(place, "latency_deviation_ms", stream.latency_deviation_ms)?;
            positive(place, "jitter_ms", stream.jitter_ms)?;
        }
        for (index, entry) in self.correlated_loss.iter().enumerate() {
            let place = || format!("correlated_loss[{index}]");
            probability(place, "probability", Some(entry.probability))?;
            if let Some(slot) = entry.slots.iter().find(|slot| **slot >= self.slots.len()) {
                return Err(self.no_slot(place(), *slot));
            }
        }
        let mut taken = BTreeSet::new();
        for (index, adu) in self.adus.iter().enumerate() {
            let place = || format!("adus[{index}]");
            positive(place, "queue_delay_ms", Some(adu.queue_delay_ms))?;
            positive(place, "deadline_ms", adu.deadline_ms)?;
            if let Some(Outcome::AckedMs(ms)) = adu.outcome {
                positive(place, "acked_ms", Some(ms))?;
            }
            match adu.slot {
                Some(slot) if slot >= self.slots.len() => return Err(self.no_slot(place(), slot)),
                Some(slot) if !taken.insert(slot) => {
                    return Err(JsonError::Slot {
                        place: place(),
                        words: format!("slot {slot} already carries another ADU"),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn no_slot(&self, place: String, slot: usize) -> JsonError {
        let words = format!("there is no slot {slot}; there are {}", self.slots.len());
        JsonError::Slot { place, words }
    }
}

fn probability(
    place: impl Fn() -> String,
    name: &'static str,
    value: Option<f64>,
) -> Result<(), JsonError> {
    let range = "a probability from 0 to 1";
    within(place, name, value, 1.0, range)
}

fn positive(
    place: impl Fn() -> String,
    name: &'static str,
    value: Option<f64>,
) -> Result<(), JsonError> {
    within(place, name, value, f64::MAX, "0 or more")
}

fn within(
    place: impl Fn() -> String,
    name: &'static str,
    value: Option<f64>,
    max: f64,
    range: &'static str,
) -> Result<(), JsonError> {
    match value {
        Some(value) if !(0.0..=max).contains(&value) => Err(JsonError::Range {
            place: place(),
            name,
            value,
            range,
        }),
        _ => Ok(()),
    }
}

/// Converts named values to a vector by field number.
fn resolve(
    values: &BTreeMap<String, Value>,
    of_channel: bool,
    vocabulary: &Vocabulary,
    place: impl Fn() -> String,
) -> Result<Vec<f64>, JsonError> {
    let mut resolved = vec![f64::NAN; vocabulary.fields().len()];
    for (name, value) in values {
        let Some((id, wanted)) = vocabulary.find(name, of_channel) else {
            continue;
        };
        resolved[usize::from(id.0)] = match (value, wanted) {
            (Value::Number(number), Type::Numeric) => *number,
            (Value::Boolean(truth), Type::Boolean) => f64::from(u8::from(*truth)),
            (Value::Text(text), Type::String) => symbol(text),
            _ => {
                return Err(JsonError::Type {
                    place: place(),
                    name: name.clone(),
                    wanted,
                });
            }
        };
    }
    Ok(resolved)
}

/// P(Z > z) of a standard normal variable, to 1.5 · 10⁻⁷ [Abramowitz and Stegun, 7.1.26].
fn upper_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let tail = 0.5 * poly * (-x * x).exp();
    if z >= 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_tail_is_as_in_tables() {
        for (z, tail) in [
            (0.0, 0.5),
            (1.0, 0.158_655),
            (1.96, 0.024_998),
            (-2.0, 0.977_25),
        ] {
            assert!((upper_tail(z) - tail).abs() < 1e-5, "{z}");
        }
    }

    #[test]
    fn independent_losses_and_late_ones() {
        let text = r#"{"slots": [{"loss": 0.5, "rtt_ms": 100, "rtt_deviation_ms": 10}, {"loss": 0.5}],
            "adus": [{"stream_id": 1, "stream_seq": 1, "deadline_ms": 110, "queue_delay_ms": 10, "slot": 0},
                     {"stream_id": 1, "stream_seq": 2, "slot": 1}]}"#;
        let schedule = JsonSchedule::parse(text, &Vocabulary::default()).unwrap();
        assert!((schedule.correlated_loss(0, 1) - 1.0 / 3.0).abs() < 1e-12);
        assert!((schedule.adu(0, AduFact::Late) - 0.75).abs() < 1e-6);
        assert_eq!(schedule.adu(1, AduFact::Late), 0.5);
        assert!(schedule.adu(1, AduFact::Latency).is_nan());
    }

    #[test]
    fn errors_name_their_place() {
        let parse = |text: &str| {
            let parsed = JsonSchedule::parse(text, &Vocabulary::default());
            parsed.unwrap_err().to_string()
        };
        assert!(parse("{").starts_with("not a schedule: "));
        assert!(parse(r#"{"slot": []}"#).contains("unknown field `slot`"));
        let error = parse(r#"{"slots": [{"loss": 30}]}"#);
        assert_eq!(
            error,
            "slots[0]: 'loss' is 30; it must be a probability from 0 to 1"
        );
        let adu = r#"{"stream_id": 1, "stream_seq": 1, "slot": 0}"#;
        let error = parse(&format!(r#"{{"adus": [{adu}]}}"#));
        assert_eq!(error, "adus[0]: there is no slot 0; there are 0");
        let error = parse(&format!(r#"{{"slots": [{{}}], "adus": [{adu}, {adu}]}}"#));
        assert_eq!(error, "adus[1]: slot 0 already carries another ADU");
    }
}
