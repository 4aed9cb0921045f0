//! Streams of a subscriber.

mod losses;
mod sending;

use std::{
    num::NonZeroU32,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anabranch::{StreamParameters, base::NodeId, local::client::Stream};
use anabranch_process::{
    Pipeline,
    serve::{End, TOO_SLOW},
};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};

use self::losses::Losses;
use super::{
    Held, REQUEST_TIME, Refusal, Report, Service, Stopped,
    holding::Holding,
    library::Uses,
    lock,
    promise::{self, Way},
    request,
    source::Source,
    subscription::Subscription,
    unexpected,
};
use crate::{
    UNSENT_BYTES,
    wire::{
        Notice, Purpose, Request, encode,
        message::{Subscribe, SubscriberState},
    },
};

/// Time for a source to answer that it knows of a subscriber.
const KNOWN_TIME: Duration = Duration::from_secs(2);
/// Time between two looks at what was dropped.
const LOOK: Duration = Duration::from_secs(1);
/// Characters of a pipeline in a state.
const PIPELINE_CHARS: usize = 200;

/// A subscriber that is there until this is dropped.
struct Present<'a> {
    service: &'a Service,
    number: u64,
    peer: NodeId,
    name: &'a str,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    /// Bytes that the stream has no room for yet.
    in_hand: AtomicU64,
    /// Bytes that a reliable subscriber holds.
    holding: Mutex<Holding>,
    subscription: Subscription,
    /// Modules of its pipeline.
    uses: Mutex<Uses>,
    is_reliable: bool,
    /// Changes of the pipeline of an unreliable subscriber, each made while this is locked: what was derived before is out of date.
    turns: watch::Sender<u32>,
    /// Bytes that were out of date, and were given up before they were sent.
    discarded_bytes: AtomicU64,
    losses: Mutex<Losses>,
    is_over: std::sync::atomic::AtomicBool,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        lock(&self.service.subscribers).remove(&self.number);
        self.subscription
            .leave(self.is_over.load(Ordering::Relaxed));
        self.service.report(Report::SubscriptionOver {
            peer: self.peer,
            name: self.name.to_owned(),
            sent: self.sent.load(Ordering::Relaxed),
        });
    }
}

impl Service {
    /// Serves a subscriber.
    pub(super) async fn subscribed(
        &self,
        peer: NodeId,
        name: &str,
        control: &Stream,
        asked: Subscribe,
    ) -> Result<(), Stopped> {
        asked.check()?;
        let mut opening = self.expect(peer, Purpose::Subscribe, name, asked.opens);
        self.awaited(name, &asked).await;
        let (source, subscription, uses) = match self.subscription(peer, name, &asked) {
            Ok(entered) => entered,
            Err(refusal) => return self.refused(peer, name, control, refusal).await,
        };
        let number = self.number();
        let present = Present {
            service: self,
            number,
            peer,
            name,
            sent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            in_hand: AtomicU64::new(0),
            holding: Mutex::default(),
            subscription,
            uses: Mutex::new(uses),
            is_reliable: asked.is_reliable,
            turns: watch::Sender::new(0),
            discarded_bytes: AtomicU64::new(0),
            losses: Mutex::default(),
            is_over: false.into(),
        };
        if asked.is_reliable {
            // One that does not answer is not waited for longer.
            let _ = timeout(KNOWN_TIME, source.known()).await;
        }
        let notice = Notice::Subscribed {
            stream: opening.number(),
            source: source.peer.to_string(),
            run: source.inner().offer.run,
            position: present.subscription.begin.clone().into(),
        };
        control.send(encode(&notice)).await?;
        let adus = opening.opened().await?;
        if opening.is_chosen() {
            // What follows on this stream does not wait for the other one.
            adus.send(encode(&notice)).await?;
        }
        if !asked.is_reliable {
            let short = StreamParameters {
                unsent_max: Some(NonZeroU32::new(UNSENT_BYTES)),
                // What is lost is in windows that are not kept.
                notify: asked.demand.map(|_| true),
                ..StreamParameters::default()
            };
            adus.adjust(short).await?;
        }
        let (name, pipeline) = (name.to_owned(), asked.pipeline.clone());
        self.report(Report::Subscribed {
            peer,
            name,
            pipeline,
        });
        let promised = AtomicU64::new(0);
        let way = Way {
            source: &source,
            number,
            stream: &adus,
        };
        let sending = async {
            let End { why, may_return } = tokio::select! {
                sent = present.send(&source, &adus) => sent?,
                end = present.fallen_behind(&source) => end,
            };
            let ended = Notice::Ended { why, may_return };
            control.send(encode(&ended)).await?;
            adus.finish()?;
            control.finish()?;
            Ok::<_, Stopped>(())
        };
        let served = tokio::select! {
            sent = sending => sent,
            left = present.converse(control) => return left,
            failed = present.look(control, &promised) => failed,
            failed = present.report_losses(control, asked.demand) => failed,
            never = present.follow(&adus) => match never {},
            failed = presence(&source, control) => failed,
            never = promise::keep(&way, control, asked.demand, &promised) => match never {},
        };
        served?;
        // It still takes what was sent, and tells what it holds.
        timeout(REQUEST_TIME, present.converse(control))
            .await
            .unwrap_or(Ok(()))
    }

