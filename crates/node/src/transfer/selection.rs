//! Choice of what is sent, and list of what is left out of it.

use std::path::{Path, PathBuf};

use super::exclude::Exclude;

/// Limit on the paths that are named in a [`LeftOut`].
const NAMED_MAX: usize = 1_000;

/// A file or directory to send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Selection {
    /// Its path.
    pub path: PathBuf,
    /// Its name at the receiver; `None`: the last part of the path.
    pub name: Option<String>,
    /// Paths in it that are not sent.
    pub exclude: Exclude,
}

impl Selection {
    /// Everything at `path`, under its own name.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// The same, with another name at the receiver.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same, without some paths.
    #[must_use]
    pub fn without(mut self, exclude: Exclude) -> Self {
        self.exclude = exclude;
        self
    }
}

impl From<&Path> for Selection {
    fn from(path: &Path) -> Self {
        Self::new(path)
    }
}

impl From<PathBuf> for Selection {
    fn from(path: PathBuf) -> Self {
        Self::new(path)
    }
}

/// Something that was not transferred, or not entirely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its path, beginning with the name of the transfer. A name that is not UTF-8 has replacement characters.
    pub path: String,
    /// The reason.
    pub reason: &'static str,
}

/// All that was not transferred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Number of paths.
    pub count: u64,
    /// The first 1,000 of them.
    pub named: Vec<Left>,
}

impl LeftOut {
    /// Adds all of another list.
    pub(super) fn join(&mut self, other: Self) {
        self.count += other.count;
        let space = NAMED_MAX - self.named.len();
        self.named.extend(other.named.into_iter().take(space));
    }

    pub(super) fn add(&mut self, path: impl Into<String>, reason: &'static str) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            let path = path.into();
            self.named.push(Left { path, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_some_named() {
        let mut left_out = LeftOut::default();
        for n in 0..2_000 {
            left_out.add(n.to_string(), "a device");
        }
        assert_eq!((left_out.count, left_out.named.len()), (2_000, NAMED_MAX));
    }
}
