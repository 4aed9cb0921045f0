//! Reloads that change the overlay: members, addresses, the relay, and whether there is one.

use std::{net::UdpSocket, pin::Pin, sync::Arc};

use anabranch::{Session, daemon::Reloaded};

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::common::wait_for;

/// Nodes whose configurations can be rewritten; each lists the others at the addresses in `known`.
struct Stand {
    folder: tempfile::TempDir,
    at: BTreeMap<u8, SocketAddr>,
    daemons: BTreeMap<u8, Daemon>,
}

impl Stand {
    /// `count` nodes without configurations yet.
    fn new(count: u8) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            at: (1..).zip(addresses(count.into())).collect(),
            daemons: BTreeMap::new(),
        }
    }

    /// Configuration of node `n` that lists these nodes, those of `nowhere` at an address where there is nobody.
    fn text(&self, n: u8, listed: &[u8], nowhere: &[u8], more: &str) -> String {
        let at = |other: &u8| match nowhere.contains(other) {
            true => ([127, 0, 0, 1], 9).into(),
            false => self.at[other],
        };
        let known = listed.iter().map(|other| (*other, at(other))).collect();
        text(self.folder.path(), n, self.at[&n], &known, more)
    }

    fn write(&self, n: u8, text: &str) {
        std::fs::write(self.folder.path().join(format!("{n}.toml")), text).unwrap();
    }

    async fn start(&mut self, n: u8, text: &str) {
        // The one before it may not have closed its socket yet.
        wait_for(async || is_free(self.at[&n]).await).await;
        self.write(n, text);
        let file = self.folder.path().join(format!("{n}.toml"));
        let source = move || -> Result<NodeConfig, String> {
            let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
            layer.resolve(|_| None).map_err(|error| error.to_string())
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        let daemon = daemon.with_source(Box::new(source));
        self.daemons.insert(n, daemon);
    }

    async fn try_reload(&self, n: u8, text: &str) -> Result<Reloaded, String> {
        self.write(n, text);
        // In a frame of its own: a test has many.
        let reloading: Pin<Box<dyn Future<Output = _>>> = Box::pin(self.daemons[&n].reload());
        reloading.await.map_err(|error| error.to_string())
    }

    async fn reload(&self, n: u8, text: &str) {
        let reloaded = self.try_reload(n, text).await.unwrap();
        assert_eq!(reloaded.restart, Vec::<&str>::new());
    }

    /// Runs all nodes until a check has ended.
    async fn run(&self, check: impl Future<Output = ()>) {
        let running = self.daemons.values().map(|daemon| Box::pin(daemon.run()));
        let mut running: Vec<_> = running.collect();
        let all = std::future::poll_fn(|cx| {
            for one in &mut running {
                assert!(one.as_mut().poll(cx).is_pending(), "it runs until dropped");
            }
            std::task::Poll::<()>::Pending
        });
        within(async {
            tokio::select! {
                () = all => unreachable!(),
                () = check => {}
            }
        })
        .await;
    }

    fn overlay(&self, n: u8) -> Overlay {
        self.daemons[&n].overlay().unwrap()
    }

    async fn until(&self, n: u8, other: u8, any: &[State]) {
        until(&self.daemons[&n], id(other), any).await;
    }

    /// True if no path of node `n` to `other` leads over a relay.
    async fn has_no_circuit(&self, n: u8, other: u8) -> bool {
        let (overlay, feedback) = (self.overlay(n), PathFeedback::default());
        let paths = overlay.paths(1 << 40, id(other), 1_000_000, feedback);
        paths.await.unwrap().iter().all(|path| path.near.is_none())
    }

    /// A session of node 1 with node 3 over the relay only, and the path.
    async fn over_the_relay(&self) -> (Session, OpenPath) {
        let path = relayed(&self.overlay(1), id(3)).await;
        assert_eq!(path.relays, [id(2)]);
        let host = self.daemons[&1].host();
        let session = host.connect(id(3), &[path.near.unwrap()]).await.unwrap();
        (session, path)
    }

    /// Sends a file and does `work` once it is under way.
    async fn send_while(&self, session: &Session, work: impl Future<Output = ()>) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let outgoing = self.folder.path().join("outgoing");
        std::fs::create_dir_all(&outgoing).unwrap();
        let path = outgoing.join(format!("reel-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::write(&path, vec![7; 6_000_000]).unwrap();
        let progress = Arc::new(Progress::default());
        let sending = send(session, None, Source::Path(path), &progress);
        let changing = async {
            while progress.snapshot().bytes_done == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            work.await;
        };
        let (sent, ()) = tokio::join!(sending, changing);
        assert_eq!(sent.unwrap().bytes, 6_000_000);
    }
}

async fn is_free(address: SocketAddr) -> bool {
    UdpSocket::bind(address).is_ok()
}

const RELAY: &str = "relay = \"30 Mbit/s\"";

/// Nodes 1 and 3 with the relay 2 between them, each with wrong addresses of the other; node 4 lists all three.
async fn with_a_relay(count: u8) -> Stand {
    let mut stand = Stand::new(count);
    for n in 1..=3 {
        let (nowhere, more) = match n {
            2 => (vec![], RELAY),
            n => (vec![4 - n], ""),
        };
        stand
            .start(n, &stand.text(n, &[1, 2, 3], &nowhere, more))
            .await;
    }
    stand
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_over_a_relay_go_on_while_members_come_and_go() {
    let mut stand = with_a_relay(4).await;
    stand.start(4, &stand.text(4, &[1, 2, 3, 4], &[], "")).await;
    let all = [1, 2, 3, 4];
    let stand = &stand;
    let check = async {
        let (session, path) = stand.over_the_relay().await;
        let circuit = async || {
            let report = stand.overlay(2).relayed().await.unwrap();
            let circuits: Vec<_> = report
                .circuits
                .iter()
                .map(|one| (one.circuit, one.near))
                .collect();
            circuits
        };
        let before = circuit().await;
        assert_eq!(before.len(), 1);
        // It is no member yet, and cannot connect.
        let at = stand.at[&2];
        let stranger = stand.daemons[&4].host();
        stranger.connect(id(2), &[at]).await.unwrap_err();
        stand
            .send_while(&session, async {
                stand.reload(2, &stand.text(2, &all, &[], RELAY)).await;
                stand.until(2, 4, &[State::Alive]).await;
                stand.reload(1, &stand.text(1, &all, &[3], "")).await;
                stand.until(1, 4, &[State::Alive]).await;
                stand.until(4, 1, &[State::Alive]).await;
            })
            .await;
        assert_eq!(circuit().await, before);
        stand
            .send_while(&session, async {
                for (n, nowhere, more) in [(2, &[][..], RELAY), (1, &[3], "")] {
                    stand
                        .reload(n, &stand.text(n, &[1, 2, 3], nowhere, more))
                        .await;
                    assert!(!states(&stand.daemons[&n]).await.contains_key(&id(4)));
                }
            })
            .await;
        assert_eq!(circuit().await, before);
        assert_eq!(relayed(&stand.overlay(1), id(3)).await.near, path.near);
        stranger.connect(id(2), &[at]).await.unwrap_err();
        wait_for(async || {
            let sessions = stand.daemons[&2].host().sessions();
            sessions.iter().all(|one| one.stats.peer != id(4))
        })
        .await;
        assert!(session.close_reason().is_none());
    };
    stand.run(check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_another_address_is_reached_there() {
    let mut stand = Stand::new(2);
    for (n, other) in [(1, 2), (2, 1)] {
        stand.start(n, &stand.text(n, &[1, 2], &[other], "")).await;
    }
    let stand = &stand;
    let check = async {
        stand.until(1, 2, &[State::Unknown]).await;
        stand.reload(1, &stand.text(1, &[1, 2], &[], "")).await;
        stand.until(1, 2, &[State::Alive]).await;
        stand.until(2, 1, &[State::Alive]).await;
        // The link that stands stays, wherever the list has the other.
        let session = || {
            let sessions = stand.daemons[&1].host().sessions();
            sessions
                .iter()
                .map(|one| one.stats.session)
                .collect::<Vec<_>>()
        };
        let before = session();
        stand.reload(1, &stand.text(1, &[1, 2], &[2], "")).await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(session(), before);
            assert_eq!(states(&stand.daemons[&1]).await[&id(2)], State::Alive);
        }
    };
    stand.run(check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overlay_begins_and_ends_with_a_reload() {
    let mut stand = with_a_relay(3).await;
    let with = stand.text(2, &[1, 2, 3], &[], RELAY);
    let without = with.split_once("[overlay]").unwrap().0.to_owned();
    stand.daemons.remove(&2);
    stand.start(2, &without).await;
    let stand = &stand;
    let check = async {
        assert!(stand.daemons[&2].overlay().is_none());
        stand.until(1, 2, &[State::Unknown]).await;
        for _ in 0..2 {
            stand.reload(2, &with).await;
            let (session, path) = stand.over_the_relay().await;
            stand.send_while(&session, async {}).await;

            let near = path.near.unwrap();
            assert!(!is_free(near).await);
            stand.reload(2, &without).await;
            assert!(stand.daemons[&2].overlay().is_none());
            wait_for(async || is_free(near).await).await;
            stand.until(1, 2, &[State::Left, State::Down]).await;
            stand.until(3, 2, &[State::Left, State::Down]).await;
            // The source has noticed that the circuit is gone.
            wait_for(async || stand.has_no_circuit(1, 3).await).await;
            wait_for(async || stand.daemons[&2].host().sessions().is_empty()).await;
            let host = stand.daemons[&1].host();
            host.connect(id(2), &[stand.at[&2]]).await.unwrap_err();
        }
    };
    stand.run(check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_relay_begins_changes_and_ends_with_a_reload() {
    let mut stand = with_a_relay(3).await;
    let relaying = |stand: &Stand, more: &str| stand.text(2, &[1, 2, 3], &[], more);
    stand.daemons.remove(&2);
    stand.start(2, &relaying(&stand, "")).await;
    // Where all nodes have one address, a circuit needs two ports.
    let ports = addresses(20);
    let is_pair = |pair: &&[SocketAddr]| pair[0].port() + 1 == pair[1].port();
    let pair = ports.windows(2).find(is_pair).unwrap();
    let (first, last) = (pair[0].port(), pair[1].port());
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let stand = &stand;
    let check = async {
        for n in [1, 3] {
            stand.until(n, 2, &[State::Alive]).await;
        }
        assert!(stand.overlay(2).relayed().await.is_none());
        stand.reload(2, &relaying(stand, RELAY)).await;
        let (session, path) = stand.over_the_relay().await;
        let report = async || stand.overlay(2).relayed().await.unwrap();

        // Another capacity, and other ports: the circuit stays where it is.
        let other = format!("relay = \"60 Mbit/s\"\nrelay_ports = \"{first}-{last}\"");
        stand
            .send_while(&session, stand.reload(2, &relaying(stand, &other)))
            .await;
        let circuits = report().await.circuits;
        assert_eq!(circuits.len(), 1);
        assert_eq!(Some(circuits[0].near), path.near);
        // The next one has the new ports.
        let back = relayed(&stand.overlay(3), id(1)).await;
        let port = back.near.unwrap().port();
        assert!((first..=last).contains(&port), "{port}");

        // A port that is in use: all stays as it was.
        let number = taken.local_addr().unwrap().port();
        let bad = format!("relay = \"70 Mbit/s\"\nrelay_ports = \"{number}-{number}\"\nhops = 2");
        let bad = stand.text(2, &[1, 2], &[], &bad);
        let error = stand.try_reload(2, &bad).await.unwrap_err();
        assert!(
            error.contains("overlay.relay: none of the ports"),
            "{error}"
        );
        assert_eq!(states(&stand.daemons[&2]).await[&id(3)], State::Alive);
        stand.send_while(&session, async {}).await;
        assert_eq!(report().await.ports, 4);

        stand.reload(2, &relaying(stand, "")).await;
        assert!(stand.overlay(2).relayed().await.is_none());
        for near in [path.near.unwrap(), back.near.unwrap()] {
            wait_for(async || is_free(near).await).await;
        }
        for n in [1, 3] {
            stand.until(n, 2, &[State::Alive]).await;
            wait_for(async || stand.has_no_circuit(n, 4 - n).await).await;
        }
    };
    stand.run(check).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_value_begins_no_overlay() {
    let mut stand = Stand::new(2);
    let with = stand.text(1, &[1, 2], &[], RELAY);
    let without = with.split_once("[overlay]").unwrap().0.to_owned();
    stand.start(1, &without).await;
    stand.start(2, &stand.text(2, &[1, 2], &[], "")).await;
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let number = taken.local_addr().unwrap().port();
    let stand = &stand;
    let check = async {
        let ports = format!("{RELAY}\nrelay_ports = \"{number}-{number}\"");
        let file = stand.folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let evidence = format!("evidence = {:?}\n", file.join("evidence"));
        for (bad, reason) in [
            (with.replace(RELAY, &ports), "none of the ports"),
            (with.replace(RELAY, "relay = \"1 kbit/s\""), "capacity"),
            (evidence + &with, "evidence"),
        ] {
            let error = stand.try_reload(1, &bad).await.unwrap_err();
            assert!(error.contains(reason), "{error}");
            assert!(stand.daemons[&1].overlay().is_none());
            assert!(!stand.daemons[&1].rights().table().may_connect(&id(2)));
        }
        stand.reload(1, &with).await;
        stand.until(2, 1, &[State::Alive]).await;
    };
    stand.run(check).await;
}

/// A node that may call opens its link before it is listed: the session is then taken over, whichever id is smaller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_from_before_the_membership_is_taken_over() {
    for (early, late) in [(1, 2), (2, 1)] {
        let mut stand = Stand::new(2);
        let id_of_early = id(early);
        let peer =
            format!("[[peer]]\nname = \"early\"\nnode = \"{id_of_early}\"\nmay = [\"call\"]\n");
        let before = stand.text(late, &[late], &[], "") + &peer;
        stand.start(late, &before).await;
        stand
            .start(early, &stand.text(early, &[1, 2], &[], ""))
            .await;
        let stand = &stand;
        let check = async {
            let sessions = || {
                let sessions = stand.daemons[&late].host().sessions();
                // Others are attempts to dial.
                let incoming = sessions.iter().filter(|one| one.stats.incoming);
                let ids = incoming.map(|one| one.stats.session);
                ids.collect::<Vec<_>>()
            };
            wait_for(async || !sessions().is_empty()).await;
            let first = sessions();
            // Only the other can dial.
            let after = stand.text(late, &[1, 2], &[early], "");
            stand.reload(late, &after).await;
            stand.until(late, early, &[State::Alive]).await;
            stand.until(early, late, &[State::Alive]).await;
            assert_eq!(sessions(), first);
        };
        stand.run(check).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_use_the_overlay_as_long_as_there_is_one() {
    let mut stand = Stand::new(3);
    for (n, more) in [(2, RELAY), (3, "")] {
        let nowhere = if n == 3 { vec![1] } else { vec![] };
        stand
            .start(n, &stand.text(n, &[1, 2, 3], &nowhere, more))
            .await;
    }
    let (id_of_third, at) = (id(3), stand.at[&3]);
    let peer = format!(
        "[[peer]]\nname = \"third\"\nnode = \"{id_of_third}\"\naddresses = [\"{at}\"]\nmay = []\n"
    );
    let with = stand.text(1, &[1, 2, 3], &[3], "") + &peer;
    let without = with.split_once("[overlay]").unwrap().0.to_owned() + &peer;
    stand.start(1, &without).await;
    let stand = &stand;
    let check = async {
        // Addresses of each session with the peer.
        let remotes = || {
            let sessions = stand.daemons[&1].host().sessions();
            let of_peer = sessions
                .iter()
                .filter(|one| one.stats.peer == id(3) && !one.stats.incoming);
            let remotes = of_peer.map(|one| {
                let remotes = one.channels.iter().map(|channel| channel.remote);
                (one.stats.session, remotes.collect::<Vec<_>>())
            });
            remotes.collect::<BTreeMap<_, _>>()
        };
        wait_for(async || remotes().values().any(|all| all.contains(&at))).await;
        let (session, _) = remotes().pop_first().unwrap();
        stand.reload(1, &with).await;
        wait_for(async || {
            let all = &remotes()[&session];
            all.contains(&at) && all.iter().any(|remote| *remote != at)
        })
        .await;
        stand.reload(1, &without).await;
        wait_for(async || remotes()[&session] == [at]).await;
    };
    stand.run(check).await;
}
