//! Sessions over real sockets of this machine.

use std::{future::Future, net::SocketAddr, time::Duration};

use anabranch_base::{ChannelId, Rate};
use anabranch_net::{
    ConnectError, Host, HostConfig, SessionEvent, StreamEvent, StreamFailure,
    bytestream::ByteStream,
    session::{AllowList, SecretKey, StreamSpec},
};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Fails a test that hangs; none needs a tenth of the time-out.
const LIMIT: Duration = Duration::from_secs(60);

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, work)
        .await
        .expect("the test hangs")
}

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed([seed; 32])
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Starts a node with `sockets` sockets on loopback that admits the node with key `peer`.
fn node(own: u8, peer: u8, sockets: usize) -> Host {
    let allowed = AllowList::of([key(peer).node_id()]);
    let config = HostConfig::new(key(own), allowed).bind(vec![loopback(); sockets]);
    Host::start(config).unwrap()
}

async fn pair(sockets: usize) -> (Host, Host, anabranch_net::Session, anabranch_net::Session) {
    let (a, b) = (node(1, 2, sockets), node(2, 1, 1));
    let addresses = b.addresses();
    let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
    (a, b, outgoing.unwrap(), incoming.unwrap())
}

#[tokio::test]
async fn adus_arrive_whole_and_in_order_over_several_channels() {
    within(async {
        let (a, _b, outgoing, incoming) = pair(3).await;
        let sending = async {
            let stream = outgoing.open_stream(StreamSpec::bulk("numbers")).unwrap();
            for n in 0..200u32 {
                let size = 1 + (n as usize * 7919) % 60_000;
                let mut adu = vec![n as u8; size.max(4)];
                adu[..4].copy_from_slice(&n.to_be_bytes());
                assert_eq!(stream.send(adu.into()).await.unwrap(), u64::from(n));
            }
            stream.finish().unwrap();
            stream.delivered().await.unwrap();
        };
        let receiving = async {
            let stream = incoming.accept_stream().await.unwrap();
            assert_eq!(stream.spec().label, "numbers");
            let mut next = 0;
            while let Some(adu) = stream.recv().await.unwrap() {
                assert_eq!(adu.sequence, next);
                assert_eq!(adu.data[..4], (next as u32).to_be_bytes());
                next += 1;
            }
            assert_eq!(next, 200);
        };
        tokio::join!(sending, receiving);
        assert_eq!(incoming.peer(), a.node_id());
        a.shutdown().await;
        incoming.closed().await;
    })
    .await;
}

