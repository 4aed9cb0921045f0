//! Messages of SOCKS5: RFC 1928, and RFC 1929 for names and passwords.
//!
//! Each decoder returns the message, or the number of bytes that it needs at least: the caller reads exactly these, and so nothing of
//! the data behind the message.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anabranch::rights::Transport;

use crate::{
    endpoint::{Endpoint, Host},
    error::Code,
};

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
/// Method without authentication.
pub const METHOD_NONE: u8 = 0;
/// Method with name and password.
pub const METHOD_LOGIN: u8 = 2;
/// Answer to a client that offers no method that is accepted.
pub const METHOD_REFUSED: u8 = 0xff;

/// Result of decoding a message that may not be complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// The message, which ends with the bytes given.
    Whole(T),
    /// So many more bytes are needed at least.
    Needs(usize),
}

/// The client does not speak SOCKS5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SocksError {
    /// Another version, such as SOCKS4 or HTTP.
    #[error(
        "not SOCKS version 5 (the first byte is {0:#04x}); set the proxy of the program to socks5h://"
    )]
    Version(u8),
    /// Bytes behind the message.
    #[error("a message of SOCKS has bytes beyond its end")]
    Length,
    /// An unknown type of address.
    #[error("unknown type of address {0}")]
    AddressType(u8),
    /// The name of a host is not valid.
    #[error("the name of the target is not valid")]
    Name,
    /// A fragment of a datagram.
    #[error("fragments of datagrams are not supported")]
    Fragment,
}

/// Reader of a message.
struct Input<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Input<'b> {
    /// The next bytes; the error is the number that is missing.
    fn take(&mut self, count: usize) -> Result<&'b [u8], usize> {
        let end = self.at + count;
        let taken = self.bytes.get(self.at..end);
        let taken = taken.ok_or_else(|| end - self.bytes.len())?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, usize> {
        Ok(self.take(1)?[0])
    }

    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Decodes with a function whose error is the number of bytes missing, or that of the protocol.
fn decode<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Input<'_>) -> Result<Result<T, SocksError>, usize>,
) -> Result<Decoded<T>, SocksError> {
    let mut input = Input { bytes, at: 0 };
    match read(&mut input) {
        Err(missing) => Ok(Decoded::Needs(missing)),
        Ok(Err(error)) => Err(error),
        Ok(Ok(_)) if !input.is_at_end() => Err(SocksError::Length),
        Ok(Ok(message)) => Ok(Decoded::Whole(message)),
    }
}

/// Decodes the methods of authentication that a client offers.
///
/// # Errors
/// It is not SOCKS5.
pub fn methods(bytes: &[u8]) -> Result<Decoded<Vec<u8>>, SocksError> {
    decode(bytes, |input| {
        let version = input.byte()?;
        if version != VERSION {
            return Ok(Err(SocksError::Version(version)));
        }
        let count = input.byte()?;
        Ok(Ok(input.take(count.into())?.to_vec()))
    })
}

/// Name and password of a client.
pub type Credentials = (Vec<u8>, Vec<u8>);

/// Decodes name and password (RFC 1929 §2).
///
/// # Errors
/// Another version.
pub fn login(bytes: &[u8]) -> Result<Decoded<Credentials>, SocksError> {
    decode(bytes, |input| {
        let version = input.byte()?;
        if version != LOGIN_VERSION {
            return Ok(Err(SocksError::Version(version)));
        }
        let count = input.byte()?;
        let name = input.take(count.into())?.to_vec();
        let count = input.byte()?;
        Ok(Ok((name, input.take(count.into())?.to_vec())))
    })
}

/// The command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Connect to this target.
    Connect(Endpoint),
    /// Carry datagrams.
    Associate,
    /// Another command; its number.
    Other(u8),
}

