//! Promises over both legs.
//!
//! The source leg and the operators are judged by the windows that were in time here, up to now; the last leg is asked for what is missing: if a
//! share u of windows is in time here, the last leg must have the rate in a share p / u of windows for p in all, if windows fail on one leg whatever
//! they do on the other. The share u is measured on the source leg and the operators together, so that it holds for these whether they fail
//! together or not; the subscriber judges all three together, on the same windows.

use std::{
    convert::Infallible,
    future::pending,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anabranch::{ClientError, Guarantee, PromiseEvent, base::Rate, local::client::Stream};
use anabranch_process::serve::windows::{Part, Shares};
use tokio::time::{MissedTickBehavior, interval};

use super::source::Source;
use crate::wire::{
    Notice, encode,
    message::{self, Demand},
};

/// Share of the deadline that the source leg and the operators may take.
const BEFORE_SHARE: f64 = 0.75;
/// Windows that must be known before anything is promised.
const KNOWN_MIN: u32 = 10;
/// Change of the share that is asked of the last leg, from which on it is asked for anew.
const ASK_AGAIN: f64 = 0.01;
/// Largest share that is asked of the last leg.
const SHARE_MAX: f64 = 0.999;
/// Time between two looks at the windows.
const LOOK: Duration = Duration::from_millis(250);

/// Way from a source to a subscriber.
#[derive(Clone, Copy)]
pub(super) struct Way<'a> {
    pub(super) source: &'a Source,
    /// Number of the subscriber.
    pub(super) number: u64,
    /// Stream to it.
    pub(super) stream: &'a Stream,
}

/// An account until this is dropped.
struct Watched<'a>(Way<'a>);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.source.unwatch(self.0.number);
    }
}

/// State of a promise.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum State {
    /// Too few windows are known.
    Unknown(u32),
    /// The source leg or the operators are not in time often enough: the share of windows in which they are, and the part that fails most.
    Before(f64, Part),
    /// The last leg promises nothing, for this reason.
    Last(String),
    /// The rate is promised, in this share of windows.
    Promised(u64, f64),
}

/// The share of windows that the last leg must keep, or the reason why no share suffices.
pub(super) fn required(share: f64, shares: &Shares) -> Result<f64, State> {
    if shares.known < KNOWN_MIN {
        return Err(State::Unknown(shares.known));
    }
    let kept = shares.kept_share();
    let needed = share / kept;
    if needed > SHARE_MAX {
        // Without a failed window, any share up to the largest can be asked for.
        return match shares.worst() {
            Some(part) => Err(State::Before(kept, part)),
            None => Ok(SHARE_MAX),
        };
    }
    Ok(needed)
}

/// Asks for the promise of a stream, and reports its state on `control`; does not return.
pub(super) async fn keep(
    way: &Way<'_>,
    control: &Stream,
    demand: Option<Demand>,
    promised: &AtomicU64,
) -> Infallible {
    let Some(demand) = demand else {
        return pending().await;
    };
    let share = f64::from(demand.share_ppm) / 1e6;
    way.source
        .watch(way.number, demand.deadline().mul_f64(BEFORE_SHARE));
    let _watched = Watched(*way);
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // What the last leg was asked for, and what it said last.
    let mut asked: Option<f64> = None;
    let mut last: Option<Result<u64, String>> = None;
    let mut told = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            event = way.stream.next_promise() => match event {
                Ok(PromiseEvent::Promised(grant)) => {
                    last = Some(Ok(grant.guarantee.required().as_bps()));
                }
                Ok(PromiseEvent::Warned(refusal) | PromiseEvent::Withdrawn(refusal)) => {
                    last = Some(Err(refusal.to_string()));
                }
                Ok(_) => {}
                Err(_) => return pending().await,
            },
        }
        let (shares, failed) = way.source.judged(way.number);
        for failed in failed {
            let notice = Notice::Late {
                window: failed.window,
                part: failed.part.into(),
            };
            // An error means that the stream is over.
            let _ = control.send(encode(&notice)).await;
        }
        let state = match required(share, &shares) {
            Err(state) => Some(state),
            Ok(needed) => {
                if asked.is_none_or(|asked| needed > asked || asked - needed > ASK_AGAIN) {
                    asked = Some(needed);
                    last = ask(way.stream, demand.rate_bps, needed).await.map(Err);
                }
                last.as_ref().map(|last| match last {
                    Ok(rate) => State::Promised(*rate, share),
                    Err(why) => State::Last(why.clone()),
                })
            }
        };
        if let Some(state) = state
            && is_news(told.as_ref(), &state)
        {
            tell(control, promised, &state).await;
            told = Some(state);
        }
    }
}

