//! Table of derived streams.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_base::Instant;

use super::{
    derivation::Derivation,
    distribution::distribute,
    paying::Means,
    queue::{Delivery, Derived, Queue},
    terms::{Bounds, DeriveError, Pushed, SourceId, Status, SubscriberId},
};
use crate::{
    Failure, Limits, Modules, Pipeline, Running,
    adu::Adu,
    memory::{Account, Charge},
};

#[derive(Debug)]
pub(super) struct Subscriber {
    /// `None` once it has ended.
    derivation: Option<u64>,
    pub(super) queue: Queue,
    pub(super) changes: u32,
    failed: u64,
    failure: Option<Failure>,
}

/// Derived streams: sources, pipelines and their subscribers.
#[derive(Debug, Default)]
pub struct Table {
    bounds: Bounds,
    /// The modules that pipelines can name.
    pub modules: Modules,
    derivations: BTreeMap<u64, Derivation>,
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    next: u64,
    /// Time up to which modules have been given fuel.
    now: Instant,
}

impl Table {
    /// An empty table.
    pub fn new(bounds: Bounds, modules: Modules) -> Self {
        Self {
            bounds,
            modules,
            ..Self::default()
        }
    }

    /// Bounds on operators.
    pub fn limits(&self) -> Limits {
        self.bounds.operators
    }

    /// Time at which what follows happens. The modules of a peer have fuel for the time that has passed, so that without it they have
    /// what a second gives.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Number of derivations that are computed.
    pub fn derivations(&self) -> usize {
        self.derivations.len()
    }

    /// Subscribes to what the pipeline derives from a source, from the source's next ADU on. What waits for the subscriber, and the state of
    /// the operators, is charged to the account: without memory, an unreliable subscriber loses its oldest ADUs, a reliable one ends, and
    /// operators forget what they keep between ADUs.
    ///
    /// # Errors
    /// A bound is reached, the queue's bounds are not possible, or an operator cannot begin; nothing is then changed.
    pub fn subscribe(
        &mut self,
        source: SourceId,
        pipeline: &Pipeline,
        delivery: Delivery,
        account: &Account,
    ) -> Result<SubscriberId, DeriveError> {
        self.check(delivery)?;
        let derivation = self.derivation(source, pipeline, account)?;
        Ok(self.enter(derivation, delivery, account))
    }

    /// Subscribes with a pipeline at work that has processed the source's ADUs up to now elsewhere, and goes on with it. It is
    /// computed once with an equal one whose operators are at the same place of their cycles.
    ///
    /// # Errors
    /// A bound is reached, or the queue's bounds are not possible.
    pub fn resume(
        &mut self,
        source: SourceId,
        running: Running,
        delivery: Delivery,
        account: &Account,
    ) -> Result<SubscriberId, DeriveError> {
        self.check(delivery)?;
        let phases = running.phases();
        let equal = self.derivations.iter().find(|(_, derivation)| {
            derivation.source == source
                && derivation.running.pipeline() == running.pipeline()
                && derivation.running.phases() == phases
        });
        let number = match equal {
            Some((&number, _)) => number,
            None => self.add(source, running)?,
        };
        Ok(self.enter(number, delivery, account))
    }

    fn check(&self, delivery: Delivery) -> Result<(), DeriveError> {
        if self.subscribers.len() >= self.bounds.subscribers {
            return Err(DeriveError::Subscribers(self.subscribers.len()));
        }
        let bytes_max = self.bounds.queue_bytes;
        if delivery.adus == 0 || !(1..=bytes_max).contains(&delivery.bytes) {
            return Err(DeriveError::Queue(bytes_max));
        }
        Ok(())
    }

    fn enter(&mut self, derivation: u64, delivery: Delivery, account: &Account) -> SubscriberId {
        let id = SubscriberId(self.fresh());
        self.join(derivation, id);
        let subscriber = Subscriber {
            derivation: Some(derivation),
            queue: Queue::new(delivery, account.clone()),
            changes: 0,
            failed: 0,
            failure: None,
        };
        self.subscribers.insert(id, subscriber);
        id
    }

