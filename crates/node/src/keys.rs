//! The file with a node's secret key.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anabranch_session::SecretKey;

use crate::whole_file;

/// The key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It cannot be read.
    #[error("cannot read key file {}: {source}; create one with `anabranch keygen --key {}`", path.display(), path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write key file {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file exists already.
    #[error("key file {} exists already; it is the node's identity, so it is not overwritten; remove it or name another file", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Its content is not a key.
    #[error("key file {} contains no key; a key is one line of 52 letters a-z and digits 2-7, created by `anabranch keygen`", path.display())]
    Content {
        /// The file.
        path: PathBuf,
    },
    /// Other users can read it.
    #[error("key file {} can be read by other users (mode {mode:o}); run `chmod 600 {}`", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The operating system provides no random numbers.
    #[error("the operating system gives no random numbers: {0}")]
    Entropy(String),
}

/// A new key from the operating system's generator.
///
/// # Errors
/// The operating system provides no random numbers.
pub fn generate() -> Result<SecretKey, KeyError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| KeyError::Entropy(error.to_string()))?;
    Ok(SecretKey::from_seed(seed))
}

/// Creates a key and writes it to a new file that only the owner can read.
///
/// # Errors
/// The file exists or cannot be written.
pub fn create(path: &Path) -> Result<SecretKey, KeyError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => KeyError::Exists {
            path: path.to_owned(),
        },
        _ => KeyError::Write {
            path: path.to_owned(),
            source,
        },
    };
    let key = generate()?;
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        fs::create_dir_all(parent).map_err(|source| KeyError::Write {
            path: path.to_owned(),
            source,
        })?;
    }
    whole_file::create(path, &format!("{}\n", key.to_text())).map_err(failed)?;
    Ok(key)
}

/// Reads a key file.
///
/// # Errors
/// It is missing, readable by others, or not a key.
pub fn load(path: &Path) -> Result<SecretKey, KeyError> {
    let failed = |source| KeyError::Read {
        path: path.to_owned(),
        source,
    };
    let text = fs::read_to_string(path).map_err(failed)?;
    #[cfg(unix)]
    {
        let metadata = fs::metadata(path).map_err(failed)?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed {
                path: path.to_owned(),
                mode,
            });
        }
    }
    text.parse().map_err(|_| KeyError::Content {
        path: path.to_owned(),
    })
}

/// Reads the key file, or creates it if there is none.
///
/// # Errors
/// As [`load`] and [`create`].
pub fn load_or_create(path: &Path) -> Result<SecretKey, KeyError> {
    match load(path) {
        Err(KeyError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            match create(path) {
                // Another process was quicker.
                Err(KeyError::Exists { .. }) => load(path),
                result => result,
            }
        }
        result => result,
    }
}

/// The user's own folder, as the environment names it.
pub(crate) fn home(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let own = variable("HOME");
    match cfg!(windows) {
        true => own.or_else(|| variable("USERPROFILE")),
        false => own,
    }
}

/// Default location of the key: in `$ANABRANCH_HOME`, or else `$XDG_CONFIG_HOME/anabranch/key`, or `~/.config/anabranch/key`. `variable` looks up an
/// environment variable.
pub fn default_path(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    if let Some(home) = crate::config::home(&variable) {
        return home.join("key");
    }
    let config = variable("XDG_CONFIG_HOME")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    let home = || home(&variable).map(|home| PathBuf::from(home).join(".config"));
    config
        .or_else(home)
        .unwrap_or_default()
        .join("anabranch")
        .join("key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/key");
        let key = create(&path).unwrap();
        assert_eq!(load(&path).unwrap().node_id(), key.node_id());
        assert_eq!(load_or_create(&path).unwrap().node_id(), key.node_id());
        assert!(matches!(create(&path), Err(KeyError::Exists { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        create(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_missing_or_damaged_file_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(load(&path).unwrap_err().to_string().contains("keygen"));
        create(&path).unwrap();
        fs::write(&path, "rubbish").unwrap();
        assert!(matches!(load(&path), Err(KeyError::Content { .. })));
    }

    #[test]
    fn the_default_place_follows_the_environment() {
        let from = |pairs: &'static [(&str, &str)]| {
            default_path(move |name| {
                let pair = pairs.iter().find(|(key, _)| *key == name);
                pair.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(
            from(&[("HOME", "/h")]),
            Path::new("/h/.config/anabranch/key")
        );
        assert_eq!(
            from(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]),
            Path::new("/x/anabranch/key")
        );
    }
}
