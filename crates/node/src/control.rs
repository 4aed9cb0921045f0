//! The local socket over which a running node tells what it does.
//!
//! One question, one answer, each a line of JSON: `{"show":"paths"}` is answered by
//! `{"show":"paths","version":"…","rows":[…]}`, or by `{"error":"…"}`. Rows are flat, with units in the
//! names of their fields; answers about promises have rows of several kinds, as `kind` says. Only the user who
//! runs the node can open the socket.
//!
//! | question | rows |
//! |---|---|
//! | `status` | `node`, `socket`, `budget` (of a place where sending costs something), `session` |
//! | `paths` | one a channel |
//! | `streams` | one a stream |
//! | `admit` with `spec` (a [`SpecText`]) | of each session `answer`, and `path`s of a grant |
//! | `explain` with `stream` | `promise`, `path`, `decision` |
//! | `objectives` | of each session, one an objective |
//! | `objective_add` with `text` (HOSE) | of each session `added`, one an objective |
//! | `overlay` | `member`, `link`, `way`, `relay`, `circuit` |
//! | `overlay_ways` with `ways` (a [`WaysText`]) | `way`, with the address to send to |
//! | `objective_remove` with `objective` (its number) | `removed` |
//!
//! All but the first three and `overlay` take `session`, too; without it, they are about every session.

mod budgets;
mod objectives;
mod overlay;
mod promises;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_base::Rate;
use anabranch_net::Host;
use anabranch_session::PathReport;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::JoinSet,
};

use crate::{overlay::Overlay, spec::SpecText};

/// Longest question: a text of objectives of 1 MiB, as a string of JSON.
const QUESTION_BYTES_MAX: u64 = 3 << 20;
/// Askers at a time; one more is kept waiting.
const ASKERS_MAX: usize = 32;
/// An asker that says nothing for this long is let go.
const PATIENCE: Duration = Duration::from_secs(30);

/// What can be asked for.
pub const SHOWS: [&str; 10] = [
    "status",
    "paths",
    "streams",
    "admit",
    "explain",
    "objectives",
    "objective_add",
    "objective_remove",
    "overlay",
    "overlay_ways",
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
    /// For `overlay_ways`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<WaysText>,
    /// For all that may be about one session: the session, such as `session-0` or `0`; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Who wants to use the overlay, and what for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaysText {
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
    pub used: Vec<crate::overlay::WayUse>,
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

/// An open control socket; the file is removed when this is dropped.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may have been removed by someone else.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Control {
    /// Opens the socket. A file left behind by a node that crashed is replaced.
    ///
    /// # Errors
    /// Another node listens there, or the file cannot be made.
    pub async fn open(path: &Path) -> Result<Self, ControlError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(ControlError::Running {
                path: path.to_owned(),
            });
        }
        let failed = |source| ControlError::Listen {
            path: path.to_owned(),
            source,
        };
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type()) => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(path, owner_only).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answers until dropped.
    pub async fn serve(&self, host: &Host, overlay: Option<&Overlay>) {
        let mut askers = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if askers.len() < ASKERS_MAX => match accepted {
                    Ok((stream, _)) => {
                        askers.spawn(converse(stream, host.clone(), overlay.cloned()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "control socket");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                },
                Some(_) = askers.join_next() => {}
            }
        }
    }
}

async fn converse(stream: UnixStream, host: Host, overlay: Option<Overlay>) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let mut limited = (&mut reader).take(QUESTION_BYTES_MAX);
        let read = tokio::time::timeout(PATIENCE, limited.read_line(&mut line));
        match read.await {
            Ok(Ok(count)) if count > 0 && line.ends_with('\n') => {}
            _ => return Ok(()),
        }
        let mut text = answer(&host, overlay.as_ref(), &line).await.to_string();
        text.push('\n');
        writer.write_all(text.as_bytes()).await?;
    }
}

async fn answer(host: &Host, overlay: Option<&Overlay>, line: &str) -> Value {
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
        (other, _, _) if question.ways.is_some() && other != "overlay_ways" => {
            Err(format!("'{other}' does not go with 'ways'"))
        }
        ("status", None, None) if session.is_none() => Ok(status(host)),
        ("paths", None, None) if session.is_none() => Ok(paths(host)),
        ("streams", None, None) if session.is_none() => Ok(streams(host)),
        ("overlay" | "overlay_ways", None, None) if session.is_none() => {
            overlay::answer(overlay, &question).await
        }
        ("admit", Some(spec), None) => promises::admit(host, spec, session),
        ("explain", None, Some(stream)) => promises::explain(host, stream, session),
        ("admit", _, _) => Err("'admit' goes with 'spec' and, if wanted, 'session'".to_owned()),
        ("explain", _, _) => {
            Err("'explain' goes with 'stream' and, if wanted, 'session'".to_owned())
        }
        ("status" | "paths" | "streams" | "overlay" | "overlay_ways", _, _) => {
            Err(format!("'{}' goes with nothing else", question.show))
        }
        (other, _, _) => {
            let known = SHOWS.join(", ");
            Err(format!("there is no '{other}'; ask for one of {known}"))
        }
    };
    let rows = match rows {
        Ok(rows) => rows,
        Err(error) => return json!({ "error": error }),
    };
    json!({ "show": question.show, "version": env!("CARGO_PKG_VERSION"), "rows": rows })
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
            let mut row = json!({
                "session": session.stats.session.to_string(),
                "stream": stream.stream.to_string(),
                "label": stream.spec.label,
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
    BufReader::new(stream)
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
mod tests {
    use anabranch_net::HostConfig;
    use anabranch_session::{AllowList, SecretKey};

    use super::*;

    fn host() -> Host {
        let key = SecretKey::from_seed([4; 32]);
        let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        Host::start(HostConfig::new(key, AllowList::default()).bind([loopback])).unwrap()
    }

    #[tokio::test]
    async fn questions_are_answered_and_rubbish_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let host = host();
        let control = Control::open(&path).await.unwrap();
        let asking = async {
            let status = ask(&path, &Question::show("status")).await.unwrap();
            assert_eq!(status["rows"][0]["node"], host.node_id().to_string());
            assert_eq!(
                ask(&path, &Question::show("paths")).await.unwrap()["rows"],
                json!([])
            );
            let error = ask(&path, &Question::show("weather"))
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains("streams"), "{error}");
            assert!(matches!(
                Control::open(&path).await,
                Err(ControlError::Running { .. })
            ));
        };
        tokio::select! {
            () = asking => {}
            () = control.serve(&host, None) => {}
        }
        drop(control);
        assert!(!path.exists());
        let error = ask(&path, &Question::show("status"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("anabranch node"), "{error}");
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_but_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        Control::open(&path).await.unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(
            Control::open(&path).await,
            Err(ControlError::Listen { .. })
        ));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }

    #[tokio::test]
    async fn what_is_not_json_is_told_so() {
        assert!(answer(&host(), None, "hello\n").await["error"].is_string());
        assert!(answer(&host(), None, r#"{"show":"paths","more":1}"#).await["error"].is_string());
        for (question, word) in [
            (r#"{"show":"paths","stream":"4"}"#, "nothing else"),
            (r#"{"show":"admit"}"#, "spec"),
            (r#"{"show":"explain"}"#, "stream"),
            (r#"{"show":"overlay"}"#, "overlay.member"),
            (
                r#"{"show":"paths","ways":{"to":"a","user":1,"bytes":1}}"#,
                "'ways'",
            ),
        ] {
            let answer = answer(&host(), None, question).await;
            assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
        }
    }
}
