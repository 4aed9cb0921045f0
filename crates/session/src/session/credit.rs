//! Properties of credit: a conforming sender never runs out of it for good, and a hostile one cannot exceed it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use anabranch_base::{ChannelId, Instant, NodeId, Seed, SessionId, StreamId};
use anabranch_spec::{ADU_BYTES_MAX, Order, StreamSpec};
use bytes::Bytes;
use proptest::prelude::*;

use super::{Parts, ProtocolError, Session};
use crate::{
    config::{ADU_MARGIN_BYTES, Config},
    event::Event,
    send::{AduOutcome, Receipt, SendStream, Settled},
    wire::{Control, frame::Place, frame::write_fragment},
};

const CHANNEL: ChannelId = ChannelId(0);
/// Smallest stream window of a node that accepts ADUs of every size.
const STREAM_WINDOW_MIN_BYTES: u64 = ADU_BYTES_MAX as u64 + ADU_MARGIN_BYTES;

/// The receiving session, with windows that limit the sender. They bypass the configuration's minimum, which is meant for
/// ADUs of 16 MiB.
fn receiver(stream_window: u64, session_window: u64) -> Session {
    let mut session = Session::new(
        Instant::EPOCH,
        Parts {
            id: SessionId(1),
            peer: NodeId::from_public_key([7; 32]),
            is_initiator: false,
            config: Config {
                stream_window_bytes: stream_window,
                session_window_bytes: session_window,
                ..Config::default()
            },
            seed: Seed(1),
            probation: None,
        },
    );
    session.control.clear();
    session
}

