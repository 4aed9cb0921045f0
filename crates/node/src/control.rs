//! Control socket of a running node: requests of its user, answered in rows.
//!
//! One request, one answer, each a line of JSON: `{"show":"paths"}` is answered by
//! `{"show":"paths","version":"…","rows":[…]}`, or by `{"error":"…"}`. Rows are flat, with units in the
//! names of their fields; answers about promises have rows of several kinds, named by `kind`. Only the user who
//! runs the node, and root, are answered. An answer has at most 8,192 rows; `rows_left_out` counts those
//! beyond. Control characters are removed from texts of peers, such as the labels of their streams.
//!
//! | request | rows |
//! |---|---|
//! | `status` | `node`, `socket`, `budget` (of a place where sending costs something), `session`, `refused` (requests) and `dropped` (packets) by cause |
//! | `paths` | one per channel |
//! | `streams` | one per stream |
//! | `rights` | `right`, one per right that a node has here |
//! | `flows` | `flow`, one per open flow of the gateway |
//! | `flow_rules` | `rule`, one per rule for flows, in order, and one for flows that match none |
//! | `console_link` | `link`: a link that opens the page of the node's console once, within ten minutes |
//! | `reload` | `reloaded`: reads the configuration again and applies it; `change`, one per key with another value |
//! | `config` | `setting`, one per key of the configuration in force, with its `value` in TOML and where that is `from` |
//! | `ping` with `peer` and, if replies are waited for other than 2 s, `within_ms` | `ping`, one per path: `round_trip_ms`, null without a reply |
//! | `admit` with `spec` (a [`SpecText`](crate::spec::SpecText)) | for each session `answer`, and the `path`s of a grant |
//! | `explain` with `stream` | `promise`, `path`, `decision` |
//! | `promise_history` | `promise_event`, oldest first; with `label` of streams with that label, with `last_ms` of the last so many |
//! | `promise_events` with `from` (a number) | `promise_event` from that number on, and `position`: the number `next` to ask for, and how many were `missed` |
//! | `objectives` | for each session, one per objective, with what it did in the last minute |
//! | `provided` | for each session, one per `label`, `field`, `technology` or `attribute` that objectives can refer to |
//! | `cycle` with, if wanted, `adus` and `within_ms` | `cycle`: the next plan in which so many ADUs wait, with its `schedule` (`docs/hose.md`) |
//! | `objective_add` with `text` (HOSE) | for each session `added`, one per objective |
//! | `overlay` | `member`, `link`, `path`, `relay`, `circuit` |
//! | `overlay_paths` with `paths` (a [`PathsQuery`]) | `path`, with the address to send to |
//! | `objective_remove` with `objective` (its number) | `removed` |
//!
//! | `path_out` with `channel` and, if wanted, `for_ms` and `force` | `path_out`: takes a path out of use |
//! | `path_in` with `channel` | `path_in`: uses it again |
//! | `stream_set` with `stream` and `set` (a [`StreamChanges`]) | `changed`: with `is_changed`, and the reason and offers of a guarantee that was refused or waits |
//!
//! Requests that change something are logged with the user who asked.
//! All from `admit` on, except `promise_history`, `promise_events`, `overlay` and `overlay_paths`, also take `session`; without it, they apply to every session.

mod acts;
mod budgets;
mod cycle;
mod error;
mod flows;
mod objectives;
mod overlay;
mod ping;
mod promises;
mod refused;
mod request;
mod rights;
mod rows;
mod settings;
mod socket;
mod transcripts;

use std::{path::Path, sync::Arc, time::Duration};

use anabranch_base::{NodeId, text::printable};
use anabranch_net::Host;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

pub use self::{
    error::ControlError,
    request::{PathsQuery, Request, StreamChanges},
    settings::rows as setting_rows,
    socket::Control,
};
use crate::{
    channel_names::ChannelNames,
    daemon::{Core, FlowReports},
    overlay::Overlay,
    socket_file::UnixStream,
};

/// Most rows of an answer.
const ROWS_MAX: usize = 8_192;
/// Longest answer that is read: all rows, each with every field at its longest.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Characters of a name or label that are shown.
const NAME_CHARS: usize = 100;
/// Characters of an error about a request that are shown.
const ERROR_CHARS: usize = 400;

/// The answer to one line on the control socket of a process without a configuration and an overlay, as an
/// object; for a faulty line it has the field `error`.
pub async fn answer_line(host: &Host, line: &str) -> Value {
    let context = Context {
        host: host.clone(),
        overlay: None,
        node: None,
        flows: None,
        user: None,
    };
    answer(&context, line).await
}

/// Parts of the process that requests are about.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    host: Host,
    /// Of a process without a configuration.
    overlay: Option<Overlay>,
    /// Of a process that runs by a configuration.
    node: Option<Arc<Core>>,
    /// Flows of another process, if it carries any.
    flows: Option<Arc<dyn FlowReports>>,
    /// Number of the user who asks, where it is known.
    user: Option<u32>,
}

impl Context {
    /// The overlay that the process takes part in now.
    fn overlay(&self) -> Option<Overlay> {
        match &self.node {
            Some(node) => node.overlay(),
            None => self.overlay.clone(),
        }
    }

    /// The user who asks, for people.
    fn by(&self) -> String {
        match self.user {
            Some(user) => format!("user {user}"),
            None => "a local user".to_owned(),
        }
    }
}

