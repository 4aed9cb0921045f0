//! Streams with what their contents need, and messages on them.

use std::time::Duration;

use anabranch::{
    AduSession, AduStream, DropOrder, Guarantee, Order, Priority, StreamSpec, base::Rate,
};

use crate::{
    error::ClinicError,
    speech::LIFETIME,
    wire::{Notice, Purpose, Request, decode, encode},
};

/// Share of windows of a second that are to have the rate of the record.
const SHARE: f64 = 0.95;
/// Part of the record's rate that is asked for, which leaves space for headers and for what has to be sent again.
const MARGIN: f64 = 1.25;

/// Opens a stream with what its content needs.
pub(super) async fn open<S: AduSession>(
    session: &S,
    purpose: Purpose,
) -> Result<S::Stream, ClinicError> {
    let spec = spec(purpose);
    let opened = session.open_stream(spec).await;
    opened.map_err(|error| ClinicError::of(&error))
}

/// Demands of the video: `is_repaired` if lost parts of pictures are sent again.
pub fn video(is_repaired: bool) -> StreamSpec {
    StreamSpec {
        reliable: is_repaired,
        // The drop order is one of unreliable streams.
        drop: (!is_repaired).then_some(DropOrder::Oldest),
        ..spec(Purpose::Video)
    }
}

/// Demands of what the ambulance says.
pub fn speech() -> StreamSpec {
    StreamSpec {
        drop: Some(DropOrder::Oldest),
        ..spec(Purpose::SpeechUp)
    }
}

/// Demands of a record of `leads` leads with `frequency` samples of 16 bit a second, each: its rate as a promise, as soon as that
/// is possible; the newest first, if the hospital can fill holes.
pub fn record(leads: usize, frequency: f64, is_newest_first: bool) -> StreamSpec {
    let bits = 16.0 * leads as f64 * frequency;
    let rate = Rate::from_bps((bits * MARGIN).max(16_000.0) as u64);
    let guarantee = Guarantee::rate(rate, SHARE).waiting();
    StreamSpec {
        order: match is_newest_first {
            true => Order::NewestFirst,
            false => Order::Ordered,
        },
        ..spec(Purpose::Ekg).with_guarantee(guarantee)
    }
}

/// Demands of a stream, promises aside.
pub fn spec(purpose: Purpose) -> StreamSpec {
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
