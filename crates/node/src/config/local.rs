//! Local interface in the configuration: its socket, and the users who may attach.

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{
    ConfigError, LocalLimits, LocalUser, LocalUserLayer, address, default_control, missing, refused,
};

/// Longest path of a Unix socket.
const PATH_BYTES_MAX: usize = 107;

/// The local interface, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalConfig {
    /// Its socket.
    pub path: PathBuf,
    /// Users who may attach, in addition to the one who runs the node and root, and the limits of each.
    pub users: Vec<(LocalUser, LocalLimits)>,
    /// TCP socket of the interface.
    pub tcp: Option<LocalTcp>,
    /// Bytes that may wait in the node for all applications together.
    pub memory_bytes: u64,
}

/// TCP socket of the local interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalTcp {
    /// Its address, on loopback.
    pub address: SocketAddr,
    /// File of the token that applications show.
    pub token: PathBuf,
}

/// Keys of the local interface, unchecked.
#[derive(Clone, Debug, Default)]
pub(super) struct LocalKeys {
    pub(super) path: Option<PathBuf>,
    pub(super) users: Option<Vec<LocalUserLayer>>,
    pub(super) tcp: Option<String>,
    pub(super) token: Option<PathBuf>,
}

impl LocalConfig {
    pub(super) fn resolve(keys: LocalKeys, control: &Path) -> Result<Option<Self>, ConfigError> {
        let users = keys.users.unwrap_or_default().into_iter();
        let users: Vec<_> = users
            .map(LocalUserLayer::resolve)
            .collect::<Result<_, _>>()?;
        let path = match keys.path {
            Some(path) if path.as_os_str().is_empty() => None,
            Some(path) => Some(path),
            None => beside(control),
        };
        let Some(path) = path else {
            let used = [
                ("local_users", !users.is_empty()),
                ("local_tcp", keys.tcp.is_some()),
                ("local_token", keys.token.is_some()),
            ];
            return match used.into_iter().find(|(_, is_used)| *is_used) {
                None => Ok(None),
                Some((key, _)) => {
                    let why =
                        "there is no local interface to attach to; name its socket with `local`";
                    Err(missing(key, why))
                }
            };
        };
        Ok(Some(Self {
            tcp: tcp(keys.tcp, keys.token, &path)?,
            path,
            users,
            memory_bytes: crate::local::MEMORY_BYTES,
        }))
    }
}

/// The TCP socket. The file of its token is beside the Unix socket unless it is named: `anabranch-local.token`.
fn tcp(
    text: Option<String>,
    token: Option<PathBuf>,
    socket: &Path,
) -> Result<Option<LocalTcp>, ConfigError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return match token {
            None => Ok(None),
            Some(_) => Err(missing(
                "local_token",
                "it is for `local_tcp`, which is missing",
            )),
        };
    };
    let address = address("local_tcp", &text)?;
    if !address.ip().is_loopback() {
        let why =
            "only this machine may reach it; give an address of loopback, such as 127.0.0.1:7070";
        return Err(refused("local_tcp", &text, why));
    }
    let token = token.unwrap_or_else(|| socket.with_extension("token"));
    Ok(Some(LocalTcp { address, token }))
}

/// Socket of the local interface beside a control socket: `anabranch-local.sock` beside `anabranch.sock`; `None` if the path is too
/// long for a socket.
fn beside(control: &Path) -> Option<PathBuf> {
    let mut name = OsString::from(control.file_stem()?);
    name.push("-local");
    if let Some(extension) = control.extension() {
        name.push(".");
        name.push(extension);
    }
    let path = control.with_file_name(name);
    (path.as_os_str().len() <= PATH_BYTES_MAX).then_some(path)
}

/// Default location of the local interface's socket: beside [`default_control`]. `variable` looks up an environment variable.
pub fn default_local(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    beside(&default_control(variable)?)
}

/// Error message of an application that does not know the socket.
pub const NO_LOCAL: &str = "this user has no folder for the socket of a node (XDG_RUNTIME_DIR, XDG_STATE_HOME or HOME); name the \
     socket with --local or ANABRANCH_LOCAL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_socket_is_beside_the_control_socket_unless_named() {
        let runtime = |name: &str| (name == "XDG_RUNTIME_DIR").then(|| "/run/user/7".to_owned());
        assert_eq!(
            default_local(runtime),
            Some("/run/user/7/anabranch-local.sock".into())
        );
        let resolve = |path: Option<&str>, control: &str| {
            let keys = LocalKeys {
                path: path.map(Into::into),
                ..LocalKeys::default()
            };
            LocalConfig::resolve(keys, Path::new(control))
                .unwrap()
                .map(|local| local.path)
        };
        assert_eq!(resolve(None, "/a/control"), Some("/a/control-local".into()));
        assert_eq!(resolve(Some("/b/x"), "/a/c.sock"), Some("/b/x".into()));
        assert_eq!(resolve(Some(""), "/a/c.sock"), None);
        assert_eq!(resolve(None, &format!("/{}", "x".repeat(105))), None);
    }

    #[test]
    fn users_need_a_socket_and_a_name() {
        let resolve = |path: &str, user: LocalUser| {
            let keys = LocalKeys {
                path: Some(path.into()),
                users: Some(vec![user.into()]),
                ..LocalKeys::default()
            };
            LocalConfig::resolve(keys, Path::new("c"))
        };
        let named = |name: &str| LocalUser::Name(name.to_owned());
        assert!(resolve("", LocalUser::Uid(7)).is_err());
        assert!(resolve("l", named("")).is_err());
        assert!(resolve("l", named("ada")).is_ok());
    }

    #[test]
    fn tcp_is_for_this_machine_and_off_unless_named() {
        let resolve = |path: &str, tcp: &str, token: Option<&str>| {
            let keys = LocalKeys {
                path: Some(path.into()),
                tcp: (tcp != "-").then(|| tcp.to_owned()),
                token: token.map(Into::into),
                ..LocalKeys::default()
            };
            let local = LocalConfig::resolve(keys, Path::new("c"));
            local.map(|local| local.and_then(|local| local.tcp))
        };
        assert_eq!(resolve("/a/b.sock", "-", None), Ok(None));
        let beside = resolve("/a/b.sock", "127.0.0.1:7", None).unwrap().unwrap();
        assert_eq!(beside.token, Path::new("/a/b.token"));
        let named = resolve("/a/b.sock", "[::1]:7", Some("/t"))
            .unwrap()
            .unwrap();
        assert_eq!(named.token, Path::new("/t"));
        for (path, tcp, token, word) in [
            ("/a/b", "0.0.0.0:7", None, "loopback"),
            ("/a/b", "192.0.2.1:7", None, "loopback"),
            ("/a/b", "localhost:7", None, "IP:PORT"),
            ("/a/b", "-", Some("/t"), "local_tcp"),
            ("", "127.0.0.1:7", None, "no local interface"),
        ] {
            let error = resolve(path, tcp, token).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
