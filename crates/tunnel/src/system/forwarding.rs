//! Forwarding of packets between devices, turned on for as long as this process, and the settings of the kernel that change with it.
//!
//! A kernel that forwards IPv6 ignores router advertisements where `accept_ra` is 1, and forgets the default routes that it had from them:
//! such devices get 2 beforehand, which means "also on a router". One that forwards IPv4 no more accepts redirects, whatever was set before.
//! Both are put back. A small shell waits for the end of this process, however it ends, and writes the settings as they were. They are also
//! in a file beside other runtime state; if the shell was killed, too, the next start writes them.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Time in which the shell of a process that was killed ends.
const WAIT: Duration = Duration::from_secs(5);
/// Name of the shell among the processes.
const WATCHER: &str = "anabranch-forwarding";

const V4: &str = "net/ipv4/ip_forward";
const V4_REDIRECTS: &str = "net/ipv4/conf/all/accept_redirects";
const V6: &str = "net/ipv6/conf/all/forwarding";
const V6_DEVICES: &str = "net/ipv6/conf";
/// Shell that writes settings when its input ends: a file to remove, and pairs of a setting and its value.
const WATCH: &str = "\
trap '' INT TERM HUP
read -r _
saved=$1
shift
while [ $# -ge 2 ]; do
  [ -e \"$1\" ] && echo \"$2\" > \"$1\"
  shift 2
done
rm -f \"$saved\"";

/// Families of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Families {
    pub(super) v4: bool,
    pub(super) v6: bool,
}

/// A setting with a value.
type Setting = (PathBuf, String);

/// Places of the settings.
#[derive(Clone, Debug)]
struct Places {
    settings: PathBuf,
    /// The settings as they were, by the name of the device and the network namespace.
    saved: PathBuf,
}

/// Forwarding that this process has turned on; put back when dropped.
#[derive(Debug)]
pub(super) struct Forwarding {
    watcher: Option<Child>,
}

impl Places {
    fn of(device: &str) -> Self {
        // Namespaces share /run.
        let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |file| file.ino());
        Self {
            settings: "/proc/sys".into(),
            saved: format!("/run/anabranch/{device}.{namespace}.settings").into(),
        }
    }

    fn value(&self, setting: &str) -> Option<String> {
        let text = fs::read_to_string(self.settings.join(setting)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The families that the machine does not forward.
    fn off(&self) -> Families {
        let is_off = |setting| self.value(setting).is_some_and(|value| value == "0");
        Families {
            v4: is_off(V4),
            v6: is_off(V6),
        }
    }

    /// Settings to write, with their values now; in the order in which they are written.
    fn changes(&self, families: Families) -> Vec<(Setting, String)> {
        let mut changes = Vec::new();
        let mut change = |setting: &str, to: &str| {
            if let Some(value) = self.value(setting) {
                changes.push(((self.settings.join(setting), to.to_owned()), value));
            }
        };
        if families.v4 {
            change(V4, "1");
        }
        if families.v6 {
            for setting in self.advertised() {
                change(&setting, "2");
            }
            change(V6, "1");
        }
        changes
    }

    /// `accept_ra` of the devices that take router advertisements only while the machine does not forward, and of later ones.
    fn advertised(&self) -> Vec<String> {
        let Ok(devices) = fs::read_dir(self.settings.join(V6_DEVICES)) else {
            return Vec::new();
        };
        let devices = devices.flatten();
        let mut found: Vec<String> = devices
            .filter_map(|device| device.file_name().into_string().ok())
            // That of "all" has no effect.
            .filter(|device| device != "all" && device != "lo")
            .map(|device| format!("{V6_DEVICES}/{device}/accept_ra"))
            .filter(|setting| self.value(setting).is_some_and(|value| value == "1"))
            .collect();
        found.sort();
        found
    }

    /// Settings as they are now, in the order in which they are to be put back.
    fn before(&self, changes: &[(Setting, String)]) -> Vec<Setting> {
        let mut before: Vec<Setting> = changes
            .iter()
            .rev()
            .map(|((path, _), value)| (path.clone(), value.clone()))
            .collect();
        let redirects = self.settings.join(V4_REDIRECTS);
        if before.iter().any(|(path, _)| path.ends_with(V4))
            && let Some(value) = self.value(V4_REDIRECTS)
        {
            before.push((redirects, value));
        }
        before
    }

    /// Writes the settings that a process which was killed has left.
    fn restore(&self) {
        let start = Instant::now();
        let text = loop {
            let Ok(text) = fs::read_to_string(&self.saved) else {
                return;
            };
            // The shell is about to write them.
            let first = text.lines().next();
            let watcher = first.and_then(|line| line.strip_prefix("by "));
            if start.elapsed() > WAIT || !watcher.is_some_and(is_watcher) {
                break text;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        for (path, value) in text.lines().skip(1).filter_map(setting_of_line) {
            // A device may be gone.
            let _ = fs::write(self.settings.join(path), value);
        }
        let _ = fs::remove_file(&self.saved);
    }

    fn save(&self, before: &[Setting], watcher: &Child) -> io::Result<()> {
        let lines = before.iter().map(|(path, value)| {
            let path = path.strip_prefix(&self.settings).unwrap_or(path);
            format!("{} {value}\n", path.display())
        });
        if let Some(folder) = self.saved.parent() {
            fs::create_dir_all(folder)?;
        }
        let text = format!("by {}\n{}", watcher.id(), lines.collect::<String>());
        // The folder may belong to another user: nothing that is there is written to, and no link is followed.
        let _ = fs::remove_file(&self.saved);
        let mut file = fs::File::create_new(&self.saved)?;
        file.write_all(text.as_bytes())
    }

    fn watch(&self, before: &[Setting]) -> io::Result<Child> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", WATCH, WATCHER]).arg(&self.saved);
        for (path, value) in before {
            command.arg(path).arg(value);
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal is for this process.
            .process_group(0)
            .spawn()
    }

    fn turn_on(&self, families: Families) -> (Forwarding, Vec<String>) {
        let changes = self.changes(families);
        let mut forwarding = Forwarding { watcher: None };
        if changes.is_empty() {
            return (forwarding, Vec::new());
        }
        let before = self.before(&changes);
        let mut warnings = Vec::new();
        match self.watch(&before) {
            Ok(watcher) => {
                if let Err(error) = self.save(&before, &watcher) {
                    tracing::debug!(%error, "settings are not saved for the next start");
                }
                forwarding.watcher = Some(watcher);
            }
            // Without it, nothing would be put back.
            Err(error) => return (forwarding, vec![format!("cannot run /bin/sh: {error}")]),
        }
        for ((path, value), _) in changes {
            if let Err(error) = fs::write(&path, &value) {
                warnings.push(refusal(&path, &value, &error));
            }
        }
        (forwarding, warnings)
    }
}

/// Setting and value of a line of the file. The folder may belong to another user: nothing but numbers in settings of the network.
fn setting_of_line(line: &str) -> Option<(&str, &str)> {
    let (path, value) = line.split_once(' ')?;
    let is_setting = ["net/ipv4/", "net/ipv6/"]
        .iter()
        .any(|folder| path.starts_with(folder))
        && !path.split('/').any(|part| part == "..");
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    (is_setting && is_number).then_some((path, value))
}

/// True if the process with this number is a shell that waits to write settings.
fn is_watcher(process: &str) -> bool {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = words.split(|&byte| byte == 0);
    words.any(|word| word == WATCHER.as_bytes())
}

fn refusal(path: &Path, value: &str, error: &io::Error) -> String {
    let name = path.strip_prefix("/proc/sys").unwrap_or(path);
    let name = name.display().to_string().replace('/', ".");
    format!(
        "cannot set {name} to {value} ({error}); set it for this machine: a line \"{name} = {value}\" in a file of /etc/sysctl.d"
    )
}

/// Writes the settings that a process with this device left when it was killed.
pub(super) fn restore(device: &str) {
    Places::of(device).restore();
}

/// The families that the machine does not forward.
pub(super) fn off() -> Families {
    Places::of("").off()
}

impl Forwarding {
    /// Turns forwarding on for these families, in which it must be off, for a tunnel at this device; also returns what could not be set.
    pub(super) fn turn_on(device: &str, families: Families) -> (Self, Vec<String>) {
        Places::of(device).turn_on(families)
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        if let Some(watcher) = &mut self.watcher {
            // The end of its input.
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Families = Families { v4: true, v6: true };

    fn places(folder: &Path) -> Places {
        let places = Places {
            settings: folder.join("sys"),
            saved: folder.join("run/saved"),
        };
        for (setting, value) in [
            (V4, "0"),
            (V4_REDIRECTS, "0"),
            (V6, "0"),
            ("net/ipv6/conf/all/accept_ra", "1"),
            ("net/ipv6/conf/default/accept_ra", "1"),
            ("net/ipv6/conf/eth0/accept_ra", "1"),
            ("net/ipv6/conf/eth1/accept_ra", "0"),
        ] {
            let path = places.settings.join(setting);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        places
    }

    fn values(places: &Places) -> Vec<String> {
        let settings = [
            V4,
            V4_REDIRECTS,
            V6,
            "net/ipv6/conf/all/accept_ra",
            "net/ipv6/conf/default/accept_ra",
            "net/ipv6/conf/eth0/accept_ra",
            "net/ipv6/conf/eth1/accept_ra",
        ];
        settings.map(|s| places.value(s).unwrap()).into()
    }

    #[test]
    fn settings_are_changed_and_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let before = values(&places);
        assert_eq!(places.off(), BOTH);
        let (forwarding, warnings) = places.turn_on(BOTH);
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(values(&places), ["1", "0", "1", "1", "2", "2", "0"]);
        assert!(places.saved.exists());
        // As the kernel does when forwarding is turned off.
        fs::write(places.settings.join(V4_REDIRECTS), "1").unwrap();
        drop(forwarding);
        assert_eq!(values(&places), before);
        assert!(!places.saved.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let before = values(&places);
        let (mut forwarding, _) = places.turn_on(BOTH);
        let watcher = forwarding.watcher.as_mut().unwrap();
        watcher.kill().unwrap();
        watcher.wait().unwrap();
        drop(forwarding);
        assert_eq!(places.value(V4).unwrap(), "1");
        places.restore();
        assert_eq!(values(&places), before);
        assert!(!places.saved.exists());
        // Once.
        fs::write(places.settings.join(V4), "1").unwrap();
        places.restore();
        assert_eq!(places.value(V4).unwrap(), "1");
    }

    #[test]
    fn nothing_but_settings_of_the_network_is_put_back() {
        let line = "net/ipv6/conf/eth0.5/accept_ra 1";
        assert_eq!(
            setting_of_line(line),
            Some(("net/ipv6/conf/eth0.5/accept_ra", "1"))
        );
        for line in [
            "/etc/passwd 1",
            "net/ipv4/../../kernel/panic 1",
            "kernel/panic 1",
            "net/ipv4/ip_forward x",
            "net/ipv4/ip_forward ",
            "net/ipv4/ip_forward",
            "",
        ] {
            assert_eq!(setting_of_line(line), None, "{line}");
        }
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let other = folder.path().join("other");
        fs::write(&other, "untouched").unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        std::os::unix::fs::symlink(&other, &places.saved).unwrap();
        drop(places.turn_on(BOTH));
        assert_eq!(fs::read_to_string(&other).unwrap(), "untouched");
    }

    #[test]
    fn a_family_that_is_not_wanted_stays_and_failures_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        let v4 = Families {
            v4: true,
            v6: false,
        };
        let (forwarding, _) = places.turn_on(v4);
        assert_eq!(values(&places), ["1", "0", "0", "1", "1", "1", "0"]);
        assert_eq!(
            places.off(),
            Families {
                v4: false,
                v6: true
            }
        );
        drop(forwarding);
        let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
        let text = refusal(Path::new("/proc/sys/net/ipv4/ip_forward"), "1", &error);
        assert!(text.contains("\"net.ipv4.ip_forward = 1\""), "{text}");
    }
}
