//! Streams of a source.

use std::{
    collections::BTreeMap,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use anabranch::{
    base::{
        NodeId,
        text::{REASON_CHARS, printable},
    },
    local::client::Stream,
};
use anabranch_process::{
    derive::Bounds,
    serve::{End, Rules},
};
use tokio::{
    sync::watch,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, timeout},
};

use super::{
    Refusal, Report, Service, Stopped, concluded, lock, request,
    source::{Came, Clock, Source},
    unexpected,
};
use crate::wire::{
    Item, Notice, Purpose, Request, WireError, encode,
    message::{DerivedBytes, Offer},
};

/// Sources at a time, and memory for each: a source has an ADU of up to 16 MiB in work, and another one may wait in its stream.
const SOURCES_MAX: usize = 32;
const SOURCE_BYTES: usize = 32 << 20;
/// Bounds on the derivations of one source.
const BOUNDS: Bounds = Bounds {
    subscribers: 128,
    derivations: 64,
    queue_bytes: 32 << 20,
    operators: anabranch_process::Limits {
        adus: 1_024,
        bytes: 16 << 20,
        fuel: 10_000_000,
        fuel_per_s: 50_000_000,
        memory: 32 << 20,
    },
};

/// Least time between two messages of what subscribers hold: what a source has not heard of is sent once more to another node.
const LOOK: Duration = Duration::from_millis(25);
/// Time between two messages of what operators have done.
const MEASURE_TIME: Duration = Duration::from_secs(1);

/// A source that is there until this is dropped.
struct Present<'a> {
    service: &'a Service,
    source: Arc<Source>,
    returns: u64,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        if self.source.returns() == self.returns {
            self.source.knows(None);
        }
        self.source.leave(self.returns);
        let is_complete = {
            let inner = self.source.inner();
            inner.offered.ended().is_some_and(|end| !end.may_return)
        };
        self.service.report(Report::OfferOver {
            peer: self.source.peer,
            name: self.source.name.clone(),
            is_complete,
        });
    }
}

impl Service {
    /// The source of an offer, new or again, with the number of the first ADU that is missing.
    pub(super) fn enter(
        &self,
        peer: NodeId,
        name: &str,
        offer: Offer,
    ) -> Result<(Arc<Source>, u64), Refusal> {
        let sources_max = SOURCES_MAX.min(self.settings.memory / SOURCE_BYTES);
        let mut sources = lock(&self.sources);
        if let Some(source) = sources.get(name) {
            let (run, is_over) = {
                let inner = source.inner();
                (inner.offer.run, inner.offered.ended().is_some())
            };
            // The session that it had may not have been found to be over yet.
            let is_return = source.peer == peer && run == offer.run && !is_over;
            // Meanwhile the source may have been at another node, which has acknowledged what is missing here.
            let is_whole = |source: &Source| offer.first <= source.inner().offered.next();
            if is_return && (!offer.is_reliable || is_whole(source)) {
                let next = source.returned(offer);
                return Ok((source.clone(), next));
            }
            if !(is_over || is_return || source.peer == peer && source.is_away()) {
                return Err(Refusal::lasting(format!(
                    "'{name}' is offered already; choose another name, or end that offer first"
                )));
            }
        } else if sources.len() >= sources_max {
            return Err(Refusal::for_now(format!(
                "{sources_max} streams are offered already, the most that are taken; try again later"
            )));
        }
        let next = offer.first;
        let rules = Rules {
            bounds: BOUNDS,
            grace: self.settings.grace,
            account: self.account(peer)?,
        };
        if let Some(replaced) = sources.get(name) {
            replaced.end(End::for_now("the source has offered the stream anew"));
        }
        let source = Arc::new(Source::new(
            (name.to_owned(), peer),
            offer,
            (rules, self.library.modules().clone()),
            (Clock::real(), self.effort.clone()),
        ));
        sources.insert(name.to_owned(), source.clone());
        drop(sources);
        self.offers.send_replace(());
        Ok((source, next))
    }

    /// Serves a source.
    pub(super) async fn offered(
        &self,
        peer: NodeId,
        name: &str,
        control: &Stream,
        offer: Offer,
    ) -> Result<(), Stopped> {
        offer.check()?;
        let mut opening = self.expect(peer, Purpose::Offer, name, offer.opens);
        let known = offer.confirms.then_some(offer.readers);
        let (source, next) = match self.enter(peer, name, offer) {
            Ok(entered) => entered,
            Err(refusal) => return self.refused(peer, name, control, refusal).await,
        };
        let _present = Present {
            service: self,
            source: source.clone(),
            returns: source.returns(),
        };
        source.knows(known);
        let stream = opening.number();
        let notice = Notice::Offered { stream, next };
        control.send(encode(&notice)).await?;
        let adus = opening.opened().await?;
        let name = name.to_owned();
        self.report(Report::Offered { peer, name, next });
        let serving = async {
            tokio::select! {
                taken = take(&source, &adus) => taken?,
                told = tell(&source, control, false) => return told,
            }
            source.end(End::lasting("the source has sent everything"));
            // It has ADUs that may be needed again until subscribers hold them.
            let told = timeout(2 * self.settings.grace, tell(&source, control, true)).await;
            told.unwrap_or(Ok(()))?;
            let ended = Notice::Ended {
                why: "everything was sent".to_owned(),
                may_return: false,
            };
            control.send(encode(&ended)).await?;
            concluded(control).await
        };
        let is_measured = watch::Sender::new(false);
        tokio::select! {
            served = serving => served,
            left = converse(&source, control, &is_measured) => left,
            failed = self.measure(&source, control, is_measured.subscribe()) => failed,
        }
    }

