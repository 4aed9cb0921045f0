//! Hostile peer: the cost of an authenticated peer that sends arbitrary data, in bytes as the allocator counts them.
//!
//! The peer follows `spec/wire.md`: a bare channel, and containers built by hand. Allocations are counted by thread,
//! so that other tests, and the test runner, do not disturb.

use std::{net::SocketAddr, num::NonZeroUsize, time::Duration};

use anabranch_base::{ChannelId, Instant, Rate, SessionId, SocketId, StreamId};
use anabranch_channel::{Config as ChannelConfig, Endpoint};
use anabranch_session::{
    AllowList, Config, Engine, Event, Order, Received, SecretKey, SessionCloseReason, StreamSpec,
    wire::{
        Control, VERSION,
        frame::{Place, write_fragment},
        promised::{PROMISED_MAX, Promised},
    },
};
use bytes::BytesMut;

/// Wall-clock time of [`Instant::EPOCH`]; its value influences nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "one reading, of which nothing depends"
)]
fn epoch() -> std::time::Instant {
    std::time::Instant::now()
}

const SOCKET: SocketId = SocketId(0);
const REMOTE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    4433,
);
const DELAY: Duration = Duration::from_millis(5);
const BATCH: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");
/// Smallest window that the engine accepts.
const WINDOW: u64 = (16 << 20) + 4096;
/// Memory of a session that has been quiet: buffers, tables, and QUIC's records of packets.
const QUIET_BYTES: i64 = 512 << 10;

struct Pair {
    engine: Engine,
    endpoint: Endpoint,
    channel: ChannelId,
    now: Instant,
    session: SessionId,
    /// Bytes allocated, and held, by the engine alone.
    total: i64,
    held: i64,
    held_max: i64,
    opened: Vec<StreamId>,
    closed: Option<SessionCloseReason>,
    reads: bool,
}

fn received(data: &[u8]) -> Received {
    Received {
        socket: SOCKET,
        remote: REMOTE,
        local_ip: None,
        ecn: None,
        data: BytesMut::from(data),
    }
}

impl Pair {
    fn new(session_window: u64) -> Self {
        let epoch = epoch();
        let config = Config {
            stream_window_bytes: WINDOW,
            session_window_bytes: session_window,
            ..Config::default()
        };
        let (own, key) = (SecretKey::from_seed([1; 32]), SecretKey::from_seed([2; 32]));
        let engine = Engine::new(epoch, own, AllowList::everyone_listed(), config, [1; 32]);
        let none = AllowList::default();
        let mut endpoint = Endpoint::new(epoch, key, none, ChannelConfig::default(), [2; 32]);
        let now = Instant::from_secs(1);
        let channel = endpoint
            .connect(now, SOCKET, REMOTE, engine.node_id(), None)
            .expect("an address that can be dialled");
        let mut pair = Self {
            engine,
            endpoint,
            channel,
            now,
            session: SessionId(0),
            total: 0,
            held: 0,
            held_max: 0,
            opened: Vec::new(),
            closed: None,
            reads: false,
        };
        for _ in 0..4 {
            pair.exchange();
        }
        pair.introduce();
        pair.session = *pair.engine.session_ids().first().expect("introduced");
        pair.exchange();
        (pair.total, pair.held, pair.held_max) = (0, 0, 0);
        pair
    }

    fn introduce(&mut self) {
        let channel = self.endpoint.channel(self.channel).expect("connected");
        let secret = channel.export_secret(b"EXPORTER anabranch session");
        let binding = channel.export_secret(b"EXPORTER anabranch join");
        let (secret, binding) = (secret.expect("connected"), binding.expect("connected"));
        let id = blake3::derive_key("anabranch 2026-11 session id", &secret);
        let key = blake3::derive_key("anabranch 2026-11 join key", &secret);
        let proof = blake3::keyed_hash(&key, &binding);
        let mut container = vec![0];
        Control::Join {
            session: id[..16].try_into().expect("16 bytes"),
            proof: proof.as_bytes()[..16].try_into().expect("16 bytes"),
        }
        .write(&mut container);
        Control::Hello {
            version: VERSION,
            stream_window_bytes: WINDOW,
            session_window_bytes: WINDOW,
        }
        .write(&mut container);
        self.send_container(container);
    }

