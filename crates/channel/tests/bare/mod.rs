//! A QUIC peer without a QUIC library, which chooses the numbers of its packets: handshake and packet protection only.
//! It accepts everything in order, retransmits nothing and acknowledges nothing, has its own key and accepts every
//! other.

mod tls;

use rustls::{
    Side,
    quic::{Connection, KeyChange, Keys, Suite, Version},
};

/// Its connection ID.
pub(crate) const ID: [u8; 8] = [7; 8];
/// Distance of two packet numbers, as large as four bytes can express: it makes acknowledgements long.
pub(crate) const STRIDE_MAX: u64 = 0x7fff_fff0;
/// PING and padding, of the length that header protection needs.
pub(crate) const PINGS: [u8; 4] = [PING, PADDING, PADDING, PADDING];
const NUMBER_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const ACK_ECN: u8 = 0x03;
const CRYPTO: u8 = 0x06;
const CONNECTION_CLOSE: u8 = 0x1c;

/// Encryption level of a packet [RFC 9001 §4]; also an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Initial,
    Handshake,
    Data,
}

/// One end of a handshake, with TLS of either role.
pub(crate) struct Bare {
    tls: Connection,
    suite: Suite,
    side: Side,
    peer_id: Vec<u8>,
    keys: [Option<Keys>; 3],
    /// Level that TLS writes at.
    level: Level,
    /// Bytes of CRYPTO frames that TLS has read, by level.
    received: [u64; 3],
    /// Bytes that TLS has written and no frame has taken, by level.
    written: [Vec<u8>; 3],
    /// Code of the peer's CONNECTION_CLOSE.
    close_code: Option<u64>,
}

impl Bare {
    /// A dialler, whose TLS has written its first message.
    pub(crate) fn dialler() -> Self {
        Self::dialler_of(tls::ALPN)
    }

    /// One of another application protocol.
    pub(crate) fn dialler_of(alpn: &[u8]) -> Self {
        let mut parameters = vec![0x0f, ID.len() as u8];
        parameters.extend(ID);
        let name = rustls::pki_types::ServerName::try_from("anabranch").expect("a name");
        let tls = rustls::quic::ClientConnection::new(
            tls::dialler(alpn).into(),
            Version::V1,
            name,
            parameters,
        )
        .expect("TLS that knows QUIC");
        let mut bare = Self::new(tls.into(), Side::Client);
        bare.peer_id = vec![9; 8];
        bare.begin(&[9; 8]);
        bare.write_tls();
        bare
    }

    /// A listener, which learns the connection IDs from the first packet of a dialler.
    pub(crate) fn listener() -> Self {
        let tls = rustls::quic::ServerConnection::new(tls::listener().into(), Version::V1, vec![])
            .expect("TLS that knows QUIC");
        Self::new(tls.into(), Side::Server)
    }

    fn new(tls: Connection, side: Side) -> Self {
        let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256
            .tls13()
            .and_then(|suite| suite.quic_suite())
            .expect("QUIC's first suite");
        Self {
            tls,
            suite,
            side,
            peer_id: Vec::new(),
            keys: [None, None, None],
            level: Level::Initial,
            received: [0; 3],
            written: Default::default(),
            close_code: None,
        }
    }

    fn begin(&mut self, first_id: &[u8]) {
        let keys = self.suite.keys(first_id, self.side, Version::V1);
        self.keys[Level::Initial as usize] = Some(keys);
    }

    /// Lets TLS write all that it has.
    fn write_tls(&mut self) {
        loop {
            let written = &mut self.written[self.level as usize];
            let before = written.len();
            let (level, keys) = match self.tls.write_hs(written) {
                Some(KeyChange::Handshake { keys }) => (Level::Handshake, keys),
                Some(KeyChange::OneRtt { keys, .. }) => (Level::Data, keys),
                None if written.len() > before => continue,
                None => return,
            };
            self.keys[level as usize] = Some(keys);
            self.level = level;
        }
    }

    /// CRYPTO frame with all that TLS has written at this level since the last call.
    pub(crate) fn crypto_frame(&mut self, level: Level) -> Vec<u8> {
        let written = std::mem::take(&mut self.written[level as usize]);
        let mut frame = vec![CRYPTO, 0];
        frame.extend((0x4000 | written.len() as u16).to_be_bytes());
        frame.extend(written);
        frame
    }

    /// Processes the long-header packets of a datagram.
    pub(crate) fn receive(&mut self, datagram: &[u8]) {
        let mut rest = datagram.to_vec();
        while rest.first().is_some_and(|first| first & 0x80 != 0) {
            let level = match rest[0] >> 4 & 3 {
                0 => Level::Initial,
                2 => Level::Handshake,
                other => panic!("a packet of type {other}"),
            };
            let destination = 6..6 + usize::from(rest[5]);
            let source = destination.end + 1;
            let source = source..source + usize::from(rest[destination.end]);
            if self.peer_id.is_empty() {
                let first_id = rest[destination].to_vec();
                self.begin(&first_id);
            }
            self.peer_id = rest[source.clone()].to_vec();
            let mut at = source.end;
            if level == Level::Initial {
                at += varint(&rest, &mut at) as usize;
            }
            let length = varint(&rest, &mut at) as usize;
            let mut packet = rest;
            rest = packet.split_off(at + length);
            if let Some(frames) = self.open(level, &mut packet, at) {
                self.read_frames(level, &frames);
            }
        }
    }

