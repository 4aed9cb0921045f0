//! A node that answers the console what a test wants: odd texts, very many streams.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    process::Stdio,
    sync::{Arc, Mutex},
    time::Instant,
};

use serde_json::{Value, json};

use crate::harness::{Killed, command, private_folder};

type Rows = Arc<Mutex<BTreeMap<&'static str, Value>>>;

pub(crate) struct Pretender {
    rows: Rows,
    /// A link to its console.
    pub(crate) link: String,
    _console: Killed,
    _folder: tempfile::TempDir,
}

impl Pretender {
    /// Starts it with these rows by `show`; it refuses to show anything else.
    pub(crate) fn start(rows: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let folder = private_folder();
        let listener = UnixListener::bind(folder.path().join("control")).unwrap();
        let rows: Rows = Arc::new(Mutex::new(rows.into_iter().collect()));
        let (shown, began) = (rows.clone(), Instant::now());
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = answer(stream.unwrap(), &shown, began);
            }
        });
        let mut console = command(folder.path())
            .args(["console", "--listen", "127.0.0.1:0", "--control", "control"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(console.stdout.take().unwrap()).lines();
        let mut words = lines.by_ref().map(|line| line.unwrap().trim().to_owned());
        let link = words.find(|line| line.starts_with("http://"));
        // What it prints afterwards is read by nobody, and must not stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            rows,
            link: link.expect("a link"),
            _console: Killed(console),
            _folder: folder,
        }
    }

    pub(crate) fn set(&self, show: &'static str, rows: Value) {
        self.rows.lock().unwrap().insert(show, rows);
    }
}

fn answer(mut stream: UnixStream, rows: &Rows, began: Instant) -> std::io::Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    let request: Value = serde_json::from_str(&line).unwrap_or_default();
    let show = request["show"].as_str().unwrap_or_default();
    let mut found = rows.lock().unwrap().get(show).cloned();
    if let Some(node) = found.as_mut().and_then(|rows| rows.get_mut(0))
        && node["kind"] == "node"
    {
        node["uptime_ms"] = json!(began.elapsed().as_millis() as u64);
    }
    let answer = match found {
        Some(rows) => json!({ "show": show, "version": "0.1.0", "rows": rows, "rows_left_out": 0 }),
        None => json!({ "error": format!("no {show} here") }),
    };
    writeln!(stream, "{answer}")
}

/// A path, as a node shows it.
pub(crate) fn path(channel: usize, interface: &str) -> Value {
    json!({
        "session": "session-0", "peer": "p", "peer_name": interface, "channel": format!("channel-{channel}"), "interface": interface,
        "remote": "192.0.2.1:9", "local": "192.0.2.2:9", "state": "active", "is_out": false, "out_for_ms": null, "silent_s": null,
        "share_fraction": 0.5, "rtt_ms": 20.0, "rtt_min_ms": 15.0, "rate_delivered_bps": 4_000_000, "streams_promised_bps": 0,
        "bandwidth_p10_bps": 3_000_000, "bandwidth_p50_bps": 4_000_000, "bandwidth_p90_bps": 5_000_000, "in_flight_bytes": 5_000,
        "loss_fraction": 0.0, "loss_recent_fraction": 0.0, "shares_bottleneck_with": interface,
    })
}

/// A stream, as a node shows it.
pub(crate) fn stream(number: usize, label: &str) -> Value {
    json!({
        "session": "session-0", "peer_name": "studio", "stream": format!("stream-{number}"), "label": label, "lifetime_ms": null,
        "priority": 128, "weight": 1, "cap_bps": null, "sent_bytes": 10_000 * number, "received_bytes": 0, "backlog_bytes": 0, "expired_adus": 0,
        "lost_adus": 0, "repaired_bytes": 0, "acked_by_channel_bytes": { "channel-0": 9_000 * number }, "asked": null, "promise": null,
        "promise_is_warned": null, "windows_kept": null, "windows_broken": null,
    })
}
