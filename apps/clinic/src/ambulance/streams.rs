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

/// Share of windows of a second that are to have the rate of the record, or that of the numbers.
const SHARE: f64 = 0.95;
/// Part of the record's rate that is asked for, which leaves space for headers and for what has to be sent again.
const MARGIN: f64 = 1.25;
/// Term of the record's promise. Paths of an ambulance change within seconds, and what may come half a minute late can wait for the
/// next promise: of terms of 10 s, under objectives, fewer windows have what was promised, and less of the video is on time
/// (`docs/results/clinic.md`).
const TERM: Duration = Duration::from_secs(3);
/// Rate of the numbers: one message a second of about 100 bytes with its headers, and space for sending it again.
const VITALS: Rate = Rate::from_bps(4_000);

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
    let guarantee = Guarantee {
        term: TERM,
        ..Guarantee::rate(rate, SHARE).waiting()
    };
    StreamSpec {
        order: match is_newest_first {
            true => Order::NewestFirst,
            false => Order::Ordered,
        },
        ..spec(Purpose::Ekg).with_guarantee(guarantee)
    }
}

/// Demands of the numbers of each second: their rate as a promise, as soon as that is possible.
pub fn vitals() -> StreamSpec {
    spec(Purpose::Vitals).with_guarantee(Guarantee::rate(VITALS, SHARE).waiting())
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

#[cfg(test)]
mod tests {
    use anabranch::Demand;

    use super::*;

    /// The rate that is promised, after the checks that the session makes.
    fn promised(spec: &StreamSpec) -> Rate {
        assert_eq!(spec.validate(), Ok(()));
        let guarantee = spec.guarantee.as_deref().unwrap();
        assert!(guarantee.waits, "the stream opens before its promise");
        let Demand::Rate { rate, probability } = guarantee.demand else {
            panic!("{guarantee:?}");
        };
        assert_eq!(
            (probability, guarantee.window),
            (SHARE, Duration::from_secs(1))
        );
        rate
    }

    #[test]
    fn the_record_and_the_numbers_ask_for_their_rates() {
        // Twelve leads at 1 kHz are 192 kbit/s; a single slow one has the least.
        assert_eq!(
            promised(&record(12, 1_000.0, true)),
            Rate::from_bps(240_000)
        );
        assert_eq!(promised(&record(1, 10.0, false)), Rate::from_bps(16_000));
        assert_eq!(promised(&vitals()), VITALS);
    }

    /// A second of the numbers, with their longest digits, fits twice into what is promised.
    #[test]
    fn what_is_promised_carries_the_numbers_of_a_second_twice() {
        let vital = Request::Vital {
            number: 86_400 * 365,
            at_us: 86_400 * 365 * 1_000_000,
            heart_rate: Some(250.0 / 3.0),
        };
        let bytes = 2 * encode(&vital).len() as u64;
        assert!(bytes < VITALS.bytes_in(Duration::from_secs(1)), "{bytes}");
    }

    #[test]
    fn nothing_else_asks_for_a_promise() {
        for spec in [video(true), video(false), speech(), spec(Purpose::Stills)] {
            assert_eq!((spec.validate(), spec.guarantee), (Ok(()), None));
        }
    }
}
