//! Local addresses and the rendezvous of a node that change with its configuration, while sessions go on.

use std::{
    net::{SocketAddr, UdpSocket},
    ops::RangeInclusive,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch::{
    AllowList, Host, HostConfig, Session, StreamSpec,
    codes::Place,
    config::{Layer, NodeConfig},
    daemon::Daemon,
    net::Detour,
    rendezvous::{Pairing, Via, Waiter},
};

use crate::common::{id, key, within};

const NODE: u8 = 61;
const PEER: u8 = 62;

/// A node whose configuration can be changed.
struct Node {
    daemon: Daemon,
    text: Arc<Mutex<String>>,
}

impl Node {
    async fn start(folder: &Path, text: &str) -> Self {
        let key_file = folder.join("key");
        std::fs::write(&key_file, key(NODE).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&key_file, owner_only).unwrap();
        let control = folder.join("control");
        let receive = folder.join("in");
        std::fs::create_dir(&receive).unwrap();
        let places = format!("key = {key_file:?}\ncontrol = {control:?}\nreceive = {receive:?}\n");
        let text = Arc::new(Mutex::new(text.to_owned()));
        let source = {
            let text = text.clone();
            move || -> Result<NodeConfig, String> {
                let text = places.clone() + &text.lock().unwrap();
                let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
                layer.resolve(|_| None).map_err(|error| error.to_string())
            }
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        Self {
            daemon: daemon.with_source(Box::new(source)),
            text,
        }
    }

    fn configure(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap());
    }

    /// Runs a test beside the node.
    async fn beside(&self, test: impl Future<Output = ()>) {
        within(async {
            tokio::select! {
                () = self.daemon.run() => unreachable!("it runs until dropped"),
                () = test => {}
            }
        })
        .await;
    }
}

fn listening(address: SocketAddr, may: &str) -> String {
    let peer = id(PEER);
    format!(
        "listen = [\"{address}\"]\n[[peer]]\nname = \"peer\"\nnode = \"{peer}\"\nmay = [{may}]\n"
    )
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn is_free(address: SocketAddr) -> bool {
    UdpSocket::bind(address).is_ok()
}

/// A peer, a session that the node opened with it, and the peer's end.
async fn called(node: &Daemon) -> (Host, Session, Session) {
    let allowed = AllowList::of([id(NODE)]);
    let config = HostConfig::new(key(PEER), allowed).bind([at("127.0.0.1:0")]);
    let peer = Host::start(config).unwrap();
    let there = peer.addresses();
    let (session, accepted) =
        tokio::join!(node.host().connect(peer.node_id(), &there), peer.accept());
    (peer, session.unwrap(), accepted.unwrap())
}

/// An ADU arrives.
async fn carries(from: &Session, to: &Session) {
    let stream = from.open_stream(StreamSpec::bulk("probe")).unwrap();
    stream.send("there".into()).await.unwrap();
    let received = to.accept_stream().await.unwrap().recv().await.unwrap();
    assert_eq!(received.unwrap().data, "there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_listens_elsewhere_after_a_reload_and_its_sessions_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &listening(at("127.0.0.1:0"), "\"call\"")).await;
    let host = node.daemon.host();
    node.beside(async {
        let (peer, session, accepted) = called(&node.daemon).await;
        let former = host.addresses()[0];
        let (stream, next) = (
            session.open_stream(StreamSpec::bulk("numbers")).unwrap(),
            at("127.0.0.2:0"),
        );
        stream.send("first".into()).await.unwrap();
        node.configure(&listening(next, "\"call\""));
        let reloaded = node.daemon.reload().await.unwrap();
        assert!(reloaded.restart.is_empty(), "{reloaded:?}");
        assert_eq!(host.addresses().len(), 1);
        assert_eq!(host.addresses()[0].ip(), next.ip());
        assert_eq!(node.daemon.ticket().addresses, host.addresses());
        stream.send("second".into()).await.unwrap();
        let received = accepted.accept_stream().await.unwrap();
        for text in ["first", "second"] {
            assert_eq!(received.recv().await.unwrap().unwrap().data, text);
        }
        while host.sockets().len() > 1 || !is_free(former) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        carries(&session, &accepted).await;
        assert!(session.close_reason().is_none());
        // Who calls finds it at the new address.
        peer.connect(host.node_id(), &host.addresses())
            .await
            .unwrap();
        // Nothing is opened anew while the configuration stays.
        let before = host.sockets()[0].id;
        node.daemon.reload().await.unwrap();
        assert_eq!(host.sockets()[0].id, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_that_cannot_be_used_leave_the_whole_configuration_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &listening(at("127.0.0.1:0"), "\"call\"")).await;
    let host = node.daemon.host();
    node.beside(async {
        let (_peer, session, accepted) = called(&node.daemon).await;
        let before = (host.addresses(), node.daemon.rights().table());
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wide = SocketAddr::new([0, 0, 0, 0].into(), before.0[0].port());
        for (wrong, words) in [
            (
                taken.local_addr().unwrap(),
                "another program uses this port",
            ),
            (wide, "choose another port, or restart the node"),
            (at("192.0.2.1:0"), "does not have that address"),
        ] {
            node.configure(&listening(wrong, "\"call\", \"send-files\""));
            let error = node.daemon.reload().await.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(error.contains(&wrong.to_string()), "{error}");
            assert_eq!(host.addresses(), before.0);
            assert_eq!(host.sockets().len(), 1);
            assert_eq!(node.daemon.rights().table(), before.1);
        }
        carries(&session, &accepted).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rendezvous_begins_opens_to_strangers_and_ends_with_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let here = listening(at("127.0.0.1:0"), "\"call\"");
    let node = Node::start(folder.path(), &here).await;
    let host = node.daemon.host();
    node.beside(async {
        let (_peer, session, accepted) = called(&node.daemon).await;
        let via: Via = format!("{}@{}", host.node_id(), host.addresses()[0])
            .parse()
            .unwrap();
        let stranger = |seed| {
            let config = HostConfig::new(key(seed), AllowList::default());
            Host::start(config.bind([at("127.0.0.1:0")])).unwrap()
        };
        let place = Place::new(7).unwrap();
        let [first, second, third] = [70, 71, 72].map(stranger);
        // Where there is none, and where it begins together with other addresses.
        assert!(Waiter::start(&first, &via, place).await.is_err());
        let elsewhere = listening(at("127.0.0.2:0"), "\"call\"");
        node.configure(&(elsewhere + "[rendezvous]\nstrangers = true\n"));
        let error = node.daemon.reload().await.unwrap_err().to_string();
        assert!(error.contains("reload once"), "{error}");
        assert_eq!(host.addresses(), [via.remotes.addresses[0]]);
        assert!(Waiter::start(&first, &via, place).await.is_err());
        let steps = [
            ("[rendezvous]\n", false),
            ("[rendezvous]\nstrangers = true\n", true),
            ("[rendezvous]\nstrangers = false\n", false),
            ("", false),
            ("[rendezvous]\nstrangers = true\n", true),
        ];
        for (section, is_open) in steps {
            node.configure(&(here.clone() + section));
            let reloaded = node.daemon.reload().await.unwrap();
            assert!(reloaded.restart.is_empty(), "{reloaded:?}");
            let waiting = Waiter::start(&second, &via, place).await;
            assert_eq!(waiting.is_ok(), is_open, "{section}");
        }
        // Limits and ports change while it goes on.
        let limited = |ports: RangeInclusive<u16>| {
            let (first, last) = (ports.start(), ports.end());
            let section = "[rendezvous]\nstrangers = true\nrate = \"1 Mbit/s\"\n";
            format!("{here}{section}ports = \"{first}-{last}\"\n")
        };
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let number = taken.local_addr().unwrap().port();
        node.configure(&limited(number..=number));
        let error = node.daemon.reload().await.unwrap_err().to_string();
        assert!(error.contains("rendezvous: none of the ports"), "{error}");
        let mut numbers = 31_000 + (std::process::id() % 100 * 10) as u16..32_500;
        let is_free = |port: &u16| is_free(SocketAddr::from(([127, 0, 0, 1], *port)));
        // Two nodes at one address need two ports.
        let pair = numbers.find(|port| is_free(port) && is_free(&(port + 1)));
        let ports = pair.unwrap()..=pair.unwrap() + 1;
        node.configure(&limited(ports.clone()));
        let reloaded = node.daemon.reload().await.unwrap();
        assert!(reloaded.restart.is_empty(), "{reloaded:?}");
        let (here, there) = tokio::join!(
            Pairing::meet(&first, &via, third.node_id()),
            Pairing::meet(&third, &via, first.node_id()),
        );
        let near = here.unwrap().open().await.unwrap();
        assert!(ports.contains(&near.port()), "{near}");
        drop(there);
        Waiter::start(&third, &via, place).await.unwrap();
        carries(&session, &accepted).await;
    })
    .await;
}
