//! Source: offers a stream to a processing node, and keeps ADUs until subscribers hold them.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{AduSession, AduStream, StreamSpec};
use anabranch_process::{Adu, Fields, place::Totals, serve::Retained};
use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::{
    error::ProcessingError,
    link::{Link, unexpected},
    placed::Placed,
    presence,
    wire::{
        Carried, Notice, Purpose, Request,
        item::HEADER_BYTES_MAX,
        label::chosen,
        message::{self, Pace},
    },
};

/// Time for a node that is left to take notice.
const LEAVE_TIME: Duration = Duration::from_secs(1);
/// Time for a processing node to take or refuse the offer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Largest body of an ADU, in bytes.
pub const BODY_BYTES_MAX: usize = anabranch::local::frame::ADU_BYTES_MAX - HEADER_BYTES_MAX;

/// Settings of a source.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the stream.
    pub name: String,
    /// A number chosen at random.
    pub run: u64,
    /// Nodes that may derive from the stream; `*` stands for all.
    pub subscribers: Vec<String>,
    /// Reaction to slow reliable subscribers.
    pub pace: Pace,
    /// Time without a response of the processing node after which a session ends with [`ProcessingError::Lost`], for sources that can go to
    /// another one; `None`: it lasts as long as the session.
    pub patience: Option<Duration>,
    /// Specification of the stream to the processing node; its label is not used. If it is reliable and without a lifetime, no ADU is lost.
    pub spec: StreamSpec,
}

impl Settings {
    pub(crate) fn is_reliable(&self) -> bool {
        self.spec.reliable && self.spec.lifetime.is_none()
    }
}

#[derive(Debug)]
struct Kept {
    retained: Retained,
    /// Questions to processing nodes that may take the stream: what they may be told to begin with is kept meanwhile.
    asking: usize,
    /// Reliable subscribers that the service reported last.
    readers: u32,
    has_begun: bool,
    is_complete: bool,
}

/// A question to a processing node, until this is dropped.
struct Asking<'a>(&'a Source);

impl<'a> Asking<'a> {
    fn new(source: &'a Source) -> Self {
        source.kept().asking += 1;
        Self(source)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.kept().asking -= 1;
    }
}

/// A source of one stream, for one session with a processing node after the other.
#[derive(Debug)]
pub struct Source {
    settings: Settings,
    begun: Instant,
    kept: Mutex<Kept>,
    changed: watch::Sender<()>,
    subscribers: watch::Sender<u32>,
    /// Number of nodes that have taken the offer.
    taken: watch::Sender<u64>,
    placed: Placed,
    /// Held by whoever sends ADUs.
    turn: tokio::sync::Mutex<()>,
    /// Number of questions to processing nodes.
    asked: AtomicU64,
}

