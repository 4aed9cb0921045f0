//! Objectives in force, header fields of ADUs, and `rate` items, which become promises.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, StreamId};
use anabranch_hose::{
    FieldId, ObjectiveId, Objectives, RateDemand, RateObjective, Shape, Tally, Type,
    VocabularyError,
    evaluate::InjectError,
    provided::{Item, Provided},
    symbol,
    syntax::ast::VariableKind,
};
use anabranch_sched::objective::Fields;
use anabranch_spec::{Demand, Guarantee, GuaranteeError};

use super::Session;
use crate::{
    event::{Event, SessionEvent, StreamError},
    objective::{Entry, FieldValue, Injected, Kind, ObjectiveError},
    send::SendStream,
};

/// Time from one count of objectives over streams alone to the next.
const STREAMS_PERIOD: Duration = Duration::from_secs(1);

/// Strings that are kept of those that fields had,
const TEXTS_MAX: usize = 256;
/// and bytes of one.
const TEXT_BYTES_MAX: usize = 64;

/// Key: session.
#[derive(Debug, Default)]
pub(super) struct ActiveObjectives {
    set: Objectives,
    /// Fields that applications have given ADUs.
    given: BTreeSet<FieldId>,
    /// Strings that these had, by their symbols; the first [`TEXTS_MAX`].
    texts: BTreeMap<u64, Box<str>>,
    /// Time at which objectives over streams alone are to be counted next; `None` if there are none.
    streams_due: Option<Instant>,
}

impl ActiveObjectives {
    pub(super) fn in_force(&self) -> &Objectives {
        &self.set
    }

    pub(super) fn in_force_mut(&mut self) -> &mut Objectives {
        &mut self.set
    }

    /// Streams that objectives refer to by id.
    fn named(&self) -> BTreeSet<StreamId> {
        (self.set.iter())
            .flat_map(|(_, objective)| objective.variables())
            .filter(|variable| variable.kind() == VariableKind::Stream)
            .flat_map(|variable| variable.streams().unwrap_or_default())
            .copied()
            .collect()
    }

    /// Symbols of the labels by which objectives refer to streams.
    fn labels(&self) -> Vec<f64> {
        let objectives = self.set.iter();
        let labels = objectives.flat_map(|(_, objective)| objective.stream_labels());
        let labels: BTreeSet<&str> = labels.collect();
        labels.into_iter().map(symbol).collect()
    }

    /// True once every [`STREAMS_PERIOD`] while objectives over streams alone are in force.
    pub(super) fn are_streams_due(&mut self, now: Instant) -> bool {
        let is_due = self.streams_due.is_some_and(|due| due <= now);
        if is_due {
            self.streams_due = Some(now + STREAMS_PERIOD);
        }
        is_due
    }

    /// The symbol of a string that a field has.
    fn note_text(&mut self, text: &str) -> f64 {
        let symbol = symbol(text);
        let is_room = self.texts.len() < TEXTS_MAX && text.len() <= TEXT_BYTES_MAX;
        if is_room && !self.texts.contains_key(&(symbol as u64)) {
            self.texts.insert(symbol as u64, text.into());
        }
        symbol
    }

    /// The string with this symbol that a field had, if it was kept.
    pub(super) fn text(&self, symbol: f64) -> Option<&str> {
        self.texts.get(&(symbol as u64)).map(|text| &**text)
    }

    fn has(&self, shape: Shape) -> bool {
        let mut all = self.set.iter();
        all.any(|(_, objective)| objective.shape() == shape)
    }

