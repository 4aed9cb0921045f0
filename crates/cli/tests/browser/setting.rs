//! Two nodes over emulated paths, streams between them, and the console of the one that sends.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::harness::{Terminated, command, free_port, keygen, private_folder};

/// The emulated paths.
const PATHS: [&str; 3] = [
    "wlan: rate=20 Mbit/s, delay=15 ms, loss=0.2 %",
    "lte: rate=8 Mbit/s, delay=40 ms, loss=1 %",
    "satellite: rate=4 Mbit/s, delay=250 ms",
];

pub(crate) struct Setting {
    /// Address of the console.
    pub(crate) console: SocketAddr,
    pub(crate) folder: tempfile::TempDir,
    /// An emulator for each path, in the order of [`PATHS`]; without it, the path is cut.
    pub(crate) emulators: Vec<Terminated>,
    /// The address that each path leads to.
    pub(crate) paths: Vec<SocketAddr>,
    /// All that run besides.
    others: Vec<Terminated>,
    ends: Arc<AtomicBool>,
}

impl Setting {
    /// Starts everything but streams; the console listens on a free port.
    pub(crate) fn start() -> Self {
        Self::over(&PATHS, "")
    }

    /// As [`Self::start`], with a quota at the near node.
    pub(crate) fn with_quota() -> Self {
        Self::over(
            &PATHS,
            "[[cost]]\non = \"127.0.0.1\"\nprice = \"5 GB then stop\"\n",
        )
    }

    /// As [`Self::start`], over equal paths.
    pub(crate) fn with_paths(count: usize, path: &str) -> Self {
        Self::over(&vec![path; count], "")
    }

    fn over(paths: &[&str], rest: &str) -> Self {
        let folder = private_folder();
        let place = folder.path();
        let [near, far] = ["near", "far"].map(|name| place.join(name));
        for home in [&near, &far] {
            fs::create_dir(home).unwrap();
        }
        let (near_id, far_id) = (keygen(&near), keygen(&far));
        let (target, console) = (free_port(), free_port());
        let may = r#"["call", { right = "use-service", services = ["*"] }]"#;
        let config = format!(
            "name = \"studio\"\nkey = \"mine.key\"\nlisten = [\"{target}\"]\ncontrol = \"control\"\nlocal = \"local\"\n[[peer]]\nname = \"van\"\nnode = \"{near_id}\"\nmay = {may}\n"
        );
        fs::write(far.join("node.toml"), config).unwrap();
        let (mut addresses, mut emulators) = (Vec::new(), Vec::new());
        for path in paths {
            let at = free_port();
            let arguments = [
                "emulate",
                "--target",
                &target.to_string(),
                "--listen",
                &at.to_string(),
                "--path",
                path,
            ];
            emulators.push(started(command(place).args(arguments)).0);
            addresses.push(at);
        }
        let quoted: Vec<String> = addresses.iter().map(|at| format!("\"{at}\"")).collect();
        let config = format!(
            "name = \"van\"\nkey = \"mine.key\"\nlisten = [\"127.0.0.1:0\"]\ncontrol = \"control\"\nlocal = \"local\"\nconsole = \"{console}\"\n\
             [[peer]]\nname = \"studio\"\nnode = \"{far_id}\"\nmay = {may}\naddresses = [{}]\n{rest}",
            quoted.join(", ")
        );
        fs::write(near.join("node.toml"), config).unwrap();
        let run = |home: &Path| started(command(home).args(["node", "--config", "node.toml"])).0;
        let far_node = run(&far);
        let near_node = run(&near);
        Self {
            console,
            folder,
            emulators,
            paths: addresses,
            others: vec![far_node, near_node],
            ends: Arc::default(),
        }
    }

    /// Waits until so many paths are active.
    pub(crate) fn ready(&self, count: usize) {
        let active = || {
            let output = command(&self.near_home())
                .args(["paths", "--control", "control"])
                .output();
            String::from_utf8(output.unwrap().stdout)
                .unwrap()
                .matches(" active")
                .count()
        };
        while active() < count {
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Processor time of the near node so far.
    pub(crate) fn near_seconds(&self) -> f64 {
        let id = self.others[1].0.id();
        let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<&str> = text
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: f64 = fields[11..13]
            .iter()
            .map(|field| field.parse::<f64>().unwrap())
            .sum();
        // Linux counts in hundredths of a second for programs.
        ticks / 100.0
    }

    pub(crate) fn near_home(&self) -> std::path::PathBuf {
        self.folder.path().join("near")
    }

    /// Exit code and output of a command about the near node.
    pub(crate) fn ask(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = command(&self.near_home())
            .args(arguments)
            .args(["--control", "control"])
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// A link to the console.
    pub(crate) fn link(&self) -> String {
        let output = command(&self.near_home())
            .args(["console", "--control", "control"])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let link = text
            .split_whitespace()
            .find(|word| word.starts_with("http://"));
        link.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
            .to_owned()
    }

    /// Accepts streams with a label at the far node.
    pub(crate) fn accept(&mut self, label: &str) {
        let home = self.folder.path().join("far");
        let mut child = command(&home)
            .args([
                "stream", "accept", label, "--local", "local", "--as", "record",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("accepting"), "{line}");
        self.others.push(Terminated(child));
    }

    /// A stream from the near node that sends so many bytes so often.
    pub(crate) fn send(&mut self, label: &str, options: &[&str], bytes: usize, pause: Duration) {
        let mut child: Child = command(&self.near_home())
            .args(["stream", "open", "studio", label, "--local", "local"])
            .args(["--as", &format!("record={bytes}")])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let ends = Arc::clone(&self.ends);
        std::thread::spawn(move || {
            let data = vec![7; bytes];
            while !ends.load(Ordering::Relaxed) && input.write_all(&data).is_ok() {
                std::thread::sleep(pause);
            }
        });
        self.others.push(Terminated(child));
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// The body of a response; empty if nobody answers.
pub(crate) fn fetch(at: SocketAddr, path: &str) -> String {
    let exchange = || {
        let mut connection = TcpStream::connect(at)?;
        write!(
            connection,
            "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        connection.read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let text = exchange().unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
    body.unwrap_or_default().to_owned()
}

/// A process that has printed its first line.
pub(crate) fn started(command: &mut Command) -> (Terminated, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "it ended");
    // What it prints afterwards is read by nobody, and must not stop it.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    (Terminated(child), line)
}