    /// Ends a subscription, and forgets what waits; false if there was none.
    pub fn unsubscribe(&mut self, id: SubscriberId) -> bool {
        let subscriber = self.subscribers.remove(&id);
        let Some(subscriber) = subscriber else {
            return false;
        };
        self.leave(subscriber.derivation, id);
        true
    }

    /// Ends all subscriptions to a source, which has ended; what waits can be taken.
    pub fn end_source(&mut self, source: SourceId) {
        self.derivations
            .retain(|_, derivation| derivation.source != source);
        for subscriber in self.subscribers.values_mut() {
            let is_gone = |number: &u64| !self.derivations.contains_key(number);
            if subscriber.derivation.as_ref().is_some_and(is_gone) {
                subscriber.derivation = None;
            }
        }
    }

    /// Changes a subscriber's pipeline from the source's next ADU on; others keep theirs. What an unreliable subscriber has
    /// not taken yet is out of date and discarded; a reliable one gets it first. [`Derived::change`] tells them apart.
    ///
    /// # Errors
    /// The subscription has ended, a bound is reached, or an operator cannot begin; nothing is then changed.
    pub fn change(&mut self, id: SubscriberId, pipeline: &Pipeline) -> Result<(), DeriveError> {
        let subscriber = self.subscribers.get(&id).ok_or(DeriveError::Ended)?;
        let account = subscriber.queue.account().clone();
        let former = subscriber.derivation.ok_or(DeriveError::Ended)?;
        let derivation = self.derivations.get(&former).ok_or(DeriveError::Ended)?;
        if derivation.running.pipeline() == pipeline {
            return Ok(());
        }
        let source = derivation.source;
        let is_alone = derivation.subscribers.len() == 1;
        let number = match find(&self.derivations, source, pipeline) {
            Some(number) => number,
            None if is_alone => {
                self.replace(former, pipeline, &account)?;
                former
            }
            None => self.derivation(source, pipeline, &account)?,
        };
        if number != former {
            self.leave(Some(former), id);
        }
        self.join(number, id);
        let subscriber = self.subscribers.get_mut(&id).expect("it was found above");
        subscriber.derivation = Some(number);
        subscriber.changes += 1;
        if subscriber.queue.is_reliable() {
            subscriber.queue.interrupt();
        } else {
            subscriber.queue.clear();
        }
        Ok(())
    }

    /// Derives from the next ADU of a source, once for each different pipeline.
    pub fn push(&mut self, source: SourceId, adu: &Adu) -> Pushed {
        let mut pushed = Pushed::default();
        let means = self.means();
        let of_source = self
            .derivations
            .values_mut()
            .filter(|derivation| derivation.source == source);
        for derivation in of_source {
            let before = derivation.running.work();
            derivation.resync_if_due();
            let payer = means.payer(derivation, &self.subscribers);
            let processed = means.derive(derivation, adu, &payer);
            derivation.charge(&self.subscribers);
            pushed.work += derivation.running.work() - before;
            match processed {
                Ok(processed) => {
                    distribute(
                        derivation,
                        &mut self.subscribers,
                        &processed.adus,
                        &mut pushed.ended,
                    );
                }
                Err(failure) => {
                    for id in &derivation.subscribers {
                        let subscriber = self
                            .subscribers
                            .get_mut(id)
                            .expect("subscribers of a derivation exist");
                        subscriber.failed += 1;
                        subscriber.failure = Some(failure.clone());
                    }
                    pushed.failures.push(failure);
                }
            }
        }
        for &id in &pushed.ended {
            let subscriber = self.subscribers.get_mut(&id).expect("it ended just now");
            let derivation = subscriber.derivation.take();
            self.leave(derivation, id);
        }
        pushed
    }

    /// The next ADU for a subscriber, and the charge for its memory, which is held as long as the ADU is; `None` if none waits.
    pub fn pop(&mut self, id: SubscriberId) -> Option<(Derived, Charge)> {
        self.subscribers.get_mut(&id)?.queue.pop()
    }

