//! Meetings: an issuer waits for its code to be entered, a holder looks for the issuer.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch_base::NodeId;
use anabranch_net::{ConnectError, Host};
use anabranch_session::StreamSpec;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{self, Instant},
};

use super::{
    LABEL,
    card::Card,
    code::{Code, Place},
    desk::{Desk, DeskEvent},
    exchange::{ExchangeError, Line, enter},
    lan::{Announcement, Found, LanError, Search},
    message::Refusal::{self, Dead, Purpose, Wrong},
};
use crate::{
    keys::KeyError,
    rendezvous::{
        Pairing,
        Refusal::{Busy, Nobody, Taken},
        RendezvousError, Via, Waiter, open_translator,
    },
    ticket::ADDRESSES_MAX,
};

/// Time for which a holder looks for the issuer.
const SEARCH: Duration = Duration::from_secs(30);
/// Time for which it looks for another issuer at the same place, after one that refused the code.
const OTHERS: Duration = Duration::from_secs(2);
/// Time that an issuer may take to answer at its addresses.
const DIAL: Duration = Duration::from_secs(5);
/// Head start of the local network.
const NEARBY: Duration = Duration::from_secs(1);
/// Pause before a place at the relay is tried again.
const AGAIN: Duration = Duration::from_secs(2);
/// Places at a relay that are tried for a new code.
const PLACES_TRIED: u32 = 8;
/// Issuers at one place that are tried.
const ISSUERS_MAX: usize = 8;

/// The other side of a code.
#[derive(Clone, Debug)]
pub struct Met {
    /// Its node.
    pub node: NodeId,
    /// Its card.
    pub card: Card,
    /// Addresses to dial it at, those on its card included.
    pub addresses: Vec<SocketAddr>,
    /// Circuit at the relay through which it was met; `None`: it was met on the local network.
    pub detour: Option<Arc<Pairing>>,
}

impl Met {
    /// Prepares the host to dial the other side: with the circuit at the relay, if there is one and no address answers.
    pub fn prepare(&self, host: &Host) {
        if let Some(detour) = &self.detour {
            host.set_detour(self.node, Some(detour.clone()));
        }
    }

    /// Waits until the other side has left the relay; returns at once if it was met on the local network.
    pub async fn left(&self) {
        if let Some(pairing) = &self.detour {
            while pairing.recv().await.is_ok() {}
        }
    }

    /// Lets the other side dial this one, although translators may be between them: sends to its addresses for a while. To be polled
    /// until that is over; the result does not matter.
    pub async fn expect(&self, host: &Host) {
        if self.detour.is_some() {
            open_translator(host, self.node, &self.addresses).await;
        }
    }
}

