//! Sessions with a node of which no address in the ticket answers, over a relay.

use std::net::SocketAddr;

use anabranch::{StreamSpec, Ticket};

use super::{ALL_SERVICES, Node, Pair};
use crate::rendezvous::relay;

/// The far node attends at a relay. The ticket names an address at which nobody is.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_reaches_by_a_ticket_over_its_relay_a_node_whose_addresses_do_not_answer() {
    let (_relay, via) = relay(None);
    let folder = tempfile::tempdir().unwrap();
    let attending = via.clone();
    let pair = Pair {
        near: Node::start(folder.path(), 1, 2, ALL_SERVICES).await,
        far: Node::start_with(folder.path(), 2, 1, ALL_SERVICES, |config| {
            config.via = Some(attending);
        })
        .await,
        _folder: folder,
    };
    pair.run(async {
        let host = pair.far.daemon.host();
        let [at] = host.addresses()[..] else {
            panic!("one address");
        };
        let ticket = Ticket {
            node: host.node_id(),
            secret: None,
            addresses: vec![SocketAddr::new([127, 0, 0, 99].into(), at.port())],
            hosts: Vec::new(),
            via: None,
        };
        let (near, far) = (pair.near.attach().await, pair.far.attach().await);
        let service = far.register("greetings").await.unwrap();
        let with_relay = Ticket {
            via: Some(via),
            ..ticket
        };
        let session = near.connect(&with_relay.to_string()).await.unwrap();
        assert_eq!(session.peer(), host.node_id());
        let paths = session.paths().await.unwrap();
        let seen = format!("→ {at}");
        assert!(
            paths.iter().any(|path| path.path.ends_with(&seen)),
            "{paths:?}"
        );
        let spec = StreamSpec::messages("greetings");
        let stream = session.open_stream(spec).await.unwrap();
        stream.send("hello").await.unwrap();
        let (_, accepted) = service.accept().await.unwrap();
        assert_eq!(accepted.recv().await.unwrap().unwrap().data, "hello");
    })
    .await;
}
