//! Pictures of the demonstration of telemedicine.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    chromium::Browser,
    harness::{Running, command, private_folder},
};

/// Pictures of the demonstration at 20, 40 and 60 s: those of `docs/clinic.md`. Only where they are wanted.
#[test]
fn pictures_of_the_demonstration() {
    let Some(pictures) = std::env::var_os("CONSOLE_PICTURES").map(PathBuf::from) else {
        return;
    };
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = private_folder();
    let at = folder.path();
    let mut demo = command(at);
    demo.args([
        "demo-clinic",
        "--json",
        "--http",
        "127.0.0.1:0",
        "--before",
        "5",
    ]);
    if let Some(record) = std::env::var_os("CLINIC_EKG") {
        demo.arg("--ekg").arg(record);
    }
    let mut demo = Running::start(&mut demo);
    let link = demo.event("listening")["link"].as_str().unwrap().to_owned();
    browser.size(1280, 900);
    browser.open(&link);
    browser.wait_for("connected");
    let begin = Instant::now();
    for (seconds, theme) in [(20, "light"), (40, "dark"), (59, "light")] {
        let now = "document.documentElement.dataset.theme";
        browser.value(&format!(
            "if ({now} !== '{theme}') document.getElementById('theme').click()"
        ));
        std::thread::sleep(
            (begin + Duration::from_secs(seconds)).saturating_duration_since(Instant::now()),
        );
        browser
            .picture(&pictures.join(format!("clinic-demo-{}.png", seconds.next_multiple_of(20))));
    }
    let report: serde_json::Value = serde_json::from_str(&demo.line()).unwrap();
    fs::write(pictures.join("clinic-demo.json"), report.to_string()).unwrap();
}
