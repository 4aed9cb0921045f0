//! A session through emulated paths.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{Rate, Seed};
use anabranch_link::{Config, RateSource, duplex::Configs};
use anabranch_net::{
    Host, HostConfig, SessionEvent,
    emulate::{EmulateError, Emulator, Entrance, PathSpec},
    session::{AllowList, SecretKey, StreamSpec},
};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn spec(name: &str, target: SocketAddr, listen: SocketAddr) -> PathSpec {
    PathSpec {
        name: name.to_owned(),
        listen,
        target,
        links: Configs::symmetric(Config {
            rate: RateSource::Constant(Rate::from_mbps(40)),
            delay: Duration::from_millis(5),
            ..Config::default()
        }),
    }
}

/// Two paths, one of them cut in the middle: all data arrives, and both paths have carried packets.
#[tokio::test]
async fn a_stream_survives_the_cut_of_a_path() {
    let work = async {
        let (key, peer) = (SecretKey::from_seed([1; 32]), SecretKey::from_seed([2; 32]));
        let allowed = AllowList::of([key.node_id()]);
        let b = Host::start(HostConfig::new(peer, allowed).bind([loopback()])).unwrap();
        let a = HostConfig::new(key, AllowList::default()).bind([loopback()]);
        let a = Host::start(a).unwrap();
        let target = b.addresses()[0];
        let specs = ["first", "second"].map(|name| spec(name, target, loopback()));
        let emulator = Emulator::start(specs.to_vec(), Seed(1)).unwrap();
        let calling = a.connect(b.node_id(), emulator.addresses());
        let (outgoing, incoming) = tokio::join!(calling, b.accept());
        let (outgoing, incoming) = (outgoing.unwrap(), incoming.unwrap());

        let stream = outgoing.open_stream(StreamSpec::bulk("bulk")).unwrap();
        let writing = async {
            for n in 0..200 {
                stream.send(vec![n; 20_000].into()).await.unwrap();
            }
            stream.finish().unwrap();
            stream.delivered().await.unwrap();
        };
        let cutting = async {
            let path = &emulator.paths()[1];
            while path.stats().0.delivered.packets < 200 {
                tokio::task::yield_now().await;
            }
            path.set_up(false);
            assert!(!path.is_up());
            loop {
                let event = outgoing.next_event().await.unwrap();
                if matches!(event, SessionEvent::ChannelSuspected { .. }) {
                    break;
                }
            }
            path.set_up(true);
        };
        let reading = async {
            let stream = incoming.accept_stream().await.unwrap();
            let mut count = 0;
            while let Some(adu) = stream.recv().await.unwrap() {
                assert_eq!(adu.data[..], vec![count; 20_000][..]);
                count += 1;
            }
            count
        };
        let ((), (), count) = tokio::join!(writing, cutting, reading);
        assert_eq!(count, 200);
        for path in emulator.paths() {
            assert!(
                path.stats().0.delivered.packets > 100,
                "{} idle",
                path.name()
            );
        }
    };
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("the test hangs");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let taken = std::net::UdpSocket::bind(loopback()).unwrap();
    let address = taken.local_addr().unwrap();
    let error = Emulator::start(vec![spec("p", address, address)], Seed(1)).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// Two receivers behind one path: each sender's data reaches the receiver of its entrance, and all of it crosses the same link.
#[tokio::test]
async fn entrances_lead_to_other_targets_over_the_same_link() {
    let work = async {
        let keys = [1, 2, 3].map(|byte| SecretKey::from_seed([byte; 32]));
        let [key, first, second] = keys;
        let start = |peer: SecretKey| {
            let allowed = AllowList::of([key.node_id()]);
            Host::start(HostConfig::new(peer, allowed).bind([loopback()])).unwrap()
        };
        let peers = [start(first), start(second)];
        let entrance = Entrance {
            path: 0,
            listen: loopback(),
            target: peers[1].addresses()[0],
        };
        let nowhere = Entrance {
            path: 1,
            ..entrance
        };
        let specs = vec![spec("path", peers[0].addresses()[0], loopback())];
        let refused = Emulator::start_with(specs.clone(), &[nowhere], Seed(1));
        assert!(matches!(
            refused,
            Err(EmulateError::Entrance { path: 1, paths: 1 })
        ));
        let emulator = Emulator::start_with(specs, &[entrance], Seed(1)).unwrap();
        let remotes = [emulator.addresses()[0], emulator.entrances()[0]];
        let config = HostConfig::new(key.clone(), AllowList::default());
        let a = Host::start(config.bind([loopback()])).unwrap();
        let mut carried = 0;
        for (peer, remote) in peers.iter().zip(remotes) {
            let (outgoing, incoming) = tokio::join!(
                async { a.connect(peer.node_id(), &[remote]).await.unwrap() },
                async { peer.accept().await.unwrap() }
            );
            assert_eq!(incoming.peer(), a.node_id());
            let stream = outgoing.open_stream(StreamSpec::bulk("bulk")).unwrap();
            for n in 0..20 {
                stream.send(vec![n; 20_000].into()).await.unwrap();
            }
            stream.finish().unwrap();
            stream.delivered().await.unwrap();
            let bytes = emulator.paths()[0].stats().0.delivered.bytes;
            assert!(bytes >= carried + 400_000, "{bytes} after {carried}");
            carried = bytes;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), work).await;
    done.expect("both transfers end within a minute");
}
