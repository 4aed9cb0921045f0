//! Offered stream: its state, shared by the streams of the source and of its subscribers, and the time that its operators take.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::base::{Instant, NodeId, text::printable};
use anabranch_process::{
    Adu, Modules,
    serve::{
        self, End, Offered, Rules, SOURCE, Terms,
        windows::{Failed, Part, Passage, Shares, Windows},
    },
};
use tokio::{sync::watch, time};

use super::monitor::Effort;
use crate::wire::message::{DerivationState, Offer, OperatorState, Pace, SourceState};

pub(crate) use anabranch_process::serve::ReaderId;

/// Clock of a service.
#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Instant + Send + Sync>);

impl Clock {
    /// The clock of this machine, from now on.
    pub(crate) fn real() -> Self {
        let begun = time::Instant::now();
        Self::of(move || Instant::EPOCH + begun.elapsed())
    }

    pub(crate) fn of(read: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    fn now(&self) -> Instant {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// Arrival of an ADU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    /// Its time, or if the ADU was held up, the time since which the service has been at work on those before.
    pub(crate) at: Instant,
    pub(crate) was_held_up: bool,
}

/// Characters of the reason for a place.
const CHOSEN_CHARS: usize = 500;
/// Characters of a step in a state.
const STEP_CHARS: usize = 200;

/// Source of a stream.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) peer: NodeId,
    clock: Clock,
    /// Effort of the operators of all sources of the service.
    effort: Arc<Effort>,
    inner: Mutex<Inner>,
    /// Changes when there may be something to do.
    changed: watch::Sender<u64>,
    /// Reliable subscribers that the source knows of; `None`: it is away, or does not tell.
    known: watch::Sender<Option<u32>>,
}

/// State of a source.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) offer: Offer,
    pub(crate) offered: Offered,
    /// Accounts for subscribers with a demand, by their numbers.
    accounts: BTreeMap<u64, Account>,
    busy: Duration,
    /// Reason for which the source is here.
    chosen: Option<String>,
}

/// Account of the source leg and the operators for a subscriber.
#[derive(Debug)]
struct Account {
    windows: Windows,
    /// Windows that have failed since they were asked for.
    failed: Vec<Failed>,
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
    pub(crate) fn new(
        (name, peer): (String, NodeId),
        offer: Offer,
        (rules, modules): (Rules, Modules),
        (clock, effort): (Clock, Arc<Effort>),
    ) -> Self {
        let terms = offer.terms();
        let offered = Offered::new(terms, rules, modules, clock.now());
        let inner = Inner {
            offer,
            offered,
            accounts: BTreeMap::new(),
            busy: Duration::ZERO,
            chosen: None,
        };
        Self {
            name,
            peer,
            clock,
            effort,
            inner: Mutex::new(inner),
            changed: watch::Sender::new(0),
            known: watch::Sender::new(None),
        }
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until something is so, which is looked at whenever there may be something to do.
    pub(crate) async fn until(&self, is_so: impl Fn() -> bool) {
        let mut changes = self.changes();
        // Not by `wait_for`, whose lock is held while it looks: one who wakes it may have that of the state.
        loop {
            changes.mark_unchanged();
            if is_so() {
                return;
            }
            // The sender is of this source.
            let _ = changes.changed().await;
        }
    }

    /// There may be something to do. Not to be called with the state locked.
    pub(crate) fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Takes the next ADU, which came at that time, or not before it. One that is there already is left out.
    ///
    /// # Errors
    /// ADUs of a reliable source are missing before it.
    pub(crate) fn push(&self, adu: Adu, came: Came) -> Result<(), serve::Gap> {
        {
            let mut inner = self.inner();
            let now = self.now();
            let made = adu.made;
            let is_after_loss = adu.sequence > inner.offered.next();
            let pushed = inner.offered.push(adu, now);
            let done = self.now();
            let busy = done.since(now);
            inner.busy += busy;
            self.effort.add(busy, pushed?.work);
            if let Some(made) = made {
                inner.account(Passage {
                    made,
                    came: came.at,
                    done,
                    was_held_up: came.was_held_up,
                    is_after_loss,
                });
            }
        }
        self.wake();
        Ok(())
    }

    /// The source knows of that many reliable subscribers; `None`: it is away.
    pub(crate) fn knows(&self, readers: Option<u32>) {
        self.known.send_replace(readers);
    }

    /// Waits until the source knows of the reliable subscribers that are there now, so that they are waited for wherever it goes.
    pub(crate) async fn known(&self) {
        let (_, readers) = self.inner().offered.acknowledged();
        let mut known = self.known.subscribe();
        // The sender is of this source.
        let _ = known
            .wait_for(|known| known.is_none_or(|known| known >= readers))
            .await;
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
        inner.chosen = None;
        drop(inner);
        self.wake();
        next
    }

    pub(crate) fn returns(&self) -> u64 {
        self.inner().offered.returns()
    }

    /// The source has left that had returned so often; not if it has returned since.
    pub(crate) fn leave(&self, returns: u64) {
        self.inner().offered.leave(returns, self.now());
        self.wake();
    }

    pub(crate) fn is_away(&self) -> bool {
        self.inner().offered.is_away()
    }

    /// True if nobody can expect anything of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.inner().offered.is_over(self.now())
    }

    /// No ADU follows.
    pub(crate) fn end(&self, end: End) {
        self.inner().offered.end(end);
        self.wake();
    }

    /// The source is here for this reason.
    pub(crate) fn chosen(&self, why: &str) {
        self.inner().chosen = Some(printable(why, CHOSEN_CHARS));
    }

    /// ADUs that operators have taken, and their work.
    pub(crate) fn effort(&self) -> (u64, u64) {
        let offered = &self.inner().offered;
        (offered.taken().0, offered.work())
    }

    /// Begins an account for a subscriber.
    pub(crate) fn watch(&self, number: u64, deadline: Duration) {
        let account = Account {
            windows: Windows::new(deadline, Part::SourceLeg),
            failed: Vec::new(),
        };
        self.inner().accounts.insert(number, account);
    }

    /// Ends an account.
    pub(crate) fn unwatch(&self, number: u64) {
        self.inner().accounts.remove(&number);
    }

    /// Shares of the windows of an account, and those that have failed since the last call.
    pub(crate) fn judged(&self, number: u64) -> (Shares, Vec<Failed>) {
        let now = self.now();
        let mut inner = self.inner();
        let Some(account) = inner.accounts.get_mut(&number) else {
            return Default::default();
        };
        let judged = account.windows.judge(now);
        account.failed.extend(judged);
        (
            account.windows.shares(),
            std::mem::take(&mut account.failed),
        )
    }

    /// Derived ADUs that wait for subscribers, and their bytes.
    pub(crate) fn queued(&self) -> (usize, usize) {
        self.inner().offered.table().queued()
    }

    /// Time spent in operators.
    pub(crate) fn busy(&self) -> Duration {
        self.inner().busy
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
            chosen: inner.chosen.clone(),
        };
        (state, derivations)
    }
}

impl Inner {
    fn account(&mut self, passage: Passage) {
        for account in self.accounts.values_mut() {
            // Looked at every second.
            let failed = account.windows.passed(passage);
            account.failed.extend(failed);
        }
    }
}
