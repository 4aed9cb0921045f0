//! Messages of a forward's stream, one an ADU (`spec/forward.md`). The first byte is the type.
//!
//! ```text
//! DATA     0x00 | bytes              a piece of the byte stream, or a datagram
//! LAST     0x01 | bytes              DATA after which the sender has no credit left
//! END      0x02                      no DATA follows (FIN)
//! CREDIT   0x03 | limit: u64         the peer may send DATA up to this many bytes since the beginning
//! REQUEST  0x10 | version | action | ...
//! ANSWER   0x11 | code | text
//! ```
//!
//! Integers are big-endian. The decoder takes any bytes, and copies none but texts, which are short.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use anabranch::{base::text::printable, rights::Transport};

use crate::{
    endpoint::{Endpoint, Host},
    error::{Code, Refusal, TEXT_BYTES_MAX},
};

/// Label of every stream of a forward.
pub const LABEL: &str = "anabranch-forward/1";
/// Version of requests.
pub const VERSION: u8 = 1;
/// Credit of each direction of a connection at its beginning, in bytes.
pub const INITIAL_CREDIT: u64 = 64 << 10;
/// Largest payload of a DATA message, in bytes; 65,507 is that of a UDP datagram over IPv4.
pub const DATA_BYTES_MAX: usize = 64 << 10;
/// Application code with which either side resets and stops a stream whose connection was reset.
pub const CODE_RESET: u32 = 0x20;
/// Application code for a peer that does not keep to the protocol.
pub const CODE_PROTOCOL: u32 = 0x21;

/// Type byte of [`Message::Data`], for those who write the payload behind it themselves.
pub(crate) const DATA: u8 = 0x00;
/// Type byte of [`Message::Data`] with `is_last`.
pub(crate) const LAST: u8 = 0x01;
const END: u8 = 0x02;
const CREDIT: u8 = 0x03;
const REQUEST: u8 = 0x10;
const ANSWER: u8 = 0x11;

/// The action that is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Connect to this target, or begin a flow to it; the stream carries its bytes.
    Connect(Endpoint),
    /// Accept connections or flows there, and open a stream back for each; ends with the stream.
    Listen {
        /// Where: an address, or a Unix socket.
        at: Endpoint,
        /// Number that streams opened back carry.
        listener: u32,
        /// Lifetime of datagrams in milliseconds; 0 for byte streams.
        lifetime_ms: u32,
    },
    /// A connection or flow arrived at a listener.
    Arrived {
        /// Number of the listener.
        listener: u32,
        /// True if the stream carries datagrams.
        is_udp: bool,
    },
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// A piece of the byte stream, or a datagram.
    Data {
        /// The bytes.
        bytes: Bytes,
        /// The sender has no credit left.
        is_last: bool,
    },
    /// No data follows.
    End,
    /// Limit on the bytes of data since the beginning.
    Credit(u64),
    /// The first message of a stream.
    Request {
        /// The action.
        action: Action,
        /// The first datagram of a flow; flows repeat the request until it is answered.
        datagram: Option<Bytes>,
    },
    /// The answer: the address that connections are accepted at, empty for other requests; or a refusal.
    Answer(Result<String, Refusal>),
}

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The message ends too early, or has bytes beyond its end.
    #[error("a message has the wrong length")]
    Length,
    /// An unknown type.
    #[error("unknown type of message {0:#04x}")]
    Type(u8),
    /// A request of another version.
    #[error("request of version {0}; this node understands version {VERSION}")]
    Version(u8),
    /// An unknown action or transport.
    #[error("unknown request")]
    Action,
    /// The endpoint of a request is not valid.
    #[error("the endpoint of the request is not valid")]
    Endpoint,
}

const TCP: u8 = 0;
const UDP: u8 = 1;
const UNIX: u8 = 2;

