//! A path whose network answers everything with nothing useful, as a hotel does before somebody has agreed to its terms; it works later.

use std::{
    net::UdpSocket,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    exit::has_nft,
    programs::{Download, serve, source},
    stage::{CLIENT, HOST, SERVER, Stage},
};

const ROUTE: [&str; 1] = ["--default-route"];
/// Datagrams a second that a client may send into a path that answers nothing useful: a few attempts, and probes.
const RATE_MAX: f64 = 50.0;

/// Rules of the network of path 0, at the server's end; they hold no state, so that they end when they are removed.
enum Network {
    /// Every datagram is answered by an ICMP message.
    Unreachable,
    /// Every datagram is answered by the portal, from the server's address.
    Garbage,
}

/// Path 0 behind a portal, until this is opened.
struct Portal<'a> {
    stage: &'a Stage,
    heard: Arc<AtomicU64>,
    start: Instant,
}

fn nft(stage: &Stage, rules: &str) {
    let output = Command::new("ip")
        .args(["netns", "exec", stage.server.name(), "nft", rules])
        .output()
        .unwrap();
    assert!(output.status.success(), "{rules}: {output:?}");
}

impl<'a> Portal<'a> {
    fn close(stage: &'a Stage, network: &Network) -> Self {
        let heard = Arc::new(AtomicU64::new(0));
        match network {
            Network::Unreachable => nft(
                stage,
                "table ip portal { chain answers { type filter hook input priority 0; iifname path0 udp dport 4433 counter reject; }; }",
            ),
            Network::Garbage => {
                let socket = stage.server.run(|| UdpSocket::bind("10.95.0.2:0").unwrap());
                let port = socket.local_addr().unwrap().port();
                let count = heard.clone();
                std::thread::spawn(move || {
                    let mut buffer = [0; 2000];
                    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                        let number = count.fetch_add(1, Ordering::Relaxed);
                        // A page; and what was sent, with some of it changed.
                        let answer = match number % 2 {
                            0 => {
                                &b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\n\r\n"[..]
                            }
                            _ => {
                                buffer[length / 2] ^= 0x55;
                                &buffer[..length]
                            }
                        };
                        let _ = socket.send_to(answer, from);
                    }
                });
                // It poses as the server.
                let rules = format!(
                    "table ip portal {{
                        chain in {{ type filter hook prerouting priority raw; iifname path0 udp dport 4433 udp dport set {port}; }};
                        chain out {{ type filter hook output priority raw; oifname path0 udp sport {port} udp sport set 4433; }};
                    }}"
                );
                nft(stage, &rules);
            }
        }
        Self {
            stage,
            heard,
            start: Instant::now(),
        }
    }

    /// Has the network carry everything; returns how many datagrams it has answered in each second before.
    fn open(self) -> f64 {
        let (heard, time) = (self.heard.load(Ordering::Relaxed), self.start.elapsed());
        let counted = Command::new("ip")
            .args(["netns", "exec", self.stage.server.name()])
            .args(["nft", "list", "table", "ip", "portal"])
            .output()
            .unwrap();
        let text = String::from_utf8(counted.stdout).unwrap();
        let mut words = text
            .split_whitespace()
            .skip_while(|word| *word != "packets");
        let counted = words.nth(1).map_or(0, |word| word.parse().unwrap());
        nft(self.stage, "delete table ip portal");
        (heard + counted) as f64 / time.as_secs_f64()
    }
}

/// A portal that is there when the client comes, and one that comes later; in the end, its path alone carries everything.
fn a_portal(network: &Network) {
    if !has_nft() {
        return;
    }
    let Some(stage) = Stage::new() else { return };
    serve(&stage.server);
    let (_server, ticket) = stage.serve(&[]);
    let portal = Portal::close(&stage, network);
    let client = stage.join(&ticket, &ROUTE);
    assert_eq!(source(&stage.client, SERVER, 32), CLIENT);
    Download::start(&stage.client, HOST, 2_000_000).ended();
    // Attempts follow each other at ever longer intervals.
    std::thread::sleep(Duration::from_secs(10));
    let rate = portal.open();
    assert!(rate > 0.0 && rate < RATE_MAX, "{rate} datagrams a second");
    // The path is used once it works: nothing else is there.
    stage.set_up(1, false);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT);
    stage.set_up(1, true);
    stage.set_up(0, false);
    assert_eq!(source(&stage.client, HOST, 32), CLIENT, "the other is back");
    stage.set_up(0, true);

    let mut download = Download::endless(&stage.client, HOST);
    download.goes_on(1_000_000);
    let portal = Portal::close(&stage, network);
    download.goes_on(2_000_000);
    std::thread::sleep(Duration::from_secs(3));
    portal.open();
    download.goes_on(500_000);
    stage.set_up(1, false);
    download.goes_on(5_000_000);
    download.stop();
    assert_eq!(client.events("up").len(), 1, "it stayed up");
    assert!(client.events("down").is_empty());
}

#[test]
fn a_path_that_is_unreachable_at_first_is_used_once_it_works() {
    a_portal(&Network::Unreachable);
}

#[test]
fn a_path_that_answers_with_garbage_is_used_once_it_works() {
    a_portal(&Network::Garbage);
}
