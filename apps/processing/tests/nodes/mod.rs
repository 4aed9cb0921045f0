//! Nodes of this process, emulated links between them, and what a test needs of a service, a source and a subscriber.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    Client, SecretKey, StreamSpec,
    base::{NodeId, Seed},
    config::Layer,
    daemon::Daemon,
    local::client::Session,
    net::emulate::{
        Emulator, PathSpec,
        link::describe::{no_traces, parse_both},
    },
};

use anabranch_processing::{
    offer,
    service::{self, Service},
    subscribe,
    wire::message::Pace,
};
use tokio::{sync::mpsc, task::JoinHandle};

/// A link with more than is needed.
const WIDE: &str = "rate=20 Mbit/s, delay=5 ms, queue=300 ms";
/// Limit on a test; nothing is asserted of the time within it.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// All rights of a peer about processing.
pub(crate) const MAY_ALL: &str =
    "may = [\"call\", { right = \"use-service\", services = [\"process/1/*\"] }]";

/// A node, and the socket at which applications attach to it.
pub(crate) struct Node {
    pub(crate) daemon: Daemon,
    pub(crate) local: PathBuf,
}

/// Identity of the node with this number.
pub(crate) fn id(own: u8) -> NodeId {
    SecretKey::from_seed([own; 32]).node_id()
}

/// A node with these peers, by number and the rest of their entries.
pub(crate) async fn node(folder: &Path, own: u8, peers: &[(u8, String)]) -> Node {
    let folder = folder.join(own.to_string());
    fs::create_dir(&folder).unwrap();
    let key = folder.join("key");
    fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    let control = folder.join("control.sock");
    let mut text = format!(
        "key = {key:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {control:?}\nevidence = \"\"\n"
    );
    for (peer, rest) in peers {
        let node = id(*peer);
        text += &format!("[[peer]]\nname = \"peer-{peer}\"\nnode = \"{node}\"\n{rest}\n");
    }
    let config = Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap();
    Node {
        daemon: Daemon::start(config).await.unwrap(),
        local: folder.join("control-local.sock"),
    }
}

/// A link to an address.
pub(crate) fn link(target: SocketAddr, seed: u64) -> Emulator {
    let links = parse_both(WIDE, &mut no_traces).unwrap();
    let path = PathSpec {
        name: "leg".to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        target,
        links,
    };
    Emulator::start(vec![path], Seed(seed)).unwrap()
}

/// Rest of the entry of a peer that is reached over this link, and has no rights.
pub(crate) fn beyond(link: &Emulator) -> String {
    format!("may = []\naddresses = [\"{}\"]", link.addresses()[0])
}

/// A service that is registered at a node.
pub(crate) async fn service(node: &Node) -> impl Future<Output = ()> + Send + use<> {
    let client = Client::attach(&node.local, "test").await.unwrap();
    let service = Service::new(service::Settings::default(), mpsc::channel(1).0);
    let registration = service.register(&client).await.unwrap();
    async move {
        service.serve(&registration).await;
    }
}

/// A service at a node, until this is aborted.
pub(crate) async fn serve(node: &Node) -> JoinHandle<()> {
    tokio::spawn(service(node).await)
}

/// A source of the stream `x` for these nodes, by number.
pub(crate) fn source(subscribers: &[u8], pace: Pace) -> Arc<offer::Source> {
    let subscribers = subscribers.iter().map(|peer| id(*peer).to_string());
    Arc::new(offer::Source::new(offer::Settings {
        name: "x".to_owned(),
        run: 1,
        subscribers: subscribers.collect(),
        pace,
        patience: None,
        spec: StreamSpec::default(),
    }))
}

/// Settings of a reliable subscriber to `x`.
pub(crate) fn wants(run: u64) -> subscribe::Settings {
    subscribe::Settings {
        name: "x".to_owned(),
        run,
        source: None,
        demand: None,
        modules: BTreeMap::new(),
        patience: None,
        spec: StreamSpec::default(),
    }
}

/// Offers `x` in a session with a node that has a service, and runs `work` with both. The service goes on until then.
pub(crate) async fn with_source(work: impl AsyncFnOnce(&Arc<offer::Source>, &Arc<Session>)) {
    let folder = tempfile::tempdir().unwrap();
    let hub = node(folder.path(), 2, &[(1, MAY_ALL.to_owned())]).await;
    let leg = link(hub.daemon.host().addresses()[0], 1);
    let near = node(folder.path(), 1, &[(2, beyond(&leg))]).await;
    let work = async {
        let serving = serve(&hub).await;
        let client = Client::attach(&near.local, "test").await.unwrap();
        let session = Arc::new(client.connect(&id(2).to_string()).await.unwrap());
        let source = source(&[1], Pace::Slowest);
        let (offering, at) = (source.clone(), session.clone());
        let offered = tokio::spawn(async move { offering.run(&*at).await });
        source.taken().wait_for(|taken| *taken > 0).await.unwrap();
        work(&source, &session).await;
        source.finish();
        offered.await.unwrap().unwrap();
        assert!(!serving.is_finished(), "the service goes on");
        serving.abort();
    };
    let limited = tokio::time::timeout(LIMIT, work);
    tokio::select! {
        () = hub.daemon.run() => unreachable!("it runs until dropped"),
        () = near.daemon.run() => unreachable!("it runs until dropped"),
        done = limited => done.expect("the test ends in time"),
    }
}
