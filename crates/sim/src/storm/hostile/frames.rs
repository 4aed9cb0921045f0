//! Containers of a hostile peer: legal frames about its streams, and frames whose every field is an ordinary number, an
//! edge of its range, or beyond it; now and then random bytes.

use std::time::Duration;

use anabranch_base::{Random, StreamId};
use anabranch_channel::Channel;
use anabranch_session::{
    Order, Priority, StreamSpec,
    wire::{
        Control, VERSION,
        frame::{Place, write_fragment},
    },
};

/// Largest number that a varint holds.
const NUMBER_MAX: u64 = (1 << 62) - 1;
/// Number of streams that it refers to.
const STREAMS: usize = 24;
/// Approximate largest size of a container.
const BYTES_MAX: usize = 1_100;

/// Frames that establish a session, as in `spec/wire.md` §6.
pub(super) fn introduction(channel: &Channel) -> Vec<u8> {
    let secret = |label: &[u8]| channel.export_secret(label).unwrap_or_default();
    let (secret, binding) = (
        secret(b"EXPORTER anabranch session"),
        secret(b"EXPORTER anabranch join"),
    );
    let id = blake3::derive_key("anabranch 2026-11 session id", &secret);
    let key = blake3::derive_key("anabranch 2026-11 join key", &secret);
    let proof = blake3::keyed_hash(&key, &binding);
    let first = |bytes: &[u8; 32]| bytes.first_chunk().copied().unwrap_or_default();
    let mut container = vec![0];
    let join = Control::Join {
        session: first(&id),
        proof: first(proof.as_bytes()),
    };
    let hello = Control::Hello {
        version: VERSION,
        stream_window_bytes: 1 << 20,
        session_window_bytes: 1 << 22,
    };
    join.write(&mut container);
    hello.write(&mut container);
    container
}

/// Generator of a hostile peer's frames on one channel, with the streams that it has announced and the probability with
/// which it breaks a rule. A peer that breaks none for a while gets farther.
#[derive(Debug)]
pub(super) struct Generator {
    announced: Vec<StreamId>,
    wildness: f64,
}

impl Generator {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            announced: Vec::new(),
            wildness: [0.0, 0.000_5, 0.005, 0.2][random.below(4) as usize],
        }
    }

    /// Writes a container of some frames.
    pub(super) fn container(&mut self, random: &mut Random) -> Vec<u8> {
        let mut out = vec![0];
        if random.chance(self.wildness) {
            out[0] = random.below(256) as u8;
        }
        for _ in 0..random.between(1, 24) {
            if out.len() > BYTES_MAX {
                break;
            }
            if random.chance(self.wildness) {
                match random.below(3) {
                    0 => noise(random, &mut out),
                    1 => Fields::wild(random).fragment(&mut out),
                    _ => Fields::wild(random).control().write(&mut out),
                }
            } else {
                self.legal(random, &mut out);
            }
        }
        if random.chance(self.wildness) {
            let keep = random.between(1, out.len() as u64) as usize;
            out.truncate(keep);
        }
        out.truncate(BYTES_MAX + 80);
        out
    }

    /// Writes a frame that breaks no rule by itself; all together may, for example by exceeding the credit.
    fn legal(&mut self, random: &mut Random, out: &mut Vec<u8>) {
        if self.announced.is_empty() || (self.announced.len() < STREAMS && random.chance(0.1)) {
            let stream = StreamId::new(self.announced.len() as u64, true);
            self.announced.push(stream);
            let spec = Fields::tame(random, stream).spec();
            Control::Open {
                stream,
                spec: Box::new(spec),
            }
            .write(out);
            return;
        }
        let stream = self.announced[random.below(self.announced.len() as u64) as usize];
        let fields = Fields::tame(random, stream);
        if fields.random.chance(0.6) {
            fields.fragment(out);
        } else {
            fields.control().write(out);
        }
    }
}

/// Random fields of one frame.
struct Fields<'a> {
    random: &'a mut Random,
    /// `None`: any stream, and any number in every field.
    stream: Option<StreamId>,
}

fn noise(random: &mut Random, out: &mut Vec<u8>) {
    let mut bytes = vec![0; random.between(1, 40) as usize];
    random.fill(&mut bytes);
    out.extend(bytes);
}

