//! A disk that fills up, and one that becomes read-only. A small file system in memory needs
//! root; without it, these tests print one line and pass.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use crate::faults::{process::Process, setting::Setting};

/// A file system in memory on the receiver's folder, gone when dropped.
struct Disk {
    at: PathBuf,
}

impl Disk {
    fn new(at: PathBuf, options: &str) -> Option<Self> {
        match mount(&["-t", "tmpfs", "-o", options, "anabranch-test"], &at) {
            Ok(()) => Some(Self { at }),
            Err(reason) => {
                let test = std::thread::current();
                let name = test.name().unwrap_or_default();
                // Bypasses the test harness, which would suppress it.
                let _ = writeln!(
                    std::io::stderr(),
                    "skipped {name}: mounting a small disk needs root ({reason})"
                );
                None
            }
        }
    }

    fn change(&self, options: &str) {
        mount(&["-o", &format!("remount,{options}")], &self.at).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that is being killed may still hold a file.
        let _ = Command::new("umount").arg("-l").arg(&self.at).output();
    }
}

fn mount(arguments: &[&str], at: &Path) -> Result<(), String> {
    let output = Command::new("mount").args(arguments).arg(at).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[test]
fn a_full_disk_is_reported_on_both_sides_and_the_transfer_resumes_with_more_space() {
    let setting = Setting::new();
    let Some(disk) = Disk::new(setting.path("in"), "size=5m") else {
        return;
    };
    let (receiver, ticket) = setting.receiver();
    let sender = setting.sender(&ticket, &[]);
    let words = ["No space left", "free some space"];
    sender
        .ended()
        .is(4, &["could not complete", words[0], words[1]]);
    receiver.ended().is(6, &words);
    setting.is_not_complete();
    disk.change("size=50m");
    let (receiver, _) = setting.receiver();
    let sent = setting.sender(&ticket, &[]).ended().is(0, &[]);
    assert!(sent.out.contains("were there already"), "{sent:?}");
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

#[test]
fn a_disk_that_becomes_read_only_is_reported_on_both_sides() {
    let setting = Setting::new();
    let Some(disk) = Disk::new(setting.path("in"), "size=50m") else {
        return;
    };
    let (receiver, ticket) = setting.receiver();
    disk.change("ro");
    let sender = setting.sender(&ticket, &[]);
    sender
        .ended()
        .is(4, &["could not complete", "may write to"]);
    receiver.ended().is(6, &["may write to"]);
    // A receiver that is started now reports it at once.
    let arguments = ["recv", "--key", "r.key", "--bind", "127.0.0.1:0", "in"];
    let folder = setting.path("");
    let refused = Process::start(&folder, &arguments, None).ended();
    refused.is(6, &["may write to"]);
    disk.change("rw");
    let (receiver, ticket) = setting.receiver();
    setting.sender(&ticket, &[]).ended().is(0, &[]);
    receiver.ended().is(0, &[]);
    setting.is_complete();
}