    /// Sends one container, and delivers the responses.
    fn send_container(&mut self, container: Vec<u8>) {
        assert!(container.len() <= 1150, "{}", container.len());
        if let Some(channel) = self.endpoint.channel(self.channel) {
            channel.send(container);
        }
        self.exchange();
    }

    fn counted<T>(&mut self, work: impl FnOnce(&mut Engine) -> T) -> T {
        let mut result = None;
        let used = allocation_counter::measure(|| result = Some(work(&mut self.engine)));
        self.total += used.bytes_total as i64;
        self.held += used.bytes_current;
        self.held_max = self.held_max.max(self.held);
        result.expect("it ran")
    }

    fn exchange(&mut self) {
        self.now += DELAY;
        let now = self.now;
        for packet in self.packets() {
            let packet = received(&packet);
            self.counted(|engine| engine.handle_packet(now, packet));
            self.react();
        }
        self.now += DELAY;
        let now = self.now;
        self.counted(|engine| engine.handle_timeout(now));
        let (mut buffer, mut response) = (Vec::with_capacity(1 << 16), Vec::new());
        loop {
            let sent = self.counted(|engine| {
                let transmit = engine.poll_transmit(now, BATCH, &mut buffer)?;
                Some((transmit.size, transmit.segment_size))
            });
            let Some((size, segment)) = sent else { break };
            for data in buffer[..size].chunks(segment.unwrap_or(size).max(1)) {
                self.endpoint
                    .handle_packet(now, received(data), &mut response);
            }
        }
        if let Some(channel) = self.endpoint.channel(self.channel) {
            channel.handle_timeout(now);
        }
        for packet in self.packets() {
            let packet = received(&packet);
            self.counted(|engine| engine.handle_packet(now, packet));
            self.react();
        }
    }

    fn packets(&mut self) -> Vec<Vec<u8>> {
        let (mut packets, mut buffer) = (Vec::new(), Vec::new());
        let now = self.now;
        let Some(channel) = self.endpoint.channel(self.channel) else {
            return packets;
        };
        while channel.receive().is_some() {}
        while let Some(transmit) = channel.poll_transmit(now, BATCH, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            packets.extend(buffer[..transmit.size].chunks(segment).map(<[u8]>::to_vec));
        }
        self.endpoint.settle_channel(self.channel);
        packets
    }

    /// Runs the application: it accepts 1,024 streams and refuses others, as the host does; it reads, or does not.
    fn react(&mut self) {
        loop {
            let event = self.counted(Engine::poll_event);
            match event {
                None => return,
                Some(Event::StreamOpened {
                    session, stream, ..
                }) => {
                    if self.opened.len() < 1024 {
                        self.opened.push(stream);
                    } else {
                        let _ =
                            self.counted(|engine| engine.session(session)?.stream(stream).stop(16));
                        let _ = self
                            .counted(|engine| engine.session(session)?.stream(stream).reset(16));
                    }
                }
                Some(Event::Readable { session, stream }) if self.reads => {
                    while self
                        .counted(|engine| {
                            engine
                                .session(session)
                                .ok()
                                .and_then(|session| session.stream(stream).receive())
                        })
                        .is_some()
                    {}
                }
                Some(Event::Closed { reason, .. }) => self.closed = Some(reason),
                Some(_) => {}
            }
        }
    }

    #[track_caller]
    fn assert_broken(&self) {
        let is_broken = matches!(self.closed, Some(SessionCloseReason::Protocol(_)));
        assert!(is_broken, "{:?}", self.closed);
    }
}

fn open(out: &mut Vec<u8>, index: u64, spec: StreamSpec) {
    let stream = StreamId::new(index, true);
    Control::Open {
        stream,
        spec: Box::new(spec),
    }
    .write(out);
}

