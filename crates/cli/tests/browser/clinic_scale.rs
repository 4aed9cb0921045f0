//! Scales of a hospital's page: when something is stale, and how leads are drawn, from given ages and samples.

use std::path::Path;

use crate::{
    chromium::Browser,
    clinic::hospital,
    harness::{Running, private_folder},
};

/// A hospital's page without a case; its scripts can be imported.
fn empty_page(browser: &mut Browser, folder: &Path) -> Running {
    let (hospital, link) = hospital(folder);
    browser.size(1280, 900);
    browser.open(&link);
    browser.wait_for("No ambulance has been here yet.");
    hospital
}

#[test]
fn what_is_older_than_its_period_by_a_second_is_marked() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = private_folder();
    let _hospital = empty_page(&mut browser, folder.path());
    // Age, time since the last state, and what the label begins with.
    for (part, age, silent, begins) in [
        ("ekg", 1_000, 0, "1000 ms"),
        ("ekg", 1_001, 0, "STALE, 1001 ms"),
        ("video", 1_001, 0, "STALE, 1001 ms"),
        ("speech", 1_001, 0, "STALE, 1001 ms"),
        ("vital", 2_000, 0, "2000 ms"),
        ("vital", 2_001, 0, "STALE, 2001 ms"),
        ("objectives", 2_000, 0, "2000 ms"),
        ("objectives", 2_001, 0, "STALE, 2001 ms"),
        // Nothing is known of a hospital that is silent for more than a second.
        ("ekg", 10, 1_000, "10 ms"),
        ("ekg", 10, 1_001, "STALE, 10 ms"),
    ] {
        let shown = browser.value(&format!(
            "import('/ages.js').then(({{ label }}) => label('{part}', {{ age: {age}, error: 1.5 }}, {silent}, false))"
        ));
        let is_stale = begins.starts_with("STALE");
        assert_eq!(
            shown["text"],
            format!("{begins} ± 2 ms old"),
            "{part}, {age}"
        );
        assert_eq!(shown["isStale"], is_stale, "{part}, {age}");
        assert_eq!(shown["mark"], if is_stale { "bad" } else { "good" });
    }
    // Ages are differences of the page's clock: what does not come grows older by it.
    let aged = browser.value(
        "import('/clock.js').then(async ({ Clock }) => { const clock = new Clock(), real = performance.now.bind(performance); await clock.ask(); \
         const dated = { at_us: 0, error_us: 0 }; let now = real() + 5000; performance.now = () => now; \
         const first = clock.age(dated).age; now += 1250; const second = clock.age(dated).age; performance.now = real; return second - first; })",
    );
    assert!((aged.as_f64().unwrap() - 1_250.0).abs() < 0.01, "{aged}");
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);
}

/// Draws six seconds of a lead of 1,000 units per millivolt on paper of 600 pixels: 0 mV, 1 mV in the second second, 1.2 mV from 2.4 s on, which is above what is shaded; invalid samples from 2.8 to
/// 3.2 s; those from 4 to 4.4 s come after the first drawing. Trace black, gaps blue, each fifth millimetre red.
const DRAW: &str = "import('/leads.js').then(({ Leads }) => { \
    const box = document.createElement('div'), canvas = document.createElement('canvas'); box.style.width = '600px'; box.append(canvas); document.body.append(box); \
    const leads = new Leads(canvas), colours = { paper: '#fff', fine: '#fff', coarse: '#f00', trace: '#000', gap: '#00f' }; \
    leads.set(1, { frequency: 250, leads: [{ name: '', gain: 1000, baseline: 100, units: 'mV' }] }); \
    const sample = (frame) => frame >= 700 && frame < 800 ? -32768 : frame >= 600 ? 1300 : frame >= 250 && frame < 500 ? 1100 : 100; \
    const take = (from, to) => leads.take({ number: from, leads: 1, body: new Uint8Array(Int16Array.from({ length: to - from }, (_, at) => sample(from + at)).buffer) }); \
    const drawn = () => { leads.draw(colours); const { width, height } = canvas, all = canvas.getContext('2d').getImageData(0, 0, width, height).data; \
        const at = (x, y) => all.subarray((y * width + x) * 4, (y * width + x) * 4 + 3), rows = Array.from({ length: height }, (_, y) => y); \
        const columns = Array.from({ length: width }, (_, x) => ({ trace: rows.filter((y) => at(x, y).every((one) => one < 128)), \
            isGap: rows.some((y) => { const [red, , blue] = at(x, y); return blue > 200 && red < 60; }), coarse: at(x, 9)[1] })); return { width, columns }; }; \
    take(0, 1000); take(1100, 1500); const before = drawn(); take(1000, 1100); return { before, after: drawn() }; })";

