//! The page in front of odd nodes and machines: texts with markup, very many streams, a clock that is set.

use std::time::Duration;

use anabranch::{Client, StreamSpec};
use serde_json::{Value, json};

use crate::{
    VIEWS,
    chromium::Browser,
    pretender::{Pretender, path, stream},
    setting::Setting,
};

/// Markup, entities, an escape sequence, and an override of the direction, which a real node would have made visible.
const ODD: &str = "<img src=x onerror=broken=1>\u{1b}[2J\u{202e}txt.exe\" onmouseover=broken=1 '&lt;</td>${broken=1}";

fn node() -> Value {
    json!([
        { "kind": "node", "node": "a".repeat(52), "uptime_s": 3.0 },
        { "kind": "session", "session": "session-0", "peer": "p", "peer_name": ODD },
        { "kind": "budget", "place": ODD, "price": ODD, "locals": "", "left_bytes": null, "is_spent": false, "renews": ODD },
    ])
}

#[test]
fn texts_of_others_are_text_in_every_view() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let mut odd = stream(1, ODD);
    for field in ["peer_name", "asked", "promise"] {
        odd[field] = json!(ODD);
    }
    let event = json!({
        "kind": "promise_event", "unix_ms": 1_700_000_000_000_u64, "peer": ODD, "session": "session-0", "stream": "stream-1",
        "label": ODD, "asked": ODD, "event": ODD, "text": ODD, "windows_kept": 1, "windows_broken": 0,
    });
    let answer =
        json!({ "kind": "answer", "session": "session-0", "is_promised": false, "answer": ODD });
    let objective = json!({
        "session": "session-0", "objective": 1, "name": ODD, "text": ODD, "contexts": 1, "contexts_met": 0, "utility": 1.0, "faults": ODD,
    });
    let member = |name: &str| json!({ "kind": "member", "name": name, "state": ODD });
    let link = json!({ "kind": "link", "from": ODD, "to": "b", "bandwidth_bps": 1_000_000 });
    let pretender = Pretender::start([
        ("status", node()),
        ("paths", json!([path(0, ODD), path(1, "wlan")])),
        ("streams", json!([odd])),
        ("promise_history", json!([event])),
        ("admit", json!([answer])),
        ("objectives", json!([objective])),
        ("overlay", json!([member(ODD), member("b"), link])),
    ]);
    browser.size(1280, 900);
    browser.open(&pretender.link);
    browser.wait_for("1 session");
    // Where each view shows it, whole.
    let shown = json!(ODD);
    for (view, place, times) in [
        ("paths", "article h2, dd", 2),
        ("streams", "td", 5),
        ("promises", "td, section p", 6),
        ("overlay", "text, td", 4),
        ("objectives", "td", 3),
    ] {
        browser.value(&format!("location.hash = '#{view}'"));
        browser.wait(&format!(
            "[...document.querySelectorAll('{place}')].filter((one) => one.textContent.includes({shown})).length >= {times}"
        ));
        assert_eq!(
            browser.value("document.querySelectorAll('img, main script').length"),
            0,
            "{view}"
        );
    }
    // Questions show it, too.
    browser.value("location.hash = '#streams'");
    for (view, button) in [
        ("streams", "tbody button"),
        ("paths", "article button"),
        ("objectives", "tbody button"),
    ] {
        browser.value(&format!("location.hash = '#{view}'"));
        browser.wait(&format!(
            "document.querySelector('{button}')?.click() === undefined && document.querySelector('dialog')?.open === true"
        ));
        let text = "document.querySelector('dialog').textContent";
        assert_eq!(
            browser.value(&format!("{text}.includes({shown})")),
            true,
            "{view}"
        );
        browser.value("document.querySelectorAll('dialog').forEach((one) => one.close())");
    }
    assert_eq!(browser.value("typeof broken"), "undefined");
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);
}

