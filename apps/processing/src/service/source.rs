//! Offered stream: its derivations, the ADUs that reliable subscribers may need again, and who is there.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anabranch::base::NodeId;
use anabranch_process::{
    Adu,
    derive::{Bounds, SourceId, Table},
};
use tokio::{sync::watch, time::Instant};

use crate::wire::message::{DerivationState, Offer, OperatorState, Pace, SourceState};

/// Time for which sources and reliable subscribers are waited for that are away.
pub(crate) const GRACE: Duration = Duration::from_secs(30);
/// Time without progress after which the source does not wait for a reliable subscriber any more.
const STALL_TIME: Duration = Duration::from_secs(60);
/// ADUs and bytes that are kept for reliable subscribers; the source waits beyond.
const KEPT_ADUS: usize = 1_024;
const KEPT_BYTES: usize = 8 << 20;
/// Number of the only source of a table.
pub(crate) const SOURCE: SourceId = SourceId(0);
/// Characters of a step in a state.
const STEP_CHARS: usize = 200;

/// A reliable subscriber: its node and its run.
pub(crate) type ReaderId = (NodeId, u64);

/// Place of a reliable subscriber.
#[derive(Debug)]
struct Reader {
    /// It holds what is derived from the ADUs before this one.
    held: u64,
    /// Time of its last progress.
    moved: Instant,
    /// Time since which it is away.
    away: Option<Instant>,
}

/// Source of a stream.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) peer: NodeId,
    inner: Mutex<Inner>,
    /// Changes when there may be something to do.
    changed: watch::Sender<u64>,
}

/// State of a source.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) offer: Offer,
    pub(crate) table: Table,
    /// Number of the next ADU.
    pub(crate) next: u64,
    /// Reason why no ADU follows.
    pub(crate) ended: Option<String>,
    pub(crate) subscribers: u32,
    kept: VecDeque<Adu>,
    kept_bytes: usize,
    readers: BTreeMap<ReaderId, Reader>,
    /// Readers to wait for, and since when.
    awaited: Option<(u32, Instant)>,
    away: Option<Instant>,
    /// Number of its returns.
    returns: u64,
    adus: u64,
    bytes: u64,
    work: u64,
    busy: Duration,
}

