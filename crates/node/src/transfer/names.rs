//! Names that a peer may choose for what it sends.

use anabranch_base::text;

use super::{error::TransferError, keyed::FOLDER_PREFIX};

/// Limit on the bytes of one part of a path, as in file systems.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Limit on the bytes of a whole path, as in system calls.
pub(super) const PATH_BYTES_MAX: usize = 4096;
/// Limit on the parts of a path.
pub(super) const DEPTH_MAX: usize = 64;

/// Checks every part of a path that a peer offers, parts joined by `/`.
///
/// # Errors
/// A part could lead elsewhere, is reserved, or would be interpreted by a terminal.
pub(super) fn check_path(path: &str) -> Result<(), TransferError> {
    match path_fault(path) {
        None => Ok(()),
        Some(reason) => Err(TransferError::Path {
            path: text::printable(path, NAME_BYTES_MAX),
            reason,
        }),
    }
}

/// Fault for which a path, parts joined by `/`, is refused; `None`: it is accepted.
pub(crate) fn path_fault(path: &str) -> Option<&'static str> {
    if path.len() > PATH_BYTES_MAX {
        return Some("it is longer than 4096 bytes");
    }
    let mut depth = 0;
    for part in path.split('/') {
        depth += 1;
        if depth > DEPTH_MAX {
            return Some("it is deeper than 64 folders");
        }
        let here = || windows_fault(part).filter(|_| cfg!(windows));
        if let Some(reason) = fault(part).or_else(here) {
            return Some(reason);
        }
    }
    None
}

/// Fault for which a symbolic link at `path` is refused; `None`: it leads to something in the same transfer, whatever other accepted
/// links its target passes through.
///
/// The target goes up first, not beyond the transfer's own directory, and only down then: each link on the way down does the same from
/// the real directory that it is in, so none leads out.
pub(super) fn link_fault(path: &str, target: &str) -> Option<&'static str> {
    if target.is_empty() {
        return Some("its target is empty");
    }
    if target.len() >= PATH_BYTES_MAX {
        return Some("its target is longer than 4095 bytes");
    }
    if target.starts_with('/') {
        return Some("its target is an absolute path");
    }
    // The last part of the path is the link, the first the transfer's directory.
    let mut up = path.split('/').count().saturating_sub(2);
    let mut goes_down = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if goes_down => return Some("its target goes up after it went down"),
            ".." => match up.checked_sub(1) {
                Some(left) => up = left,
                None => return Some("its target lies outside of what is sent"),
            },
            name => {
                goes_down = true;
                if let Some(reason) = fault(name) {
                    return Some(reason);
                }
            }
        }
    }
    None
}

/// Fault for which a name is refused; `None`: it is accepted.
fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("a part is empty")
    } else if name == "." || name == ".." {
        Some("it leads out of the directory")
    } else if name.contains(['\\', '\0']) {
        Some("a part contains a separator")
    } else if name.len() > NAME_BYTES_MAX {
        Some("a part is longer than 255 bytes")
    } else if is_reserved(name) {
        Some("a part begins with '.anabranch-', which is reserved for transfers under way")
    } else if name.chars().any(text::is_obeyed) {
        Some("a part contains control characters or direction marks")
    } else {
        None
    }
}

/// Fault for which Windows cannot store a name, or would store it elsewhere: it would be a device, a stream of another file, or another
/// name; `None`: it can.
pub(super) fn windows_fault(name: &str) -> Option<&'static str> {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    if name.contains(['<', '>', ':', '"', '|', '?', '*']) {
        return Some("Windows allows none of < > : \" | ? * in a name");
    }
    if name.ends_with(['.', ' ']) {
        return Some("Windows allows no name that ends with a dot or a space");
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    let stem = stem.to_lowercase();
    let mut rest = stem.chars().skip(3);
    let is_port = (stem.starts_with("com") || stem.starts_with("lpt"))
        && rest
            .next()
            .is_some_and(|c| c.is_ascii_digit() || "¹²³".contains(c))
        && rest.next().is_none();
    match is_port || DEVICES.contains(&&*stem) {
        true => Some("it is the name of a device on Windows"),
        false => None,
    }
}