/// True if a state differs from the one that was reported by more than a count.
fn is_news(told: Option<&State>, state: &State) -> bool {
    match (told, state) {
        (Some(State::Unknown(_)), State::Unknown(_)) => false,
        (Some(State::Before(_, one)), State::Before(_, other)) => one != other,
        (told, state) => told != Some(state),
    }
}

/// Asks the last leg for a rate in a share of windows; returns the reason if it is not promised at once.
async fn ask(stream: &Stream, rate_bps: u64, share: f64) -> Option<String> {
    let guarantee = Guarantee::rate(Rate::from_bps(rate_bps), share);
    let mut refused = None;
    let mut asked = stream.change_guarantee(Some(guarantee)).await;
    if let Err(ClientError::Refused(refusal)) = &asked {
        refused = Some(refusal.to_string());
        // It is promised as soon as it can be.
        asked = stream.change_guarantee(Some(guarantee.waiting())).await;
    }
    asked.err().map(|error| error.to_string()).or(refused)
}

/// Reports a state.
async fn tell(control: &Stream, promised: &AtomicU64, state: &State) {
    let ppm = |share: f64| Some((share * 1e6) as u32);
    let (rate_bps, why, part, share_ppm) = match state {
        State::Unknown(known) => (
            None,
            format!(
                "too little is known of the source leg yet ({known} of {KNOWN_MIN} windows of a second)"
            ),
            None,
            None,
        ),
        State::Before(kept, part) => (
            None,
            format!(
                "{part}: messages were in time at the processing node in {:.1} % of windows; ask for less than that share, or for a longer deadline",
                100.0 * kept
            ),
            Some(*part),
            ppm(*kept * SHARE_MAX),
        ),
        State::Last(why) => (
            None,
            format!("{}: {why}", Part::LastLeg),
            Some(Part::LastLeg),
            None,
        ),
        State::Promised(rate, share) => (Some(*rate), String::new(), None, ppm(*share)),
    };
    promised.store(rate_bps.unwrap_or_default(), Ordering::Relaxed);
    let notice = Notice::Promise {
        rate_bps,
        why,
        part: part.map(message::Part::from),
        share_ppm,
    };
    // An error means that the stream is over.
    let _ = control.send(encode(&notice)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(known: u32, failed: [u32; 3]) -> Shares {
        Shares {
            known,
            kept: known - failed.iter().sum::<u32>(),
            failed,
        }
    }

    #[test]
    fn the_last_leg_makes_up_for_what_fails_before_or_the_part_is_named() {
        assert_eq!(required(0.9, &shares(9, [0, 0, 0])), Err(State::Unknown(9)));
        assert_eq!(required(0.9, &shares(10, [0, 0, 0])), Ok(0.9));
        let needed = required(0.9, &shares(60, [2, 1, 0])).unwrap();
        assert!((needed - 0.9 / 0.95).abs() < 1e-12, "{needed}");
        assert_eq!(
            required(0.9, &shares(20, [1, 3, 0])),
            Err(State::Before(0.8, Part::Processing))
        );
        assert_eq!(
            required(0.95, &shares(20, [1, 0, 0])),
            Err(State::Before(0.95, Part::SourceLeg))
        );
        assert_eq!(required(0.9999, &shares(20, [0, 0, 0])), Ok(SHARE_MAX));
    }

    #[test]
    fn counts_alone_are_not_reported_again() {
        let unknown = State::Unknown(1);
        assert!(is_news(None, &unknown));
        assert!(!is_news(Some(&unknown), &State::Unknown(2)));
        let before = State::Before(0.8, Part::SourceLeg);
        assert!(is_news(Some(&unknown), &before));
        assert!(!is_news(
            Some(&before),
            &State::Before(0.7, Part::SourceLeg)
        ));
        assert!(is_news(
            Some(&before),
            &State::Before(0.7, Part::Processing)
        ));
    }
}
