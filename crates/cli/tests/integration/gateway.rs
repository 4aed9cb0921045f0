//! `anabranch forward` and `anabranch socks` beside `anabranch node`, as processes.

use std::{
    env, fs,
    io::{BufRead, BufReader, Lines, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::harness::{
    Running, command, configure, free_port, keygen, node, private_folder, signal,
};

mod outage;
mod rules;
mod silence;

/// Longest wait for an answer; a safety net.
const LIMIT: Duration = Duration::from_secs(60);

/// A server that sends back what it receives.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut reader = stream.try_clone().unwrap();
                let _ = std::io::copy(&mut reader, &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

fn connect(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn echoes(mut stream: TcpStream, data: &[u8]) {
    stream.write_all(data).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == data, "{} bytes of {}", back.len(), data.len());
}

#[test]
fn a_node_is_killed_under_a_hundred_connections_and_comes_back() {
    let folder = private_folder();
    let folder = folder.path();
    let (target, listen) = (echo(), free_port());
    let right = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
    configure(folder, listen, &keygen(folder), &right);
    let (killed, ticket) = node(folder);
    let mut forward = Running::start(command(folder).args([
        "forward",
        "--json",
        "--key",
        "mine.key",
        "-L",
        &format!("0:{target}"),
        &ticket,
    ]));
    let at = forward.listening();
    echoes(connect(at), &[7; 1_000_000]);
    let mut open = Vec::new();
    for _ in 0..100 {
        let mut stream = connect(at);
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        open.push(stream);
    }
    // SIGKILL.
    drop(killed);
    let (_again, _) = node(folder);
    for mut stream in open {
        let error = stream.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
    forward.event("disconnected");
    forward.event("connected");
    echoes(connect(at), b"again");
    assert_eq!(forward.interrupt(), Some(0));
}

#[test]
fn socks_and_reverse_forwards_as_commands() {
    let folder = private_folder();
    let folder = folder.path();
    let target = echo();
    let right =
        format!("{{ right = \"forward\", to = [\"{target}\"], listen = [\"127.0.0.1:*\"] }}");
    configure(folder, free_port(), &keygen(folder), &right);
    let (_node, ticket) = node(folder);
    let mut socks = Running::start(
        command(folder).args(["socks", "--json", "--key", "mine.key", "0", &ticket]),
    );
    let mut stream = connect(socks.listening());
    let mut request = vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1];
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], [5, 0, 5, 0]);
    echoes(stream, b"through socks");
    assert_eq!(socks.interrupt(), Some(0));

    let mut reverse = Running::start(command(folder).args([
        "forward",
        "--json",
        "--key",
        "mine.key",
        "-R",
        &format!("0:{target}"),
        &ticket,
    ]));
    let event = reverse.event("listening");
    assert_eq!(event["is_remote"], true);
    let at = event["at"].as_str().unwrap().parse().unwrap();
    echoes(connect(at), b"from there");
    assert_eq!(reverse.interrupt(), Some(0));
}

/// Resident memory of a process, in bytes.
fn resident(process: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    1024 * kilobytes.parse::<u64>().unwrap()
}

/// Environment variable of the process that keeps connections.
const KEEPER: &str = "ANABRANCH_TEST_KEEPER";

/// A server in a process of its own, which has its own limit on open files. It answers a byte and keeps the connection.
struct Keeper {
    process: Child,
    at: SocketAddr,
    /// Open while it runs: after a minute it prints that it has been running for long, and would end if nobody could read that.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Keeper {
    fn start() -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "gateway::keeps_connections", "--nocapture"])
            .env(KEEPER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut addresses = lines
            .by_ref()
            .filter_map(|line| line.ok()?.strip_prefix("at ")?.parse().ok());
        let at = addresses.next().unwrap();
        Self {
            process,
            at,
            _lines: lines,
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The process of a [`Keeper`]; among the other tests, it has nothing to do.
#[test]
fn keeps_connections() {
    if env::var_os(KEEPER).is_none() {
        return;
    }
    anabranch_gateway::limits::raise_file_limit();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("\nat {}", listener.local_addr().unwrap());
    let mut kept = Vec::new();
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        stream.read_exact(&mut [0]).unwrap();
        stream.write_all(b"y").unwrap();
        kept.push(stream);
    }
}

/// Both processes together take at most 64 kB for a connection that carried something and is idle.
#[test]
#[cfg(target_os = "linux")]
fn idle_connections_take_little() {
    const EACH_MAX: u64 = 64_000;
    let limit = anabranch_gateway::limits::raise_file_limit().unwrap_or(u64::MAX);
    let connections = 10_000.min(limit.saturating_sub(1_000));
    if connections < 1_000 {
        eprintln!("skipped: this user may open {limit} files only");
        return;
    }
    let folder = private_folder();
    let folder = folder.path();
    let server = Keeper::start();
    let target = server.at;
    let right = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
    configure(folder, free_port(), &keygen(folder), &right);
    let (node, ticket) = node(folder);
    let mut forward = Running::start(command(folder).args([
        "forward",
        "--json",
        "--key",
        "mine.key",
        "-L",
        &format!("0:{target}"),
        &ticket,
    ]));
    let at = forward.listening();
    let mut open = Vec::new();
    let mut before = 0;
    for number in 0..connections {
        if number == 10 {
            before = resident(&node) + resident(&forward);
        }
        let mut stream = connect(at);
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        open.push(stream);
    }
    let each = (resident(&node) + resident(&forward)).saturating_sub(before) / (connections - 10);
    eprintln!("{each} bytes for each of {connections} idle connections, both processes together");
    assert!(each <= EACH_MAX, "{each} bytes for an idle connection");
    // They are served still.
    let last = open.pop().unwrap();
    last.shutdown(Shutdown::Write).unwrap();
    drop(open);
    assert_eq!(forward.interrupt(), Some(0));
}

#[test]
fn failures_are_reported_by_their_causes() {
    let folder = private_folder();
    let folder = folder.path();
    let id = keygen(folder);
    let right = "{ right = \"forward\", to = [\"127.0.0.1:1\"] }";
    configure(folder, free_port(), &id, right);
    let (_node, ticket) = node(folder);
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let output = command(folder).args(arguments).output().unwrap();
        let seen = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{seen}");
        assert!(seen.contains(words), "'{words}' is missing in: {seen}");
    };
    let key = ["--key", "mine.key"];
    // The peer's right has no `listen`.
    let reverse = ["forward", "-R", "0:127.0.0.1:1", &ticket];
    fails(&[&reverse[..], &key].concat(), 4, "not allowed");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mapping = format!("{}:127.0.0.1:1", taken.local_addr().unwrap().port());
    let taken = ["forward", "-L", &mapping, &ticket];
    fails(
        &[&taken[..], &key].concat(),
        1,
        "another program listens there",
    );
    fails(&["forward", "-L", "5433:db", &ticket], 2, "HOST:PORT");
    fails(&["forward", &ticket], 2, "--local");
    fails(&["forward", "-L", "0:db:1", "studio"], 2, "--config");
    fails(
        &["socks", "0.0.0.0:0", &ticket, "--key", "mine.key"],
        2,
        "--password-file",
    );
    // A key that the peer does not know.
    let other = ["forward", "-L", "0:db:1", "--key", "other.key", &ticket];
    fails(&other, 4, "has to list the node");

    // What a connection fails by is an event.
    let mut forward = Running::start(command(folder).args([
        "forward",
        "--json",
        "--key",
        "mine.key",
        "-L",
        "0:127.0.0.1:1",
        "-L",
        "0:127.0.0.1:2",
        &ticket,
    ]));
    let (refused, not_allowed) = (forward.listening(), forward.listening());
    let _one = connect(refused);
    assert_eq!(forward.event("failed")["code"], "refused by the target");
    let _other = connect(not_allowed);
    assert_eq!(forward.event("failed")["code"], "not allowed");
}

/// The demonstration checks every byte and every answer itself.
#[test]
fn the_demonstration_downloads_and_queries_over_a_path_that_is_cut() {
    let folder = private_folder();
    let arguments = ["demo-gateway", "--json", "--megabytes", "5"];
    let output = command(folder.path()).args(arguments).output().unwrap();
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{seen}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["download"]["bytes"], 5_000_000);
    assert!(report["queries"]["answered"].as_u64() > Some(0), "{report}");
    let paths = report["paths"].as_array().unwrap();
    let carried = |path: &Value| path["bytes"].as_u64() > Some(100_000);
    assert!(paths.iter().all(carried), "{report}");
}