impl Source {
    pub(crate) fn new(name: String, peer: NodeId, offer: Offer, bounds: Bounds) -> Self {
        let inner = Inner {
            next: offer.first,
            awaited: (offer.readers > 0).then(|| (offer.readers, Instant::now())),
            offer,
            table: Table::new(bounds, anabranch_process::Modules::default()),
            ended: None,
            subscribers: 0,
            kept: VecDeque::new(),
            kept_bytes: 0,
            readers: BTreeMap::new(),
            away: None,
            returns: 0,
            adus: 0,
            bytes: 0,
            work: 0,
            busy: Duration::ZERO,
        };
        Self {
            name,
            peer,
            inner: Mutex::new(inner),
            changed: watch::Sender::new(0),
        }
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub(crate) fn push(&self, adu: Adu) -> Result<(), String> {
        {
            let mut inner = self.inner();
            if adu.sequence < inner.next {
                return Ok(());
            }
            if inner.offer.is_reliable && adu.sequence > inner.next {
                return Err(format!("ADU {} in place of {}", adu.sequence, inner.next));
            }
            inner.next = adu.sequence + 1;
            inner.adus += 1;
            inner.bytes += adu.body.len() as u64;
            let begin = Instant::now();
            let pushed = inner.table.push(SOURCE, &adu);
            inner.busy += begin.elapsed();
            inner.work += pushed.work;
            if inner.offer.is_reliable {
                inner.kept_bytes += adu.body.len();
                inner.kept.push_back(adu);
            }
        }
        self.trim();
        Ok(())
    }

    /// Forgets ADUs that nobody needs any more, and readers that have been away for too long.
    pub(crate) fn trim(&self) {
        let mut inner = self.inner();
        let is_over = |since: Instant| since.elapsed() >= GRACE;
        let is_full = inner.is_full();
        let is_stalled = |reader: &Reader| is_full && reader.moved.elapsed() >= STALL_TIME;
        inner
            .readers
            .retain(|_, reader| !reader.away.is_some_and(is_over) && !is_stalled(reader));
        let present = inner.readers.len() as u32;
        if (inner.awaited).is_some_and(|(count, since)| present >= count || is_over(since)) {
            inner.awaited = None;
        }
        let held = inner.readers.values().map(|reader| reader.held).min();
        let needed = match inner.awaited {
            Some(_) => 0,
            None => held.unwrap_or(inner.next),
        };
        let is_live = inner.offer.pace == Pace::Live;
        while let Some(first) = inner.kept.front() {
            if first.sequence >= needed && !(is_live && inner.is_full()) {
                break;
            }
            inner.kept_bytes -= first.body.len();
            inner.kept.pop_front();
        }
        drop(inner);
        self.wake();
    }

    /// A source that has returned: the number of the first ADU that is missing.
    pub(crate) fn returned(&self, offer: Offer) -> u64 {
        let mut inner = self.inner();
        inner.away = None;
        inner.returns += 1;
        inner.offer = offer;
        inner.next
    }

    pub(crate) fn returns(&self) -> u64 {
        self.inner().returns
    }

    /// The source has left that had returned so often; not if it has returned since.
    pub(crate) fn leave(&self, returns: u64) {
        let mut inner = self.inner();
        if inner.returns == returns {
            inner.away = Some(Instant::now());
        }
    }

    pub(crate) fn is_away(&self) -> bool {
        self.inner().away.is_some()
    }

    /// True if nobody can expect anything of it any more.
    pub(crate) fn is_over(&self) -> bool {
        let inner = self.inner();
        inner.away.is_some_and(|since| since.elapsed() >= GRACE) || inner.ended.is_some()
    }

    /// No ADU follows.
    pub(crate) fn end(&self, why: &str) {
        {
            let mut inner = self.inner();
            inner.ended.get_or_insert_with(|| why.to_owned());
            inner.table.end_source(SOURCE);
        }
        self.wake();
    }

    /// A reliable subscriber that needs the ADUs from this number on.
    pub(crate) fn read(&self, reader: ReaderId, held: u64) {
        let place = Reader {
            held,
            moved: Instant::now(),
            away: None,
        };
        self.inner().readers.insert(reader, place);
        self.trim();
    }

    pub(crate) fn held(&self, id: ReaderId, next: u64) {
        {
            let mut inner = self.inner();
            let most = inner.next;
            if let Some(reader) = inner.readers.get_mut(&id) {
                reader.held = reader.held.max(next.min(most));
                reader.moved = Instant::now();
            }
        }
        self.trim();
    }

    /// A reliable subscriber has left, for good or not.
    pub(crate) fn unread(&self, id: ReaderId, is_for_good: bool) {
        {
            let mut inner = self.inner();
            if is_for_good {
                inner.readers.remove(&id);
            } else if let Some(reader) = inner.readers.get_mut(&id) {
                reader.away = Some(Instant::now());
            }
        }
        self.trim();
    }

    /// State, and that of the derivations.
    pub(crate) fn state(&self) -> (SourceState, Vec<DerivationState>) {
        let inner = self.inner();
        let busy_us = inner.busy.as_micros() as u64;
        let of = |work: u64| match inner.work {
            0 => 0,
            all => (u128::from(busy_us) * u128::from(work) / u128::from(all)) as u64,
        };
        let derivations = inner.table.of_source(SOURCE).map(|(running, subscribers)| {
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
        let state = SourceState {
            name: self.name.clone(),
            node: self.peer.to_string(),
            is_present: inner.away.is_none(),
            is_reliable: inner.offer.is_reliable,
            adus: inner.adus,
            bytes: inner.bytes,
            kept: inner.kept.len() as u64,
            busy_us,
            work: inner.work,
        };
        (state, derivations)
    }
}

impl Inner {
    fn is_full(&self) -> bool {
        self.kept.len() >= KEPT_ADUS || self.kept_bytes >= KEPT_BYTES
    }

    /// True if the source may send another ADU.
    pub(crate) fn has_room(&self) -> bool {
        self.offer.pace == Pace::Live || !self.is_full()
    }

    /// Number of the first ADU that is kept, and of readers, those that are awaited included.
    pub(crate) fn acknowledged(&self) -> (u64, u32) {
        let first = self.kept.front().map_or(self.next, |adu| adu.sequence);
        let awaited = self.awaited.map_or(0, |(count, _)| count);
        (first, awaited.max(self.readers.len() as u32))
    }

    /// An ADU that is kept.
    pub(crate) fn kept(&self, sequence: u64) -> Option<&Adu> {
        let first = self.kept.front()?.sequence;
        let at = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.kept.get(at)
    }
}
