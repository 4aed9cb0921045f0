//! Processing node of a source or a subscriber: one session with it after the other.

use std::{ops::AsyncFn, time::Duration};

use anabranch::{Session, base::duration, local::client};
use anabranch_processing::ProcessingError;
use tokio::time::{Instant, sleep};

use super::failure;
use crate::{
    attach,
    direct::{self, Direct},
    exit::{Failure, note},
};

/// Pause before the node is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Place of the processing node.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Processing node: its name in the running node's configuration, ID@HOST:PORT, or a ticket.
    #[arg(long, value_name = "NODE")]
    at: String,
    #[command(flatten)]
    place: attach::Place,
    #[command(flatten)]
    direct: direct::Flags,
}

/// Further attempts.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Retry {
    /// Time for which a processing node that cannot be reached is tried again.
    #[arg(long, value_name = "DURATION", default_value = "1 h", value_parser = parse_duration)]
    retry: Duration,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// A program of a session, attached or not.
pub(super) trait Program {
    type Done;

    /// True once the processing node has taken its request.
    fn has_begun(&self) -> bool {
        false
    }

    /// Runs in a session of an own node.
    async fn own(&self, session: &Session) -> Result<Self::Done, ProcessingError>;
    /// Runs in a session of the running node.
    async fn attached(&self, session: &client::Session) -> Result<Self::Done, ProcessingError>;
}

impl Flags {
    /// Runs a program in one session after the other until it is done, or fails for a reason other than an interruption.
    pub(super) async fn run<P: Program>(
        &self,
        name: &str,
        program: &P,
        retry: &Retry,
    ) -> Result<P::Done, Failure> {
        if !direct::is_meant_by(&self.at) {
            // Without a node here, nothing is gained by another attempt.
            self.place.attach(name).await.map_err(attach::failure)?;
        }
        retry.again(async || self.once(name, program).await).await
    }

    /// Runs a program in one session.
    pub(super) async fn once<P: Program>(
        &self,
        name: &str,
        program: &P,
    ) -> Result<P::Done, Failure> {
        let done = if direct::is_meant_by(&self.at) {
            let own = Direct::open(&self.at, &self.direct).await?;
            let done = program.own(own.session()).await;
            own.close().await;
            done
        } else {
            let client = self.place.attach(name).await.map_err(attach::failure)?;
            let session = client.connect(&self.at).await.map_err(attach::failure)?;
            program.attached(&session).await
        };
        done.map_err(|error| match &error {
            // Between two runs of a service, nobody takes its labels.
            ProcessingError::NoRight { .. } if program.has_begun() => {
                Failure::interrupted("the node processes nothing at this time")
            }
            _ => failure(error),
        })
    }
}

impl Retry {
    async fn again<T>(&self, once: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut until = Instant::now() + self.retry;
        let mut before = String::new();
        loop {
            let begin = Instant::now();
            let failure = match once().await {
                Err(failure) if matches!(failure.code(), 3 | 5) => failure,
                ended => return ended,
            };
            if begin.elapsed() > PAUSE {
                // It was there for a while.
                until = Instant::now() + self.retry;
            }
            if Instant::now() >= until {
                return Err(failure);
            }
            if before != failure.message() {
                note(&format!("{}; trying again", failure.message()));
                failure.message().clone_into(&mut before);
            }
            sleep(PAUSE).await;
        }
    }
}
