//! Table of derived streams.

use std::collections::{BTreeMap, BTreeSet};

use super::queue::{Added, Delivery, Derived, Queue};
use crate::{Failure, Limits, Modules, Pipeline, Running, StartError, adu::Adu};

/// ADUs of a source between two requests, on account of losses, for one that needs none before. Each makes the stream
/// larger for all subscribers, so that one who loses often is not to cause many.
const RESYNC_GAP: u32 = 8;

/// Source stream, numbered by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// Subscriber of a derived stream; never reused by one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// Bounds on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Subscribers.
    pub subscribers: usize,
    /// Different derivations.
    pub derivations: usize,
    /// Bytes that one subscriber's queue may be asked to hold.
    pub queue_bytes: usize,
    /// Bounds on operators.
    pub operators: Limits,
}

impl Default for Bounds {
    /// A node that serves a few sources to some hundred viewers.
    fn default() -> Self {
        Self {
            subscribers: 1_024,
            derivations: 256,
            queue_bytes: 64 << 20,
            operators: Limits::default(),
        }
    }
}

/// Error of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// There are as many subscribers as are allowed.
    #[error("there are {0} subscribers already; end one first")]
    Subscribers(usize),
    /// There are as many derivations as are allowed.
    #[error(
        "{0} different derivations are computed already; use the pipeline of one of them, or end one first"
    )]
    Derivations(usize),
    /// The queue would be empty always, or too large.
    #[error("a queue holds 1 ADU or more, and 1 to {0} bytes; ask for less")]
    Queue(usize),
    /// An operator cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// There is no such subscriber, or it has ended.
    #[error("the subscription has ended; subscribe again")]
    Ended,
}

/// Result of pushing one ADU of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Units of work of all derivations.
    pub work: u64,
    /// Derivations that could not process the ADU: the pipeline's error. Each subscriber's [`Status`] has its own.
    pub failures: Vec<Failure>,
    /// Reliable subscribers whose queue became full, so that their subscription ended.
    pub ended: Vec<SubscriberId>,
}

/// State of a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// ADUs and bytes that wait.
    pub queued: (usize, usize),
    /// ADUs that were lost because they were not taken.
    pub lost: u64,
    /// ADUs of the source that the pipeline could not process, and the last error.
    pub failed: (u64, Option<Failure>),
    /// True if nothing is added any more: the queue of a reliable subscriber was full, or the source has ended. What waits can
    /// be taken.
    pub has_ended: bool,
}

#[derive(Debug)]
struct Derivation {
    source: SourceId,
    running: Running,
    subscribers: BTreeSet<SubscriberId>,
    /// ADUs of the source since the last one that needed none before was asked for.
    since_resync: u32,
    /// A subscriber has lost ADUs and waits.
    is_resync_wanted: bool,
}

#[derive(Debug)]
struct Subscriber {
    /// `None` once it has ended.
    derivation: Option<u64>,
    queue: Queue,
    changes: u32,
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

    /// Number of derivations that are computed.
    pub fn derivations(&self) -> usize {
        self.derivations.len()
    }

