//! Structure of the text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::JsonError;
use crate::{
    types::Type,
    vocabulary::{Vocabulary, VocabularyError},
};

/// Largest number of ADUs, slots, streams, channels or correlations.
pub(super) const ENTRIES_MAX: usize = 100_000;

/// A schedule as JSON. Absent numbers are unknown. `docs/hose.md` describes every key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Texts of the objectives that were in force.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<String>,
    /// Types of the header fields that the application gave ADUs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Type>,
    /// Types of attributes of channels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Type>,
    /// By a name that slots give.
    pub channels: BTreeMap<String, ChannelEntry>,
    /// Slots that exist, and phantoms.
    pub slots: Vec<SlotEntry>,
    /// Measurements of streams.
    pub streams: Vec<StreamEntry>,
    /// ADUs that wait, and those that were sent before.
    pub adus: Vec<AduEntry>,
    /// Correlation of losses where it is known.
    pub correlated_loss: Vec<CorrelationEntry>,
}

/// A channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelEntry {
    /// Its name as objectives know it, if it is not the key: several channels may have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number by which applications know it.
    pub id: Option<u64>,
    /// Its technology.
    pub technology: Option<String>,
    /// True if its bytes are paid for.
    pub metered: Option<bool>,
    /// Rate that it is expected to carry.
    pub rate_bps: Option<f64>,
    /// Other attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
}

/// A slot: the permission to send one packet on a channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlotEntry {
    /// Key of the channel.
    pub channel: Option<String>,
    /// Milliseconds until it exists; 0 for one that does.
    pub wait_ms: f64,
    /// Probability that it will exist by then.
    pub confidence: f64,
    /// Probability that the packet is lost.
    pub loss: Option<f64>,
    /// Mean round trip in milliseconds,
    pub rtt_ms: Option<f64>,
    /// and its standard deviation.
    pub rtt_deviation_ms: f64,
    /// Cost of the packet,
    pub cost: f64,
    /// and of each of its bytes.
    pub cost_per_byte: f64,
    /// Payload that fits; `None`: any.
    pub bytes_max: Option<u64>,
}

impl Default for SlotEntry {
    fn default() -> Self {
        Self {
            channel: None,
            wait_ms: 0.0,
            confidence: 1.0,
            loss: None,
            rtt_ms: None,
            rtt_deviation_ms: 0.0,
            cost: 0.0,
            cost_per_byte: 0.0,
            bytes_max: None,
        }
    }
}

impl SlotEntry {
    /// True if it does not exist yet.
    pub fn is_phantom(&self) -> bool {
        self.wait_ms > 0.0 || self.confidence < 1.0
    }
}

/// Measurements of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamEntry {
    /// Its id.
    pub stream_id: u64,
    /// Its label.
    pub label: Option<String>,
    /// Mean latency of its ADUs in milliseconds,
    pub latency_mean_ms: Option<f64>,
    /// and its standard deviation.
    pub latency_deviation_ms: Option<f64>,
    /// Fraction of its ADUs that were lost.
    pub loss_rate: Option<f64>,
    /// Mean difference of the latencies of consecutive ADUs.
    pub jitter_ms: Option<f64>,
}

/// An ADU, or the fragment of one that a packet takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AduEntry {
    /// Its stream.
    pub stream_id: u64,
    /// Its number in the stream.
    pub stream_seq: u64,
    /// Bytes of the whole ADU.
    pub length: Option<u64>,
    /// Bytes that the packet takes, if it is a fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Milliseconds since it was handed over.
    #[serde(default)]
    pub queue_delay_ms: f64,
    /// Milliseconds from then until it is of no use.
    pub deadline_ms: Option<f64>,
    /// Label of its stream.
    pub label: Option<String>,
    /// Header fields.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Value>,
    /// Keys of the channels that it may use; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<String>>,
    /// Index into the slots; `None` if it is not sent.
    pub slot: Option<usize>,
    /// Outcome of an ADU that was sent before, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// True if it was sent before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sent: bool,
}

impl AduEntry {
    /// True if it may still be put into another slot.
    pub fn is_waiting(&self) -> bool {
        !self.sent && self.outcome.is_none()
    }
}

/// Outcome of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Acknowledged this many milliseconds after it was handed over.
    AckedMs(f64),
    /// Lost.
    Lost,
}

/// Correlation of the losses of two slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorrelationEntry {
    /// Their indices.
    pub slots: [usize; 2],
    /// P(both are lost | either is lost).
    pub probability: f64,
}

/// Value of a field or an attribute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A truth value.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
}

impl Document {
    /// Fields of ADUs and attributes of channels, with their types, to which texts of objectives are added.
    ///
    /// # Errors
    /// A name or a type is invalid, or there are too many.
    pub fn vocabulary(&self) -> Result<Vocabulary, VocabularyError> {
        let mut vocabulary = Vocabulary::default();
        for (name, kind) in &self.fields {
            vocabulary.declare(name, *kind)?;
        }
        for (name, kind) in &self.attributes {
            vocabulary.declare_attribute(name, *kind)?;
        }
        Ok(vocabulary)
    }

    /// Checks ranges, and that slots exist and carry one ADU each.
    pub(super) fn check(&self) -> Result<(), JsonError> {
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
            positive(place, "wait_ms", Some(slot.wait_ms))?;
            probability(place, "confidence", Some(slot.confidence))?;
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
