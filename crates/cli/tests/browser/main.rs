//! The console in a browser, and its metrics in Prometheus: every view of a node that sends over three paths, one of which is cut;
//! stored video while it plays; a molecule that is turned; a case of telemedicine.
//! Skipped where the programs are not installed.
//!
//! With CONSOLE_PICTURES, the folder for pictures of every view, light and dark: those of `docs/console.md`.
#![cfg(all(target_os = "linux", feature = "console"))]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod bad_input;
mod chromium;
#[cfg(feature = "clinic")]
mod clinic;
#[cfg(all(feature = "clinic", feature = "demo"))]
mod clinic_demo;
#[cfg(feature = "clinic")]
mod clinic_scale;
#[path = "../harness/mod.rs"]
mod harness;
#[cfg(feature = "visualise")]
#[path = "../integration/numbered.rs"]
mod numbered;
mod pretender;
mod prometheus;
mod setting;
#[cfg(feature = "visualise")]
mod smartpointer;
#[cfg(feature = "video")]
mod video;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use chromium::Browser;
use setting::Setting;

const VIEWS: [&str; 5] = ["paths", "streams", "promises", "overlay", "objectives"];

/// The card of the path to an address. Channels have no fixed numbers: one that failed while the machine was busy comes back as another.
fn card_of(to: &SocketAddr) -> String {
    format!(
        "[...document.querySelectorAll('.card')].find((card) => card.innerText.includes('to {to}'))"
    )
}

fn state_of(to: &SocketAddr) -> String {
    format!("{}?.querySelector('.state')?.innerText ?? ''", card_of(to))
}

/// The button of a path.
fn button_of(to: &SocketAddr) -> String {
    format!("{}.querySelector('button')", card_of(to))
}

/// The channel of a path.
fn channel_of(browser: &mut Browser, to: &SocketAddr) -> String {
    let name = browser.value(&format!(
        "{}.innerText.match(/channel-[0-9]+/)[0]",
        card_of(to)
    ));
    name.as_str().unwrap().to_owned()
}

