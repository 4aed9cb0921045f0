//! Examples of the guide, `docs/hose.md`, and of what it refers to: objectives pass the checks, and the library is described as it is.

use anabranch_hose::{Vocabulary, compile, library::NAMED};

const GUIDE: &str = include_str!("../../../../docs/hose.md");
const SCHEDULING: &str = include_str!("../../../../docs/objectives.md");

/// Contents of the fenced blocks of this kind in the guide.
fn blocks(kind: &str) -> Vec<&'static str> {
    blocks_of(GUIDE, kind)
}

fn blocks_of(page: &'static str, kind: &str) -> Vec<&'static str> {
    let inside = page.split("```").skip(1).step_by(2);
    let of_kind = inside
        .filter_map(|block| block.split_once('\n'))
        .filter(|(head, _)| *head == kind);
    of_kind.map(|(_, body)| body).collect()
}

#[test]
fn objectives_of_the_guide_are_sound() {
    let is_objectives =
        |text: &&&str| text.starts_with("hose 2\n") || text.starts_with("objective {");
    let named = blocks("text drone.hose");
    let texts = [blocks("text"), named, blocks_of(SCHEDULING, "text")].concat();
    let mut count = 0;
    for text in texts.iter().filter(is_objectives) {
        let compiled = compile(text, &mut Vocabulary::default());
        let compiled = compiled.unwrap_or_else(|report| panic!("{text}\n{report}"));
        assert!(
            compiled.warnings.diagnostics().is_empty(),
            "{}",
            compiled.warnings
        );
        count += 1;
    }
    assert!(count >= 6, "{count}");
}

/// Most applications want no more than to be in time.
#[test]
fn the_first_objective_of_the_guide_is_about_being_late() {
    let drone = blocks("text drone.hose")[0];
    let first = drone.split("objective ").nth(1).unwrap();
    assert!(first.contains("late?"), "{first}");
}

#[test]
fn the_library_is_described_as_it_is() {
    for named in &NAMED {
        let row = format!("| `{}` | ", named.usage());
        assert!(GUIDE.contains(&row), "{row}");
    }
    let config = blocks("toml")
        .into_iter()
        .find(|text| text.contains("avoid_metered"))
        .unwrap();
    let names = config
        .split('"')
        .find(|part| part.contains("low_latency"))
        .unwrap();
    assert_eq!(
        compile(names, &mut Vocabulary::default())
            .unwrap()
            .program
            .objectives
            .len(),
        2
    );
    // Each command that has names as an argument.
    let commands = blocks("console").into_iter().flat_map(str::lines);
    let arguments: Vec<&str> = commands
        .filter(|line| {
            NAMED
                .iter()
                .any(|named| line.contains(&format!("'{}(", named.name)))
        })
        .filter_map(|line| line.split('\'').nth(1))
        .collect();
    assert_eq!(arguments.len(), 3, "{arguments:?}");
    for names in arguments {
        assert!(
            compile(names, &mut Vocabulary::default()).is_ok(),
            "{names}"
        );
    }
}

#[test]
fn the_message_of_the_guide_is_the_one_that_is_printed() {
    let text = "low_latncy(voice, 150)";
    let report = compile(text, &mut Vocabulary::default())
        .unwrap_err()
        .render(text);
    let block = blocks("text")
        .into_iter()
        .find(|block| block.contains(text))
        .unwrap();
    assert_eq!(report.trim_end(), block.trim_end());
}