fn kind(reliable: bool, order: Order) -> StreamSpec {
    StreamSpec {
        reliable,
        order,
        ..StreamSpec::default()
    }
}

fn fragment(out: &mut Vec<u8>, sequence: u64, offset: usize, is_final: bool) {
    let place = Place {
        stream: StreamId(0),
        sequence,
        offset,
    };
    write_fragment(out, place, is_final, true, &[9]);
}

/// Sends packets full of the frames that `write` makes for each number, until the session is over or `count` were written.
fn flood(pair: &mut Pair, count: u64, mut write: impl FnMut(&mut Vec<u8>, u64)) -> u64 {
    let mut sent = 0;
    while sent < count && pair.closed.is_none() {
        let mut container = vec![0];
        while container.len() < 1000 && sent < count {
            write(&mut container, sent);
            sent += 1;
        }
        pair.send_container(container);
    }
    sent
}

const FAR: usize = (16 << 20) - 16;

/// A peer that states enormous promises, in every frame others, costs no more memory than one that states none.
#[test]
fn statements_of_promises_replace_each_other() {
    let mut pair = Pair::new(WINDOW);
    let list = |number: u64| -> Vec<Promised> {
        let one = |place: usize| Promised {
            is_durable: place == 0,
            age: Duration::from_secs(1 << 40),
            rate: Rate::from_bps((1 << 62) - 1 - number),
        };
        (0..PROMISED_MAX).map(one).collect()
    };
    let sent = flood(&mut pair, 20_000, |out, number| {
        if number.is_multiple_of(2) {
            Control::Promised(list(number)).write(out);
        } else {
            Control::Beside {
                interface: (1 << 62) - 1 - number,
                rate: Rate::from_bps((1 << 62) - 1),
                busy: (1 << 62) - 1,
                promised: list(number),
            }
            .write(out);
        }
    });
    assert_eq!((sent, &pair.closed), (20_000, &None));
    assert!(pair.held_max < QUIET_BYTES, "{} bytes", pair.held_max);
    // A promise beside them is refused, if it is asked for; the session goes on.
    let (now, session) = (pair.now, pair.session);
    let spec = StreamSpec::default();
    let opened = pair.counted(|engine| engine.session(session)?.open_stream(now, spec));
    assert!(opened.is_ok(), "{opened:?}");
}

#[test]
fn a_newer_peer_is_understood_and_one_without_a_version_is_not() {
    for (version, in_use) in [
        (1, Some(1)),
        (VERSION, Some(VERSION)),
        (VERSION + 1, Some(VERSION)),
        (0, None),
    ] {
        let mut pair = Pair::new(WINDOW);
        let mut container = vec![0];
        Control::Hello {
            version,
            stream_window_bytes: WINDOW,
            session_window_bytes: WINDOW,
        }
        .write(&mut container);
        pair.send_container(container);
        let session = pair.engine.session(pair.session).ok();
        let used = session.map(|mut session| session.stats().wire_version);
        assert_eq!(used, in_use, "version {version}");
        let refused = in_use.is_none().then_some(SessionCloseReason::Version(0));
        assert_eq!(pair.closed, refused);
    }
}

/// The first implementations of version 1 close sessions with others.
#[test]
fn a_peer_that_refuses_the_version_is_reported_as_older() {
    const CODE_VERSION: u32 = 4;
    let mut pair = Pair::new(WINDOW);
    let now = pair.now;
    let channel = pair.endpoint.channel(pair.channel).expect("connected");
    channel.close(now, CODE_VERSION, "wire version 2");
    for _ in 0..4 {
        pair.exchange();
    }
    assert_eq!(pair.closed, Some(SessionCloseReason::VersionRefused));
    let words = SessionCloseReason::VersionRefused.to_string();
    let version = format!("wire version {VERSION} ");
    assert!(
        words.contains(&version) && words.contains("upgrade"),
        "{words}"
    );
}

