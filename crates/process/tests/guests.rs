//! Guests: the modules of `guests/` as a compiler makes them, on numbers that are known.
#![cfg(feature = "wasm")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failure here is a failed test; what the compiler wrote is read from a file"
)]

use std::{fs, path::Path, process::Command};

use anabranch_process::{Adu, Limits, Modules, Pipeline, Running};

const TARGET: &str = "wasm32-unknown-unknown";

/// Compiles a guest as its documentation says; `None` where the compiler has no library for the target.
fn compiled(name: &str) -> Option<Vec<u8>> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let library = Command::new(&compiler)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output()
        .unwrap();
    let library = String::from_utf8(library.stdout).unwrap();
    if !Path::new(library.trim()).is_dir() {
        eprintln!("skipped: there is no library for {TARGET}; rustup target add {TARGET}");
        return None;
    }
    let module = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.wasm"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("guests/{name}.rs"));
    let words = "--edition 2024 --crate-type cdylib -C opt-level=s -C panic=abort -C strip=symbols -D warnings";
    let compiling = Command::new(&compiler)
        .args(words.split(' '))
        .args(["--target", TARGET, "-o"])
        .args([&module, &source])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiling.stderr);
    assert!(compiling.status.success(), "{errors}");
    Some(fs::read(module).unwrap())
}

/// A step that runs a module.
fn begin(module: &[u8], parameters: &str) -> (Running, Modules) {
    let modules = Modules::default();
    let hash = modules.add(module).unwrap();
    let pipeline: Pipeline = format!("wasm {hash} \"{parameters}\"").parse().unwrap();
    let running = pipeline.start(&modules, Limits::default()).unwrap();
    (running, modules)
}

fn array(numbers: &[f32]) -> Adu {
    let body: Vec<u8> = numbers.iter().flat_map(|one| one.to_le_bytes()).collect();
    Adu::new(3, body).with("group", 1.0)
}

#[test]
fn mean_makes_a_number_of_each_group() {
    let Some(module) = compiled("mean") else {
        return;
    };
    let (mut running, modules) = begin(&module, "4");
    let numbers = [1.0, 2.0, 3.0, 6.0, -1.5, 0.5, -0.5, 1.5, 7.0, 8.0];
    // The last group is what is left; each ADU is processed by itself.
    for (numbers, means) in [
        (&numbers[..], &[3.0, 0.0, 7.5][..]),
        (&numbers[..3], &[2.0]),
        (&[], &[]),
    ] {
        let mut adus = running.process(array(numbers), &modules).unwrap().adus;
        let adu = adus.remove(0);
        assert_eq!((adu.sequence, adus.len()), (3, 0));
        assert_eq!(adu.body, array(means).body);
        assert_eq!(adu.fields.number("group"), Some(4.0));
    }
    let odd = running.process(Adu::new(4, "odd"), &modules);
    let why = odd.unwrap_err().to_string();
    assert!(why.contains("array of at most 1048576 f32"), "{why}");
    let adus = running.process(array(&[5.0]), &modules).unwrap().adus;
    assert_eq!(adus[0].body, array(&[5.0]).body, "it goes on");
    for parameters in ["", "0", "four"] {
        let (mut running, modules) = begin(&module, parameters);
        let failed = running.process(array(&[1.0]), &modules);
        let why = failed.unwrap_err().to_string();
        assert!(why.contains("size of a group"), "{parameters}: {why}");
    }
}