    /// Subscribes to what the pipeline derives from a source, from the source's next ADU on.
    ///
    /// # Errors
    /// A bound is reached, the queue's bounds are not possible, or an operator cannot begin; nothing is then changed.
    pub fn subscribe(
        &mut self,
        source: SourceId,
        pipeline: &Pipeline,
        delivery: Delivery,
    ) -> Result<SubscriberId, DeriveError> {
        if self.subscribers.len() >= self.bounds.subscribers {
            return Err(DeriveError::Subscribers(self.subscribers.len()));
        }
        let bytes_max = self.bounds.queue_bytes;
        if delivery.adus == 0 || !(1..=bytes_max).contains(&delivery.bytes) {
            return Err(DeriveError::Queue(bytes_max));
        }
        let derivation = self.derivation(source, pipeline)?;
        let id = SubscriberId(self.fresh());
        self.join(derivation, id);
        let subscriber = Subscriber {
            derivation: Some(derivation),
            queue: Queue::new(delivery),
            changes: 0,
            failed: 0,
            failure: None,
        };
        self.subscribers.insert(id, subscriber);
        Ok(id)
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
        let subscriber = self.subscribers.get(&id);
        let former = subscriber
            .and_then(|subscriber| subscriber.derivation)
            .ok_or(DeriveError::Ended)?;
        let derivation = self.derivations.get(&former).ok_or(DeriveError::Ended)?;
        if derivation.running.pipeline() == pipeline {
            return Ok(());
        }
        let source = derivation.source;
        let is_alone = derivation.subscribers.len() == 1;
        let number = match find(&self.derivations, source, pipeline) {
            Some(number) => number,
            None if is_alone => {
                self.replace(former, pipeline)?;
                former
            }
            None => self.derivation(source, pipeline)?,
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
        let of_source = self
            .derivations
            .values_mut()
            .filter(|derivation| derivation.source == source);
        for derivation in of_source {
            derivation.resync_if_due();
            match derivation.running.process(adu.clone(), &self.modules) {
                Ok(processed) => {
                    pushed.work += processed.work;
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

    /// The next ADU for a subscriber; `None` if none waits.
    pub fn pop(&mut self, id: SubscriberId) -> Option<Derived> {
        self.subscribers.get_mut(&id)?.queue.pop()
    }

    /// State of a subscriber; `None` if there is none.
    pub fn status(&self, id: SubscriberId) -> Option<Status> {
        let subscriber = self.subscribers.get(&id)?;
        Some(Status {
            queued: (subscriber.queue.len(), subscriber.queue.bytes()),
            lost: subscriber.queue.lost,
            failed: (subscriber.failed, subscriber.failure.clone()),
            has_ended: subscriber.derivation.is_none(),
        })
    }

    /// The pipeline that a subscriber's ADUs are derived by; `None` if there is no such subscriber, or it has ended.
    pub fn running(&self, id: SubscriberId) -> Option<&Running> {
        let number = self.subscribers.get(&id)?.derivation?;
        Some(&self.derivations.get(&number)?.running)
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// The derivation of a source by a pipeline: the one that is computed already, or a new one.
    fn derivation(&mut self, source: SourceId, pipeline: &Pipeline) -> Result<u64, DeriveError> {
        if let Some(number) = find(&self.derivations, source, pipeline) {
            return Ok(number);
        }
        if self.derivations.len() >= self.bounds.derivations {
            return Err(DeriveError::Derivations(self.derivations.len()));
        }
        let running = pipeline.start(&self.modules, self.bounds.operators)?;
        let number = self.fresh();
        let derivation = Derivation {
            source,
            running,
            subscribers: BTreeSet::new(),
            since_resync: 0,
            is_resync_wanted: false,
        };
        self.derivations.insert(number, derivation);
        Ok(number)
    }

    /// Changes the pipeline of a derivation that one subscriber has for itself.
    fn replace(&mut self, number: u64, pipeline: &Pipeline) -> Result<(), StartError> {
        let derivation = self
            .derivations
            .get_mut(&number)
            .expect("it was found just now");
        derivation.running.replace(pipeline.clone(), &self.modules)
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

/// Queues ADUs for each subscriber of a derivation.
fn distribute(
    derivation: &mut Derivation,
    subscribers: &mut BTreeMap<SubscriberId, Subscriber>,
    adus: &[Adu],
    ended: &mut Vec<SubscriberId>,
) {
    for id in &derivation.subscribers {
        let subscriber = subscribers
            .get_mut(id)
            .expect("subscribers of a derivation exist");
        for adu in adus {
            match subscriber.queue.push(adu, subscriber.changes) {
                Added::Queued => {}
                Added::Broken => derivation.is_resync_wanted = true,
                Added::Full => {
                    ended.push(*id);
                    break;
                }
            }
        }
    }
}

impl Derivation {
    fn resync(&mut self) {
        self.running.resync();
        self.since_resync = 0;
        self.is_resync_wanted = false;
    }

    fn resync_if_due(&mut self) {
        self.since_resync = self.since_resync.saturating_add(1);
        if self.is_resync_wanted && self.since_resync > RESYNC_GAP {
            self.resync();
        }
    }
}
