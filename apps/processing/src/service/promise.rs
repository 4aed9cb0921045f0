//! Promises for streams to subscribers.

use std::{
    convert::Infallible,
    future::pending,
    sync::atomic::{AtomicU64, Ordering},
};

use anabranch::{ClientError, Guarantee, PromiseEvent, base::Rate, local::client::Stream};

use crate::wire::{Notice, encode, message::Demand};

/// Asks for the promise of a stream, and reports its state on `control`; does not return.
pub(super) async fn keep(
    stream: &Stream,
    control: &Stream,
    demand: Option<Demand>,
    promised: &AtomicU64,
) -> Infallible {
    let Some(demand) = demand else {
        return pending().await;
    };
    let share = f64::from(demand.share_ppm) / 1e6;
    let guarantee = Guarantee::rate(Rate::from_bps(demand.rate_bps), share);
    let mut asked = stream.change_guarantee(Some(guarantee)).await;
    if let Err(ClientError::Refused(refusal)) = &asked {
        tell(control, promised, Err(refusal.to_string())).await;
        // It is promised as soon as it can be.
        asked = stream.change_guarantee(Some(guarantee.waiting())).await;
    }
    if let Err(error) = asked {
        tell(control, promised, Err(error.to_string())).await;
    }
    while let Ok(event) = stream.next_promise().await {
        let state = match event {
            PromiseEvent::Promised(grant) => Ok(grant.guarantee.required().as_bps()),
            PromiseEvent::Warned(refusal) | PromiseEvent::Withdrawn(refusal) => {
                Err(refusal.to_string())
            }
            _ => continue,
        };
        tell(control, promised, state).await;
    }
    pending().await
}

/// Reports a rate in bit/s, or the reason why none is promised on the way from the processing node to the subscriber.
async fn tell(control: &Stream, promised: &AtomicU64, state: Result<u64, String>) {
    let (rate_bps, why) = match state {
        Ok(rate) => (Some(rate), String::new()),
        Err(why) => (
            None,
            format!("from the processing node to the subscriber: {why}"),
        ),
    };
    promised.store(rate_bps.unwrap_or_default(), Ordering::Relaxed);
    // An error means that the stream is over.
    let _ = control
        .send(encode(&Notice::Promise { rate_bps, why }))
        .await;
}
