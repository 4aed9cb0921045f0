//! Metrics for `promtool` and a real Prometheus, and the dashboards and alerts of `grafana/`. Skipped without their programs.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
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

/// Names of the dashboards.
const DASHBOARDS: [&str; 2] = ["node", "video"];

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
    check_metrics(setting.console, setting.folder.path());
    let (_prometheus, own) = prometheus(setting.folder.path(), &[setting.console]);
    for query in [
        "anabranch_paths",
        "rate(anabranch_interface_bytes_total[10s])",
        "anabranch_promise_events_total",
    ] {
        assert!(has_series(own, query), "no series for {query}");
    }
}

/// Has promtool check the metrics of a console.
fn check_metrics(console: SocketAddr, folder: &Path) {
    let metrics = fetch(console, "/metrics");
    assert!(metrics.contains("_build_info{"), "{metrics}");
    let file = folder.join("metrics");
    fs::write(&file, &metrics).unwrap();
    let check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&check.stderr).into_owned();
    assert!(check.status.success(), "{words}\n{metrics}");
}

/// Prometheus that scrapes these consoles every second, and its address.
fn prometheus(folder: &Path, consoles: &[SocketAddr]) -> (Terminated, SocketAddr) {
    let targets: Vec<String> = consoles.iter().map(|at| format!("\"{at}\"")).collect();
    let (own, config) = (free_port(), folder.join("prometheus.yml"));
    let text = format!(
        "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: anabranch\n    static_configs: [{{ targets: [{}] }}]\n",
        targets.join(", ")
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("data").display()
        ))
        .arg(format!("--web.listen-address={own}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    (Terminated(command.spawn().unwrap()), own)
}

/// True if a query returns series within the limit.
fn has_series(at: SocketAddr, query: &str) -> bool {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let path = format!("/api/v1/query?query={encoded}");
    let series = |_: u32| {
        std::thread::sleep(Duration::from_millis(200));
        let answer: Value = serde_json::from_str(&fetch(at, &path)).ok()?;
        assert_ne!(answer["status"], "error", "{query}: {answer}");
        let series = answer["data"]["result"].as_array()?.len();
        (series > 0).then_some(())
    };
    (0..LIMIT).find_map(series).is_some()
}

/// A dashboard by its name.
fn dashboard(name: &str) -> Value {
    let text = fs::read_to_string(grafana().join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Asks Prometheus every query of a dashboard.
fn check_queries(own: SocketAddr, name: &str) {
    let queries = queries(&dashboard(name));
    assert!(queries.len() > 20, "{name}: {queries:?}");
    for query in queries {
        assert!(
            !query.contains('$'),
            "{query} has a variable that is not known here"
        );
        assert!(has_series(own, &query), "{name}: no series for {query}");
    }
}

fn grafana() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana")
}

/// Queries of the panels and of the variables, each with all that the variables may be.
fn queries(dashboard: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let panels = list(&dashboard["panels"]);
    let targets = panels.iter().flat_map(|panel| list(&panel["targets"]));
    let targets = targets.filter_map(|target| Some(target["expr"].as_str()?.to_owned()));
    let variables = list(&dashboard["templating"]["list"]);
    let values = variables.iter().filter_map(|variable| {
        let call = variable["query"]["query"].as_str()?;
        let call = call.strip_prefix("label_values(")?.strip_suffix(')')?;
        Some(call.rsplit_once(", ")?.0.to_owned())
    });
    let all = ["$instance", "$peer", "$interface"];
    let known = |query: String| {
        let query = query.replace("$__rate_interval", "10s");
        all.iter()
            .fold(query, |query, name| query.replace(name, ".*"))
    };
    targets.chain(values).map(known).collect()
}

#[test]
fn every_query_about_nodes_returns_series() {
    if !has("prometheus") {
        return;
    }
    let mut setting = Setting::with_quota();
    let (_prometheus, own) = prometheus(setting.folder.path(), &[setting.console]);
    setting.ready(3);
    for label in ["bulk", "telemetry"] {
        setting.accept(label);
    }
    // More than the paths carry, whatever else the machine does: the bandwidth of a path is known only of windows in which it was full.
    setting.send("bulk", &["--priority", "bulk"], 40_000, Duration::ZERO);
    let telemetry = ["--rate", "500 kbit/s", "--probability", "90 %", "--wait"];
    setting.send("telemetry", &telemetry, 1_250, Duration::from_millis(10));
    check_queries(own, "node");
}

#[cfg(feature = "video")]
#[test]
fn metrics_of_stored_video_pass_promtool_and_every_query_returns_series() {
    if !has("promtool") || !has("prometheus") {
        return;
    }
    let Some(setting) = crate::video::VideoSetting::start() else {
        return;
    };
    let folder = setting.folder.path();
    let (_prometheus, own) = prometheus(folder, &setting.consoles());
    setting.play();
    for frames in [
        "anabranch_video_frames_total{type=\"predicted\"} > 0",
        "anabranch_video_frames_lost_total{type=\"intra\"} == 0",
        "anabranch_video_plays{peer=\"origin\"} > 0",
        "anabranch_video_plays{peer=\"default\"} > 0",
        "anabranch_video_frames_dropped_total{cause=\"lost\"} > 0",
    ] {
        assert!(has_series(own, frames), "no series for {frames}");
    }
    for console in setting.consoles() {
        check_metrics(console, folder);
    }
    check_queries(own, "video");
}

#[test]
fn the_dashboards_are_those_of_their_source() {
    if !has("npm") || !has("node") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path();
    fs::create_dir(copy.join("src")).unwrap();
    let names = [
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "write.mjs",
    ];
    for name in names {
        fs::copy(grafana().join(name), copy.join(name)).unwrap();
    }
    for file in fs::read_dir(grafana().join("src")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), copy.join("src").join(file.file_name())).unwrap();
    }
    let npm = |arguments: &[&str]| {
        Command::new("npm")
            .args(arguments)
            .current_dir(copy)
            .output()
            .unwrap()
    };
    let installed = npm(&["ci", "--no-audit", "--no-fund"]);
    let words = String::from_utf8_lossy(&installed.stderr).into_owned();
    let is_offline = [
        "ENOTFOUND",
        "ECONNREFUSED",
        "ETIMEDOUT",
        "EAI_AGAIN",
        "ECONNRESET",
    ]
    .iter()
    .any(|code| words.contains(code));
    if is_offline {
        eprintln!("skipped: npm reaches no registry");
        return;
    }
    assert!(installed.status.success(), "{words}");
    let built = npm(&["run", "build"]);
    let words = String::from_utf8_lossy(&built.stdout).into_owned();
    assert!(built.status.success(), "{words}");
    for name in DASHBOARDS {
        let committed = dashboard(name);
        let text = fs::read_to_string(copy.join(format!("{name}.json"))).unwrap();
        let made: Value = serde_json::from_str(&text).unwrap();
        assert!(
            made == committed,
            "grafana/{name}.json: run npm ci and npm run build in grafana/"
        );
    }
}

