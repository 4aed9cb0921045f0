//! Subscription: the place of a subscriber in a source's stream, and its pipeline.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_process::{
    Limits, Pipeline, Running,
    derive::{Delivery, Status, SubscriberId},
};

use super::source::{Inner, ReaderId, SOURCE, Source};
use crate::wire::{
    Carried,
    message::{Position, Subscribe},
};

/// Queue of a reliable subscriber: what the source may have kept, and one large ADU more.
const RELIABLE: Delivery = Delivery {
    is_reliable: true,
    adus: 8_192,
    bytes: 32 << 20,
};
/// Queue of an unreliable one, which should get what is new.
const UNRELIABLE: Delivery = Delivery {
    is_reliable: false,
    adus: 32,
    bytes: 16 << 20,
};

/// Something to send.
pub(crate) enum Next {
    Adus(Vec<Carried>),
    /// Nothing; everything before the position was returned.
    Idle(Option<Position>),
    /// Nothing ever again, for this reason.
    Ended(String),
}

/// Place in the source's stream.
#[derive(Debug)]
enum Place {
    /// Behind the source's newest ADU.
    Behind {
        running: Box<Running>,
        next: u64,
    },
    /// A subscriber of the table.
    Live(SubscriberId),
    Over,
}

#[derive(Debug)]
struct State {
    place: Place,
    /// Numbers of the subscriber's pipelines, by those of the table.
    numbers: BTreeMap<u32, u32>,
    /// Number of its newest pipeline.
    number: u32,
}

/// A subscription, until this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    source: Arc<Source>,
    /// `None`: nothing is kept for it.
    reader: Option<ReaderId>,
    is_reliable: bool,
    /// Place at which it began.
    pub(crate) begin: Position,
    state: Mutex<State>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let place = mem::replace(&mut self.state().place, Place::Over);
        {
            let mut inner = self.source.inner();
            inner.subscribers -= 1;
            if let Place::Live(id) = place {
                inner.table.unsubscribe(id);
            }
        }
        self.source.wake();
    }
}

