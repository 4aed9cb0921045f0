//! The local socket over which a running node tells what it does.
//!
//! One question, one answer, each a line of JSON: `{"show":"paths"}` is answered by
//! `{"show":"paths","version":"…","rows":[…]}`, or by `{"error":"…"}`. Rows are flat, with units in the
//! names of their fields; answers about promises have rows of several kinds, as `kind` says. Only the user who
//! runs the node, and root, are answered. An answer has 8,192 rows at most; `rows_left_out` says how many more there
//! would be. Texts of peers, such as the labels of their streams, hold no control characters.
//!
//! | question | rows |
//! |---|---|
//! | `status` | `node`, `socket`, `budget` (of a place where sending costs something), `session` |
//! | `paths` | one a channel |
//! | `streams` | one a stream |
//! | `rights` | `right`, one a right that a node has here |
//! | `reload` | `reloaded`: reads the configuration again and puts its rights and peers into force |
//! | `admit` with `spec` (a [`SpecText`]) | of each session `answer`, and `path`s of a grant |
//! | `explain` with `stream` | `promise`, `path`, `decision` |
//! | `objectives` | of each session, one an objective |
//! | `objective_add` with `text` (HOSE) | of each session `added`, one an objective |
//! | `overlay` | `member`, `link`, `path`, `relay`, `circuit` |
//! | `overlay_paths` with `paths` (a [`PathsQuery`]) | `path`, with the address to send to |
//! | `objective_remove` with `objective` (its number) | `removed` |
//!
//! All from `admit` on but `overlay` and `overlay_paths` take `session`, too; without it, they are about every session.

mod budgets;
mod objectives;
mod overlay;
mod promises;
mod rights;
mod socket;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch_base::{Rate, text::printable};
use anabranch_net::Host;
use anabranch_session::PathReport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

pub use self::socket::Control;
use crate::{daemon::Core, overlay::Overlay, spec::SpecText};

/// Most rows of an answer; how many more there would be is said in it.
const ROWS_MAX: usize = 8_192;
/// Longest answer that is read: all rows, each with every field at its longest.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Characters of a name or label that are shown.
const NAME_CHARS: usize = 100;

/// What can be asked for.
pub const SHOWS: [&str; 12] = [
    "status",
    "paths",
    "streams",
    "rights",
    "reload",
    "admit",
    "explain",
    "objectives",
    "objective_add",
    "objective_remove",
    "overlay",
    "overlay_paths",
];

/// What a running node is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// One of [`SHOWS`].
    pub show: String,
    /// For `admit`: the stream that nobody opens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<SpecText>,
    /// For `explain`: the stream, such as `stream-4` or `4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// For `objective_add`: objectives in HOSE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// For `objective_remove`: its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    /// For `overlay_paths`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsQuery>,
    /// For all that may be about one session: the session, such as `session-0` or `0`; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Who wants to use the overlay, and what for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathsQuery {
    /// The member to be reached.
    pub to: String,
    /// A number that the asker chose at random and keeps.
    pub user: u64,
    /// About so much is to be sent.
    pub bytes: u64,
    /// Addresses answered before that turned out to be of no use.
    #[serde(default)]
    pub failed: Vec<std::net::SocketAddr>,
    /// Addresses answered before from which nothing has come back yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<std::net::SocketAddr>,
    /// What its traffic showed of them since it asked last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<crate::overlay::PathUse>,
}

impl Question {
    /// What the node shows under this name, without more.
    pub fn show(show: &str) -> Self {
        Self {
            show: show.to_owned(),
            ..Self::default()
        }
    }
}

/// The control socket cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// It cannot be opened for listening.
    #[error("cannot listen on control socket {}: {source}; name another one with --control", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another user could put a socket there, or listen in its place.
    #[error("control socket {}: others can write to its folder; name one with --control in a folder that only this user can write to, or `chmod go-w` the folder", path.display())]
    Exposed {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket has the name.
    #[error("control socket {}: there is a file of this name that is no socket; remove it, or name another socket with --control", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// Another node listens there.
    #[error("a node is running on control socket {} already; stop it, or name another socket with --control", path.display())]
    Running {
        /// The socket.
        path: PathBuf,
    },
    /// No node answers there.
    #[error("no node answers on control socket {}: {source}; start one with `anabranch node`, or name its socket with --control", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The node refused the question.
    #[error("the node refused: {0}")]
    Refused(String),
    /// The answer makes no sense.
    #[error("the node's answer cannot be understood; is it of another version?")]
    Answer,
}

/// The answer to one line that came over the control socket of a process without a configuration and an overlay, as an
/// object; what is wrong with the line is said in it.
pub async fn answer_line(host: &Host, line: &str) -> Value {
    let context = Context {
        host: host.clone(),
        overlay: None,
        node: None,
    };
    answer(&context, line).await
}

/// What a question is about.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    host: Host,
    overlay: Option<Overlay>,
    /// Of a process that runs by a configuration.
    node: Option<Arc<Core>>,
}

