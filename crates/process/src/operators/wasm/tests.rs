use super::*;
use crate::{Adu, Pipeline, Running};

/// Imports and memory that most of the modules use.
const HEAD: &str = r#"
    (import "anabranch1" "length" (func $length (result i32)))
    (import "anabranch1" "read" (func $read (param i32 i32 i32) (result i32)))
    (import "anabranch1" "emit" (func $emit (param i32 i32)))
    (import "anabranch1" "fail" (func $fail (param i32 i32)))
    (import "anabranch1" "number" (func $number (param i32 i32) (result f64)))
    (import "anabranch1" "set_number" (func $set_number (param i32 i32 f64)))
    (import "anabranch1" "text" (func $text (param i32 i32 i32 i32) (result i32)))
    (import "anabranch1" "set_text" (func $set_text (param i32 i32 i32 i32)))
    (import "anabranch1" "sequence" (func $sequence (result i64)))
    (import "anabranch1" "parameters_length" (func $parameters_length (result i32)))
    (import "anabranch1" "parameters_read" (func $parameters_read (param i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "size name reason")
"#;

fn module(rest: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {HEAD} {rest})")).unwrap()
}

fn process(body: &str) -> Vec<u8> {
    module(&format!("(func (export \"process\") (result i32) {body})"))
}

/// Bounds that hostile modules reach soon.
fn limits() -> Limits {
    Limits {
        adus: 8,
        bytes: 4_096,
        fuel: 200_000,
        fuel_per_s: 20_000_000,
        memory: 1 << 20,
    }
}

fn begin(bytes: &[u8], parameters: &str) -> (Running, Modules) {
    let modules = Modules::default();
    let hash = modules.add(bytes).unwrap();
    let pipeline = Pipeline::new(vec![crate::Step::Wasm {
        hash,
        parameters: parameters.to_owned(),
    }]);
    let pipeline: Pipeline = pipeline.unwrap().to_string().parse().unwrap();
    (pipeline.start(&modules, limits()).unwrap(), modules)
}

/// The reason for which a module cannot process an ADU, twice the same.
fn failure(bytes: &[u8]) -> String {
    let (mut running, modules) = begin(bytes, "");
    let mut reason = || {
        let adu = Adu::new(7, "body").with("name", "some text");
        running.process(adu, &modules).unwrap_err().to_string()
    };
    let first = reason();
    assert_eq!(reason(), first);
    first
}

#[test]
fn a_module_reads_an_adu_and_returns_several() {
    let bytes = process(
        r#"
        (local $length i32)
        (local.set $length (call $read (i32.const 100) (i32.const 0) (call $length)))
        (call $set_number (i32.const 0) (i32.const 4)
            (f64.add (call $number (i32.const 0) (i32.const 4)) (f64.convert_i64_u (call $sequence))))
        (call $emit (i32.const 100) (local.get $length))
        (call $set_text (i32.const 5) (i32.const 4) (i32.const 300) (call $text (i32.const 5) (i32.const 4) (i32.const 300) (i32.const 2)))
        (call $emit (i32.const 101) (i32.const 1))
        (call $emit (i32.const 200) (call $parameters_read (i32.const 200) (i32.const 1) (call $parameters_length)))
        (i32.const 0)"#,
    );
    let (mut running, modules) = begin(&bytes, "5 then 6");
    let adu = Adu::new(7, "body").with("size", 1.5).with("name", "ab");
    let processed = running.process(adu, &modules).unwrap();
    let bodies: Vec<&[u8]> = processed.adus.iter().map(|adu| &adu.body[..]).collect();
    assert_eq!(bodies, [&b"body"[..], b"o", b" then 6"]);
    let sizes: Vec<Option<f64>> = processed
        .adus
        .iter()
        .map(|adu| adu.fields.number("size"))
        .collect();
    assert_eq!(sizes, [Some(8.5), Some(1.5), Some(1.5)]);
    assert_eq!(processed.adus[1].fields.text("name"), Some("ab"));
    assert!(processed.adus.iter().all(|adu| adu.sequence == 7));
    assert!(processed.work > 100);
    // Absent fields are NaN and -1, and the body ends where it ends.
    let absent = process(
        r#"
        (if (i32.ne (call $text (i32.const 5) (i32.const 4) (i32.const 0) (i32.const 9)) (i32.const -1)) (then (return (i32.const 1))))
        (if (f64.eq (call $number (i32.const 0) (i32.const 4)) (call $number (i32.const 0) (i32.const 4))) (then (return (i32.const 2))))
        (call $read (i32.const 100) (i32.const 4) (i32.const 9))"#,
    );
    let (mut running, modules) = begin(&absent, "");
    assert_eq!(
        running.process(Adu::new(0, "body"), &modules).unwrap().adus,
        []
    );
}

#[test]
fn a_module_keeps_its_memory_until_it_fails() {
    let bytes = module(
        r#"
        (global $count (mut i32) (i32.const 0))
        (func (export "begin") (global.set $count (i32.const 48)))
        (func (export "process") (result i32)
            (global.set $count (i32.add (global.get $count) (i32.const 1)))
            (i32.store8 (i32.const 50) (global.get $count))
            (call $emit (i32.const 50) (i32.const 1))
            (i32.and (i32.ge_u (global.get $count) (i32.const 51)) (i32.const 9)))"#,
    );
    let (mut running, modules) = begin(&bytes, "");
    let mut next = || {
        running
            .process(Adu::new(0, ""), &modules)
            .map(|processed| processed.adus[0].body[0])
    };
    assert_eq!(next(), Ok(b'1'));
    assert_eq!(next(), Ok(b'2'));
    assert!(next().unwrap_err().reason.contains("returned 1"));
    assert_eq!(next(), Ok(b'1'));
}

#[test]
fn endless_loops_and_recursion_end() {
    let looping = process("(loop (br 0)) (i32.const 0)");
    let reason = failure(&looping);
    assert!(
        reason.contains("\"wasm\", cannot process ADU 7") && reason.contains("fuel"),
        "{reason}"
    );
    // Calls of the interface in a loop take fuel, too.
    let calling = process(
        "(loop (drop (call $read (i32.const 0) (i32.const 0) (i32.const 4))) (br 0)) (i32.const 0)",
    );
    assert!(failure(&calling).contains("fuel"));
    let recursive = module(
        r#"(func $deep (result i32) (i32.add (call $deep) (i32.const 1)))
        (func (export "process") (result i32) (call $deep))"#,
    );
    assert!(failure(&recursive).contains("nested too deeply"));
}

#[test]
fn memory_and_tables_do_not_grow_beyond_their_bounds() {
    // One page and fifteen more are a MiB.
    let growing = process(
        r#"
        (if (i32.ne (memory.grow (i32.const 15)) (i32.const 1)) (then (return (i32.const 2))))
        (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1)) (then (return (i32.const 3))))
        (i32.const 0)"#,
    );
    let (mut running, modules) = begin(&growing, "");
    assert_eq!(running.process(Adu::new(0, ""), &modules).unwrap().adus, []);
    let process = "(func (export \"process\") (result i32) (i32.const 0))";
    for large in [
        "(memory (export \"memory\") 17)",
        "(memory (export \"memory\") 1) (table 100000000 funcref)",
    ] {
        let bytes = wat::parse_str(format!("(module {large} {process})")).unwrap();
        let modules = Modules::default();
        let hash = modules.add(&bytes);
        let Ok(hash) = hash else { continue };
        let step = crate::Step::Wasm {
            hash,
            parameters: String::new(),
        };
        let error = Pipeline::new(vec![step]).unwrap().start(&modules, limits());
        assert!(error.is_err(), "{large}");
    }
    let growing = module(
        r#"(table $table 1 funcref)
        (func (export "process") (result i32)
            (i32.eq (table.grow $table (ref.null func) (i32.const 1000000)) (i32.const -1)))"#,
    );
    assert!(failure(&growing).contains("returned 1"));
}

