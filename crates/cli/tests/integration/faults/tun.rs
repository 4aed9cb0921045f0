//! The commands between namespaces, over `anabranch emulate --tun`, with addresses and ports as on a user's
//! machines. Needs root; without it, the test prints one line and passes.
#![cfg(target_os = "linux")]

use std::fs;

use anabranch::Ticket;

use crate::faults::{
    namespace::namespaces_with_tun,
    process::Process,
    setting::{MIDDLE_BYTES, Setting, until},
};

#[test]
fn a_transfer_over_two_emulated_links_survives_a_cut_and_a_killed_receiver() {
    let Some([left, right]) = namespaces_with_tun() else {
        return;
    };
    let setting = Setting::new();
    let (l, r) = (left.name(), right.name());
    let ends = [1, 2].map(|n| format!("{l}:10.95.{n}.1/24,{r}:10.95.{n}.2/24"));
    let arguments = [
        "emulate",
        "--tun",
        &ends[0],
        "--path",
        "fast: rate=40 Mbit/s, delay=5 ms",
        "--tun",
        &ends[1],
        "--path",
        "slow: rate=20 Mbit/s, delay=15 ms",
    ];
    let folder = setting.path("");
    let out = setting.path("emulator");
    let mut emulator = Process::start(&folder, &arguments, Some(&out));
    let output = || fs::read_to_string(&out).unwrap();
    until("both links", || output().matches("joins").count() == 2);

    // Neither command names an address: all interfaces, and a port that stays.
    let receive = || {
        let file = setting.path("ticket");
        let arguments = ["recv", "-q", "--key", "r.key", "in"];
        let process = Process::start_in(Some(right.name()), &folder, &arguments, Some(&file));
        until("a ticket", || {
            fs::read_to_string(&file).unwrap().ends_with('\n')
        });
        let text = fs::read_to_string(&file).unwrap();
        let ticket: Ticket = text.parse().unwrap();
        (process, text.trim().to_owned(), ticket.addresses)
    };
    let (receiver, ticket, addresses) = receive();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    let arguments = ["send", "--key", "s.key", "film", &ticket];
    let sender = Process::start_in(Some(left.name()), &folder, &arguments, None);
    setting.arrived(MIDDLE_BYTES);
    emulator.say("down fast");
    until("the cut", || output().contains("fast is down"));
    let before = setting.partial();
    setting.arrived(before + MIDDLE_BYTES / 4);
    receiver.signal("KILL");
    receiver.ended();
    setting.is_not_complete();
    emulator.say("up fast");
    let (receiver, _, again) = receive();
    assert_eq!(again, addresses, "the ticket is still valid");
    let sent = sender.ended().is(0, &["continues where it stopped"]);
    assert!(sent.out.contains("were there already"), "{sent:?}");
    receiver.ended().is(0, &[]);
    setting.is_complete();

    emulator.signal("INT");
    emulator.ended().is(0, &[]);
    for path in ["fast", "slow"] {
        let line = format!("{path} forward: ");
        assert!(output().contains(&line), "{}", output());
    }
}