/// A code could not be shown or entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeetingError {
    /// mDNS cannot be used.
    #[error(transparent)]
    Lan(#[from] LanError),
    /// No code can be made.
    #[error(transparent)]
    Entropy(#[from] KeyError),
    /// The relay fails.
    #[error(transparent)]
    Rendezvous(#[from] RendezvousError),
    /// Nobody waits there.
    #[error(
        "nobody with a code that begins with '{0}' was found; compare the code, see that the other side is still waiting, and that both \
         are on one local network or use the same relay (--via)"
    )]
    Nobody(String),
    /// An issuer does not answer.
    #[error("the other side was found, but does not answer at its addresses: {0}")]
    Unreachable(#[source] ConnectError),
    /// The exchange failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

/// Connections at a relay in which the code was right, by node.
type Pairings = Arc<Mutex<BTreeMap<NodeId, Arc<Pairing>>>>;

/// An issuer that waits for its code to be entered, until it is dropped. Sessions that peers open with its host are to be passed to its
/// [`Desk`].
#[derive(Debug)]
pub struct Waiting {
    desk: Arc<Desk>,
    events: mpsc::Receiver<DeskEvent>,
    pairings: Pairings,
    _announcement: Option<Announcement>,
    _serving: JoinSet<()>,
}

impl Waiting {
    /// Announces a new code on the local network, and at the relay if one is given. `card` is what this side says of itself.
    ///
    /// # Errors
    /// The local network or the relay cannot be used.
    pub async fn start(host: &Host, card: Card, via: Option<&Via>) -> Result<Self, MeetingError> {
        let (code, waiter) = match via {
            None => (Code::generate()?, None),
            Some(via) => {
                let (code, waiter) = at_relay(host, via).await?;
                (code, Some(waiter))
            }
        };
        let announcement = match Announcement::start(host, code.place()) {
            Ok(announcement) => Some(announcement),
            Err(error) if waiter.is_some() => {
                tracing::info!(%error, "not announced on the local network");
                None
            }
            Err(error) => return Err(error.into()),
        };
        let (desk, events) = Desk::open(code, host.node_id(), card);
        let (pairings, mut serving) = (Pairings::default(), JoinSet::new());
        if let Some(waiter) = waiter {
            serving.spawn(serve(waiter, desk.clone(), pairings.clone()));
        }
        Ok(Self {
            desk,
            events,
            pairings,
            _announcement: announcement,
            _serving: serving,
        })
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

/// A code whose place is free at the relay.
async fn at_relay(host: &Host, via: &Via) -> Result<(Code, Waiter), MeetingError> {
    let mut tries = 0;
    loop {
        let code = Code::generate()?;
        match Waiter::start(host, via, code.place()).await {
            Ok(waiter) => return Ok((code, waiter)),
            Err(RendezvousError::Refused(Taken)) if tries < PLACES_TRIED => tries += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Serves those who reach the place at the relay, one after the other.
async fn serve(mut waiter: Waiter, desk: Arc<Desk>, pairings: Pairings) {
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
    tracing::warn!("the relay has gone; the code is good on the local network only");
}

fn add(addresses: &mut Vec<SocketAddr>, more: &[SocketAddr]) {
    for address in more {
        if !addresses.contains(address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(*address);
        }
    }
}

/// Enters a code: looks for its issuer on the local network, and at the relay if one is given. `card` is what this side says of
/// itself.
///
/// # Errors
/// No issuer is found within half a minute, none answers, or none accepts the code.
pub async fn meet(
    host: &Host,
    code: &Code,
    card: &Card,
    via: Option<&Via>,
) -> Result<Met, MeetingError> {
    let nearby = async {
        let search = Search::start(host, code.place())?;
        meet_among(host, code, card, async || search.next().await).await
    };
    let Some(via) = via else {
        return nearby.await;
    };
    let relayed = async {
        time::sleep(NEARBY).await;
        meet_at(host, code, card, via).await
    };
    let (mut nearby, mut relayed) = (pin!(nearby), pin!(relayed));
    // Whichever succeeds; if both fail, what the one says that found somebody.
    let (first, last) = tokio::select! {
        result = &mut nearby => match result {
            Ok(met) => return Ok(met),
            Err(error) => (error, relayed.await),
        },
        result = &mut relayed => match result {
            Ok(met) => return Ok(met),
            Err(error @ MeetingError::Exchange(ExchangeError::Refused(Wrong | Dead | Purpose))) => return Err(error),
            Err(error) => (error, nearby.await),
        },
    };
    match (first, last) {
        (_, Ok(met)) => Ok(met),
        (first, Err(MeetingError::Nobody(_) | MeetingError::Lan(_))) => Err(first),
        (_, Err(last)) => Err(last),
    }
}

/// Enters the code at the relay.
async fn meet_at(host: &Host, code: &Code, card: &Card, via: &Via) -> Result<Met, MeetingError> {
    let deadline = Instant::now() + SEARCH;
    let pairing = loop {
        match Pairing::reach(host, via, code.place()).await {
            Ok(pairing) => break pairing,
            // The other side may be about to wait there.
            Err(RendezvousError::Refused(Nobody | Busy)) if Instant::now() < deadline => {
                time::sleep(AGAIN).await;
            }
            Err(RendezvousError::Refused(Nobody)) => {
                return Err(MeetingError::Nobody(word_of(code.place())));
            }
            Err(error) => return Err(error.into()),
        }
    };
    let card = enter(&pairing, code, host.node_id(), pairing.node, card).await?;
    let mut addresses = card.addresses.clone();
    add(&mut addresses, &pairing.addresses);
    Ok(Met {
        node: pairing.node,
        card,
        addresses,
        detour: Some(Arc::new(pairing)),
    })
}

/// As [`meet`], with the issuers that `next` finds.
pub(super) async fn meet_among(
    host: &Host,
    code: &Code,
    card: &Card,
    mut next: impl AsyncFnMut() -> Found,
) -> Result<Met, MeetingError> {
    let mut deadline = Instant::now() + SEARCH;
    let mut failure = None;
    let mut tried: BTreeMap<NodeId, Vec<SocketAddr>> = BTreeMap::new();
    while let Ok(found) = time::timeout_at(deadline, next()).await {
        let is_known = tried.get(&found.node) == Some(&found.addresses);
        if found.node == host.node_id() || is_known || tried.len() >= ISSUERS_MAX {
            continue;
        }
        tried.insert(found.node, found.addresses.clone());
        match enter_at(host, code, card, &found).await {
            Ok(met) => return Ok(met),
            Err(MeetingError::Exchange(ExchangeError::Refused(refusal)))
                if refusal != Refusal::Wrong =>
            {
                // It had this code.
                return Err(ExchangeError::Refused(refusal).into());
            }
            Err(error) => {
                tracing::debug!(node = %found.node, %error, "an issuer that does not fit");
                deadline = deadline.min(Instant::now() + OTHERS);
                failure = Some(error);
            }
        }
    }
    Err(failure.unwrap_or_else(|| MeetingError::Nobody(word_of(code.place()))))
}

fn word_of(place: Place) -> String {
    super::words::word(place.number()).to_owned()
}

/// Enters the code at one issuer.
async fn enter_at(
    host: &Host,
    code: &Code,
    card: &Card,
    found: &Found,
) -> Result<Met, MeetingError> {
    let calling = time::timeout(DIAL, host.connect(found.node, &found.addresses[..])).await;
    let session = calling
        .map_err(|_| ExchangeError::Silent)?
        .map_err(MeetingError::Unreachable)?;
    let spec = StreamSpec {
        duplex: true,
        ..StreamSpec::messages(LABEL)
    };
    let stream = session.open_stream(spec).map_err(|_| ExchangeError::Gone)?;
    let result = enter(&stream, code, host.node_id(), found.node, card).await;
    session.close(0, "the code was entered");
    let card = result?;
    let mut addresses = card.addresses.clone();
    add(&mut addresses, &found.addresses);
    Ok(Met {
        node: found.node,
        card,
        addresses,
        detour: None,
    })
}

#[cfg(test)]
mod tests;
