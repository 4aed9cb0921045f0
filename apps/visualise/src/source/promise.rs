//! Promise for box and positions, at the rate at which they arrive from the simulation.

use std::{convert::Infallible, future::pending, time::Duration};

use anabranch::{ClientError, Guarantee, PromiseEvent, base::Rate, local::client::Stream};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Asking, live::Live};
use crate::{
    imd::{Section, Sections},
    wire::{Notice, encode},
};

/// Sections whose rate is promised.
pub(super) const PROMISED: Sections = Sections::of(&[Section::Box, Section::Positions]);
/// Time over which a rate is measured.
const MEASURED: Duration = Duration::from_secs(5);
/// Part of the measured rate that is asked for, which leaves room for headers and for variation.
const MARGIN: f64 = 1.2;
/// Smallest rate that is asked for.
const RATE_MIN: f64 = 10_000.0;

/// Asks for the promise and reports it to the viewer; does not return.
pub(super) async fn keep(stream: &Stream, live: &Live, asking: Asking) -> Infallible {
    tokio::select! {
        never = ask(stream, live, asking) => never,
        never = follow(stream) => never,
    }
}

async fn ask(stream: &Stream, live: &Live, asking: Asking) -> Infallible {
    match asking {
        Asking::Nothing => {}
        Asking::Fixed { rate, share } => demand(stream, rate, share).await,
        Asking::Measured { share } => {
            let mut ticks = interval(MEASURED);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            let mut asked = None;
            let mut before = (Instant::now(), live.positions_bytes());
            loop {
                ticks.tick().await;
                let now = (Instant::now(), live.positions_bytes());
                let seconds = (now.0 - before.0).as_secs_f64();
                let bps = 8.0 * (now.1 - before.1) as f64 / seconds;
                before = now;
                if let Some(wanted) = wanted(asked, bps) {
                    demand(stream, Rate::from_bps(wanted as u64), share).await;
                    asked = Some(wanted);
                }
            }
        }
    }
    pending().await
}

/// Rate to ask for, in bit/s; `None`: what was asked for is right, or nothing arrives, as from a simulation that is paused.
fn wanted(asked: Option<f64>, measured_bps: f64) -> Option<f64> {
    let wanted = measured_bps * MARGIN;
    if measured_bps <= 0.0 {
        return None;
    }
    let wanted = wanted.max(RATE_MIN);
    match asked {
        Some(asked) if wanted < asked * MARGIN && wanted * 2.0 > asked => None,
        _ => Some(wanted),
    }
}

async fn demand(stream: &Stream, rate: Rate, share: f64) {
    let guarantee = Guarantee::rate(rate, share);
    let outcome = match stream.change_guarantee(Some(guarantee)).await {
        Ok(()) => Ok(()),
        // It is promised as soon as it can be.
        Err(ClientError::Refused(refusal)) => {
            let waiting = stream.change_guarantee(Some(guarantee.waiting())).await;
            waiting.and(Err(ClientError::Refused(refusal)))
        }
        Err(error) => Err(error),
    };
    let promise = match outcome {
        Ok(()) => promised(rate),
        Err(error) => none(error.to_string()),
    };
    // An error means that the stream is over.
    let _ = stream.send(encode(&promise)).await;
}

async fn follow(stream: &Stream) -> Infallible {
    loop {
        let promise = match stream.next_promise().await {
            Ok(PromiseEvent::Promised(grant)) => promised(grant.guarantee.required()),
            Ok(PromiseEvent::Warned(refusal) | PromiseEvent::Withdrawn(refusal)) => {
                none(refusal.to_string())
            }
            Ok(_) => continue,
            Err(_) => pending().await,
        };
        // An error means that the stream is over.
        let _ = stream.send(encode(&promise)).await;
    }
}

fn promised(rate: Rate) -> Notice {
    Notice::Promise {
        rate_bps: Some(rate.as_bps()),
        why: String::new(),
    }
}

fn none(why: String) -> Notice {
    Notice::Promise {
        rate_bps: None,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_asked_for_again_when_it_is_another() {
        assert_eq!(wanted(None, 0.0), None);
        assert_eq!(wanted(None, 1.0), Some(RATE_MIN));
        let first = wanted(None, 1e6).unwrap();
        assert_eq!(first, 1.2e6);
        for same in [0.0, 0.6e6, 1e6, 1.15e6] {
            assert_eq!(wanted(Some(first), same), None, "{same}");
        }
        assert_eq!(wanted(Some(first), 2e6), Some(2.4e6));
        assert_eq!(wanted(Some(first), 0.4e6), Some(0.48e6));
    }
}
