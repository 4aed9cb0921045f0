//! Greeting of a session: the ticket, and the node to which it is bound.

use std::sync::Arc;

use anabranch::{
    Session, Stream,
    base::{NodeId, ids::decode_base32},
};

use super::Shared;
use crate::wire::{Contents, Notice, Purpose, Request, decode, encode};

/// Contents of the greeting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hello {
    pub(super) run: u64,
    pub(super) contents: Contents,
    pub(super) takes_key: bool,
    pub(super) consent_s: u64,
}

/// Waits for the greeting on its stream.
pub(super) async fn greeting(
    session: &Session,
    shared: &Arc<Shared>,
) -> Result<(Stream, Hello), String> {
    let is_case = |spec: &anabranch::StreamSpec| spec.label == Purpose::Case.label();
    let control = session.accept_stream_where(is_case).await;
    let control = control.map_err(|error| error.to_string())?;
    let hello = control.recv().await.map_err(|error| error.to_string())?;
    let hello = hello.ok_or("it greeted with nothing")?;
    let Request::Hello {
        secret,
        run,
        contents,
        takes_key,
        consent_s,
    } = decode(&hello.data).map_err(|error| error.to_string())?
    else {
        return Err("it did not greet".to_owned());
    };
    let secret = decode_base32(&secret).unwrap_or_default();
    // Hashes are compared in constant time.
    if blake3::hash(&secret) != shared.secret {
        let why = "the ticket is not of this hospital, or not of this --store; copy the line that it prints";
        return Err(turn_away(&control, why).await);
    }
    session.end_probation().map_err(|error| error.to_string())?;
    let hello = Hello {
        run,
        contents,
        takes_key,
        consent_s,
    };
    Ok((control, hello))
}

/// Binds the ticket to the node that has shown it; the stream is that of its greeting.
pub(super) async fn admit(
    control: &Stream,
    node: NodeId,
    shared: &Arc<Shared>,
) -> Result<(), String> {
    let binding = shared.clone();
    let bound = tokio::task::spawn_blocking(move || binding.door.bind(node)).await;
    match bound.map_err(|error| error.to_string())? {
        Ok(()) => Ok(()),
        Err(why) => Err(turn_away(control, &why).await),
    }
}

/// Answers a greeting with a refusal; returns its reason.
async fn turn_away(control: &Stream, why: &str) -> String {
    let why = why.to_owned();
    let notice = Notice::Refused { why: why.clone() };
    // An error means that the session is over.
    let _ = control.send(encode(&notice)).await;
    let _ = control.finish();
    why
}
