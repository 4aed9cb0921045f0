//! `anabranch demo-records`: its result, its end by Ctrl-C, and a file that it cannot use.

use std::fs;

use crate::{
    demos,
    harness::{command, private_folder},
};

/// The demonstration compares every part itself.
#[test]
fn every_record_arrives_over_a_path_that_is_cut() {
    let report = demos::result("demo-records", &["--seconds", "5"]);
    assert_eq!(report["is_complete"], true, "{report}");
    let verified = &report["verified"];
    assert_eq!(verified["parts"], 3 * 125, "{report}");
    assert_eq!(
        (&verified["wrong"], &verified["missing"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    let components = report["components"].as_array().unwrap();
    let asked: Vec<_> = components
        .iter()
        .map(|row| row["asked_bps"].as_u64())
        .collect();
    assert_eq!(asked, [Some(3_456_000), Some(2_560_000), Some(7_680_000)]);
    for row in components {
        assert_eq!(row["records"], 125, "{report}");
    }
    // All of them together carried the set.
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 3);
    let carried: u64 = paths.iter().filter_map(|path| path["bytes"].as_u64()).sum();
    assert!(carried > verified["bytes"].as_u64().unwrap(), "{report}");
}

#[test]
fn after_ctrl_c_nothing_is_left() {
    demos::ends_by_ctrl_c("demo-records", "Mbit/s |");
}

#[test]
fn another_file_than_the_known_one_is_refused() {
    let folder = private_folder();
    fs::write(folder.path().join("eraint_uvz.nc"), "CDF").unwrap();
    let arguments = ["demo-records", "--fields", "eraint_uvz.nc"];
    let output = command(folder.path()).args(arguments).output().unwrap();
    let seen = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{seen}");
    assert!(seen.contains("without --fields"), "{seen}");
}
