//! Events of a session for several readers.

use std::net::SocketAddr;

use anabranch_net::{
    Host, HostConfig, SessionEvent,
    session::{AllowList, SecretKey, SessionCloseReason},
};

#[tokio::test]
async fn each_reader_gets_every_event_from_the_present_state_on() {
    let key = |seed: u8| SecretKey::from_seed([seed; 32]);
    let node = |own: u8, peer: u8| {
        let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let allowed = AllowList::of([key(peer).node_id()]);
        Host::start(HostConfig::new(key(own), allowed).bind([loopback])).unwrap()
    };
    let work = async {
        let (a, b) = (node(1, 2), node(2, 1));
        let addresses = b.addresses();
        let (outgoing, incoming) = tokio::join!(a.connect(b.node_id(), &addresses), b.accept());
        let (outgoing, incoming) = (outgoing.unwrap(), incoming.unwrap());
        let readers = [outgoing.events(), outgoing.events()];
        // They do not keep the session open, and one that goes leaves the others.
        assert_eq!(outgoing.handles(), 1);
        drop(outgoing.events());
        for reader in &readers {
            let event = reader.next().await.unwrap();
            let SessionEvent::ChannelUp { remote, .. } = event else {
                panic!("{event:?}");
            };
            assert_eq!(remote, addresses[0]);
        }
        // The queue that handles share has it, too.
        let event = outgoing.next_event().await.unwrap();
        assert!(matches!(event, SessionEvent::ChannelUp { .. }), "{event:?}");
        incoming.close(7, "enough");
        for reader in &readers {
            let closed = loop {
                if let Err(closed) = reader.next().await {
                    break closed.0;
                }
            };
            let reason = "enough".to_owned();
            assert_eq!(closed, SessionCloseReason::Peer { code: 7, reason });
        }
        drop(outgoing);
        assert!(readers[0].next().await.is_err());
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, work)
        .await
        .expect("the test hangs");
}
