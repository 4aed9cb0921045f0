//! Channels with unusual peers: one that accepts small containers only, one that acknowledges nothing.

use std::{net::SocketAddr, sync::Arc};

use bytes::BytesMut;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EndpointConfig, FourTuple,
    TransportConfig,
};

use super::*;
use crate::{AllowList, Endpoint, Handled, Outcome, Received, SecretKey};

/// Clock time of [`Instant::EPOCH`]; its value influences nothing.
#[expect(
    clippy::disallowed_methods,
    reason = "one clock reading, on which nothing depends"
)]
fn epoch() -> std::time::Instant {
    std::time::Instant::now()
}

const REMOTE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    4433,
);

/// A bare QUIC client, and a node that it exchanges packets with directly.
struct Pair {
    epoch: std::time::Instant,
    now: Instant,
    node: Endpoint,
    id: Option<ChannelId>,
    client: noq_proto::Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
}

impl Pair {
    /// Connects a client that accepts DATAGRAM frames up to this size.
    fn connect(datagram_bytes: usize) -> Self {
        let epoch = epoch();
        let node = Endpoint::new(
            epoch,
            SecretKey::from_seed([1; 32]),
            AllowList::everyone(),
            Config::default(),
            [1; 32],
        );
        let key = SecretKey::from_seed([2; 32]);
        let mut transport = TransportConfig::default();
        transport.datagram_receive_buffer_size(Some(datagram_bytes));
        let mut config = ClientConfig::new(crate::tls::client_config(
            &key,
            node.node_id(),
            Refused::default(),
        ));
        config.transport_config(Arc::new(transport));
        let quic = EndpointConfig::new(Arc::new(key.reset_key()));
        let mut client = noq_proto::Endpoint::new(Arc::new(quic), None, true);
        let (handle, connection) = client
            .connect(epoch, config, REMOTE, "anabranch")
            .expect("an address that can be dialled");
        let mut pair = Self {
            epoch,
            now: Instant::EPOCH,
            node,
            id: None,
            client,
            handle,
            connection,
        };
        for _ in 0..5 {
            pair.deliver_from_client();
            pair.deliver_from_node();
        }
        pair
    }

    fn channel(&mut self) -> &mut Channel {
        let id = self.id.expect("accepted");
        self.node.channel(id).expect("open")
    }

    fn std_now(&self) -> std::time::Instant {
        self.epoch + self.now.since(Instant::EPOCH)
    }

    fn deliver_from_client(&mut self) {
        let mut buffer = Vec::new();
        let one = std::num::NonZeroUsize::MIN;
        while let Some(transmit) = self
            .connection
            .poll_transmit(self.std_now(), one, &mut buffer)
        {
            let packet = Received {
                socket: SocketId(0),
                remote: REMOTE,
                local_ip: None,
                ecn: None,
                data: BytesMut::from(&buffer[..transmit.size]),
            };
            let mut response = Vec::new();
            if let Handled::Accepted { channel: id, .. } =
                self.node.handle_packet(self.now, packet, &mut response)
            {
                self.id = Some(id);
            }
            buffer.clear();
        }
    }

    fn deliver_from_node(&mut self) {
        let (mut buffer, now) = (Vec::new(), self.now);
        let one = std::num::NonZeroUsize::MIN;
        let Some(id) = self.id else { return };
        while let Some(transmit) = self
            .node
            .channel(id)
            .and_then(|channel| channel.poll_transmit(now, one, &mut buffer))
        {
            let data = BytesMut::from(&buffer[..transmit.size]);
            let path = FourTuple::new(REMOTE, None);
            let event = self
                .client
                .handle(self.std_now(), path, None, data, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.connection.handle_event(event);
            }
        }
        self.node.settle_channel(id);
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(answer) = self.client.handle_event(self.handle, event) {
                self.connection.handle_event(answer);
            }
        }
    }
}

/// Frames would not fit, and code that fills containers would retry for ever.
#[test]
fn a_peer_that_takes_small_containers_is_sent_none() {
    let mut pair = Pair::connect(100);
    assert!(pair.channel().is_connected());
    assert_eq!(pair.channel().container_bytes_max(), None);
    let mut pair = Pair::connect(1 << 16);
    let most = pair.channel().container_bytes_max();
    assert!(
        most.is_some_and(|most| most >= CONTAINER_BYTES_MIN),
        "{most:?}"
    );
}

