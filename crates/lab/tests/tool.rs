//! `tools/promises-live`, which checks its arguments before it builds anything, and the list of experiments.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Exit code of the program that takes the place of Cargo.
const BUILDS: i32 = 17;

fn tool() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/promises-live")
}

/// Runs the tool with these words, separated by blanks, and with a Cargo that only ends with [`BUILDS`].
fn run(folder: &Path, words: &str) -> Output {
    let cargo = folder.join("cargo");
    let script = format!("#!/bin/sh\nexit {BUILDS}\n");
    fs::write(&cargo, script).expect("the folder is ours");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&cargo, executable).expect("the file is ours");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(tool());
    command.args(words.split_whitespace()).current_dir(folder);
    let path = format!("{}:{path}", folder.display());
    let output = command.env("PATH", path).output();
    output.expect("bash runs the tool")
}

#[test]
fn wrong_arguments_are_refused_before_anything_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (words, named) in [
        ("--sets nine", "from 1 to 24"),
        ("--sets=0", "from 1 to 24"),
        ("--sets 25", "from 1 to 24"),
        ("--sets 99999999999999999999", "from 1 to 24"),
        ("--sets", "needs a value"),
        ("--seconds 10", "from 30 to 3600"),
        ("--seed -1", "give a whole number"),
        ("--rows no-such-folder/rows", "no-such-folder"),
        ("--set 2", "no flag --set"),
        ("--live", "--seconds"),
    ] {
        let output = run(folder, words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {errors}");
        assert!(errors.contains(named), "{words}: {errors}");
    }
    for words in [
        "",
        "--sets 2 --seconds=120 --seed 7 --json",
        "--json out --only a",
    ] {
        let output = run(folder, words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(BUILDS), "{words}: {errors}");
    }
    let help = run(folder, "--sets nine --help");
    assert_eq!(help.status.code(), Some(2));
    let help = run(folder, "--help");
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("Usage: tools/promises-live"));
}

#[test]
fn the_list_has_a_line_of_json_for_each_experiment() {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_anabranch-lab"));
    let output = lab.args(["list", "--json"]).output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), anabranch_lab::EXPERIMENTS.len());
    let named = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap();
    for live in ["telemedicine", "promises-live", "gridftp"] {
        assert_eq!(named(live)["runs_live"], true, "{live}");
    }
    assert!(named("bottleneck")["summary"].is_string());
}

#[test]
fn the_experiment_that_is_nearest_to_an_unknown_one_is_named() {
    for (words, named) in [
        (["run", "bottelneck"], "did you mean 'bottleneck'?"),
        (["run", "twoflow-adpat"], "did you mean 'twoflow-adapt'?"),
    ] {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_anabranch-lab"));
        let output = lab.args(words).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(named), "{errors}");
    }
}

/// A program that reads the results of many seeds reads those of one.
#[test]
fn results_are_a_list_whatever_the_number_of_seeds() {
    let run = |words: &str| {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_anabranch-lab"));
        let words = format!("run horde-e1 --quiet --json {words}");
        let output = lab.args(words.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let (one, two) = (run("--seeds 1"), run("--seeds 2"));
    let [one, two] = [&one, &two].map(|results| results.as_array().expect("a list"));
    assert_eq!((one.len(), two.len()), (1, 2));
    // The first of them is the same run.
    assert_eq!(one[0], two[0]);
    for (results, seed) in two.iter().zip(1..) {
        let fields = results.as_object().expect("an object for each seed");
        for field in ["experiment", "version", "seed", "rows"] {
            assert!(fields.contains_key(field), "{field}: {fields:?}");
        }
        assert_eq!(results["experiment"], "horde-e1");
        assert_eq!(results["seed"], seed);
        assert!(!results["rows"].as_array().expect("rows").is_empty());
    }
}
