//! Processing nodes of a source or a subscriber: one session with one of them after the other.

use std::{ops::RangeInclusive, time::Duration};

use anabranch::{Session, base::duration, local::client};
use anabranch_processing::ProcessingError;
use tokio::time::{Instant, sleep, timeout};

use super::{failure, places::Places};
use crate::{
    attach,
    direct::{self, Direct},
    exit::{Failure, note},
};

/// Pause before the node is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause before the next of several nodes is asked.
const PAUSE_OF_SEVERAL: Duration = Duration::from_millis(200);
/// Time to connect to one of several nodes.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Times without a response after which another node can be tried.
const PATIENCE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(60);

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

/// Further attempts, here and elsewhere.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Retry {
    /// Time for which a processing node that cannot be reached is tried again.
    #[arg(long, value_name = "DURATION", default_value = "1 h", value_parser = parse_duration)]
    retry: Duration,
    /// Another processing node, in place of one that does not respond or lacks the stream; may be repeated. Sources and subscribers must name the
    /// same ones.
    #[arg(long, value_name = "NODE")]
    fallback: Vec<String>,
    /// Time without a response after which the next node is tried, from '100 ms' to '60 s' [default: 500 ms].
    #[arg(long, value_name = "DURATION", requires = "fallback", value_parser = parse_patience)]
    patience: Option<Duration>,
}

fn parse_patience(text: &str) -> Result<Duration, String> {
    let patience = parse_duration(text)?;
    if !PATIENCE.contains(&patience) {
        return Err(format!("'{text}' is not from 100 ms to 60 s"));
    }
    Ok(patience)
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

/// Failure of an attempt at a node.
struct Failed {
    failure: Failure,
    /// False if another node is better for a while.
    does_respond: bool,
}

impl Failed {
    fn silent(failure: Failure) -> Self {
        let does_respond = false;
        Self {
            failure,
            does_respond,
        }
    }
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
        let others = retry.fallback.iter().map(String::as_str);
        let nodes: Vec<&str> = std::iter::once(&*self.at).chain(others).collect();
        let mut places = Places::new(nodes.len());
        let mut until = Instant::now() + retry.retry;
        let mut before = String::new();
        loop {
            let begin = Instant::now();
            let at = nodes[places.current()];
            let Failed {
                failure,
                does_respond,
            } = match self.attempt(name, program, at, nodes.len() > 1).await {
                Err(failed) if matches!(failed.failure.code(), 3 | 5) => failed,
                ended => return ended.map_err(|failed| failed.failure),
            };
            let was_there = begin.elapsed() > PAUSE;
            if was_there {
                until = Instant::now() + retry.retry;
            }
            if Instant::now() >= until {
                return Err(failure);
            }
            places.failed(does_respond, Instant::now());
            let next = match nodes[places.current()] {
                next if next != at => format!("trying {next}"),
                _ => "trying again".to_owned(),
            };
            let words = format!("{}; {next}", failure.message());
            if before != words {
                note(&words);
                before = words;
            }
            match nodes.len() {
                1 => sleep(PAUSE).await,
                _ if !was_there => sleep(PAUSE_OF_SEVERAL).await,
                _ => {}
            }
        }
    }

    /// Runs a program in one session.
    pub(super) async fn once<P: Program>(
        &self,
        name: &str,
        program: &P,
    ) -> Result<P::Done, Failure> {
        let done = self.attempt(name, program, &self.at, false).await;
        done.map_err(|failed| failed.failure)
    }

    async fn attempt<P: Program>(
        &self,
        name: &str,
        program: &P,
        at: &str,
        has_others: bool,
    ) -> Result<P::Done, Failed> {
        let limit = if has_others {
            CONNECT_TIME
        } else {
            Duration::MAX
        };
        let silent = || Failure::interrupted(format!("{at} does not respond"));
        let done = if direct::is_meant_by(at) {
            let own = timeout(limit, Direct::open(at, &self.direct)).await;
            let own = own.unwrap_or_else(|_| Err(silent()));
            let own = own.map_err(Failed::silent)?;
            let done = program.own(own.session()).await;
            own.close().await;
            done
        } else {
            let client = self.place.attach(name).await;
            let client = client.map_err(|error| Failed::silent(attach::failure(error)))?;
            let session = match timeout(limit, client.connect(at)).await {
                Ok(session) => session.map_err(attach::failure),
                Err(_) => Err(silent()),
            };
            program.attached(&session.map_err(Failed::silent)?).await
        };
        done.map_err(|error| Failed {
            does_respond: !matches!(error, ProcessingError::Lost(_) | ProcessingError::Over(_)),
            failure: match &error {
                // Between two runs of a service, nobody takes its labels.
                ProcessingError::NoRight { .. } if program.has_begun() => {
                    Failure::interrupted("the node processes nothing at this time")
                }
                _ => failure(error),
            },
        })
    }
}

impl Retry {
    /// Time without a response after which another node is tried; `None`: there is none.
    pub(super) fn patience(&self) -> Option<Duration> {
        let patience = self.patience.unwrap_or(Duration::from_millis(500));
        (!self.fallback.is_empty()).then_some(patience)
    }
}
