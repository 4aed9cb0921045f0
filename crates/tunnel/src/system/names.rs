//! Servers that resolve names while a tunnel is up.
//!
//! On a machine with systemd-resolved, they are those of the tunnel's device, and end with it. Elsewhere `/etc/resolv.conf` is
//! rewritten. What it held is kept in a file beside other runtime state; a small shell waits for the end of this process, however it
//! ends, and writes it back. If that was killed too, the next start does.

use std::{
    fs, io,
    net::IpAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The servers cannot be set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// systemd-resolved did not take them.
    #[error(
        "cannot set the servers that resolve names: {0}; leave out --dns (`dns`) to keep those of this machine"
    )]
    Resolved(String),
    /// A file cannot be read or written.
    #[error(
        "cannot set the servers that resolve names: {path}: {source}; leave out --dns (`dns`) to keep those of this machine"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// First line of the file that this module writes.
const HEAD: &str = "# Written by anabranch while its tunnel is up; the file as it was is in";
/// Shell that puts the file back when its input ends. `cat` keeps a file that is mounted, and the target of a link.
const WATCH: &str = "\
trap '' INT TERM HUP
read -r _
[ -f \"$1\" ] || exit 0
case \"$(head -n 1 \"$2\")\" in '# Written by anabranch'*) cat \"$1\" > \"$2\" ;; esac
rm -f \"$1\"";

/// Places of the files.
#[derive(Clone, Debug)]
struct Places {
    resolv_conf: PathBuf,
    /// The file as it was, by the name of the device.
    saved: PathBuf,
}

/// The servers that resolve names, as long as this value.
#[derive(Debug)]
pub struct Names {
    file: Option<(Places, Child)>,
}

impl Places {
    fn of(device: &str) -> Self {
        Self {
            resolv_conf: "/etc/resolv.conf".into(),
            saved: format!("/run/anabranch/{device}.resolv.conf").into(),
        }
    }

    fn failed(path: &Path) -> impl FnOnce(io::Error) -> NamesError + '_ {
        |source| NamesError::File {
            path: path.to_owned(),
            source,
        }
    }

    /// Puts the file back that a process which was killed has left.
    fn restore(&self) -> Result<(), NamesError> {
        let text = match fs::read(&self.saved) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Self::failed(&self.saved)(error)),
        };
        // Somebody else may have written it since.
        let now = fs::read_to_string(&self.resolv_conf).unwrap_or_default();
        if now.starts_with(HEAD) {
            fs::write(&self.resolv_conf, text).map_err(Self::failed(&self.resolv_conf))?;
        }
        fs::remove_file(&self.saved).map_err(Self::failed(&self.saved))
    }

    fn replace(&self, servers: &[IpAddr]) -> Result<Child, NamesError> {
        let before = fs::read(&self.resolv_conf).map_err(Self::failed(&self.resolv_conf))?;
        let folder = self.saved.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(Self::failed(folder))?;
        fs::write(&self.saved, before).map_err(Self::failed(&self.saved))?;
        let watcher = Command::new("/bin/sh")
            .args(["-c", WATCH, "anabranch-names"])
            .args([&self.saved, &self.resolv_conf])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal is for this process.
            .process_group(0)
            .spawn()
            .map_err(Self::failed(Path::new("/bin/sh")))?;
        let mut text = format!("{HEAD} {}.\n", self.saved.display());
        for server in servers {
            text.push_str(&format!("nameserver {server}\n"));
        }
        fs::write(&self.resolv_conf, text).map_err(Self::failed(&self.resolv_conf))?;
        Ok(watcher)
    }
}

/// True if systemd-resolved serves this machine: its address is that in the file.
fn is_resolved(resolv_conf: &str) -> bool {
    let servers = resolv_conf
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"));
    let mut servers = servers.map(str::trim);
    servers.any(|server| matches!(server, "127.0.0.53" | "127.0.0.54"))
}

fn resolvectl(arguments: &[&str]) -> Result<(), NamesError> {
    let output = Command::new("resolvectl").args(arguments).output();
    let output = output.map_err(|error| NamesError::Resolved(format!("resolvectl: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(NamesError::Resolved(format!(
        "resolvectl: {}",
        words.trim()
    )))
}

/// Puts back what a process that was killed has left.
///
/// # Errors
/// A file cannot be read or written.
pub fn restore(device: &str) -> Result<(), NamesError> {
    Places::of(device).restore()
}

impl Names {
    /// Sets the servers, for the tunnel at this device.
    ///
    /// # Errors
    /// They cannot be set; nothing was changed.
    pub fn set(device: &str, servers: &[IpAddr]) -> Result<Self, NamesError> {
        let places = Places::of(device);
        let text = fs::read_to_string(&places.resolv_conf).unwrap_or_default();
        if is_resolved(&text) {
            let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
            let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
            resolvectl(&[&["dns", device][..], &servers].concat())?;
            // For all names, and not for those of the device's domains only.
            resolvectl(&["domain", device, "~."])?;
            return Ok(Self { file: None });
        }
        let watcher = places.replace(servers)?;
        Ok(Self {
            file: Some((places, watcher)),
        })
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let Some((places, watcher)) = &mut self.file else {
            return;
        };
        // The end of its input.
        drop(watcher.stdin.take());
        let _ = watcher.wait();
        if let Err(error) = places.restore() {
            tracing::warn!(%error, "the servers that resolve names were not put back");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &Path) -> Places {
        Places {
            resolv_conf: folder.join("resolv.conf"),
            saved: folder.join("run/saved"),
        }
    }

    const BEFORE: &str = "nameserver 192.0.2.53\nsearch example.net\n";

    #[test]
    fn the_file_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        fs::write(&places.resolv_conf, BEFORE).unwrap();
        let watcher = places.replace(&["9.9.9.9".parse().unwrap()]).unwrap();
        let during = fs::read_to_string(&places.resolv_conf).unwrap();
        assert!(during.contains("\nnameserver 9.9.9.9\n"), "{during}");
        drop(Names {
            file: Some((places.clone(), watcher)),
        });
        assert_eq!(fs::read_to_string(&places.resolv_conf).unwrap(), BEFORE);
        assert!(!places.saved.exists());
    }

    #[test]
    fn what_a_killed_process_left_is_put_back_unless_another_program_wrote_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        fs::create_dir(folder.path().join("run")).unwrap();
        places.restore().unwrap();
        for (now, expected) in [
            (format!("{HEAD} x.\nnameserver 9.9.9.9\n"), BEFORE),
            (
                "nameserver 198.51.100.1\n".to_owned(),
                "nameserver 198.51.100.1\n",
            ),
        ] {
            fs::write(&places.resolv_conf, now).unwrap();
            fs::write(&places.saved, BEFORE).unwrap();
            places.restore().unwrap();
            assert_eq!(fs::read_to_string(&places.resolv_conf).unwrap(), expected);
            assert!(!places.saved.exists());
        }
    }

    #[test]
    fn resolved_is_recognised_by_its_address() {
        assert!(is_resolved(
            "# stub\nnameserver 127.0.0.53\noptions edns0\n"
        ));
        assert!(!is_resolved(BEFORE));
        assert!(!is_resolved("# nameserver 127.0.0.53\n"));
    }
}
