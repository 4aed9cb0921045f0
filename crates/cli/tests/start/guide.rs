//! Transcripts of a page: blocks ```` ```console MACHINE ````, in which a line after `$ ` is a command and others are what it prints. A block
//! that begins without a command goes on with what the last one of its machine prints; `^C` interrupts it.

use std::fs;

/// A block of a transcript, or its continuation.
#[derive(Debug)]
pub(crate) struct Block {
    /// Machine on which it happens.
    pub(crate) machine: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    Command(String),
    /// A line that the last command prints; `…` stands for anything within it, and alone for any number of lines.
    Printed(String),
    /// Ctrl-C.
    Interrupt,
}

/// The blocks of a page below `docs/`, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    parse(&fs::read_to_string(path).unwrap())
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for part in text.split("```console ").skip(1) {
        let (machine, rest) = part.split_once('\n').unwrap();
        let body = rest.split("```").next().unwrap();
        let step = |line: &str| match (line.strip_prefix("$ "), line) {
            (Some(command), _) => Step::Command(command.to_owned()),
            (None, "^C") => Step::Interrupt,
            (None, line) => Step::Printed(line.to_owned()),
        };
        blocks.push(Block {
            machine: machine.trim().to_owned(),
            steps: body.lines().map(step).collect(),
        });
    }
    blocks
}

/// Names in a text, and what each is called this time.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<(String, Option<String>)>);

impl Names {
    /// Names of the text whose meaning the first line with them shows.
    pub(crate) fn to_learn(names: &[&str]) -> Self {
        Self(names.iter().map(|&name| (name.to_owned(), None)).collect())
    }

    /// A line of the text as it is this time.
    pub(crate) fn translated(&self, line: &str) -> String {
        let known = self
            .0
            .iter()
            .filter_map(|(name, now)| Some((name, now.as_ref()?)));
        known.fold(line.to_owned(), |line, (name, now)| line.replace(name, now))
    }

    /// True if a printed line is what the text has; learns a name from it.
    pub(crate) fn match_line(&mut self, expected: &str, printed: &str) -> bool {
        let mut unknown = self.0.iter_mut().filter(|(_, now)| now.is_none());
        if let Some((name, now)) = unknown.find(|(name, _)| expected.contains(name.as_str())) {
            let (before, after) = expected.split_once(name.as_str()).unwrap();
            let word = printed
                .strip_prefix(before)
                .and_then(|rest| rest.strip_suffix(after))
                .filter(|word| !word.is_empty() && !word.contains(' '));
            *now = word.map(str::to_owned);
            return now.is_some();
        }
        fits(&self.translated(expected), printed)
    }
}

/// True if `printed` has the parts of `expected` between its dots of omission, in their order.
fn fits(expected: &str, printed: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn a_page_is_read_and_lines_are_compared() {
    let text = "A\n```console studio\n$ one two\nx\n^C\n```\nB\n```console field\ny …\n```\n```toml\nz\n```\n";
    let blocks = parse(text);
    assert_eq!(blocks.len(), 2);
    assert_eq!(
        blocks[0].steps,
        [
            Step::Command("one two".to_owned()),
            Step::Printed("x".to_owned()),
            Step::Interrupt
        ]
    );
    assert!(fits("a … b … c", "a 1 b 2 c") && fits("…", "") && fits("a…", "ab"));
    assert!(!fits("a … b", "a b c") && !fits("a", "ab") && !fits("a…a", "a"));
    let mut names = Names::to_learn(&["red-fox"]);
    assert!(!names.match_line("run red-fox now", "run two words now"));
    assert!(names.match_line("run red-fox now", "run blue-dog now"));
    assert!(names.match_line("use red-fox", "use blue-dog"));
    assert!(!names.match_line("use red-fox", "use red-fox"));
}
