//! Messages of forwards and of SOCKS, the text forms of their targets, and rules for them, from a peer or a program that sends anything.

use anabranch::{config::Layer, rights::Targets};
use anabranch_gateway::{
    Endpoint, Mapping,
    rules::{Table, socket_row},
    socks::codec::{self, Decoded, SocksError},
    wire::Message,
};
use bytes::Bytes;

/// The first byte selects the decoder. Whatever decodes, encodes or prints to what decodes to the same; a decoder of SOCKS asks for no
/// more than the longest message.
pub fn forward(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    match kind % 5 {
        0 => {
            if let Ok(message) = Message::decode(Bytes::copy_from_slice(rest)) {
                assert_eq!(Message::decode(message.encode()), Ok(message));
            }
        }
        1 => {
            bounded(rest, codec::methods);
            bounded(rest, codec::login);
            bounded(rest, codec::request);
        }
        2 => {
            if let Ok((target, begin)) = codec::datagram(rest) {
                let head = codec::datagram_head(&target);
                assert!(begin <= rest.len());
                assert_eq!(codec::datagram(&head), Ok((target, head.len())));
            }
        }
        4 => rules(&String::from_utf8_lossy(rest)),
        _ => {
            let Ok(text) = std::str::from_utf8(rest) else {
                return;
            };
            if let Ok(mapping) = text.parse::<Mapping>() {
                assert_eq!(mapping.to_string().parse(), Ok(mapping));
            }
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
            }
            if let Ok(targets) = Targets::parse(text.split(',')) {
                let printed: Vec<String> = targets.texts().collect();
                let again = Targets::parse(printed.iter().map(String::as_str));
                assert_eq!(again, Ok(targets));
            }
        }
    }
}

/// Rules are read or refused with a message, and what is shown of them is text; so are rows of the kernel's tables of sockets.
fn rules(text: &str) {
    for line in text.lines() {
        let _ = socket_row(line);
    }
    let Ok(layer) = Layer::from_toml(text) else {
        return;
    };
    let rules = layer.rule.unwrap_or_default();
    for rule in &rules {
        assert!(!rule.matches.to_string().is_empty());
    }
    let none = |_: &str| Err("no peer".to_owned());
    if let Err(error) = Table::read(&rules, none) {
        assert!((1..=rules.len()).contains(&error.number), "{error}");
    }
}

fn bounded<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<Decoded<T>, SocksError>) {
    if let Ok(Decoded::Needs(more)) = decode(bytes) {
        assert!((1..=255).contains(&more));
        assert!(bytes.len() + more <= 3 + 2 * 255);
    }
}
