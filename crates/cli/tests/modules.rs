//! `anabranch process` with WebAssembly modules: those that a processing node has in a folder, and those that a subscriber brings. They have a program of
//! their own, so that a build with the feature `wasm` compiles no more of the command than they need.
#![cfg(feature = "wasm")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "harness/mod.rs"]
mod harness;
#[path = "integration/numbered.rs"]
mod numbered;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{ChildStdin, Command},
};

use harness::{Running, command, private_folder};
use numbered::{id, pair};

/// A module that makes one word of each message.
fn module(word: &str) -> Vec<u8> {
    let length = word.len();
    wat::parse_str(format!(
        r#"(module
            (import "anabranch1" "emit" (func $emit (param i32 i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "{word}")
            (func (export "process") (result i32)
                (call $emit (i32.const 0) (i32.const {length}))
                (i32.const 0)))"#
    ))
    .unwrap()
}

/// A command at node 1, which asks node 2.
fn asking(at: &Path, words: &[&str]) -> Command {
    let mut command = command(at);
    command.arg("process").args(words);
    command.args(["--at", "far", "--local", "1.local", "--as", "json"]);
    command
}

fn subscribe(at: &Path, pipeline: &str, more: &[&str]) -> (Running, ChildStdin) {
    let words = ["subscribe", "frames", "--pipeline", pipeline];
    let (mut subscriber, input) = Running::start_writing(asking(at, &words).args(more));
    subscriber.event("begun");
    (subscriber, input)
}

/// Numbers and data of the next messages.
fn received(subscriber: &mut Running, count: usize) -> Vec<(u64, String)> {
    let one = |_| {
        let event = subscriber.event("adu");
        let data = event["data"].as_str().unwrap().to_owned();
        (event["sequence"].as_u64().unwrap(), data)
    };
    (0..count).map(one).collect()
}

#[test]
fn modules_of_the_node_and_of_a_subscriber_run() {
    let folder = private_folder();
    let at = folder.path();
    fs::create_dir(at.join("of-node")).unwrap();
    fs::write(at.join("of-node/known.wasm"), module("known")).unwrap();
    fs::write(at.join("brought.wasm"), module("brought")).unwrap();
    let _nodes = pair(at, "\"process/1/*\"");
    let mut serving = command(at);
    serving.args(["process", "serve", "--json", "--local", "2.local"]);
    let mut service = Running::start(serving.args(["--modules", "of-node"]));
    let read = service.event("module");
    assert_eq!(read["file"], "known.wasm");
    service.event("serving");
    let words = ["offer", "frames", "--for", &id(1)];
    let (_offer, mut input) = Running::start_writing(&mut asking(at, &words));
    service.event("offered");
    let step = read["step"].as_str().unwrap();
    let (mut known, _open) = subscribe(at, step, &[]);
    let pipeline = "every 2 then wasm brought";
    let (mut brought, mut changes) = subscribe(at, pipeline, &["--module", "brought.wasm"]);
    let taken = service.event("module_brought");
    assert_eq!(
        (&taken["peer"], &taken["name"]),
        (&id(1).into(), &"frames".into())
    );
    let mut write = |messages: usize| {
        for _ in 0..messages {
            writeln!(input, "{{\"data\": \"m\"}}").unwrap();
        }
    };
    let of = |number: u64, word: &str| (number, word.to_owned());
    write(4);
    let expected = [0, 1, 2, 3].map(|number| of(number, "known"));
    assert_eq!(received(&mut known, 4), expected);
    let expected = [0, 2].map(|number| of(number, "brought"));
    assert_eq!(received(&mut brought, 2), expected);
    // Pipelines of standard input name it by its file, too.
    writeln!(changes, "wasm brought then every 3").unwrap();
    assert_eq!(brought.event("changed")["number"], 1);
    write(2);
    assert_eq!(received(&mut brought, 1), [of(4, "brought")]);
}
