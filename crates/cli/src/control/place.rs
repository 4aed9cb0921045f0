//! Control sockets of this user: that of the node, and beside it one for each tunnel of `anabranch tun`, named after its device.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anabranch::config;
use tokio::net::UnixStream;

use crate::exit::Failure;

/// Beginning of the name of a tunnel's socket; its device follows.
const TUNNEL: &str = "anabranch-tun-";
/// End of the name.
const SOCKET: &str = ".sock";
/// Tunnels of this user at devices of one name, each in a network namespace of its own.
#[cfg(target_os = "linux")]
const SAME_NAME_MAX: usize = 64;

/// Control socket of a tunnel that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// Its device; with a number for each further one of that name.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Control socket of the node, if no other is named.
pub(crate) fn of_node() -> Result<PathBuf, Failure> {
    let usual = config::default_control(|name| std::env::var(name).ok());
    usual.ok_or_else(|| Failure::usage(config::NO_CONTROL))
}

/// Socket for a tunnel at this device: the first one of its names at which nobody answers.
#[cfg(target_os = "linux")]
pub(crate) async fn for_tunnel(device: &str) -> Result<PathBuf, Failure> {
    free(&of_node()?, device).await.ok_or_else(|| {
        Failure::other(format!(
            "{SAME_NAME_MAX} tunnels of this user have a device '{device}' already; name another control socket with --control"
        ))
    })
}

#[cfg(target_os = "linux")]
async fn free(node: &Path, device: &str) -> Option<PathBuf> {
    for count in 1..=SAME_NAME_MAX {
        let name = match count {
            1 => device.to_owned(),
            count => format!("{device}.{count}"),
        };
        let path = named(node, &name);
        if !answers(&path).await {
            return Some(path);
        }
    }
    None
}

fn named(node: &Path, name: &str) -> PathBuf {
    node.with_file_name(format!("{TUNNEL}{name}{SOCKET}"))
}

/// True if a process listens there.
pub(crate) async fn answers(path: &Path) -> bool {
    UnixStream::connect(path).await.is_ok()
}

/// Socket that `--control` names: a file, or else that of the tunnel of this name.
pub(super) fn of_argument(argument: &Path, node: Option<&Path>) -> PathBuf {
    let is_word = argument.components().count() == 1 && !argument.exists();
    let tunnel = node.zip(argument.to_str().filter(|_| is_word));
    let tunnel = tunnel.map(|(node, name)| named(node, name));
    tunnel
        .filter(|path| path.exists())
        .unwrap_or_else(|| argument.to_owned())
}

/// Socket of the process to ask, if none is named: the node, or else the only tunnel, or else the node of the machine. Where nothing
/// runs, the node's.
///
/// # Errors
/// Several tunnels run and no node: names them.
pub(super) async fn found(node: PathBuf) -> Result<PathBuf, Failure> {
    if answers(&node).await {
        return Ok(node);
    }
    let mut tunnels = tunnels(&node).await;
    if tunnels.len() > 1 {
        let names: Vec<&str> = tunnels.iter().map(|tunnel| tunnel.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "{} tunnels run here: {}; name one of them, as in --control {}",
            names.len(),
            names.join(", "),
            names[0]
        )));
    }
    if let Some(only) = tunnels.pop() {
        return Ok(only.path);
    }
    let of_machine = PathBuf::from(config::SERVICE_CONTROL);
    // Other users may not connect to it.
    match answers(&of_machine).await {
        true => Ok(of_machine),
        false => Ok(node),
    }
}

/// Tunnels of this user that run, by name.
async fn tunnels(node: &Path) -> Vec<Tunnel> {
    let files = node.parent().and_then(|folder| fs::read_dir(folder).ok());
    let mut tunnels = Vec::new();
    for file in files.into_iter().flatten().flatten() {
        let text = file.file_name().to_string_lossy().into_owned();
        let name = text.strip_prefix(TUNNEL);
        let Some(name) = name.and_then(|name| name.strip_suffix(SOCKET)) else {
            continue;
        };
        // One that was killed leaves its file.
        if answers(&file.path()).await {
            tunnels.push(Tunnel {
                name: name.to_owned(),
                path: file.path(),
            });
        }
    }
    tunnels.sort_by(|one, other| one.name.cmp(&other.name));
    tunnels
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn listen(folder: &Path, name: &str) -> UnixListener {
        UnixListener::bind(folder.join(name)).unwrap()
    }

    #[tokio::test]
    async fn the_node_is_asked_first_and_several_tunnels_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("anabranch.sock");
        assert_eq!(found(node.clone()).await.unwrap(), node, "nothing runs");
        let first = listen(folder.path(), "anabranch-tun-anabranch1.sock");
        // What a killed one leaves.
        drop(listen(folder.path(), "anabranch-tun-anabranch7.sock"));
        drop(listen(folder.path(), "anabranch-local.sock"));
        let only = folder.path().join("anabranch-tun-anabranch1.sock");
        assert_eq!(found(node.clone()).await.unwrap(), only);
        let second = listen(folder.path(), "anabranch-tun-anabranch0.sock");
        let failure = found(node.clone()).await.unwrap_err();
        assert_eq!(
            failure.message(),
            "2 tunnels run here: anabranch0, anabranch1; name one of them, as in --control anabranch0"
        );
        assert_eq!(of_argument(Path::new("anabranch1"), Some(&node)), only);
        let running = listen(folder.path(), "anabranch.sock");
        assert_eq!(found(node.clone()).await.unwrap(), node);
        drop((first, second, running));
    }

    #[tokio::test]
    async fn devices_of_one_name_have_sockets_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("anabranch.sock");
        let at = |name: &str| Some(folder.path().join(name));
        assert_eq!(free(&node, "t0").await, at("anabranch-tun-t0.sock"));
        let _first = listen(folder.path(), "anabranch-tun-t0.sock");
        assert_eq!(free(&node, "t0").await, at("anabranch-tun-t0.2.sock"));
        drop(listen(folder.path(), "anabranch-tun-t0.2.sock"));
        assert_eq!(free(&node, "t0").await, at("anabranch-tun-t0.2.sock"));
    }

    #[test]
    fn a_file_is_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("anabranch.sock");
        for text in ["/a/b", "missing", "./missing"] {
            assert_eq!(of_argument(Path::new(text), Some(&node)), Path::new(text));
        }
        assert_eq!(
            of_argument(Path::new("missing"), None),
            Path::new("missing")
        );
    }
}
