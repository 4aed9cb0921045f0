//! Local interface in the configuration: its socket, and the users who may attach.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{ConfigError, LocalLimits, LocalUser, LocalUserLayer, default_control, missing};

/// Longest path of a Unix socket.
const PATH_BYTES_MAX: usize = 107;

/// The local interface, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalConfig {
    /// Its socket.
    pub path: PathBuf,
    /// Users who may attach, in addition to the one who runs the node and root, and the limits of each.
    pub users: Vec<(LocalUser, LocalLimits)>,
    /// Bytes that may wait in the node for all applications together.
    pub memory_bytes: u64,
}

impl LocalConfig {
    /// What a reload does not change.
    pub(crate) fn fixed(&self) -> (&Path, u64) {
        (&self.path, self.memory_bytes)
    }

    pub(super) fn resolve(
        path: Option<PathBuf>,
        users: Option<Vec<LocalUserLayer>>,
        control: &Path,
    ) -> Result<Option<Self>, ConfigError> {
        let users = users.unwrap_or_default().into_iter();
        let users: Vec<_> = users
            .map(LocalUserLayer::resolve)
            .collect::<Result<_, _>>()?;
        let path = match path {
            Some(path) if path.as_os_str().is_empty() => None,
            Some(path) => Some(path),
            None => beside(control),
        };
        match path {
            Some(path) => Ok(Some(Self {
                path,
                users,
                memory_bytes: crate::local::MEMORY_BYTES,
            })),
            None if users.is_empty() => Ok(None),
            None => Err(missing(
                "local_users",
                "there is no local interface to attach to; name its socket with `local`",
            )),
        }
    }
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
            LocalConfig::resolve(path.map(Into::into), None, Path::new(control))
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
            LocalConfig::resolve(Some(path.into()), Some(vec![user.into()]), Path::new("c"))
        };
        let named = |name: &str| LocalUser::Name(name.to_owned());
        assert!(resolve("", LocalUser::Uid(7)).is_err());
        assert!(resolve("l", named("")).is_err());
        assert!(resolve("l", named("ada")).is_ok());
    }
}