/// A peer that elicits answers and acknowledges nothing gets a window of answers and a little more.
#[test]
fn without_acknowledgements_little_may_be_sent() {
    let mut pair = Pair::connect(1 << 16);
    let now = pair.now;
    let channel = pair.channel();
    let mut buffer = Vec::new();
    let mut sent = 0;
    while channel.has_capacity() {
        assert!(sent < 1000, "unlimited space");
        channel.send(vec![0; 1000]);
        sent += 1;
        let one = std::num::NonZeroUsize::MIN;
        while channel.poll_transmit(now, one, &mut buffer).is_some() {}
    }
    assert!(sent > 60, "{sent}");
}

/// A container that exceeds every bound is reported lost like any other; it used to abort the node.
#[test]
fn what_exceeds_the_capacity_is_lost() {
    let mut pair = Pair::connect(1 << 16);
    let channel = pair.channel();
    for _ in 0..6_000 {
        channel.send(vec![0; 1000]);
    }
    channel.send(vec![0; 5000]);
    let mut outcomes = Vec::new();
    channel.take_outcomes(&mut outcomes);
    let lost = outcomes
        .iter()
        .filter(|outcome| outcome.outcome == Outcome::Lost);
    assert!((1_000..6_000).contains(&lost.count()));
    assert!(outcomes.iter().any(|outcome| outcome.container == 6_000));
}

/// A frame of the second probe of a batch did not fit behind a small first one, and the library panicked.
#[test]
fn probes_leave_one_by_one() {
    let mut pair = Pair::connect(1 << 16);
    let mut now = pair.now;
    let channel = pair.channel();
    let ten = NonZeroUsize::new(10).expect("not zero");
    let mut buffer = Vec::new();
    for _ in 0..20 {
        channel.send(vec![0; 1000]);
    }
    let mut most = 0;
    while let Some(transmit) = channel.poll_transmit(now, ten, &mut buffer) {
        most = transmit.packets().max(most);
    }
    assert!(most > 1, "data leaves in batches");
    let mut probes = 0;
    for _ in 0..10 {
        now = now.max(channel.poll_timeout().expect("nobody acknowledges"));
        channel.handle_timeout(now);
        while let Some(transmit) = channel.poll_transmit(now, ten, &mut buffer) {
            assert_eq!(transmit.packets(), 1);
            probes += 1;
        }
    }
    assert!(probes > 4, "{probes}");
}

/// The library forgets a closed connection when three probe time-outs are over, whether or not the packet that closes it
/// has left.
#[test]
fn a_node_that_was_busy_says_goodbye_first() {
    let mut pair = Pair::connect(1_200);
    let now = pair.now;
    pair.channel().close(now, 7, "over");
    pair.now = now + Duration::from_secs(10);
    let late = pair.now;
    pair.channel().handle_timeout(late);
    pair.deliver_from_node();
    assert!(pair.connection.is_closed(), "the peer is notified");
    pair.channel().handle_timeout(late);
    assert!(pair.channel().is_drained(), "then it is over");
}

/// The library, polled for one packet at a time, closed a handshake without end: in the first space, of which it still
/// had keys.
#[test]
fn a_handshake_is_closed_in_a_few_packets() {
    let (epoch, now, one) = (epoch(), Instant::EPOCH, NonZeroUsize::MIN);
    let end = |seed: u8| {
        let key = SecretKey::from_seed([seed; 32]);
        Endpoint::new(
            epoch,
            key,
            AllowList::everyone(),
            Config::default(),
            [seed; 32],
        )
    };
    let (mut dialler, mut node) = (end(2), end(1));
    let packet = |data: &[u8]| Received {
        socket: SocketId(0),
        remote: REMOTE,
        local_ip: None,
        ecn: None,
        data: BytesMut::from(data),
    };
    let (mut buffer, mut response) = (Vec::new(), Vec::new());
    let id = dialler
        .connect(now, SocketId(0), REMOTE, node.node_id(), None)
        .expect("an address that can be dialled");
    let first = dialler.channel(id).expect("open");
    first
        .poll_transmit(now, one, &mut buffer)
        .expect("a first packet");
    let Handled::Accepted { channel, .. } = node.handle_packet(now, packet(&buffer), &mut response)
    else {
        panic!("a dial is accepted");
    };
    let answers = node.channel(channel).expect("accepted");
    answers
        .poll_transmit(now, one, &mut buffer)
        .expect("an answer");
    dialler.handle_packet(now, packet(&buffer), &mut response);
    let closing = dialler.channel(id).expect("open");
    closing.close(now, 1, "no");
    let mut sent = 0;
    while closing.poll_transmit(now, one, &mut buffer).is_some() {
        sent += 1;
        assert!(sent < 10, "no end");
    }
    assert!(sent > 0);
}