/// True if a file system could treat the name as that of a folder in which a transfer waits. Some fold case, and some leave out
/// invisible characters.
pub(super) fn is_reserved(name: &str) -> bool {
    let seen = name.chars().filter(|&c| {
        !text::is_obeyed(c) && !matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
    });
    let folded: String = seen
        .flat_map(char::to_lowercase)
        .take(FOLDER_PREFIX.len())
        .collect();
    folded == FOLDER_PREFIX
}

/// True if listings leave the name out and programs read it unasked, such as `.bashrc`.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_would_take_for_something_else_are_told() {
        for bad in [
            "C:", "a:b", "x.", "x ", "CON", "con.txt", "Aux .c", "com1", "LPT9.log", "com¹", "a?",
            "nul",
        ] {
            assert!(windows_fault(bad).is_some(), "{bad}");
        }
        for good in [
            "console",
            "com",
            "com10",
            "a.b",
            ".rc",
            "lpt",
            "comx",
            "auxiliary.c",
        ] {
            assert!(windows_fault(good).is_none(), "{good}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in [
            "a",
            "a/b",
            "größe 文字",
            ".git/config",
            "a/..b",
            "a b",
            ".anabranch",
        ] {
            assert!(check_path(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            "..",
            ".",
            "/etc/passwd",
            "a//b",
            "a/",
            "a/../b",
            "..\\x",
            "nul\0",
            "a\nb",
            "a\x1b[2J",
            "cod\u{202e}gpj.exe",
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
        assert!(check_path(&"n".repeat(256)).is_err());
        assert!(check_path(&vec!["d"; 65].join("/")).is_err());
        assert!(check_path(&vec!["d".repeat(100); 60].join("/")).is_err());
    }

    #[test]
    fn reserved_names_are_refused_at_every_depth_and_in_every_case() {
        for bad in [
            ".anabranch-zzz",
            ".anabranch-",
            ".AnaBranch-x",
            ".anab\u{200d}ranch-x",
            ".\u{feff}anabranch-x",
        ] {
            assert!(is_reserved(bad), "{bad:?}");
            for path in [
                bad.to_owned(),
                format!("d/{bad}"),
                format!("d/{bad}/ticket"),
            ] {
                let error = check_path(&path).unwrap_err().to_string();
                assert!(error.contains("reserved"), "{error}");
            }
        }
        for good in [".anabranch", "anabranch-x", "..anabranch-", "x.anabranch-"] {
            assert!(!is_reserved(good), "{good:?}");
        }
    }

    #[test]
    fn links_that_lead_out_are_refused() {
        for (path, good) in [
            ("d/l", "a"),
            ("d/l", "./a/b/"),
            ("d/a/l", ".."),
            ("d/a/b/l", "../../x/y"),
            ("d/a/l", "../..a"),
            ("d/l", "."),
        ] {
            assert_eq!(link_fault(path, good), None, "{path} {good}");
        }
        for (path, bad) in [
            ("d/l", ""),
            ("d/l", "/etc/passwd"),
            ("d/l", ".."),
            ("d/l", "../x"),
            ("d/a/l", "../../x"),
            ("d/a/l", "x/.."),
            ("d/l", "a/../../x"),
            ("l", "x/../.."),
            ("d/l", ".anabranch-x/note"),
            ("d/l", "a\u{1b}[2J"),
        ] {
            assert!(link_fault(path, bad).is_some(), "{path} {bad}");
        }
        assert!(link_fault("d/l", &"a/".repeat(3000)).is_some());
    }

    #[test]
    fn a_refusal_can_be_shown() {
        let error = check_path("a\x1b[2J").unwrap_err().to_string();
        assert!(!error.chars().any(text::is_obeyed), "{error:?}");
    }
}
