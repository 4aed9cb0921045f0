//! `status`, `paths`, `streams` and `overlay` of a running node: narrow, with all columns, and with `--watch`.

use std::{path::Path, process::Stdio};

use crate::{
    harness::{Running, Terminated, command, free_port, limited, private_folder, signal},
    numbered::{id, start},
    stream::accept,
};

/// Most characters of a line of a table.
const COLUMNS_MAX: usize = 100;
/// Two columns cannot show it in a line of their own.
const FAR: &str = "far-node-with-a-name-of-many-more-characters-than-a-column-of-a-table-has";
/// Of the stream that is open.
const LABEL: &str = "log/a-label-of-many-more-characters-than-a-column-of-a-table-should-have";

/// Two members of an overlay with a stream from the first to the second.
struct Setting {
    folder: tempfile::TempDir,
    _opened: Running,
    _accepting: Terminated,
    _nodes: [Running; 2],
}

impl Setting {
    fn start() -> Self {
        let folder = private_folder();
        let at = folder.path();
        let [near, far] = [free_port(), free_port()];
        let member = |name: &str, node: u8, address| {
            format!(
                "[overlay]\n[[overlay.member]]\nname = \"{name}\"\nnode = \"{}\"\naddresses = [\"{address}\"]\n\
                 may = [\"call\", {{ right = \"use-service\", services = [\"log/*\"] }}]\n",
                id(node)
            )
        };
        let nodes = [
            start(at, 2, &[far], &member("near", 1, near)),
            start(at, 1, &[near], &member(FAR, 2, far)),
        ];
        let accepting = accept(at, &[LABEL]);
        let arguments = ["stream", "open", FAR, LABEL, "--local", "1.local"];
        let mut opening = command(at);
        let opened = Running::start(opening.args(arguments).stdin(Stdio::piped()));
        let setting = Self {
            folder,
            _opened: opened,
            _accepting: accepting,
            _nodes: nodes,
        };
        while !setting.shown(&["streams"]).contains("PEER") {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        while !setting.shown(&["overlay"]).contains("alive") {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        setting
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    /// Output of a command that succeeds.
    #[track_caller]
    fn shown(&self, arguments: &[&str]) -> String {
        let mut showing = limited(self.at(), 60);
        let output = showing.args(arguments).args(["--control", "1.sock"]);
        let output = output.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The columns of the table whose first one has this heading.
#[track_caller]
fn columns(text: &str, first: &str) -> Vec<String> {
    let heading = text.lines().find(|line| line.starts_with(first));
    let heading = heading.unwrap_or_else(|| panic!("no table of {first} in\n{text}"));
    let heads = heading.split("  ").map(|head| head.trim().to_owned());
    heads.filter(|head| !head.is_empty()).collect()
}

#[test]
fn tables_are_narrow_unless_all_columns_are_asked_for() {
    let setting = Setting::start();
    for (subject, first) in [
        ("status", "PEER"),
        ("paths", "PEER"),
        ("streams", "PEER"),
        ("overlay", "MEMBER"),
    ] {
        let narrow = setting.shown(&[subject]);
        for line in narrow.lines() {
            assert!(line.chars().count() <= COLUMNS_MAX, "{line}");
        }
        // The table of members has room for all of it.
        assert!(narrow.contains("far-"), "{narrow}");
        assert!(subject == "overlay" || !narrow.contains(FAR), "{narrow}");
        let wide = setting.shown(&[subject, "--wide"]);
        assert!(wide.contains(FAR), "{wide}");
        let (few, all) = (columns(&narrow, first), columns(&wide, first));
        assert!(all.len() > few.len(), "{narrow}{wide}");
        assert_eq!(all[..few.len()], few, "{subject}");
    }
    let wide = setting.shown(&["streams", "--wide"]);
    assert!(wide.contains(LABEL), "{wide}");
}

#[test]
fn what_is_watched_is_shown_again_until_a_signal() {
    let setting = Setting::start();
    let cases = [
        ("status", "node ", "INT"),
        ("paths", "PEER ", "TERM"),
        ("streams", "PEER ", "INT"),
        ("overlay", "members", "TERM"),
    ];
    for (subject, first, name) in cases {
        let arguments = [subject, "--watch", "--control", "1.sock"];
        let mut watching = Running::start(command(setting.at()).args(arguments));
        let mut seen = 0;
        let mut before = "no line";
        while seen < 3 {
            let line = watching.line();
            // Between two of them there is an empty line.
            if line.starts_with(first) {
                assert_eq!(before, if seen == 0 { "no line" } else { "" }, "{subject}");
                seen += 1;
            }
            before = if line.is_empty() { "" } else { "a line" };
        }
        assert_eq!(watching.end_by(name), Some(0), "{subject}");
    }
    let arguments = ["paths", "--watch", "--json", "--control", "1.sock"];
    let mut watching = Running::start(command(setting.at()).args(arguments));
    for _ in 0..2 {
        let answer: serde_json::Value = serde_json::from_str(&watching.line()).unwrap();
        assert_eq!(answer["rows"][0]["peer"], id(2), "{answer}");
    }
    assert_eq!(watching.end_by("TERM"), Some(0));
}

/// On a terminal each look takes the place of the one before.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_the_table_is_drawn_anew() {
    let setting = Setting::start();
    let arguments = ["status", "--watch", "--control", "1.sock"];
    let terminal = crate::terminal::Terminal::start(setting.at(), &arguments);
    let running_for = |text: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.starts_with("running for"));
        line.map(str::to_owned)
    };
    terminal.wait("the age of the node", |text| running_for(text).is_some());
    let first = running_for(&terminal.text());
    terminal.wait("another age of it", |text| {
        running_for(text).is_some_and(|line| Some(line) != first)
    });
    assert_eq!(
        terminal.text().matches("running for").count(),
        1,
        "{}",
        terminal.text()
    );
    signal(terminal.id(), "INT");
    assert_eq!(terminal.ended(), Some(0));
}
