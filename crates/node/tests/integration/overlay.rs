//! Nodes on this machine that form an overlay.

mod loads;
mod reload;
mod sessions;

use std::{collections::BTreeMap, future::Future, net::SocketAddr, path::Path, time::Duration};

use anabranch::{
    base::NodeId,
    config::{Layer, NodeConfig},
    daemon::Daemon,
    overlay::{Follower, OpenPath, Overlay, PathFeedback, State},
    transfer::{Progress, Source, send},
};
use anabranch_session::ChannelStatus;

use crate::common::{addresses, id, key, within};

/// Runs three nodes until a check has ended.
async fn run_until(nodes: [&Daemon; 3], check: impl Future<Output = ()>) {
    let [first, second, third] = nodes;
    tokio::select! {
        () = first.run() => unreachable!(),
        () = second.run() => unreachable!(),
        () = third.run() => unreachable!(),
        () = check => {}
    }
}

/// The configuration of node `n` of an overlay in which every node knows `known`.
fn config(folder: &Path, n: u8, at: SocketAddr, known: &BTreeMap<u8, SocketAddr>) -> NodeConfig {
    configured(folder, n, at, known, "")
}

/// The same, with additional keys of the overlay.
fn configured(
    folder: &Path,
    n: u8,
    at: SocketAddr,
    known: &BTreeMap<u8, SocketAddr>,
    more: &str,
) -> NodeConfig {
    let text = text(folder, n, at, known, more);
    Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap()
}

/// The same as a text.
fn text(
    folder: &Path,
    n: u8,
    at: SocketAddr,
    known: &BTreeMap<u8, SocketAddr>,
    more: &str,
) -> String {
    let key_file = folder.join(format!("key-{n}"));
    std::fs::write(&key_file, key(n).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key_file, owner_only).unwrap();
    let mut text = format!(
        "key = {key_file:?}\nlisten = [\"{at}\"]\ncontrol = {:?}\nreceive = {folder:?}\n[overlay]\n{more}\n",
        folder.join(format!("control-{n}"))
    );
    let may = match more.contains("relay") {
        true => "\"call\", \"send-files\", \"use-relay\"",
        false => "\"call\", \"send-files\"",
    };
    for (other, address) in known {
        let id = key(*other).node_id();
        text += &format!(
            "[[overlay.member]]\nname = \"n{other}\"\nnode = \"{id}\"\naddresses = [\"{address}\"]\nmay = [{may}]\n"
        );
    }
    text
}

async fn states(daemon: &Daemon) -> BTreeMap<NodeId, State> {
    let overlay = daemon.overlay().unwrap();
    let views = overlay.members().await;
    views.iter().map(|view| (view.node, view.state)).collect()
}

/// Waits until the node is in one of these states at `daemon`.
async fn until(daemon: &Daemon, node: NodeId, any: &[State]) {
    while !states(daemon)
        .await
        .get(&node)
        .is_some_and(|state| any.contains(state))
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_discover_each_other_and_notice_departures() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let at = addresses(3);
        let known: BTreeMap<u8, SocketAddr> = (1..).zip(at.iter().copied()).collect();
        let mut daemons = Vec::new();
        for n in 1..=3 {
            let config = config(folder.path(), n, known[&n], &known);
            daemons.push(Daemon::start(config).await.unwrap());
        }
        let third = daemons.pop().unwrap();
        let [first, second] = &daemons[..] else {
            unreachable!("two are left");
        };
        let check = async {
            until(first, id(3), &[State::Alive]).await;
            until(second, id(3), &[State::Alive]).await;
            until(second, id(1), &[State::Alive]).await;
        };
        tokio::select! {
            () = first.run() => unreachable!(),
            () = second.run() => unreachable!(),
            () = async {
                // The third one runs until the others have found it.
                tokio::select! {
                    () = third.run() => unreachable!(),
                    () = check => {}
                }
                third.shutdown().await.unwrap();
                // Its farewell may be lost; its silence has the same effect a little later.
                until(first, id(3), &[State::Left, State::Down]).await;
                until(second, id(3), &[State::Left, State::Down]).await;
                until(first, id(2), &[State::Alive]).await;
            } => {}
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_are_reached_by_the_names_of_their_hosts() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let at = addresses(3);
        let known: BTreeMap<u8, SocketAddr> = (1..).zip(at.iter().copied()).collect();
        let mut daemons = Vec::new();
        for n in 1..=3 {
            let text = text(folder.path(), n, known[&n], &known, "");
            let named = text.replace("addresses = [\"127.0.0.1:", "addresses = [\"localhost:");
            assert_ne!(text, named);
            let config = Layer::from_toml(&named).unwrap().resolve(|_| None).unwrap();
            daemons.push(Daemon::start(config).await.unwrap());
        }
        let [first, second, third] = &daemons[..] else {
            unreachable!("there are three");
        };
        let check = async {
            until(first, id(3), &[State::Alive]).await;
            until(second, id(1), &[State::Alive]).await;
        };
        run_until([first, second, third], check).await;
    })
    .await;
}

