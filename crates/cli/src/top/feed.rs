//! State of the node by its control socket.

use std::{path::PathBuf, time::Duration};

use anabranch::control::{self as node_control, ControlError, Request};
use serde_json::Value;

/// Time within which the node answers.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Age of the oldest event of promises that is asked for.
const EVENTS_FROM_MS: u64 = 24 * 3600 * 1000;

/// Answers to one round of requests.
#[derive(Debug)]
pub(super) struct News {
    /// State of the node; the reason if it does not answer.
    pub(super) state: Result<State, String>,
    pub(super) events: Events,
}

/// Rows of the node, its paths and its streams.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) version: String,
    pub(super) status: Vec<Value>,
    pub(super) paths: Vec<Value>,
    pub(super) streams: Vec<Value>,
    pub(super) streams_left_out: u64,
    /// True if this is not the process that answered before.
    pub(super) is_another: bool,
}

/// Events of promises since the last round.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// In the order in which they happened.
    pub(super) rows: Vec<Value>,
    /// Events that were not kept for long enough to be asked for.
    pub(super) missed: u64,
    /// Reason for which earlier events are not known.
    pub(super) without_record: Option<String>,
}

/// Asks one node, again and again.
#[derive(Debug)]
pub(super) struct Feed {
    place: PathBuf,
    /// Number of the next event; `None`: nothing is known of this process.
    next: Option<u64>,
    uptime_s: f64,
}

impl Feed {
    pub(super) fn new(place: PathBuf) -> Self {
        Self {
            place,
            next: None,
            uptime_s: 0.0,
        }
    }

    /// One round. Never fails: a node that does not answer is news, too.
    pub(super) async fn ask(&mut self) -> News {
        let asking = tokio::time::timeout(ANSWER_TIME_MAX, self.round());
        let round = asking.await.unwrap_or_else(|_| {
            Err(format!(
                "the node did not answer within {} s",
                ANSWER_TIME_MAX.as_secs()
            ))
        });
        match round {
            Ok((state, events)) => News {
                state: Ok(state),
                events,
            },
            Err(fault) => {
                self.next = None;
                News {
                    state: Err(fault),
                    events: Events::default(),
                }
            }
        }
    }

    async fn round(&mut self) -> Result<(State, Events), String> {
        let words = |error: ControlError| error.to_string();
        let status = self.rows(&Request::Status {}).await.map_err(words)?;
        let uptime_s = uptime_s(&status.rows);
        let is_another = self.next.is_none() || uptime_s < self.uptime_s;
        self.uptime_s = uptime_s;
        if is_another {
            self.next = None;
        }
        let paths = self.rows(&Request::Paths {}).await.map_err(words)?;
        let streams = self.rows(&Request::Streams {}).await.map_err(words)?;
        let events = match self.events().await {
            Ok(events) => events,
            // A process other than `anabranch node` follows no promises.
            Err(ControlError::Refused(reason)) => Events {
                without_record: Some(reason),
                ..Events::default()
            },
            Err(error) => return Err(error.to_string()),
        };
        let nulls = streams.rows.iter().filter(|row| row.is_null()).count() as u64;
        let state = State {
            version: status.version,
            status: status.rows,
            paths: paths.rows,
            streams_left_out: streams.left_out + nulls,
            streams: streams
                .rows
                .into_iter()
                .filter(|row| !row.is_null())
                .collect(),
            is_another,
        };
        Ok((state, events))
    }

    async fn events(&mut self) -> Result<Events, ControlError> {
        let was_known = self.next.is_some();
        let request = Request::PromiseEvents { from: self.next };
        let mut events = Events::default();
        for row in self.rows(&request).await?.rows {
            if row["kind"] == "position" {
                self.next = row["next"].as_u64();
                events.missed = row["missed"].as_u64().unwrap_or_default();
            } else {
                events.rows.push(row);
            }
        }
        if !was_known {
            let history = Request::PromiseHistory {
                label: None,
                last_ms: Some(EVENTS_FROM_MS),
            };
            // After the position: what happens in between comes twice, and nothing is missing.
            match self.rows(&history).await {
                Ok(answer) => events.rows = answer.rows,
                Err(ControlError::Refused(reason)) => events.without_record = Some(reason),
                Err(error) => return Err(error),
            }
        }
        Ok(events)
    }

    async fn rows(&self, request: &Request) -> Result<Rows, ControlError> {
        let mut answer = node_control::ask(&self.place, request).await?;
        let rows = match answer["rows"].take() {
            Value::Array(rows) => rows,
            _ => return Err(ControlError::Answer),
        };
        Ok(Rows {
            rows,
            version: answer["version"].as_str().unwrap_or_default().to_owned(),
            left_out: answer["rows_left_out"].as_u64().unwrap_or_default(),
        })
    }
}

struct Rows {
    rows: Vec<Value>,
    version: String,
    left_out: u64,
}

fn uptime_s(status: &[Value]) -> f64 {
    let mut nodes = status.iter().filter(|row| row["kind"] == "node");
    nodes
        .next()
        .and_then(|row| row["uptime_s"].as_f64())
        .unwrap_or_default()
}
