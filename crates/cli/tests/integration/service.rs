//! `anabranch node` as a service manager starts it: by systemd's protocol of notifications.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::Path,
    process::Stdio,
    time::Duration,
};

use crate::harness::{Killed, command, limited, signal};

/// Longest wait for what takes a moment on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn notified(&self) -> String {
        let mut state = [0; 256];
        self.0.set_read_timeout(Some(TIMEOUT)).unwrap();
        let bytes = self.0.recv(&mut state).unwrap();
        String::from_utf8(state[..bytes].to_vec()).unwrap()
    }

    #[track_caller]
    fn expect(&self, states: &[&str]) {
        for state in states {
            assert_eq!(self.notified(), *state);
        }
    }
}

fn start(folder: &Path, socket: &str) -> Killed {
    // Not by `timeout`, which takes SIGHUP for the end.
    let mut node = command(folder);
    node.args(["node", "--config", "node.toml", "--control", "control"])
        .env("NOTIFY_SOCKET", socket)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    Killed(node.spawn().unwrap())
}

#[test]
fn the_manager_learns_of_start_reload_and_stop() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let socket = folder.join("notify");
    let manager = Manager(UnixDatagram::bind(&socket).unwrap());
    std::fs::write(folder.join("node.toml"), "listen = [\"127.0.0.1:0\"]\n").unwrap();
    let mut node = start(folder, socket.to_str().unwrap());
    manager.expect(&["READY=1"]);
    // It answers from then on.
    let status = limited(folder, 60)
        .args(["status", "--control", "control"])
        .output();
    assert!(status.unwrap().status.success());

    signal(node.0.id(), "HUP");
    manager.expect(&["RELOADING=1", "READY=1"]);
    // One that is refused: the previous configuration stays in force.
    std::fs::write(folder.join("node.toml"), "bogus = 1\n").unwrap();
    signal(node.0.id(), "HUP");
    manager.expect(&["RELOADING=1", "READY=1"]);

    signal(node.0.id(), "TERM");
    manager.expect(&["STOPPING=1"]);
    assert!(node.0.wait().unwrap().success());
}

#[test]
fn an_abstract_socket_is_understood_and_a_missing_one_stops_no_node() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("node.toml"), "listen = [\"127.0.0.1:0\"]\n").unwrap();
    let name = format!("anabranch-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let manager = Manager(UnixDatagram::bind_addr(&address).unwrap());
    let mut node = start(folder, &format!("@{name}"));
    manager.expect(&["READY=1"]);
    signal(node.0.id(), "TERM");
    manager.expect(&["STOPPING=1"]);
    assert!(node.0.wait().unwrap().success());

    let mut node = start(folder, "nowhere");
    let answers = || {
        let status = limited(folder, 60)
            .args(["status", "--control", "control"])
            .output();
        status.unwrap().status.success()
    };
    while !answers() {
        assert!(node.0.try_wait().unwrap().is_none(), "the node ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(node.0.id(), "TERM");
    assert!(node.0.wait().unwrap().success());
}