#[test]
fn a_person_sees_what_the_node_does() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut setting = Setting::start();
    for label in ["bulk", "telemetry"] {
        setting.accept(label);
    }
    browser.size(1280, 900);
    browser.open(&setting.link());

    // Three paths, each with a chart, and the node in words.
    browser.wait("document.querySelectorAll('article canvas').length === 3");
    browser.wait_for("1 session");
    assert_eq!(
        browser.value("location.hash"),
        "#paths",
        "the token is no longer in the address"
    );
    let [first, second, third] = setting.paths[..] else {
        panic!("three paths: {:?}", setting.paths);
    };
    for path in [first, second, third] {
        browser.wait(&format!("({}).includes('active')", state_of(&path)));
    }
    setting.send(
        "bulk",
        &["--priority", "bulk", "--cap", "24 Mbit/s"],
        20_000,
        Duration::from_millis(6),
    );
    let telemetry = [
        "--rate",
        "1 Mbit/s",
        "--probability",
        "90 %",
        "--lifetime",
        "500 ms",
        "--wait",
    ];
    setting.send("telemetry", &telemetry, 2_500, Duration::from_millis(10));

    // Streams, with their promises and the bytes on each path.
    browser.value("location.hash = '#streams'");
    browser.wait("document.querySelectorAll('tbody')[0]?.querySelectorAll('tr').length === 2");
    browser.wait_for("1.00 Mbit/s in 90 % of all windows of 1 s");
    browser.wait(
        "[...document.querySelectorAll('td.shade')].some((cell) => cell.innerText.endsWith('MB'))",
    );

    // A stream is changed in a dialog: nonsense is explained in it, a limit is set.
    let field = |name: &str| {
        format!(
            "[...document.querySelectorAll('dialog input')].find((input) => input.name === '{name}').value"
        )
    };
    let done = "document.querySelector('dialog form').requestSubmit()";
    let row =
        "[...document.querySelectorAll('tbody tr')].find((row) => row.innerText.includes('bulk'))";
    for (changes, shown, told) in [
        (
            [("cap", "fast", "20 Mbit/s")].as_slice(),
            "bulk",
            ["\"cap_bps\":20000000"].as_slice(),
        ),
        (
            &[
                ("priority", "soonest", "urgent"),
                ("lifetime", "a while", "1.5 s"),
            ],
            "1.5 s",
            &["\"priority\":192", "\"lifetime_ms\":1500"],
        ),
        (
            &[("lifetime", "-1 s", "4 s")],
            "4 s",
            &["\"priority\":192", "\"lifetime_ms\":4000"],
        ),
    ] {
        browser.value(&format!("{row}.querySelector('button').focus()"));
        browser.press("Enter");
        browser.wait("document.querySelector('dialog')?.open === true");
        for (name, bad, good) in changes {
            let field = field(name);
            browser.value(&format!("{field} = '{bad}'; {done}"));
            browser.wait(&format!(
                "document.querySelector('dialog [role=alert]').innerText.includes('{bad}')"
            ));
            browser.value(&format!("{field} = '{good}'"));
        }
        browser.value(done);
        browser.wait("document.querySelector('dialog') === null");
        browser.wait(&format!("{row}.innerText.includes('{shown}')"));
        let (_, streams) = setting.ask(&["streams", "--json"]);
        for words in told {
            assert!(streams.contains(words), "{words}: {streams}");
        }
    }

    // The search narrows the list.
    browser.value("const search = document.getElementById('search'); search.value = 'TELE'; search.dispatchEvent(new Event('input'))");
    browser.wait("document.querySelectorAll('tbody')[0].querySelectorAll('tr').length === 1");

    // What if: a slider by the keyboard asks the node.
    browser.value("location.hash = '#promises'");
    browser.wait("/would be (promised|refused)/.test(document.body.innerText)");
    browser.value("document.querySelector('input[type=range]').focus()");
    for _ in 0..74 {
        browser.press("ArrowRight");
    }
    browser.wait("document.querySelector('output').innerText.endsWith('Gbit/s')");
    browser.wait_for("would be refused");
    browser.wait("/promised|waits/.test(document.querySelector('tbody').innerText)");

    // Objectives are added after a question, and a faulty one is explained.
    browser.value("location.hash = '#objectives'");
    browser.wait_for("No objectives are in force.");
    browser.value("document.querySelector('textarea').value = 'nonsense'; document.querySelector('form').requestSubmit()");
    browser.wait("document.querySelector('dialog')?.open === true");
    browser.press("Tab");
    browser.value("[...document.querySelectorAll('dialog button')][0].focus()");
    browser.press("Enter");
    browser.wait("document.querySelector('section p.bad')?.innerText.length > 10");

    browser.value("location.hash = '#overlay'");
    browser.wait_for("this node takes part in no overlay");

    // A path is taken out of use, and in again.
    browser.value("location.hash = '#paths'");
    for (does, says) in [("out of use", "out of use"), ("Use it again", "active")] {
        browser.wait(&format!(
            "{}.innerText.includes('{does}')",
            button_of(&third)
        ));
        browser.value(&format!("{}.focus()", button_of(&third)));
        browser.press("Enter");
        browser.wait("document.querySelector('dialog')?.open === true");
        browser.value("document.querySelector('dialog button').focus()");
        browser.press("Enter");
        browser.wait(&format!("({}).includes('{says}')", state_of(&third)));
    }

    // The same by commands; the last path needs a flag.
    for (path, code, says, time) in [
        (
            third,
            0,
            "out of use for 600 s",
            ["--for", "10 min"].as_slice(),
        ),
        (second, 0, "until `anabranch path in`", &[]),
        (first, 1, "last path", &[]),
    ] {
        let channel = channel_of(&mut browser, &path);
        let (status, text) = setting.ask(&[&["path", "out", &channel], time].concat());
        assert_eq!(status, Some(code), "{text}");
        assert!(text.contains(says), "{text}");
    }
    browser.wait(&format!(
        "({}).includes('out of use for')",
        state_of(&third)
    ));
    for path in [second, third] {
        let channel = channel_of(&mut browser, &path);
        let (status, text) = setting.ask(&["path", "in", &channel]);
        assert_eq!(status, Some(0), "{text}");
    }
    browser.wait(&format!("({}).includes('active')", state_of(&second)));

    // A path is cut: it is named as such, in words.
    let lte = setting.emulators.remove(1);
    drop(lte);
    browser.wait(&format!("/not responding/.test({})", state_of(&second)));

    // Every view by keyboard, in both themes, and on a narrow screen without scrolling sideways.
    browser.value("document.querySelector('nav a').focus()");
    for _ in 0..2 {
        browser.press("Tab");
    }
    browser.press("Enter");
    assert_eq!(browser.value("location.hash"), "#promises");
    let pictures = std::env::var_os("CONSOLE_PICTURES").map(PathBuf::from);
    for view in VIEWS {
        browser.value(&format!("location.hash = '#{view}'"));
        for theme in ["light", "dark"] {
            browser.wait(&format!(
                "document.querySelector('nav a[aria-current]').hash === '#{view}'"
            ));
            browser.value("document.getElementById('theme').click()");
            browser.value(&format!(
                "document.documentElement.dataset.theme = '{theme}'"
            ));
            std::thread::sleep(Duration::from_millis(700));
            if let Some(folder) = &pictures {
                browser.picture(&folder.join(format!("console-{view}-{theme}.png")));
            }
        }
        browser.size(360, 740);
        browser.wait("document.documentElement.scrollWidth <= 360");
        browser.size(1280, 900);
    }

    // A link is good once; a page that is signed in needs none.
    let used = setting.link();
    for _ in 0..2 {
        browser.open("about:blank");
        browser.open(&used);
        browser.wait_for("1 session");
    }
    browser.forget();
    browser.open("about:blank");
    browser.open(&used);
    browser.wait_for("was used before");
    browser.open("about:blank");
    browser.open(&setting.link());
    browser.wait_for("1 session");
    let is_expected =
        |text: &&String| text.contains("status of 401") || text.contains("status of 403");
    let problems: Vec<_> = browser
        .problems
        .iter()
        .filter(|text| !is_expected(text))
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
    drop(setting);
    browser.wait_for("no longer answers");
}

