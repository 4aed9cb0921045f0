//! State for pages: what comes, how old it is, and what is promised.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Guest, Inner, STALE_AGE, Viewer};
use crate::smartpointer::frame::Part;

impl Viewer {
    /// The state now, as an object of JSON.
    pub fn state(&self) -> Value {
        let shared = &self.shared;
        let now_us = shared.micros(Instant::now());
        let (view, planes) = shared.view.borrow().clone();
        let inner = shared.inner();
        json!({
            "name": shared.settings.name,
            "session": inner.session,
            "why": inner.why,
            "period_us": inner.begun.map(|begun| begun.period_us),
            "atoms": inner.begun.map(|begun| begun.atoms),
            "bonds": inner.begun.map(|begun| begun.bonds),
            "view": view,
            "planes": planes.planes().len(),
            "parts": Part::ALL.map(|part| part_state(&inner, part, now_us)),
        })
    }

    /// The state as a record for a page, with what that page did not read: length, kind 0, JSON.
    pub fn state_record(&self, guest: &Guest) -> Bytes {
        let mut state = self.state();
        state["dropped"] = json!(guest.dropped());
        let text = state.to_string();
        let mut record = (text.len() as u32 + 1).to_le_bytes().to_vec();
        record.push(0);
        record.extend(text.as_bytes());
        record.into()
    }
}

fn part_state(inner: &Inner, part: Part, now_us: u64) -> Value {
    let account = &inner.parts[part.index()];
    let newest = account.newest;
    let age = newest.and_then(|(frame, ..)| inner.age(frame, now_us));
    let micros = |time: std::time::Duration| time.as_micros() as u64;
    json!({
        "part": part,
        "name": part.to_string(),
        "frame": newest.map(|(frame, ..)| frame),
        "view": newest.map(|(_, view, ..)| view),
        "count": newest.map(|(_, _, count, _)| count),
        "frames": account.frames,
        "skipped": account.skipped,
        "age_us": age.map(|age| micros(age.age)),
        "age_error_us": age.map(|age| micros(age.error)),
        "is_stale": inner.why.is_some() || age.is_some_and(|age| age.age > STALE_AGE),
        "is_promised_kind": part.is_promised(),
        "promised_bps": account.rate_bps,
        "why": account.why,
    })
}
