//! Promises for streams with frames: at the rate at which they arrive from a simulation, or at which they are made.

use std::{convert::Infallible, future::pending, time::Duration};

use anabranch::{ClientError, Guarantee, PromiseEvent, base::Rate, local::client::Stream};
use tokio::{
    sync::watch as state,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::wire::{Notice, encode};

/// Promise that is asked for a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Asking {
    /// None.
    Nothing,
    /// The rate of its frames, which is measured or known.
    Measured {
        /// Share of the windows, from 0 to 1.
        share: f64,
    },
    /// A rate.
    Fixed {
        /// The rate.
        rate: Rate,
        /// Share of the windows, from 0 to 1.
        share: f64,
    },
}

/// Time over which a rate is measured.
const MEASURED: Duration = Duration::from_secs(5);
/// Part of the measured rate that is asked for, which leaves room for headers and for variation.
const MARGIN: f64 = 1.2;
/// The same of a rate that is known.
const MARGIN_OF_KNOWN: f64 = 1.02;
/// The same of a rate that is known and grows.
const MARGIN_OF_GROWING: f64 = 1.1;
/// Smallest rate that is asked for, in bit/s.
const RATE_MIN: f64 = 10_000.0;

/// Asks for the promise of a stream of which `bytes` have arrived so far, and reports it to the viewer; does not return.
pub(crate) async fn keep(
    stream: &Stream,
    asking: Asking,
    bytes: impl Fn() -> u64 + Send,
) -> Infallible {
    let asking = async {
        match asking {
            Asking::Nothing => pending().await,
            Asking::Fixed { rate, share } => fixed(stream, rate, share).await,
            Asking::Measured { share } => measured(stream, share, bytes).await,
        }
    };
    tokio::select! {
        never = asking => never,
        never = follow(stream) => never,
    }
}

/// As [`keep`], of a stream whose frames need a rate that is known and changes; 0: not known yet.
pub(crate) async fn keep_known(
    stream: &Stream,
    asking: Asking,
    rates: state::Receiver<u64>,
) -> Infallible {
    let asking = async {
        match asking {
            Asking::Nothing => pending().await,
            Asking::Fixed { rate, share } => fixed(stream, rate, share).await,
            Asking::Measured { share } => known(stream, share, rates).await,
        }
    };
    tokio::select! {
        never = asking => never,
        never = follow(stream) => never,
    }
}

async fn fixed(stream: &Stream, rate: Rate, share: f64) -> Infallible {
    demand(stream, rate, share).await;
    pending().await
}

async fn measured(stream: &Stream, share: f64, bytes: impl Fn() -> u64) -> Infallible {
    let mut ticks = interval(MEASURED);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut asked = None;
    let mut before = (Instant::now(), bytes());
    loop {
        ticks.tick().await;
        let now = (Instant::now(), bytes());
        let seconds = (now.0 - before.0).as_secs_f64();
        let bps = 8.0 * (now.1 - before.1) as f64 / seconds;
        before = now;
        if let Some(wanted) = wanted(asked, bps) {
            demand(stream, Rate::from_bps(wanted as u64), share).await;
            asked = Some(wanted);
        }
    }
}

async fn known(stream: &Stream, share: f64, mut rates: state::Receiver<u64>) -> Infallible {
    let mut asked = 0;
    loop {
        let rate = *rates.borrow_and_update();
        if let Some(wanted) = wanted_of_known(asked, rate) {
            demand(stream, Rate::from_bps(wanted), share).await;
            asked = wanted;
        }
        if rates.changed().await.is_err() {
            pending::<()>().await;
        }
    }
}

/// Rate to ask for where the frames need a known one, in bit/s; `None`: what was asked for is right. One that grows is asked for with
/// more than it needs, so that not every small step is asked for.
fn wanted_of_known(asked: u64, rate: u64) -> Option<u64> {
    let margin = if asked > 0 && rate > asked {
        MARGIN_OF_GROWING
    } else {
        MARGIN_OF_KNOWN
    };
    let wanted = (rate as f64 * margin) as u64;
    let is_right = rate <= asked && wanted.saturating_mul(3) >= asked.saturating_mul(2);
    (rate > 0 && !is_right).then(|| wanted.max(RATE_MIN as u64))
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

    #[test]
    fn a_known_rate_is_asked_for_when_it_grows_or_is_much_less() {
        assert_eq!(wanted_of_known(0, 0), None);
        assert_eq!(wanted_of_known(0, 1), Some(10_000));
        assert_eq!(wanted_of_known(10_000, 1), Some(10_000));
        assert_eq!(wanted_of_known(0, 1_000_000), Some(1_020_000));
        for same in [0, 700_000, 1_000_000, 1_020_000] {
            assert_eq!(wanted_of_known(1_020_000, same), None, "{same}");
        }
        assert_eq!(wanted_of_known(1_020_000, 1_100_000), Some(1_210_000));
        assert_eq!(wanted_of_known(1_020_000, 500_000), Some(510_000));
    }
}