#[test]
fn a_thousand_streams_are_listed_in_part_and_found_by_the_search() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let label = |number: usize| format!("camera {number}, floor");
    let streams: Vec<Value> = (0..1000).map(|at| stream(at, &label(at))).collect();
    let paths: Vec<Value> = (0..8).map(|at| path(at, &format!("eth{at}"))).collect();
    let pretender = Pretender::start([
        ("status", node()),
        ("paths", json!(paths)),
        ("streams", json!(streams)),
    ]);
    browser.size(1280, 900);
    browser.open(&pretender.link);
    browser.wait_for("1 session");
    browser.value("location.hash = '#streams'");
    let rows = "[...document.querySelectorAll('tbody')].map((body) => body.rows.length).join()";
    browser.wait(&format!("{rows} === '200,200'"));
    browser.wait_for("800 more streams are not listed");
    let search = |browser: &mut Browser, words: &str| {
        let words = json!(words);
        browser.value(&format!(
            "{{ const search = document.getElementById('search'); search.value = {words}; search.dispatchEvent(new Event('input')); }}"
        ));
    };
    search(&mut browser, "CAMERA 987,");
    browser.wait(&format!("{rows} === '1,1'"));
    assert!(
        browser
            .value("document.querySelector('tbody').innerText")
            .as_str()
            .is_some_and(|text| text.contains("camera 987, floor"))
    );
    // It follows what the node says of the stream that was found.
    let mut streams = streams;
    streams[987]["lost_adus"] = json!(4_711);
    pretender.set("streams", json!(streams));
    browser.wait_for("4711");
    search(&mut browser, "none of them");
    browser.wait_for("No stream matches the search.");
    assert_eq!(
        browser.value("document.body.innerText.includes('No stream is open.')"),
        false
    );
    let clear = "[...document.querySelectorAll('main button')].find((one) => one.textContent === 'Show all streams')";
    browser.value(&format!("{clear}.click()"));
    browser.wait(&format!("{rows} === '200,200'"));
    assert_eq!(browser.value(&format!("{clear}.hidden")), true);
    // Nothing is open, whatever is searched for.
    search(&mut browser, "camera");
    pretender.set("streams", json!([]));
    browser.wait(&format!("{rows} === '0,0'"));
    browser.wait_for("No stream is open.");
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);
}

/// The clock of the machine is set while the page is open: charts go on, since their times are those of the node.
#[test]
fn a_clock_that_is_set_breaks_no_chart() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let pretender = Pretender::start([
        ("status", node()),
        ("paths", json!([path(0, "wlan")])),
        ("streams", json!([])),
    ]);
    browser.size(1280, 900);
    browser.open(&pretender.link);
    browser.wait("document.querySelectorAll('article canvas').length === 1");
    // Charts that are made from now on are known to the test; another theme makes one.
    browser.value(
        "{ const real = Date.now; window.jump = 0; Date.now = () => real() + window.jump;
           const made = uPlot; window.plots = []; window.uPlot = function (...parts) { const plot = new made(...parts); window.plots.push(plot); return plot; };
           document.getElementById('theme').click(); }",
    );
    browser.wait("plots.length === 1 && plots[0].data[0].length >= 8");
    let mut seen = 8;
    for hours in [0, -30, 400] {
        browser.value(&format!("window.jump = {hours} * 3600 * 1000"));
        seen += 8;
        browser.wait(&format!("plots[0].data[0].length >= {seen}"));
        let sound = "(({ data: [at], scales: { x } }) => at.every((one, index) => index === 0 || one > at[index - 1])
            && at.at(-1) - at[0] < 3600 && x.max === at.at(-1) && x.max - x.min <= 120)(plots[0])";
        assert_eq!(
            browser.value(sound),
            true,
            "{hours}: {}",
            browser.value("plots[0].data[0].join()")
        );
    }
    assert_eq!(browser.value("plots.length"), 1, "the chart is the same");
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);
}

/// As `the_cost_of_a_page`, with 1,000 streams.
#[test]
#[ignore = "figures of a quiet machine"]
fn the_cost_of_a_thousand_streams() {
    const MEASURED: Duration = Duration::from_secs(20);
    const STREAMS: usize = 1000;
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let setting = Setting::with_paths(8, "rate=20 Mbit/s, delay=10 ms");
    setting.ready(8);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _held = runtime.block_on(async {
        let folder = setting.folder.path();
        let far = Client::attach(folder.join("far/local"), "test").await;
        let service = far.unwrap().register("s").await.unwrap();
        let near = Client::attach(folder.join("near/local"), "test").await;
        let session = near.unwrap().connect("studio").await.unwrap();
        let mut held = Vec::new();
        for _ in 0..STREAMS {
            let stream = session.open_stream(StreamSpec::messages("s")).await;
            let stream = stream.unwrap();
            stream.send(vec![7; 100]).await.unwrap();
            held.push((stream, service.accept().await.unwrap().1));
        }
        held
    });
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
