//! Wait for a code to be entered: the issuer announces its place on the local network, and takes it at a relay.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::Host;
use tokio::{sync::mpsc, task::JoinSet, time};

use super::{
    card::Card,
    code::{Code, Place},
    desk::{Desk, DeskEvent},
    lan::Announcement,
    meeting::{MeetingError, add},
};
use crate::rendezvous::{
    Pairing,
    Refusal::{Full, Taken},
    RendezvousError, Via, Waiter,
};

/// Time for the relay to answer an issuer, who waits for the code.
const ANSWER: Duration = Duration::from_secs(5);
/// Pause before an issuer waits at the relay again.
const RETURN: Duration = Duration::from_secs(5);
/// Places at a relay that are tried for a new code.
const PLACES_TRIED: u32 = 8;

/// Connections at a relay in which the code was right, by node.
type Pairings = Arc<Mutex<BTreeMap<NodeId, Arc<Pairing>>>>;

/// An issuer that waits for its code to be entered, until it is dropped. Sessions that peers open with its host are to be passed to its
/// [`Desk`].
#[derive(Debug)]
pub struct Waiting {
    desk: Arc<Desk>,
    events: mpsc::Receiver<DeskEvent>,
    pairings: Pairings,
    relay_failure: Option<RendezvousError>,
    _announcement: Option<Announcement>,
    _serving: JoinSet<()>,
}

impl Waiting {
    /// Announces a new code on the local network, and at the relay if one is given. If only one of the two is possible, the code is good
    /// there ([`Self::relay_failure`]); a relay that did not answer is tried again. `card` is what this side says of itself.
    ///
    /// # Errors
    /// Neither can be used, or the relay refuses this node.
    pub async fn start(host: &Host, card: Card, via: Option<&Via>) -> Result<Self, MeetingError> {
        let (code, waiter, relay_failure) = match via {
            None => (Code::generate()?, None, None),
            Some(via) => match at_relay(host, via).await {
                Ok((code, waiter)) => (code, Some(waiter), None),
                Err(MeetingError::Rendezvous(error)) if is_passing(&error) => {
                    (Code::generate()?, None, Some(error))
                }
                Err(error) => return Err(error),
            },
        };
        let announcement = match Announcement::start(host, code.place()) {
            Ok(announcement) => Some(announcement),
            Err(error) if waiter.is_some() => {
                tracing::info!(%error, "not announced on the local network");
                None
            }
            Err(error) => return Err(relay_failure.map_or(error.into(), MeetingError::Rendezvous)),
        };
        let (desk, events) = Desk::open(code, host.node_id(), card);
        let (pairings, mut serving) = (Pairings::default(), JoinSet::new());
        if let Some(via) = via {
            let (host, via) = (host.clone(), via.clone());
            serving.spawn(serve(host, via, waiter, desk.clone(), pairings.clone()));
        }
        Ok(Self {
            desk,
            events,
            pairings,
            relay_failure,
            _announcement: announcement,
            _serving: serving,
        })
    }

    /// Reason for which the code is good on the local network only, as yet.
    pub fn relay_failure(&self) -> Option<&RendezvousError> {
        self.relay_failure.as_ref()
    }

    /// Its desk.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Waits for the next event.
    pub async fn next(&mut self) -> DeskEvent {
        match self.events.recv().await {
            Some(DeskEvent::Met(mut met)) => {
                let mut pairings = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(pairing) = pairings.remove(&met.node) {
                    add(&mut met.addresses, &pairing.addresses);
                    met.detour = Some(pairing);
                }
                DeskEvent::Met(met)
            }
            Some(event) => event,
            // The desk, which is kept here, has the other end.
            None => std::future::pending().await,
        }
    }
}

/// True if the relay may serve this node later.
fn is_passing(error: &RendezvousError) -> bool {
    match error {
        RendezvousError::Unreachable(..) | RendezvousError::Silent(_) => true,
        RendezvousError::Refused(refusal) => *refusal == Full,
    }
}

/// Waits at a place of the relay, which has a limited time to answer.
async fn wait_at(host: &Host, via: &Via, place: Place) -> Result<Waiter, RendezvousError> {
    let waiter = time::timeout(ANSWER, Waiter::start(host, via, place)).await;
    waiter.unwrap_or(Err(RendezvousError::Silent(via.node)))
}

/// A code whose place is free at the relay.
async fn at_relay(host: &Host, via: &Via) -> Result<(Code, Waiter), MeetingError> {
    let mut tries = 0;
    loop {
        let code = Code::generate()?;
        match wait_at(host, via, code.place()).await {
            Ok(waiter) => return Ok((code, waiter)),
            Err(RendezvousError::Refused(Taken)) if tries < PLACES_TRIED => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Serves those who reach the place at the relay, one after the other. Waits there again when the relay is back, unless another node
/// has taken the place.
async fn serve(
    host: Host,
    via: Via,
    mut waiter: Option<Waiter>,
    desk: Arc<Desk>,
    pairings: Pairings,
) {
    loop {
        if let Some(mut waiter) = waiter.take() {
            serve_at(&mut waiter, &desk, &pairings).await;
            tracing::warn!("the relay has gone; the code is good on the local network only");
        }
        time::sleep(RETURN).await;
        match wait_at(&host, &via, desk.code().place()).await {
            Ok(again) => waiter = Some(again),
            Err(error) => tracing::debug!(%error, "the code is not good at the relay"),
        }
    }
}

async fn serve_at(waiter: &mut Waiter, desk: &Desk, pairings: &Pairings) {
    while let Some(pairing) = waiter.next().await {
        let pairing = Arc::new(pairing);
        let keep = |kept: Option<Arc<Pairing>>| {
            let mut pairings = pairings.lock().unwrap_or_else(PoisonError::into_inner);
            match kept {
                Some(kept) => pairings.insert(kept.node, kept),
                None => pairings.remove(&pairing.node),
            };
        };
        // Before the event that it was right.
        keep(Some(pairing.clone()));
        if let Err(error) = desk.serve(&*pairing, pairing.node).await {
            tracing::debug!(%error, "a code was not accepted");
            keep(None);
            pairing.release().await;
        }
    }
}
