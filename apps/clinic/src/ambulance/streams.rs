//! Streams with what their contents need, and messages on them.

use std::time::Duration;

use anabranch::{AduSession, AduStream, Order, Priority, StreamSpec};

use crate::{
    error::ClinicError,
    speech::LIFETIME,
    wire::{Notice, Purpose, Request, decode, encode},
};

/// Opens a stream with what its content needs.
pub(super) async fn open<S: AduSession>(
    session: &S,
    purpose: Purpose,
) -> Result<S::Stream, ClinicError> {
    let spec = spec(purpose);
    let opened = session.open_stream(spec).await;
    opened.map_err(|error| ClinicError::of(&error))
}

/// Demands of a stream.
pub(super) fn spec(purpose: Purpose) -> StreamSpec {
    let (is_reliable, lifetime_ms, priority) = match purpose {
        Purpose::Case => (true, None, Priority::URGENT),
        Purpose::Ekg => (true, Some(30_000), Priority::URGENT),
        Purpose::Vitals => (true, Some(5_000), Priority::URGENT),
        Purpose::Video => (false, Some(800), Priority::NORMAL),
        Purpose::Stills => (true, None, Priority::BULK),
        Purpose::SpeechUp | Purpose::SpeechDown => {
            let lifetime_ms = LIFETIME.as_millis() as u64;
            (false, Some(lifetime_ms), Priority::URGENT)
        }
    };
    let is_speech = matches!(purpose, Purpose::SpeechUp | Purpose::SpeechDown);
    StreamSpec {
        reliable: is_reliable,
        lifetime: lifetime_ms.map(Duration::from_millis),
        priority,
        // A packet that waited for an earlier one would be later itself.
        order: match is_speech {
            true => Order::Unordered,
            false => Order::Ordered,
        },
        duplex: !matches!(
            purpose,
            Purpose::Video | Purpose::Vitals | Purpose::SpeechUp
        ),
        label: purpose.label().to_owned(),
        ..StreamSpec::default()
    }
}

pub(super) async fn send<S: AduSession>(
    stream: &S::Stream,
    request: &Request,
) -> Result<(), ClinicError> {
    let sent = stream.send(encode(request)).await;
    sent.map(drop).map_err(|error| ClinicError::of(&error))
}

pub(super) async fn receive<S: AduSession>(
    stream: &S::Stream,
) -> Result<Option<Notice>, ClinicError> {
    let received = stream.recv().await;
    match received.map_err(|error| ClinicError::of(&error))? {
        Some(adu) => Ok(Some(decode(&adu.data)?)),
        None => Ok(None),
    }
}
