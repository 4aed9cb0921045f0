use std::os::unix::fs::symlink;

use rustix::fs::{RenameFlags, renameat_with};

use super::*;

/// An exported directory beside a file that must not be read.
struct Stand {
    _folder: tempfile::TempDir,
    root: std::path::PathBuf,
    outside: std::path::PathBuf,
}

fn stand() -> Stand {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "secret").unwrap();
    fs::write(root.join("file"), "0123456789").unwrap();
    fs::write(root.join("sub/file"), "below").unwrap();
    Stand {
        _folder: folder,
        root,
        outside,
    }
}

fn range(offset: u64, bytes: u32) -> Range {
    Range {
        offset,
        bytes,
        version: None,
    }
}

fn text(root: &Path, beneath: &str, range: Range) -> Result<String, Fault> {
    let read = read(root, beneath, range, 0)?;
    Ok(String::from_utf8(read.message).unwrap())
}

#[test]
fn ranges_end_with_the_file() {
    let Stand { root, .. } = &stand();
    for (offset, bytes, expected) in [
        (0, 4, "0123"),
        (7, 4, "789"),
        (10, 4, ""),
        (u64::MAX, 4, ""),
        (3, 0, ""),
    ] {
        assert_eq!(text(root, "file", range(offset, bytes)).unwrap(), expected);
    }
    assert_eq!(text(root, "sub/file", range(0, 9)).unwrap(), "below");
    let read = read(root, "file", range(8, 4), 3).unwrap();
    assert_eq!(
        (&read.message[..], read.size_bytes),
        (&b"\0\0\x0089"[..], 10)
    );
    assert_eq!(text(root, "sub", range(0, 1)), Err(Fault::IsDirectory));
    assert_eq!(text(root, "", range(0, 1)), Err(Fault::IsDirectory));
    assert_eq!(text(root, "none", range(0, 1)), Err(Fault::NotFound));
    assert_eq!(text(root, "file/x", range(0, 1)), Err(Fault::NotFound));
}

#[test]
fn a_file_that_changed_is_an_error() {
    let Stand { root, .. } = &stand();
    let version = stat(root, "file").unwrap().version;
    let of_version = Range {
        version: Some(version),
        ..range(0, 4)
    };
    assert_eq!(text(root, "file", of_version).unwrap(), "0123");
    fs::write(root.join("new"), "abcdefghij").unwrap();
    let modified = fs::metadata(root.join("file")).unwrap().modified().unwrap();
    let new = File::options().write(true).open(root.join("new")).unwrap();
    new.set_modified(modified).unwrap();
    // The same size and time, but another file.
    fs::rename(root.join("new"), root.join("file")).unwrap();
    assert_eq!(text(root, "file", of_version), Err(Fault::Changed));
    assert_eq!(text(root, "file", range(0, 4)).unwrap(), "abcd");
}

#[test]
fn links_lead_within_the_export_and_not_out_of_it() {
    let Stand { root, outside, .. } = &stand();
    symlink("sub", root.join("in")).unwrap();
    symlink("../sub/file", root.join("sub/round")).unwrap();
    symlink("../outside/file", root.join("out")).unwrap();
    symlink(outside, root.join("absolute")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    for path in ["out", "absolute/file", "loop", "magic/etc/hostname"] {
        assert_eq!(
            text(root, path, range(0, 9)),
            Err(Fault::NotPermitted),
            "{path}"
        );
    }
    assert_eq!(
        text(root, "../outside/file", range(0, 9)),
        Err(Fault::NotPermitted)
    );
    let (entries, has_more) = list(root, "", "", 100, |name| !name.starts_with('.')).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| &entry.name[..]).collect();
    if cfg!(target_os = "linux") {
        assert_eq!(text(root, "in/file", range(0, 9)).unwrap(), "below");
        assert_eq!(text(root, "sub/round", range(0, 9)).unwrap(), "below");
        assert_eq!(names, ["file", "in", "sub"]);
    }
    assert!(!has_more);
    // Where the system resolves no path with a root.
    let opened = open_root(root).unwrap();
    assert!(walk(&opened, "sub/file", READ).is_ok());
    for path in ["out", "in", "in/file", "absolute/file"] {
        assert!(walk(&opened, path, READ).is_err(), "{path}");
    }
}

#[test]
fn pipes_sockets_and_devices_are_neither_opened_nor_listed() {
    let Stand { root, .. } = &stand();
    sys::mkfifoat(sys::CWD, root.join("pipe"), Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    for path in ["pipe", "socket"] {
        assert_eq!(text(root, path, range(0, 1)), Err(Fault::Special), "{path}");
        assert_eq!(stat(root, path), Err(Fault::Special), "{path}");
        let opened = open_root(root).unwrap();
        assert_eq!(walk(&opened, path, READ).err(), Some(Fault::Special));
    }
    assert_eq!(
        text(Path::new("/dev"), "null", range(0, 1)),
        Err(Fault::Special)
    );
    let (entries, _) = list(root, "", "", 100, |name| !name.starts_with('.')).unwrap();
    let names: Vec<_> = entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(names, ["file", "sub"]);
}

#[test]
fn a_list_comes_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..25).map(|number| format!("n{number:02}")).collect();
    for name in &names {
        fs::write(folder.path().join(name), name).unwrap();
    }
    fs::write(folder.path().join(".hidden"), "").unwrap();
    let (mut found, mut after) = (Vec::new(), String::new());
    let mut parts = 0;
    loop {
        let shown = |name: &str| !name.starts_with('.');
        let (entries, has_more) = list(folder.path(), "", &after, 10, shown).unwrap();
        assert!(entries.iter().all(|entry| entry.metadata.size_bytes == 3));
        found.extend(entries.into_iter().map(|entry| entry.name));
        parts += 1;
        if !has_more {
            break;
        }
        after.clone_from(found.last().unwrap());
    }
    assert_eq!((found, parts), (names, 3));
    // A part of which nothing can be read is not the last.
    for number in 0..7 {
        symlink("/none", folder.path().join(format!("l{number}"))).unwrap();
    }
    let (entries, has_more) = list(folder.path(), "", "l", 3, |_| true).unwrap();
    assert_eq!((&entries[0].name[..], entries.len()), ("n00", 2));
    assert!(has_more);
    let file = list(folder.path(), "n00", "", 10, |_| true);
    assert_eq!(file, Err(Fault::NotDirectory));
}

/// A directory is exchanged with a link that leads out, again and again.
#[test]
#[cfg(target_os = "linux")]
fn exchanged_directories_lead_nowhere_else() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let Stand { root, outside, .. } = &stand();
    symlink(outside, root.join("link")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let (one, other) = (root.join("sub"), root.join("link"));
                renameat_with(sys::CWD, one, sys::CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        let mut seen = [0; 2];
        for _ in 0..20_000 {
            match text(root, "sub/file", range(0, 9)) {
                Ok(text) => {
                    assert_eq!(text, "below");
                    seen[0] += 1;
                }
                Err(fault) => {
                    let expected = [Fault::NotPermitted, Fault::Busy, Fault::NotFound];
                    assert!(expected.contains(&fault), "{fault:?}");
                    seen[1] += 1;
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        println!("{} reads, {} refusals", seen[0], seen[1]);
    });
}