/// The first and the third node have wrong addresses of each other. The third one announces where it is by the name of its host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_is_reached_by_the_name_that_it_announces() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let at = addresses(4);
        let own = format!("addresses = [\"localhost:{}\"]", at[2].port());
        let mut daemons = Vec::new();
        for n in 1..=3 {
            let mut known: BTreeMap<u8, SocketAddr> = (1..=3).zip(at.iter().copied()).collect();
            if n != 2 {
                // No node has this address.
                known.insert(4 - n, at[3]);
            }
            let more = if n == 3 { own.as_str() } else { "" };
            let config = configured(folder.path(), n, at[usize::from(n) - 1], &known, more);
            daemons.push(Daemon::start(config).await.unwrap());
        }
        let [first, second, third] = &daemons[..] else {
            unreachable!("there are three");
        };
        let is_connected = |daemon: &Daemon, peer: NodeId| {
            let sessions = daemon.host().sessions();
            let mut stats = sessions.iter().map(|session| &session.stats);
            stats.any(|stats| stats.peer == peer && stats.channels_active > 0)
        };
        let check = async {
            while !is_connected(first, id(3)) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        run_until([first, second, third], check).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_never_gets_in() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let at = addresses(3);
        let known: BTreeMap<u8, SocketAddr> = (1..).zip(at.iter().copied()).collect();
        let members: BTreeMap<u8, SocketAddr> = known
            .iter()
            .filter(|(n, _)| **n < 3)
            .map(|(&n, &at)| (n, at))
            .collect();
        let first = Daemon::start(config(folder.path(), 1, known[&1], &members))
            .await
            .unwrap();
        let second = Daemon::start(config(folder.path(), 2, known[&2], &members))
            .await
            .unwrap();
        let stranger = Daemon::start(config(folder.path(), 3, known[&3], &known))
            .await
            .unwrap();
        // Checked while all three run: a node that is not a member now may become one later.
        let never_inside = async {
            until(&first, id(2), &[State::Alive]).await;
            until(&second, id(1), &[State::Alive]).await;
            let end = tokio::time::Instant::now() + Duration::from_secs(3);
            while tokio::time::Instant::now() < end {
                for member in [&first, &second] {
                    let inside = states(member).await;
                    assert!(!inside.contains_key(&id(3)), "{inside:?}");
                }
                // It sees no node as alive except itself.
                let mut outside = states(&stranger).await;
                assert_eq!(outside.remove(&id(3)), Some(State::Alive), "{outside:?}");
                let is_alive = |state: &State| *state == State::Alive;
                assert!(!outside.values().any(is_alive), "{outside:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // The members are still connected with each other.
            assert_eq!(states(&first).await[&id(2)], State::Alive);
            assert_eq!(states(&second).await[&id(1)], State::Alive);
        };
        run_until([&first, &second, &stranger], never_inside).await;
    })
    .await;
}