    /// Tells the source what its operators have done, once it has asked for that; returns on failure only.
    async fn measure(
        &self,
        source: &Source,
        control: &Stream,
        mut is_asked: watch::Receiver<bool>,
    ) -> Result<(), Stopped> {
        // Once the sender is gone, so is the source.
        let _ = is_asked.wait_for(|is_asked| *is_asked).await;
        let mut ticks = interval(MEASURE_TIME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            control.send(encode(&self.derived(source))).await?;
        }
    }

    /// Totals of the operators of a source.
    pub(super) fn derived(&self, source: &Source) -> Notice {
        let (taken, work) = source.effort();
        let mut of_nodes: BTreeMap<String, [u64; 3]> = BTreeMap::new();
        for held in lock(&self.subscribers).values() {
            if held.name == source.name {
                let (sent, waiting) = (held.arrived_bytes, held.waiting_bytes);
                let sums = of_nodes.entry(held.state.node.clone()).or_default();
                let more = [sent + waiting + held.lost_bytes, sent, waiting];
                for (sum, more) in sums.iter_mut().zip(more) {
                    *sum += more;
                }
            }
        }
        let of_node = |(node, [bytes, sent, waiting]): (String, [u64; 3])| DerivedBytes {
            node,
            bytes,
            sent: Some(sent),
            waiting,
        };
        let subscribers = of_nodes.into_iter().map(of_node);
        Notice::Derived {
            taken,
            work,
            subscribers: subscribers.collect(),
        }
    }
}

/// Takes the messages of the source until it leaves.
async fn converse(
    source: &Source,
    control: &Stream,
    is_measured: &watch::Sender<bool>,
) -> Result<(), Stopped> {
    loop {
        match request(control).await? {
            None => return Ok(()),
            Some(Request::Readers { count }) => source.knows(Some(count)),
            Some(Request::Measure) => {
                is_measured.send_replace(true);
            }
            Some(Request::Chosen { why }) => source.chosen(&why),
            Some(Request::Leave { why }) => {
                source.end(End::for_now(&printable(&why, REASON_CHARS)));
                return Ok(());
            }
            Some(other) => return Err(unexpected(&other)),
        }
    }
}

/// Takes ADUs until the source has sent everything.
async fn take(source: &Arc<Source>, stream: &Stream) -> Result<(), Stopped> {
    // Time since which there has always been another ADU.
    let mut busy_since = source.now();
    loop {
        source.until(|| source.inner().offered.has_room()).await;
        let mut receiving = pin!(stream.recv());
        let first = poll_fn(|context| Poll::Ready(receiving.as_mut().poll(context))).await;
        let was_held_up = first.is_ready();
        let received = match first {
            Poll::Ready(received) => received,
            Poll::Pending => {
                let received = receiving.await;
                busy_since = source.now();
                received
            }
        };
        let Some(adu) = received? else {
            return Ok(());
        };
        let came = Came {
            at: busy_since,
            was_held_up,
        };
        let carried = match Item::read(adu.data)? {
            Item::Adu(carried) => carried,
            // It announces the stream.
            Item::Mark(_) => continue,
        };
        let pushing = source.clone();
        // Operators may take their time.
        let pushed = spawn_blocking(move || pushing.push(carried.adu, came)).await;
        pushed
            .expect("panics of operators are contained")
            .map_err(|gap| WireError(gap.to_string()))?;
    }
}

/// Tells the source what is not needed any more and how many subscribers there are; with `is_last`, until everything is held.
async fn tell(source: &Arc<Source>, control: &Stream, is_last: bool) -> Result<(), Stopped> {
    let mut changes = source.changes();
    let mut told = (None, None);
    let mut looked = Instant::now() - LOOK;
    loop {
        tokio::time::sleep_until(looked + LOOK).await;
        looked = Instant::now();
        changes.mark_unchanged();
        let (acknowledged, subscribers, is_held) = {
            let offered = &source.inner().offered;
            let acknowledged = offered.acknowledged();
            let is_held = acknowledged.0 == offered.next();
            (acknowledged, offered.subscribers(), is_held)
        };
        if told.0 != Some(acknowledged) {
            let (next, readers) = acknowledged;
            control
                .send(encode(&Notice::Acknowledged { next, readers }))
                .await?;
        }
        if told.1 != Some(subscribers) {
            let count = subscribers;
            control.send(encode(&Notice::Subscribers { count })).await?;
        }
        told = (Some(acknowledged), Some(subscribers));
        if is_last && is_held {
            return Ok(());
        }
        // The sender is of the source.
        let _ = changes.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use anabranch::SecretKey;
    use tokio::sync::mpsc;

    use super::*;
    use crate::{service::Settings, wire::message::Pace};

    #[test]
    fn an_offer_without_memory_leaves_the_one_before_as_it_was() {
        let peer = SecretKey::from_seed([1; 32]).node_id();
        let settings = Settings {
            memory: Settings::MEMORY_MIN,
            ..Settings::default()
        };
        let service = Service::new(settings, mpsc::channel(1).0);
        let offer = |run| Offer {
            run,
            subscribers: vec!["*".to_owned()],
            is_reliable: true,
            pace: Pace::Slowest,
            first: 0,
            readers: 0,
            confirms: true,
            opens: None,
        };
        let (before, _) = service.enter(peer, "x", offer(1)).unwrap();
        before.leave(0);
        let held = service
            .account(peer)
            .unwrap()
            .charge_anyway(Settings::MEMORY_MIN);
        let refusal = service.enter(peer, "x", offer(2)).unwrap_err();
        assert!(
            refusal.may_retry && refusal.why.contains("64 MiB"),
            "{}",
            refusal.why
        );
        assert!(before.inner().offered.ended().is_none());
        drop(held);
        service.enter(peer, "x", offer(2)).unwrap();
        assert!(before.inner().offered.ended().is_some());
    }
}
