//! Traces of channels in the qlog format, read back by the library of the format.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, time::Duration};

use anabranch_base::Seed;
use anabranch_link::{Config, Loss, duplex::Configs};
use anabranch_net::{
    Host, HostConfig,
    emulate::{Emulator, PathSpec},
    session::{AllowList, SecretKey, StreamSpec},
};
use qlog::{
    events::{EventData, quic::PacketType},
    reader::{Event, QlogSeqReader},
};
use serde_json::Value;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A path that loses packets.
fn spec(target: SocketAddr, number: u8) -> PathSpec {
    PathSpec {
        name: number.to_string(),
        listen: loopback(),
        target,
        links: Configs::symmetric(Config {
            delay: Duration::from_millis(3),
            loss: Loss::Random { probability: 0.02 },
            ..Config::default()
        }),
    }
}

/// Contents of a trace.
#[derive(Debug, Default)]
struct Summary {
    path: Option<Value>,
    sent: BTreeSet<u64>,
    received: usize,
    lost: BTreeSet<u64>,
    metrics: usize,
    /// Time of the last event, in ms.
    last_ms: f64,
}

fn read(file: &Path) -> Summary {
    let reader = QlogSeqReader::with_file(file).unwrap();
    assert_eq!(
        reader.qlog.file_schema,
        "urn:ietf:params:qlog:file:sequential"
    );
    let channel = file.file_stem().unwrap().to_str().unwrap();
    let channel = channel.split_once('-').unwrap().1;
    assert_eq!(reader.qlog.title, Some(format!("anabranch {channel}")));
    let mut summary = Summary::default();
    for event in reader {
        let event = match event {
            Event::Qlog(event) => event,
            Event::Json(event) => {
                assert_eq!(event.name, "anabranch:path");
                assert_eq!(event.data["path"], channel);
                assert!(event.time >= 0.0);
                assert_eq!(summary.path.replace(event.data), None, "once");
                continue;
            }
        };
        assert!(summary.path.is_some(), "the path is named first");
        assert!(event.time >= summary.last_ms, "{} ms", event.time);
        summary.last_ms = event.time;
        match event.data {
            EventData::QuicPacketSent(sent) if sent.header.packet_type == PacketType::OneRtt => {
                assert!(summary.sent.insert(sent.header.packet_number.unwrap()));
            }
            EventData::QuicPacketReceived(_) => summary.received += 1,
            EventData::QuicPacketLost(lost) => {
                let header = lost.header.unwrap();
                if header.packet_type == PacketType::OneRtt {
                    summary.lost.insert(header.packet_number.unwrap());
                }
            }
            EventData::QuicMetricsUpdated(_) => summary.metrics += 1,
            _ => {}
        }
    }
    summary
}

/// True if every trace has the frame that closes its connection, which is sent last.
fn are_complete(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).unwrap();
    let texts = files.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    texts
        .into_iter()
        .all(|text| text.contains("connection_close"))
}

#[tokio::test]
async fn traces_begin_and_end_while_the_host_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let work = async {
        let (key, peer) = (SecretKey::from_seed([7; 32]), SecretKey::from_seed([8; 32]));
        let allowed = AllowList::of([key.node_id()]);
        let b = Host::start(HostConfig::new(peer, allowed).bind([loopback()])).unwrap();
        let a = HostConfig::new(key, AllowList::default()).bind([loopback()]);
        let a = Host::start(a).unwrap();
        let far = b.addresses();
        for traces in [None, Some(&one), Some(&other), None] {
            a.set_qlog(traces.cloned());
            let calling = a.connect(b.node_id(), &far[..]);
            let (outgoing, incoming) = tokio::join!(calling, b.accept());
            let (outgoing, _incoming) = (outgoing.unwrap(), incoming.unwrap());
            outgoing.close(0, "done");
            outgoing.closed().await;
        }
        drop(a);
        while !are_complete(&one) || !are_complete(&other) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), work)
        .await
        .expect("it ends");
    // One channel each, and none of the sessions before and after.
    for path in [&one, &other] {
        let files: Vec<_> = std::fs::read_dir(path).unwrap().collect();
        assert_eq!(files.len(), 1, "{files:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn a_trace_of_each_channel_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("traces");
    let work = async {
        let (key, peer) = (SecretKey::from_seed([7; 32]), SecretKey::from_seed([8; 32]));
        let allowed = AllowList::of([key.node_id()]);
        let b = Host::start(HostConfig::new(peer, allowed).bind([loopback()])).unwrap();
        let mut a = HostConfig::new(key, AllowList::default()).bind([loopback()]);
        a.qlog = Some(folder.clone());
        let a = Host::start(a).unwrap();
        let target = b.addresses()[0];
        let emulator = Emulator::start(vec![spec(target, 1), spec(target, 2)], Seed(1)).unwrap();
        let calling = a.connect(b.node_id(), emulator.addresses());
        let (outgoing, incoming) = tokio::join!(calling, b.accept());
        let (outgoing, incoming) = (outgoing.unwrap(), incoming.unwrap());
        let stream = outgoing.open_stream(StreamSpec::bulk("bulk")).unwrap();
        let writing = async {
            for _ in 0..100 {
                stream.send(vec![0xa5; 20_000].into()).await.unwrap();
            }
            stream.finish().unwrap();
            stream.delivered().await.unwrap();
        };
        let reading = async {
            let stream = incoming.accept_stream().await.unwrap();
            while stream.recv().await.unwrap().is_some() {}
        };
        tokio::join!(writing, reading);
        let lost: u64 = a.sessions()[0]
            .channels
            .iter()
            .map(|channel| channel.stats.packets_lost)
            .sum();
        assert!(lost > 0, "2 % of more than 1,400 packets");
        let addresses = emulator.addresses().to_vec();
        outgoing.close(0, "done");
        outgoing.closed().await;
        drop((stream, outgoing, a));
        // The thread of the host ends the files.
        while !are_complete(&folder) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        addresses
    };
    let addresses = tokio::time::timeout(Duration::from_secs(120), work)
        .await
        .expect("it ends");
    let files = || {
        std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let mut remotes = BTreeSet::new();
    let (mut sent, mut received, mut lost, mut metrics) = (0, 0, 0, 0);
    for file in files() {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(12).any(|window| window == [0xa5; 12]));
        assert!(!bytes.windows(12).any(|window| window == b"a5a5a5a5a5a5"));
        let one = read(&file);
        assert!(one.sent.is_superset(&one.lost), "{one:?}");
        received += one.received;
        metrics += one.metrics;
        let path = one.path.unwrap();
        assert_eq!(path["dialled"], true);
        remotes.insert(path["remote"].as_str().unwrap().parse().unwrap());
        sent += one.sent.len();
        lost += one.lost.len();
    }
    // Sessions exchange their addresses, so that there is a channel beside the emulator, too.
    assert!(
        remotes.is_superset(&BTreeSet::from_iter(addresses)),
        "{remotes:?}"
    );
    assert!(received > 20 && metrics > 20, "{received}, {metrics}");
    // 2 MB need 1,400 packets and more.
    assert!(sent > 1_400 && lost > 0, "{sent} sent, {lost} lost");
}