#[test]
fn traps_and_lying_lengths_are_failures() {
    for (body, part) in [
        ("(unreachable)", "trapped"),
        ("(i32.div_u (i32.const 1) (i32.const 0))", "trapped"),
        ("(i32.load (i32.const -1))", "trapped"),
        ("(i32.const 5)", "returned 5"),
        (
            "(call $emit (i32.const 65535) (i32.const 2)) (i32.const 0)",
            "not in its memory",
        ),
        (
            "(call $emit (i32.const -1) (i32.const -1)) (i32.const 0)",
            "",
        ),
        (
            "(call $read (i32.const 65534) (i32.const 0) (i32.const 4))",
            "not in its memory",
        ),
        (
            "(call $fail (i32.const 10) (i32.const 6)) (i32.const 0)",
            "reason",
        ),
        (
            "(call $fail (i32.const 10) (i32.const 600)) (i32.const 0)",
            "at most 256 bytes",
        ),
        (
            "(call $set_number (i32.const 0) (i32.const 0) (f64.const 0)) (i32.const 0)",
            "1 to 256 bytes",
        ),
        (
            "(call $text (i32.const 5) (i32.const 4) (i32.const 65535) (i32.const 9))",
            "not in its memory",
        ),
        (
            "(loop (call $emit (i32.const 0) (i32.const 1)) (br 0)) (i32.const 0)",
            "more than 8 ADUs",
        ),
        (
            "(call $emit (i32.const 0) (i32.const 4097)) (i32.const 0)",
            "4096 bytes",
        ),
    ] {
        let reason = failure(&process(body));
        assert!(reason.contains(part), "{body}: {reason}");
    }
}

