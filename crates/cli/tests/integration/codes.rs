//! Transfers by codes, on loopback: the announcements stay on it, too.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStdout, Command, Output},
};

use crate::harness::{Killed, limited, signal};

fn anabranch(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = limited(folder, 120);
    command.args(arguments).args(["--bind", "127.0.0.1:0"]);
    // Root has the files of its node elsewhere.
    command.env("XDG_CONFIG_HOME", folder.join(".config"));
    command
}

/// A command that shows a code.
pub(crate) struct Issuer {
    child: Killed,
    out: BufReader<ChildStdout>,
    pub(crate) code: String,
}

impl Issuer {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::of(&mut anabranch(folder, arguments))
    }

    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let mut issuer = Self {
            child: Killed(child),
            out: BufReader::new(out),
            code: String::new(),
        };
        while issuer.code.is_empty() {
            let mut line = String::new();
            let bytes = issuer.out.read_line(&mut line).unwrap();
            assert!(bytes > 0, "it ended without a code");
            let words = line.split_whitespace();
            let mut codes = words.filter(|word| word.matches('-').count() == 2);
            issuer.code = codes.next().unwrap_or_default().to_owned();
        }
        issuer
    }

    /// Another code with the same first word.
    fn wrong(&self) -> String {
        let (place, _) = self.code.split_once('-').unwrap();
        let wrong = format!("{place}-zebra-zone");
        match wrong == self.code {
            true => format!("{place}-zebra-zoo"),
            false => wrong,
        }
    }

    /// Its exit code, and what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let child: &mut Child = &mut self.child.0;
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        (child.wait().unwrap().code(), text)
    }
}

pub(crate) fn seen(output: &Output) -> String {
    let texts = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy);
    texts.concat()
}

pub(crate) fn film(folder: &Path) -> Vec<u8> {
    let content: Vec<u8> = (0..1_000_000u32).map(|n| (n * 31 + n / 7) as u8).collect();
    fs::write(folder.join("film"), &content).unwrap();
    content
}

#[test]
fn a_sender_shows_a_code_and_the_receiver_enters_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content = film(folder);
    let issuer = Issuer::start(folder, &["send", "film", "--key", "a.key"]);
    let spoken = issuer.code.replace('-', " ").to_uppercase();
    let arguments = ["recv", &spoken, "in", "--key", "b.key"];
    let received = anabranch(folder, &arguments).output().unwrap();
    assert!(received.status.success(), "{}", seen(&received));
    // Who sends, and what, before it is accepted.
    assert!(
        seen(&received).contains("the sender is "),
        "{}",
        seen(&received)
    );
    assert!(
        seen(&received).contains("with 'film', 1.00 MB"),
        "{}",
        seen(&received)
    );
    let (code, text) = issuer.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("sending to "), "{text}");
    assert_eq!(fs::read(folder.join("in/film")).unwrap(), content);
}

#[test]
fn a_receiver_shows_a_code_and_the_sender_enters_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let content = film(folder);
    let issuer = Issuer::start(folder, &["recv", "in", "--code", "--key", "b.key"]);
    let arguments = ["send", "film", &issuer.code, "--key", "a.key"];
    let sent = anabranch(folder, &arguments).output().unwrap();
    assert!(sent.status.success(), "{}", seen(&sent));
    let (code, text) = issuer.end();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read(folder.join("in/film")).unwrap(), content);
}

#[test]
fn after_three_wrong_codes_the_right_one_is_of_no_use() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    film(folder);
    let issuer = Issuer::start(folder, &["send", "film", "--key", "a.key"]);
    let wrong = issuer.wrong();
    for words in ["the code is wrong", "the code is wrong", "three times"] {
        let arguments = ["recv", &wrong, "in", "--key", "b.key"];
        let refused = anabranch(folder, &arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(4), "{}", seen(&refused));
        assert!(seen(&refused).contains(words), "{}", seen(&refused));
    }
    let (code, text) = issuer.end();
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("tries left: 1"), "{text}");
    assert!(
        text.contains("somebody may have tried to guess it"),
        "{text}"
    );
    assert!(!folder.join("in/film").exists());
}