async fn answer(context: &Context, line: &str) -> Value {
    let (host, overlay) = (&context.host, context.overlay.as_ref());
    let question: Question = match serde_json::from_str(line) {
        Ok(question) => question,
        Err(error) => return json!({ "error": format!("not a question: {error}") }),
    };
    let session = question.session.as_deref();
    let rows = match (question.show.as_str(), &question.spec, &question.stream) {
        ("objectives" | "objective_add" | "objective_remove", None, None) => {
            match (question.show.as_str(), &question.text, &question.objective) {
                ("objectives", None, None) => objectives::list(host, session),
                ("objective_add", Some(text), None) => objectives::add(host, text, session),
                ("objective_remove", None, Some(id)) => objectives::remove(host, id, session),
                ("objective_add", _, _) => Err("'objective_add' goes with 'text'".to_owned()),
                ("objective_remove", _, _) => {
                    Err("'objective_remove' goes with 'objective'".to_owned())
                }
                _ => Err("'objectives' goes with nothing but 'session'".to_owned()),
            }
        }
        (other, _, _) if question.text.is_some() || question.objective.is_some() => {
            Err(format!("'{other}' does not go with 'text' or 'objective'"))
        }
        (other, _, _) if question.paths.is_some() && other != "overlay_paths" => {
            Err(format!("'{other}' does not go with 'ways'"))
        }
        ("rights" | "reload", None, None) if session.is_none() => {
            rights::answer(context.node.as_deref(), &question.show).await
        }
        ("status", None, None) if session.is_none() => Ok(status(host)),
        ("paths", None, None) if session.is_none() => Ok(paths(host)),
        ("streams", None, None) if session.is_none() => Ok(streams(host)),
        ("overlay" | "overlay_paths", None, None) if session.is_none() => {
            overlay::answer(overlay, &question).await
        }
        ("admit", Some(spec), None) => promises::admit(host, spec, session),
        ("explain", None, Some(stream)) => promises::explain(host, stream, session),
        ("admit", _, _) => Err("'admit' goes with 'spec' and, if wanted, 'session'".to_owned()),
        ("explain", _, _) => {
            Err("'explain' goes with 'stream' and, if wanted, 'session'".to_owned())
        }
        (
            "status" | "paths" | "streams" | "overlay" | "overlay_paths" | "rights" | "reload",
            _,
            _,
        ) => Err(format!("'{}' goes with nothing else", question.show)),
        (other, _, _) => {
            let (known, other) = (SHOWS.join(", "), printable(other, NAME_CHARS));
            Err(format!("there is no '{other}'; ask for one of {known}"))
        }
    };
    let mut rows = match rows {
        Ok(rows) => rows,
        Err(error) => return json!({ "error": error }),
    };
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    rows.truncate(ROWS_MAX);
    json!({
        "show": question.show,
        "version": env!("CARGO_PKG_VERSION"),
        "rows": rows,
        "rows_left_out": left_out,
    })
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn status(host: &Host) -> Vec<Value> {
    let own = host.node_id().to_string();
    let mut rows = vec![json!({
        "kind": "node",
        "node": own,
        "uptime_s": host.clock().now().as_secs_f64().round(),
        "addresses": host.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        "sessions": host.sessions().len(),
    })];
    for socket in host.sockets() {
        rows.push(json!({
            "kind": "socket",
            "socket": socket.id.to_string(),
            "interface": socket.interface,
            "local": socket.local.to_string(),
            "is_up": socket.is_up,
            "batches_sent": socket.stats.batches_sent,
            "batches_overflowed": socket.stats.batches_overflowed,
            "packets_refused": socket.stats.packets_refused,
        }));
    }
    rows.extend(host.budgets().iter().map(budgets::row));
    for session in host.sessions() {
        rows.push(json!({
            "kind": "session",
            "session": session.stats.session.to_string(),
            "peer": session.stats.peer.to_string(),
            "is_incoming": session.stats.incoming,
            "policy": session.stats.policy.to_string(),
            "channels_active": session.stats.channels_active,
            "streams": session.stats.streams,
            "send_held_bytes": session.stats.send_held_bytes,
            "recv_held_bytes": session.stats.recv_held_bytes,
        }));
    }
    rows
}

fn paths(host: &Host) -> Vec<Value> {
    let mut rows = Vec::new();
    for session in host.sessions() {
        let carried = |channel: &anabranch_session::ChannelReport| {
            channel.payload_sent_bytes + channel.payload_received_bytes
        };
        let total: u64 = session.channels.iter().map(carried).sum();
        for channel in &session.channels {
            let stats = &channel.stats;
            let mut row = json!({
                "session": session.stats.session.to_string(),
                "peer": session.stats.peer.to_string(),
                "channel": channel.channel.to_string(),
                "socket": channel.socket.to_string(),
                "remote": channel.remote.to_string(),
                "state": format!("{:?}", channel.state).to_lowercase(),
                "share_fraction": carried(channel) as f64 / total.max(1) as f64,
                "sent_bytes": channel.payload_sent_bytes,
                "received_bytes": channel.payload_received_bytes,
                "rtt_ms": ms(stats.rtt_smoothed),
                "rtt_min_ms": ms(stats.rtt_min),
                "rtt_variation_ms": ms(stats.rtt_variation),
                "rate_delivered_bps": stats.rate_delivered.as_bps(),
                "rate_paced_bps": stats.rate_paced.as_bps(),
                "window_bytes": stats.window_bytes,
                "in_flight_bytes": stats.in_flight_bytes,
                "mtu_bytes": stats.mtu_bytes,
                "loss_fraction": stats.loss_fraction(),
                "delay_variation_mean_ms": channel.delay_variation.map(|(_, mean, _)| ms(mean)),
            });
            if let Some(row) = row.as_object_mut() {
                add_measured(row, channel.path.as_ref());
                let taken = promises::taken_of(&session, channel.channel);
                row.insert("streams_promised_bps".into(), json!(taken.as_bps()));
            }
            rows.push(row);
        }
    }
    rows
}

/// What the path was measured to hold; null where too little is known.
fn add_measured(row: &mut Map<String, Value>, path: Option<&PathReport>) {
    let bps = |rate: Option<Rate>| rate.map(|rate| rate.as_bps());
    row.insert("window_ms".into(), json!(path.map(|path| ms(path.window))));
    row.insert("windows".into(), json!(path.map_or(0, |path| path.samples)));
    let censored = path.map(|path| path.censored_fraction);
    row.insert("censored_fraction".into(), json!(censored));
    for (name, rate) in [
        ("mean", path.and_then(|path| path.bandwidth_mean)),
        ("p5", path.and_then(|path| path.bandwidth_p5)),
        ("p10", path.and_then(|path| path.bandwidth_p10)),
    ] {
        row.insert(format!("bandwidth_{name}_bps"), json!(bps(rate)));
    }
    for promise in path.iter().flat_map(|path| &path.promises) {
        let percent = (promise.probability * 100.0).round();
        let rate = json!(bps(promise.rate));
        row.insert(format!("promised_{percent}_bps"), rate);
        let kept = json!(promise.kept_fraction);
        row.insert(format!("kept_{percent}_fraction"), kept);
    }
    let rtt = path.and_then(|path| path.rtt_next_p95);
    row.insert("rtt_next_p95_ms".into(), json!(rtt.map(ms)));
    let lost = path.and_then(|path| path.loss_fraction);
    row.insert("loss_recent_fraction".into(), json!(lost));
    let burst = path.and_then(|path| path.burst_mean_packets);
    row.insert("loss_burst_packets".into(), json!(burst));
    let others = path.map_or(&[][..], |path| &path.shares_with);
    let names: Vec<String> = others.iter().map(ToString::to_string).collect();
    row.insert("shares_bottleneck_with".into(), json!(names.join(" ")));
}

fn streams(host: &Host) -> Vec<Value> {
    let mut rows = Vec::new();
    for session in host.sessions() {
        for stream in &session.streams {
            if rows.len() >= ROWS_MAX {
                // One object for each of many streams would take far more memory than the streams.
                rows.push(Value::Null);
                continue;
            }
            let mut row = json!({
                "session": session.stats.session.to_string(),
                "stream": stream.stream.to_string(),
                "label": printable(&stream.spec.label, NAME_CHARS),
                "is_reliable": stream.spec.reliable,
                "lifetime_ms": stream.spec.lifetime.map(ms),
                "priority": stream.spec.priority.0,
                "weight": stream.spec.weight,
                "cap_bps": stream.spec.cap.map(Rate::as_bps),
                "sent_adus": stream.sent_adus,
                "sent_bytes": stream.sent_bytes,
                "acked_adus": stream.acked_adus,
                "lost_adus": stream.lost_adus,
                "expired_adus": stream.expired_adus,
                "shed_adus": stream.shed_adus,
                "repaired_bytes": stream.repaired_bytes,
                "copied_bytes": stream.copied_bytes,
                "backlog_bytes": stream.backlog_bytes,
                "received_adus": stream.received_adus,
                "received_bytes": stream.received_bytes,
                "duplicate_bytes": stream.duplicate_bytes,
            });
            let mut promises = session.promises.iter();
            let promise = promises.find(|found| found.stream == stream.stream);
            if let Some(row) = row.as_object_mut() {
                promises::add_to_stream(row, promise);
            }
            rows.push(row);
        }
    }
    rows
}

/// Asks a running node; the whole answer.
///
/// # Errors
/// No node answers, or it refuses.
pub async fn ask(path: &Path, question: &Question) -> Result<Value, ControlError> {
    let failed = |source| ControlError::Connect {
        path: path.to_owned(),
        source,
    };
    let mut stream = UnixStream::connect(path).await.map_err(failed)?;
    let mut text = serde_json::to_string(question).expect("a question is a text");
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
