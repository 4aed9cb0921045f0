//! A hospital's page: an ambulance whose record and video come, end, and are shown as such; with and without WebCodecs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    chromium::Browser,
    harness::{Running, command, private_folder},
};

const FREQUENCY: usize = 250;

/// A record of three leads whose last has invalid samples now and then; beats of the others are pulses, 75 a minute.
fn record(folder: &Path, seconds: usize) {
    let beat = FREQUENCY * 60 / 75;
    let frames = (0..seconds * FREQUENCY).flat_map(|frame| {
        let pulse = if frame % beat < 10 { 800_i16 } else { 0 };
        let broken = if frame % 100 < 20 { i16::MIN } else { pulse };
        [pulse, pulse + 50, broken]
    });
    let bytes: Vec<u8> = frames.flat_map(i16::to_le_bytes).collect();
    fs::write(folder.join("r.dat"), bytes).unwrap();
    let lead = |name| format!("r.dat 16 1000(0)/mV 16 0 0 0 0 {name}\n");
    let leads = ["i", "ii", "v1"].map(lead).concat();
    let frames = seconds * FREQUENCY;
    fs::write(
        folder.join("r.hea"),
        format!("r 3 {FREQUENCY} {frames}\n{leads}"),
    )
    .unwrap();
}

/// A hospital with its page; returns the link of the page, and writes the ticket to a file.
pub(crate) fn hospital(folder: &Path) -> (Running, String) {
    let words = [
        "clinic",
        "hospital",
        "--store",
        "store",
        "--key",
        "hospital.key",
    ];
    let more = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--json"];
    let mut hospital = Running::start(command(folder).args(words).args(more));
    let ticket = hospital.event("serving")["ticket"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::write(folder.join("ticket"), ticket).unwrap();
    let link = hospital.event("listening")["link"]
        .as_str()
        .unwrap()
        .to_owned();
    (hospital, link)
}

fn ambulance(folder: &Path) -> Running {
    let words = [
        "clinic",
        "ambulance",
        "--ticket-file",
        "ticket",
        "--key",
        "ambulance.key",
        "--consent",
        "7 days",
    ];
    let more = [
        "--bind",
        "127.0.0.1:0",
        "--ekg",
        "r.hea",
        "--stills",
        "stills",
        "--json",
    ];
    let video = [
        "--video",
        "lavfi:testsrc2=size=320x180:rate=25",
        "--rate",
        "500 kbit/s",
    ];
    let objectives = ["--objectives", "low_latency(\"clinic/1/ekg\", 400)"];
    let mut command = command(folder);
    let command = command.args(words).args(more).args(video).args(objectives);
    Running::start(command)
}

fn has_ffmpeg() -> bool {
    let mut look = Command::new("ffmpeg");
    let found = look
        .arg("-version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        eprintln!("skipped: there is no ffmpeg");
    }
    found.is_ok()
}

fn text_of(id: &str) -> String {
    // The page may not be there yet.
    format!("(document.getElementById('{id}')?.innerText ?? '')")
}

/// Points of a canvas, or of what a player shows, that differ from its corner.
fn drawn(id: &str) -> String {
    format!(
        "(() => {{ const shown = document.getElementById('{id}'), sheet = document.createElement('canvas'); \
         [sheet.width, sheet.height] = [200, 120]; const pen = sheet.getContext('2d'); pen.drawImage(shown, 0, 0, 200, 120); \
         const all = pen.getImageData(0, 0, 200, 120).data; let other = 0; \
         for (let at = 0; at < all.length; at += 4) if (all[at] !== all[0] || all[at + 1] !== all[1]) other += 1; return other; }})()"
    )
}

/// Keeps every label of an age that the page shows, by its element.
const KEEP_LABELS: &str = "window.labels = {}; addEventListener('DOMContentLoaded', () => { \
    for (const place of document.querySelectorAll('[id$=-age]')) { const all = window.labels[place.id] = new Set(); \
    new MutationObserver(() => all.add(place.textContent)).observe(place, { childList: true, characterData: true, subtree: true }); } })";

/// The labels that call nothing stale, and with it the age that they are to call so: none, whatever the machine's load.
const UNMARKED: &str = "Object.entries(window.labels).flatMap(([id, all]) => [...all].filter((text) => { \
    const age = /^([0-9]+) (ms|s|min)/.exec(text), most = ['vital-age', 'objectives-age'].includes(id) ? 2000 : 1000; \
    return age && (age[2] !== 'ms' || Number(age[1]) > most); }).map((text) => `${id}: ${text}`)).join('; ')";

#[test]
fn a_person_sees_the_case_and_that_it_is_silent() {
    let Some(mut browser) = Browser::start().filter(|_| has_ffmpeg()) else {
        return;
    };
    let folder = private_folder();
    let at = folder.path();
    record(at, 600);
    fs::create_dir(at.join("stills")).unwrap();
    let pixel = [
        "-nostdin",
        "-loglevel",
        "error",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=size=320x240",
        "-frames:v",
        "1",
    ];
    let mut make = Command::new("ffmpeg");
    let made = make.args(pixel).arg(at.join("stills/wound.png")).status();
    assert!(made.unwrap().success());
    fs::write(at.join("stills/note.txt"), "no picture").unwrap();
    let (hospital, link) = hospital(at);
    browser.before_pages(KEEP_LABELS);
    browser.size(1280, 900);
    browser.open(&link);
    browser.wait_for("No ambulance has been here yet.");
    let first = ambulance(at);
    browser.wait_for("connected");
    browser.wait_for("kept for 7 days after its end");
    // Ages have their errors, and nothing is stale.
    for id in ["ekg-age", "video-age", "vital-age"] {
        browser.wait(&format!(
            "/^[0-9]+ ms . [0-9]+ ms old$/.test({})",
            text_of(id)
        ));
    }
    browser.wait(&format!("{} > 1000", drawn("picture")));
    browser.wait(&format!("{} > 300", drawn("leads")));
    browser.wait(&format!(
        "{}.includes('shown by WebCodecs')",
        text_of("video-note")
    ));
    browser.wait(&format!(
        "{}.includes('3 leads, 250 Hz')",
        text_of("ekg-note")
    ));
    for (id, origin) in [("ekg-origin", "replayed"), ("video-origin", "generated")] {
        browser.wait(&format!("{} === '{origin}'", text_of(id)));
    }
    browser.wait(&format!(
        "Math.abs(Number({}) - 75) <= 2",
        text_of("heart-rate")
    ));
    browser.wait("/(active)/.test(document.querySelector('#paths').innerText)");
    // Round trip, rate and bytes of a path are numbers, the last two of which are not 0 while video comes.
    for (cell, form) in [
        (2, "[0-9]+ ms"),
        (3, "[1-9][0-9]* kbit\\/s|[1-9][0-9]*\\.[0-9]{2} Mbit\\/s"),
        (4, "[1-9][0-9]* kB|[1-9][0-9]*\\.[0-9] MB"),
    ] {
        browser.wait(&format!(
            "[...document.getElementById('paths').rows].some((row) => /^({form})$/.test(row.cells[{cell}].innerText))"
        ));
    }
    // Of its objective, the ambulance states what was sent, and what that was worth.
    browser.wait(
        "(() => { const row = document.getElementById('objectives').rows[0]; if (!row) return false; \
         const [name, ...counts] = [...row.cells].map((cell) => cell.innerText), [all, met, faulty, utility] = counts.map((text) => Number(text.replaceAll(',', ''))); \
         return name === 'low_latency' && all > 0 && met > 0 && met <= all && faulty <= all && utility > 0; })()",
    );
    browser.wait(&format!(
        "/^[0-9]+ ms . [0-9]+ ms old$/.test({})",
        text_of("objectives-age")
    ));
    browser.wait("document.querySelector('#stills img')?.naturalWidth === 320");
    browser.wait("document.querySelector('#stills').innerText.includes('no picture')");
    // A limit that the rate is beyond is an alarm, at once.
    assert_eq!(
        browser.value("document.getElementById('alarms').hidden"),
        true
    );
    let limit = |value: u32| {
        format!(
            "(() => {{ const field = document.getElementById('high'); field.value = '{value}'; field.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.value(&limit(60));
    browser.wait(&format!(
        "/Heart rate 7[0-9], above 60/.test({})",
        text_of("alarms")
    ));
    browser.value(&limit(120));
    browser.wait("document.getElementById('alarms').hidden");
    if let Some(pictures) = std::env::var_os("CONSOLE_PICTURES") {
        browser.size(1280, 1140);
        browser.picture(&PathBuf::from(pictures).join("clinic-light.png"));
    }
    browser.size(360, 740);
    browser.wait("document.documentElement.scrollWidth <= 360");
    browser.size(1280, 900);

    // The ambulance is gone, without a word: what is on the page is old, and silence is an alarm.
    drop(first);
    for id in ["ekg-age", "video-age", "objectives-age"] {
        browser.wait(&format!("{}.startsWith('STALE, ')", text_of(id)));
        let section = format!("document.getElementById('{id}').closest('section')");
        assert_eq!(
            browser.value(&format!("{section}.classList.contains('is-stale')")),
            true
        );
    }
    assert_eq!(browser.value(UNMARKED), "");
    for id in ["ekg-age", "video-age"] {
        let kept = format!("[...window.labels['{id}']]");
        assert_eq!(browser.value(&format!("{kept}.length > 3")), true);
    }
    browser.wait(&format!(
        "/Silence: no ECG for [0-9]+ s/.test({})",
        text_of("alarms")
    ));
    drop(hospital);
    browser.wait_for("The hospital no longer answers");
    let is_expected = |text: &&String| {
        text.contains("net::ERR") || text.contains("GL Driver Message") || text.contains("415")
    };
    let problems: Vec<_> = browser
        .problems
        .iter()
        .filter(|text| !is_expected(text))
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn a_browser_without_webcodecs_plays_fragments_or_reports_that_it_cannot() {
    let Some(mut browser) = Browser::start().filter(|_| has_ffmpeg()) else {
        return;
    };
    let folder = private_folder();
    let at = folder.path();
    record(at, 600);
    fs::create_dir(at.join("stills")).unwrap();
    let (_hospital, link) = hospital(at);
    let _ambulance = ambulance(at);
    browser.before_pages("delete globalThis.VideoDecoder;");
    browser.size(1280, 900);
    browser.open(&link);
    browser.wait(&format!(
        "/[1-9][0-9]+ pictures shown by MSE/.test({})",
        text_of("video-note")
    ));
    browser.wait(&format!("{} > 1000", drawn("player")));
    browser.wait(&format!(
        "/^[0-9]+ ms . [0-9]+ ms old$/.test({})",
        text_of("video-age")
    ));
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);
    // Without either, there is a clear word.
    browser.before_pages("delete globalThis.MediaSource;");
    browser.value("location.reload()");
    browser.wait_for("This browser cannot decode the video (H.264, avc1.");
}

/// A microphone that beeps at one end, and a tone at the other: both are heard, one page speaks at a time, and the other is told who it is.
#[test]
fn both_sides_speak_and_hear() {
    let Some(mut browser) = Browser::start().filter(|_| has_ffmpeg()) else {
        return;
    };
    let folder = private_folder();
    let at = folder.path();
    let (_hospital, link) = hospital(at);
    let words = ["clinic", "ambulance", "--ticket-file", "ticket", "--json"];
    let more = [
        "--key",
        "ambulance.key",
        "--bind",
        "127.0.0.1:0",
        "--consent",
        "no",
    ];
    let sound = [
        "--audio",
        "lavfi:sine=frequency=440:sample_rate=48000",
        "--audio-out",
        "heard.opus",
    ];
    let _ambulance = Running::start(command(at).args(words).args(more).args(sound));
    browser.size(1280, 900);
    browser.open(&link);
    browser.wait_for("The ambulance listens.");
    browser.wait(&format!("{} === 'generated'", text_of("speech-origin")));
    let press = |id: &str| format!("document.getElementById('{id}').click()");
    browser.value(&press("listen"));
    browser.wait(&format!(
        "/[1-9][0-9]* packets played/.test({})",
        text_of("speech-note")
    ));
    browser.wait("document.getElementById('level').value > 0.01");
    browser.wait(&format!(
        "/^[0-9]+ ms . [0-9]+ ms old$/.test({})",
        text_of("speech-age")
    ));
    browser.value("document.getElementById('name').value = 'Dr. A'");
    browser.value(&press("talk"));
    // The microphone beeps now and then: within two seconds.
    browser.wait(&format!(
        "/You are heard: [1-9][0-9][0-9]+ packets sent/.test({})",
        text_of("talk-note")
    ));
    // Another page is told who speaks: here its request, as it would send it.
    let other = "fetch('/api/speak', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ \
                 case: 1, speaker: 1, packets: [] }) }).then((answer) => answer.json()).then((answer) => { window.refusal = answer.error; })";
    browser.value(other);
    browser.wait("window.refusal === 'Dr. A speaks; wait for the end'");
    browser.value(&press("talk"));
    browser.wait(&format!(
        "{} === 'The ambulance listens.'",
        text_of("talk-note")
    ));
    // What the ambulance heard is a file that ffmpeg decodes, and not silence.
    let mut decode = Command::new("ffmpeg");
    decode.args(["-nostdin", "-i", "heard.opus", "-af", "volumedetect"]);
    let decoded = decode.args(["-f", "null", "-"]).current_dir(at).output();
    let decoded = decoded.unwrap();
    let said = String::from_utf8_lossy(&decoded.stderr);
    assert!(decoded.status.success(), "{said}");
    let loudest = said.split("max_volume: ").nth(1).unwrap();
    let loudest: f64 = loudest.split(' ').next().unwrap().parse().unwrap();
    assert!(loudest > -60.0, "{said}");
    let is_expected = |text: &&String| text.contains("GL Driver Message") || text.contains("409");
    let mut problems = browser.problems.iter().filter(|text| !is_expected(text));
    assert_eq!(problems.next(), None);
    // Browsers without WebCodecs are told so.
    browser.before_pages("delete globalThis.AudioDecoder; delete globalThis.AudioEncoder;");
    // The page that is there until then has the same words.
    browser.value("window.isFormer = true; location.reload()");
    browser.wait("window.isFormer === undefined");
    browser.wait_for("The ambulance listens.");
    browser.value(&press("listen"));
    browser.wait_for("This browser cannot play the speech");
    browser.value(&press("talk"));
    browser.wait_for("This browser cannot send speech: it has no AudioEncoder");
}
