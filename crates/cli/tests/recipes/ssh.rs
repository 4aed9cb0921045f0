//! ssh, and rsync over it: a server of this test with keys of its own.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    Setting,
    harness::{Killed, private_folder},
    program, succeeds,
};

/// Longest wait for the server.
const LIMIT: Duration = Duration::from_secs(30);

fn make_key(folder: &Path, name: &str) {
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-f", name];
    succeeds(
        Command::new("ssh-keygen")
            .args(arguments)
            .current_dir(folder),
    );
}

/// Starts a server for the user of this test; `None`: it is not installed.
fn server(folder: &Path) -> Option<(Killed, SocketAddr)> {
    let sshd = program("sshd")?;
    program("ssh")?;
    // As root it insists on this folder.
    let _ = fs::create_dir("/run/sshd");
    make_key(folder, "host");
    make_key(folder, "user");
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let config = format!(
        "Port {}\nListenAddress 127.0.0.1\nHostKey {1}/host\nAuthorizedKeysFile {1}/user.pub\nPidFile none\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n",
        at.port(),
        folder.display()
    );
    fs::write(folder.join("config"), config).unwrap();
    let server = Command::new(sshd)
        .args(["-D", "-e", "-f"])
        .arg(folder.join("config"))
        .stdin(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap();
    let server = Killed(server);
    let begin = Instant::now();
    while std::net::TcpStream::connect(at).is_err() {
        let log = fs::read_to_string(folder.join("log")).unwrap();
        assert!(begin.elapsed() < LIMIT, "sshd does not start: {log}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Some((server, at))
}

/// A server behind a forward.
struct Host {
    _server: Killed,
    setting: Setting,
    /// The words of ssh before the host.
    ssh: String,
}

impl Host {
    /// With its files in `folder`; `None`: a program is not installed.
    fn start(folder: &Path) -> Option<Self> {
        let (server, target) = server(folder)?;
        let forward = format!("0:{target}");
        let setting = Setting::new(&target.to_string(), &["forward", "-L", &forward]);
        let ssh = format!(
            "ssh -q -F none -i {} -p {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            folder.join("user").display(),
            setting.at.port()
        );
        Some(Self {
            _server: server,
            setting,
            ssh,
        })
    }
}

#[test]
fn a_shell_runs_through_a_forward() {
    let folder = private_folder();
    let Some(host) = Host::start(folder.path()) else {
        return;
    };
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| ((n * 7) >> 3) as u8).collect();
    fs::write(folder.path().join("in"), &data).unwrap();
    let script = format!(
        "{} 127.0.0.1 'cat; exit 7' < {1}/in > {1}/out; echo $?",
        host.ssh,
        folder.path().display()
    );
    let code = succeeds(Command::new("sh").args(["-c", &script]));
    assert_eq!(String::from_utf8_lossy(&code).trim(), "7");
    assert!(fs::read(folder.path().join("out")).unwrap() == data);
    host.setting.end();
}

#[test]
fn rsync_copies_a_folder_through_a_forward() {
    if program("rsync").is_none() {
        return;
    }
    let folder = private_folder();
    let Some(host) = Host::start(folder.path()) else {
        return;
    };
    let from = folder.path().join("from");
    fs::create_dir_all(from.join("below")).unwrap();
    for number in 0..200_u32 {
        let bytes: Vec<u8> = (0..number * 50).map(|n| (n * number) as u8).collect();
        fs::write(from.join("below").join(number.to_string()), bytes).unwrap();
    }
    fs::write(from.join("large"), vec![9; 5_000_000]).unwrap();
    let to = folder.path().join("to");
    let copy = || {
        let output = succeeds(
            Command::new("rsync")
                .args(["-a", "--checksum", "--itemize-changes", "-e"])
                .arg(&host.ssh)
                .arg(format!("{}/", from.display()))
                .arg(format!("127.0.0.1:{}/", to.display())),
        );
        String::from_utf8_lossy(&output).lines().count()
    };
    assert!(copy() > 200);
    assert_eq!(fs::read(to.join("large")).unwrap(), vec![9; 5_000_000]);
    for number in 0..200_u32 {
        let name = format!("below/{number}");
        assert!(
            fs::read(from.join(&name)).unwrap() == fs::read(to.join(&name)).unwrap(),
            "{name}"
        );
    }
    // Only what has changed.
    fs::write(from.join("large"), vec![8; 10]).unwrap();
    assert_eq!(copy(), 1);
    host.setting.end();
}
