//! Transcripts of sessions on sockets, through emulated paths.

use std::{net::SocketAddr, time::Duration};

use anabranch_base::{Rate, Seed};
use anabranch_link::{Config, RateSource, duplex::Configs};
use anabranch_net::{
    Host, HostConfig, Session,
    emulate::{Emulator, PathSpec},
    session::{AllowList, SecretKey, StreamSpec, transcript::replay},
};

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn spec(target: SocketAddr, mbps: u64, delay_ms: u64) -> PathSpec {
    PathSpec {
        name: format!("{mbps}"),
        listen: loopback(),
        target,
        links: Configs::symmetric(Config {
            rate: RateSource::Constant(Rate::from_mbps(mbps)),
            delay: Duration::from_millis(delay_ms),
            ..Config::default()
        }),
    }
}

/// Sends bulk data and messages, and waits until all have arrived.
async fn transfer(from: &Session, to: &Session) {
    let bulk = from.open_stream(StreamSpec::bulk("bulk")).unwrap();
    let messages = from.open_stream(StreamSpec::messages("messages")).unwrap();
    let writing = async {
        for number in 0..100_u8 {
            messages.send(vec![number; 300].into()).await.unwrap();
            bulk.send(vec![0xa5; 20_000].into()).await.unwrap();
        }
        bulk.finish().unwrap();
        messages.finish().unwrap();
        bulk.delivered().await.unwrap();
        messages.delivered().await.unwrap();
    };
    let reading = async {
        let streams = [
            to.accept_stream().await.unwrap(),
            to.accept_stream().await.unwrap(),
        ];
        for stream in &streams {
            while stream.recv().await.unwrap().is_some() {}
        }
    };
    tokio::join!(writing, reading);
}

#[tokio::test]
async fn a_session_on_sockets_decides_again_as_it_did() {
    let work = async {
        let (key, peer) = (SecretKey::from_seed([5; 32]), SecretKey::from_seed([6; 32]));
        let allowed = AllowList::of([key.node_id()]);
        let b = Host::start(HostConfig::new(peer, allowed).bind([loopback()])).unwrap();
        let mut a = HostConfig::new(key, AllowList::default()).bind([loopback()]);
        a.engine.transcript_bytes = 16 << 20;
        let a = Host::start(a).unwrap();
        let target = b.addresses()[0];
        let paths = vec![spec(target, 40, 5), spec(target, 20, 20)];
        let emulator = Emulator::start(paths, Seed(1)).unwrap();
        let calling = a.connect(b.node_id(), emulator.addresses());
        let (outgoing, incoming) = tokio::join!(calling, b.accept());
        let (outgoing, incoming) = (outgoing.unwrap(), incoming.unwrap());
        transfer(&outgoing, &incoming).await;

        let file = a.transcript(outgoing.id()).expect("it is kept");
        let replayed = replay(&file).unwrap();
        assert!(replayed.is_from_start);
        assert_eq!(replayed.difference, None, "{replayed:#?}");
        assert_eq!(replayed.broken, None, "{replayed:#?}");
        assert!(replayed.fragments >= 1_500, "{replayed:#?}");
        assert!(!file.windows(12).any(|window| window == [0xa5; 12]));

        // From now on, on request; and then as configured again.
        assert!(a.record(outgoing.id(), Some(1 << 20)));
        transfer(&outgoing, &incoming).await;
        let file = a.transcript(outgoing.id()).expect("it is kept");
        let replayed = replay(&file).unwrap();
        assert!(!replayed.is_from_start);
        assert_eq!(replayed.broken, None, "{replayed:#?}");
        assert!(a.record(outgoing.id(), None));
        assert!(a.transcript(outgoing.id()).is_some());
        // The other side keeps none.
        assert_eq!(b.transcript(incoming.id()), None);
    };
    tokio::time::timeout(Duration::from_secs(120), work)
        .await
        .expect("it ends");
}