impl Source {
    /// A source without ADUs.
    pub fn new(settings: Settings) -> Self {
        let kept = Kept {
            retained: Retained::new(settings.is_reliable()),
            asking: 0,
            readers: 0,
            has_begun: false,
            is_complete: false,
        };
        Self {
            settings,
            begun: Instant::now(),
            kept: Mutex::new(kept),
            changed: watch::Sender::default(),
            subscribers: watch::Sender::default(),
            taken: watch::Sender::default(),
            placed: Placed::default(),
            turn: tokio::sync::Mutex::default(),
            asked: AtomicU64::new(0),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Number of subscribers at the processing node.
    pub fn subscribers(&self) -> watch::Receiver<u32> {
        self.subscribers.subscribe()
    }

    /// True once a processing node has taken the offer.
    pub fn has_begun(&self) -> bool {
        self.kept().has_begun
    }

    /// Number of times that a processing node has taken the offer.
    pub fn taken(&self) -> watch::Receiver<u64> {
        self.taken.subscribe()
    }

    /// Adds an ADU as soon as there is space, and returns its number. Its body has at most [`BODY_BYTES_MAX`].
    pub async fn put(&self, fields: Fields, body: Bytes) -> u64 {
        let mut changed = self.changed.subscribe();
        let has_space = || self.kept().retained.has_space();
        // The sender is of this source.
        let _ = changed.wait_for(|()| has_space()).await;
        let made = Some(self.begun.elapsed());
        self.placed.made(body.len());
        let sequence = self.kept().retained.push(fields, body, made);
        self.changed.send_replace(());
        sequence
    }

    /// No ADU follows.
    pub fn finish(&self) {
        self.kept().is_complete = true;
        self.changed.send_replace(());
    }

    /// Offers the stream in a session until everything was sent and is not needed any more. In a later session, the source goes on with
    /// the first ADU that is needed.
    ///
    /// # Errors
    /// The node refuses, or does not keep to the protocol; the session is over.
    pub async fn run<S: AduSession>(&self, session: &S) -> Result<(), ProcessingError> {
        tokio::select! {
            ended = self.offer(session) => ended,
            lost = presence::lost(session, self.settings.patience) => Err(lost),
        }
    }

    async fn offer<S: AduSession>(&self, session: &S) -> Result<(), ProcessingError> {
        let settings = &self.settings;
        let asking = Asking::new(self);
        let opens = self.opens();
        let first = self.request();
        let begin = first.first;
        let first = Request::Offer(message::Offer {
            opens: Some(opens),
            ..first
        });
        let link = Link::open(session, Purpose::Offer, &settings.name, &first).await?;
        let early = link.adus(session, opens, settings.spec.clone()).await?;
        // What is not reliable is sent once the node has taken the stream, and so is what is served elsewhere still.
        let turn = self.turn.try_lock().ok();
        let turn = turn.filter(|_| settings.is_reliable());
        let answer = match turn {
            Some(_) => {
                self.resume(begin)?;
                tokio::select! {
                    biased;
                    answer = answer(&link) => answer,
                    // The answer says why it failed.
                    _ = self.send_all(&link, &early) => answer(&link).await,
                }
            }
            None => answer(&link).await,
        };
        let (number, next) = answer.inspect_err(|_| Link::<S>::unused(&early))?;
        self.taken.send_modify(|count| *count += 1);
        let sent = turn.is_some().then(|| self.kept().retained.position());
        let _turn = match turn {
            Some(turn) => turn,
            // Where the stream is served now, it ends first.
            None => self.turn.lock().await,
        };
        drop(asking);
        let stream = if number == opens {
            // It leaves out what it had.
            self.resume(next.max(sent.unwrap_or_default()))?;
            early
        } else {
            Link::<S>::unused(&early);
            self.resume(next)?;
            link.adus(session, number, settings.spec.clone()).await?
        };
        for request in self.placed.begun() {
            link.send(&request).await?;
        }
        tokio::select! {
            failed = self.send(&link, &stream) => Err(failed),
            ended = self.listen(&link) => ended,
            why = self.placed.leaving() => {
                link.send(&Request::Leave { why }).await?;
                // A node that does not respond finds out by itself.
                let _ = timeout(LEAVE_TIME, link.finish()).await;
                Err(ProcessingError::Moved)
            }
        }
    }

    /// The source chooses its place: nodes are asked from now on what their operators do for it.
    pub fn measure(&self) {
        self.placed.measure();
    }

    /// Totals since the beginning, with those of the operators at the place in use, whenever they are told; `None`: not yet there.
    pub fn totals(&self) -> Option<Totals> {
        self.placed.totals()
    }

    /// Leaves the processing node in use for another place, for a reason that is told to both: [`Self::run`] ends with
    /// [`ProcessingError::Moved`], and subscribers are to follow. Without effect before a node has taken the offer again.
    pub fn leave(&self, why: &str) {
        self.placed.leave(why);
    }

    /// The stream is served by this program; returns the reason for which the source is at the place that it has chosen.
    pub(crate) fn hosted(&self) -> Option<String> {
        // Nobody else is to be asked.
        drop(self.placed.begun());
        self.placed.why()
    }

    /// Takes the totals of the operators at the place in use.
    pub(crate) fn derived(&self, notice: &Notice) {
        self.placed.derived(notice);
    }

    /// Sends ADUs; returns on failure only.
    async fn send<S: AduSession>(&self, link: &Link<S>, stream: &S::Stream) -> ProcessingError {
        let sent = self.send_all(link, stream).await;
        let finished = sent.and_then(|()| stream.finish().map_err(|error| link.failed(&error)));
        match finished {
            // The answers follow on the other stream.
            Ok(()) => std::future::pending().await,
            Err(error) => error,
        }
    }

    /// Sends ADUs until none follows. Cancelled, each has been sent as far as it counts as sent.
    async fn send_all<S: AduSession>(
        &self,
        link: &Link<S>,
        stream: &S::Stream,
    ) -> Result<(), ProcessingError> {
        while let Some(adu) = self.next().await {
            let sequence = adu.sequence;
            let carried = Carried {
                adu,
                change: 0,
                is_last: true,
            };
            let sent = stream.send(carried.to_bytes()).await;
            self.sent(sequence + 1);
            sent.map_err(|error| link.failed(&error))?;
        }
        Ok(())
    }

    /// Number for the stream with ADUs of one question, which no other question of this source has.
    fn opens(&self) -> u64 {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        chosen(self.settings.run.wrapping_add(asked))
    }

    /// First message to a processing node.
    pub(crate) fn request(&self) -> message::Offer {
        let settings = &self.settings;
        let kept = self.kept();
        message::Offer {
            run: settings.run,
            subscribers: settings.subscribers.clone(),
            is_reliable: settings.is_reliable(),
            pace: settings.pace,
            first: kept.retained.first(),
            readers: kept.readers,
            confirms: true,
            opens: None,
        }
    }

    /// Goes on with the ADU that a processing node lacks.
    pub(crate) fn resume(&self, next: u64) -> Result<(), ProcessingError> {
        let mut kept = self.kept();
        let next = match self.settings.is_reliable() {
            true => next,
            // Those before it are lost.
            false => next.max(kept.retained.first()),
        };
        let resumed = kept.retained.resume(next);
        resumed.map_err(|error| ProcessingError::Protocol(error.to_string()))?;
        kept.has_begun = true;
        Ok(())
    }

    /// The next ADU to send, as soon as there is one; `None`: none follows.
    pub(crate) async fn next(&self) -> Option<Adu> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            {
                let kept = self.kept();
                match kept.retained.to_send() {
                    Some(adu) => return Some(adu.clone()),
                    None if kept.is_complete => return None,
                    None => {}
                }
            }
            // The sender is of this source.
            let _ = changed.changed().await;
        }
    }

