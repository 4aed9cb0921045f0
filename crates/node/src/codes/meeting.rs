//! Entry of a code: the holder looks for the issuer nearby and at a relay.

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
use tokio::time::{self, Instant};

use super::{
    LABEL,
    card::Card,
    code::{Code, Place},
    exchange::{ExchangeError, Line, enter},
    lan::{Found, LanError, Search},
    message::Refusal::{self, Dead, Purpose, Wrong},
};
use crate::{
    keys::KeyError,
    rendezvous::{
        Pairing,
        Refusal::{Busy, Nobody},
        RendezvousError, Via, open_translator,
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
    /// The only issuer has the key of this node.
    #[error(
        "the code is shown under the key of this node itself, as by another command of the same user on this machine; give one of the two a key of its own: \
         --key other-key, which is made if it is missing, or for `pair` another --home"
    )]
    OwnKey,
    /// An issuer does not answer.
    #[error("the other side was found, but does not answer at its addresses: {0}")]
    Unreachable(#[source] ConnectError),
    /// The exchange failed.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
}

pub(super) fn add(addresses: &mut Vec<SocketAddr>, more: &[SocketAddr]) {
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
    let entry = Entry {
        host,
        code,
        card,
        refusals: Mutex::default(),
    };
    let nearby = async {
        let search = Search::start(host, code.place())?;
        entry.meet_among(async || search.next().await).await
    };
    let Some(via) = via else {
        return nearby.await;
    };
    let relayed = async {
        time::sleep(NEARBY).await;
        entry.meet_at(via).await
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
            // Another one with the same first word may wait at the relay, and the right one nearby.
            Err(error @ MeetingError::Exchange(ExchangeError::Refused(Wrong | Dead | Purpose))) => {
                return match time::timeout(OTHERS, nearby).await {
                    Ok(Ok(met)) => Ok(met),
                    _ => Err(error),
                };
            }
            Err(error) => (error, nearby.await),
        },
    };
    match (first, last) {
        (_, Ok(met)) => Ok(met),
        (first, Err(MeetingError::Nobody(_) | MeetingError::Lan(_))) => Err(first),
        (_, Err(last)) => Err(last),
    }
}

/// Entry of one code, at whoever may have shown it.
pub(super) struct Entry<'h> {
    host: &'h Host,
    code: &'h Code,
    card: &'h Card,
    /// Refusal of each issuer, locked during an exchange with it. An issuer may be found nearby and at the relay: one wrong code must not
    /// count as two guesses. Bounded by [`ISSUERS_MAX`] and the one at the relay.
    refusals: Mutex<BTreeMap<NodeId, Arc<tokio::sync::Mutex<Option<Refusal>>>>>,
}

impl Entry<'_> {
    /// Enters the code in one exchange, unless this issuer has refused it.
    async fn exchange(&self, line: &impl Line, issuer: NodeId) -> Result<Card, ExchangeError> {
        let refusal = {
            let mut all = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(issuer).or_default().clone()
        };
        let mut refusal = refusal.lock().await;
        if let Some(refusal) = *refusal {
            return Err(refusal.into());
        }
        let result = enter(line, self.code, self.host.node_id(), issuer, self.card).await;
        if let Err(ExchangeError::Refused(given @ (Wrong | Dead))) = &result {
            *refusal = Some(*given);
        }
        result
    }

    /// Enters the code at the relay.
    async fn meet_at(&self, via: &Via) -> Result<Met, MeetingError> {
        let deadline = Instant::now() + SEARCH;
        let pairing = loop {
            match Pairing::reach(self.host, via, self.code.place()).await {
                Ok(pairing) => break pairing,
                // The other side may be about to wait there.
                Err(RendezvousError::Refused(Nobody | Busy)) if Instant::now() < deadline => {
                    time::sleep(AGAIN).await;
                }
                Err(RendezvousError::Refused(Nobody)) => {
                    return Err(MeetingError::Nobody(word_of(self.code.place())));
                }
                Err(error) => return Err(error.into()),
            }
        };
        let card = self.exchange(&pairing, pairing.node).await?;
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
        &self,
        mut next: impl AsyncFnMut() -> Found,
    ) -> Result<Met, MeetingError> {
        let mut deadline = Instant::now() + SEARCH;
        let mut failure = None;
        let mut tried: BTreeMap<NodeId, Vec<SocketAddr>> = BTreeMap::new();
        while let Ok(found) = time::timeout_at(deadline, next()).await {
            if found.node == self.host.node_id() {
                deadline = deadline.min(Instant::now() + OTHERS);
                failure.get_or_insert(MeetingError::OwnKey);
                continue;
            }
            let is_known = tried.get(&found.node) == Some(&found.addresses);
            if is_known || tried.len() >= ISSUERS_MAX {
                continue;
            }
            tried.insert(found.node, found.addresses.clone());
            match self.enter_at(&found).await {
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
        Err(failure.unwrap_or_else(|| MeetingError::Nobody(word_of(self.code.place()))))
    }

    /// Enters the code at one issuer.
    async fn enter_at(&self, found: &Found) -> Result<Met, MeetingError> {
        let calling =
            time::timeout(DIAL, self.host.connect(found.node, &found.addresses[..])).await;
        let session = calling
            .map_err(|_| ExchangeError::Silent)?
            .map_err(MeetingError::Unreachable)?;
        let spec = StreamSpec {
            duplex: true,
            ..StreamSpec::messages(LABEL)
        };
        let stream = session.open_stream(spec).map_err(|_| ExchangeError::Gone)?;
        let result = self.exchange(&stream, found.node).await;
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
}

fn word_of(place: Place) -> String {
    super::words::word(place.number()).to_owned()
}

#[cfg(test)]
mod tests;
