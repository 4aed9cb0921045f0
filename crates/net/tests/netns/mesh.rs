//! Two interfaces on each side of a router, and so four pairs of addresses over two links: pairs that share a link are detected.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, SocketAddr},
    sync::mpsc,
    time::Duration,
};

use anabranch_base::{ChannelId, Rate, Seed};
use anabranch_link::{Config, Queue, RateSource, duplex::Configs};
use anabranch_net::{
    Host, Session,
    emulate::tun::{End, TunEmulator, TunSpec},
    session::{ChannelStatus, StreamSpec},
};

use crate::{
    namespace::{Namespace, namespaces_with_tun},
    node::{key, start_for},
};

/// Longest run; the first pair was found after 23 s, also while others used both processors.
const LIMIT: Duration = Duration::from_secs(240);
/// Rate of each of the sender's links; those of the receiver are fast.
const RATES_MBPS: [u64; 2] = [40, 20];

/// A sender with two emulated links to a router, to which a receiver has two cables.
fn mesh() -> Option<([Namespace; 3], TunEmulator)> {
    let all = namespaces_with_tun()?;
    let [sender, router, receiver] = &all;
    router.run(|| {
        for name in ["ip_forward", "conf/all/rp_filter", "conf/default/rp_filter"] {
            let value = if name == "ip_forward" { "1" } else { "0" };
            fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
        }
    });
    let spec = |n: usize| {
        let end = |namespace: &Namespace, host: u8| End {
            namespace: Some(namespace.name().to_owned()),
            device: format!("link{n}"),
            address: format!("10.7{n}.0.{host}/24"),
        };
        TunSpec {
            name: format!("link {n}"),
            first: end(sender, 2),
            second: end(router, 1),
            links: Configs::symmetric(Config {
                rate: RateSource::Constant(Rate::from_mbps(RATES_MBPS[n - 1])),
                delay: Duration::from_millis(5 + 5 * n as u64),
                queue: Queue::bytes(RATES_MBPS[n - 1] * 6_250),
                ..Config::default()
            }),
        }
    };
    let emulator = TunEmulator::start(vec![spec(1), spec(2)], Seed(1)).unwrap();
    for n in 1..=2 {
        let at = |host: u8| format!("10.8{n}.0.{host}/24");
        let (device, far) = (format!("eth{n}"), format!("far{n}"));
        receiver.join((&device, &at(2)), router, (&far, &at(1)));
        for (namespace, net) in [(sender, "10.7"), (receiver, "10.8")] {
            namespace.ip(&format!("route add default via {net}{n}.0.1 table 10{n}"));
            namespace.ip(&format!("rule add from {net}{n}.0.2 table 10{n}"));
        }
    }
    Some((all, emulator))
}

/// Numbers of the links at both ends of a channel.
type Pair = (u8, u8);

/// The channels that carry data.
fn pairs(host: &Host, session: &Session) -> BTreeMap<ChannelId, Pair> {
    let sockets = host.sockets();
    let octet = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets()[1] % 10,
        IpAddr::V6(_) => panic!("there is no IPv6"),
    };
    let channels = session.channels();
    let active = channels
        .iter()
        .filter(|one| one.state == ChannelStatus::Active);
    let pair = |channel: &anabranch_net::session::ChannelReport| {
        let socket = sockets.iter().find(|socket| socket.id == channel.socket)?;
        let ends = (octet(socket.local.ip()), octet(channel.remote.ip()));
        Some((channel.channel, ends))
    };
    active.filter_map(pair).collect()
}

/// True if two channels from one local address, and to different remote ones, are known to share a link.
fn share_a_link(host: &Host, session: &Session) -> bool {
    let pairs = pairs(host, session);
    session.channels().iter().any(|channel| {
        let own = pairs.get(&channel.channel);
        let others = channel.path.iter().flat_map(|path| &path.shares_with);
        let mut others = others.filter_map(|other| pairs.get(other));
        own.is_some_and(|(near, far)| others.any(|other| other.0 == *near && other.1 != *far))
    })
}

/// Sends until the two pairs of one of the sender's links are known to share it.
async fn send(host: Host, addresses: Vec<SocketAddr>) {
    let session = host.connect(key(2).node_id(), &addresses).await.unwrap();
    let stream = session.open_stream(StreamSpec::bulk("much")).unwrap();
    let sending = async {
        loop {
            stream.send(vec![7; 8_000].into()).await.unwrap();
        }
    };
    let watching = async {
        while !share_a_link(&host, &session) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        () = sending => unreachable!("there is no end"),
        () = watching => {}
    }
    host.shutdown().await;
}

#[test]
fn pairs_of_addresses_that_share_a_link_are_found() {
    let Some(([sender, _router, receiver], _emulator)) = mesh() else {
        return;
    };
    let (report, reported) = mpsc::channel();
    let receiving = start_for(LIMIT, &receiver, (2, 1), move |host| {
        Box::pin(async move {
            report.send(host.addresses()).unwrap();
            let session = host.accept().await.unwrap();
            let stream = session.accept_stream().await.unwrap();
            while let Ok(Some(_)) = stream.recv().await {}
        })
    });
    let addresses = reported.recv_timeout(LIMIT).unwrap();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    let sending = start_for(LIMIT, &sender, (1, 2), move |host| {
        Box::pin(send(host, addresses))
    });
    sending.join().unwrap();
    receiving.join().unwrap();
}
