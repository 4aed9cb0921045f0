//! Rights of a node at another one, and their withdrawal.

use std::{
    fs,
    future::Future,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch::{
    AllowList, Host, HostConfig, Session, StreamSpec,
    config::{Layer, NodeConfig},
    daemon::{CODE_NO_RIGHT, Daemon},
    transfer::{Completed, Progress, Source, TransferError, send},
};
use anabranch_session::SessionCloseReason;

use crate::common::{id, key, within};

const NODE: u8 = 1;
const PEER: u8 = 2;

/// The peer: a host without a configuration.
fn peer() -> Host {
    let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    Host::start(HostConfig::new(key(PEER), AllowList::default()).bind([loopback])).unwrap()
}

fn section(rights: &str) -> String {
    format!(
        "[[peer]]\nname = \"peer\"\nnode = \"{}\"\nmay = [{rights}]\n",
        id(PEER)
    )
}

fn member(rights: &str) -> String {
    format!(
        "[[overlay.member]]\nname = \"peer\"\nnode = \"{}\"\nmay = [{rights}]\n",
        id(PEER)
    )
}

/// A node whose configuration can be rewritten.
struct Node {
    daemon: Daemon,
    text: Arc<Mutex<String>>,
}

impl Node {
    async fn start(folder: &Path, sections: &str) -> Self {
        let key_file = folder.join("key");
        fs::write(&key_file, key(NODE).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&key_file, owner_only).unwrap();
        fs::create_dir(folder.join("in")).unwrap();
        let places = format!(
            "key = {key_file:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\nreceive = {:?}\n",
            folder.join("control"),
            folder.join("in")
        );
        let text = Arc::new(Mutex::new(sections.to_owned()));
        let source = {
            let text = text.clone();
            move || -> Result<NodeConfig, String> {
                let text = places.clone() + &text.lock().unwrap();
                let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
                layer.resolve(|_| None).map_err(|error| error.to_string())
            }
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        let daemon = daemon.with_source(Box::new(source));
        Self { daemon, text }
    }

    fn configure(&self, sections: &str) {
        sections.clone_into(&mut self.text.lock().unwrap());
    }

    async fn call(&self, peer: &Host) -> Session {
        let host = self.daemon.host();
        peer.connect(host.node_id(), &host.addresses())
            .await
            .unwrap()
    }
}

/// Sends one small file.
async fn send_file(session: &Session, folder: &Path) -> Result<Completed, TransferError> {
    let path = folder.join("film.mp4");
    fs::write(&path, [7; 10_000]).unwrap();
    send(session, None, Source::Path(path), &Progress::default()).await
}

/// Runs a test beside the node.
async fn beside(node: &Node, test: impl Future<Output = ()>) {
    within(async {
        tokio::select! {
            () = node.daemon.run() => unreachable!("it runs until dropped"),
            () = test => {}
        }
    })
    .await;
}

/// Waits until the session was closed for lack of a right: by the node's rights, or by the list of keys whose channels it
/// accepts.
async fn was_refused(session: &Session) {
    match session.closed().await {
        SessionCloseReason::Peer { code, .. } => assert_eq!(code, u64::from(CODE_NO_RIGHT)),
        SessionCloseReason::NotAllowed => {}
        other => panic!("{other}"),
    }
}

/// Names of the files that arrived, without hidden folders.
fn arrived(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_the_overlay_may_not_write_files() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &member("")).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        let error = send_file(&session, folder.path()).await.unwrap_err();
        assert!(!matches!(error, TransferError::Unreachable(_)), "{error}");
        assert_eq!(arrived(&folder.path().join("in")), [""; 0]);
        // The overlay's stream is not opened on this session, so it is not for a member.
        was_refused(&session).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_right_to_call_does_not_permit_writing_files() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &section("\"call\"")).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        let error = send_file(&session, folder.path()).await.unwrap_err();
        assert!(matches!(error, TransferError::Refused(_)), "{error}");
        assert!(error.to_string().contains("send-files"), "{error}");
        assert_eq!(arrived(&folder.path().join("in")), [""; 0]);
        assert!(session.close_reason().is_none(), "it may be here");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_into_the_folder_that_the_right_names() {
    let folder = tempfile::tempdir().unwrap();
    let rights = "\"call\", { right = \"send-files\", folder = \"ship/north\" }";
    let node = Node::start(folder.path(), &section(rights)).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        send_file(&session, folder.path()).await.unwrap();
        let received = folder.path().join("in");
        assert_eq!(arrived(&received), ["ship"]);
        assert_eq!(arrived(&received.join("ship/north")), ["film.mp4"]);
    })
    .await;
}