fn put_endpoint(out: &mut BytesMut, endpoint: &Endpoint) {
    let text = match endpoint {
        Endpoint::Port {
            transport,
            host,
            port,
        } => {
            out.put_u8(if *transport == Transport::Udp {
                UDP
            } else {
                TCP
            });
            out.put_u16(*port);
            match host {
                Host::Ip(address) => address.to_string(),
                Host::Name(name) => name.clone(),
            }
        }
        Endpoint::Unix(path) => {
            out.put_u8(UNIX);
            out.put_u16(0);
            path.display().to_string()
        }
    };
    out.put_u8(u8::try_from(text.len()).expect("names and paths are shorter than 256 bytes"));
    out.put_slice(text.as_bytes());
}

fn endpoint(bytes: &mut Bytes) -> Result<Endpoint, WireError> {
    let kind = byte(bytes)?;
    if bytes.remaining() < 3 {
        return Err(WireError::Length);
    }
    let port = bytes.get_u16();
    let length = usize::from(bytes.get_u8());
    if bytes.remaining() < length {
        return Err(WireError::Length);
    }
    let text = bytes.split_to(length);
    let text = std::str::from_utf8(&text).map_err(|_| WireError::Endpoint)?;
    let transport = match kind {
        TCP => Transport::Tcp,
        UDP => Transport::Udp,
        UNIX if port != 0 => return Err(WireError::Endpoint),
        UNIX => return Endpoint::unix(text).map_err(|_| WireError::Endpoint),
        _ => return Err(WireError::Action),
    };
    let host = match text.parse() {
        Ok(address) => Host::Ip(address),
        Err(_) => match Host::parse(text).map_err(|_| WireError::Endpoint)? {
            Host::Ip(_) => return Err(WireError::Endpoint),
            name @ Host::Name(_) => name,
        },
    };
    Ok(Endpoint::Port {
        transport,
        host,
        port,
    })
}

fn byte(bytes: &mut Bytes) -> Result<u8, WireError> {
    match bytes.has_remaining() {
        true => Ok(bytes.get_u8()),
        false => Err(WireError::Length),
    }
}

fn word(bytes: &mut Bytes) -> Result<u32, WireError> {
    match bytes.remaining() >= 4 {
        true => Ok(bytes.get_u32()),
        false => Err(WireError::Length),
    }
}

impl Action {
    fn is_udp(&self) -> bool {
        match self {
            Self::Connect(target) => target.is_udp(),
            Self::Arrived { is_udp, .. } => *is_udp,
            Self::Listen { .. } => false,
        }
    }

    fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Connect(target) => {
                out.put_u8(1);
                put_endpoint(out, target);
            }
            Self::Listen {
                at,
                listener,
                lifetime_ms,
            } => {
                out.put_u8(2);
                out.put_u32(*listener);
                out.put_u32(*lifetime_ms);
                put_endpoint(out, at);
            }
            Self::Arrived { listener, is_udp } => {
                out.put_u8(3);
                out.put_u32(*listener);
                out.put_u8(u8::from(*is_udp));
            }
        }
    }

    fn take(bytes: &mut Bytes) -> Result<Self, WireError> {
        match byte(bytes)? {
            1 => {
                let target = endpoint(bytes)?;
                match target {
                    Endpoint::Port { port: 0, .. } => Err(WireError::Endpoint),
                    target => Ok(Self::Connect(target)),
                }
            }
            2 => {
                let listener = word(bytes)?;
                let lifetime_ms = word(bytes)?;
                match endpoint(bytes)? {
                    Endpoint::Port {
                        host: Host::Name(_),
                        ..
                    } => Err(WireError::Endpoint),
                    at => Ok(Self::Listen {
                        at,
                        listener,
                        lifetime_ms,
                    }),
                }
            }
            3 => Ok(Self::Arrived {
                listener: word(bytes)?,
                is_udp: match byte(bytes)? {
                    0 => false,
                    1 => true,
                    _ => return Err(WireError::Action),
                },
            }),
            _ => Err(WireError::Action),
        }
    }
}

impl Message {
    /// A request without a datagram.
    pub fn request(action: Action) -> Self {
        Self::Request {
            action,
            datagram: None,
        }
    }

