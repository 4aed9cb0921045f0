//! Captured cycles: the input of one plan and its result, as a schedule in the JSON format of HOSE.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_hose::{
    Type,
    json::{
        AduEntry, ChannelEntry, CorrelationEntry, Document, Outcome, SlotEntry, StreamEntry, Value,
    },
    symbol, symbol_text,
};
use anabranch_sched::objective as sched;
use anabranch_spec::Slot;

use super::{Session, pump::Run};
use crate::local::Attribute;

/// The capture of a cycle.
#[derive(Debug)]
pub(super) enum Capture {
    /// The next plan in which so many ADUs wait is captured.
    Wanted(usize),
    /// It was.
    Taken(Box<Document>),
}

impl Session {
    /// Captures the next plan in which so many ADUs wait, or fragments of them; replaces an earlier capture. False if the
    /// policy does not plan with the objectives in force.
    pub(crate) fn capture_cycle(&mut self, least_adus: usize) -> bool {
        let scheduling = &mut self.scheduling;
        let objectives = scheduling.objectives.in_force();
        let is_planning = scheduling.scheduler.prepare(objectives).is_some();
        scheduling.planning.capture = is_planning.then_some(Capture::Wanted(least_adus.max(1)));
        self.pump.is_due = true;
        is_planning
    }

    /// The captured cycle, once.
    pub(crate) fn take_cycle(&mut self) -> Option<Document> {
        let capture = &mut self.scheduling.planning.capture;
        match capture.take() {
            Some(Capture::Taken(document)) => Some(*document),
            other => {
                *capture = other;
                None
            }
        }
    }

    /// Captures the cycle that was planned, if one is wanted.
    pub(super) fn capture_planned(&mut self, run: &Run<'_>) {
        let planning = &self.scheduling.planning;
        let Some(Capture::Wanted(least)) = planning.capture else {
            return;
        };
        let Some(slots) = self.scheduling.scheduler.planned() else {
            return;
        };
        if slots.len() < least || slots.len() != planning.cycle.adus.len() {
            return;
        }
        let document = Box::new(self.document(run, slots));
        self.scheduling.planning.capture = Some(Capture::Taken(document));
    }

    fn document(&self, run: &Run<'_>, slots: &[Option<u32>]) -> Document {
        let cycle = &self.scheduling.planning.cycle;
        let objectives = &self.scheduling.objectives;
        let names = self.names(run);
        let vocabulary = objectives.in_force().vocabulary();
        let types = |of_channel: bool| {
            let fields = vocabulary.fields().iter();
            let fields = fields.filter(move |field| field.of_channel == of_channel);
            fields
                .map(|field| (field.name.clone(), field.value))
                .collect()
        };
        let mut document = Document {
            objectives: (objectives.in_force().iter())
                .map(|(_, objective)| objective.alone())
                .collect(),
            fields: types(false),
            attributes: types(true),
            slots: (cycle.slots.iter()).map(|slot| names.slot(slot)).collect(),
            streams: cycle.streams.iter().map(|s| names.stream(s)).collect(),
            ..Document::default()
        };
        for (channel, (key, entry)) in cycle.channels.iter().zip(&names.channels) {
            let entry = ChannelEntry {
                id: Some(channel.id),
                metered: Some(channel.is_metered),
                rate_bps: known(channel.rate_bps),
                ..entry.clone()
            };
            document.channels.insert(key.clone(), entry);
        }
        let entry = |adu: &sched::Adu| {
            let fields = adu.fields.values().iter().zip(vocabulary.fields());
            AduEntry {
                stream_id: adu.stream.0,
                stream_seq: adu.sequence,
                length: Some(u64::from(adu.length)),
                bytes: (adu.bytes != adu.length).then_some(u64::from(adu.bytes)),
                queue_delay_ms: adu.waited_ms,
                deadline_ms: known(adu.deadline_ms),
                label: names.text(adu.label),
                fields: fields
                    .filter_map(|(value, field)| {
                        Some((field.name.clone(), names.value(*value, field.value)?))
                    })
                    .collect(),
                channels: names.permitted(adu),
                slot: None,
                outcome: None,
                sent: false,
            }
        };
        for (adu, slot) in cycle.adus.iter().zip(slots) {
            document.adus.push(AduEntry {
                slot: slot.map(|slot| slot as usize),
                ..entry(adu)
            });
        }
        let mut all: Vec<(usize, Slot)> = correlated(&document, &cycle.slots);
        for sent in &cycle.history {
            let slot = document.slots.len();
            document.slots.push(names.slot(&sent.slot));
            all.push((slot, sent.slot));
            document.adus.push(AduEntry {
                slot: Some(slot),
                sent: true,
                outcome: match sent.outcome {
                    sched::Outcome::Open => None,
                    sched::Outcome::Acked { latency_ms } => Some(Outcome::AckedMs(latency_ms)),
                    sched::Outcome::Lost => Some(Outcome::Lost),
                },
                ..entry(&sent.adu)
            });
        }
        if self.scheduling.planning.has_history {
            for (at, (one, a)) in all.iter().enumerate() {
                let pairs = all[at + 1..].iter().map(|(other, b)| CorrelationEntry {
                    slots: [*one, *other],
                    probability: cycle.correlation.both(a, b),
                });
                document.correlated_loss.extend(pairs);
            }
        }
        document
    }

