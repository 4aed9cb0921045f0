//! State of a running proxy, for `/stats.json` and for a console.

use std::{sync::Arc, time::Instant};

use serde_json::{Value, json};

use super::{Proxy, Shared};

/// View of a running proxy.
#[derive(Clone, Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    begun: Instant,
}

impl Proxy {
    /// A view of this proxy, which stays when it runs.
    pub fn monitor(&self) -> Monitor {
        Monitor {
            shared: self.shared.clone(),
            begun: self.shared.clock.now(),
        }
    }
}

impl Monitor {
    /// The state of now: an object with the members of `/stats.json`, `kind`, `uptime_s` (since this view was made), and
    /// `trouble`: the reason for which it is not ready, or null.
    pub fn state(&self) -> Value {
        let mut state = state(&self.shared);
        state["kind"] = json!("proxy");
        state["uptime_s"] = json!(self.shared.clock.since(self.begun).as_secs_f64());
        let is_connected = self.shared.pipe.line_now().is_some();
        let words = || match self.shared.pipe.trouble() {
            Some(trouble) => format!("the origin is away: {trouble}"),
            None => "the origin has not answered yet".to_owned(),
        };
        state["trouble"] = json!((!is_connected).then(words));
        state
    }
}

/// The statistics. They contain nothing of the origin's address, key or network: pages in viewers' browsers can read them.
pub(super) fn state(shared: &Shared) -> Value {
    let store = shared.store.stats();
    let line = shared.pipe.line_now();
    let channels = line.as_ref().map(|line| line.session().channels());
    let channels: Vec<_> = channels
        .unwrap_or_default()
        .iter()
        .map(|channel| {
            json!({
                "rtt_ms": channel.stats.rtt_smoothed.as_secs_f64() * 1e3,
            })
        })
        .collect();
    let watched = shared.watched();
    let running: usize = watched.iter().map(|(_, flows)| flows).sum();
    let videos: Vec<_> = watched
        .into_iter()
        .map(|(name, flows)| json!({ "name": name, "flows": flows }))
        .collect();
    let (measured, sum) = shared.capacity.measured();
    json!({
        "origin": {
            "is_connected": line.is_some(),
            "sessions": shared.pipe.connected(),
            "trouble": shared.pipe.trouble(),
            "channels": channels,
        },
        "videos": videos,
        "plays": {
            "running": running,
            "measured": measured,
            "target_bps": sum.target.as_bps(),
            "rate_bps": sum.rate.as_bps(),
            "loss_fraction": sum.loss,
        },
        "counters": shared.stats.json(),
        "cache": {
            "bytes": store.bytes,
            "prefix_bytes": store.prefix_bytes,
            "limit_bytes": store.limit_bytes,
            "videos": store.videos,
            "hits": store.hits,
            "misses": store.misses,
            "evicted": store.evicted,
            "damaged": store.damaged,
            "is_disk_usable": shared.is_disk_usable(),
        },
    })
}
