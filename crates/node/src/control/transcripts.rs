//! Transcripts of sessions: begun, and fetched.

use anabranch_base::{NodeId, SessionId, ids::encode_base32};
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

/// The session that has a transcript, with its peer and what `read` finds of it.
fn only<T>(
    host: &Host,
    named: Option<&str>,
    read: impl Fn(SessionId) -> Option<T>,
) -> Result<(SessionId, NodeId, T), String> {
    let found = sessions(host, named)?.into_iter().filter_map(|session| {
        let id = session.stats.session;
        Some((id, session.stats.peer, read(id)?))
    });
    let mut found: Vec<_> = found.collect();
    match (found.pop(), &found[..]) {
        (Some(one), []) => Ok(one),
        (None, _) => Err(
            "no transcript is kept; record one with `anabranch record --for 60s FILE`, or set `transcript = \"8 MiB\"` under [session] in the node's configuration"
                .to_owned(),
        ),
        (Some((last, ..)), others) => {
            let ids = others.iter().map(|(id, ..)| *id);
            Err(several("transcripts", ids.chain([last])))
        }
    }
}

/// The transcript of a session.
pub(super) fn take(host: &Host, named: Option<&str>) -> Result<Vec<Value>, String> {
    let (id, peer, file) = only(host, named, |id| host.transcript(id))?;
    Ok(vec![json!({
        "kind": "transcript",
        "session": id.to_string(),
        "peer": peer.to_string(),
        "bytes": file.len(),
        "base32": encode_base32(&file),
    })])
}

/// Size of the transcript of a session.
pub(super) fn size(host: &Host, named: Option<&str>) -> Result<Vec<Value>, String> {
    let (id, peer, bytes) = only(host, named, |id| host.transcript_bytes(id))?;
    Ok(vec![json!({
        "kind": "transcript_size",
        "session": id.to_string(),
        "peer": peer.to_string(),
        "bytes": bytes,
    })])
}
