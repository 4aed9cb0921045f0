//! Manifests that `python -m anabranch.records` writes (`python/tests/test_records.py`) have the parts that it finds in them.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::{fmt::Write, fs, path::PathBuf};

use anabranch_recordset::{Manifest, manifest::Extents};

/// All parts of a set: a line for each, with record, component, file, and extents or `all`.
fn listing(manifest: &Manifest) -> String {
    let mut lines = String::new();
    for record in 0..manifest.len() {
        let name = manifest.record_name(record).unwrap();
        for (index, component) in manifest.components.iter().enumerate() {
            let Some(part) = manifest.part(record, index) else {
                continue;
            };
            let places = match &part.extents {
                Extents::Whole => "all".to_owned(),
                Extents::Some(extents) => {
                    let each = extents
                        .iter()
                        .map(|extent| format!("{}+{}", extent.offset, extent.bytes));
                    each.collect::<Vec<_>>().join(" ")
                }
            };
            writeln!(lines, "{name}\t{}\t{}\t{places}", component.name, part.file).unwrap();
        }
    }
    lines
}

#[test]
fn both_parsers_find_the_same_parts() {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "manifests"]
        .iter()
        .collect();
    let mut sets = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "parts") {
            continue;
        }
        let expected = fs::read_to_string(&path).unwrap();
        let text = |ending| fs::read_to_string(path.with_extension(ending)).unwrap();
        let shown = path.display();
        let toml = Manifest::from_toml(&text("toml"));
        let toml = toml.unwrap_or_else(|error| panic!("{shown}: TOML: {error}"));
        let json = Manifest::from_json(&text("json"));
        let json = json.unwrap_or_else(|error| panic!("{shown}: JSON: {error}"));
        for (manifest, of) in [(&toml, "TOML"), (&json, "JSON")] {
            assert_eq!(listing(manifest), expected, "{shown}: {of}");
        }
        assert_eq!((toml.rate, &toml.name), (json.rate, &json.name), "{shown}");
        for (one, other) in toml.components.iter().zip(&json.components) {
            assert_eq!(
                (&one.name, one.service, one.is_optional),
                (&other.name, other.service, other.is_optional),
                "{shown}"
            );
        }
        sets += 1;
    }
    assert!(
        sets > 0,
        "no manifests in {}; python/tests/test_records.py writes them",
        folder.display()
    );
}

#[test]
fn services_are_those_of_the_command() {
    let path: PathBuf = [
        env!("CARGO_MANIFEST_DIR"),
        "tests",
        "manifests",
        "classic.toml",
    ]
    .iter()
    .collect();
    let manifest = Manifest::from_toml(&fs::read_to_string(path).unwrap()).unwrap();
    let names: Vec<_> = manifest
        .components
        .iter()
        .map(|component| &*component.name)
        .collect();
    assert_eq!(names, ["header", "numbers", "time"]);
    assert_eq!(manifest.rate, Some(25.0));
    assert_eq!(manifest.components[1].service.promise, Some(0.95));
    assert!(manifest.components[0].is_optional);
}

/// Each line of `refused.txt` is a text in JSON that neither parser takes; `python/tests/test_records.py` reads it, too.
#[test]
fn both_parsers_refuse_the_same_texts() {
    let path: PathBuf = [
        env!("CARGO_MANIFEST_DIR"),
        "tests",
        "manifests",
        "refused.txt",
    ]
    .iter()
    .collect();
    let lines = fs::read_to_string(path).unwrap();
    assert!(lines.lines().count() > 10);
    for line in lines.lines() {
        let read = Manifest::from_json(line);
        assert!(read.is_err(), "{line}");
    }
}

#[test]
fn a_list_is_no_table() {
    let error = Manifest::from_json(r#"[null, null, [["a", "f", 4]]]"#).unwrap_err();
    assert!(
        error.to_string().contains("expected a table of keys"),
        "{error}"
    );
    let error = Manifest::from_toml("component = [[\"a\", \"f\", 4]]").unwrap_err();
    assert!(
        error.to_string().contains("expected a table of keys"),
        "{error}"
    );
}
