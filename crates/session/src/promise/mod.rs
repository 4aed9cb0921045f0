//! Promises: what streams were promised, on what evidence, and how it was kept.
//!
//! | file | holds |
//! |---|---|
//! | `book` | what sets of paths hold in one scheduling window: the evidence |
//! | `answer` | [`Grant`] and [`Refusal`]: what an application is told |
//! | `explain` | [`Explanation`]: why a stream is promised what it is |
//! | `stream` | the state of one promised stream, and the account of its windows |
//! | `desk` | [`Desk`]: all this without a session, for experiments |
//! | `mod` | admission, renewal, withdrawal |
//!
//! A stream is admitted when all that is promised already and it find a place
//! ([`anabranch_sched::mapping`]). A *standing* promise is made with a margin on paths that do not drift, and
//! holds until the stream closes. A *renewable* one holds for its term; two seconds before the end it is made
//! anew from what is forecast then, or its owner is told that it will lapse. Streams of lower probability
//! yield first, because the others are mapped before them. A stream without a promise in force (it waits, or
//! lost it) is still served before elastic ones, up to the rate it asked for, after all that are promised.

mod answer;
pub(crate) mod book;
mod desk;
mod explain;
pub(crate) mod stream;
use std::{collections::BTreeMap, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, StreamId};
use anabranch_sched::{
    Assignment, Claim, Grade, Guarantee, Plan, StreamSpec,
    mapping::{self, Offer, Placement, Request, Shortage, Term, offer},
};
use anabranch_stats::joint::Cell;

use self::{
    book::{Book, View},
    stream::{Promised, Window},
};

pub use self::{
    answer::{Grant, Reason, Refusal},
    desk::{Candidate, Desk},
    explain::Explanation,
    stream::{Account, Note},
};

/// How long before it lapses a promise is renewed, or its owner told that it cannot be.
pub(crate) const NOTICE: Duration = Duration::from_secs(2);
/// What headers add to a stream's bytes, as a factor.
const OVERHEAD: f64 = 1.02;
/// The scheduling window in which capacity is judged.
const WINDOW: Duration = Guarantee::WINDOW;

/// Key: session.
#[derive(Debug)]
pub(crate) struct Promises {
    book: Book,
    /// Of streams that asked for a promise.
    streams: BTreeMap<StreamId, Promised>,
    /// The mapping has to be handed to the scheduler.
    is_changed: bool,
    /// Channels that promised streams go by.
    on: Vec<ChannelId>,
}

/// What happened to a promise, for its owner to hear.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// It was made.
    Promised(StreamId, Grant),
    /// It will lapse, or break, unless the paths recover.
    Warned(StreamId, Refusal),
    /// It has lapsed.
    Withdrawn(StreamId, Refusal),
}

/// Which channel is on which path, by path; `None`: none is.
pub(crate) type Channels<'a> = &'a [Option<ChannelId>];

impl Promises {
    /// With capacity measured in parts of `measured`, which divides a second.
    pub(crate) fn new(measured: Duration) -> Self {
        Self {
            book: Book::new(WINDOW, measured),
            streams: BTreeMap::new(),
            is_changed: false,
            on: Vec::new(),
        }
    }

    /// Whether any stream asked for a promise.
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// The shortest window that can be promised: the one in which capacity is judged.
    #[allow(clippy::unused_self)] // It may become a setting.
    pub(crate) fn window(&self) -> Duration {
        WINDOW
    }

    /// Whether the scheduler is to be told.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether promised streams go by this channel; those that still wait go by any.
    pub(crate) fn is_on(&self, channel: ChannelId) -> bool {
        self.on.contains(&channel)
    }

    /// Takes what all paths carried in one sub-window; whether a scheduling window is complete.
    pub(crate) fn observe(&mut self, row: &[Cell]) -> bool {
        self.book.push(row)
    }