fn token(random: &mut Random) -> [u8; 16] {
    let mut token = [0; 16];
    random.fill(&mut token);
    token
}

impl<'a> Fields<'a> {
    fn wild(random: &'a mut Random) -> Self {
        let stream = None;
        Self { random, stream }
    }

    fn tame(random: &'a mut Random, stream: StreamId) -> Self {
        let stream = Some(stream);
        Self { random, stream }
    }

    fn is_wild(&self) -> bool {
        self.stream.is_none()
    }

    /// A number below `usual`; in a wild frame often an edge case.
    fn number(&mut self, usual: u64) -> u64 {
        const EDGES: [u64; 10] = [
            0,
            1,
            63,
            64,
            16_383,
            16_384,
            (16 << 20) - 16,
            1 << 30,
            NUMBER_MAX - 1,
            NUMBER_MAX,
        ];
        if self.is_wild() && self.random.chance(0.4) {
            EDGES[self.random.below(EDGES.len() as u64) as usize]
        } else {
            self.random.below(usual)
        }
    }

    fn stream(&mut self) -> StreamId {
        self.stream.unwrap_or_else(|| {
            let index = self.number(STREAMS as u64).min(NUMBER_MAX >> 1);
            StreamId::new(index, !self.random.chance(0.1))
        })
    }

    /// Writes a fragment. Many begin far into their ADU, which costs a careless receiver most.
    fn fragment(mut self, out: &mut Vec<u8>) {
        let place = Place {
            stream: self.stream(),
            sequence: self.number(2_000),
            offset: match self.random.below(4) {
                0 => self.number(250_000) as usize,
                1 => self.number(2_000) as usize,
                _ => 0,
            },
        };
        let payload = vec![7; self.random.between(1, 200) as usize];
        let bytes = if self.random.chance(0.3) {
            1
        } else {
            payload.len()
        };
        write_fragment(out, place, self.random.chance(0.5), true, &payload[..bytes]);
    }

    fn control(mut self) -> Control {
        let code = self.random.below(1 << 32) as u32;
        let stream = self.stream();
        let first = if self.is_wild() { 0 } else { 4 };
        match first + self.random.below(40 - first) {
            0 => Control::Hello {
                version: self.number(3),
                stream_window_bytes: self.number(4 << 20),
                session_window_bytes: self.number(4 << 20),
            },
            1 => Control::Join {
                session: token(self.random),
                proof: token(self.random),
            },
            2 => Control::Replace {
                session: token(self.random),
            },
            3 => Control::Open {
                stream,
                spec: Box::new(self.spec()),
            },
            4..8 => Control::StreamCredit {
                stream,
                bytes: self.number(4 << 20),
            },
            8..10 => Control::SessionCredit {
                bytes: self.number(4 << 20),
            },
            10 => Control::Finish {
                stream,
                end: self.number(4_000),
            },
            11 => Control::Reset {
                stream,
                code,
                charged_bytes: self.number(200_000),
            },
            12 => Control::Stop { stream, code },
            13..32 => Control::Skip {
                stream,
                sequence: self.number(2_000),
                charged_bytes: self.number(250_000),
            },
            _ => Control::Report {
                packets: self.number(1 << 20),
                bytes: self.number(1 << 30),
                delay_min: Duration::from_micros(self.number(1 << 20)),
                delay_mean: Duration::from_micros(self.number(1 << 20)),
                delay_max: Duration::from_micros(self.number(1 << 20)),
            },
        }
    }

    fn spec(self) -> StreamSpec {
        let reliable = self.random.chance(0.6);
        let is_wild = self.is_wild();
        let random = &mut *self.random;
        StreamSpec {
            reliable,
            order: if random.chance(0.5) {
                Order::Ordered
            } else {
                Order::Unordered
            },
            lifetime: random
                .chance(0.3)
                .then(|| Duration::from_millis(random.between(1, 5_000))),
            priority: Priority(random.below(256) as u8),
            weight: if is_wild { 0 } else { 1 } + random.below(10_000) as u32,
            duplex: random.chance(0.3),
            partial: (is_wild || !reliable) && random.chance(0.3),
            label: "x".repeat(random.below(if is_wild { 140 } else { 128 }) as usize),
            ..StreamSpec::default()
        }
    }
}
