//! A set that is sent to a peer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch::{AduSession, AduStream, Guarantee, Order, Priority, StreamSpec, base::Rate};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Duration, timeout},
};

use super::{Records, answered, flow, received, unexpected};
use crate::{
    carry::{Ended, carry},
    error::RecordsError,
    source::{Reading, Source},
    wire::{
        CHUNK_BYTES, Fault, Item, Label, Notice, OnRefusal, Purpose, Request, Want, chunk, decode,
        encode,
    },
};

/// Readers of the disk at a time.
const READERS_MAX: usize = 8;
/// Time for the reason why data is refused.
const REASON_TIME: Duration = Duration::from_secs(10);
/// Rounds in which what has changed while it was read is sent again.
const ROUNDS_MAX: usize = 5;

/// A set that is being sent.
#[derive(Clone, Debug)]
pub struct Put {
    source: Arc<Source>,
    /// Reaction if a promise of the manifest cannot be given; `None`: none is asked for.
    promises: Option<OnRefusal>,
    /// Bytes that were handed over of each component.
    sent: Arc<Vec<AtomicU64>>,
}

/// Result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// True if the peer has the whole set, durable.
    pub is_complete: bool,
    /// Parts that are missing there, with the reason.
    pub faults: BTreeMap<(u64, u16), Fault>,
}

impl Put {
    /// A set of this machine.
    pub fn new(source: Arc<Source>, promises: Option<OnRefusal>) -> Self {
        let components = source.manifest().components.iter();
        let sent = components.map(|_| AtomicU64::new(0)).collect();
        Self {
            source,
            promises,
            sent: Arc::new(sent),
        }
    }

    /// The set.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Bytes that were handed over so far of each component, with a header for each piece.
    pub fn progress(&self) -> Vec<u64> {
        let each = self.sent.iter();
        each.map(|sent| sent.load(Ordering::Relaxed)).collect()
    }

    /// Sends what the peer lacks. After an interruption it can be called again, with another session. If the future is dropped, the peer
    /// notes what it has.
    ///
    /// # Errors
    /// The peer takes no sets, or not this one; the session is over; a promise is refused; the peer cannot write.
    pub async fn run<S: AduSession>(&self, records: &Records<S>) -> Result<Sent, RecordsError> {
        let text = self.source.text();
        let label = Label::new(Purpose::Put, self.source.name());
        let request = Request::Put {
            bytes: text.bytes.len() as u64,
            format: text.format,
            digest: text.digest,
        };
        let control = records
            .request(&label, Order::Ordered, Priority::NORMAL, &request)
            .await?;
        let of = |error: S::Error| RecordsError::of(&error);
        for part in text.bytes.chunks(CHUNK_BYTES) {
            control.send(chunk(part)).await.map_err(of)?;
        }
        let (mut last, mut before) = (Sent::default(), Vec::new());
        for round in 0..=ROUNDS_MAX {
            let (items, state) = wanted(&control).await?;
            last = state;
            // Nothing more can be had than the last round has given.
            if items.is_empty() || items == before || round == ROUNDS_MAX {
                break;
            }
            before.clone_from(&items);
            self.carry(records, &control, items).await?;
            control.send(encode(&Request::Done)).await.map_err(of)?;
        }
        // The peer has everything durable already.
        let _ = control.finish();
        Ok(last)
    }