/// A host, and the port behind it.
fn target(input: &mut Input<'_>) -> Result<Result<(Host, u16), SocksError>, usize> {
    let host = match input.byte()? {
        1 => {
            let bytes: [u8; 4] = input.take(4)?.try_into().expect("four bytes");
            Host::Ip(Ipv4Addr::from(bytes).into())
        }
        4 => {
            let bytes: [u8; 16] = input.take(16)?.try_into().expect("sixteen bytes");
            Host::Ip(Ipv6Addr::from(bytes).into())
        }
        3 => {
            let count = input.byte()?;
            let name = input.take(count.into())?;
            let text = std::str::from_utf8(name).unwrap_or("");
            // Some clients send the text of an address as a name.
            let host = match text.parse::<IpAddr>() {
                Ok(address) => Ok(Host::Ip(address)),
                Err(_) => Host::parse(text),
            };
            match host {
                Ok(host) => host,
                Err(_) => return Ok(Err(SocksError::Name)),
            }
        }
        other => return Ok(Err(SocksError::AddressType(other))),
    };
    let port = input.take(2)?;
    Ok(Ok((host, u16::from_be_bytes([port[0], port[1]]))))
}

/// Decodes a request.
///
/// # Errors
/// It is not SOCKS5, or its target is not valid.
pub fn request(bytes: &[u8]) -> Result<Decoded<Command>, SocksError> {
    decode(bytes, |input| {
        let head = input.take(3)?;
        let (version, command) = (head[0], head[1]);
        if version != VERSION {
            return Ok(Err(SocksError::Version(version)));
        }
        let (host, port) = match target(input)? {
            Ok(target) => target,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match command {
            1 if port == 0 => Err(SocksError::Name),
            1 => Ok(Command::Connect(Endpoint::Port {
                transport: Transport::Tcp,
                host,
                port,
            })),
            3 => Ok(Command::Associate),
            other => Ok(Command::Other(other)),
        })
    })
}

/// Decodes a datagram of a client: its target, and where its data begin.
///
/// # Errors
/// It is a fragment, or not a datagram of SOCKS5.
pub fn datagram(bytes: &[u8]) -> Result<(Endpoint, usize), SocksError> {
    let mut input = Input { bytes, at: 0 };
    let head = input.take(3).map_err(|_| SocksError::Length)?;
    if head[2] != 0 {
        return Err(SocksError::Fragment);
    }
    let (host, port) = target(&mut input).map_err(|_| SocksError::Length)??;
    if port == 0 {
        return Err(SocksError::Name);
    }
    let endpoint = Endpoint::Port {
        transport: Transport::Udp,
        host,
        port,
    };
    Ok((endpoint, input.at))
}

fn put_target(out: &mut Vec<u8>, host: &Host, port: u16) {
    match host {
        Host::Ip(IpAddr::V4(address)) => {
            out.push(1);
            out.extend(address.octets());
        }
        Host::Ip(IpAddr::V6(address)) => {
            out.push(4);
            out.extend(address.octets());
        }
        Host::Name(name) => {
            out.push(3);
            out.push(u8::try_from(name.len()).expect("names are shorter than 256 bytes"));
            out.extend(name.as_bytes());
        }
    }
    out.extend(port.to_be_bytes());
}

/// The head of a datagram for a client, from a target.
pub fn datagram_head(from: &Endpoint) -> Vec<u8> {
    let mut head = vec![0; 3];
    match from {
        Endpoint::Port { host, port, .. } => put_target(&mut head, host, *port),
        Endpoint::Unix(_) => put_target(&mut head, &Host::Ip(Ipv4Addr::UNSPECIFIED.into()), 0),
    }
    head
}

/// The answer to a request: success with an address, or a refusal.
pub fn reply(result: Result<Endpoint, u8>) -> Vec<u8> {
    let (code, endpoint) = match result {
        Ok(endpoint) => (0, Some(endpoint)),
        Err(code) => (code, None),
    };
    let mut out = vec![VERSION, code, 0];
    match endpoint {
        Some(Endpoint::Port { host, port, .. }) => put_target(&mut out, &host, port),
        _ => put_target(&mut out, &Host::Ip(Ipv4Addr::UNSPECIFIED.into()), 0),
    }
    out
}

/// The answer to the offered methods.
pub fn chosen(method: u8) -> [u8; 2] {
    [VERSION, method]
}

/// The answer to a login.
pub fn admitted(is_admitted: bool) -> [u8; 2] {
    [LOGIN_VERSION, u8::from(!is_admitted)]
}

/// Code of a reply: command not supported.
pub const REPLY_COMMAND: u8 = 7;

/// Code of the reply for a request that was not understood.
pub fn reply_to(error: SocksError) -> u8 {
    match error {
        SocksError::AddressType(_) => 8,
        SocksError::Name => 4,
        _ => 1,
    }
}