/// Requests paths until one leads over a relay.
async fn relayed(overlay: &Overlay, to: NodeId) -> OpenPath {
    loop {
        let paths = overlay
            .paths(1 << 40, to, 10_000_000, PathFeedback::default())
            .await
            .unwrap();
        if let Some(path) = paths.into_iter().find(|path| path.near.is_some()) {
            return path;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Three nodes, and the address of the third: the first and the third have wrong addresses of each other, and the second one
/// relays.
async fn with_a_relay_between(folder: &Path) -> (Vec<Daemon>, SocketAddr) {
    let at = addresses(4);
    let nowhere = at[3];
    let known: BTreeMap<u8, SocketAddr> = (1..=3).zip(at.iter().copied()).collect();
    let mut daemons = Vec::new();
    for n in 1..=3 {
        // Less than loopback carries: the circuit is granted all of it.
        let more = if n == 2 { "relay = \"30 Mbit/s\"" } else { "" };
        let mut known = known.clone();
        if n != 2 {
            // No node has this address.
            known.insert(4 - n, nowhere);
        }
        let text = text(folder, n, at[usize::from(n) - 1], &known, more);
        let file = folder.join(format!("{n}.toml"));
        std::fs::write(&file, text).unwrap();
        let source = move || -> Result<NodeConfig, String> {
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
            layer.resolve(|_| None).map_err(|error| error.to_string())
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        daemons.push(daemon.with_source(Box::new(source)));
    }
    (daemons, at[2])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_over_a_relay() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (daemons, _) = with_a_relay_between(folder.path()).await;
        let [first, relay, third] = &daemons[..] else {
            unreachable!("three were started");
        };
        let overlay = &first.overlay().unwrap();
        let check = async {
            let path = relayed(overlay, id(3)).await;
            assert_eq!(path.relays, [id(2)]);
            let host = first.host();
            let session = host.connect(id(3), &[path.near.unwrap()]).await.unwrap();
            let outgoing = folder.path().join("outgoing");
            std::fs::create_dir(&outgoing).unwrap();
            std::fs::write(outgoing.join("bulk"), vec![7; 1_000_000]).unwrap();
            let source = Source::Path(outgoing.join("bulk"));
            let sent = send(&session, None, source, &Progress::default())
                .await
                .unwrap();
            assert_eq!(sent.bytes, 1_000_000);
            let report = relay.overlay().unwrap().relayed().await.unwrap();
            let circuit = &report.circuits[0];
            assert_eq!((circuit.source, circuit.next), (id(1), id(3)));
            assert!(circuit.account.outward.bytes > 1_000_000, "{circuit:?}");
            // The rate granted to the circuit is no longer free, and the relay reports this; the path stays.
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let paths = overlay.paths(1 << 40, id(3), 10_000_000, PathFeedback::default());
                let paths = paths.await.unwrap();
                let near = paths.iter().find(|path| path.relays == [id(2)]);
                assert!(near.is_some_and(|path| path.near.is_some()), "{paths:?}");
            }
        };
        run_until([first, relay, third], check).await;
    })
    .await;
}

/// Another node at the same address, as behind the same translator, sends to a circuit before its source does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_that_another_node_used_first_is_still_of_use() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (daemons, to) = with_a_relay_between(folder.path()).await;
        let [first, relay, third] = &daemons[..] else {
            unreachable!("three were started");
        };
        let overlay = &first.overlay().unwrap();
        let check = async {
            let near = relayed(overlay, id(3)).await.near.unwrap();
            let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            other.send_to(&[0; 40], near).unwrap();
            let relaying = relay.overlay().unwrap();
            let is_taken = async || {
                let report = relaying.relayed().await.unwrap();
                let mut circuits = report.circuits.iter();
                circuits.any(|circuit| circuit.near == near && circuit.origin.is_some())
            };
            while !is_taken().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let session = first.host().connect(id(3), &[to]).await.unwrap();
            let mut follower = Follower::new(session.clone());
            let is_up = || {
                let channels = session.channels();
                let mut to = channels.iter().filter(|channel| channel.remote == near);
                to.any(|channel| channel.state == ChannelStatus::Active)
            };
            while !is_up() {
                let feedback = follower.next().await.unwrap();
                let paths = overlay.paths(1 << 40, id(3), 10_000_000, feedback).await;
                let paths: Vec<SocketAddr> =
                    paths.unwrap().iter().filter_map(|path| path.near).collect();
                // It is not replaced by another one. On a busy machine the relay may seem to be away for a while.
                assert!(paths.iter().all(|path| *path == near), "{paths:?}");
                follower.set(&paths);
            }
        };
        run_until([first, relay, third], check).await;
    })
    .await;
}