    /// The ADU of the message.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Data { bytes, is_last } => {
                out.reserve(1 + bytes.len());
                out.put_u8(if *is_last { LAST } else { DATA });
                out.put_slice(bytes);
            }
            Self::End => out.put_u8(END),
            Self::Credit(limit) => {
                out.put_u8(CREDIT);
                out.put_u64(*limit);
            }
            Self::Request { action, datagram } => {
                out.put_u8(REQUEST);
                out.put_u8(VERSION);
                action.put(&mut out);
                if let Some(datagram) = datagram {
                    out.put_u8(1);
                    out.put_slice(datagram);
                } else if action.is_udp() {
                    out.put_u8(0);
                }
            }
            Self::Answer(answer) => {
                out.put_u8(ANSWER);
                let (code, text) = match answer {
                    Ok(text) => (0, text),
                    Err(refusal) => (refusal.code.number(), &refusal.text),
                };
                out.put_u8(code);
                let end = text.floor_char_boundary_at(TEXT_BYTES_MAX);
                out.put_slice(&text.as_bytes()[..end]);
            }
        }
        out.freeze()
    }

    /// Reads an ADU.
    ///
    /// # Errors
    /// It is not a message of this version.
    pub fn decode(mut bytes: Bytes) -> Result<Self, WireError> {
        let kind = byte(&mut bytes)?;
        let ended = |bytes: &Bytes| match bytes.is_empty() {
            true => Ok(()),
            false => Err(WireError::Length),
        };
        match kind {
            DATA | LAST => {
                if bytes.len() > DATA_BYTES_MAX {
                    return Err(WireError::Length);
                }
                let is_last = kind == LAST;
                Ok(Self::Data { bytes, is_last })
            }
            END => ended(&bytes).map(|()| Self::End),
            CREDIT if bytes.len() == 8 => Ok(Self::Credit(bytes.get_u64())),
            CREDIT => Err(WireError::Length),
            REQUEST => {
                let version = byte(&mut bytes)?;
                if version != VERSION {
                    return Err(WireError::Version(version));
                }
                let action = Action::take(&mut bytes)?;
                let mut datagram = None;
                if action.is_udp() {
                    match byte(&mut bytes)? {
                        0 => ended(&bytes)?,
                        1 if bytes.len() <= DATA_BYTES_MAX => datagram = Some(bytes),
                        _ => return Err(WireError::Length),
                    }
                } else {
                    ended(&bytes)?;
                }
                Ok(Self::Request { action, datagram })
            }
            ANSWER => {
                let code = byte(&mut bytes)?;
                if bytes.len() > TEXT_BYTES_MAX {
                    return Err(WireError::Length);
                }
                let mut text = printable(&String::from_utf8_lossy(&bytes), TEXT_BYTES_MAX);
                // Escapes are longer than what they stand for.
                text.truncate(text.floor_char_boundary_at(TEXT_BYTES_MAX));
                Ok(Self::Answer(match code {
                    0 => Ok(text),
                    code => Err(Refusal::new(Code::from_number(code), text)),
                }))
            }
            other => Err(WireError::Type(other)),
        }
    }
}

/// Cutting of a text between characters.
trait FloorBoundary {
    fn floor_char_boundary_at(&self, at: usize) -> usize;
}

