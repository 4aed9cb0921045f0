//! A schedule that was read, as objectives see it.

use std::collections::BTreeMap;

use anabranch_base::StreamId;

use super::{
    JsonError,
    document::{AduEntry, ChannelEntry, Document, Outcome, SlotEntry, Value},
};
use crate::{
    evaluate::Schedule,
    fact::{AduFact, FieldId, StreamFact, symbol_of},
    types::Type,
    vocabulary::Vocabulary,
};

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
        Self::new(serde_json::from_str(text)?, vocabulary)
    }

    /// As [`parse`](Self::parse), from a text that was read.
    ///
    /// # Errors
    /// A number is out of range, or a slot does not exist; the error gives the reason.
    pub fn new(document: Document, vocabulary: &Vocabulary) -> Result<Self, JsonError> {
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

    /// The text.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// Puts an ADU into another slot; returns the one that it had.
    pub(super) fn put(&mut self, adu: usize, slot: Option<usize>) -> Option<usize> {
        std::mem::replace(&mut self.document.adus[adu].slot, slot)
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
            None => {
                let slot = self.slot(adu)?;
                Some(adu.queue_delay_ms + slot.wait_ms + slot.rtt_ms?)
            }
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
            AduFact::Label => adu.label.as_deref().map(symbol_of),
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
                Some(slot.cost + slot.cost_per_byte * adu.bytes.or(adu.length)? as f64)
            }
            AduFact::ChannelId => self.channel(adu)?.1.id.map(|id| id as f64),
            AduFact::ChannelName => {
                let key = self.slot(adu)?.channel.as_deref()?;
                let entry = self.document.channels.get(key);
                let name = entry.and_then(|entry| entry.name.as_deref());
                Some(symbol_of(name.unwrap_or(key)))
            }
            AduFact::ChannelTechnology => self.channel(adu)?.1.technology.as_deref().map(symbol_of),
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
        if let (Some(a), Some(b)) = (one.slot, other.slot)
            && let Some(&known) = self.correlations.get(&(a.min(b), a.max(b)))
        {
            match (one.outcome, other.outcome) {
                (None, None) => return Some(known),
                // One is lost: P(the other is, too), both being as likely to be lost.
                (Some(Outcome::Lost), None) | (None, Some(Outcome::Lost)) => {
                    return Some(2.0 * known / (1.0 + known));
                }
                _ => {}
            }
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
        let label = entry.label.as_deref().map_or(f64::NAN, symbol_of);
        Some((StreamId(entry.stream_id), label))
    }

    fn correlated_loss(&self, one: u32, other: u32) -> f64 {
        self.correlation(one, other).unwrap_or(f64::NAN)
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
            (Value::Text(text), Type::String) => symbol_of(text),
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
pub(super) fn upper_tail(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let tail = 0.5 * poly * (-x * x).exp();
    if z >= 0.0 { tail } else { 1.0 - tail }
}
