//! Offered stream at a processing node: its derivations, the ADUs that reliable subscribers may need again, and who is there.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anabranch_base::{Instant, NodeId};

use crate::{
    Adu, Modules,
    derive::{Bounds, Pushed, SourceId, Table},
    memory::{Account, Charge},
};

/// Time for which sources and reliable subscribers are waited for that are away, unless another is chosen.
pub const GRACE: Duration = Duration::from_secs(30);
/// Time without progress after which the source does not wait for a reliable subscriber any more.
const STALL_TIME: Duration = Duration::from_secs(60);
/// ADUs and bytes that are kept for reliable subscribers; the source waits beyond.
const KEPT_ADUS: usize = 1_024;
const KEPT_BYTES: usize = 8 << 20;
/// Number of the only source of a table.
pub const SOURCE: SourceId = SourceId(0);

/// End of a stream at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Reason.
    pub why: String,
    /// True if the stream may go on here or at another node.
    pub may_return: bool,
}

impl End {
    /// An end for a reason that stays.
    pub fn lasting(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            may_return: false,
        }
    }

    /// An end for a reason that may pass.
    pub fn for_now(why: &str) -> Self {
        Self {
            may_return: true,
            ..Self::lasting(why)
        }
    }
}

/// A reliable subscriber: its node and its run.
pub type ReaderId = (NodeId, u64);

/// Terms of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Number of this run of the source: one that returns has the same.
    pub run: u64,
    /// True if no ADU may be lost or repeated.
    pub is_reliable: bool,
    /// True if the source does not wait for reliable subscribers that are slower.
    pub is_live: bool,
    /// Number of the first ADU that the source still has.
    pub first: u64,
    /// Reliable subscribers to wait for, up to the time of [`Rules::grace`], before ADUs are forgotten.
    pub readers: u32,
}

/// Rules of a processing node for a stream.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Bounds on its derivations.
    pub bounds: Bounds,
    /// Time for which the source and reliable subscribers are waited for that are away.
    pub grace: Duration,
    /// Account for the ADUs that are kept.
    pub account: Account,
}

impl Default for Rules {
    /// With memory without a bound.
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            grace: GRACE,
            account: Account::default(),
        }
    }
}

/// Error of a reliable source that leaves ADUs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ADU {came} in place of {expected}")]
pub struct Gap {
    /// Number of the ADU.
    pub came: u64,
    /// The number that was to come.
    pub expected: u64,
}

/// A reliable subscriber's session with the node, of which the last one counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit(ReaderId, u64);

/// Place of a reliable subscriber.
#[derive(Debug)]
struct Reader {
    /// It holds what is derived from the ADUs before this one.
    held: u64,
    /// Time of its last progress.
    moved: Instant,
    /// Time since which it is away.
    away: Option<Instant>,
    /// Number of its last visit: those before may end later than it began.
    visit: u64,
}

/// Stream of a source at a processing node. Times are the host's.
#[derive(Debug)]
pub struct Offered {
    terms: Terms,
    pub(super) table: Table,
    next: u64,
    ended: Option<End>,
    pub(super) subscribers: u32,
    grace: Duration,
    account: Account,
    kept: VecDeque<(Adu, Charge)>,
    kept_bytes: usize,
    readers: BTreeMap<ReaderId, Reader>,
    visits: u64,
    /// Readers to wait for, and since when.
    awaited: Option<(u32, Instant)>,
    away: Option<Instant>,
    /// Number of its returns.
    returns: u64,
    adus: u64,
    bytes: u64,
    work: u64,
}

impl Offered {
    /// A stream that is offered now.
    pub fn new(terms: Terms, rules: Rules, modules: Modules, now: Instant) -> Self {
        Self {
            next: terms.first,
            awaited: (terms.readers > 0).then_some((terms.readers, now)),
            terms,
            table: Table::new(rules.bounds, modules),
            ended: None,
            subscribers: 0,
            grace: rules.grace,
            account: rules.account,
            kept: VecDeque::new(),
            kept_bytes: 0,
            readers: BTreeMap::new(),
            visits: 0,
            away: None,
            returns: 0,
            adus: 0,
            bytes: 0,
            work: 0,
        }
    }

    /// Terms of the newest offer.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Derivations.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Number of the next ADU.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The end, after which no ADU follows; `None`: others may.
    pub fn ended(&self) -> Option<&End> {
        self.ended.as_ref()
    }

    /// Number of subscribers.
    pub fn subscribers(&self) -> u32 {
        self.subscribers
    }

    /// ADUs that were taken, and the bytes of their bodies.
    pub fn taken(&self) -> (u64, u64) {
        (self.adus, self.bytes)
    }

    /// Units of work of all derivations.
    pub fn work(&self) -> u64 {
        self.work
    }

    /// ADUs that are kept for reliable subscribers, and the bytes of their bodies.
    pub fn kept_now(&self) -> (usize, usize) {
        (self.kept.len(), self.kept_bytes)
    }

