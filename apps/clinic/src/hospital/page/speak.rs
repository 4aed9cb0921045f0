//! Speech of a page, in JSON; packets are hexadecimal digits.

use anabranch_console::site::{
    Body, Request, Response, StatusCode, answer as answered, body, refused,
};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use crate::hospital::live::{Live, Refusal, Utterance};

/// Message of a page.
#[derive(Debug, Deserialize)]
struct Said {
    case: u32,
    speaker: u32,
    #[serde(default)]
    name: String,
    packets: Vec<Packet>,
    #[serde(default)]
    is_over: bool,
}

/// A packet of Opus.
#[derive(Debug, Deserialize)]
struct Packet {
    age_ms: f64,
    data: String,
}

/// Gives what a page says to the ambulance.
pub(super) async fn answer(live: &Live, request: Request<Body>) -> Response<Body> {
    let body = match body(request).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    let said = serde_json::from_slice::<Said>(&body)
        .ok()
        .and_then(utterance);
    let Some(said) = said else {
        let words = "this is no speech: packets have an age and hexadecimal digits";
        return refused(StatusCode::BAD_REQUEST, words);
    };
    match live.speak(said) {
        Ok(lost) => {
            let lost = json!({ "lost": lost }).to_string();
            answered(StatusCode::OK, super::JSON, lost)
        }
        Err(why @ Refusal::NoSpeech) => refused(StatusCode::BAD_REQUEST, &why.to_string()),
        Err(why) => refused(StatusCode::CONFLICT, &why.to_string()),
    }
}

fn utterance(said: Said) -> Option<Utterance> {
    let packets = said.packets.into_iter().map(|packet| {
        // A negative age is none, and one that is no number is not read.
        let age_us = (packet.age_ms * 1e3) as u64;
        Some((age_us, bytes(&packet.data)?))
    });
    Some(Utterance {
        case: said.case,
        speaker: said.speaker.into(),
        name: said.name,
        packets: packets.collect::<Option<_>>()?,
        is_over: said.is_over,
    })
}

/// Bytes of hexadecimal digits.
fn bytes(digits: &str) -> Option<Bytes> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        Some((high? << 4 | low?) as u8)
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty()).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes() {
        assert_eq!(bytes("0aFf"), Some(Bytes::from_static(&[10, 255])));
        assert_eq!(bytes(""), Some(Bytes::new()));
        for wrong in ["0", "0g", "+1", "ä"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
