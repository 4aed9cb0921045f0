//! Processing nodes of a source or a subscriber: one session with one of them after the other.

use std::{ops::RangeInclusive, pin::pin, time::Duration};

use anabranch::{
    Client, Session,
    base::{NodeId, duration},
    local::client,
};
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
/// Shortest and longest pause before the next of several nodes is asked: a stream that goes on elsewhere is there soon, or not.
const PAUSE_OF_SEVERAL: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_millis(200));
/// Time to connect to one of several nodes.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Pause between two attempts to find a processing node for what runs without one.
const RETURN_PAUSE: Duration = Duration::from_secs(5);
/// Time without a response after which another place is tried, unless another is given.
const PATIENCE_USUAL: Duration = Duration::from_millis(500);
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
    #[arg(long, value_name = "DURATION", value_parser = parse_patience)]
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

    /// True if it can run without a processing node.
    fn can_run_here(&self) -> bool {
        false
    }

    /// Number of times that a processing node has taken its request.
    fn taken(&self) -> u64 {
        0
    }

    /// The place that is in use from now on: one of the nodes, or beyond these without one.
    fn is_at(&self, _place: usize) {}

    /// The place to go to, which the program has chosen, once.
    fn moved(&self) -> Option<usize> {
        None
    }

    /// Waits for a place to go to, if the program chooses its place.
    fn chosen(&self) -> Option<impl Future<Output = usize>> {
        None::<std::future::Ready<usize>>
    }

    /// Runs without a processing node, as a part of the running node with this ID; [`ProcessingError::Moved`] once a node has taken its request.
    async fn here(&self, _own: NodeId) -> Result<Self::Done, ProcessingError> {
        Err(ProcessingError::Refused(
            "a processing node is needed".to_owned(),
        ))
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
    /// The processing nodes, in the order of preference.
    pub(super) fn nodes(&self, retry: &Retry) -> Vec<String> {
        let others = retry.fallback.iter().cloned();
        std::iter::once(self.at.clone()).chain(others).collect()
    }

    /// Attaches to the running node.
    pub(super) async fn attach(&self, name: &str) -> Result<Client, Failure> {
        self.place.attach(name).await.map_err(attach::failure)
    }

    /// Runs a program in one session after the other until it is done, or fails for a reason other than an interruption.
    pub(super) async fn run<P: Program>(
        &self,
        name: &str,
        program: &P,
        retry: &Retry,
    ) -> Result<P::Done, Failure> {
        if !direct::is_meant_by(&self.at) || program.can_run_here() {
            // Without a node here, nothing is gained by another attempt.
            self.place.attach(name).await.map_err(attach::failure)?;
        }
        let nodes = self.nodes(retry);
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let here = usize::from(program.can_run_here());
        let mut places = Places::new(nodes.len() + here);
        let mut until = Instant::now() + retry.retry;
        let mut before = String::new();
        let mut pause = PAUSE_OF_SEVERAL.0;
        loop {
            let begin = Instant::now();
            program.is_at(places.current());
            let at = nodes.get(places.current()).copied();
            let attempt = match at {
                Some(at) => self.attempt(name, program, at, places.count() > 1).await,
                None => self.here(name, program, &nodes, &mut places).await,
            };
            if attempt.is_err()
                && let Some(place) = program.moved()
            {
                until = Instant::now() + retry.retry;
                places.set(place);
                continue;
            }
            let Failed {
                failure,
                does_respond,
            } = match attempt {
                Err(failed) if matches!(failed.failure.code(), 3 | 5) => failed,
                ended => return ended.map_err(|failed| failed.failure),
            };
            let was_there = begin.elapsed() > PAUSE;
            if was_there {
                until = Instant::now() + retry.retry;
                pause = PAUSE_OF_SEVERAL.0;
            }
            if Instant::now() >= until {
                return Err(failure);
            }
            places.failed(does_respond, Instant::now());
            let next = match nodes.get(places.current()).copied() {
                None => "serving subscribers here".to_owned(),
                next if next == at => "trying again".to_owned(),
                Some(next) => format!("trying {next}"),
            };
            let words = format!("{}; {next}", failure.message());
            if before != words {
                note(&words);
                before = words;
            }
            match places.count() {
                1 => sleep(PAUSE).await,
                _ if !was_there => {
                    sleep(pause).await;
                    pause = (2 * pause).min(PAUSE_OF_SEVERAL.1);
                }
                _ => {}
            }
        }
    }

    /// Runs a program without a processing node, until it is done or one of the nodes has taken its request and has failed.
    async fn here<P: Program>(
        &self,
        name: &str,
        program: &P,
        nodes: &[&str],
        places: &mut Places,
    ) -> Result<P::Done, Failed> {
        let client = self.place.attach(name).await;
        let client = client.map_err(|error| Failed::silent(attach::failure(error)))?;
        let mut elsewhere = pin!(self.elsewhere(name, program, nodes));
        let served = tokio::select! {
            served = program.here(client.node()) => served,
            (place, ended) = &mut elsewhere => {
                places.set(place);
                return ended;
            }
        };
        match served {
            Err(ProcessingError::Moved) => {
                note(&ProcessingError::Moved.to_string());
                let (place, ended) = elsewhere.await;
                places.set(place);
                ended
            }
            served => served.map_err(|error| Failed {
                failure: failure(error),
                does_respond: true,
            }),
        }
    }

    /// Asks one node after the other until one has taken the request of a program; returns its place, and the end there.
    async fn elsewhere<P: Program>(
        &self,
        name: &str,
        program: &P,
        nodes: &[&str],
    ) -> (usize, Result<P::Done, Failed>) {
        loop {
            let chosen = match program.chosen() {
                None => {
                    sleep(RETURN_PAUSE).await;
                    None
                }
                Some(choosing) => Some(choosing.await),
            };
            for (place, at) in nodes.iter().enumerate() {
                if chosen.is_some_and(|chosen| chosen != place) {
                    continue;
                }
                // One that does not take it is left alone until it is chosen anew.
                program.moved();
                program.is_at(place);
                let before = program.taken();
                let ended = self.attempt(name, program, at, true).await;
                if program.taken() != before {
                    return (place, ended);
                }
                program.is_at(nodes.len());
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
    /// True if there is another processing node.
    pub(super) fn has_fallback(&self) -> bool {
        !self.fallback.is_empty()
    }

    /// Time without a response after which another node is tried; `None`: there is none.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.patience_with(!self.fallback.is_empty())
    }

    /// The same, if there is another place or not.
    pub(super) fn patience_with(&self, has_others: bool) -> Option<Duration> {
        self.patience.or(has_others.then_some(PATIENCE_USUAL))
    }
}
