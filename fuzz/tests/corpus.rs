//! Replay of every input in `corpus/` through its property.

use std::{collections::BTreeSet, fs, path::Path};

use anabranch_fuzz::{PROPERTIES, corpus};

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

#[test]
fn every_target_is_a_property_and_the_reverse() {
    let files = fs::read_dir(folder("fuzz_targets")).expect("the targets");
    let targets: BTreeSet<String> = files
        .map(|file| file.expect("readable").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    let properties: BTreeSet<String> = PROPERTIES
        .iter()
        .map(|&(name, _)| name.to_owned())
        .collect();
    assert_eq!(targets, properties);
}

#[test]
fn kept_inputs_hold() {
    for &(name, property) in PROPERTIES {
        let Ok(text) = fs::read_to_string(folder("corpus").join(format!("{name}.hex"))) else {
            continue;
        };
        let inputs = corpus::read(&text).unwrap_or_else(|line| panic!("{name}.hex: line {line}"));
        for (line, input) in (1..).zip(inputs) {
            let result = std::panic::catch_unwind(|| property(&input));
            assert!(result.is_ok(), "{name}.hex: line {line}");
        }
    }
}
