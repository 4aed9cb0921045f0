//! The promise that a client asks for the data of a component.

use std::convert::Infallible;

use anabranch::{
    ClientError, Failure, Guarantee, PromiseEvent, Refusal, base::Rate, local::client::Stream,
};

use super::End;
use crate::wire::{Begun, Demand, Notice, OnRefusal, Promised, WireError, encode};

/// Asks for a promise. The error is the refusal for the client.
pub(super) async fn ask(stream: &Stream, demand: &Demand) -> Result<Result<Promised, Notice>, End> {
    let rate = Rate::from_bps(demand.rate_bps);
    let wanted = Guarantee::rate(rate, demand.share);
    wanted
        .validate()
        .map_err(|error| WireError(error.to_string()))?;
    let refusal = match stream.change_guarantee(Some(wanted)).await {
        Ok(()) => return Ok(Ok(promised(rate))),
        Err(error) => refusal_of(error)?,
    };
    let offer = refusal.offer.rate;
    match (demand.on_refusal, offer) {
        (OnRefusal::Offer, Some(offer)) => {
            let lower = Guarantee::rate(offer, demand.share);
            match stream.change_guarantee(Some(lower)).await {
                Ok(()) => Ok(Ok(promised(offer))),
                // Less is left by now.
                Err(error) => waiting(stream, lower, &refusal_of(error)?).await,
            }
        }
        (OnRefusal::Fail, _) => Ok(Err(Notice::Refused {
            why: refusal.to_string(),
            offer_bps: offer.map(|rate| rate.as_bps()),
            is_changed: false,
        })),
        (OnRefusal::Offer | OnRefusal::Wait, _) => waiting(stream, wanted, &refusal).await,
    }
}

async fn waiting(
    stream: &Stream,
    wanted: Guarantee,
    refusal: &Refusal,
) -> Result<Result<Promised, Notice>, End> {
    match stream.change_guarantee(Some(wanted.waiting())).await {
        Ok(()) => {}
        // The limits of this application leave no promise: the data goes on without one.
        Err(ClientError::Limited { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let why = refusal.to_string();
    Ok(Ok(Promised::Waiting { why }))
}

fn promised(rate: Rate) -> Promised {
    Promised::Promised {
        rate_bps: rate.as_bps(),
    }
}

fn refusal_of(error: ClientError) -> Result<Refusal, End> {
    match error.refusal() {
        Some(refusal) => Ok(refusal.clone()),
        None => Err(error.into()),
    }
}

/// Tells the client what becomes of the promise; does not return.
pub(super) async fn follow(stream: &Stream) -> Infallible {
    loop {
        let promise = match stream.next_promise().await {
            Ok(PromiseEvent::Promised(grant)) => promised(grant.guarantee.required()),
            Ok(PromiseEvent::Warned(refusal) | PromiseEvent::Withdrawn(refusal)) => {
                let why = refusal.to_string();
                Promised::Waiting { why }
            }
            Ok(_) => continue,
            Err(_) => std::future::pending().await,
        };
        let promise = Some(promise);
        // An error means that the stream is over.
        let _ = stream.send(encode(&Notice::Begun(Begun { promise }))).await;
    }
}
