//! `docs/start.md`, followed literally by two machines: every command of its transcripts runs, and prints what the text has.
//! The machines are network namespaces with two networks between them, so it is skipped without root.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod guide;
#[path = "../harness/mod.rs"]
mod harness;
mod machine;
#[path = "../../../net/tests/netns/namespace.rs"]
#[expect(dead_code, reason = "shared with tests that do more with them")]
mod namespace;
#[path = "../integration/faults/process.rs"]
#[expect(dead_code, reason = "shared with tests that do more with them")]
mod process;

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

use guide::{Names, Step};
use machine::Machine;
use namespace::namespaces;

/// Names in the text that are others each time.
const NAMES: [&str; 2] = ["river-lamp-orbit", "cabin-tulip-ocean"];
/// Commands that go on until Ctrl-C.
const GOES_ON: [&str; 1] = ["anabranch up"];

#[test]
fn the_first_hour_goes_as_the_text_has_it() {
    let Some([studio, field]) = namespaces() else {
        return;
    };
    studio.join(("eth0", "10.1.0.1/24"), &field, ("eth0", "10.1.0.2/24"));
    studio.join(("wlan0", "10.2.0.1/24"), &field, ("wlan0", "10.2.0.2/24"));
    let folder = tempfile::tempdir().unwrap();
    // Their users are others than that of the test.
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let machine = |name: &str, namespace, user| {
        let machine = Machine::new(name, namespace, folder.path(), user);
        (name.to_owned(), machine)
    };
    let mut machines = BTreeMap::from([
        machine("studio", studio, 20_001),
        machine("field", field, 20_002),
    ]);
    machines["studio"].has("film.mp4", 30_000_000);
    let mut names = Names::to_learn(&NAMES);
    for block in guide::blocks("start.md") {
        let machine = machines.get_mut(&block.machine).unwrap();
        let mut is_gap = false;
        for step in &block.steps {
            match step {
                Step::Command(command) => {
                    machine.finish(&GOES_ON);
                    machine.start(&names.translated(command));
                    is_gap = false;
                }
                Step::Interrupt => machine.interrupt(),
                Step::Printed(line) if line == "…" => is_gap = true,
                Step::Printed(line) => {
                    machine.expect(line, &mut names, is_gap);
                    is_gap = false;
                }
            }
        }
    }
    for machine in machines.values_mut() {
        machine.finish(&GOES_ON);
    }
}
