//! Nodes on this machine that form an overlay.
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{collections::BTreeMap, future::Future, net::SocketAddr, path::Path, time::Duration};

use anabranch::{
    SecretKey,
    base::NodeId,
    config::{Layer, NodeConfig},
    daemon::Daemon,
    overlay::State,
};

/// Kills a test that hangs.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("the test hangs")
}

fn key(n: u8) -> SecretKey {
    SecretKey::from_seed([n; 32])
}

/// Addresses of loopback that are free now.
fn addresses(count: usize) -> Vec<SocketAddr> {
    let sockets: Vec<_> = (0..count)
        .map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    let of = |socket: &std::net::UdpSocket| socket.local_addr().unwrap();
    sockets.iter().map(of).collect()
}

/// The configuration of node `n` of an overlay in which everybody knows `known`.
fn config(folder: &Path, n: u8, at: SocketAddr, known: &BTreeMap<u8, SocketAddr>) -> NodeConfig {
    let key_file = folder.join(format!("key-{n}"));
    std::fs::write(&key_file, key(n).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key_file, owner_only).unwrap();
    let mut text = format!(
        "key = {key_file:?}\nlisten = [\"{at}\"]\ncontrol = {:?}\n",
        folder.join(format!("control-{n}"))
    );
    for (other, address) in known {
        let id = key(*other).node_id();
        text += &format!(
            "[[overlay.member]]\nname = \"n{other}\"\nnode = \"{id}\"\naddresses = [\"{address}\"]\n"
        );
    }
    Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap()
}

fn id(n: u8) -> NodeId {
    key(n).node_id()
}

async fn states(daemon: &Daemon) -> BTreeMap<NodeId, State> {
    let views = daemon.overlay().unwrap().members().await;
    views.iter().map(|view| (view.node, view.state)).collect()
}

/// Waits until `daemon` holds the node for one of these.
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
async fn members_find_each_other_and_notice_who_leaves() {
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
                // The third one is there for as long as the others look for it.
                tokio::select! {
                    () = third.run() => unreachable!(),
                    () = check => {}
                }
                third.shutdown().await.unwrap();
                // Its farewell may be lost; silence says the same a little later.
                until(first, id(3), &[State::Left, State::Down]).await;
                until(second, id(3), &[State::Left, State::Down]).await;
                assert_eq!(states(first).await[&id(2)], State::Alive);
            } => {}
        }
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
        tokio::select! {
            () = first.run() => unreachable!(),
            () = second.run() => unreachable!(),
            () = stranger.run() => unreachable!(),
            () = async {
                until(&first, id(2), &[State::Alive]).await;
                tokio::time::sleep(Duration::from_secs(3)).await;
            } => {}
        }
        let inside = states(&first).await;
        assert!(!inside.contains_key(&id(3)), "{inside:?}");
        let outside = states(&stranger).await;
        assert!(
            outside
                .values()
                .all(|&state| state != State::Alive || outside.len() == 1),
            "{outside:?}"
        );
    })
    .await;
}
