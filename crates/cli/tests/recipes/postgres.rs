//! PostgreSQL: `anabranch demo-gateway` starts a server and asks it with psql, while a download runs beside and a path is cut.

use serde_json::Value;

use crate::{
    harness::{command, private_folder},
    succeeds,
};

#[test]
fn queries_go_through_a_forward() {
    let has = |folder: std::path::PathBuf| folder.join("bin/initdb").is_file();
    let mut versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    if !versions.any(|entry| entry.is_ok_and(|entry| has(entry.path()))) {
        eprintln!("skipped: PostgreSQL is not installed");
        return;
    }
    let folder = private_folder();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");
    let arguments = [
        "demo-gateway",
        "--json",
        "--megabytes",
        "10",
        "--data",
        data,
    ];
    let report = succeeds(command(folder.path()).args(arguments));
    let report: Value = serde_json::from_slice(&report).unwrap();
    let queries = &report["queries"];
    assert!(
        queries["database"]
            .as_str()
            .unwrap()
            .starts_with("PostgreSQL"),
        "{report}"
    );
    assert!(queries["answered"].as_u64() > Some(5), "{report}");
}
