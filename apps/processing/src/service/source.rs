//! Offered stream: its state, shared by the streams of the source and of its subscribers, and the time that its operators take.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::base::{Instant, NodeId};
use anabranch_process::{
    Adu, Modules,
    derive::Bounds,
    serve::{self, Offered, SOURCE, Terms},
};
use tokio::{sync::watch, time};

use crate::wire::message::{DerivationState, Offer, OperatorState, Pace, SourceState};

pub(crate) use anabranch_process::serve::{GRACE, ReaderId};

/// Characters of a step in a state.
const STEP_CHARS: usize = 200;

/// Source of a stream.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) peer: NodeId,
    begun: time::Instant,
    inner: Mutex<Inner>,
    /// Changes when there may be something to do.
    changed: watch::Sender<u64>,
}

/// State of a source.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) offer: Offer,
    pub(crate) offered: Offered,
    busy: Duration,
}

impl Offer {
    fn terms(&self) -> Terms {
        Terms {
            run: self.run,
            is_reliable: self.is_reliable,
            is_live: self.pace == Pace::Live,
            first: self.first,
            readers: self.readers,
        }
    }
}

impl Source {
    pub(crate) fn new(name: String, peer: NodeId, offer: Offer, bounds: Bounds) -> Self {
        let terms = offer.terms();
        let offered = Offered::new(terms, bounds, Modules::default(), Instant::EPOCH);
        let inner = Inner {
            offer,
            offered,
            busy: Duration::ZERO,
        };
        Self {
            name,
            peer,
            begun: time::Instant::now(),
            inner: Mutex::new(inner),
            changed: watch::Sender::new(0),
        }
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the offer.
    pub(crate) fn now(&self) -> Instant {
        Instant::EPOCH + self.begun.elapsed()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Takes the next ADU. One that is there already is left out.
    ///
    /// # Errors
    /// ADUs of a reliable source are missing before it.
    pub(crate) fn push(&self, adu: Adu) -> Result<(), serve::Gap> {
        {
            let mut inner = self.inner();
            let now = self.now();
            let begin = time::Instant::now();
            let pushed = inner.offered.push(adu, now);
            inner.busy += begin.elapsed();
            pushed?;
        }
        self.wake();
        Ok(())
    }

    /// Forgets ADUs that nobody needs any more, and readers that have been away for too long.
    pub(crate) fn trim(&self) {
        self.inner().offered.trim(self.now());
        self.wake();
    }

    /// A source that has returned: the number of the first ADU that is missing.
    pub(crate) fn returned(&self, offer: Offer) -> u64 {
        let mut inner = self.inner();
        let next = inner.offered.returned(offer.terms());
        inner.offer = offer;
        next
    }

    pub(crate) fn returns(&self) -> u64 {
        self.inner().offered.returns()
    }

    /// The source has left that had returned so often; not if it has returned since.
    pub(crate) fn leave(&self, returns: u64) {
        self.inner().offered.leave(returns, self.now());
    }

    pub(crate) fn is_away(&self) -> bool {
        self.inner().offered.is_away()
    }

    /// True if nobody can expect anything of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.inner().offered.is_over(self.now())
    }

    /// No ADU follows.
    pub(crate) fn end(&self, why: &str) {
        self.inner().offered.end(why);
        self.wake();
    }

    /// State, and that of the derivations.
    pub(crate) fn state(&self) -> (SourceState, Vec<DerivationState>) {
        let inner = self.inner();
        let offered = &inner.offered;
        let busy_us = inner.busy.as_micros() as u64;
        let of = |work: u64| match offered.work() {
            0 => 0,
            all => (u128::from(busy_us) * u128::from(work) / u128::from(all)) as u64,
        };
        let derivations = offered.table().of_source(SOURCE);
        let derivations = derivations.map(|(running, subscribers)| {
            let steps = running.pipeline().steps().iter().zip(running.costs());
            let operators = steps.map(|(step, cost)| OperatorState {
                step: step.to_string().chars().take(STEP_CHARS).collect(),
                adus_in: cost.adus_in,
                adus_out: cost.adus_out,
                failures: cost.failures,
                work: cost.work,
                busy_us: of(cost.work),
            });
            DerivationState {
                subscribers: subscribers as u64,
                operators: operators.collect(),
            }
        });
        let derivations = derivations.collect();
        let (adus, bytes) = offered.taken();
        let state = SourceState {
            name: self.name.clone(),
            node: self.peer.to_string(),
            is_present: !offered.is_away(),
            is_reliable: inner.offer.is_reliable,
            adus,
            bytes,
            kept: offered.kept_now().0 as u64,
            busy_us,
            work: offered.work(),
        };
        (state, derivations)
    }
}
