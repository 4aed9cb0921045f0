//! Kinds of abuse, each by name.

mod connect;
mod frames;
mod http;
mod talk;

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    tally::{Failure, Tally},
    target::{Door, Target},
};

/// A kind of abuse.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) door: Door,
    pub(crate) run: fn(&Target, &Limits) -> Result<Tally, Failure>,
}

/// Bounds of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) end: Instant,
    pub(crate) attempts_per_s: u32,
    pub(crate) bits_per_s: u64,
}

/// Prepares the data that kinds need before the run begins.
pub(crate) fn prepare(
    chosen: &[&Kind],
    target: &Target,
    seconds: u64,
    attempts_per_s: u32,
) -> Result<(), Failure> {
    if chosen.iter().any(|kind| kind.name == INITIALS) {
        connect::prepare_initials(target, seconds, attempts_per_s)?;
    }
    Ok(())
}

/// Name of the kind that [`prepare`] is for.
const INITIALS: &str = "initials";

macro_rules! quic {
    ($name:expr, $about:literal, $run:expr) => {
        Kind {
            name: $name,
            about: $about,
            door: Door::Quic,
            run: $run,
        }
    };
}

/// Every kind.
pub(crate) const KINDS: &[Kind] = &[
    quic!(
        INITIALS,
        "first packets of handshakes from many addresses that never answer",
        connect::initials
    ),
    quic!(
        "half-open",
        "handshakes that prove their address and then fall silent",
        connect::half_open
    ),
    quic!(
        "no-join",
        "connected channels that never send JOIN",
        connect::no_join
    ),
    quic!(
        "no-right",
        "sessions that never show a right to anything",
        connect::no_right
    ),
    quic!(
        "skip-credit",
        "a byte at the end of an ADU, skipped for credit, again and again",
        |t, l| talk::run(t, l, frames::skip_credit)
    ),
    quic!(
        "reset-credit",
        "streams reset for more credit than they used",
        |t, l| talk::run(t, l, frames::reset_credit)
    ),
    quic!(
        "far-offset",
        "unreliable fragments at far offsets",
        |t, l| talk::run(t, l, frames::far_offset)
    ),
    quic!("opens", "duplex streams without end", |t, l| talk::run(
        t,
        l,
        frames::opens
    )),
    quic!(
        "descending",
        "one-byte fragments in descending order",
        |t, l| talk::run(t, l, frames::descending)
    ),
    quic!(
        "tiny",
        "unreliable ADUs of one byte that are not read",
        |t, l| talk::run(t, l, frames::tiny)
    ),
    quic!("gaps", "every second ADU of a reliable stream", |t, l| {
        talk::run(t, l, frames::gaps)
    }),
    quic!(
        "controls",
        "credits, reports and stops at the ends of their ranges",
        |t, l| talk::run(t, l, frames::controls)
    ),
    quic!(
        "noise",
        "random bytes behind the types of frames",
        |t, l| talk::run(t, l, frames::noise)
    ),
    Kind {
        name: "half-requests",
        about: "HTTP requests whose head never ends",
        door: Door::Http,
        run: http::half_requests,
    },
    Kind {
        name: "slow-readers",
        about: "HTTP requests whose answer is not read",
        door: Door::Http,
        run: http::slow_readers,
    },
];

/// Pace: spreads a number of actions evenly until the end.
pub(crate) struct Pace {
    began: Instant,
    end: Instant,
    per_s: f64,
    done: f64,
}

impl Pace {
    pub(crate) fn new(end: Instant, per_s: f64) -> Self {
        Self {
            began: Instant::now(),
            end,
            per_s,
            done: 0.0,
        }
    }

    /// Waits until one more action may happen; false at the end. Actions that could not happen in time are not made up for
    /// beyond a tenth of a second.
    pub(crate) fn next(&mut self) -> bool {
        loop {
            let now = Instant::now();
            if now >= self.end {
                return false;
            }
            let due = (now - self.began).as_secs_f64() * self.per_s;
            self.done = self.done.max(due - self.per_s / 10.0);
            if self.done + 1.0 <= due {
                self.done += 1.0;
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Number of further actions that may happen now, without waiting; none at the end.
    pub(crate) fn ready(&mut self) -> u64 {
        let now = Instant::now();
        if now >= self.end {
            return 0;
        }
        let due = (now - self.began).as_secs_f64() * self.per_s;
        self.done = self.done.max(due - self.per_s / 10.0);
        let count = (due - self.done).max(0.0).floor();
        self.done += count;
        count as u64
    }
}