/// Processor time of the page and of the node while it is shown, with 100 streams on 8 paths. Prints figures; asserts none.
#[test]
#[ignore = "figures of a quiet machine"]
fn the_cost_of_a_page() {
    const MEASURED: Duration = Duration::from_secs(20);
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut setting = Setting::with_paths(8, "rate=20 Mbit/s, delay=10 ms");
    setting.accept("s");
    setting.ready(8);
    for _ in 0..100 {
        setting.send("s", &[], 100, Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_secs(5));
    let measure = |setting: &Setting| {
        let before = setting.near_seconds();
        std::thread::sleep(MEASURED);
        (setting.near_seconds() - before) / MEASURED.as_secs_f64()
    };
    let alone = measure(&setting);
    browser.size(1280, 900);
    browser.open(&setting.link());
    browser.wait_for("1 session");
    for view in VIEWS {
        browser.value(&format!("location.hash = '#{view}'"));
        browser.value("1");
        let before = browser.task_seconds();
        let node = measure(&setting);
        let page = (browser.task_seconds() - before) / MEASURED.as_secs_f64();
        eprintln!(
            "{view}: page {:.1} %, node {:.1} % more than {:.1} %",
            page * 100.0,
            (node - alone) * 100.0,
            alone * 100.0
        );
    }
}
