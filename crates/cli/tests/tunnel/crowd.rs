//! A thousand clients of one server that send nothing: memory, CPU and packets of the server, and the time in which all are back after it was
//! killed and started again. Figures for a look: run alone, with `--ignored --nocapture`.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::stage::{Running, Stage};

const CLIENTS: usize = 1000;
/// Time in which new sessions settle, and time that is measured.
const SETTLE: Duration = Duration::from_secs(20);
const MEASURED: Duration = Duration::from_secs(60);
/// Time after which those that are not in are given up.
const JOIN_MAX: Duration = Duration::from_secs(200);
/// Jiffies of the kernel in a second, as it counts for programs.
const TICKS_PER_S: f64 = 100.0;

/// The `nth` word of a file of the kernel on a process.
fn word(process: &Running, file: &str, nth: usize) -> f64 {
    let text = fs::read_to_string(format!("/proc/{}/{file}", process.process.id())).unwrap();
    let after_name = text.rsplit(") ").next().unwrap();
    after_name
        .split(' ')
        .nth(nth)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn resident_kb(server: &Running) -> f64 {
    word(server, "statm", 1) * 4.0
}

fn cpu_s(server: &Running) -> f64 {
    // The state is the first word after the name; user and system times are the 12th and 13th from there.
    (word(server, "stat", 11) + word(server, "stat", 12)) / TICKS_PER_S
}

/// Packets that the server's machine sent over the path.
fn sent(stage: &Stage) -> f64 {
    let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let text = stage.server.run(read);
    let line = text.lines().find(|line| line.contains("path0")).unwrap();
    let words = line.split(':').next_back().unwrap().split_whitespace();
    words.map(|word| word.parse().unwrap()).nth(9).unwrap()
}

#[test]
#[ignore = "prints figures"]
fn a_thousand_idle_clients() {
    let Some(stage) = Stage::with(["rate=1 Gbit/s, delay=5 ms", "rate=20 Mbit/s, delay=15 ms"])
    else {
        return;
    };
    // One path each: a session takes more with each path.
    stage.server.ip("address delete 198.51.100.1/32 dev lo");
    stage.client.ip("link set path1 down");
    let keys: Vec<_> = (0..CLIENTS)
        .map(|n| stage.key(&format!("key{n}")))
        .collect();
    let ids: Vec<String> = keys.iter().map(|key| key.node_id().to_string()).collect();
    let mut arguments: Vec<&str> = ids.iter().flat_map(|id| ["--allow", id]).collect();
    arguments.extend(["--listen", "10.95.0.2:4433", "--pool", "10.77.0.0/20"]);
    let (server, ticket) = stage.serve(&arguments);
    let before_kb = resident_kb(&server);
    let joined = Arc::new(AtomicUsize::new(0));
    // Once more each, since `start`.
    let all_in = |start: Instant, times: usize| {
        let count = || joined.load(Ordering::Relaxed);
        while count() < times * CLIENTS && start.elapsed() < JOIN_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
        format!(
            "{} of {} joins after {:?}",
            count(),
            times * CLIENTS,
            start.elapsed()
        )
    };
    crate::hostile::crowd(&stage, &ticket, keys, &joined, || {
        println!("{}", all_in(Instant::now(), 1));
        std::thread::sleep(SETTLE);
        let kb = (resident_kb(&server) - before_kb) / CLIENTS as f64;
        let [cpu, packets] = [cpu_s(&server), sent(&stage)];
        std::thread::sleep(MEASURED);
        println!(
            "{kb:.1} kB each; idle for {MEASURED:?}: {:.2} s of CPU, {:.1} packets sent a second",
            cpu_s(&server) - cpu,
            (sent(&stage) - packets) / MEASURED.as_secs_f64()
        );
        server.process.signal("KILL");
        server.process.ended();
        let (again, _) = stage.serve(&arguments);
        println!("started again: {}", all_in(Instant::now(), 2));
        println!(
            "CPU of the server since it started again: {:.2} s",
            cpu_s(&again)
        );
    });
}