/// The exchange of four containers that took 32 MB, and sixty such pairs in one packet, which took a gigabyte.
#[test]
fn far_fragments_and_skips_of_what_was_never_sent() {
    let mut pair = Pair::new(4 * WINDOW);
    for container in [
        &[0, 0x03, 0x00, 0x03, 0x00, 0x80, 0x01, 0x00][..],
        &[0, 0x4a, 0x00, 0x00, 0x80, 0xff, 0xff, 0xf0, 0x01, 0x09],
        &[0, 0x09, 0x00, 0x01, 0x81, 0x00, 0x10, 0x00],
        &[0, 0x4a, 0x00, 0x02, 0x80, 0xff, 0xff, 0xf0, 0x01, 0x09],
    ] {
        pair.send_container(container.to_vec());
    }
    pair.assert_broken();
    assert!(pair.held_max < QUIET_BYTES, "{} bytes", pair.held_max);
    drop(pair);
    let mut pair = Pair::new(4 * WINDOW);
    let mut container = vec![0];
    open(&mut container, 0, kind(true, Order::Ordered));
    for n in 0..60 {
        fragment(&mut container, 2 * n, FAR, false);
        Control::Skip {
            stream: StreamId(0),
            sequence: 2 * n + 1,
            charged_bytes: 0x0100_1000,
        }
        .write(&mut container);
    }
    pair.send_container(container);
    pair.assert_broken();
    assert!(pair.held_max < QUIET_BYTES, "{} bytes", pair.held_max);
    assert!(pair.total < 2 * QUIET_BYTES, "{} bytes in all", pair.total);
}

/// A packet full of far fragments of unreliable ADUs: no gap is filled with zeros, and no data dropped for it.
#[test]
fn far_fragments_of_unreliable_adus() {
    for partial in [false, true] {
        let mut pair = Pair::new(WINDOW);
        let mut container = vec![0];
        let spec = StreamSpec {
            partial,
            ..kind(false, Order::Unordered)
        };
        open(&mut container, 0, spec);
        for n in 0..55 {
            fragment(&mut container, n, FAR, false);
            Control::Skip {
                stream: StreamId(0),
                sequence: n,
                charged_bytes: 0,
            }
            .write(&mut container);
        }
        pair.send_container(container);
        assert_eq!(pair.closed, None);
        assert!(pair.total < QUIET_BYTES, "{} bytes in all", pair.total);
    }
}

/// The smallest ADUs, of every kind, whole or begun, that are not read: they take the memory that the windows permit, and a
/// fraction more.
#[test]
fn one_byte_adus_take_what_the_windows_say() {
    const COUNT: u64 = 400_000;
    for (reliable, order, first, offset, is_final) in [
        (true, Order::Unordered, 0, 0, true),
        // They wait for the first one.
        (true, Order::Ordered, 1, 0, true),
        (true, Order::Unordered, 0, 0, false),
        (true, Order::Unordered, 0, 1, false),
        (false, Order::Unordered, 0, 0, true),
        (false, Order::Unordered, 0, 0, false),
        (false, Order::Unordered, 0, 300, false),
    ] {
        let mut pair = Pair::new(WINDOW);
        let mut container = vec![0];
        open(&mut container, 0, kind(reliable, order));
        pair.send_container(container);
        let sent = flood(&mut pair, COUNT, |out, n| {
            fragment(out, first + n, offset, is_final);
        });
        let case = (reliable, order, first, offset, is_final);
        assert_eq!(
            pair.closed.is_some(),
            reliable,
            "{case:?}: {:?}",
            pair.closed
        );
        assert!(sent > 40_000, "{case:?}: {sent}");
        let part = pair.held_max as f64 / WINDOW as f64;
        println!("{case:?}: {sent} ADUs, {part:.2} of the window");
        assert!(part < 1.25, "{case:?}: {part} of the window");
    }
}

