//! Metrics: the rows of the control socket, or the state of a program with stored video, as they are at the time of the scrape.
//!
//! Labels are names of peers, interfaces, and kinds of events: as many as the configuration has. There is none by stream or
//! by channel, which come and go without end. Counters are those of sockets, and of the node's record of promises.

mod drops;
mod export;
mod rows;
mod video;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

use self::{
    drops::Drops,
    rows::{Answer, Event, Path, Rule, Status, Stream},
};
use crate::{
    control::{AskError, Control},
    source::Asked,
};

/// Reason for which there are no metrics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScrapeError {
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the node refuses: {0}")]
    Refused(String),
    #[error("the answer of the node is not understood: {0}")]
    Answer(#[from] serde_json::Error),
}

/// State of a node at one time.
#[derive(Debug, Default)]
struct Sample {
    version: String,
    status: Vec<Status>,
    paths: Vec<Path>,
    streams: Vec<Stream>,
    /// By kind.
    promise_events: BTreeMap<String, u64>,
    promise_events_missed: u64,
    /// Messages dropped, by peer and cause.
    dropped: Vec<(String, &'static str, u64)>,
    rules: Vec<Rule>,
}

/// Events of promises counted so far.
#[derive(Debug, Default)]
struct Counted {
    next: Option<u64>,
    events: BTreeMap<String, u64>,
    missed: u64,
}

/// Form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

impl Form {
    /// The form for a client that accepts these types: OpenMetrics if it names it.
    pub(crate) fn accepted(accept: &str) -> Self {
        match accept.contains("application/openmetrics-text") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// Its content type.
    pub(crate) const fn mime(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Metrics of a node.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counted: Mutex<Counted>,
    drops: Mutex<Drops>,
}

impl Metrics {
    /// The metrics of now, as text.
    ///
    /// # Errors
    /// The node does not answer.
    pub(crate) async fn scrape(&self, source: &Asked, form: Form) -> Result<String, ScrapeError> {
        match source {
            Asked::Node(control) => self.of_node(control, form).await,
            Asked::Video(video) => {
                let state = serde_json::from_str(&video.state())?;
                Ok(video::text(&state, form))
            }
        }
    }

    async fn of_node(&self, control: &Control, form: Form) -> Result<String, ScrapeError> {
        let status: Answer<Status> = ask(control, r#"{"show":"status"}"#).await?;
        let paths: Answer<Path> = ask(control, r#"{"show":"paths"}"#).await?;
        let streams: Answer<Stream> = ask(control, r#"{"show":"streams"}"#).await?;
        let (promise_events, promise_events_missed) = self.count(control).await?;
        // A process without a gateway has no rules.
        let rules = match ask::<Rule>(control, r#"{"show":"flow_rules"}"#).await {
            Ok(answer) => answer.rows,
            Err(ScrapeError::Refused(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let rows: Vec<Status> = status.rows.into_iter().flatten().collect();
        let dropped = {
            let mut drops = self.drops.lock().await;
            drops.count(&rows);
            drops.totals()
        };
        let sample = Sample {
            version: status.version,
            status: rows,
            paths: paths.rows.into_iter().flatten().collect(),
            streams: streams.rows.into_iter().flatten().collect(),
            promise_events,
            promise_events_missed,
            dropped,
            rules: rules.into_iter().flatten().collect(),
        };
        Ok(export::text(&sample, form))
    }

    /// Counts the events since the last time, the first of all since the console runs.
    async fn count(&self, control: &Control) -> Result<(BTreeMap<String, u64>, u64), ScrapeError> {
        let mut counted = self.counted.lock().await;
        let request = match counted.next {
            Some(next) => format!("{{\"show\":\"promise_events\",\"from\":{next}}}"),
            None => "{\"show\":\"promise_events\"}".to_owned(),
        };
        // A node without a record has none.
        let answer = match ask::<Event>(control, &request).await {
            Ok(answer) => answer,
            Err(ScrapeError::Refused(_)) => return Ok((BTreeMap::new(), 0)),
            Err(error) => return Err(error),
        };
        let was_known = counted.next.is_some();
        for row in answer.rows.into_iter().flatten() {
            match row {
                Event::Position { next, missed } => {
                    counted.next = Some(next);
                    counted.missed += missed * u64::from(was_known);
                }
                Event::Happened { event } => *counted.events.entry(event).or_default() += 1,
                Event::Other => {}
            }
        }
        Ok((counted.events.clone(), counted.missed))
    }
}

async fn ask<T: DeserializeOwned>(
    control: &Control,
    request: &str,
) -> Result<Answer<T>, ScrapeError> {
    let answer: Answer<T> = serde_json::from_str(&control.ask(request).await?)?;
    match answer.error {
        Some(error) => Err(ScrapeError::Refused(error)),
        None => Ok(answer),
    }
}
