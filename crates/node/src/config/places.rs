//! Usual places of a node's files: one node for each user, and that of the machine, which root runs.

use std::path::{Path, PathBuf};

/// Environment variable that names one folder for the configuration, the key, the sockets and the state of a node.
pub const HOME_VARIABLE: &str = "ANABRANCH_HOME";
/// Control socket of the node of the machine, that of `anabranch.service`.
pub const SERVICE_CONTROL: &str = "/run/anabranch/anabranch.sock";
/// Local interface of the node of the machine.
pub const SERVICE_LOCAL: &str = "/run/anabranch/anabranch-local.sock";
/// Configuration of the node of the machine.
const SERVICE_CONFIG: &str = "/etc/anabranch/node.toml";

/// The folder that [`HOME_VARIABLE`] names. `variable` looks up an environment variable.
pub(crate) fn home(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = variable(HOME_VARIABLE).filter(|value| !value.is_empty());
    named.map(PathBuf::from)
}

/// Name of this host, as far as it can be the name of a peer.
pub fn host_name() -> Option<String> {
    super::edit::peer_name(&crate::codes::machine_name()?)
}

/// True for the user whose node is that of the machine.
fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    return false;
}

/// Usual places of a node's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The configuration.
    pub config: PathBuf,
    /// Folder for received files where the user has no `Downloads`.
    pub receive: PathBuf,
    /// Variables that stand in for those of the environment, so that the defaults of the configuration lead here.
    instead: Vec<(&'static str, String)>,
}

impl Places {
    /// Places of the node of the user who runs this process; see [`Self::of_user`].
    pub fn usual() -> Option<Self> {
        Self::of_user(|name| std::env::var(name).ok(), is_root())
    }

    /// Places of the node of this user; `None` if the user has no home. Root runs the node of the machine, whose places are those of
    /// `anabranch.service`, unless [`HOME_VARIABLE`] or `XDG_CONFIG_HOME` is set. `variable` looks up an environment variable.
    pub fn of_user(variable: impl Fn(&str) -> Option<String>, is_root: bool) -> Option<Self> {
        if let Some(home) = home(&variable) {
            return Some(Self::below(&home));
        }
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let config = get("XDG_CONFIG_HOME").map(PathBuf::from);
        if is_root && config.is_none() {
            let state = || "/var/lib".to_owned();
            let instead = vec![
                ("XDG_CONFIG_HOME", state()),
                ("XDG_STATE_HOME", state()),
                ("XDG_RUNTIME_DIR", "/run/anabranch".to_owned()),
            ];
            return Some(Self {
                config: PathBuf::from(SERVICE_CONFIG),
                receive: PathBuf::from("/var/lib/anabranch/received"),
                instead,
            });
        }
        let user = get("HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(user.as_ref()?.join(".config")))?;
        Some(Self {
            config: config.join("anabranch/node.toml"),
            receive: user?.join("anabranch"),
            instead: Vec::new(),
        })
    }

    /// Places of a node that has all its files in a folder of its own.
    pub fn below(home: &Path) -> Self {
        Self {
            config: home.join("node.toml"),
            receive: home.join("received"),
            instead: vec![(HOME_VARIABLE, home.display().to_string())],
        }
    }

    /// True if these are places below the home of the user, among other files of theirs.
    pub fn is_of_user(&self) -> bool {
        self.instead.is_empty()
    }

    /// Variable of the environment, or what stands in for it.
    pub fn variable(
        &self,
        name: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Option<String> {
        let mut instead = self.instead.iter();
        let found = instead.find(|(known, _)| *known == name);
        found.map_or_else(|| environment(name), |(_, value)| Some(value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{default_control, default_ledger},
        keys,
    };

    fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + Clone {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let pairs: Vec<(String, String)> = pairs.iter().map(owned).collect();
        move |name| {
            let found = pairs.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        }
    }

    fn all(places: &Places, environment: impl Fn(&str) -> Option<String>) -> [PathBuf; 4] {
        let variable = |name: &str| places.variable(name, &environment);
        [
            places.config.clone(),
            keys::default_path(variable),
            default_control(variable).unwrap(),
            default_ledger(variable),
        ]
    }

    #[test]
    fn every_user_has_a_node_and_root_that_of_the_machine() {
        let ada = environment(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "/run/user/7")]);
        let places = Places::of_user(&ada, false).unwrap();
        let expected = [
            "/home/ada/.config/anabranch/node.toml",
            "/home/ada/.config/anabranch/key",
            "/run/user/7/anabranch.sock",
            "/home/ada/.local/state/anabranch/ledger",
        ];
        assert_eq!(all(&places, &ada), expected.map(PathBuf::from));
        let root = environment(&[("HOME", "/root"), ("XDG_RUNTIME_DIR", "/run/user/0")]);
        let places = Places::of_user(&root, true).unwrap();
        let expected = [
            SERVICE_CONFIG,
            "/var/lib/anabranch/key",
            SERVICE_CONTROL,
            "/var/lib/anabranch/ledger",
        ];
        assert_eq!(all(&places, &root), expected.map(PathBuf::from));
        assert_eq!(Places::of_user(environment(&[]), false), None);
    }

    #[test]
    fn a_folder_of_its_own_has_everything() {
        let set = environment(&[("HOME", "/h"), (HOME_VARIABLE, "/n")]);
        let places = Places::of_user(&set, true).unwrap();
        assert_eq!(places, Places::below(Path::new("/n")));
        let expected = ["/n/node.toml", "/n/key", "/n/anabranch.sock", "/n/ledger"];
        assert_eq!(all(&places, environment(&[])), expected.map(PathBuf::from));
        assert_eq!(all(&places, &set), expected.map(PathBuf::from));
    }
}