#[test]
fn the_alerts_fire_when_they_should_and_not_otherwise() {
    if !has("promtool") {
        return;
    }
    for (what, file) in [("check", "alerts.yml"), ("test", "alerts.test.yml")] {
        let output = Command::new("promtool")
            .args([what, "rules", file])
            .current_dir(grafana())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words}{errors}");
    }
    // Each alert has series that fire it and series that do not.
    let [rules, tests] = ["alerts.yml", "alerts.test.yml"]
        .map(|name| fs::read_to_string(grafana().join(name)).unwrap());
    let names = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    for name in names {
        let head = format!("alertname: {name}\n");
        let mut cases = tests.split(head.as_str()).skip(1);
        let fires = cases
            .next()
            .is_some_and(|case| case.trim_start().starts_with("exp_alerts: [{"));
        let rests = cases
            .next()
            .is_some_and(|case| case.trim_start().starts_with("exp_alerts: []"));
        assert!(fires && rests, "{name} has no two tests");
    }
}

#[test]
fn ten_scrapes_a_second_are_served_and_cost_little() {
    const SCRAPES: u32 = 50;
    let setting = Setting::start();
    setting.ready(3);
    let before = setting.near_seconds();
    let mut packets = 0;
    for _ in 0..SCRAPES {
        let text = fetch(setting.console, "/metrics");
        let sent = text
            .lines()
            .filter(|line| line.starts_with("anabranch_interface_packets_total"));
        let sum: u64 = sent
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum();
        assert!(sum >= packets, "a counter fell from {packets} to {sum}");
        packets = sum;
        std::thread::sleep(Duration::from_millis(100));
    }
    // Processor time, not that of the clock; in debug it is several times that of a release.
    let each = (setting.near_seconds() - before) / f64::from(SCRAPES);
    eprintln!(
        "{:.1} ms of a core for each scrape and the time between",
        each * 1e3
    );
    assert!(packets > 0 && each < 0.1, "{each} s");
}