    /// What would be answered if `spec` were opened now.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        spec: &StreamSpec,
        channels: Channels<'_>,
    ) -> Result<Grant, Refusal> {
        let Some(guarantee) = spec.guarantee.as_deref().copied() else {
            return Err(Refusal::bare(Reason::NoGuarantee));
        };
        self.place(now, NEW, &guarantee, spec, channels)
            .map(|(grant, _)| grant)
    }

    /// Admits a new stream, or keeps it waiting where its guarantee allows that.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        stream: StreamId,
        spec: &StreamSpec,
        channels: Channels<'_>,
    ) -> Result<Option<Notice>, Refusal> {
        let Some(guarantee) = spec.guarantee.as_deref().copied() else {
            return Ok(None);
        };
        let answer = self.place(now, stream, &guarantee, spec, channels);
        let mut entry = Promised::new(now, guarantee, spec);
        let notice = match answer {
            Ok((grant, placements)) => {
                entry.grant(now, grant.term, &grant);
                self.streams.insert(stream, entry);
                self.settle(placements);
                Some(Notice::Promised(stream, grant))
            }
            Err(refusal) if guarantee.waits => {
                entry.note(now, format!("waits: {refusal}"));
                self.streams.insert(stream, entry);
                None
            }
            Err(refusal) => return Err(refusal),
        };
        self.is_changed = true;
        Ok(notice)
    }

    /// An open stream asks for something else, or for nothing any more. When that is refused, all stays
    /// as it was.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        stream: StreamId,
        spec: &StreamSpec,
        channels: Channels<'_>,
    ) -> Result<Option<Notice>, Refusal> {
        let before = self.streams.remove(&stream);
        let answer = self.open(now, stream, spec, channels);
        match (&answer, before) {
            (Err(_), Some(before)) => {
                self.streams.insert(stream, before);
            }
            (Ok(_), Some(before)) => {
                self.is_changed = true;
                if let Some(entry) = self.streams.get_mut(&stream) {
                    entry.inherit(before);
                }
            }
            (_, None) => {}
        }
        answer
    }

    /// The stream is over.
    pub(crate) fn close(&mut self, stream: StreamId) {
        self.is_changed |= self.streams.remove(&stream).is_some();
    }

    /// A channel came or went.
    pub(crate) fn on_channels_changed(&mut self) {
        self.is_changed |= !self.streams.is_empty();
    }

    /// `bytes` of the stream were acknowledged.
    pub(crate) fn acked(&mut self, stream: StreamId, bytes: u64) {
        if let Some(entry) = self.streams.get_mut(&stream) {
            entry.acked_bytes += bytes;
        }
    }

    /// What the scheduler sees of a stream.
    pub(crate) fn claim(&self, stream: StreamId) -> Option<Claim> {
        self.streams.get(&stream).map(|entry| Claim {
            bytes_per_s: entry.guarantee.required().as_bytes_per_s(),
            window: entry.guarantee.window,
            rank: entry.rank,
        })
    }

    /// A scheduling window is over: judges it, renews, warns, withdraws. `since` tells of a stream since
    /// when its oldest byte that is not known to have arrived has been waiting.
    pub(crate) fn end_window(
        &mut self,
        now: Instant,
        channels: Channels<'_>,
        late: Duration,
        since: impl Fn(StreamId) -> Option<Instant>,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (&stream, entry) in &mut self.streams {
            let oldest = since(stream);
            entry.end_window(Window {
                length: WINDOW,
                is_behind: oldest.is_some_and(|at| now.since(at) > late),
            });
        }
        self.review(now, channels, &mut notices);
        notices
    }

    /// The plan for the scheduler, if it changed.
    pub(crate) fn take_plan(&mut self, channels: Channels<'_>) -> Option<Plan> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let order = self.order();
        let mut assignments = Vec::with_capacity(order.len());
        for (rank, stream) in order.into_iter().enumerate() {
            let Some(entry) = self.streams.get_mut(&stream) else {
                continue;
            };
            entry.rank = rank as u32;
            let bytes = |rate_bps: f64| rate_bps / 8.0 * entry.guarantee.window.as_secs_f64();
            assignments.push(Assignment {
                stream,
                window: entry.guarantee.window,
                window_bytes: bytes(entry.guarantee.required().as_bps() as f64),
                constraint: entry.guarantee.constraint(),
                may_split: entry.is_divisible,
                shares: entry
                    .placement
                    .shares
                    .iter()
                    .filter_map(|&(path, rate)| {
                        Some((channels.get(path).copied()??, bytes(rate / OVERHEAD)))
                    })
                    .collect(),
            });
        }
        self.on.clear();
        let shares = assignments.iter().flat_map(|assignment| &assignment.shares);
        self.on.extend(shares.map(|(channel, _)| *channel));
        self.on.sort_unstable();
        self.on.dedup();
        Some(Plan { assignments })
    }

    /// Streams in order of precedence: those with a promise in force, then the others.
    fn order(&self) -> Vec<StreamId> {
        let mut requests = self.requests(|_| true, &[]);
        Request::sort(&mut requests);
        let mut order: Vec<StreamId> = requests.iter().map(|request| request.stream).collect();
        order.sort_by_key(|stream| !self.streams[stream].is_in_force());
        order
    }

    fn requests(&self, which: impl Fn(&Promised) -> bool, channels: Channels<'_>) -> Vec<Request> {
        self.streams
            .iter()
            .filter(|(_, entry)| which(entry))
            .map(|(&stream, entry)| entry.request(stream, channels, OVERHEAD))
            .collect()
    }

    /// Finds a place for a stream beside all that is promised.
    fn place(
        &mut self,
        now: Instant,
        stream: StreamId,
        guarantee: &Guarantee,
        spec: &StreamSpec,
        channels: Channels<'_>,
    ) -> Result<(Grant, Vec<(StreamId, Placement)>), Refusal> {
        let terms: &[Term] = match guarantee.grade {
            Grade::Best => &[Term::Standing, Term::Renewable],
            Grade::Standing => &[Term::Standing],
            Grade::Renewable => &[Term::Renewable],
        };
        let others = self.requests(|entry| entry.is_in_force(), channels);
        let entry = Promised::new(now, *guarantee, spec);
        let mut refused = None;
        for &term in terms {
            let wanted = Request {
                term,
                ..entry.request(stream, channels, OVERHEAD)
            };
            let mut all = others.clone();
            all.push(wanted.clone());
            Request::sort(&mut all);
            let mut view = self.book.view(channels);
            match mapping::map(&all, &mut view) {
                Ok(placements) => {
                    let placed: Vec<_> = all.iter().map(|r| r.stream).zip(placements).collect();
                    let own = placed.iter().find(|(id, _)| *id == stream);
                    let own = own.map(|(_, placement)| placement.clone());
                    let grant =
                        Grant::new(now, guarantee, term, &own.unwrap_or_default(), channels);
                    return Ok((grant, placed));
                }
                Err(shortage) => refused = Some((wanted, all, shortage)),
            }
        }
        let (wanted, all, shortage) = refused.expect("there is a grade to try");
        Err(refusal(
            &wanted,
            &others,
            &all,
            shortage,
            &mut self.book.view(channels),
            channels,
        ))
    }

    fn settle(&mut self, placements: Vec<(StreamId, Placement)>) {
        for (stream, placement) in placements {
            if let Some(entry) = self.streams.get_mut(&stream) {
                self.is_changed |= entry.placement != placement;
                entry.placement = placement;
            }
        }
    }

    /// Maps what is promised anew on what is known now; renews, warns and withdraws.
    fn review(&mut self, now: Instant, channels: Channels<'_>, notices: &mut Vec<Notice>) {
        if self.streams.is_empty() {
            return;
        }
        let order = self.order();
        let mut all = self.requests(|_| true, channels);
        Request::sort(&mut all);
        // Most of the time all find a place at once; else one after the other, the first in precedence
        // first.
        if let Ok(placements) = mapping::map(&all, &mut self.book.view(channels)) {
            let placed = all.iter().map(|request| request.stream);
            self.settle(placed.zip(placements).collect());
            for stream in order {
                self.confirm(now, stream, channels, notices);
            }
            return;
        }
        let mut kept: Vec<Request> = Vec::new();
        for stream in order {
            let request = self.streams[&stream].request(stream, channels, OVERHEAD);
            let mut all = kept.clone();
            all.push(request.clone());
            Request::sort(&mut all);
            match mapping::map(&all, &mut self.book.view(channels)) {
                Ok(placements) => {
                    kept = all;
                    let placed = kept.iter().map(|request| request.stream);
                    self.settle(placed.zip(placements).collect());
                    self.confirm(now, stream, channels, notices);
                }
                Err(shortage) => {
                    let Some(entry) = self.streams.get_mut(&stream) else {
                        continue;
                    };
                    let is_due = entry.is_due(now);
                    if !entry.is_in_force() || (entry.is_warned() && !is_due) {
                        continue;
                    }
                    let mut view = self.book.view(channels);
                    let refusal = refusal(&request, &kept, &all, shortage, &mut view, channels);
                    if is_due {
                        entry.withdraw(now, &refusal);
                        self.is_changed = true;
                        notices.push(Notice::Withdrawn(stream, refusal));
                    } else {
                        entry.warn(now, &refusal);
                        notices.push(Notice::Warned(stream, refusal));
                    }
                }
            }
        }
    }

    /// A place was found for the stream: renews its promise, or makes one.
    fn confirm(
        &mut self,
        now: Instant,
        stream: StreamId,
        channels: Channels<'_>,
        notices: &mut Vec<Notice>,
    ) {
        let Some(entry) = self.streams.get_mut(&stream) else {
            return;
        };
        if let Some(term) = entry.holds(now) {
            let grant = Grant::new(now, &entry.guarantee, term, &entry.placement, channels);
            entry.grant(now, term, &grant);
            self.is_changed = true;
            notices.push(Notice::Promised(stream, grant));
        }
    }

    /// Why a stream is promised what it is, or not.
    pub(crate) fn explain(&self, stream: StreamId, channels: Channels<'_>) -> Option<Explanation> {
        let entry = self.streams.get(&stream)?;
        Some(Explanation::new(stream, entry, channels, self.book.rows()))
    }
}

/// The id of a stream that does not exist yet: the last in precedence among equals.
const NEW: StreamId = StreamId(u64::MAX);

fn refusal(
    wanted: &Request,
    others: &[Request],
    all: &[Request],
    shortage: Shortage,
    view: &mut View<'_>,
    channels: Channels<'_>,
) -> Refusal {
    let offer = offer::offer(wanted, others, view);
    // What headers take is not the stream's.
    let net = |rate: Rate| Rate::from_bps((rate.as_bps() as f64 / OVERHEAD) as u64);
    let offer = Offer {
        rate: offer.rate.map(net),
        ..offer
    };
    let failed = all[shortage.request].stream;
    let reason = match shortage.binding {
        _ if failed != wanted.stream => Reason::Displaces(failed),
        Some(binding) => Reason::TooLittle {
            channels: binding
                .set
                .iter()
                .filter_map(|path| channels.get(path).copied()?)
                .collect(),
            holds: Rate::from_bps(binding.holds_bps as u64),
            taken: Rate::from_bps(binding.taken_bps as u64),
        },
        None => Reason::TooLittleKnown {
            windows: view.rows(),
            term: wanted.term,
        },
    };
    Refusal { reason, offer }
}
