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

/// Memory of the server for each idle client, and for each session without the tunnel.
#[test]
#[ignore = "prints figures"]
fn memory_of_idle_clients() {
    const CLIENTS: usize = 200;
    for is_joining in [false, true] {
        let Some(stage) = Stage::new() else { return };
        // One path each: a session takes more with each path.
        stage.server.ip("address delete 198.51.100.1/32 dev lo");
        stage.client.ip("link set path1 down");
        let keys: Vec<_> = (0..CLIENTS)
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
        let before = resident();
        crate::hostile::idle_clients(&stage, &ticket, (keys, is_joining), || {
            let each = (resident() - before) / CLIENTS;
            println!("in the tunnel: {is_joining}; {each} kB for each of {CLIENTS}");
        });
    }
}
