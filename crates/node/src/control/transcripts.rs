//! Transcripts of sessions: begun, and fetched.

use anabranch_base::{SessionId, ids::encode_base32};
use anabranch_net::Host;
use serde_json::{Value, json};

use super::promises::sessions;
use crate::transcripts::{MEMORY_MAX_BYTES, MEMORY_MIN_BYTES};

/// Begins the transcript of a session; with 0 bytes, it is kept as the node is configured.
pub(super) fn begin(host: &Host, named: Option<&str>, bytes: u64) -> Result<Vec<Value>, String> {
    if bytes != 0 && !(MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES).contains(&bytes) {
        return Err(format!(
            "{bytes} bytes of memory; give {MEMORY_MIN_BYTES} to {MEMORY_MAX_BYTES}, or 0 to end the recording"
        ));
    }
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0);
    let found = sessions(host, named)?;
    let [session] = &found[..] else {
        let ids = found.iter().map(|session| session.stats.session);
        return Err(several("sessions", ids));
    };
    let id = session.stats.session;
    if !host.record(id, bytes) {
        return Err(format!("{id} is over"));
    }
    Ok(vec![json!({
        "kind": "recording",
        "session": id.to_string(),
        "peer": session.stats.peer.to_string(),
    })])
}

/// Refusal of a request that is about one of several.
fn several(what: &str, ids: impl Iterator<Item = SessionId>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    format!("there are several {what}, {}; name one", ids.join(", "))
}

/// The transcript of a session.
pub(super) fn take(host: &Host, named: Option<&str>) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for session in sessions(host, named)? {
        let id = session.stats.session;
        if let Some(file) = host.transcript(id) {
            found.push((id, session.stats.peer, file));
        }
    }
    match &found[..] {
        [] => Err(
            "no transcript is kept; record one with `anabranch record --for 60s FILE`, or set `transcript = \"8 MiB\"` under [session] in the node's configuration"
                .to_owned(),
        ),
        [(id, peer, file)] => Ok(vec![json!({
            "kind": "transcript",
            "session": id.to_string(),
            "peer": peer.to_string(),
            "bytes": file.len(),
            "base32": encode_base32(file),
        })]),
        many => Err(several("transcripts", many.iter().map(|(id, ..)| *id))),
    }
}
