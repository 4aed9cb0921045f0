//! `anabranch recv` in a terminal, where it asks before it accepts.

use std::{fs, path::Path};

use crate::{
    codes::{Issuer, film},
    harness::keygen,
    terminal::Terminal,
};

/// A sender that shows a code, with the key of [`keygen`]; the file takes four seconds.
fn sender(folder: &Path) -> Issuer {
    let flags = ["--key", "mine.key", "--via", "", "--limit", "2 Mbit/s"];
    Issuer::start(folder, &[&["send", "film"], &flags[..]].concat())
}

fn receiver(folder: &Path, code: &str, flags: &[&str]) -> Terminal {
    let own = ["--key", "b.key", "--via", "", "--bind", "127.0.0.1:0"];
    Terminal::start(folder, &[&["recv", code, "in"], &own[..], flags].concat())
}

#[test]
fn on_a_terminal_an_offer_is_taken_only_if_the_user_consents() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content = film(folder);
    let id = keygen(folder);
    for key in ["n\n", "y\n"] {
        let sender = sender(folder);
        let mut terminal = receiver(folder, &sender.code, &[]);
        terminal.wait_for("Accept it? [Y/n]");
        let text = terminal.text();
        let words = format!("node {} offers the file 'film' (1.00 MB), for ", &id[..10]);
        assert!(
            text.contains(&words) && text.contains("the sender is "),
            "{text}"
        );
        // Nothing has the name before the answer.
        assert!(!folder.join("in/film").exists());
        terminal.press(key);
        if key == "n\n" {
            terminal.wait_for("the transfer was declined");
            assert_eq!(terminal.ended(), Some(1));
            let (code, text) = sender.end();
            assert_eq!(code, Some(4), "{text}");
            assert!(text.contains("the receiver refused"), "{text}");
            assert_eq!(fs::read_dir(folder.join("in")).unwrap().count(), 0);
            continue;
        }
        // The bar of the transfer fills its line, and below it is that of the path.
        terminal.wait("a bar with its path", |text| {
            ["film █", "kB/1.00 MB", " eta ", "lo → 127.0.0.1:"]
                .iter()
                .all(|part| text.contains(part))
        });
        terminal.wait_for("received in/film (1 file, 1.00 MB, BLAKE3");
        assert_eq!(terminal.ended(), Some(0));
        let (code, text) = sender.end();
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(fs::read(folder.join("in/film")).unwrap(), content);
    }
}

#[test]
fn with_yes_nothing_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content = film(folder);
    keygen(folder);
    let sender = sender(folder);
    let terminal = receiver(folder, &sender.code, &["--yes"]);
    terminal.wait_for("received in/film (1 file");
    let text = terminal.text();
    assert!(
        text.contains("offers the file 'film' (1.00 MB)") && !text.contains("Accept it?"),
        "{text}"
    );
    assert_eq!(terminal.ended(), Some(0));
    assert_eq!(sender.end().0, Some(0));
    assert_eq!(fs::read(folder.join("in/film")).unwrap(), content);
}
