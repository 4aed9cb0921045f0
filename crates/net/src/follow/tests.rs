//! Tests of the search for a peer, in virtual time, and one with a session.

use std::{
    cell::{Cell, RefCell},
    future::pending,
};

use anabranch_base::Seed;
use anabranch_link::{Config, duplex::Configs};
use anabranch_session::{AllowList, SecretKey, StreamSpec};
use tokio::time::Instant;

use super::*;
use crate::{
    emulate::{Emulator, PathSpec},
    host::{Host, HostConfig},
    remotes::answer_with,
};

const SECOND: Duration = Duration::from_secs(1);

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A session whose state the test sets, and which notes what is asked of it and when, in seconds.
struct Scene {
    begun: Instant,
    paths: Cell<Paths>,
    answer: RefCell<Vec<SocketAddr>>,
    detour: Cell<Option<SocketAddr>>,
    resolved: RefCell<Vec<u64>>,
    added: RefCell<Vec<Vec<SocketAddr>>>,
    replaced: RefCell<Vec<(u64, Option<SocketAddr>, SocketAddr)>>,
}

impl Scene {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            paths: Cell::new(Paths::Some),
            answer: RefCell::default(),
            detour: Cell::default(),
            resolved: RefCell::default(),
            added: RefCell::default(),
            replaced: RefCell::default(),
        }
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }
}

impl Search for Scene {
    fn paths(&self) -> Paths {
        self.paths.get()
    }

    async fn resolve(&self) -> Vec<SocketAddr> {
        self.resolved.borrow_mut().push(self.now());
        self.answer.borrow().clone()
    }

    async fn open(&self) -> Option<SocketAddr> {
        self.detour.get()
    }

    fn add(&self, found: &[SocketAddr]) {
        self.added.borrow_mut().push(found.to_vec());
    }

    fn replace(&self, before: Option<SocketAddr>, detour: SocketAddr) {
        let replaced = (self.now(), before, detour);
        self.replaced.borrow_mut().push(replaced);
    }
}

/// Searches while the script runs.
async fn during(scene: &Scene, detour: Option<SocketAddr>, script: impl Future<Output = ()>) {
    let searching = async {
        search(scene, detour).await;
        pending::<()>().await;
    };
    tokio::select! {
        () = searching => unreachable!("it waits"),
        () = script => {}
    }
}

#[tokio::test(start_paused = true)]
async fn names_are_resolved_again_while_there_is_no_path_and_a_changed_answer_is_used() {
    let scene = Scene::new();
    let (old, new) = (address("192.0.2.1:4433"), address("192.0.2.2:4433"));
    scene.answer.replace(vec![old]);
    during(&scene, None, async {
        tokio::time::sleep(12 * SECOND).await;
        assert_eq!(*scene.resolved.borrow(), [0; 0], "it has a path");
        scene.paths.set(Paths::None);
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(*scene.added.borrow(), [[old], [old]]);
        scene.answer.replace(vec![new]);
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(scene.added.borrow().last(), Some(&vec![new]));
        scene.paths.set(Paths::Some);
        tokio::time::sleep(20 * SECOND).await;
    })
    .await;
    assert_eq!(*scene.resolved.borrow(), [15, 20, 25]);
    assert_eq!(*scene.replaced.borrow(), []);
}

#[tokio::test(start_paused = true)]
async fn a_detour_is_opened_again_in_place_of_the_one_before() {
    let scene = Scene::new();
    let [first, second, third] = ["192.0.2.9:1", "192.0.2.9:2", "192.0.2.9:3"].map(address);
    during(&scene, Some(first), async {
        scene.paths.set(Paths::None);
        scene.detour.set(Some(second));
        tokio::time::sleep(6 * SECOND).await;
        scene.detour.set(Some(third));
        tokio::time::sleep(20 * SECOND).await;
    })
    .await;
    let expected = [(5, Some(first), second), (20, Some(second), third)];
    assert_eq!(*scene.replaced.borrow(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_search_ends_with_the_session() {
    let scene = Scene::new();
    scene.paths.set(Paths::Over);
    search(&scene, None).await;
    assert_eq!(scene.now(), 5);
    assert_eq!(*scene.resolved.borrow(), [0; 0]);
}

/// Longest wait for what takes ten seconds on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The first answer leads over an emulated path, which dies, and the second one past it.
#[tokio::test]
async fn a_session_goes_on_at_the_address_that_the_name_of_its_peer_has_now() {
    let host = |seed: u8| {
        let key = SecretKey::from_seed([seed; 32]);
        let config = HostConfig::new(key, AllowList::everyone());
        Host::start(config.bind([address("127.0.0.1:0")])).unwrap()
    };
    let (near, far) = (host(1), host(2));
    let spec = PathSpec {
        name: "first".to_owned(),
        listen: address("127.0.0.1:0"),
        target: far.addresses()[0],
        links: Configs::symmetric(Config::default()),
    };
    let emulator = Emulator::start(vec![spec], Seed(1)).unwrap();
    let mut names = Remotes::default();
    names.add("moving.example:4433").unwrap();
    let name = &names.hosts[0];
    answer_with(name, emulator.addresses());
    let work = async {
        let session = near.connect(far.node_id(), &names).await.unwrap();
        let accepted = far.accept().await.unwrap();
        accepted.end_probation().unwrap();
        let stream = session.open_stream(StreamSpec::bulk("letters")).unwrap();
        stream.send("before".into()).await.unwrap();
        let received = accepted.accept_stream().await.unwrap();
        assert_eq!(received.recv().await.unwrap().unwrap().data, "before");
        emulator.paths()[0].set_up(false);
        answer_with(name, &far.addresses());
        stream.send("after".into()).await.unwrap();
        assert_eq!(received.recv().await.unwrap().unwrap().data, "after");
        let channels = session.channels();
        let mut remotes = channels.iter().map(|channel| channel.remote);
        assert!(
            remotes.any(|remote| remote == far.addresses()[0]),
            "{channels:?}"
        );
    };
    tokio::time::timeout(TIMEOUT, work).await.expect("it hangs");
}
