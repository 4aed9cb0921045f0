//! `anabranch forward` and `anabranch socks` beside `anabranch node`, as processes.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

/// Longest wait for an answer; a safety net.
const LIMIT: Duration = Duration::from_secs(60);

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A process that is killed when the test ends.
struct Running(Child, BufReader<ChildStdout>);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Reads events until one of this kind.
    fn event(&mut self, kind: &str) -> Value {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "the command has ended");
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["kind"] == kind {
                return event;
            }
        }
    }

    fn listening(&mut self) -> SocketAddr {
        let event = self.event("listening");
        event["at"].as_str().unwrap().parse().unwrap()
    }

    /// Ends it as Ctrl-C does, and returns its exit code.
    fn interrupt(mut self) -> Option<i32> {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code()
    }
}

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

/// The key of the commands, and its node ID.
fn keygen(folder: &Path) -> String {
    let output = command(folder)
        .args(["keygen", "--key", "mine.key"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    let id = words.iter().find(|word| word.len() == 52);
    (*id.unwrap_or_else(|| panic!("no ID in {text}"))).to_owned()
}

fn free_port() -> SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap()
}

/// Writes a configuration in which this node may do so much.
fn configure(folder: &Path, listen: SocketAddr, id: &str, right: &str) {
    let text = format!(
        "key = \"far.key\"\nlisten = [\"{listen}\"]\ncontrol = \"far.sock\"\n\
         [[peer]]\nname = \"near\"\nnode = \"{id}\"\nmay = [\"call\", {right}]\n"
    );
    fs::write(folder.join("far.toml"), text).unwrap();
}

/// Starts the node, and returns its ticket.
fn node(folder: &Path) -> (Running, String) {
    let mut node = Running::start(command(folder).args(["node", "--config", "far.toml"]));
    let id = node.line();
    assert!(id.starts_with("node "), "{id}");
    let line = node.line();
    let ticket = line.rsplit(' ').next().unwrap().to_owned();
    (node, ticket)
}

fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(folder.path(), owner_only).unwrap();
    folder
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
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    1024 * kilobytes.parse::<u64>().unwrap()
}

/// Both processes together take at most 64 kB for a connection that carried something and is idle.
#[test]
#[cfg(target_os = "linux")]
fn idle_connections_take_little() {
    const EACH_MAX: u64 = 64_000;
    let limit = anabranch_gateway::limits::raise_file_limit().unwrap_or(u64::MAX);
    // This process has both ends of each.
    let connections = 10_000.min(limit.saturating_sub(1_000) / 2);
    if connections < 1_000 {
        eprintln!("skipped: this user may open {limit} files only");
        return;
    }
    let folder = private_folder();
    let folder = folder.path();
    // A server that answers a byte, and keeps what it accepted in one thread.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream.write_all(b"y").unwrap();
            kept.push(stream);
        }
    });
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
    fails(&other, 3, "not");

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
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");
    let arguments = ["demo-gateway", "--json", "--megabytes", "5", "--data", data];
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
