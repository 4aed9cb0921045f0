//! Metrics for `promtool` and a real Prometheus. Skipped without them.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    harness::{Terminated, free_port},
    setting::{Setting, fetch},
};

/// Time that Prometheus may take to start and to scrape twice.
const LIMIT: u32 = 600;

fn has(program: &str) -> bool {
    let run = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_there = run.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("skipped: {program} is not installed");
    }
    is_there
}

#[test]
fn metrics_pass_promtool_and_are_scraped() {
    if !has("promtool") || !has("prometheus") {
        return;
    }
    let setting = Setting::start();
    setting.ready(3);
    let metrics = fetch(setting.console, "/metrics");
    let file = setting.folder.path().join("metrics");
    std::fs::write(&file, &metrics).unwrap();
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(check.status.success(), "{words}\n{metrics}");

    let (own, config) = (free_port(), setting.folder.path().join("prometheus.yml"));
    let text = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: anabranch\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
        setting.console
    );
    std::fs::write(&config, text).unwrap();
    let _prometheus = Terminated(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                setting.folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={own}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    for query in [
        "anabranch_paths",
        "rate(anabranch_interface_bytes_total[10s])",
        "anabranch_promise_events_total",
    ] {
        let path = format!("/api/v1/query?query={query}");
        let series = |_: u32| {
            std::thread::sleep(Duration::from_millis(200));
            let answer: Value = serde_json::from_str(&fetch(own, &path)).ok()?;
            let series = answer["data"]["result"].as_array()?.len();
            (series > 0).then_some(series)
        };
        assert!(
            (0..LIMIT).find_map(series).is_some(),
            "no series for {query}"
        );
    }
}