    /// Removes the protection of a packet whose number is at `at`; `None` without the right keys.
    fn open(&self, level: Level, packet: &mut [u8], at: usize) -> Option<Vec<u8>> {
        let keys = &self.keys[level as usize].as_ref()?.remote;
        let (header, body) = packet.split_at_mut(at);
        let (number, sample) = body.split_at_mut(4);
        keys.header
            .decrypt_in_place(
                &sample[..keys.header.sample_len()],
                &mut header[0],
                &mut number[..],
            )
            .expect("a sample");
        let number_bytes = usize::from(header[0] & 3) + 1;
        let number = number[..number_bytes]
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte));
        let (header, payload) = packet.split_at_mut(at + number_bytes);
        let frames = keys.packet.decrypt_in_place(number, header, payload);
        // Numbers are taken as written, so numbers beyond the range of one or two bytes are not decoded.
        Some(frames.ok()?.to_vec())
    }

    /// Hands the bytes of CRYPTO frames to TLS.
    fn read_frames(&mut self, level: Level, frames: &[u8]) {
        let mut at = 0;
        while let Some(&kind) = frames.get(at) {
            at += 1;
            match kind {
                PADDING | PING => {}
                ACK | ACK_ECN => {
                    let (_, _) = (varint(frames, &mut at), varint(frames, &mut at));
                    let ranges = varint(frames, &mut at);
                    let more = if kind == ACK_ECN { 3 } else { 0 };
                    for _ in 0..1 + 2 * ranges + more {
                        varint(frames, &mut at);
                    }
                }
                CRYPTO => {
                    let offset = varint(frames, &mut at);
                    let length = varint(frames, &mut at) as usize;
                    let received = &mut self.received[level as usize];
                    if offset == *received {
                        *received += length as u64;
                        if self.tls.read_hs(&frames[at..at + length]).is_err() {
                            return;
                        }
                        self.write_tls();
                    }
                    at += length;
                }
                // Nothing follows it.
                CONNECTION_CLOSE => {
                    self.close_code = Some(varint(frames, &mut at));
                    return;
                }
                _ => return,
            }
        }
    }

    /// Code with which the peer closed the connection.
    pub(crate) fn close_code(&self) -> Option<u64> {
        self.close_code
    }

    /// CONNECTION_CLOSE of QUIC itself, with a code below 2¹⁴ and no reason.
    pub(crate) fn close_frame(code: u16) -> Vec<u8> {
        let [high, low] = (0x4000 | code).to_be_bytes();
        vec![CONNECTION_CLOSE, high, low, PADDING, PADDING]
    }

    /// True once it can protect packets of this level.
    pub(crate) fn has_keys(&self, level: Level) -> bool {
        self.keys[level as usize].is_some()
    }

    /// A packet with this number and these frames.
    pub(crate) fn packet(&self, level: Level, number: u64, frames: &[u8]) -> Vec<u8> {
        let keys = &self.keys[level as usize].as_ref().expect("keys").local;
        let mut packet = Vec::new();
        if level == Level::Data {
            packet.push(0x43);
            packet.extend(&self.peer_id);
        } else {
            packet.push(0xc3 | if level == Level::Handshake { 0x20 } else { 0 });
            packet.extend([0, 0, 0, 1, self.peer_id.len() as u8]);
            packet.extend(&self.peer_id);
            packet.push(ID.len() as u8);
            packet.extend(ID);
            if level == Level::Initial {
                packet.push(0);
            }
            let length = NUMBER_BYTES + frames.len() + TAG_BYTES;
            packet.extend((0x4000 | length as u16).to_be_bytes());
        }
        let at = packet.len();
        packet.extend((number as u32).to_be_bytes());
        let mut payload = frames.to_vec();
        let tag = keys
            .packet
            .encrypt_in_place(number, &packet, &mut payload)
            .expect("short enough");
        packet.extend(payload);
        packet.extend(tag.as_ref());
        let (header, body) = packet.split_at_mut(at);
        let (number, sample) = body.split_at_mut(NUMBER_BYTES);
        keys.header
            .encrypt_in_place(&sample[..keys.header.sample_len()], &mut header[0], number)
            .expect("a sample");
        packet
    }
}

/// Answers to a dialler's first packet that end its connection in a panic of the library: after the hello, 64 pings with far
/// numbers in each of two packet number spaces, which it acknowledges in one packet.
pub(crate) fn overfilling_answers(first: &[u8]) -> Vec<Vec<u8>> {
    let mut bare = Bare::listener();
    bare.receive(first);
    let hello = bare.crypto_frame(Level::Initial);
    let mut packets = vec![bare.packet(Level::Initial, 0, &hello)];
    for level in [Level::Initial, Level::Handshake] {
        packets.extend((1..=64).map(|k| bare.packet(level, k * STRIDE_MAX, &PINGS)));
    }
    packets
}

/// A variable-length integer [RFC 9000 §16] at `at`, which moves behind it.
fn varint(bytes: &[u8], at: &mut usize) -> u64 {
    let length = 1 << (bytes[*at] >> 6);
    let value = bytes[*at..*at + length]
        .iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte));
    *at += length;
    value & (u64::MAX >> (64 - 8 * length + 2))
}