#[test]
fn one_wrong_code_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    film(folder);
    let issuer = Issuer::start(folder, &["send", "film", "--key", "a.key"]);
    let wrong = issuer.wrong();
    let of = |code: &str| anabranch(folder, &["recv", code, "in", "--key", "b.key"]).output();
    assert_eq!(of(&wrong).unwrap().status.code(), Some(4));
    assert!(of(&issuer.code).unwrap().status.success());
    assert_eq!(issuer.end().0, Some(0));
    assert!(folder.join("in/film").exists());
}

#[test]
fn an_issuer_that_is_interrupted_ends_as_other_commands_do() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    film(folder);
    let issuer = Issuer::start(folder, &["send", "film", "--key", "a.key"]);
    signal(issuer.child.0.id(), "INT");
    assert_eq!(issuer.end().0, Some(130));
}

#[test]
fn mistakes_in_codes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    film(folder);
    let cases: [(&[&str], &str); 4] = [
        (
            &["recv", "river-lamp-orbitt"],
            "did the other side say 'orbit'?",
        ),
        (
            &["send", "film", "rivver lamp orbit"],
            "did the other side say 'river'?",
        ),
        (&["recv", "river-lamp-orbit", "--code"], "leave out --code"),
        (&["recv", "one", "two"], "one directory"),
    ];
    for (arguments, words) in cases {
        let output = anabranch(folder, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", seen(&output));
        assert!(seen(&output).contains(words), "{}", seen(&output));
    }
}

/// Writes the configuration that `anabranch up` makes.
fn configure(folder: &Path, text: &str) {
    let place = folder.join(".config/anabranch");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("node.toml"), text).unwrap();
}

#[test]
fn a_relay_of_the_configuration_is_used_unless_another_or_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    film(folder);
    // Nothing listens there.
    let relay = format!("{}@127.0.0.1:9", "a".repeat(52));
    configure(folder, &format!("currency = 'odd'\nvia = '{relay}'\n"));
    let words = "the code is good on the local network only";
    let variable = |command: &mut Command| {
        let other = format!("{}a@127.0.0.1:10", "b".repeat(51));
        command.env("ANABRANCH_VIA", other);
    };
    for (flags, has_variable, expected) in [
        (&["--via", ""][..], false, None),
        (&[], false, Some("aaaa")),
        (&[], true, Some("bbbb")),
        (&["--via", ""], true, None),
    ] {
        let mut send = anabranch(folder, &["send", "film", "--key", "a.key"]);
        send.args(flags);
        if has_variable {
            variable(&mut send);
        }
        let issuer = Issuer::of(&mut send);
        let arguments = ["recv", &issuer.code, "in", "--overwrite", "--key", "b.key"];
        let mut receive = anabranch(folder, &arguments);
        let received = receive.args(["--via", ""]).output().unwrap();
        assert!(received.status.success(), "{}", seen(&received));
        let (code, text) = issuer.end();
        assert_eq!(code, Some(0), "{text}");
        match expected {
            Some(id) => assert!(text.contains(words) && text.contains(id), "{text}"),
            None => assert!(!text.contains(words), "{text}"),
        }
    }
}

#[test]
fn a_configuration_with_a_fault_is_named_and_can_be_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (text, words) in [
        (
            "# Mine.\nvia = 'studio'\n",
            "line 2: via = \"studio\": write ID@HOST:PORT",
        ),
        ("via = \n", "line 1"),
        ("viaa = 'x'\n", "'via'"),
    ] {
        configure(folder, text);
        let output = anabranch(folder, &["recv", "river-lamp-orbit"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", seen(&output));
        for part in [words, "node.toml", "--via ''"] {
            assert!(seen(&output).contains(part), "{part}: {}", seen(&output));
        }
    }
}
