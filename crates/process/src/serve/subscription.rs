//! Subscription: the place of a subscriber in a source's stream, and its pipeline.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use anabranch_base::Instant;

use super::{
    Position,
    offered::{End, Offered, ReaderId, SOURCE, Visit},
    windows::window_of,
};
use crate::{
    Adu, Pipeline, Running,
    derive::{Delivery, Derived, Status, SubscriberId, charge_state},
    memory::{Account, Charge},
};

/// Request of a subscriber.
#[derive(Clone, Debug)]
pub struct Request {
    /// The subscriber.
    pub reader: ReaderId,
    /// Number of its pipeline, which ADUs carry that are derived by it.
    pub change: u32,
    /// Place to return to, and the run of the source that it is of; `None`: from the source's next ADU on.
    pub position: Option<(Option<u64>, Position)>,
    /// Bounds of its queue; reliable: no derived ADU is lost or repeated.
    pub delivery: Delivery,
    /// Account for what is derived for it.
    pub account: Account,
}

/// Reason for the end of a reliable subscription whose queue became full.
pub const TOO_SLOW: &str = "it took less than the source sent, and its queue is full, or the memory of the service; ask for less, or for a stream that may lose ADUs";

/// Bounds of a subscriber's queue at a processing node.
pub fn delivery(is_reliable: bool) -> Delivery {
    // Reliable: what the source may have kept, and one large ADU more. Unreliable: what is new.
    let (adus, bytes) = if is_reliable {
        (8_192, 32 << 20)
    } else {
        (32, 16 << 20)
    };
    Delivery {
        is_reliable,
        adus,
        bytes,
    }
}

/// Result of asking for something to send.
#[derive(Debug)]
pub enum Next {
    /// Derived ADUs, with the subscriber's numbers of its pipelines, and the charge for their memory, which is held as long as they are.
    Adus(Vec<Derived>, Charge),
    /// Nothing now; everything before the position was returned.
    Idle(Option<Position>),
    /// Nothing ever again.
    Ended(End),
}

/// Place in the source's stream.
#[derive(Debug)]
enum Place {
    /// Behind the source's newest ADU.
    Behind {
        running: Box<Running>,
        /// For the state of the operators.
        charge: Option<Charge>,
        next: u64,
    },
    /// A subscriber of the table.
    Live(SubscriberId),
    Over,
}

/// A subscription to an [`Offered`] stream, which every call is given: always the same one.
#[derive(Debug)]
pub struct Subscription {
    /// `None`: nothing is kept for it.
    visit: Option<Visit>,
    delivery: Delivery,
    account: Account,
    begin: Position,
    place: Place,
    /// Numbers of the subscriber's pipelines, by those of the table.
    numbers: BTreeMap<u32, u32>,
    /// Number of its newest pipeline.
    number: u32,
}

impl Subscription {
    /// Subscribes.
    ///
    /// # Errors
    /// The reason: an operator cannot begin, a bound is reached, or ADUs that the subscriber lacks are not kept any more.
    pub fn new(
        offered: &mut Offered,
        request: Request,
        pipeline: &Pipeline,
        now: Instant,
    ) -> Result<Self, String> {
        let Request {
            reader,
            change,
            position,
            delivery,
            account,
        } = request;
        let is_kept = offered.terms().is_reliable && delivery.is_reliable;
        let position = position.filter(|_| is_kept);
        if let Some((of, _)) = &position
            && *of != Some(offered.terms().run)
        {
            return Err("the source has begun its stream anew; subscribe anew".to_owned());
        }
        let position = position.map(|(_, position)| position);
        let next = position
            .as_ref()
            .map_or(offered.next(), |position| position.next);
        let (first, _) = offered.acknowledged();
        offered.table.advance(now);
        let (place, phases) = match position {
            Some(position) => {
                if position.next < first {
                    return Err(format!(
                        "ADUs {} to {} are not kept any more; subscribe anew, without them",
                        position.next,
                        first - 1
                    ));
                }
                let running = offered.table.means().start(pipeline, &account);
                let mut running = running.map_err(|error| error.to_string())?;
                let after = running.phases_after();
                running.set_phases(position.phases.as_deref().unwrap_or(&after));
                let phases = running.phases();
                let running = Box::new(running);
                let place = Place::Behind {
                    running,
                    charge: None,
                    next,
                };
                (place, phases)
            }
            None => {
                let entered = (offered.table).subscribe(SOURCE, pipeline, delivery, &account);
                let id = entered.map_err(|error| error.to_string())?;
                let running = offered.table.running(id);
                (
                    Place::Live(id),
                    running.map(Running::phases).unwrap_or_default(),
                )
            }
        };
        offered.subscribers += 1;
        let visit = is_kept.then(|| offered.read(reader, next, now));
        Ok(Self {
            visit,
            delivery,
            account,
            begin: Position {
                next,
                phases: Some(phases),
            },
            place,
            numbers: BTreeMap::from([(0, change)]),
            number: change,
        })
    }