impl Subscription {
    /// Subscribes.
    ///
    /// # Errors
    /// The reason: an operator cannot begin, a bound is reached, or ADUs that the subscriber lacks are not kept any more.
    pub(crate) fn new(
        source: &Arc<Source>,
        reader: ReaderId,
        request: &Subscribe,
        pipeline: &Pipeline,
    ) -> Result<Self, String> {
        let mut inner = source.inner();
        let is_kept = inner.offer.is_reliable && request.is_reliable;
        let delivery = delivery(request.is_reliable);
        let position = request.position.as_ref().filter(|_| is_kept);
        if position.is_some() && request.of != Some(inner.offer.run) {
            return Err("the source has begun its stream anew; subscribe anew".to_owned());
        }
        let next = position.map_or(inner.next, |position| position.next);
        let (first, _) = inner.acknowledged();
        let (place, phases) = match position {
            Some(position) => {
                if position.next < first {
                    return Err(format!(
                        "ADUs {} to {} are not kept any more; subscribe anew, without them",
                        position.next,
                        first - 1
                    ));
                }
                let running = pipeline.start(&inner.table.modules, Limits::default());
                let mut running = running.map_err(|error| error.to_string())?;
                let after = running.phases_after();
                running.set_phases(position.phases.as_deref().unwrap_or(&after));
                let phases = running.phases();
                let running = Box::new(running);
                (Place::Behind { running, next }, phases)
            }
            None => {
                let entered = inner.table.subscribe(SOURCE, pipeline, delivery);
                let id = entered.map_err(|error| error.to_string())?;
                let running = inner.table.running(id);
                (
                    Place::Live(id),
                    running.map(Running::phases).unwrap_or_default(),
                )
            }
        };
        inner.subscribers += 1;
        drop(inner);
        if is_kept {
            source.read(reader, next);
        }
        source.wake();
        let state = State {
            place,
            numbers: BTreeMap::from([(0, request.change)]),
            number: request.change,
        };
        Ok(Self {
            source: source.clone(),
            reader: is_kept.then_some(reader),
            is_reliable: request.is_reliable,
            begin: Position {
                next,
                phases: Some(phases),
            },
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another pipeline, from the source's next ADU on.
    ///
    /// # Errors
    /// The reason; everything is then as before.
    pub(crate) fn change(&self, number: u32, pipeline: &Pipeline) -> Result<(), String> {
        let mut state = self.state();
        let mut inner = self.source.inner();
        match &mut state.place {
            Place::Behind { running, .. } => {
                let replaced = running.replace(pipeline.clone(), &inner.table.modules);
                replaced.map_err(|error| error.to_string())?;
                state.numbers.insert(0, number);
            }
            Place::Live(id) => {
                let id = *id;
                let changed = inner.table.change(id, pipeline);
                changed.map_err(|error| error.to_string())?;
                let changes = inner.table.status(id).map_or(0, |status| status.changes);
                state.numbers.insert(changes, number);
            }
            Place::Over => return Err("the subscription has ended; subscribe again".to_owned()),
        }
        state.number = number;
        Ok(())
    }

    /// The subscriber holds what is derived from the ADUs before this one.
    pub(crate) fn held(&self, next: u64) {
        if let Some(reader) = self.reader {
            self.source.held(reader, next);
        }
    }

    /// The subscriber has left, for good or not.
    pub(crate) fn leave(&self, is_for_good: bool) {
        if let Some(reader) = self.reader {
            self.source.unread(reader, is_for_good);
        }
    }

    /// Status in the table, the pipeline and its number; `None` while it is behind, or over.
    pub(crate) fn status(&self) -> Option<(Status, String, u32)> {
        let state = self.state();
        let Place::Live(id) = state.place else {
            return None;
        };
        let inner = self.source.inner();
        let pipeline = inner.table.running(id).map(Running::pipeline);
        let pipeline = pipeline.map(Pipeline::to_string).unwrap_or_default();
        Some((inner.table.status(id)?, pipeline, state.number))
    }

    /// The next thing to send.
    pub(crate) fn next(&self) -> Next {
        let mut state = self.state();
        let mut inner = self.source.inner();
        let State { place, numbers, .. } = &mut *state;
        loop {
            match mem::replace(place, Place::Over) {
                Place::Behind { mut running, next } => {
                    if let Some(adu) = inner.kept(next) {
                        let processed = running.process(adu.clone(), &inner.table.modules);
                        let change = numbers.get(&0).copied().unwrap_or_default();
                        let next = next + 1;
                        *place = Place::Behind { running, next };
                        // A failure is one again: the ADU is left out.
                        let adus = processed.map(|processed| processed.adus);
                        let adus = adus.unwrap_or_default();
                        if !adus.is_empty() {
                            return Next::Adus(numbered(adus, change));
                        }
                    } else if next > inner.next {
                        // A service that started again gets ADUs that the subscriber had.
                        *place = Place::Behind { running, next };
                        return Next::Idle(None);
                    } else {
                        match live(&mut inner, *running, next, self.is_reliable) {
                            Ok(id) => *place = Place::Live(id),
                            Err(why) => return Next::Ended(why),
                        }
                    }
                }
                Place::Live(id) => {
                    *place = Place::Live(id);
                    return self.live(id, &mut inner, numbers);
                }
                Place::Over => return Next::Ended("the subscription has ended".to_owned()),
            }
        }
    }

    fn live(&self, id: SubscriberId, inner: &mut Inner, numbers: &mut BTreeMap<u32, u32>) -> Next {
        if let Some(derived) = inner.table.pop(id) {
            // Earlier pipelines do not come again.
            *numbers = numbers.split_off(&derived.change);
            let change = numbers.get(&derived.change).copied();
            return Next::Adus(vec![Carried {
                adu: derived.adu,
                change: change.unwrap_or_default(),
                is_last: derived.is_last,
            }]);
        }
        if inner.table.status(id).is_none_or(|status| status.has_ended) {
            let slow = "it took less than the source sent, and its queue is full; ask for less, or for a stream that may lose ADUs";
            let why = inner.ended.clone();
            return Next::Ended(why.unwrap_or_else(|| slow.to_owned()));
        }
        let running = inner.table.running(id).filter(|_| self.reader.is_some());
        Next::Idle(running.map(|running| Position {
            next: inner.next,
            phases: Some(running.phases()),
        }))
    }
}

fn delivery(is_reliable: bool) -> Delivery {
    if is_reliable { RELIABLE } else { UNRELIABLE }
}

/// Joins the table with a pipeline that has processed everything before `next`.
fn live(
    inner: &mut Inner,
    running: Running,
    next: u64,
    is_reliable: bool,
) -> Result<SubscriberId, String> {
    if next < inner.next {
        let slow = "it took less than the source sent, and ADUs that it lacks are not kept any more; subscribe anew, without them";
        return Err(slow.to_owned());
    }
    if let Some(why) = &inner.ended {
        return Err(why.clone());
    }
    let resumed = inner.table.resume(SOURCE, running, delivery(is_reliable));
    resumed.map_err(|error| error.to_string())
}

fn numbered(adus: Vec<anabranch_process::Adu>, change: u32) -> Vec<Carried> {
    let last = adus.len() - 1;
    let one = |(index, adu)| Carried {
        adu,
        change,
        is_last: index == last,
    };
    adus.into_iter().enumerate().map(one).collect()
}
