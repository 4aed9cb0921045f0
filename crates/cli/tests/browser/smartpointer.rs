//! A molecule in a browser: a source, a viewer, and its page.

use std::{path::PathBuf, time::Duration};

use crate::{
    chromium::Browser,
    harness::{Running, command, private_folder},
    numbered::pair,
};

/// Number in a cell of a stream's row.
fn cell(part: &str, column: usize) -> String {
    format!("Number(document.querySelector('tr[data-part={part}]')?.cells[{column}].innerText)")
}

/// State of a stream, in words.
fn state(part: &str) -> String {
    format!("document.querySelector('tr[data-part={part}]')?.cells[1].innerText")
}

/// Points of the picture that differ from its corner.
const DRAWN: &str = "(() => { const canvas = document.getElementById('scene'), gl = canvas.getContext('webgl'); if (!gl) return 0; \
    const all = new Uint8Array(canvas.width * canvas.height * 4); gl.readPixels(0, 0, canvas.width, canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, all); \
    let other = 0; for (let at = 0; at < all.length; at += 4) if (all[at] !== all[0] || all[at + 1] !== all[1]) other += 1; return other; })()";

#[test]
fn a_person_sees_the_molecule_and_turns_it() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let folder = private_folder();
    let at = folder.path();
    let _nodes = pair(at, "\"smartpointer/1/watch/adk\"");
    let files = std::env::var_os("ADK_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/media"),
        PathBuf::from,
    );
    let (topology, trajectory) = (files.join("adk.psf"), files.join("adk_dims.dcd"));
    let play = || {
        let mut source = command(at);
        source.args(["smartpointer", "source", "--name", "adk", "--json"]);
        source.args(["--loop", "--local", "2.local"]);
        match topology.is_file() && trajectory.is_file() {
            true => source
                .arg("--topology")
                .arg(&topology)
                .arg("--trajectory")
                .arg(&trajectory),
            false => source.args(["--generate", "3341"]),
        };
        let mut source = Running::start(&mut source);
        source.event("serving");
        source
    };
    let source = play();
    let words = [
        "smartpointer",
        "viewer",
        "far",
        "--name",
        "adk",
        "--json",
        "--local",
        "1.local",
        "--http",
        "127.0.0.1:0",
    ];
    let mut viewer = Running::start(command(at).args(words));
    let link = viewer.event("listening")["link"]
        .as_str()
        .unwrap()
        .to_owned();

    browser.size(1280, 900);
    browser.open(&link);
    browser.wait_for("adk: 3341 atoms");
    for part in ["atoms", "bond1", "bond2"] {
        browser.wait(&format!("{} === 'live'", state(part)));
    }
    assert_eq!(
        browser.value("location.hash"),
        "",
        "the token is no longer in the address"
    );
    browser.wait("/^[0-9.]+ ± [0-9.]+ ms$/.test(document.querySelector('tr[data-part=atoms]').cells[2].innerText)");
    browser.wait(&format!("{} === 3341", cell("atoms", 4)));
    // Granted or not, it is asked for.
    for part in ["atoms", "bond1"] {
        let cell = format!("document.querySelector('tr[data-part={part}]').cells[6].innerText");
        browser.wait(&format!(
            "/^[0-9.]+ [kM]bit.s promised$|^none: .{{10}}/.test({cell})"
        ));
    }
    browser.wait(
        "document.querySelector('tr[data-part=bond2]').cells[6].innerText === 'none: it takes what is left'",
    );
    let is_drawn = browser.value("document.getElementById('scene').getContext('webgl') !== null");
    if is_drawn == true {
        browser.wait(&format!("{DRAWN} > 2000"));
        assert_eq!(
            browser.value("document.getElementById('alert').hidden"),
            true
        );
    } else {
        browser.wait_for("Nothing is drawn");
    }

    // All bonds are in the picture of the whole molecule; closer, some are not.
    browser.wait(&format!("{} === 0", cell("bond2", 4)));
    browser.value("document.getElementById('scene').focus()");
    browser.press("ArrowRight");
    browser.wait("/Bonds follow view [0-9]+/.test(document.getElementById('view').innerText)");
    let closer = "for (let step = 0; step < 9; step += 1) document.getElementById('scene').dispatchEvent(new KeyboardEvent('keydown', { key: '+' }))";
    browser.value(closer);
    browser.wait(&format!(
        "{} > 100 && {} > 100",
        cell("bond1", 4),
        cell("bond2", 4)
    ));

    let pictures = std::env::var_os("CONSOLE_PICTURES").map(PathBuf::from);
    for theme in ["light", "dark"] {
        let now = "document.documentElement.dataset.theme";
        browser.value(&format!(
            "if ({now} !== '{theme}') document.getElementById('theme').click()"
        ));
        browser.wait(&format!("{now} === '{theme}'"));
        if let Some(folder) = &pictures {
            std::thread::sleep(Duration::from_millis(700));
            browser.picture(&folder.join(format!("smartpointer-{theme}.png")));
        }
    }
    browser.size(360, 740);
    // The layout follows at the next frame.
    browser.wait("document.documentElement.scrollWidth <= 360");
    browser.size(1280, 900);
    browser.value("document.getElementById('reset').click()");
    browser.wait(&format!("{} === 0", cell("bond2", 4)));

    // The source ends: what is shown is stale, in words, until another one is there.
    source.interrupt();
    for part in ["atoms", "bond1", "bond2"] {
        browser.wait(&format!("{} === 'stale'", state(part)));
    }
    browser.wait_for("Stale: ");
    let _source = play();
    browser.wait(&format!("{} === 'live'", state("bond1")));
    viewer.interrupt();
    browser.wait_for("The viewer no longer answers");
    // The viewer's end, and that pixels were read here, are to be seen in the browser's console.
    let is_expected =
        |text: &&String| text.contains("net::ERR") || text.contains("GL Driver Message");
    let problems: Vec<_> = browser
        .problems
        .iter()
        .filter(|text| !is_expected(text))
        .collect();
    assert!(problems.is_empty(), "{problems:?}");
}