    /// Place at which it began.
    pub fn begin(&self) -> &Position {
        &self.begin
    }

    /// Ends it.
    pub fn end(&mut self, offered: &mut Offered) {
        match mem::replace(&mut self.place, Place::Over) {
            Place::Over => return,
            Place::Live(id) => {
                offered.table.unsubscribe(id);
            }
            Place::Behind { .. } => {}
        }
        offered.subscribers -= 1;
    }

    /// Another pipeline, from the source's next ADU on. True if it is another one: what was derived before, and was taken with
    /// [`Subscription::next`], is then out of date, and whoever sends it to an unreliable subscriber discards it. What is derived from now on needs nothing of
    /// it.
    ///
    /// # Errors
    /// The reason; everything is then as before.
    pub fn change(
        &mut self,
        offered: &mut Offered,
        number: u32,
        pipeline: &Pipeline,
    ) -> Result<bool, String> {
        let is_another = match &mut self.place {
            Place::Behind { running, .. } => {
                let means = offered.table.means();
                let replaced = means.replace(running, pipeline, &self.account);
                replaced.map_err(|error| error.to_string())?;
                self.numbers.insert(0, number);
                true
            }
            Place::Live(id) => {
                let id = *id;
                let changes = |offered: &Offered| {
                    let status = offered.table.status(id);
                    status.map_or(0, |status| status.changes)
                };
                let before = changes(offered);
                let changed = offered.table.change(id, pipeline);
                changed.map_err(|error| error.to_string())?;
                let after = changes(offered);
                self.numbers.insert(after, number);
                after > before
            }
            Place::Over => return Err("the subscription has ended; subscribe again".to_owned()),
        };
        self.number = number;
        Ok(is_another)
    }

    /// The subscriber holds what is derived from the ADUs before this one.
    pub fn held(&self, offered: &mut Offered, next: u64, now: Instant) {
        if let Some(visit) = self.visit {
            offered.held(visit, next, now);
        }
    }

    /// The subscriber has left, for good or not.
    pub fn leave(&self, offered: &mut Offered, is_for_good: bool, now: Instant) {
        if let Some(visit) = self.visit {
            offered.unread(visit, is_for_good, now);
        }
    }

    /// Status in the table, the pipeline and its number; `None` while it is behind, or over.
    pub fn status(&self, offered: &Offered) -> Option<(Status, String, u32)> {
        let Place::Live(id) = self.place else {
            return None;
        };
        let pipeline = offered.table.running(id).map(Running::pipeline);
        let pipeline = pipeline.map(Pipeline::to_string).unwrap_or_default();
        Some((offered.table.status(id)?, pipeline, self.number))
    }

    /// Windows in which ADUs were made that did not wait for the subscriber any longer, as its queue was full; of the time since the last call.
    pub fn take_lost_windows(&self, offered: &mut Offered) -> BTreeSet<u64> {
        let Place::Live(id) = self.place else {
            return BTreeSet::new();
        };
        let seconds = offered.table.take_lost_seconds(id).into_iter();
        seconds
            .map(|second| window_of(Duration::from_secs(second)))
            .collect()
    }