#[test]
fn modules_that_ask_for_more_than_the_interface_are_refused() {
    let process = "(func (export \"process\") (result i32) (i32.const 0))";
    let memory = "(memory (export \"memory\") 1)";
    let modules = Modules::default();
    let deep = format!("(func {} {})", "(block ".repeat(5_000), ")".repeat(5_000));
    for text in [
        format!("(import \"env\" \"clock\" (func (result i64))) {memory} {process}"),
        format!("(import \"anabranch1\" \"length\" (func (result i64))) {memory} {process}"),
        format!("(import \"anabranch2\" \"length\" (func (result i32))) {memory} {process}"),
        format!("(import \"anabranch1\" \"memory\" (memory 1)) {memory} {process}"),
        process.to_owned(),
        memory.to_owned(),
        format!("{memory} (func (export \"process\") (param i32) (result i32) (i32.const 0))"),
        format!("{memory} {process} (func (export \"begin\") (result i32) (i32.const 0))"),
        format!("{memory} {process} (func $start) (start $start)"),
        format!("{memory} (memory 1) {process}"),
    ] {
        let bytes = wat::parse_str(format!("(module {text})")).unwrap();
        let error = modules.add(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("the module "), "{text}: {error}");
    }
    for bytes in [
        &b""[..],
        b"\0asm",
        b"\0asm\x01\0\0\0\x0a\xff\xff\xff\xff\x0f",
    ] {
        assert!(modules.add(bytes).is_err());
    }
    assert_eq!(
        modules.add(&vec![0; MODULE_BYTES_MAX + 1]),
        Err(ModuleError::Size(MODULE_BYTES_MAX + 1))
    );
    // Nesting is bounded by the size of the module alone.
    let bytes = wat::parse_str(format!("(module {memory} {process} {deep})")).unwrap();
    let _ = modules.add(&bytes);
}

#[test]
fn modules_are_known_by_their_hash() {
    let modules = Modules::default();
    let bytes = process("(i32.const 0)");
    let hash = ModuleHash(*blake3::hash(&bytes).as_bytes());
    assert_eq!(
        modules.add_received(&ModuleHash::default(), &bytes),
        Err(ModuleError::Hash)
    );
    assert!(!modules.contains(&hash));
    assert_eq!(modules.add_received(&hash, &bytes), Ok(()));
    assert_eq!(modules.add(&bytes), Ok(hash));
    for number in 1..MODULES_MAX {
        modules
            .add(&process(&format!("(i32.const {number})")))
            .unwrap();
    }
    assert_eq!(
        modules.add(&process("(i32.const -1)")),
        Err(ModuleError::Full)
    );
    assert!(modules.remove(&hash) && !modules.remove(&hash));
}

/// The interpreter asserts that a code section without functions is empty, before the bytes are validated.
#[test]
fn a_code_section_with_bytes_but_no_function_is_an_error() {
    let modules = Modules::default();
    let bytes = [&b"\0asm\x01\0\0\0"[..], &[10, 0xd0, 0x0f], &[0; 2_000]].concat();
    let error = modules.add(&bytes).unwrap_err().to_string();
    assert!(
        error.starts_with("the module cannot be used: ") && !error.contains("panicked"),
        "{error}"
    );
}