/// Receives one container.
fn receive_container(
    session: &mut Session,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<VecDeque<Event>, ProtocolError> {
    let (mut container, mut events) = (vec![0], VecDeque::new());
    write(&mut container);
    session.on_container(Instant::EPOCH, CHANNEL, container.into(), &mut events)?;
    Ok(events)
}

fn control(session: &mut Session, control: &Control) -> Result<VecDeque<Event>, ProtocolError> {
    receive_container(session, |out| control.write(out))
}

fn read_all(session: &mut Session, stream: StreamId) -> usize {
    let mut events = VecDeque::new();
    std::iter::from_fn(|| session.receive(stream, &mut events)).count()
}

/// Bytes held and reserved, as far as credit has to bound them.
fn held(session: &Session) -> u64 {
    session
        .streams
        .recv
        .values()
        .map(|recv| recv.held_bytes() as u64)
        .sum()
}

fn check(session: &Session) {
    let window = session.config.session_window_bytes;
    assert!(
        session.flow.consumed() <= session.flow.load().seen
            && session.flow.load().seen <= session.flow.granted()
    );
    assert!(session.flow.granted() <= session.flow.consumed() + window);
    let reliable = session
        .streams
        .recv
        .values()
        .filter(|recv| recv.spec.reliable);
    let held: u64 = reliable.map(|recv| recv.held_bytes() as u64).sum();
    assert!(held <= session.flow.load().seen - session.flow.consumed());
    assert!(session.flow.load().held_bytes as u64 <= window);
    assert!(session.flow.load().reserved_bytes as u64 <= window / 16);
}

/// A message in transit; messages arrive in any order.
#[derive(Clone, Debug)]
enum Mail {
    Fragment {
        place: Place,
        data: Bytes,
        is_final: bool,
    },
    Control(Control),
}

/// A conforming sender of a few streams, and the network.
struct Sender {
    now: Instant,
    streams: BTreeMap<StreamId, SendStream>,
    charged: u64,
    credit: u64,
    mail: Vec<Mail>,
    read: usize,
}

const STREAM_WINDOW: u64 = 6_000;
const SESSION_WINDOW: u64 = 9_000;

impl Sender {
    fn open(session: &mut Session, specs: &[(bool, Option<u64>)]) -> Self {
        let mut streams = BTreeMap::new();
        for (index, &(is_ordered, lifetime)) in (0u64..).zip(specs) {
            let stream = StreamId::new(index, true);
            let spec = StreamSpec {
                order: if is_ordered {
                    Order::Ordered
                } else {
                    Order::Unordered
                },
                lifetime: lifetime.map(Duration::from_millis),
                ..StreamSpec::default()
            };
            let open = Control::Open {
                stream,
                spec: Box::new(spec.clone()),
            };
            control(session, &open).expect("honest");
            streams.insert(
                stream,
                SendStream::new(stream, Arc::new(spec), STREAM_WINDOW),
            );
        }
        Self {
            now: Instant::from_secs(1),
            streams,
            charged: 0,
            credit: SESSION_WINDOW,
            mail: Vec::new(),
            read: 0,
        }
    }

    fn pick(&self, pick: usize) -> Option<StreamId> {
        let count = self.streams.len();
        self.streams.keys().nth(pick % count.max(1)).copied()
    }

    fn settled(&mut self, stream: StreamId, settled: Vec<Settled>) {
        for one in settled {
            let (AduOutcome::Expired { skip } | AduOutcome::Dropped { skip }) = one.outcome else {
                continue;
            };
            if let Some(charged_bytes) = skip {
                self.mail.push(Mail::Control(Control::Skip {
                    stream,
                    sequence: one.sequence,
                    charged_bytes,
                }));
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let streams: Vec<StreamId> = self.streams.keys().copied().collect();
        for stream in streams {
            let mut settled = Vec::new();
            if let Some(send) = self.streams.get_mut(&stream) {
                send.expire(self.now, &mut settled);
            }
            self.settled(stream, settled);
        }
    }

    /// Sends a piece: the next one, or one of an ADU that overtakes others. False: there is none, or no credit.
    fn send(&mut self, stream: StreamId, pick: usize, size_max: usize, is_lost: bool) -> bool {
        let credit = self.credit - self.charged;
        let now = self.now;
        let Some(send) = self.streams.get_mut(&stream) else {
            return false;
        };
        let waits: Vec<u64> = send.waiting(credit).map(|adu| adu.sequence).collect();
        let piece = match waits.get(pick) {
            Some(&adu) => send.take_piece_of(now, adu, credit, |_| size_max),
            None => send.take_piece(now, credit, |_| size_max),
        };
        let Some(piece) = piece else {
            return false;
        };
        self.charged += piece.charge;
        assert!(self.charged <= self.credit);
        let length = piece.data.len();
        let settled = if is_lost {
            send.on_lost(piece.place, length)
        } else {
            self.mail.push(Mail::Fragment {
                place: piece.place,
                data: piece.data,
                is_final: piece.is_final,
            });
            send.on_acked(
                Receipt {
                    at: now,
                    channel: CHANNEL,
                    rtt: Duration::ZERO,
                },
                piece.place,
                length,
            )
        };
        self.settled(stream, settled.into_iter().collect());
        true
    }

    fn discard(&mut self, stream: StreamId) {
        let mut settled = Vec::new();
        if let Some(send) = self.streams.get_mut(&stream) {
            send.discard(&mut settled);
        }
        self.settled(stream, settled);
    }

    fn reset(&mut self, stream: StreamId) {
        if let Some(send) = self.streams.remove(&stream) {
            self.mail.push(Mail::Control(Control::Reset {
                stream,
                code: 0,
                charged_bytes: send.charged,
            }));
        }
    }

    /// Delivers a message; a fragment perhaps again later.
    fn deliver(&mut self, session: &mut Session, pick: usize, again: bool) {
        if self.mail.is_empty() {
            return;
        }
        let index = pick % self.mail.len();
        let is_fragment = matches!(self.mail[index], Mail::Fragment { .. });
        let mail = if again && is_fragment {
            self.mail[index].clone()
        } else {
            self.mail.swap_remove(index)
        };
        let result = match &mail {
            Mail::Control(frame) => control(session, frame),
            Mail::Fragment {
                place,
                data,
                is_final,
            } => receive_container(session, |out| {
                write_fragment(out, *place, *is_final, false, data);
            }),
        };
        result.expect("a conforming sender breaks no rule");
        check(session);
    }

    /// The application at the other end reads, and the credit comes back.
    fn read(&mut self, session: &mut Session, pick: usize) {
        let streams: Vec<StreamId> = session.streams.recv.keys().copied().collect();
        if !streams.is_empty() {
            self.read += read_all(session, streams[pick % streams.len()]);
        }
        for frame in std::mem::take(&mut session.control) {
            match frame {
                Control::SessionCredit { bytes } => self.credit = self.credit.max(bytes),
                Control::StreamCredit { stream, bytes } => {
                    if let Some(send) = self.streams.get_mut(&stream) {
                        send.credit = send.credit.max(bytes);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        check(session);
    }

    fn backlog(&self) -> u64 {
        self.streams.values().map(SendStream::backlog_bytes).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Losses, duplicates, every order of arrival, ADUs that overtake, that expire or are discarded, begun or not, streams that are reset: a
    /// conforming sender breaks no rule and is never out of credit for good; in the end all credit has come back, and no more.
    #[test]
    fn honest_credit_neither_leaks_nor_grows(
        specs in prop::collection::vec((any::<bool>(), prop::option::of(5u64..200)), 1..4),
        steps in prop::collection::vec(
            (0u8..20, any::<prop::sample::Index>(), 1usize..1_500, any::<bool>()), 300..900),
    ) {
        let mut session = receiver(STREAM_WINDOW, SESSION_WINDOW);
        let mut sender = Sender::open(&mut session, &specs);
        let mut gone = 0;
        for (kind, pick, size, flag) in steps {
            let index = pick.index(1 << 16);
            let stream = sender.pick(index);
            match kind {
                0..=3 => {
                    let now = sender.now;
                    if let Some(send) = stream.and_then(|id| sender.streams.get_mut(&id)) {
                        // Sizes that fit three quarters of the window.
                        let size = if flag { size } else { (size * 3).min(4_300) };
                        send.push(now, vec![7; size].into(), 0);
                    }
                }
                4..=9 => {
                    if let Some(stream) = stream {
                        sender.send(stream, if flag { usize::MAX } else { index % 5 }, size, kind == 4);
                    }
                }
                10..=15 => sender.deliver(&mut session, index, kind == 10),
                16..=17 => sender.read(&mut session, index),
                18 => sender.pass(Duration::from_millis(size as u64 / 50)),
                _ if size < 20 => {
                    if let Some(stream) = stream {
                        sender.reset(stream);
                        gone += 1;
                    }
                }
                _ if size < 300 => {
                    if let Some(stream) = stream {
                        sender.discard(stream);
                    }
                }
                _ => {}
            }
        }
        // The rest is sent: whenever nothing is in transit and all is read, something can be sent.
        let mut rounds = 0;
        loop {
            while !sender.mail.is_empty() {
                sender.deliver(&mut session, 0, false);
            }
            for index in 0..session.streams.recv.len() {
                sender.read(&mut session, index);
            }
            if sender.backlog() == 0 {
                break;
            }
            let streams: Vec<StreamId> = sender.streams.keys().copied().collect();
            let sent = streams.iter().filter(|&&stream| sender.send(stream, usize::MAX, 1_200, false));
            prop_assert!(sent.count() > 0, "{} bytes wait without credit", sender.backlog());
            rounds += 1;
            prop_assert!(rounds < 10_000);
        }
        prop_assert_eq!(held(&session), 0);
        prop_assert_eq!(session.flow.load().seen, sender.charged);
        prop_assert_eq!(session.flow.consumed(), sender.charged);
        prop_assert_eq!(session.streams.recv.len() + gone, specs.len());
    }

    /// Any frames in any order, from a peer that knows the rules: until one of them ends the session, the bytes held and
    /// reserved stay within the windows.
    #[test]
    fn no_frames_get_more_memory_than_the_windows(
        kinds in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 1..5),
        steps in prop::collection::vec(
            (0u8..12, 0u64..5, 0u64..8, 0usize..16_000, 1usize..1_200, any::<bool>()), 1..300),
    ) {
        let mut session = receiver(STREAM_WINDOW, SESSION_WINDOW);
        for (index, &(reliable, is_ordered, partial)) in (0u64..).zip(&kinds) {
            let spec = Box::new(StreamSpec {
                reliable,
                order: if is_ordered { Order::Ordered } else { Order::Unordered },
                partial: partial && !reliable,
                ..StreamSpec::default()
            });
            control(&mut session, &Control::Open { stream: StreamId::new(index, true), spec }).expect("legal");
        }
        for (kind, index, sequence, offset, length, flag) in steps {
            let stream = StreamId::new(index % kinds.len() as u64, true);
            let charged_bytes = match sequence % 3 {
                0 => 0,
                1 => offset as u64,
                _ => (offset + length) as u64 + crate::send::ADU_OVERHEAD_BYTES,
            };
            let result = match kind {
                0..=6 => receive_container(&mut session, |out| {
                    let place = Place { stream, sequence, offset: offset * usize::from(kind > 2) };
                    write_fragment(out, place, flag, false, &vec![7; length]);
                }),
                7..=8 => control(&mut session, &Control::Skip { stream, sequence, charged_bytes }),
                9 => {
                    read_all(&mut session, stream);
                    Ok(VecDeque::new())
                }
                10 if flag => control(&mut session, &Control::Reset { stream, code: 0, charged_bytes }),
                10 => control(&mut session, &Control::Finish { stream, end: sequence }),
                _ => {
                    let _ = session.stop(stream, 0);
                    Ok(VecDeque::new())
                }
            };
            if result.is_err() {
                break;
            }
            check(&session);
        }
    }
}

/// An ADU of the largest size and SKIPs of ADUs that were never sent, in a window of less than four thirds of it: the
/// application then read more than the session's account of credit contained, and the node was aborted.
#[test]
fn reading_after_skips_in_a_small_window_ends_the_session_and_not_the_node() {
    let window = 20 << 20;
    assert!(window > STREAM_WINDOW_MIN_BYTES);
    let mut session = receiver(window, window);
    let stream = StreamId(0);
    let open = Control::Open {
        stream,
        spec: Box::new(StreamSpec {
            order: Order::Unordered,
            ..StreamSpec::default()
        }),
    };
    control(&mut session, &open).expect("legal");
    let whole = vec![7; 16 << 20];
    for (at, part) in (0usize..).step_by(1 << 20).zip(whole.chunks(1 << 20)) {
        let place = Place {
            stream,
            sequence: 0,
            offset: at,
        };
        let is_final = at + part.len() == whole.len();
        receive_container(&mut session, |out| {
            write_fragment(out, place, is_final, false, part);
        })
        .expect("within credit");
    }
    let skip = Control::Skip {
        stream,
        sequence: 1,
        charged_bytes: 16 << 20,
    };
    let refused = control(&mut session, &skip);
    assert!(
        matches!(refused, Err(ProtocolError::Stream(_))),
        "{refused:?}"
    );
    // The host may read until it has noticed the end.
    assert_eq!(read_all(&mut session, stream), 1);
    assert!(session.flow.consumed() <= session.flow.load().seen);
}

/// In the smallest windows the largest ADU fits the announced credit, whatever was read before.
#[test]
fn the_largest_adu_always_fits_what_is_announced() {
    const WINDOW: u64 = STREAM_WINDOW_MIN_BYTES;
    for small in [1, 3_000, 5_000, 1 << 20] {
        let mut session = receiver(WINDOW, WINDOW);
        let mut sender = Sender::open(&mut session, &[(true, None)]);
        let stream = StreamId(0);
        sender.credit = WINDOW;
        for length in [small, 16 << 20] {
            let send = sender.streams.get_mut(&stream).expect("open");
            send.credit = send.credit.max(WINDOW);
            send.push(Instant::EPOCH, vec![7; length].into(), 0);
            while sender.backlog() > 0 {
                let is_sent = sender.send(stream, usize::MAX, 64 << 10, false);
                assert!(is_sent, "{} bytes wait without credit", sender.backlog());
                sender.deliver(&mut session, 0, false);
            }
            sender.read(&mut session, 0);
        }
        assert_eq!(sender.read, 2);
    }
}