    /// Subscribers hold the ADUs before this one, and so many of them are reliable. While a processing node is asked, nothing is forgotten.
    pub(crate) fn acknowledged(&self, next: u64, readers: u32) {
        let mut kept = self.kept();
        kept.readers = readers;
        if kept.asking == 0 {
            kept.retained.acknowledge(next);
        }
        drop(kept);
        self.changed.send_replace(());
    }

    /// So many subscribers are there.
    pub(crate) fn counted(&self, subscribers: u32) {
        self.subscribers.send_replace(subscribers);
    }

    /// Waits for the turn to send ADUs.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    pub(crate) fn sent(&self, next: u64) {
        self.kept().retained.sent(next);
        self.changed.send_replace(());
    }

    /// Takes the messages of the service until it has everything.
    async fn listen<S: AduSession>(&self, link: &Link<S>) -> Result<(), ProcessingError> {
        loop {
            match link.next().await? {
                Some(Notice::Acknowledged { next, readers }) => {
                    let is_other = {
                        let mut kept = self.kept();
                        kept.retained.acknowledge(next);
                        std::mem::replace(&mut kept.readers, readers) != readers
                    };
                    self.changed.send_replace(());
                    if is_other {
                        link.send(&Request::Readers { count: readers }).await?;
                    }
                }
                Some(Notice::Subscribers { count }) => {
                    self.subscribers.send_replace(count);
                }
                Some(notice @ Notice::Derived { .. }) => self.derived(&notice),
                Some(Notice::Ended { .. }) => {
                    link.finish().await;
                    return Ok(());
                }
                Some(Notice::Unknown) => {}
                other => return Err(unexpected(other.as_ref())),
            }
        }
    }
}

/// The answer of a processing node: the number of the stream with ADUs, and that of the ADU that it lacks.
async fn answer<S: AduSession>(link: &Link<S>) -> Result<(u64, u64), ProcessingError> {
    let answer = timeout(ANSWER_TIME, link.next()).await;
    let silent = |_| ProcessingError::Lost("the processing node does not answer".to_owned());
    match answer.map_err(silent)?? {
        Some(Notice::Offered { stream, next }) => Ok((stream, next)),
        other => Err(unexpected(other.as_ref())),
    }
}