    /// Sends items, each component on a stream of its own, while the peer has nothing against it.
    async fn carry<S: AduSession>(
        &self,
        records: &Records<S>,
        control: &S::Stream,
        items: Vec<Item>,
    ) -> Result<(), RecordsError> {
        let readers = Arc::new(Semaphore::new(READERS_MAX));
        let mut carrying = JoinSet::new();
        for (component, items) in Want::by_component(items) {
            let (put, records) = (self.clone(), records.clone());
            let readers = readers.clone();
            carrying.spawn(async move { put.component(&records, component, items, readers).await });
        }
        let all = async {
            while let Some(carried) = carrying.join_next().await {
                carried.map_err(|_| RecordsError::Internal)??;
            }
            Ok(())
        };
        // The peer says something before the end only if it cannot go on.
        let reason = async {
            match received(control).await? {
                None => Err(RecordsError::Over(
                    "the peer has ended the transfer".to_owned(),
                )),
                Some(adu) => Err(unexpected(&answered(decode(&adu)?)?)),
            }
        };
        tokio::pin!(reason);
        let carried = tokio::select! {
            carried = all => carried,
            failed = &mut reason => return failed,
        };
        match carried {
            // What follows from the reason may arrive before it.
            Err(error @ RecordsError::Refused { .. }) => {
                timeout(REASON_TIME, reason).await.unwrap_or(Err(error))
            }
            carried => carried,
        }
    }

    /// Sends items of a component.
    async fn component<S: AduSession>(
        &self,
        records: &Records<S>,
        component: u16,
        items: Vec<Item>,
        readers: Arc<Semaphore>,
    ) -> Result<(), RecordsError> {
        let manifest = self.source.manifest();
        let described = manifest.components.get(usize::from(component));
        let described = described.ok_or_else(|| {
            RecordsError::Protocol("the peer wants a component that there is not".to_owned())
        })?;
        let label = Label::new(Purpose::Put, self.source.name()).with(&described.name);
        let mut spec = StreamSpec {
            duplex: true,
            order: Order::Unordered,
            priority: Priority::BULK,
            weight: flow::weight(manifest, component),
            label: label.to_string(),
            ..StreamSpec::default()
        };
        let demand =
            (self.promises).and_then(|reaction| flow::demand(manifest, component, None, reaction));
        if let Some(demand) = &demand {
            let guarantee = Guarantee::rate(Rate::from_bps(demand.rate_bps), demand.share);
            let guarantee = match demand.on_refusal {
                OnRefusal::Fail => guarantee,
                OnRefusal::Offer | OnRefusal::Wait => guarantee.waiting(),
            };
            spec = spec.with_guarantee(guarantee);
        }
        let stream = records.session().open_stream(spec).await;
        let stream = stream.map_err(|error| RecordsError::of(&error))?;
        let of = |error: S::Error| RecordsError::of(&error);
        let begin = Request::Data {
            manifest: self.source.text().digest,
        };
        stream.send(encode(&begin)).await.map_err(of)?;
        let mut reading = Reading::new(self.source.clone());
        reading.want(items);
        let sent = &self.sent[usize::from(component)];
        let count = |bytes| {
            sent.fetch_add(bytes, Ordering::Relaxed);
        };
        let carried = carry(&stream, &readers, reading, count).await;
        carried.map_err(|ended| match ended {
            Ended::Stream(error) => of(error),
            Ended::Reading => RecordsError::Internal,
        })?;
        stream.finish().map_err(of)?;
        // The peer finishes when it has taken everything.
        while let Some(adu) = received(&stream).await? {
            answered(decode(&adu)?)?;
        }
        Ok(())
    }
}

/// Reads what the peer lacks.
async fn wanted<T: AduStream>(control: &T) -> Result<(Vec<Item>, Sent), RecordsError> {
    let (mut all, mut sent) = (Vec::new(), Sent::default());
    loop {
        let adu = received(control).await?;
        let adu = adu.ok_or(RecordsError::Protocol("no answer".to_owned()))?;
        match answered(decode(&adu)?)? {
            Notice::Fault {
                record,
                component,
                fault,
                ..
            } => {
                sent.faults.insert((record, component), fault);
            }
            Notice::Wanted { items, has_more } => {
                all.extend(items);
                if !has_more {
                    sent.is_complete = all.is_empty();
                    return Ok((all, sent));
                }
            }
            other => return Err(unexpected(&other)),
        }
    }
}
