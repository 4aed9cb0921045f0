//! `anabranch send` through a running node that is restarted, or whose session is lost, while files are on their way.

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    path::Path,
    process::{Output, Stdio},
    thread,
    time::Duration,
};

use anabranch::SecretKey;

use crate::harness::{Running, command, free_port, private_folder};

const FILE_BYTES: u32 = 12_000_000;
/// Part of the file that has arrived before something happens.
const SOME_BYTES: u64 = 300_000;
/// The rate of the first session: at it the file takes 16 s, far longer than a busy machine needs to end a process.
const SLOW: &str = "[channel]\ncontroller = \"fixed 6 Mbit/s\"\n";

/// Two nodes, of which the near one sends to the far one.
struct Nodes<'f> {
    folder: &'f Path,
    near: SocketAddr,
    far: SocketAddr,
}

impl<'f> Nodes<'f> {
    fn new(folder: &'f Path) -> Self {
        fs::create_dir(folder.join("to")).unwrap();
        let bytes: Vec<u8> = (0..FILE_BYTES).map(|n| (n / 3 * 41) as u8).collect();
        fs::create_dir(folder.join("tree")).unwrap();
        fs::write(folder.join("tree/film"), bytes).unwrap();
        fs::write(folder.join("tree/words"), "some words").unwrap();
        let (near, far) = (free_port(), free_port());
        Self { folder, near, far }
    }

    fn start(&self, own: u8, listen: SocketAddr, peer: u8, more: &str) -> Running {
        let key = self.folder.join(format!("{own}.key"));
        fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&key, owner_only).unwrap();
        let peer = SecretKey::from_seed([peer; 32]).node_id();
        let text = format!(
            "key = {key:?}\nlisten = [\"{listen}\"]\ncontrol = \"{own}.sock\"\nlocal = \"{own}.local\"\n\
             receive = \"to\"\n[[peer]]\nname = \"other\"\nnode = \"{peer}\"\n{more}"
        );
        let config = format!("{own}.toml");
        fs::write(self.folder.join(&config), text).unwrap();
        let mut node = Running::start(command(self.folder).args(["node", "--config", &config]));
        let line = node.line();
        assert!(line.starts_with("node "), "{line}");
        node
    }

    fn near(&self, more: &str) -> Running {
        let dials = format!("may = []\naddresses = [\"{}\"]\n{more}", self.far);
        self.start(1, self.near, 2, &dials)
    }

    fn far(&self) -> Running {
        self.start(2, self.far, 1, "may = [\"call\", \"send-files\"]\n")
    }

    /// Begins to send, and returns when some of the file has arrived.
    fn begin(&self, arguments: &[&str]) -> std::process::Child {
        let sending = command(self.folder)
            .args(["send", "--local", "1.local"])
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        while stored(&self.folder.join("to")) < SOME_BYTES {
            thread::sleep(Duration::from_millis(20));
        }
        sending
    }

    fn assert_arrived(&self) {
        let same = |file: &str| {
            let sent = fs::read(self.folder.join("tree").join(file)).unwrap();
            fs::read(self.folder.join("to/tree").join(file)).unwrap() == sent
        };
        assert!(same("film") && same("words"));
        // Nothing else is left there, once the receiver knows that its confirmation has arrived.
        let names = || {
            let entries = fs::read_dir(self.folder.join("to")).unwrap().flatten();
            entries.map(|entry| entry.file_name()).collect::<Vec<_>>()
        };
        for _ in 0..600 {
            if names() == ["tree"] {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("left: {:?}", names());
    }
}

/// Bytes of all files in a folder.
fn stored(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => stored(&entry.path()),
        Ok(found) => found.len(),
        // It was moved meanwhile.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Exit code, output and errors of a command that has ended.
fn ended(sending: std::process::Child) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = sending.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_send_continues_when_its_node_is_restarted() {
    let folder = private_folder();
    let nodes = Nodes::new(folder.path());
    let _far = nodes.far();
    let near = nodes.near(SLOW);
    let sending = nodes.begin(&["tree", "other"]);
    // SIGKILL.
    drop(near);
    let _near = nodes.near("");
    let (code, out, errors) = ended(sending);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("trying again for"), "{errors}");
    assert!(out.contains("were there already"), "{out}");
    nodes.assert_arrived();
}

#[test]
fn a_send_continues_when_the_receiver_is_restarted() {
    let folder = private_folder();
    let nodes = Nodes::new(folder.path());
    let far = nodes.far();
    let _near = nodes.near(SLOW);
    let sending = nodes.begin(&["tree", "other"]);
    drop(far);
    let _far = nodes.far();
    let (code, out, errors) = ended(sending);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("trying again for"), "{errors}");
    assert!(out.contains("were there already"), "{out}");
    nodes.assert_arrived();
}

#[test]
fn without_retries_a_send_ends_with_its_cause_and_the_same_command_continues() {
    let folder = private_folder();
    let nodes = Nodes::new(folder.path());
    let _far = nodes.far();
    let near = nodes.near(SLOW);
    let sending = nodes.begin(&["tree", "other", "--retry", "0 s"]);
    drop(near);
    let (code, _, errors) = ended(sending);
    assert_eq!(code, Some(5), "{errors}");
    assert!(
        errors.contains("the connection to the node is over"),
        "{errors}"
    );
    assert!(!nodes.folder.join("to/tree").exists());
    let _near = nodes.near("");
    let again = command(nodes.folder)
        .args(["send", "--local", "1.local", "tree", "other"])
        .output();
    let again = again.unwrap();
    let out = String::from_utf8(again.stdout).unwrap();
    assert_eq!(again.status.code(), Some(0), "{out}");
    assert!(out.contains("were there already"), "{out}");
    nodes.assert_arrived();
}

#[test]
fn a_send_of_standard_input_ends_with_its_cause_and_leaves_no_file() {
    let folder = private_folder();
    let nodes = Nodes::new(folder.path());
    let _far = nodes.far();
    let near = nodes.near("");
    let arguments = ["-", "other", "--name", "words"];
    let mut sending = command(nodes.folder)
        .args(["send", "--local", "1.local"])
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = sending.stdin.take().unwrap();
    input.write_all(&vec![7; 2_000_000]).unwrap();
    while stored(&nodes.folder.join("to")) < SOME_BYTES {
        thread::sleep(Duration::from_millis(20));
    }
    drop(near);
    // The command may have ended already.
    let _ = input.write_all(b"more");
    drop(input);
    let (code, _, errors) = ended(sending);
    assert_eq!(code, Some(5), "{errors}");
    assert!(
        errors.contains("the connection to the node is over"),
        "{errors}"
    );
    assert!(!nodes.folder.join("to/words").exists());
}