    /// Header fields by number, from names and values; they override those that were set before.
    ///
    /// # Errors
    /// A name or type is invalid; then none is applied.
    pub(super) fn fields(
        &mut self,
        before: &Fields,
        given: &[(&str, FieldValue<'_>)],
    ) -> Result<Fields, VocabularyError> {
        let known = self.set.vocabulary();
        let is_known = |name: &str, kind: Type| {
            let id = known.field(name)?;
            let field = &known.fields()[usize::from(id.0)];
            (field.value == kind).then_some(id)
        };
        let is_undeclared =
            |(name, value): &(&str, FieldValue<'_>)| is_known(name, value.kind()).is_none();
        if given.iter().any(is_undeclared) {
            // All of them, or none.
            let mut trial = known.clone();
            for (name, value) in given {
                trial.declare(name, value.kind())?;
            }
            for (name, value) in given {
                self.set.declare(name, value.kind())?;
            }
        }
        let mut values = before.values().to_vec();
        for (name, value) in given {
            let Some(id) = self.set.vocabulary().field(name) else {
                continue;
            };
            self.given.insert(id);
            let at = usize::from(id.0);
            if values.len() <= at {
                values.resize(at + 1, f64::NAN);
            }
            values[at] = match *value {
                FieldValue::Number(number) => number,
                FieldValue::Boolean(truth) => f64::from(u8::from(truth)),
                FieldValue::Text(text) => self.note_text(text),
            };
        }
        Ok(Fields::new(&values))
    }
}

/// The guarantee that a `rate` item demands; it waits until it can be promised.
fn guarantee(rate: &RateObjective) -> Result<Guarantee, GuaranteeError> {
    let demand = match rate.demand {
        RateDemand::Probability(probability) => Demand::Rate {
            rate: rate.rate,
            probability,
        },
        RateDemand::Late {
            packets,
            packet_bytes,
        } => Demand::Late {
            rate: rate.rate,
            packet_bytes,
            late_packets: packets,
        },
    };
    let guarantee = Guarantee {
        window: rate.window,
        term: Guarantee::TERM.max(rate.window),
        ..Guarantee::new(demand)
    };
    guarantee.validate()?;
    Ok(guarantee)
}

impl Session {
    /// Applies all objectives of a text, or none of them.
    pub(crate) fn inject_objectives(
        &mut self,
        now: Instant,
        text: &str,
        events: &mut VecDeque<Event>,
    ) -> Result<Injected, ObjectiveError> {
        let mut set = self.scheduling.objectives.set.clone();
        let injected = set.inject(text).map_err(|error| match error {
            InjectError::Text(report) => ObjectiveError::Text(report),
            other => ObjectiveError::Full(other),
        })?;
        for (_, rate) in &injected.rates {
            guarantee(rate).map_err(|error| ObjectiveError::Rate {
                position: rate.span.position(text),
                error,
            })?;
        }
        self.scheduling.objectives.set = set;
        self.on_objectives_changed();
        let rates = injected.rates.iter();
        for (id, rate) in rates.clone() {
            let streams = self.streams.send.iter();
            let selected = streams.filter(|(id, send)| rate.stream.selects(**id, &send.spec.label));
            let selected: Vec<StreamId> = selected.map(|(id, _)| *id).collect();
            for stream in selected {
                self.ask_for(now, *id, stream, rate, events);
            }
        }
        let ids = injected.objectives.iter().copied();
        Ok(Injected {
            ids: ids.chain(rates.map(|(id, _)| *id)).collect(),
            warnings: injected.warnings,
        })
    }

    /// Removes an objective from force; false when it is not in force. The promises of a `rate` item are released, and the
    /// demands of earlier items for the same streams are made again.
    pub(crate) fn remove_objective(
        &mut self,
        now: Instant,
        id: ObjectiveId,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let decided: Vec<StreamId> = (self.streams.send.values())
            .filter(|send| (self.rate_of(send)).is_some_and(|(rate, _)| *rate == id))
            .map(|send| send.id)
            .collect();
        if !self.scheduling.objectives.set.remove(id) {
            return false;
        }
        self.on_objectives_changed();
        for stream in decided {
            // Releasing is never refused; a stream that is over has nothing to release.
            let _ = self.change_guarantee(now, stream, None, events);
            self.ask_for_opened(now, stream, events);
        }
        true
    }

    /// The `rate` item that determines the promise of a stream: of several, the last one.
    fn rate_of(&self, send: &SendStream) -> Option<&(ObjectiveId, RateObjective)> {
        let mut rates = self.scheduling.objectives.set.rates().iter();
        rates.rfind(|(_, rate)| rate.stream.selects(send.id, &send.spec.label))
    }

    fn on_objectives_changed(&mut self) {
        let objectives = &self.scheduling.objectives;
        let open = self.streams.send.values();
        self.scheduling.planning.observed.watch(
            objectives.named(),
            objectives.labels(),
            open.map(|send| (send.id, symbol(&send.spec.label))),
        );
        let objectives = &mut self.scheduling.objectives;
        self.scheduling.planning.has_history = objectives.has(Shape::Combinatorial);
        let due = objectives.streams_due.unwrap_or(Instant::EPOCH);
        objectives.streams_due = objectives.has(Shape::Streams).then_some(due);
        self.pump.is_due = true;
    }

    /// The objectives in force, in order of injection; then the `rate` items.
    pub(crate) fn objectives(&self) -> Vec<Entry> {
        let set = &self.scheduling.objectives.set;
        let objectives = set.iter().map(|(id, objective)| Entry {
            id,
            name: objective.name().map(str::to_owned),
            kind: match objective.shape() {
                Shape::Streams => Kind::Streams,
                Shape::Single => Kind::Single,
                Shape::Combinatorial => Kind::Combinatorial,
            },
            text: objective.span().of(objective.text()).to_owned(),
        });
        let rates = set.rates().iter().map(|(id, rate)| Entry {
            id: *id,
            name: rate.name.clone(),
            kind: Kind::Rate,
            text: format!("{} for {}", rate.rate, rate.stream),
        });
        objectives.chain(rates).collect()
    }

    /// Contexts, utility and faults of each objective within the last minute; `rate` items have none.
    pub(crate) fn tallies(&self, now: Instant) -> Vec<(ObjectiveId, Tally)> {
        self.scheduling.objectives.set.tallies(now).collect()
    }

    /// Names that objectives can refer to now: labels of the streams that send, fields that applications gave ADUs, technologies and
    /// attributes of channels.
    pub(crate) fn provided(&self) -> Provided {
        let mut provided = Provided::default();
        let labels = self.streams.send.values();
        provided.extend(labels.map(|send| Item::label(&*send.spec.label)));
        let objectives = &self.scheduling.objectives;
        let known = objectives.set.vocabulary().fields();
        let given = objectives.given.iter();
        let fields = given.filter_map(|id| known.get(usize::from(id.0)));
        provided.extend(fields.map(|field| Item::field(&*field.name, field.value)));
        for state in &self.channels.states {
            state.description.provide(self.config.model, &mut provided);
        }
        provided
    }

    /// Lets objectives know of a stream that was opened: measures it, if they name it.
    pub(super) fn note_opened(&mut self, stream: StreamId) {
        if let Some(send) = self.streams.send.get(&stream) {
            let label = symbol(&send.spec.label);
            self.scheduling.planning.observed.open(stream, label);
        }
    }

    /// Makes the demand of a `rate` item for a stream that was opened, or has lost its promise.
    pub(super) fn ask_for_opened(
        &mut self,
        now: Instant,
        stream: StreamId,
        events: &mut VecDeque<Event>,
    ) {
        let send = self.streams.send.get(&stream);
        if let Some((id, rate)) = send.and_then(|send| self.rate_of(send)).cloned() {
            self.ask_for(now, id, stream, &rate, events);
        }
    }

    /// Makes the demand of a `rate` item for a stream. A refusal is reported; where it may pass, the stream waits for the
    /// promise.
    fn ask_for(
        &mut self,
        now: Instant,
        objective: ObjectiveId,
        stream: StreamId,
        rate: &RateObjective,
        events: &mut VecDeque<Event>,
    ) {
        // It was checked at injection.
        let Ok(wanted) = guarantee(rate) else {
            return;
        };
        let answer = self.change_guarantee(now, stream, Some(wanted), events);
        if let Err(StreamError::Refused(refusal)) = answer {
            events.push_back(Event::Session {
                session: self.id,
                event: SessionEvent::ObjectiveRefused {
                    objective,
                    stream,
                    refusal: *refusal,
                },
            });
            // A refusal that cannot pass is repeated.
            let _ = self.change_guarantee(now, stream, Some(wanted.waiting()), events);
        }
    }

    /// Sets header fields of an ADU that waits or is in flight; false when its outcome is known.
    pub(crate) fn update_fields(
        &mut self,
        stream: StreamId,
        adu: u64,
        given: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, ObjectiveError> {
        let send = self.streams.send.get(&stream);
        let send = send.ok_or(StreamError::UnknownStream(stream))?;
        let Some(before) = send.fields(adu).cloned() else {
            return Ok(false);
        };
        let fields = self.scheduling.objectives.fields(&before, given)?;
        self.scheduling.planning.is_stale = true;
        self.pump.is_due = true;
        let send = self.streams.send.get_mut(&stream);
        Ok(send.is_some_and(|send| send.set_fields(adu, fields)))
    }

    /// Reports faults in evaluations, each kind once for an objective.
    pub(super) fn report_faults(&mut self, events: &mut VecDeque<Event>) {
        for (objective, faults) in self.scheduling.objectives.set.take_faults() {
            events.push_back(Event::Session {
                session: self.id,
                event: SessionEvent::ObjectiveFault { objective, faults },
            });
        }
    }
}