/// Changes the file of node `n` of [`with_a_relay_between`], section by section, and has the node read it again.
async fn rewrite(folder: &Path, n: u8, daemon: &Daemon, change: impl Fn(&str) -> String) {
    let file = folder.join(format!("{n}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let (head, sections) = text.split_once("[[overlay.member]]").unwrap();
    let sections = sections.split("[[overlay.member]]").map(change);
    std::fs::write(&file, head.to_owned() + &sections.collect::<String>()).unwrap();
    daemon.reload().await.unwrap();
}

fn is_about(section: &str, n: u8) -> bool {
    section.contains(&format!("\"n{n}\""))
}

async fn circuits(relay: &Daemon) -> usize {
    relay
        .overlay()
        .unwrap()
        .relayed()
        .await
        .unwrap()
        .circuits
        .len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_end_with_the_right_to_use_the_relay_and_no_others_are_opened() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (daemons, _) = with_a_relay_between(folder.path()).await;
        let [first, relay, third] = &daemons[..] else {
            unreachable!("three were started");
        };
        let check = async {
            let overlay = &first.overlay().unwrap();
            relayed(overlay, id(3)).await;
            assert_eq!(circuits(relay).await, 1);
            rewrite(folder.path(), 2, relay, |section| {
                let without = section.replace(", \"use-relay\"", "");
                let section = if is_about(section, 1) {
                    &without
                } else {
                    section
                };
                format!("[[overlay.member]]{section}")
            })
            .await;
            assert_eq!(circuits(relay).await, 0);
            // The node asks repeatedly, and is refused every time.
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let paths = overlay.paths(1 << 40, id(3), 10_000_000, PathFeedback::default());
                paths.await.unwrap();
                assert_eq!(circuits(relay).await, 0);
            }
            // Membership is a separate right, and still in force.
            assert_eq!(states(relay).await[&id(1)], State::Alive);
        };
        run_until([first, relay, third], check).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_taken_off_the_list_is_out_at_once() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (daemons, _) = with_a_relay_between(folder.path()).await;
        let [first, relay, third] = &daemons[..] else {
            unreachable!("three were started");
        };
        let check = async {
            let overlay = &first.overlay().unwrap();
            relayed(overlay, id(3)).await;
            // The destination is no longer a member: the circuit to it ends with its session.
            rewrite(folder.path(), 2, relay, |section| {
                match is_about(section, 3) {
                    true => String::new(),
                    false => format!("[[overlay.member]]{section}"),
                }
            })
            .await;
            assert!(!states(relay).await.contains_key(&id(3)));
            let sessions = || relay.host().sessions().into_iter();
            while sessions().any(|session| session.stats.peer == id(3)) || circuits(relay).await > 0
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                assert!(sessions().all(|session| session.stats.peer != id(3)));
                assert_eq!(circuits(relay).await, 0);
            }
            assert_eq!(states(relay).await[&id(1)], State::Alive);
        };
        run_until([first, relay, third], check).await;
    })
    .await;
}
