//! Output of `anabranch emulate`: lines for people, or events as JSON.

use std::net::SocketAddr;

#[cfg(target_os = "linux")]
use anabranch::net::emulate::tun::End;
use anabranch::{
    base::Rate,
    net::emulate::{LineStats, Path},
};
use serde_json::{Value, json};

use crate::exit::{Outcome, print_line};

/// Form of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) json: bool,
}

impl Report {
    fn print(self, event: impl FnOnce() -> Value, words: impl FnOnce() -> String) -> Outcome {
        match self.json {
            true => print_line(&event().to_string()),
            false => print_line(&words()),
        }
    }

    /// A path between UDP ports is ready.
    pub(super) fn listening(self, path: &str, at: SocketAddr, to: SocketAddr) -> Outcome {
        self.print(
            || json!({"kind": "listening", "path": path, "at": at.to_string(), "to": to.to_string()}),
            || format!("{path} listens on {at}, leads to {to}"),
        )
    }

    /// A link between network namespaces is ready.
    #[cfg(target_os = "linux")]
    pub(super) fn joined(self, path: &str, first: &End, second: &End) -> Outcome {
        let end = |end: &End| json!({"namespace": end.namespace, "device": end.device, "address": end.address});
        self.print(
            || json!({"kind": "joined", "path": path, "ends": [end(first), end(second)]}),
            || {
                format!(
                    "{path} joins {} ({}) and {} ({})",
                    first.address, first.device, second.address, second.device
                )
            },
        )
    }

    /// A command was executed or refused.
    pub(super) fn done(self, done: Result<String, String>) -> Outcome {
        let kind = match &done {
            Ok(_) => "changed",
            Err(_) => "refused",
        };
        let text = done.unwrap_or_else(|refused| refused);
        self.print(|| json!({"kind": kind, "text": text}), || text.clone())
    }

    /// The present rates of all paths; of a path that is down, 0.
    pub(super) fn rates(self, paths: &[Path]) -> Outcome {
        if !self.json {
            let lines: Vec<String> = paths.iter().map(rates).collect();
            return print_line(&lines.join("; "));
        }
        for path in paths {
            let (forward, backward) = present(path);
            let event = json!({
                "kind": "rates",
                "path": path.name(),
                "is_up": path.is_up(),
                "forward_bps": forward.map(Rate::as_bps),
                "backward_bps": backward.map(Rate::as_bps),
            });
            print_line(&event.to_string())?;
        }
        Ok(())
    }

    /// Totals of every path: carried and dropped, in each direction.
    pub(super) fn totals(self, paths: &[Path]) -> Outcome {
        for path in paths {
            let (forward, backward) = path.stats();
            for (direction, stats) in [("forward", forward), ("backward", backward)] {
                self.print(
                    || event(path.name(), direction, &stats),
                    || words(path.name(), direction, &stats),
                )?;
            }
        }
        Ok(())
    }
}

/// Rates of both directions; `None`: unlimited.
fn present(path: &Path) -> (Option<Rate>, Option<Rate>) {
    match path.is_up() {
        true => path.rates(),
        false => (Some(Rate::ZERO), Some(Rate::ZERO)),
    }
}

fn rates(path: &Path) -> String {
    let text = |rate: Option<Rate>| rate.map_or("unlimited".to_owned(), |rate| rate.to_string());
    let (forward, backward) = present(path);
    let (forward, backward) = (text(forward), text(backward));
    format!("{}: {forward} forward, {backward} backward", path.name())
}

fn event(path: &str, direction: &str, stats: &LineStats) -> Value {
    json!({
        "kind": "totals",
        "path": path,
        "direction": direction,
        "delivered_packets": stats.delivered.packets,
        "delivered_bytes": stats.delivered.bytes,
        "dropped_packets": stats.dropped_total().packets,
        "queue_full_packets": stats.queue_full.packets,
        "lost_packets": stats.loss.packets,
        "down_packets": stats.down.packets,
    })
}

fn words(path: &str, direction: &str, stats: &LineStats) -> String {
    format!(
        "{path} {direction}: {} packets, {} bytes delivered; {} packets dropped ({} queue full, {} lost, {} while down)",
        stats.delivered.packets,
        stats.delivered.bytes,
        stats.dropped_total().packets,
        stats.queue_full.packets,
        stats.loss.packets,
        stats.down.packets,
    )
}
