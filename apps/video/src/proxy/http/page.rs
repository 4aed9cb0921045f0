//! The page with the catalogue, and the statistics.

use serde_json::json;

use super::encode;
use crate::proxy::Shared;

/// Maximum number of videos on the page; others are found by their name.
const LISTED: usize = 1_000;

pub(super) fn page(shared: &Shared) -> String {
    let (listed, count) = shared.catalogue.first(LISTED);
    let mut rows = String::new();
    for video in &listed {
        let address = encode(&video.name);
        rows.push_str(&format!(
            "<li><a class=\"play\" href=\"/v/{address}.mp4\">{name}</a> \
             <small>{size:.1} MB · <a href=\"/v/{address}/master.m3u8\">HLS</a></small></li>\n",
            name = escape(&video.name),
            size = video.bytes as f64 / 1e6,
        ));
    }
    if rows.is_empty() {
        rows.push_str("<li>no videos yet: the origin has none, or has not answered</li>\n");
    } else if count > LISTED {
        rows.push_str(&format!("<li>… and {} more</li>\n", count - LISTED));
    }
    include_str!("page.html").replace("<!--rows-->", &rows)
}

/// The statistics. They contain nothing of the origin's address, key or network: pages in viewers' browsers can read them.
pub(super) fn stats(shared: &Shared) -> String {
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
    let videos: Vec<_> = shared
        .watched()
        .into_iter()
        .map(|(name, flows)| json!({ "name": name, "flows": flows }))
        .collect();
    let all = json!({
        "origin": {
            "is_connected": line.is_some(),
            "sessions": shared.pipe.connected(),
            "trouble": shared.pipe.trouble(),
            "channels": channels,
        },
        "videos": videos,
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
    });
    all.to_string()
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}