    /// The source of a stream that has not ended; for who returns, also of one that has, whose last ADUs are kept.
    fn offered_now(&self, name: &str, is_return: bool) -> Option<Arc<Source>> {
        let source = self.source(name);
        source.filter(|source| is_return || source.inner().offered.ended().is_none())
    }

    fn subscription(
        &self,
        peer: NodeId,
        name: &str,
        asked: &Subscribe,
    ) -> Result<(Arc<Source>, Subscription, Uses), Refusal> {
        let source = self.offered_now(name, asked.position.is_some());
        let missing = || Refusal::for_now(format!("no stream '{name}' is offered here"));
        let source = source.ok_or_else(missing)?;
        let node = source.peer.to_string();
        if asked.source.as_ref().is_some_and(|asked| *asked != node) {
            return Err(Refusal::lasting(format!(
                "'{name}' is offered by {node} here, and not by the source that was asked for"
            )));
        }
        if !source.inner().offer.allows(peer) {
            return Err(Refusal::lasting(format!(
                "the source does not let {peer} derive from '{name}'; its operator names subscribers with --for"
            )));
        }
        let pipeline = parse(&asked.pipeline).map_err(Refusal::lasting)?;
        let uses = self
            .modules_of(peer, name, &pipeline)
            .map_err(Refusal::lasting)?;
        let account = self.account(peer)?;
        let reader = ((peer, asked.run), account);
        let subscription = Subscription::new(&source, reader, asked, &pipeline);
        Ok((source, subscription.map_err(Refusal::lasting)?, uses))
    }
}

/// Tells a subscriber whenever the source is away, and when it is there again; returns on failure only.
async fn presence(source: &Source, control: &Stream) -> Result<(), Stopped> {
    let mut was_away = false;
    loop {
        source.until(|| source.is_away() != was_away).await;
        was_away = !was_away;
        let away = Notice::Away { is_away: was_away };
        control.send(encode(&away)).await?;
    }
}

/// Reads a pipeline.
fn parse(text: &str) -> Result<Pipeline, String> {
    text.parse()
        .map_err(|error| format!("the pipeline: {error}"))
}