/// Code of the reply for a refusal (RFC 1928 §6).
pub fn reply_code(code: Code) -> u8 {
    match code {
        Code::NotAllowed => 2,
        Code::Unreachable | Code::NoSuchName => 4,
        Code::Refused => 5,
        Code::TimedOut => 6,
        Code::Unsupported => 7,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decodes byte for byte, as much as is asked for at a time.
    fn fed<T: std::fmt::Debug>(
        bytes: &[u8],
        decode: impl Fn(&[u8]) -> Result<Decoded<T>, SocksError>,
    ) -> Result<T, SocksError> {
        let mut end = 0;
        loop {
            match decode(&bytes[..end])? {
                Decoded::Whole(message) => {
                    assert_eq!(end, bytes.len(), "exactly the message is read");
                    return Ok(message);
                }
                Decoded::Needs(more) => {
                    assert!(more > 0);
                    end += more;
                    assert!(end <= bytes.len(), "not more than the message is asked for");
                }
            }
        }
    }

    #[test]
    fn messages_of_clients_are_read_and_nothing_behind_them() {
        assert_eq!(fed(&[5, 2, 0, 2], methods), Ok(vec![0, 2]));
        assert_eq!(fed(&[5, 0], methods), Ok(vec![]));
        assert_eq!(
            fed(b"\x01\x03ada\x02xy", login),
            Ok((b"ada".to_vec(), b"xy".to_vec()))
        );
        let connect = |text: &str| Ok(Command::Connect(text.parse().unwrap()));
        assert_eq!(
            fed(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80], request),
            connect("10.0.0.1:80")
        );
        assert_eq!(
            fed(b"\x05\x01\0\x03\x09A.example\x01\xbb", request),
            connect("a.example:443")
        );
        assert_eq!(
            fed(b"\x05\x01\0\x03\x0810.0.0.1\0\x50", request),
            connect("10.0.0.1:80")
        );
        let v6 = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(fed(&v6, request), connect("[::1]:80"));
        assert_eq!(
            fed(&[5, 3, 0, 1, 0, 0, 0, 0, 0, 0], request),
            Ok(Command::Associate)
        );
        assert_eq!(
            fed(&[5, 2, 0, 1, 0, 0, 0, 0, 0, 0], request),
            Ok(Command::Other(2))
        );
    }

    #[test]
    fn other_protocols_and_wrong_targets_are_refused() {
        assert_eq!(methods(b"GET "), Err(SocksError::Version(b'G')));
        assert_eq!(methods(&[4]), Err(SocksError::Version(4)));
        assert_eq!(methods(&[5, 0, 0]), Err(SocksError::Length));
        assert_eq!(request(&[5, 1, 0, 9]), Err(SocksError::AddressType(9)));
        assert_eq!(request(b"\x05\x01\0\x03\x01 \0\x50"), Err(SocksError::Name));
        assert_eq!(
            request(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 0]),
            Err(SocksError::Name)
        );
        assert_eq!(
            datagram(&[0, 0, 1, 1, 10, 0, 0, 1, 0, 53]),
            Err(SocksError::Fragment)
        );
        assert_eq!(datagram(&[0, 0]), Err(SocksError::Length));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_decoder_ask_for_more_than_a_message_has(bytes: Vec<u8>) {
            for needs in [
                methods(&bytes).map(|d| matches!(d, Decoded::Needs(n) if n > 255)),
                login(&bytes).map(|d| matches!(d, Decoded::Needs(n) if n > 255)),
                request(&bytes).map(|d| matches!(d, Decoded::Needs(n) if n > 255)),
            ] {
                prop_assert_ne!(needs, Ok(true));
            }
        }

        #[test]
        fn heads_of_datagrams_round_trip(address: [u8; 16], is_short: bool, port in 1u16.., data: Vec<u8>) {
            let ip = match is_short {
                true => IpAddr::from([address[0], address[1], address[2], address[3]]),
                false => IpAddr::from(address),
            };
            let from = Endpoint::udp((ip, port).into());
            let mut bytes = datagram_head(&from);
            let end = bytes.len();
            bytes.extend(data);
            prop_assert_eq!(datagram(&bytes), Ok((from, end)));
        }
    }
}