impl FloorBoundary for str {
    fn floor_char_boundary_at(&self, at: usize) -> usize {
        if at >= self.len() {
            return self.len();
        }
        (0..=at)
            .rev()
            .find(|&end| self.is_char_boundary(end))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages() -> Vec<Message> {
        let tcp: Endpoint = "[2001:db8::1]:80".parse().unwrap();
        let name: Endpoint = "db.internal:5432".parse().unwrap();
        let udp: Endpoint = "udp:10.0.0.1:53".parse().unwrap();
        let unix: Endpoint = "unix:/run/x.sock".parse().unwrap();
        let data = |bytes, is_last| Message::Data {
            bytes: Bytes::from_static(bytes),
            is_last,
        };
        let listen = |at| Action::Listen {
            at,
            listener: 7,
            lifetime_ms: 1_000,
        };
        let arrived = |is_udp| Action::Arrived {
            listener: 7,
            is_udp,
        };
        vec![
            data(b"", false),
            data(b"abc", true),
            Message::End,
            Message::Credit(u64::MAX),
            Message::request(Action::Connect(tcp.clone())),
            Message::request(Action::Connect(name)),
            Message::request(Action::Connect(unix.clone())),
            Message::request(Action::Connect(udp.clone())),
            Message::Request {
                action: Action::Connect(udp.clone()),
                datagram: Some(Bytes::from_static(b"")),
            },
            Message::Request {
                action: arrived(true),
                datagram: Some(Bytes::from_static(b"abc")),
            },
            Message::request(arrived(false)),
            Message::request(listen(tcp)),
            Message::request(listen(udp)),
            Message::request(listen(unix)),
            Message::Answer(Ok(String::new())),
            Message::Answer(Ok("127.0.0.1:80".into())),
            Message::Answer(Err(Refusal::new(Code::NotAllowed, "no"))),
        ]
    }

    #[test]
    fn messages_round_trip_and_no_part_of_one_is_read_as_it() {
        for message in messages() {
            let bytes = message.encode();
            assert_eq!(Message::decode(bytes.clone()), Ok(message.clone()));
            for end in 0..bytes.len() {
                let part = Message::decode(bytes.slice(..end));
                assert_ne!(part.as_ref(), Ok(&message));
            }
        }
    }

    #[test]
    fn other_versions_and_wrong_endpoints_are_refused() {
        let mut request =
            BytesMut::from(&Message::request(Action::Connect("a:1".parse().unwrap())).encode()[..]);
        request[1] = 2;
        assert_eq!(
            Message::decode(request.clone().freeze()),
            Err(WireError::Version(2))
        );
        request[1] = 1;
        request[2] = 9;
        assert_eq!(Message::decode(request.freeze()), Err(WireError::Action));
        let raw = |bytes: &'static [u8]| Message::decode(Bytes::from_static(bytes));
        assert_eq!(raw(b""), Err(WireError::Length));
        assert_eq!(raw(b"\x7f"), Err(WireError::Type(0x7f)));
        assert_eq!(raw(b"\x02x"), Err(WireError::Length));
        assert_eq!(raw(b"\x03\0\0"), Err(WireError::Length));
        // Port 0, a name with a space, a path with dots.
        assert_eq!(raw(b"\x10\x01\x01\0\0\0\x01a"), Err(WireError::Endpoint));
        assert_eq!(raw(b"\x10\x01\x01\0\0\x01\x01 "), Err(WireError::Endpoint));
        assert_eq!(
            raw(b"\x10\x01\x01\x02\0\0\x05/../a"),
            Err(WireError::Endpoint)
        );
        // A name to listen at.
        assert_eq!(
            raw(b"\x10\x01\x02\0\0\0\x01\0\0\0\0\0\0\x01\x01a"),
            Err(WireError::Endpoint)
        );
        let long = [&[DATA][..], &vec![0; DATA_BYTES_MAX + 1]].concat();
        assert_eq!(Message::decode(long.into()), Err(WireError::Length));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "é".repeat(TEXT_BYTES_MAX);
        let bytes = Message::Answer(Err(Refusal::new(Code::Failed, text))).encode();
        assert!(bytes.len() <= 2 + TEXT_BYTES_MAX);
        let Ok(Message::Answer(Err(refusal))) = Message::decode(bytes) else {
            panic!("a refusal");
        };
        assert!(refusal.text.chars().all(|c| c == 'é'));
    }

    proptest! {
        #[test]
        fn what_is_decoded_encodes_to_what_decodes_to_it(bytes: Vec<u8>, kind in 0u8..0x14) {
            let mut bytes = bytes;
            bytes.insert(0, kind);
            if let Ok(message) = Message::decode(bytes.into()) {
                prop_assert_eq!(Message::decode(message.encode()), Ok(message));
            }
        }
    }
}
