//! The page with the catalogue.

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