impl Present<'_> {
    /// Waits until nothing more is derived for a reliable subscriber because it was too slow, although the stream to it has no room for what
    /// waits; returns the reason.
    async fn fallen_behind(&self, source: &Source) -> End {
        let is_behind = || {
            let status = self.subscription.status();
            let has_ended =
                status.is_some_and(|(status, ..)| status.has_ended && status.queued.0 == 0);
            has_ended && source.inner().offered.ended().is_none()
        };
        source.until(is_behind).await;
        if let Some(held) = lock(&self.service.subscribers).get_mut(&self.number) {
            held.state.queued = 0;
            held.state.has_ended = true;
        }
        End::lasting(TOO_SLOW)
    }

    /// Does what the subscriber asks for, until it leaves.
    async fn converse(&self, control: &Stream) -> Result<(), Stopped> {
        loop {
            match request(control).await? {
                None => {
                    self.is_over.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Some(Request::Held { next }) => {
                    lock(&self.holding).held(next);
                    self.subscription.held(next);
                }
                Some(Request::Change { number, pipeline }) => {
                    let changed = self.change(number, &pipeline);
                    let (peer, name) = (self.peer, self.name.to_owned());
                    let (notice, report) = match changed {
                        Ok(()) => (
                            Notice::Changed { number },
                            Report::Changed {
                                peer,
                                name,
                                pipeline,
                            },
                        ),
                        Err(why) => (
                            Notice::Refused {
                                number: Some(number),
                                may_retry: false,
                                why: why.clone(),
                            },
                            Report::Refused { peer, name, why },
                        ),
                    };
                    self.service.report(report);
                    control.send(encode(&notice)).await?;
                }
                Some(other) => return Err(unexpected(&other)),
            }
        }
    }

    /// Derives by another pipeline, from the source's next ADU on.
    fn change(&self, number: u32, pipeline: &str) -> Result<(), String> {
        let pipeline = parse(pipeline)?;
        let uses = self.service.modules_of(self.peer, self.name, &pipeline)?;
        let mut changed = Ok(false);
        self.turns.send_if_modified(|turns| {
            changed = self.subscription.change(number, &pipeline);
            let is_turn = changed == Ok(true) && !self.is_reliable;
            *turns = turns.wrapping_add(u32::from(is_turn));
            is_turn
        });
        changed?;
        *lock(&self.uses) = uses;
        Ok(())
    }

    /// Keeps the state up to date, and tells the subscriber of ADUs that are dropped; returns on failure only.
    async fn look(&self, control: &Stream, promised: &AtomicU64) -> Result<(), Stopped> {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = (0, 0);
        loop {
            ticks.tick().await;
            let Some((status, pipeline, change)) = self.subscription.status() else {
                continue;
            };
            let failed = status.failed.0;
            let why = status.failed.1.map(|failure| failure.to_string());
            let why = why.unwrap_or_default();
            let rate = promised.load(Ordering::Relaxed);
            let sent_bytes = self.sent_bytes.load(Ordering::Relaxed);
            let state = SubscriberState {
                node: self.peer.to_string(),
                change,
                pipeline: pipeline.chars().take(PIPELINE_CHARS).collect(),
                is_reliable: self.is_reliable,
                sent: self.sent.load(Ordering::Relaxed),
                sent_bytes,
                queued: status.queued.0 as u64,
                lost: status.lost,
                failed,
                why: why.clone(),
                promised_bps: (rate > 0).then_some(rate),
                has_ended: status.has_ended,
            };
            let queued = self.in_hand.load(Ordering::Relaxed) + status.queued.1 as u64;
            // What the stream holds of an unreliable one is not known.
            let arrived_bytes = match self.is_reliable {
                true => lock(&self.holding).held_bytes.min(sent_bytes),
                false => sent_bytes,
            };
            let held = Held {
                name: self.name.to_owned(),
                state,
                arrived_bytes,
                waiting_bytes: queued + sent_bytes - arrived_bytes,
                lost_bytes: status.lost_bytes + self.discarded_bytes.load(Ordering::Relaxed),
            };
            lock(&self.service.subscribers).insert(self.number, held);
            if (status.lost, failed) != told {
                told = (status.lost, failed);
                let lost = status.lost;
                control
                    .send(encode(&Notice::Dropped { lost, failed, why }))
                    .await?;
            }
        }
    }
}
