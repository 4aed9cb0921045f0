//! Objectives in force, header fields of ADUs, and `rate` items, which become promises.

use std::collections::VecDeque;

use anabranch_base::{Instant, StreamId};
use anabranch_hose::{
    ObjectiveId, Objectives, RateDemand, RateObjective, Shape, Type, VocabularyError,
    evaluate::InjectError, symbol, syntax::ast::VariableKind,
};
use anabranch_sched::{Demand, Guarantee, GuaranteeError, objective::Fields};

use super::Session;
use crate::{
    event::{Event, SessionEvent, StreamError},
    objective::{Entry, FieldValue, Injected, Kind, ObjectiveError},
};

/// Key: session.
#[derive(Debug, Default)]
pub(super) struct ActiveObjectives {
    set: Objectives,
}

impl ActiveObjectives {
    pub(super) fn in_force(&self) -> &Objectives {
        &self.set
    }

    pub(super) fn in_force_mut(&mut self) -> &mut Objectives {
        &mut self.set
    }

    /// Streams that objectives ask about as such, ascending.
    fn named(&self) -> Vec<StreamId> {
        let mut named: Vec<StreamId> = (self.set.iter())
            .flat_map(|(_, objective)| objective.variables())
            .filter(|variable| variable.kind() == VariableKind::Stream)
            .flat_map(|variable| variable.streams().unwrap_or_default())
            .copied()
            .collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    fn has_companions(&self) -> bool {
        let mut all = self.set.iter();
        all.any(|(_, objective)| objective.shape() == Shape::Combinatorial)
    }

    /// The fields of these names and values by number, over those that were set before.
    ///
    /// # Errors
    /// A name or its type; then none counts.
    pub(super) fn fields(
        &mut self,
        before: &Fields,
        news: &[(&str, FieldValue<'_>)],
    ) -> Result<Fields, VocabularyError> {
        let known = self.set.vocabulary();
        let is_known = |name: &str, kind: Type| {
            let id = known.field(name)?;
            let field = &known.fields()[usize::from(id.0)];
            (field.value == kind).then_some(id)
        };
        let is_news =
            |(name, value): &(&str, FieldValue<'_>)| is_known(name, value.kind()).is_none();
        if news.iter().any(is_news) {
            // All of them, or none.
            let mut trial = known.clone();
            for (name, value) in news {
                trial.declare(name, value.kind())?;
            }
            for (name, value) in news {
                self.set.declare(name, value.kind())?;
            }
        }
        let mut values = before.values().to_vec();
        for (name, value) in news {
            let Some(id) = self.set.vocabulary().field(name) else {
                continue;
            };
            let at = usize::from(id.0);
            if values.len() <= at {
                values.resize(at + 1, f64::NAN);
            }
            values[at] = match *value {
                FieldValue::Number(number) => number,
                FieldValue::Boolean(truth) => f64::from(u8::from(truth)),
                FieldValue::Text(text) => symbol(text),
            };
        }
        Ok(Fields::new(&values))
    }
}

/// What a `rate` item asks for; it waits until it can be promised.
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
    /// Puts the objectives of a text into force, or none of them.
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
            self.ask_for(now, *id, rate, events);
        }
        let ids = injected.objectives.iter().copied();
        Ok(Injected {
            ids: ids.chain(rates.map(|(id, _)| *id)).collect(),
            warnings: injected.warnings,
        })
    }

    /// Takes an objective out of force; false when it is not in force. A `rate` item's promise is released, and what an
    /// earlier item for the same stream asks for is asked for again.
    pub(crate) fn remove_objective(
        &mut self,
        now: Instant,
        id: ObjectiveId,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let mut rates = self.scheduling.objectives.set.rates().iter();
        let stream = rates.clone().find(|(rate, _)| *rate == id);
        let stream = stream.map(|(_, rate)| rate.stream);
        // Of several for one stream, the last one is what its promise is about.
        let decides = rates.rfind(|(_, rate)| Some(rate.stream) == stream);
        let decides = decides.is_some_and(|(rate, _)| *rate == id);
        if !self.scheduling.objectives.set.remove(id) {
            return false;
        }
        self.on_objectives_changed();
        if let Some(stream) = stream.filter(|_| decides) {
            // Releasing is never refused; a stream that is over has nothing to release.
            let _ = self.change_guarantee(now, stream, None, events);
            self.ask_for_opened(now, stream, events);
        }
        true
    }

    fn on_objectives_changed(&mut self) {
        self.scheduling
            .planning
            .observed
            .watch(&self.scheduling.objectives.named());
        self.scheduling.planning.has_history = self.scheduling.objectives.has_companions();
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

    /// A stream has been opened, or is promised nothing any more: what `rate` items want for it is asked for.
    pub(super) fn ask_for_opened(
        &mut self,
        now: Instant,
        stream: StreamId,
        events: &mut VecDeque<Event>,
    ) {
        let rates = self.scheduling.objectives.set.rates();
        let wanted = rates.iter().rfind(|(_, rate)| rate.stream == stream);
        if let Some((id, rate)) = wanted.cloned() {
            self.ask_for(now, id, &rate, events);
        }
    }

    /// Asks for what a `rate` item wants, if its stream is open. A refusal is told; where it may pass, the stream waits
    /// for the promise.
    fn ask_for(
        &mut self,
        now: Instant,
        objective: ObjectiveId,
        rate: &RateObjective,
        events: &mut VecDeque<Event>,
    ) {
        // It was checked when it was injected.
        let Ok(wanted) = guarantee(rate) else {
            return;
        };
        let stream = rate.stream;
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
            // What cannot pass is refused once more.
            let _ = self.change_guarantee(now, stream, Some(wanted.waiting()), events);
        }
    }

    /// Sets header fields of an ADU that waits or is on its way; false when its fate is known.
    pub(crate) fn update_fields(
        &mut self,
        stream: StreamId,
        adu: u64,
        news: &[(&str, FieldValue<'_>)],
    ) -> Result<bool, ObjectiveError> {
        let send = self.streams.send.get(&stream);
        let send = send.ok_or(StreamError::UnknownStream(stream))?;
        let Some(before) = send.fields(adu).cloned() else {
            return Ok(false);
        };
        let fields = self.scheduling.objectives.fields(&before, news)?;
        self.pump.is_due = true;
        let send = self.streams.send.get_mut(&stream);
        Ok(send.is_some_and(|send| send.set_fields(adu, fields)))
    }

    /// Tells of what went wrong in evaluations, each kind once for an objective.
    pub(super) fn tell_faults(&mut self, events: &mut VecDeque<Event>) {
        for (objective, faults) in self.scheduling.objectives.set.take_faults() {
            events.push_back(Event::Session {
                session: self.id,
                event: SessionEvent::ObjectiveFault { objective, faults },
            });
        }
    }
}