    /// Takes the next ADU, and derives from it. One that is there already is left out.
    ///
    /// # Errors
    /// ADUs of a reliable source are missing before it.
    pub fn push(&mut self, adu: Adu, now: Instant) -> Result<Pushed, Gap> {
        if adu.sequence < self.next {
            return Ok(Pushed::default());
        }
        if self.terms.is_reliable && adu.sequence > self.next {
            return Err(Gap {
                came: adu.sequence,
                expected: self.next,
            });
        }
        self.next = adu.sequence + 1;
        self.adus += 1;
        self.bytes += adu.body.len() as u64;
        self.table.advance(now);
        let pushed = self.table.push(SOURCE, &adu);
        self.work += pushed.work;
        if self.terms.is_reliable {
            self.kept_bytes += adu.body.len();
            // It is there. The source waits, or the oldest are forgotten, while this is too much.
            let charge = self.account.charge_anyway(adu.held_bytes());
            self.kept.push_back((adu, charge));
        }
        self.trim(now);
        Ok(pushed)
    }

    /// Forgets ADUs that nobody needs any more, and readers that have been away for too long.
    pub fn trim(&mut self, now: Instant) {
        self.table.advance(now);
        let is_over = |since: Instant| now.since(since) >= self.grace;
        let (is_full, next) = (self.is_full(), self.next);
        let is_stalled = |reader: &Reader| {
            is_full && reader.held < next && now.since(reader.moved) >= STALL_TIME
        };
        self.readers
            .retain(|_, reader| !reader.away.is_some_and(is_over) && !is_stalled(reader));
        let present = self.readers.len() as u32;
        if (self.awaited).is_some_and(|(count, since)| present >= count || is_over(since)) {
            self.awaited = None;
        }
        let held = self.readers.values().map(|reader| reader.held).min();
        let needed = match self.awaited {
            Some(_) => 0,
            None => held.unwrap_or(self.next),
        };
        while let Some((first, _)) = self.kept.front() {
            if first.sequence >= needed && !(self.terms.is_live && self.is_full()) {
                break;
            }
            self.kept_bytes -= first.body.len();
            self.kept.pop_front();
        }
    }

    /// A source that has returned: the number of the first ADU that is missing.
    pub fn returned(&mut self, terms: Terms) -> u64 {
        self.away = None;
        self.returns += 1;
        if !terms.is_reliable {
            // Those between were lost.
            self.next = self.next.max(terms.first);
        }
        self.terms = terms;
        self.next
    }

    /// Number of returns of the source.
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// The source has left that had returned so often; not if it has returned since.
    pub fn leave(&mut self, returns: u64, now: Instant) {
        if self.returns == returns {
            self.away = Some(now);
        }
    }

    /// True while the source is away.
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// True if nobody can expect anything of the source any more.
    pub fn is_over(&self, now: Instant) -> bool {
        self.away
            .is_some_and(|since| now.since(since) >= self.grace)
            || self.ended.is_some()
    }

    /// No ADU follows.
    pub fn end(&mut self, end: End) {
        self.ended.get_or_insert(end);
        self.table.end_source(SOURCE);
    }

    /// A reliable subscriber that needs the ADUs from this number on.
    pub(super) fn read(&mut self, reader: ReaderId, held: u64, now: Instant) -> Visit {
        self.visits += 1;
        let place = Reader {
            held,
            moved: now,
            away: None,
            visit: self.visits,
        };
        self.readers.insert(reader, place);
        self.trim(now);
        Visit(reader, self.visits)
    }

    fn reader(&mut self, Visit(id, visit): Visit) -> Option<&mut Reader> {
        let reader = self.readers.get_mut(&id);
        reader.filter(|reader| reader.visit == visit)
    }

    /// A reliable subscriber holds what is derived from the ADUs before this one.
    pub(super) fn held(&mut self, visit: Visit, next: u64, now: Instant) {
        let most = self.next;
        if let Some(reader) = self.reader(visit) {
            reader.held = reader.held.max(next.min(most));
            reader.moved = now;
        }
        self.trim(now);
    }

    /// A reliable subscriber has left, for good or not.
    pub(super) fn unread(&mut self, visit: Visit, is_for_good: bool, now: Instant) {
        if let Some(reader) = self.reader(visit) {
            reader.away = Some(now);
            if is_for_good {
                self.readers.remove(&visit.0);
            }
        }
        self.trim(now);
    }

    fn is_full(&self) -> bool {
        self.kept.len() >= KEPT_ADUS || self.kept_bytes >= KEPT_BYTES || self.account.is_full()
    }

    /// True if the source may send another ADU.
    pub fn has_room(&self) -> bool {
        self.terms.is_live || !self.is_full()
    }

    /// Number of the first ADU that is kept, and of readers, those that are awaited included.
    pub fn acknowledged(&self) -> (u64, u32) {
        let first = self.kept.front().map_or(self.next, |(adu, _)| adu.sequence);
        let awaited = self.awaited.map_or(0, |(count, _)| count);
        (first, awaited.max(self.readers.len() as u32))
    }

    /// An ADU that is kept.
    pub(super) fn kept(&self, sequence: u64) -> Option<&Adu> {
        let first = self.kept.front()?.0.sequence;
        let at = usize::try_from(sequence.checked_sub(first)?).ok()?;
        self.kept.get(at).map(|(adu, _)| adu)
    }
}
