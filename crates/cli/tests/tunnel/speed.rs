//! Figures for a look: run alone, with `--ignored --nocapture`.

use std::time::{Duration, Instant};

use crate::{
    programs::{Download, round_trip, serve},
    stage::{HOST, Stage},
};

const KINDS: [(&str, &[&str]); 2] = [
    ("packets", &["--default-route"]),
    ("split", &["--default-route", "--split-tcp"]),
];

#[test]
#[ignore = "prints figures"]
fn rates_of_downloads() {
    for (name, paths) in [
        (
            "B",
            [
                "rate=100 Mbit/s, delay=10 ms, queue=20 ms",
                "rate=50 Mbit/s, delay=30 ms, queue=60 ms",
            ],
        ),
        (
            "C",
            [
                "rate=80 Mbit/s, delay=15 ms, queue=30 ms, loss=1 %",
                "rate=40 Mbit/s, delay=50 ms, queue=100 ms, loss=0.1 %",
            ],
        ),
    ] {
        let Some(stage) = Stage::with(paths) else {
            return;
        };
        serve(&stage.server);
        let (_server, ticket) = stage.serve(&["--to", "any"]);
        for (kind, more) in KINDS {
            let client = stage.join(&ticket, more);
            for bytes in [60_000_000, 60_000_000] {
                let start = Instant::now();
                Download::start(&stage.client, HOST, bytes).ended();
                let mbps = bytes as f64 * 8e-6 / start.elapsed().as_secs_f64();
                println!("{name}, {kind}: {mbps:.1} Mbit/s");
            }
            client.process.signal("INT");
            client.process.ended().is(0, &[]);
        }
    }
}

/// Round trips of datagrams beside a download, and its longest gap while a path is cut.
#[test]
#[ignore = "prints figures"]
fn round_trips_beside_a_download_and_a_cut() {
    let paths = [
        "rate=100 Mbit/s, delay=10 ms, queue=20 ms",
        "rate=50 Mbit/s, delay=30 ms, queue=60 ms",
    ];
    for (kind, more) in KINDS {
        let Some(stage) = Stage::with(paths) else {
            return;
        };
        serve(&stage.server);
        let (_server, ticket) = stage.serve(&["--to", "any"]);
        let _client = stage.join(&ticket, more);
        let mut download = Download::start(&stage.client, HOST, 100_000_000);
        download.goes_on(20_000_000);
        let mut times = Vec::new();
        while !download.is_over() {
            times.extend(round_trip(&stage.client, HOST));
            std::thread::sleep(Duration::from_millis(10));
        }
        times.sort();
        let at = |share: f64| times[(times.len() as f64 * share) as usize];
        println!(
            "{kind}: {} round trips: p50 {:?}, p99 {:?}",
            times.len(),
            at(0.5),
            at(0.99)
        );
        let mut download = Download::start(&stage.client, HOST, 100_000_000);
        download.goes_on(20_000_000);
        stage.set_up(0, false);
        std::thread::sleep(Duration::from_secs(5));
        stage.set_up(0, true);
        println!(
            "{kind}: the fast path silent for 5 s: {:?}",
            download.ended_with_gap().1
        );
    }
}

/// kB of the server's memory for each of `clients` that are idle, in the tunnel or with a session alone; `None` without rights.
fn idle_kb(clients: usize, is_joining: bool) -> Option<usize> {
    let stage = Stage::new()?;
    // One path each: a session takes more with each path.
    stage.server.ip("address delete 198.51.100.1/32 dev lo");
    stage.client.ip("link set path1 down");
    let keys: Vec<_> = (0..clients)
        .map(|n| stage.key(&format!("key{n}")))
        .collect();
    let ids: Vec<String> = keys.iter().map(|key| key.node_id().to_string()).collect();
    let mut arguments: Vec<&str> = ids.iter().flat_map(|id| ["--allow", id]).collect();
    arguments.extend(["--listen", "10.95.0.2:4433"]);
    let (server, ticket) = stage.serve(&arguments);
    let resident = || {
        let statm = format!("/proc/{}/statm", server.process.id());
        let text = std::fs::read_to_string(statm).unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
    };
    let (before, mut each) = (resident(), 0);
    crate::hostile::idle_clients(&stage, &ticket, (keys, is_joining), || {
        each = (resident() - before) / clients;
    });
    Some(each)
}

/// A batch of writes to the device takes a megabyte.
#[test]
fn an_idle_client_holds_no_batch() {
    let each = idle_kb(40, true);
    assert!(each.is_none_or(|each| each < 400), "{each:?} kB");
}

/// Memory of the server for each idle client, and for each session without the tunnel.
#[test]
#[ignore = "prints figures"]
fn memory_of_idle_clients() {
    for is_joining in [false, true] {
        let each = idle_kb(200, is_joining);
        println!("in the tunnel: {is_joining}; {each:?} kB for each of 200");
    }
}