/// One-byte fragments of one ADU, the last first, or with gaps of a byte that never arrives.
#[test]
fn one_byte_fragments_take_what_the_windows_say() {
    const COUNT: u64 = 60_000;
    for (reliable, step) in [(true, 1), (true, 2), (false, 2), (true, 270), (false, 270)] {
        let mut pair = Pair::new(WINDOW);
        let mut container = vec![0];
        open(&mut container, 0, kind(reliable, Order::Unordered));
        pair.send_container(container);
        flood(&mut pair, COUNT, |out, n| {
            let at = (COUNT - n) as usize * step;
            fragment(out, 0, at, false);
        });
        assert_eq!(pair.closed, None);
        let extent = (COUNT as usize * step) as i64;
        let most = extent + extent / 4 + QUIET_BYTES;
        assert!(pair.held_max < most, "{step}: {} bytes", pair.held_max);
    }
}

/// Duplex streams that are not accepted, as many as fit into 2.6 MB, from a peer that never acknowledges the responses.
#[test]
fn streams_that_nobody_accepts_are_bounded() {
    let mut pair = Pair::new(WINDOW);
    let sent = flood(&mut pair, 250_277, |out, n| {
        let spec = StreamSpec {
            duplex: true,
            ..kind(true, Order::Ordered)
        };
        open(out, n, spec);
    });
    pair.assert_broken();
    assert!(sent < 65_536 + 200, "{sent} streams");
    let most = 16 << 20;
    assert!(pair.held_max < most, "{} bytes", pair.held_max);
    drop(pair);
    // Streams that are reset leave no state, and their number is not limited.
    let mut pair = Pair::new(WINDOW);
    flood(&mut pair, 250_277, |out, n| {
        let stream = StreamId::new(n, true);
        open(out, n, kind(true, Order::Ordered));
        Control::Reset {
            stream,
            code: 0,
            charged_bytes: 0,
        }
        .write(out);
    });
    assert_eq!(pair.closed, None);
    assert!(pair.held_max < QUIET_BYTES, "{} bytes", pair.held_max);
}

/// Numbers of streams and of ADUs with a gap after each: gaps that would have to be recorded end the session, or are dropped.
#[test]
fn sparse_numbers_are_bounded() {
    let mut pair = Pair::new(WINDOW);
    pair.reads = true;
    let mut container = vec![0];
    for index in 0..40 {
        open(&mut container, index, kind(true, Order::Unordered));
    }
    pair.send_container(container);
    let sent = flood(&mut pair, 400_000, |out, n| {
        let place = Place {
            stream: StreamId::new(n % 40, true),
            sequence: n / 40 * 2 + 1,
            offset: 0,
        };
        write_fragment(out, place, true, true, &[9]);
    });
    pair.assert_broken();
    assert!(sent < 70_000, "{sent} gaps");
    assert!(pair.held_max < 8 << 20, "{} bytes", pair.held_max);
    drop(pair);
    let mut pair = Pair::new(WINDOW);
    let sent = flood(&mut pair, 200_000, |out, n| {
        open(out, 2 * n, kind(true, Order::Unordered));
        Control::Reset {
            stream: StreamId::new(2 * n, true),
            code: 0,
            charged_bytes: 0,
        }
        .write(out);
    });
    pair.assert_broken();
    assert!(sent < 66_000, "{sent} gaps");
    assert!(pair.held_max < 8 << 20, "{} bytes", pair.held_max);
}

/// SKIPs of the largest ADUs, each of which makes the node renew both credits.
#[test]
fn answers_do_not_gather() {
    let mut pair = Pair::new(WINDOW);
    let mut container = vec![0];
    open(&mut container, 0, kind(true, Order::Unordered));
    pair.send_container(container);
    flood(&mut pair, 100_000, |out, n| {
        Control::Skip {
            stream: StreamId(0),
            sequence: n,
            charged_bytes: 128 + (16 << 20),
        }
        .write(out);
    });
    assert_eq!(pair.closed, None);
    assert!(pair.held_max < QUIET_BYTES, "{} bytes", pair.held_max);
}