    /// Names of channels, and texts of symbols, in the present cycle.
    fn names(&self, run: &Run<'_>) -> Names<'_> {
        let mut names = Names {
            session: self,
            texts: BTreeMap::new(),
            channels: Vec::new(),
        };
        for send in self.streams.send.values() {
            names.note(&send.spec.label);
        }
        let mut keys = BTreeSet::new();
        for view in &run.scratch.channels {
            let state = self.channels.get(view.id);
            let description = state.map(|state| &state.description);
            let number = view.id.to_string();
            let name = description.and_then(|known| known.name.as_deref());
            let name = name.unwrap_or(&number).to_owned();
            let is_first = keys.insert(name.clone());
            let recognised = || Some(self.channels.estimator.technology(view.id)?.name());
            let technology = description.and_then(|known| known.technology.as_deref());
            let attributes = description.map(|known| known.attributes.as_slice());
            let value = |attribute: &Attribute| match attribute {
                Attribute::Number(number) => Value::Number(*number),
                Attribute::Boolean(truth) => Value::Boolean(*truth),
                Attribute::Text(text) => Value::Text(text.to_string()),
            };
            let entry = ChannelEntry {
                name: (!is_first).then(|| name.clone()),
                technology: technology.or_else(recognised).map(str::to_owned),
                attributes: (attributes.unwrap_or_default().iter())
                    .map(|(name, attribute)| (name.to_string(), value(attribute)))
                    .collect(),
                ..ChannelEntry::default()
            };
            let key = match is_first {
                true => name,
                false => format!("{name} ({number})"),
            };
            names.channels.push((key, entry));
        }
        names
    }
}

/// Slots whose correlation may be asked for: those that carry ADUs, and the first others of each channel.
fn correlated(document: &Document, slots: &[Slot]) -> Vec<(usize, Slot)> {
    let taken: BTreeSet<usize> = document.adus.iter().filter_map(|adu| adu.slot).collect();
    let mut firsts = BTreeSet::new();
    let mut is_asked = |(at, slot): &(usize, Slot)| {
        taken.contains(at) || firsts.insert((slot.channel, slot.is_phantom()))
    };
    let all = slots.iter().copied().enumerate();
    all.filter(|slot| is_asked(slot)).collect()
}

/// Texts of what a cycle knows by number.
struct Names<'s> {
    session: &'s Session,
    texts: BTreeMap<u64, &'s str>,
    /// Key and description of each channel of the cycle.
    channels: Vec<(String, ChannelEntry)>,
}

impl<'s> Names<'s> {
    fn note(&mut self, text: &'s str) {
        self.texts.insert(symbol(text) as u64, text);
    }

    /// Text of a symbol, or what stands for one that is not known.
    fn text(&self, symbol: f64) -> Option<String> {
        let known = known(symbol)?;
        let objectives = &self.session.scheduling.objectives;
        let text = self.texts.get(&(known as u64)).copied();
        let text = text.or_else(|| objectives.text(known));
        Some(text.map_or_else(|| symbol_text(known), str::to_owned))
    }

    fn value(&self, value: f64, kind: Type) -> Option<Value> {
        let value = known(value)?;
        Some(match kind {
            Type::Boolean => Value::Boolean(value != 0.0),
            Type::String => Value::Text(self.text(value)?),
            _ => Value::Number(value),
        })
    }

    fn key(&self, channel: usize) -> Option<String> {
        Some(self.channels.get(channel)?.0.clone())
    }

    fn slot(&self, slot: &Slot) -> SlotEntry {
        SlotEntry {
            channel: self.key(slot.channel as usize),
            wait_ms: slot.wait_ms,
            confidence: slot.confidence,
            loss: known(slot.loss),
            rtt_ms: known(slot.round_trip_ms),
            rtt_deviation_ms: slot.deviation_ms,
            cost_per_byte: slot.cost_per_byte,
            bytes_max: Some(u64::from(slot.bytes_max)),
            ..SlotEntry::default()
        }
    }

    fn stream(&self, stream: &sched::Stream) -> StreamEntry {
        StreamEntry {
            stream_id: stream.id.0,
            label: self.text(stream.label),
            latency_mean_ms: known(stream.latency_ms),
            latency_deviation_ms: known(stream.deviation_ms),
            loss_rate: known(stream.loss),
            jitter_ms: known(stream.jitter_ms),
        }
    }

    /// Keys of the channels that an ADU may use; `None`: all of the cycle.
    fn permitted(&self, adu: &sched::Adu) -> Option<Vec<String>> {
        let mut channels = 0..self.channels.len();
        if channels.all(|channel| adu.channels.contains(channel)) {
            return None;
        }
        let permitted = adu.channels.iter().filter_map(|channel| self.key(channel));
        Some(permitted.collect())
    }
}

fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}