#[tokio::test]
async fn what_was_delivered_is_read_after_the_sender_has_gone() {
    within(async {
        let (a, _b, outgoing, incoming) = pair(2).await;
        let [read_later, accepted_later] = ["first", "second"].map(|label| {
            let stream = outgoing.open_stream(StreamSpec::bulk(label)).unwrap();
            for n in 0..100u8 {
                stream.try_send(vec![n; 1000].into()).unwrap();
            }
            stream.finish().unwrap();
            stream
        });
        let first = incoming.accept_stream().await.unwrap();
        read_later.delivered().await.unwrap();
        accepted_later.delivered().await.unwrap();
        a.shutdown().await;
        incoming.closed().await;
        let second = incoming.accept_stream().await.unwrap();
        for stream in [first, second] {
            for n in 0..100u8 {
                let adu = stream.recv().await.unwrap().expect("it was delivered");
                assert_eq!((adu.sequence, adu.data[0]), (u64::from(n), n));
            }
            assert!(stream.recv().await.unwrap().is_none());
        }
        assert!(incoming.accept_stream().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_over_before_it_is_accepted_is_accepted_with_what_arrived() {
    within(async {
        let (a, b) = (node(1, 2, 1), node(2, 1, 1));
        // One without a stream leaves no trace.
        let empty = a.connect(b.node_id(), &b.addresses()).await.unwrap();
        let full = a.connect(b.node_id(), &b.addresses()).await.unwrap();
        let stream = full.open_stream(StreamSpec::bulk("report")).unwrap();
        for n in 0..100u8 {
            stream.send(vec![n; 1000].into()).await.unwrap();
        }
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
        drop((empty, stream, full));
        a.shutdown().await;
        // The engine has forgotten both when it has reported their ends.
        while !b.sessions().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let session = b.accept().await.unwrap();
        assert_eq!(session.peer(), a.node_id());
        assert!(session.close_reason().is_some());
        let stream = session.accept_stream().await.unwrap();
        for n in 0..100u8 {
            let adu = stream.recv().await.unwrap().expect("it was delivered");
            assert_eq!((adu.sequence, adu.data[0]), (u64::from(n), n));
        }
        assert!(stream.recv().await.unwrap().is_none());
        assert!(session.accept_stream().await.is_err());
        // There is no other one.
        b.shutdown().await;
        assert!(b.accept().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn bytes_flow_both_ways_through_the_adaptor() {
    within(async {
        let (_a, _b, outgoing, incoming) = pair(2).await;
        let spec = StreamSpec {
            duplex: true,
            ..StreamSpec::default()
        };
        let asking = async {
            let mut bytes = ByteStream::new(outgoing.open_stream(spec).unwrap()).unwrap();
            bytes.write_all(&vec![7; 1_000_000]).await.unwrap();
            bytes.shutdown().await.unwrap();
            let mut answer = Vec::new();
            bytes.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, 1_000_000u64.to_be_bytes());
        };
        let answering = async {
            let mut bytes = ByteStream::new(incoming.accept_stream().await.unwrap()).unwrap();
            let mut question = Vec::new();
            bytes.read_to_end(&mut question).await.unwrap();
            bytes
                .write_all(&(question.len() as u64).to_be_bytes())
                .await
                .unwrap();
            bytes.shutdown().await.unwrap();
            bytes.stream().delivered().await.unwrap();
        };
        tokio::join!(asking, answering);
    })
    .await;
}

/// Channels hold the rate that was set last, for all channels or for one; it cannot be set in a session that is over.
#[tokio::test]
async fn channels_hold_the_rate_that_is_set() {
    within(async {
        let allowed = AllowList::of([key(2).node_id()]);
        let mut config = HostConfig::new(key(1), allowed).bind(vec![loopback(); 2]);
        config.engine.channel.controller = "ctcp:5 Mbit/s".parse().unwrap();
        let a = Host::start(config).unwrap();
        let b = node(2, 1, 1);
        let addresses = b.addresses();
        let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
        let (outgoing, _incoming) = (outgoing.unwrap(), incoming.unwrap());
        let stream = outgoing.open_stream(StreamSpec::bulk("load")).unwrap();
        let pace = async |wanted: &[u64]| loop {
            // A channel applies the rate when it sends a packet.
            let _ = stream.try_send(vec![0; 2_000].into());
            let mut channels = outgoing.channels();
            channels.sort_by_key(|report| report.channel);
            let rates: Vec<u64> = channels
                .iter()
                .map(|report| report.stats.rate_paced.as_bps() / 1_000)
                .collect();
            if rates == wanted {
                return channels[0].channel;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        pace(&[5_000, 5_000]).await;
        outgoing.set_channel_rate(Rate::from_kbps(4_000)).unwrap();
        let first = pace(&[4_000, 4_000]).await;
        let own = outgoing.set_rate_of_channel(first, Rate::from_kbps(3_000));
        assert!(own.unwrap());
        pace(&[3_000, 4_000]).await;
        let none = outgoing.set_rate_of_channel(ChannelId(999), Rate::from_kbps(1));
        assert!(!none.unwrap());
        outgoing.set_channel_rate(Rate::from_kbps(6_000)).unwrap();
        pace(&[6_000, 6_000]).await;
        outgoing.close(0, "done");
        outgoing.closed().await;
        assert!(outgoing.set_channel_rate(Rate::from_mbps(1)).is_err());
        assert!(
            outgoing
                .set_rate_of_channel(first, Rate::from_mbps(1))
                .is_err()
        );
    })
    .await;
}

#[tokio::test]
async fn outcomes_of_adus_are_reported() {
    within(async {
        let (_a, _b, outgoing, incoming) = pair(1).await;
        let spec = StreamSpec {
            notify: true,
            ..StreamSpec::messages("told")
        };
        let stream = outgoing.open_stream(spec).unwrap();
        for n in 0..10u64 {
            assert_eq!(
                stream.send(Bytes::from_static(b"tell me")).await.unwrap(),
                n
            );
        }
        let reading = incoming.accept_stream().await.unwrap();
        let mut acked = Vec::new();
        while acked.len() < 10 {
            if let StreamEvent::Acked { adu, .. } = stream.next_event().await.unwrap() {
                acked.push(adu);
            }
        }
        acked.sort_unstable();
        assert_eq!(acked, (0..10).collect::<Vec<_>>());
        drop(reading);
    })
    .await;
}

#[tokio::test]
async fn a_slow_reader_holds_the_writer_and_nothing_is_lost() {
    within(async {
        let (_a, _b, outgoing, incoming) = pair(2).await;
        let stream = outgoing.open_stream(StreamSpec::bulk("much")).unwrap();
        let adu = Bytes::from(vec![1; 256 << 10]);
        // The peer does not read: the windows fill, and `try_send` must fail after a bounded amount.
        let reading = incoming.accept_stream();
        let mut queued = 0u64;
        stream.send(adu.clone()).await.unwrap();
        let reader = reading.await.unwrap();
        while queued < 1000 && stream.try_send(adu.clone()).is_ok() {
            queued += 1;
            tokio::task::yield_now().await;
        }
        assert!(queued < 1000, "256 MB were accepted without a reader");
        stream.finish().unwrap();
        let mut received = 0;
        while let Some(adu) = reader.recv().await.unwrap() {
            assert_eq!(adu.data.len(), 256 << 10);
            received += 1;
        }
        assert_eq!(received, queued + 1);
    })
    .await;
}

#[tokio::test]
async fn a_socket_that_goes_takes_only_its_channels_with_it() {
    within(async {
        let (a, _b, outgoing, incoming) = pair(2).await;
        let mut up = 0;
        while up < 2 {
            if let SessionEvent::ChannelUp { .. } = outgoing.next_event().await.unwrap() {
                up += 1;
            }
        }
        let first = a.sockets()[0].id;
        let stream = outgoing.open_stream(StreamSpec::bulk("on")).unwrap();
        let reader = async {
            let stream = incoming.accept_stream().await.unwrap();
            let mut count = 0;
            while stream.recv().await.unwrap().is_some() {
                count += 1;
            }
            count
        };
        let writer = async {
            for n in 0..300 {
                stream.send(vec![0; 50_000].into()).await.unwrap();
                if n == 100 {
                    a.set_socket_up(first, false);
                }
                if n == 200 {
                    a.set_socket_up(first, true);
                }
            }
            stream.finish().unwrap();
            stream.delivered().await.unwrap();
        };
        let (count, ()) = tokio::join!(reader, writer);
        assert_eq!(count, 300);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_node_is_refused_with_a_reason() {
    within(async {
        let server = node(2, 1, 1);
        let stranger = node(3, 2, 1);
        let refused = stranger
            .connect(server.node_id(), &server.addresses())
            .await;
        let error = refused.unwrap_err();
        assert!(matches!(error, ConnectError::Closed(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_address_of_the_wrong_family_is_refused_at_once() {
    let host = node(1, 2, 1);
    let error = host
        .connect(key(2).node_id(), &["[::1]:9".parse().unwrap()])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("IPv6"), "{error}");
}

#[tokio::test]
async fn a_reset_and_a_stop_reach_the_other_side() {
    within(async {
        let (_a, _b, outgoing, incoming) = pair(1).await;
        let stream = outgoing.open_stream(StreamSpec::bulk("reset")).unwrap();
        stream.send(Bytes::from_static(b"x")).await.unwrap();
        let reader = incoming.accept_stream().await.unwrap();
        reader.recv().await.unwrap();
        stream.reset(7).unwrap();
        assert!(matches!(reader.recv().await, Err(StreamFailure::Reset(7))));

        let stream = outgoing.open_stream(StreamSpec::bulk("stop")).unwrap();
        stream.send(Bytes::from_static(b"x")).await.unwrap();
        let reader = incoming.accept_stream().await.unwrap();
        reader.stop(9).unwrap();
        assert!(matches!(
            stream.delivered().await,
            Err(StreamFailure::Stopped(9))
        ));
    })
    .await;
}

#[tokio::test]
async fn garbage_on_the_port_does_not_disturb_sessions() {
    within(async {
        let (_a, b, outgoing, incoming) = pair(1).await;
        let target = b.addresses()[0];
        let noise = tokio::net::UdpSocket::bind(loopback()).await.unwrap();
        for n in 0..2000usize {
            let packet: Vec<u8> = (0..n % 1400).map(|i| (i * 31 + n * 17) as u8).collect();
            noise.send_to(&packet, target).await.unwrap();
        }
        let stream = outgoing.open_stream(StreamSpec::default()).unwrap();
        stream
            .send(Bytes::from_static(b"still here"))
            .await
            .unwrap();
        let reader = incoming.accept_stream().await.unwrap();
        assert_eq!(reader.recv().await.unwrap().unwrap().data, "still here");
    })
    .await;
}

#[tokio::test]
async fn dropping_everything_closes_the_session_at_the_peer() {
    within(async {
        let (a, _b, outgoing, incoming) = pair(1).await;
        drop((a, outgoing));
        incoming.closed().await;
        assert!(incoming.accept_stream().await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let first = node(1, 2, 1);
    let taken = first.addresses()[0];
    let config = HostConfig::new(key(3), AllowList::default()).bind([taken]);
    let error = Host::start(config).unwrap_err().to_string();
    assert!(
        error.contains(&taken.to_string()) && error.contains("port"),
        "{error}"
    );
}

/// Duplex streams that are never accepted: beyond those that may wait, both directions are refused, and no state of them
/// remains at either end.
#[tokio::test]
async fn of_streams_that_nobody_accepts_nothing_stays() {
    const WAITING: usize = 1024;
    within(async {
        let (_a, _b, outgoing, incoming) = pair(1).await;
        let spec = StreamSpec {
            duplex: true,
            ..StreamSpec::default()
        };
        let mut streams = Vec::new();
        for _ in 0..3 * WAITING {
            let stream = outgoing.open_stream(spec.clone()).unwrap();
            stream.send(Bytes::from_static(b"?")).await.unwrap();
            streams.push(stream);
        }
        let open = |session: &anabranch_net::Session| session.stats().unwrap().streams;
        while open(&outgoing) != WAITING || open(&incoming) != WAITING {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for _ in 0..WAITING {
            let stream = incoming.accept_stream().await.unwrap();
            assert_eq!(stream.recv().await.unwrap().unwrap().data, "?");
        }
    })
    .await;
}
