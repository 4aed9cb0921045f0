//! Path of a request: an export, and a place beneath it.

use super::message::Fault;
use crate::transfer::names::path_fault;

/// A path that a peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked<'p> {
    /// The list of exports.
    All,
    /// A place in an export.
    In {
        /// Name of the export.
        export: &'p str,
        /// Place beneath its directory; empty: the directory itself.
        beneath: &'p str,
    },
}

/// Reads a path: empty, or parts that are joined by `/`, each 1 to 255 bytes, without `.` and `..`, control characters and `\`; at most
/// 64 parts and 4,096 bytes.
pub(super) fn read(path: &str) -> Result<Asked<'_>, Fault> {
    if path.is_empty() {
        return Ok(Asked::All);
    }
    if path_fault(path).is_some() {
        return Err(Fault::Invalid);
    }
    let (export, beneath) = path.split_once('/').unwrap_or((path, ""));
    Ok(Asked::In { export, beneath })
}

/// True if an export has entries of this name.
pub(super) fn is_shown(name: &str, shows_hidden: bool) -> bool {
    path_fault(name).is_none() && !name.contains('/') && (shows_hidden || !name.starts_with('.'))
}

/// True if a part of the path begins with a dot.
pub(super) fn has_hidden(beneath: &str) -> bool {
    beneath.split('/').any(|part| part.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_an_export_and_a_place_beneath_it() {
        assert_eq!(read(""), Ok(Asked::All));
        for (path, export, beneath) in [
            ("data", "data", ""),
            ("data/a", "data", "a"),
            ("data/a/b c", "data", "a/b c"),
        ] {
            assert_eq!(read(path), Ok(Asked::In { export, beneath }), "{path}");
        }
        let deep = vec!["d"; 65].join("/");
        let long = "x".repeat(256);
        for path in [
            "/",
            "/data",
            "data/",
            "data//a",
            "data/../a",
            "..",
            "data/.",
            "data/a\\b",
            "data/\n",
            "data/a\0",
            &deep,
            &long,
        ] {
            assert_eq!(read(path), Err(Fault::Invalid), "{path:?}");
        }
    }

    #[test]
    fn names_with_a_dot_are_shown_on_request_and_those_of_transfers_never() {
        for (name, usual, hidden) in [
            ("a", true, true),
            ("a.b", true, true),
            (".a", false, true),
            (".anabranch-x", false, false),
            ("a\nb", false, false),
        ] {
            assert_eq!(is_shown(name, false), usual, "{name:?}");
            assert_eq!(is_shown(name, true), hidden, "{name:?}");
        }
        assert!(has_hidden("a/.b/c") && has_hidden(".a") && !has_hidden("a/b.c"));
    }
}
