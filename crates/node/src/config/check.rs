//! Check of what a configuration names: files and folders are opened, addresses are bound, and all is left as it was.

use std::{
    fs, io,
    net::UdpSocket,
    path::{Path, PathBuf},
};

use anabranch_net::Locals;
#[cfg(unix)]
use rustix::fs::{Access, access};

use super::NodeConfig;
use crate::{exports, keys};

/// Finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The node would not start, or not do what is configured.
    Fault(String),
    /// Worth knowing.
    Note(String),
}

impl NodeConfig {
    /// Opens what the configuration names, and closes it again. Nothing is created.
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(key(&self.key));
        let granted = self.rights.iter().flat_map(|(_, rights)| rights.values());
        let granted = granted.filter_map(|terms| terms.folder.as_deref());
        let mut folders: Vec<&Path> = self.receive.as_deref().into_iter().chain(granted).collect();
        folders.sort_unstable();
        folders.dedup();
        findings.extend(folders.into_iter().filter_map(folder));
        for export in &self.exports {
            let opened = exports::is_readable(&export.path);
            findings.extend(opened.err().map(|error| {
                let path = export.path.display();
                let words = format!("export \"{}\": {path}: {error}", export.name);
                Finding::Fault(words)
            }));
        }
        let kept = [&self.promise_record, &self.evidence, &self.qlog]
            .into_iter()
            .flatten();
        findings.extend(kept.filter_map(|path| place_of(path)));
        findings.extend(place_of(&self.control));
        if let Locals::Fixed(binds) = &self.locals {
            findings.extend(binds.iter().filter_map(|bind| address(bind.address)));
        }
        findings.extend(self.callers().map(Finding::Note));
        findings
    }

    /// Warning if nobody may call the node, and it calls nobody.
    pub fn callers(&self) -> Option<String> {
        let mut nodes = self.rights.iter().map(|(node, _)| node);
        let is_open = nodes.any(|node| self.rights.may_connect(node));
        let words = "no node may call this one, and it calls none: name nodes in [[peer]], with what they may do (`may`)";
        (!is_open && self.peers.is_empty()).then(|| words.to_owned())
    }
}

fn key(path: &Path) -> Option<Finding> {
    match path.exists() {
        true => keys::load(path)
            .err()
            .map(|error| Finding::Fault(error.to_string())),
        false => Some(match existing_parent(path) {
            Some(parent) if is_writable(&parent) => {
                Finding::Note(format!("key = \"{}\": will be created", path.display()))
            }
            _ => Finding::Fault(format!(
                "key = \"{}\": cannot be created there",
                path.display()
            )),
        }),
    }
}

fn folder(path: &Path) -> Option<Finding> {
    let fault = |why: &str| Some(Finding::Fault(format!("{}: {why}", path.display())));
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fault("there is no such folder; create it")
        }
        Err(error) => fault(&error.to_string()),
        Ok(found) if !found.is_dir() => fault("is not a folder"),
        Ok(_) if !is_writable(path) => fault("this user cannot write there"),
        Ok(_) => None,
    }
}

/// The folder of a file that the node creates, with folders above it.
fn place_of(path: &Path) -> Option<Finding> {
    let parent = existing_parent(path)?;
    let words = || {
        format!(
            "{}: this user cannot write to {}",
            path.display(),
            parent.display()
        )
    };
    (!is_writable(&parent)).then(|| Finding::Fault(words()))
}

fn existing_parent(path: &Path) -> Option<PathBuf> {
    let mut parents = path.ancestors().skip(1);
    let found = parents.find(|parent| parent.as_os_str().is_empty() || parent.exists())?;
    Some(match found.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => found.to_owned(),
    })
}

#[cfg(unix)]
fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.permissions().readonly())
}

fn address(address: std::net::SocketAddr) -> Option<Finding> {
    let error = UdpSocket::bind(address).err()?;
    let words = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "listen: {address} is in use, by this node if it runs; `ss -ulnp` names the program"
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "listen: {address} is not an address of this machine now; `ip address` lists those"
            )
        }
        io::ErrorKind::PermissionDenied => {
            return Some(Finding::Fault(format!(
                "listen: {address} needs more rights ({error}); choose a port from 1024 on"
            )));
        }
        _ => return Some(Finding::Fault(format!("listen: {address}: {error}"))),
    };
    Some(Finding::Note(words))
}

#[cfg(test)]
mod tests {
    use super::super::Layer;
    use super::*;

    fn check(text: &str) -> Vec<Finding> {
        let layer = Layer::from_toml(text).unwrap();
        layer.resolve(|_| None).unwrap().check()
    }

    fn has_fault(findings: &[Finding], word: &str) -> bool {
        let is_it =
            |finding: &Finding| matches!(finding, Finding::Fault(text) if text.contains(word));
        findings.iter().any(is_it)
    }

    #[test]
    #[cfg(unix)]
    fn exports_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        let text = |name: &str| {
            format!(
                "key = {:?}\ncontrol = {:?}\n[[export]]\nname = \"x\"\npath = {:?}\n",
                at("key"),
                at("a.sock"),
                at(name)
            )
        };
        assert!(has_fault(&check(&text("file")), "export \"x\""));
        assert!(has_fault(&check(&text("none")), "export \"x\""));
        assert!(!has_fault(&check(&text("")), "export"));
    }

    #[test]
    fn what_is_named_is_opened_and_nothing_is_created() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("bad.key"), "not a key").unwrap();
        fs::write(at("file"), "").unwrap();
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let text = |key: &str, receive: &str, listen: &str| {
            format!(
                "key = {:?}\ncontrol = {:?}\nreceive = {:?}\nlisten = [{listen:?}]\n",
                at(key),
                at("a.sock"),
                at(receive)
            )
        };
        let free = "127.0.0.1:0";
        let findings = check(&text("bad.key", "missing", free));
        assert!(has_fault(&findings, "bad.key"), "{findings:?}");
        assert!(has_fault(&findings, "no such folder"), "{findings:?}");
        assert!(has_fault(
            &check(&text("new.key", "file", free)),
            "not a folder"
        ));
        let findings = check(&text(
            "new.key",
            "",
            &taken.local_addr().unwrap().to_string(),
        ));
        let notes: Vec<&str> = findings
            .iter()
            .map(|finding| match finding {
                Finding::Note(text) => text.as_str(),
                Finding::Fault(text) => panic!("{text}"),
            })
            .collect();
        assert!(
            notes.iter().any(|note| note.contains("will be created")),
            "{notes:?}"
        );
        assert!(
            notes.iter().any(|note| note.contains("in use")),
            "{notes:?}"
        );
        assert!(
            notes.iter().any(|note| note.contains("no node may call")),
            "{notes:?}"
        );
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["bad.key", "file"]);
    }
}