/// An endless source of bytes.
#[derive(Debug)]
struct Endless;

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        std::thread::sleep(Duration::from_millis(1));
        let count = buffer.len().min(10_000);
        buffer[..count].fill(7);
        Ok(count)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_withdrawn_ends_what_depends_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let both = section("\"call\", \"send-files\"");
    let node = Node::start(folder.path(), &both).await;
    let peer = peer();
    beside(&node, async {
        let idle = node.call(&peer).await;
        let session = node.call(&peer).await;
        let progress = Progress::default();
        let source = Source::Reader {
            name: "film.mp4".to_owned(),
            reader: Box::new(Endless),
        };
        let sending = send(&session, None, source, &progress);
        let taking_away = async {
            // Data has reached the node, not only the buffers on this side.
            while node
                .daemon
                .host()
                .sessions()
                .iter()
                .all(|session| session.streams.len() < 2)
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            node.configure(&section("\"call\""));
            let reloaded = node.daemon.reload().await.unwrap();
            assert_eq!(reloaded.reduced, [id(PEER)]);
            assert!(
                reloaded.extended.is_empty() && reloaded.restart.is_empty(),
                "{reloaded:?}"
            );
        };
        let (sent, ()) = tokio::join!(sending, taking_away);
        assert!(sent.is_err());
        was_refused(&session).await;
        assert_eq!(arrived(&folder.path().join("in")), [""; 0]);
        // The right to call is still in force, with the sessions that depend on it.
        assert!(idle.close_reason().is_none());
        node.call(&peer).await;
        // Now it is withdrawn.
        node.configure("");
        node.daemon.reload().await.unwrap();
        was_refused(&idle).await;
        let host = node.daemon.host();
        let again = peer.connect(host.node_id(), &host.addresses()).await;
        assert!(again.is_err(), "a key that is gone opens nothing");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_given_counts_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &section("\"call\"")).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        send_file(&session, folder.path()).await.unwrap_err();
        node.configure(&section(
            "\"call\", { right = \"send-files\", folder = \"new\" }",
        ));
        let reloaded = node.daemon.reload().await.unwrap();
        assert_eq!(reloaded.extended, [id(PEER)]);
        send_file(&session, folder.path()).await.unwrap();
        assert_eq!(arrived(&folder.path().join("in/new")), ["film.mp4"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_that_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &section("\"call\", \"send-files\"")).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        let before = node.daemon.rights().table();
        for wrong in [
            "[[peer]]\nname = \"x\"\n",
            &section("\"fly\""),
            "allow = []\n",
        ] {
            node.configure(wrong);
            node.daemon.reload().await.unwrap_err();
            assert_eq!(node.daemon.rights().table(), before);
        }
        send_file(&session, folder.path()).await.unwrap();
        // Keys that cannot change at run time are named, and the others take effect.
        let more =
            section("\"call\"") + "[session]\ntimeout = \"9 s\"\n[channel]\nmtu_max = \"1300 B\"\n";
        node.configure(&(more + &member("")));
        let reloaded = node.daemon.reload().await.unwrap();
        assert_eq!(reloaded.reduced, [id(PEER)]);
        assert_eq!(reloaded.extended, [id(PEER)]);
        assert_eq!(reloaded.restart, ["channel.mtu_max"]);
    })
    .await;
}

/// Settings of sessions and channels change under a transfer, which loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_sessions_are_reloaded_while_data_flows() {
    let folder = tempfile::tempdir().unwrap();
    let rights = section("\"call\", \"send-files\"");
    let node = Node::start(folder.path(), &rights).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        let path = folder.path().join("long");
        let content: Vec<u8> = (0..30_000_000u32).map(|n| (n * 7 + n / 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let progress = Progress::default();
        let sending = send(&session, None, Source::Path(path), &progress);
        let policy_of_all = || {
            let sessions = node.daemon.host().sessions();
            let policies = sessions.iter().map(|own| own.stats.policy.to_string());
            policies.collect::<Vec<String>>()
        };
        let changing = async {
            for (policy, controller) in [("ecf", "cubic"), ("round_robin", "newreno"), ("min_rtt", "auto")] {
                let settings = format!(
                    "[session]\npolicy = \"{policy}\"\ntimeout = \"9 s\"\n[channel]\ncontroller = \"{controller}\"\n"
                );
                node.configure(&(rights.clone() + &settings));
                let reloaded = node.daemon.reload().await.unwrap();
                assert!(reloaded.restart.is_empty(), "{reloaded:?}");
                assert_eq!(policy_of_all(), [policy]);
            }
        };
        let (sent, ()) = tokio::join!(sending, changing);
        sent.unwrap();
        assert!(fs::read(folder.path().join("in/long")).unwrap() == content);
        // A session that begins now has them from its start.
        let _other = node.call(&peer).await;
        while policy_of_all().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(policy_of_all(), ["min_rtt", "min_rtt"]);
        // The engine is made for the largest payload.
        let text = rights.clone() + "[channel]\nmtu_max = \"1400 B\"\n";
        node.configure(&text);
        assert_eq!(node.daemon.reload().await.unwrap().restart, ["channel.mtu_max"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_not_accepted_are_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &member("")).await;
    let peer = peer();
    beside(&node, async {
        let session = node.call(&peer).await;
        // The session is closed after 10 s without the overlay's stream: on a machine that is busy, before all are open.
        let open = async || -> Option<()> {
            let stream = session.open_stream(StreamSpec::bulk("anything")).ok()?;
            stream.send(vec![0; 1_000].into()).await.ok()?;
            stream.delivered().await.unwrap_err();
            Some(())
        };
        let mut opened = 0;
        while opened < 100 && open().await.is_some() {
            opened += 1;
        }
        assert!(opened > 0);
        let sessions = node.daemon.host().sessions();
        let held = sessions
            .iter()
            .map(|session| session.stats.recv_held_bytes)
            .sum::<u64>();
        assert_eq!(held, 0);
    })
    .await;
}