    /// The next thing to send.
    pub fn next(&mut self, offered: &mut Offered) -> Next {
        loop {
            match mem::replace(&mut self.place, Place::Over) {
                Place::Behind {
                    mut running,
                    mut charge,
                    next,
                } => {
                    if let Some(adu) = offered.kept(next) {
                        let means = offered.table.means();
                        let Some(processed) = means.catch_up(&mut running, adu, &self.account)
                        else {
                            self.place = Place::Behind {
                                running,
                                charge,
                                next,
                            };
                            return Next::Idle(None);
                        };
                        charge_state(&mut running, &mut charge, &self.account);
                        let change = self.numbers.get(&0).copied().unwrap_or_default();
                        let next = next + 1;
                        self.place = Place::Behind {
                            running,
                            charge,
                            next,
                        };
                        // A failure is one again: the ADU is left out.
                        let adus = processed.map(|processed| processed.adus);
                        let adus = adus.unwrap_or_default();
                        if !adus.is_empty() {
                            let bytes = adus.iter().map(Adu::held_bytes).sum();
                            // They are there, and no others are derived before they are taken.
                            let charge = self.account.charge_anyway(bytes);
                            return Next::Adus(numbered(adus, change), charge);
                        }
                    } else if next > offered.next() && offered.ended().is_none() {
                        // A service that started again gets ADUs that the subscriber had.
                        self.place = Place::Behind {
                            running,
                            charge,
                            next,
                        };
                        return Next::Idle(None);
                    } else {
                        match live(offered, *running, next, (self.delivery, &self.account)) {
                            Ok(id) => self.place = Place::Live(id),
                            Err(why) => {
                                offered.subscribers -= 1;
                                return Next::Ended(why);
                            }
                        }
                    }
                }
                Place::Live(id) => {
                    self.place = Place::Live(id);
                    return self.live(id, offered);
                }
                Place::Over => return Next::Ended(End::lasting("the subscription has ended")),
            }
        }
    }

    fn live(&mut self, id: SubscriberId, offered: &mut Offered) -> Next {
        if let Some((derived, charge)) = offered.table.pop(id) {
            // Earlier pipelines do not come again.
            self.numbers = self.numbers.split_off(&derived.change);
            let change = self.numbers.get(&derived.change).copied();
            let derived = Derived {
                change: change.unwrap_or_default(),
                ..derived
            };
            return Next::Adus(vec![derived], charge);
        }
        let status = offered.table.status(id);
        if status.is_none_or(|status| status.has_ended) {
            return Next::Ended(
                offered
                    .ended()
                    .cloned()
                    .unwrap_or_else(|| End::lasting(TOO_SLOW)),
            );
        }
        let running = offered.table.running(id).filter(|_| self.visit.is_some());
        Next::Idle(running.map(|running| Position {
            next: offered.next(),
            phases: Some(running.phases()),
        }))
    }
}

/// Joins the table with a pipeline that has processed everything before `next`.
fn live(
    offered: &mut Offered,
    running: Running,
    next: u64,
    (delivery, account): (Delivery, &Account),
) -> Result<SubscriberId, End> {
    if next < offered.next() {
        let slow = "it took less than the source sent, and ADUs that it lacks are not kept any more; subscribe anew, without them";
        return Err(End::lasting(slow));
    }
    if let Some(end) = offered.ended() {
        return Err(end.clone());
    }
    let resumed = (offered.table).resume(SOURCE, running, delivery, account);
    resumed.map_err(|error| End::lasting(&error.to_string()))
}

fn numbered(adus: Vec<Adu>, change: u32) -> Vec<Derived> {
    let last = adus.len() - 1;
    let one = |(index, adu)| Derived {
        adu,
        change,
        is_last: index == last,
    };
    adus.into_iter().enumerate().map(one).collect()
}
