//! Numbers of each second, derived from the record while it is played, and their stream.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch::AduSession;
use tokio::sync::watch;

use super::{
    Desk,
    streams::{self, send},
};
use crate::{error::ClinicError, vitals::HeartRate, wfdb::Header, wire::Request};

/// Names of the lead from which the heart rate is derived, the first that is there; without any, the first lead.
const LEADS: [&str; 3] = ["ii", "mlii", "i"];

/// Numbers of the newest second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Newest {
    /// Seconds that were there before; `None`: none is there yet.
    number: Option<u64>,
    at_us: u64,
    heart_rate: Option<f64>,
    has_ended: bool,
}

/// Numbers of a record.
#[derive(Debug)]
pub(super) struct Vitals {
    lead: usize,
    origin: String,
    frequency: f64,
    rate: Mutex<(HeartRate, u64)>,
    newest: watch::Sender<Newest>,
    desk: Desk,
}

impl Vitals {
    pub(super) fn of(header: &Header, desk: &Desk) -> Arc<Self> {
        let name = |at: usize| header.leads[at].description.to_ascii_lowercase();
        let lead = LEADS
            .iter()
            .find_map(|wanted| (0..header.leads.len()).find(|at| name(*at) == *wanted));
        let lead = lead.unwrap_or_default();
        let newest = Newest {
            number: None,
            at_us: 0,
            heart_rate: None,
            has_ended: false,
        };
        Arc::new(Self {
            lead,
            origin: format!("heart rate derived from lead {}", header.leads[lead].name()),
            frequency: header.frequency,
            rate: Mutex::new((HeartRate::new(header.frequency), 0)),
            newest: watch::Sender::new(newest),
            desk: desk.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, (HeartRate, u64)> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes frames as they are played.
    pub(super) fn push(&self, samples: &[i16], leads: usize) {
        let (rate, frames) = &mut *self.lock();
        for frame in samples.chunks_exact(leads) {
            rate.push(frame[self.lead]);
            *frames += 1;
            let seconds = (*frames as f64 / self.frequency) as u64;
            let before = ((*frames - 1) as f64 / self.frequency) as u64;
            if seconds > before {
                self.newest.send_replace(Newest {
                    number: Some(seconds - 1),
                    at_us: self.desk.now_us(),
                    heart_rate: rate.per_minute(),
                    has_ended: false,
                });
            }
        }
    }

    /// No number follows.
    pub(super) fn end(&self) {
        self.newest.send_modify(|newest| newest.has_ended = true);
    }

    /// Sends the numbers of each second in a session; those of seconds before it, and those that a later one has overtaken, are left out.
    pub(super) async fn send<S: AduSession>(&self, session: &S) -> Result<(), ClinicError> {
        let mut newest = self.newest.subscribe();
        let opened = session.open_stream(streams::vitals()).await;
        let stream = opened.map_err(|error| ClinicError::of(&error))?;
        let origin = self.origin.clone();
        send::<S>(&stream, &Request::Vitals { origin }).await?;
        let mut sent = None;
        loop {
            let now = *newest.borrow_and_update();
            if let (Some(number), true) = (now.number, now.number != sent) {
                let vital = Request::Vital {
                    number,
                    at_us: now.at_us,
                    heart_rate: now.heart_rate,
                };
                send::<S>(&stream, &vital).await?;
                sent = now.number;
            }
            // The sender is of this.
            if now.has_ended || newest.changed().await.is_err() {
                // An error means that the session is over.
                let _ = anabranch::AduStream::finish(&stream);
                return Ok(());
            }
        }
    }
}