    /// State of a subscriber; `None` if there is none.
    pub fn status(&self, id: SubscriberId) -> Option<Status> {
        let subscriber = self.subscribers.get(&id)?;
        Some(Status {
            queued: (subscriber.queue.len(), subscriber.queue.bytes()),
            lost: subscriber.queue.lost,
            lost_bytes: subscriber.queue.lost_bytes,
            failed: (subscriber.failed, subscriber.failure.clone()),
            changes: subscriber.changes,
            has_ended: subscriber.derivation.is_none(),
        })
    }

    /// Seconds of the source's time in which ADUs were made that a subscriber has lost in its queue since the last call, the last 60 of them.
    pub fn take_lost_seconds(&mut self, id: SubscriberId) -> BTreeSet<u64> {
        let subscriber = self.subscribers.get_mut(&id);
        subscriber.map_or_else(BTreeSet::new, |one| one.queue.take_lost_seconds())
    }

    /// ADUs that wait for all subscribers, and the bytes of their bodies.
    pub fn queued(&self) -> (usize, usize) {
        let queues = self
            .subscribers
            .values()
            .map(|subscriber| &subscriber.queue);
        queues.fold((0, 0), |(adus, bytes), queue| {
            (adus + queue.len(), bytes + queue.bytes())
        })
    }

    /// The pipeline that a subscriber's ADUs are derived by; `None` if there is no such subscriber, or it has ended.
    pub fn running(&self, id: SubscriberId) -> Option<&Running> {
        let number = self.subscribers.get(&id)?.derivation?;
        Some(&self.derivations.get(&number)?.running)
    }

    /// The derivations of a source, each with the number of its subscribers.
    pub fn of_source(&self, source: SourceId) -> impl Iterator<Item = (&Running, usize)> {
        let of_source = self
            .derivations
            .values()
            .filter(move |derivation| derivation.source == source);
        of_source.map(|derivation| (&derivation.running, derivation.subscribers.len()))
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The derivation of a source by a pipeline: the one that is computed already, or a new one.
    fn derivation(
        &mut self,
        source: SourceId,
        pipeline: &Pipeline,
        account: &Account,
    ) -> Result<u64, DeriveError> {
        if let Some(number) = find(&self.derivations, source, pipeline) {
            return Ok(number);
        }
        let running = self.means().start(pipeline, account)?;
        self.add(source, running)
    }

    fn add(&mut self, source: SourceId, running: Running) -> Result<u64, DeriveError> {
        if self.derivations.len() >= self.bounds.derivations {
            return Err(DeriveError::Derivations(self.derivations.len()));
        }
        let number = self.fresh();
        let derivation = Derivation::new(source, running);
        self.derivations.insert(number, derivation);
        Ok(number)
    }

    /// Changes the pipeline of a derivation that one subscriber has for itself.
    fn replace(
        &mut self,
        number: u64,
        pipeline: &Pipeline,
        account: &Account,
    ) -> Result<(), DeriveError> {
        let means = self.means();
        let derivation = self
            .derivations
            .get_mut(&number)
            .expect("it was found just now");
        means.replace(&mut derivation.running, pipeline, account)
    }

    /// What pipelines are computed with.
    pub(crate) fn means(&self) -> Means {
        Means {
            modules: self.modules.clone(),
            limits: self.bounds.operators,
            now: self.now,
        }
    }

    /// Adds a subscriber, which can use only ADUs that need none before.
    fn join(&mut self, number: u64, id: SubscriberId) {
        let derivation = self
            .derivations
            .get_mut(&number)
            .expect("it was found or made just now");
        derivation.subscribers.insert(id);
        derivation.resync();
    }

    fn leave(&mut self, number: Option<u64>, id: SubscriberId) {
        let Some(number) = number else { return };
        let Some(derivation) = self.derivations.get_mut(&number) else {
            return;
        };
        derivation.subscribers.remove(&id);
        if derivation.subscribers.is_empty() {
            self.derivations.remove(&number);
        }
    }
}

fn find(
    derivations: &BTreeMap<u64, Derivation>,
    source: SourceId,
    pipeline: &Pipeline,
) -> Option<u64> {
    let is_equal = |derivation: &Derivation| {
        derivation.source == source && derivation.running.pipeline() == pipeline
    };
    let found = derivations
        .iter()
        .find(|(_, derivation)| is_equal(derivation));
    found.map(|(&number, _)| number)
}