async fn answer(context: &Context, line: &str) -> Value {
    let request: Request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => {
            let error = printable(&error.to_string(), ERROR_CHARS);
            return json!({ "error": format!("not a request: {error}") });
        }
    };
    let answered = answer_rows(context, &request).await;
    if request.is_act() {
        let request = printable(line.trim(), ERROR_CHARS);
        let by = context.by();
        match refusal(&answered) {
            None => tracing::info!(request, by, "changed by request"),
            Some(reason) => {
                let reason = printable(reason, ERROR_CHARS);
                tracing::info!(request, by, reason, "a change was refused");
            }
        }
    }
    let mut rows = match answered {
        Ok(rows) => rows,
        Err(error) => return json!({ "error": error }),
    };
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    name_channels(&context.host, &mut rows);
    json!({
        "show": request.name(),
        "version": env!("CARGO_PKG_VERSION"),
        "rows": rows,
        "rows_left_out": left_out,
    })
}

/// Puts interfaces in place of the numbers of channels into texts for people.
fn name_channels(host: &Host, rows: &mut [Value]) {
    let texts = rows.iter().filter_map(|row| row[reason_key(row)].as_str());
    let names = ChannelNames::for_texts(host, texts);
    for row in rows {
        let key = reason_key(row);
        if let Some(Value::String(text)) = row.get_mut(key) {
            *text = names.put(text);
        }
    }
}

/// Key of the text in which a row gives reasons, and may name channels of now. The record of promises has the names of its time, and the text
/// of an objective is its author's.
fn reason_key(row: &Value) -> &'static str {
    match row["kind"].as_str() {
        Some("decision") => "text",
        _ => "why",
    }
}

/// Reason for which a change was refused, of the request or by a row; `None`: it was made.
fn refusal(answered: &Result<Vec<Value>, String>) -> Option<&str> {
    match answered {
        Err(error) => Some(error),
        Ok(rows) => {
            let mut rows = rows.iter();
            let row = rows.find(|row| row["is_changed"] == false)?;
            Some(row["why"].as_str().unwrap_or_default())
        }
    }
}

async fn answer_rows(context: &Context, request: &Request) -> Result<Vec<Value>, String> {
    let host = &context.host;
    let names = |id: &NodeId| match &context.node {
        Some(node) => node.name(id),
        None => id.to_string(),
    };
    match request {
        Request::Status {} => {
            let mut rows = rows::status(host, &names);
            rows.extend(refused::rows(context).await);
            Ok(rows)
        }
        Request::Paths {} => Ok(rows::paths(host, &names)),
        Request::Streams {} => Ok(rows::streams(host, &names)),
        Request::Rights {} => rights::list(context.node.as_deref()),
        Request::Flows {} => flows::list(context),
        Request::FlowRules {} => flows::rules(context),
        Request::ConsoleLink {} => console_link(context.node.as_deref()),
        Request::Reload {} => rights::reload(context.node.as_deref()).await,
        Request::Config {} => settings::list(context.node.as_deref()).await,
        Request::Ping { peer, within_ms } => {
            ping::all(context.node.as_deref(), peer, *within_ms).await
        }
        Request::Admit { spec, session } => promises::admit(host, spec, session.as_deref()),
        Request::Explain { stream, session } => promises::explain(host, stream, session.as_deref()),
        Request::PromiseHistory { label, last_ms } => {
            promises::history(context.node.as_deref(), label.as_deref(), *last_ms).await
        }
        Request::PromiseEvents { from } => promises::events(context.node.as_deref(), *from),
        Request::Objectives { session } => objectives::list(host, session.as_deref()),
        Request::Provided { session } => objectives::provided(host, session.as_deref()),
        Request::Cycle {
            session,
            adus,
            within_ms,
        } => cycle::captured(host, session.as_deref(), *adus, *within_ms).await,
        Request::ObjectiveAdd { text, session } => objectives::add(host, text, session.as_deref()),
        Request::ObjectiveRemove { objective, session } => {
            objectives::remove(host, objective, session.as_deref())
        }
        Request::Record { session, bytes } => transcripts::begin(host, session.as_deref(), *bytes),
        Request::Transcript { session } => transcripts::take(host, session.as_deref()),
        Request::TranscriptSize { session } => transcripts::size(host, session.as_deref()),
        Request::PathOut {
            channel,
            session,
            for_ms,
            force,
        } => {
            let path = (channel.as_str(), session.as_deref());
            acts::path_out(host, path, (*for_ms, *force), &context.by())
        }
        Request::PathIn { channel, session } => acts::path_in(host, channel, session.as_deref()),
        Request::StreamSet {
            stream,
            session,
            set,
        } => acts::stream_set(host, (stream, session.as_deref()), set),
        Request::Overlay {} => overlay::list(context.overlay().as_ref()).await,
        Request::OverlayPaths { paths } => overlay::paths(context.overlay().as_ref(), paths).await,
    }
}

fn console_link(node: Option<&Core>) -> Result<Vec<Value>, String> {
    match node.and_then(Core::console_link) {
        Some(link) => Ok(vec![json!({ "kind": "link", "link": link? })]),
        None => Err(
            "this node has no console; its key is `console`, such as \"127.0.0.1:8470\"".to_owned(),
        ),
    }
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// True if a process listens at a control socket.
pub async fn is_open(path: &Path) -> bool {
    UnixStream::connect(path).await.is_ok()
}

/// Sends a request to a running node; returns the whole answer.
///
/// # Errors
/// No node answers, or it refuses.
pub async fn ask(path: &Path, request: &Request) -> Result<Value, ControlError> {
    let failed = |source| ControlError::Connect {
        path: path.to_owned(),
        source,
    };
    let mut stream = UnixStream::connect(path).await.map_err(failed)?;
    let mut text = serde_json::to_string(request).expect("a request is a text");
    text.push('\n');
    stream.write_all(text.as_bytes()).await.map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX))
        .read_line(&mut line)
        .await
        .map_err(failed)?;
    let answer: Value = serde_json::from_str(&line).map_err(|_| ControlError::Answer)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(ControlError::Refused(error.to_owned())),
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests;