/// Numbers in a list of the page.
fn numbers(list: &serde_json::Value) -> Vec<f64> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one.as_f64().unwrap()).collect()
}

#[test]
fn leads_are_drawn_to_scale_and_never_across_a_gap() {
    const MM: f64 = 96.0 / 25.4;
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = private_folder();
    let _hospital = empty_page(&mut browser, folder.path());
    let drawn = browser.value(DRAW);
    let before = drawn["before"]["columns"].as_array().unwrap();
    assert_eq!(
        (&drawn["before"]["width"], before.len()),
        (&600.into(), 600)
    );
    let trace = |column: &serde_json::Value| numbers(&column["trace"]);
    let second = |seconds: f64| (seconds * 25.0 * MM).round() as usize;
    // 10 mm for a millivolt, from the middle of the line in either second.
    let level = |seconds: f64| {
        let rows = trace(&before[second(seconds)]);
        assert!(!rows.is_empty(), "no trace after {seconds} s");
        rows.iter().sum::<f64>() / rows.len() as f64
    };
    let height = level(0.5) - level(1.5);
    assert!((height - 10.0 * MM).abs() < 1.0, "{height}");
    // 25 mm for a second: between the step up and the step down.
    let is_step = |x: usize| trace(&before[x]).len() > 20;
    let steps: Vec<f64> = (1..600)
        .filter(|x| is_step(*x) && !is_step(x - 1))
        .map(|x| x as f64)
        .collect();
    let [up, down, last] = steps[..] else {
        panic!("{steps:?}");
    };
    for (x, seconds) in [(up, 1.0), (down, 2.0), (last, 2.4)] {
        assert!((x - seconds * 25.0 * MM).abs() < 2.0, "{steps:?}");
    }
    assert!((down - up - 25.0 * MM).abs() < 1.5, "{steps:?}");
    // The grid has the same millimetres: a line begins where the paper is redder than on its left.
    let is_line = |x: usize| before[x]["coarse"].as_f64().unwrap() < 200.0;
    let lines: Vec<f64> = (1..600)
        .filter(|x| is_line(*x) && !is_line(x - 1))
        .map(|x| x as f64)
        .collect();
    let step = (lines[lines.len() - 1] - lines[0]) / (lines.len() - 1) as f64;
    assert!((step - 5.0 * MM).abs() < 0.1, "{step}: {lines:?}");
    // Without samples there is a gap from edge to edge, and no line in it; beside it there is one.
    for (from, to) in [(2.8, 3.2), (4.0, 4.4)] {
        let (from, to) = (second(from), second(to));
        for (x, column) in before.iter().enumerate().take(to - 2).skip(from + 2) {
            assert_eq!(column["isGap"], true, "{x}");
            assert_eq!(trace(column), [0.0; 0], "{x}");
        }
        for x in [from - 3, to + 3] {
            assert_eq!(before[x]["isGap"], false, "{x}");
            assert!(!trace(&before[x]).is_empty(), "{x}");
        }
    }
    // What comes late is drawn in its place; what is invalid stays a gap.
    let after = drawn["after"]["columns"].as_array().unwrap();
    for (x, column) in after[..second(4.4)].iter().enumerate().skip(second(4.0)) {
        assert_eq!(column["isGap"], false, "{x}");
        assert!(!trace(column).is_empty(), "{x}");
    }
    assert_eq!(after[second(3.0)]["isGap"], true);
    assert_eq!(trace(&after[second(3.0)]), [0.0; 0]);
}
