//! Records at their rate: each is sent when it is due, awaited if it is not there yet, and left out if it is late.

use std::time::Duration;

use anabranch::{StreamParameters, local::client::Stream};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::{End, Server, clock::Clock};
use crate::{
    carry::{fault_of, next},
    source::{Next, Reading},
    wire::{Fault, Get, Item, WireError, encode},
};

/// Interval between two looks at a file that is not there yet.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time for which a record without a deadline is awaited.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);
/// Bounds of the rate, in records a second.
const RATE: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// Pace of a stream.
#[derive(Debug)]
pub(super) struct Pace {
    every: Duration,
    deadline: Option<Duration>,
    /// Times at which records are due, from the first record on.
    clock: Option<Clock>,
    /// The time at which the next record is due, if one was sent.
    due: Option<Instant>,
}

impl Pace {
    /// That which a client asks for.
    pub(super) fn of(get: &Get) -> Result<Option<Self>, WireError> {
        let Some(rate) = get.pace else {
            return Ok(None);
        };
        if !RATE.contains(&rate) {
            return Err(WireError(format!("{rate} records a second")));
        }
        let deadline = get.deadline_ms.map(|ms| ms.clamp(1, 3_600_000));
        Ok(Some(Self {
            every: Duration::from_secs_f64(1.0 / rate),
            deadline: deadline.map(Duration::from_millis),
            clock: None,
            due: None,
        }))
    }

    /// The time between records.
    pub(super) fn every(&self) -> Duration {
        self.every
    }
}

impl Server {
    /// Sends records at their pace.
    pub(super) async fn paced(
        &self,
        stream: &Stream,
        mut reading: Reading,
        items: Vec<Item>,
        (pace, clock): (&mut Pace, impl Fn(Instant) -> Clock),
    ) -> Result<Reading, End> {
        if pace.clock.is_none() && pace.deadline.is_some() {
            let parameters = StreamParameters {
                lifetime: Some(pace.deadline),
                ..StreamParameters::default()
            };
            stream.adjust(parameters).await?;
        }
        for item in items {
            let Item::Records {
                from,
                to,
                components,
                bytes,
            } = item
            else {
                return Err(WireError("a part at a pace".to_owned()).into());
            };
            let last = reading.records();
            for record in from..to.min(last) {
                let now = Instant::now();
                let clock = pace.clock.get_or_insert_with(|| clock(now));
                // The first record may be late for its time, but not for its deadline.
                let (due, since) = match pace.due {
                    Some(due) => (due, due),
                    None => (clock.last(now), now),
                };
                sleep_until(due).await;
                pace.due = Some(due + pace.every);
                let one = Item::Records {
                    from: record,
                    to: record + 1,
                    components: components.clone(),
                    bytes,
                };
                reading = self.record(stream, reading, one, since, pace).await?;
            }
        }
        Ok(reading)
    }

    /// Sends a record that is due. Its deadline counts from `since`.
    async fn record(
        &self,
        stream: &Stream,
        mut reading: Reading,
        one: Item,
        since: Instant,
        pace: &Pace,
    ) -> Result<Reading, End> {
        let until = since + pace.deadline.unwrap_or(WAIT_MAX);
        reading.want([one]);
        loop {
            let out;
            (reading, out) = next(&self.readers, reading).await.ok_or(End::Reading)?;
            match out {
                None => return Ok(reading),
                Some(Next::Pack(pack)) => {
                    let Ok(sent) = timeout_at(until, stream.send(pack)).await else {
                        // What is left of the record is of no use any more.
                        return Ok(reading.without_rest());
                    };
                    sent?;
                }
                Some(Next::Fault {
                    record,
                    component,
                    fault: Fault::Missing | Fault::Short,
                    ..
                }) if Instant::now() < until => {
                    // It is not there yet.
                    sleep(LOOK_EVERY).await;
                    reading.want([Item::Records {
                        from: record,
                        to: record + 1,
                        components: vec![component],
                        bytes: None,
                    }]);
                }
                Some(mut fault) => {
                    if let Next::Fault {
                        fault: fault @ (Fault::Missing | Fault::Short),
                        ..
                    } = &mut fault
                        && pace.deadline.is_some()
                    {
                        *fault = Fault::Late;
                    }
                    if let Some(notice) = fault_of(&fault) {
                        stream.send(encode(&notice)).await?;
                    }
                }
            }
        }
    }
}
