//! Sessions over relayed links, to which a relay's port is an address like any other.

use anabranch_base::Rate;
use anabranch_net::{
    Host, HostConfig, Session,
    session::{AllowList, SecretKey, StreamSpec},
};

use super::*;

fn host(own: u8, peer: u8, addresses: &[SocketAddr]) -> Host {
    let key = |seed| SecretKey::from_seed([seed; 32]);
    let allowed = AllowList::of([key(peer).node_id()]);
    let config = HostConfig::new(key(own), allowed).bind(addresses.iter().copied());
    Host::start(config).unwrap()
}

/// Opens a circuit to `towards` that host `a` may use from any of its ports on loopback.
fn circuit(relay: &Relay, a: &Host, number: u64, towards: SocketAddr) -> SocketAddr {
    let from = a.addresses()[0];
    let request = Open {
        origin: Origin::Known,
        ..open(number, from, towards)
    };
    opened(relay, from, request).near
}

async fn joined(a: &Host, b: &Host, remotes: &[SocketAddr]) -> (Session, Session) {
    let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), remotes), b.accept());
    (outgoing.unwrap(), incoming.unwrap())
}

/// Transfers 4 MB in ADUs of 20 kB, each filled with its number; `meanwhile` runs as each of them arrives.
async fn transfer(outgoing: &Session, incoming: &Session, mut meanwhile: impl FnMut()) {
    let stream = outgoing.open_stream(StreamSpec::bulk("bulk")).unwrap();
    let writing = async {
        for n in 0..200u8 {
            stream.send(vec![n; 20_000].into()).await.unwrap();
        }
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
    };
    let reading = async {
        let stream = incoming.accept_stream().await.unwrap();
        for n in 0..200u8 {
            let adu = stream.recv().await.unwrap().expect("an ADU");
            assert_eq!(adu.data, vec![n; 20_000]);
            meanwhile();
        }
        assert!(stream.recv().await.unwrap().is_none());
    };
    tokio::join!(writing, reading);
}

async fn within(work: impl Future<Output = ()>) {
    let done = tokio::time::timeout(Duration::from_secs(60), work).await;
    done.expect("the test hangs");
}

#[tokio::test]
async fn a_session_works_over_a_relayed_link_alone() {
    within(async {
        let relay = relay();
        let loopback = SocketAddr::new(V4, 0);
        let (a, b) = (host(1, 2, &[loopback]), host(2, 1, &[loopback]));
        let near = circuit(&relay, &a, 1, b.addresses()[0]);
        let (outgoing, incoming) = joined(&a, &b, &[near]).await;
        transfer(&outgoing, &incoming, || ()).await;
        let channels = incoming.channels();
        let account = relay.report().circuits[0].account;
        assert!(account.outward.bytes > 4_000_000, "{account:?}");
        assert_eq!(account.dropped.packets(), 0, "{account:?}");
        assert_eq!(channels.len(), 1);
        let _ = (a, b);
    })
    .await;
}

#[tokio::test]
async fn when_the_relay_dies_the_session_goes_on_over_its_other_link() {
    within(async {
        let relay = relay();
        let loopback = SocketAddr::new(V4, 0);
        let (a, b) = (host(1, 2, &[loopback]), host(2, 1, &[loopback]));
        let direct = b.addresses()[0];
        let near = circuit(&relay, &a, 1, direct);
        let (outgoing, incoming) = joined(&a, &b, &[direct, near]).await;
        while outgoing.channels().len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // At a rate that neither link exceeds, however busy the machine is, each carries about half.
        outgoing.set_channel_rate(Rate::from_mbps(10)).unwrap();
        let mut relay = Some(relay);
        transfer(&outgoing, &incoming, || {
            relay.take_if(|relay| relay.totals().account.outward.bytes > 100_000);
        })
        .await;
        assert!(relay.is_none(), "too little went over the relay");
    })
    .await;
}
