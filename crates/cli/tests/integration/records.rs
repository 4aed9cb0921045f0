//! `anabranch records`: sets that are served through one node and fetched through another.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::harness::{Killed, Running, command, free_port, limited, private_folder, signal};
use crate::numbered::{id, start};

const RECORDS: u64 = 30;
/// Two paths of 8 Mbit/s, as far as a sender with a fixed rate knows.
const SLOW: &str = "[channel]\ncontroller = \"fixed 8 Mbit/s\"\n";

/// A node that lets another one use these services, a node with that peer, and an application with sets.
struct Setting {
    folder: tempfile::TempDir,
    served: Option<Running>,
    _nodes: [Running; 2],
}

impl Setting {
    fn start(services: &str, more: &str) -> Self {
        Self::start_with(services, more, "may = []")
    }

    /// As [`Setting::start`]; the far node has rights, too.
    fn start_both(services: &str, far_may: &str) -> Self {
        Self::start_with(services, "", far_may)
    }

    fn start_with(services: &str, more: &str, far_may: &str) -> Self {
        let folder = private_folder();
        let at = folder.path();
        climate(&at.join("sets/climate"));
        let far = [free_port(), free_port()];
        let may = format!(
            "[[peer]]\nname = \"near\"\nnode = \"{}\"\nmay = [\"call\", {{ right = \"use-service\", services = [{services}] }}]\n{more}",
            id(1)
        );
        let archive = start(at, 2, &far, &may);
        let peer = format!(
            "[[peer]]\nname = \"far\"\nnode = \"{}\"\n{far_may}\naddresses = [\"{}\", \"{}\"]\n{more}",
            id(2),
            far[0],
            far[1]
        );
        let near = start(at, 1, &[free_port()], &peer);
        let mut setting = Self {
            folder,
            served: None,
            _nodes: [archive, near],
        };
        setting.serve();
        setting
    }

    fn at(&self) -> &Path {
        self.folder.path()
    }

    fn serve(&mut self) {
        let serve = ["records", "serve", "sets", "--json", "--local", "2.local"];
        let mut served = Running::start(command(self.at()).args(serve));
        served.event("serving");
        self.served = Some(served);
    }

    fn arguments<'a>(words: &[&'a str]) -> Vec<&'a str> {
        [&["records"], words, &["--local", "1.local"]].concat()
    }

    /// Exit code, output and errors.
    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = limited(self.at(), 90).args(Self::arguments(words)).output();
        let Output {
            status,
            stdout,
            stderr,
        } = output.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    #[track_caller]
    fn succeeds(&self, words: &[&str]) -> String {
        let (code, out, err) = self.run(words);
        assert_eq!(code, Some(0), "{words:?}: {out}{err}");
        out
    }

    #[track_caller]
    fn fails(&self, code: i32, words: &[&str], says: &str) {
        let (found, out, err) = self.run(words);
        assert_eq!(found, Some(code), "{words:?}: {out}{err}");
        assert!(err.contains(says), "{words:?}: {err}");
    }

    #[track_caller]
    fn is_same(&self, copy: &str) {
        let (one, other) = (self.at().join("sets/climate"), self.at().join(copy));
        assert_eq!(files(&one), files(&other));
        for name in files(&one) {
            let same = fs::read(one.join(&name)).unwrap() == fs::read(other.join(&name)).unwrap();
            assert!(same, "{}", name.display());
        }
    }
}

/// Paths beneath a directory, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                false => found.push(path.strip_prefix(folder).unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A set of three components: numbers in one file, images of different sizes, notes of some records.
fn climate(folder: &Path) {
    fs::create_dir_all(folder.join("images")).unwrap();
    fs::write(
        folder.join("numbers.dat"),
        noise(1, 30_000 * RECORDS as usize),
    )
    .unwrap();
    for record in 0..RECORDS {
        let image = noise(record + 2, 1_000 * (record as usize * 7 % 60));
        fs::write(folder.join(format!("images/{record:02}.png")), image).unwrap();
        if record % 5 == 0 {
            fs::write(
                folder.join(format!("{record}.txt")),
                format!("note {record}"),
            )
            .unwrap();
        }
    }
    let manifest = format!(
        "rate = \"20/s\"\n\
         [[component]]\nname = \"numbers\"\nfile = \"numbers.dat\"\nsize = 30000\npromise = 0.9\n\
         [[component]]\nname = \"image\"\nfile = \"images/{{n:02}}.png\"\n\
         [[component]]\nname = \"note\"\nfile = \"{{n}}.txt\"\noptional = true\n\
         [records]\ncount = {RECORDS}\n"
    );
    fs::write(folder.join("records.toml"), manifest).unwrap();
}

const ALL: &str = r#""records/1/*""#;

#[test]
fn a_set_is_listed_fetched_and_verified_in_every_layout() {
    let setting = Setting::start(ALL, "");
    let out = setting.succeeds(&["ls", "far"]);
    assert!(
        out.contains("climate") && out.contains("numbers, image, note"),
        "{out}"
    );
    let out = setting.succeeds(&["ls", "far:climate"]);
    assert!(
        out.contains("30 records, 20 a second") && out.contains("4.80 Mbit/s"),
        "{out}"
    );
    for (number, layout) in ["pgos", "partitioned", "blocked:16KiB"]
        .into_iter()
        .enumerate()
    {
        let copy = format!("copy{number}");
        let out = setting.succeeds(&["get", "far:climate", &copy, "--layout", layout]);
        assert!(out.contains("the set is complete"), "{out}");
        setting.is_same(&copy);
    }
    let out = setting.succeeds(&["verify", "far:climate", "copy1"]);
    assert!(out.starts_with("90 parts compared"), "{out}");
    // What is there already is not fetched again.
    let out = setting.succeeds(&["get", "far:climate", "copy1", "--json"]);
    assert!(
        out.contains(r#""bytes_moved":0"#) && out.contains(r#""is_complete":true"#),
        "{out}"
    );
    // Differences of every kind.
    let copy = setting.at().join("copy1");
    let mut numbers = fs::read(copy.join("numbers.dat")).unwrap();
    numbers[70_000] ^= 1;
    fs::write(copy.join("numbers.dat"), numbers).unwrap();
    fs::write(copy.join("images/03.png"), "x").unwrap();
    fs::remove_file(copy.join("images/04.png")).unwrap();
    fs::write(copy.join("1.txt"), "surplus").unwrap();
    let (code, out, _) = setting.run(&["verify", "far:climate", "copy1", "--json"]);
    assert_eq!(code, Some(1), "{out}");
    for words in [
        r#""record":2,"component":"numbers","words":"the bytes differ"#,
        r#""record":3,"component":"image","words":"it has 1 bytes here, and 21000"#,
        r#""record":4,"component":"image","words":"it is not here"#,
        r#""record":1,"component":"note","words":"it is here, and the peer has none"#,
        r#""differences":4"#,
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
}

#[test]
fn a_part_of_a_set_is_fetched_and_the_rest_later() {
    let setting = Setting::start(ALL, "");
    let some = [
        "get",
        "far:climate",
        "copy",
        "-c",
        "numbers",
        "--records",
        "3..5",
    ];
    let out = setting.succeeds(&some);
    assert!(out.contains("60.0 kB moved, a part of the set"), "{out}");
    let path = out.lines().last().unwrap();
    assert!(
        path.starts_with("  lo → 127.0.0.1:") && path.ends_with(" %"),
        "{out}"
    );
    let bytes = [
        "get",
        "far:climate",
        "copy",
        "-c",
        "image",
        "--bytes",
        "100..300",
        "--records",
        "..6",
    ];
    setting.succeeds(&bytes);
    let image = fs::read(setting.at().join("copy/images/03.png")).unwrap();
    let whole = fs::read(setting.at().join("sets/climate/images/03.png")).unwrap();
    assert_eq!((image.len(), &image[100..]), (300, &whole[100..300]));
    let (_, out, _) = setting.run(&["get", "far:climate", "copy", "--json"]);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(last["kind"], "fetched");
    assert_eq!(last["components"][0]["records_present_before"], 2);
    let paths = last["paths"].as_array().unwrap().iter();
    let carried: u64 = paths.map(|path| path["bytes"].as_u64().unwrap()).sum();
    assert!(
        carried >= last["bytes_moved"].as_u64().unwrap(),
        "headers and hashes, too: {last}"
    );
    // An event for each record that became complete.
    let records = out
        .lines()
        .filter(|line| line.contains(r#""kind":"record""#));
    assert_eq!(records.count() as u64, RECORDS);
    setting.is_same("copy");
    setting.fails(
        2,
        &["get", "far:climate", "x", "-c", "sound"],
        "numbers, image, note",
    );
    setting.fails(
        2,
        &["get", "far:climate", "x", "--records", "30.."],
        "30 records",
    );
    setting.fails(
        2,
        &["get", "far:climate", "x", "--layout", "striped"],
        "blocked:SIZE",
    );
    setting.fails(2, &["get", "far"], "PEER:SET");
    setting.fails(2, &["get", "far:climate", "--records", "5..3"], "is empty");
    setting.fails(6, &["serve", "nowhere"], "nowhere is no directory");
    setting.fails(2, &["get", "nobody:climate"], "nobody");
    setting.fails(4, &["get", "far:weather"], "no set 'weather'");
    setting.fails(6, &["get", "far:climate", "sets"], "not empty");
}

#[test]
fn a_fetch_that_was_killed_goes_on_where_it_stopped() {
    let mut setting = Setting::start(ALL, SLOW);
    fs::write(
        setting.at().join("sets/climate/images/07.png"),
        noise(99, 6_000_000),
    )
    .unwrap();
    let arguments = Setting::arguments(&["get", "far:climate", "copy", "--retry", "60 s"]);
    let note = setting.at().join("copy/.anabranch-records");
    let noted = || fs::read_to_string(&note).map_or(0, |text| text.lines().count());
    for round in 0..3 {
        let mut child = Killed(command(setting.at()).args(&arguments).spawn().unwrap());
        let before = noted();
        while noted() <= before.max(1) {
            assert!(child.0.try_wait().unwrap().is_none(), "it ended before");
            thread::sleep(Duration::from_millis(20));
        }
        if round == 1 {
            // The application at the peer is killed, too; the command waits for another one.
            let served = setting.served.take().unwrap();
            signal(served.id(), "KILL");
            drop(served);
            thread::sleep(Duration::from_millis(300));
            assert!(child.0.try_wait().unwrap().is_none());
            setting.serve();
        }
        signal(child.0.id(), "KILL");
        child.0.wait().unwrap();
    }
    let out = setting.succeeds(&["get", "far:climate", "copy", "--json"]);
    let last: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let moved = last["bytes_moved"].as_u64().unwrap();
    assert!(moved < 7_000_000, "all was fetched again: {moved}");
    setting.is_same("copy");
}

/// A set with minutes of data for paths of 8 Mbit/s, most of which the disk does not have.
fn fields(setting: &Setting) {
    let set = setting.at().join("sets/fields");
    fs::create_dir(&set).unwrap();
    let manifest = "[[component]]\nname = \"large\"\nfile = \"large.dat\"\nsize = 400_000\n\
         [[component]]\nname = \"small\"\nfile = \"small.dat\"\nsize = 100_000\n\
         [records]\ncount = 1_000\n";
    fs::write(set.join("records.toml"), manifest).unwrap();
    for (name, bytes) in [("large.dat", 400_000_000), ("small.dat", 100_000_000)] {
        let file = fs::File::create(set.join(name)).unwrap();
        file.set_len(bytes).unwrap();
    }
}

#[test]
fn progress_has_the_bytes_of_each_path() {
    let setting = Setting::start_with(ALL, SLOW, BACK);
    fields(&setting);
    let _accepting = accepting(&setting, "inbox");
    let commands: [(&[&str], &str); 3] = [
        (&["get", "far:fields", "copy"], "1.local"),
        (&["copy", "far:fields", "near"], "1.local"),
        (&["put", "sets/fields", &id(1)], "2.local"),
    ];
    for (words, local) in commands {
        let _ = fs::remove_dir_all(setting.at().join("inbox/fields"));
        let arguments = [&["records"], words, &["--json", "--local", local]].concat();
        let mut running = Running::start(command(setting.at()).args(arguments));
        // The events go on for as long as the command does.
        loop {
            let event = running.event("progress");
            let paths = event["paths"].as_array().unwrap();
            let bytes = |path: &Value| path["bytes"].as_u64().unwrap();
            if paths.len() == 2 && paths.iter().all(|path| bytes(path) > 0) {
                for path in paths {
                    let name = path["name"].as_str().unwrap();
                    assert!(
                        name.contains("127.0.0.1:") || name.ends_with("of the peer"),
                        "{name}"
                    );
                    assert!(path["rate_bps"].is_u64(), "{path}");
                }
                break;
            }
        }
    }
}

#[test]
fn the_side_that_sends_has_the_weights_of_the_components() {
    let setting = Setting::start(ALL, SLOW);
    fields(&setting);
    // Minutes of data: both streams are open for as long as it takes to look at them.
    let get = Setting::arguments(&["get", "far:fields", "copy"]);
    let mut getting = Killed(command(setting.at()).args(&get).spawn().unwrap());
    let mut weights: Vec<(String, u64)> = Vec::new();
    while weights.len() < 2 {
        assert!(getting.0.try_wait().unwrap().is_none(), "it ended before");
        let streams = ["streams", "--json", "--control", "2.sock"];
        let output = limited(setting.at(), 30).args(streams).output().unwrap();
        let streams: Value = serde_json::from_slice(&output.stdout).unwrap();
        let streams = streams["rows"].as_array().unwrap();
        let of_data = streams.iter().filter_map(|stream| {
            let label = stream["label"].as_str()?;
            let component = label.strip_prefix("records/1/get/fields/")?;
            Some((component.to_owned(), stream["weight"].as_u64()?))
        });
        weights = of_data.collect();
        weights.sort();
    }
    assert_eq!(
        weights,
        [("large".to_owned(), 1_000), ("small".to_owned(), 250)]
    );
}

#[test]
fn rights_are_by_set_and_what_cannot_be_sent_is_named() {
    let setting = Setting::start(r#""records/1/get/climate*""#, "");
    setting.fails(4, &["ls", "far"], "use-service");
    setting.succeeds(&["get", "far:climate", "-c", "note"]);
    setting.fails(4, &["get", "far:other"], "use-service");
    // A source that lies: a file that is missing, one that is short.
    let set = setting.at().join("sets/climate");
    fs::remove_file(set.join("images/09.png")).unwrap();
    fs::write(set.join("numbers.dat"), noise(1, 30_000 * 29)).unwrap();
    let get = ["get", "far:climate", "copy"];
    setting.fails(4, &get, "missing: image of record 9: its file is not there");
    setting.fails(
        4,
        &get,
        "missing: numbers of record 29: its file ends before it does",
    );
    // It is mended, and the rest comes.
    fs::write(set.join("images/09.png"), "x").unwrap();
    fs::write(set.join("numbers.dat"), noise(1, 30_000 * 30)).unwrap();
    let out = setting.succeeds(&get);
    assert!(out.contains("30.0 kB moved, the set is complete"), "{out}");
    setting.is_same("copy");
    // Another manifest is another set.
    let manifest = fs::read_to_string(set.join("records.toml")).unwrap();
    fs::write(
        set.join("records.toml"),
        manifest.replace("= 30\n", "= 29\n"),
    )
    .unwrap();
    setting.fails(6, &get, "another version");
}

#[test]
fn records_are_watched_as_they_are_produced() {
    let setting = Setting::start(ALL, "");
    let set = setting.at().join("sets/climate");
    // Records 20 and later are not there yet.
    let whole = fs::read(set.join("numbers.dat")).unwrap();
    fs::write(set.join("numbers.dat"), &whole[..20 * 30_000]).unwrap();
    let watch = [
        "watch",
        "far:climate",
        "copy",
        "-c",
        "numbers",
        "-c",
        "image",
        "--json",
    ];
    let mut watching = Running::start(command(setting.at()).args(Setting::arguments(&watch)));
    // Packets of several paths may overtake each other.
    let mut come = |records: std::ops::Range<u64>| {
        let record = |_| watching.event("record")["record"].as_u64().unwrap();
        let mut complete: Vec<u64> = records.clone().map(record).collect();
        complete.sort_unstable();
        assert_eq!(complete, records.collect::<Vec<u64>>());
    };
    come(0..20);
    fs::write(set.join("numbers.dat"), &whole).unwrap();
    come(20..RECORDS);
    let event = watching.event("fetched");
    assert_eq!(event["missing"], 0);
    drop(watching);
    assert_eq!(
        fs::read(setting.at().join("copy/numbers.dat")).unwrap(),
        whole
    );
}

#[test]
fn what_is_late_for_who_watches_is_left_out() {
    let setting = Setting::start(ALL, "");
    let set = setting.at().join("sets/climate");
    let manifest = fs::read_to_string(set.join("records.toml")).unwrap();
    let manifest = manifest.replace("{n:02}.png\"\n", "{n:02}.png\"\ndeadline = \"200 ms\"\n");
    fs::write(set.join("records.toml"), manifest).unwrap();
    fs::remove_file(set.join("images/05.png")).unwrap();
    // A part of which some bytes are there is watched as any other.
    setting.succeeds(&[
        "get",
        "far:climate",
        "copy",
        "-c",
        "image",
        "--records",
        "3",
        "--bytes",
        "..9",
    ]);
    let (code, out, err) = setting.run(&["watch", "far:climate", "copy", "--records", "..8"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let late = "missing: image of record 5: it was too late to be of use";
    assert!(err.contains(late), "{err}");
    assert!(!setting.at().join("copy/images/05.png").exists());
    let numbers = fs::read(setting.at().join("copy/numbers.dat")).unwrap();
    assert_eq!(numbers[..8 * 30_000], noise(1, 8 * 30_000)[..]);
    // Who wants all of it is told what is missing.
    setting.fails(
        4,
        &["get", "far:climate", "copy"],
        "image of record 5: its file is not there",
    );
}

/// An application at the near node that accepts sets, beside the one that serves them at the far node.
fn accepting(setting: &Setting, folder: &str) -> Running {
    fs::create_dir(setting.at().join(folder)).unwrap();
    let serve = [
        "records", "serve", folder, "--accept", "--json", "--local", "1.local",
    ];
    let mut served = Running::start(command(setting.at()).args(serve));
    served.event("serving");
    served
}

/// The far node may send sets to the near one.
const BACK: &str = r#"may = ["call", { right = "use-service", services = ["records/1/put/*"] }]"#;

#[test]
fn a_set_is_sent_and_goes_on_where_it_was_interrupted() {
    let mut setting = Setting::start(ALL, SLOW);
    fs::create_dir(setting.at().join("own")).unwrap();
    let own = setting.at().join("own/weather");
    climate(&own);
    fs::write(own.join("images/07.png"), noise(99, 3_000_000)).unwrap();
    // The application takes none, unless it is told to.
    setting.fails(4, &["put", "own/weather", "far"], "--accept");
    drop(setting.served.take());
    let serve = [
        "records", "serve", "sets", "--accept", "--json", "--local", "2.local",
    ];
    let serve = |setting: &Setting| {
        let mut served = Running::start(command(setting.at()).args(serve));
        served.event("serving");
        served
    };
    setting.served = Some(serve(&setting));
    let there = setting.at().join("sets/weather");
    let note = there.join(".anabranch-records");
    let lines = || fs::read_to_string(&note).map_or(0, |text| text.lines().count());
    let arguments = Setting::arguments(&["put", "own/weather", "far"]);
    for who in ["sender", "receiver"] {
        let mut child = Killed(command(setting.at()).args(&arguments).spawn().unwrap());
        let before = lines();
        while lines() <= before.max(1) && child.0.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(20));
        }
        if who == "receiver" {
            let served = setting.served.take().unwrap();
            signal(served.id(), "KILL");
            drop(served);
            // What is not complete is not served.
            setting.served = Some(serve(&setting));
            let out = setting.succeeds(&["ls", "far"]);
            assert!(lines() == 0 || !out.contains("weather"), "{out}");
        } else {
            signal(child.0.id(), "KILL");
        }
        child.0.wait().unwrap();
    }
    let out = setting.succeeds(&["put", "own/weather", "far"]);
    assert!(out.contains("the set is complete there"), "{out}");
    assert_eq!(files(&own), files(&there));
    let out = setting.succeeds(&["verify", "far:weather", "own/weather"]);
    assert!(out.starts_with("90 parts compared"), "{out}");
    // Another set of this name is not overwritten.
    let manifest = fs::read_to_string(own.join("records.toml")).unwrap();
    fs::write(
        own.join("records.toml"),
        manifest.replace("= 30\n", "= 29\n"),
    )
    .unwrap();
    setting.fails(4, &["put", "own/weather", "far"], "of this name already");
    // Parts that are missing here are named, and what is there is kept.
    fs::write(own.join("records.toml"), manifest).unwrap();
    fs::remove_dir_all(&there).unwrap();
    fs::remove_file(own.join("images/02.png")).unwrap();
    setting.fails(
        4,
        &["put", "own/weather", "far"],
        "missing: image of record 2",
    );
    fs::write(own.join("images/02.png"), "late").unwrap();
    setting.succeeds(&["put", "own/weather", "far"]);
    assert_eq!(
        fs::read_to_string(there.join("images/02.png")).unwrap(),
        "late"
    );
}

#[test]
fn a_set_is_copied_between_others() {
    // The near node gives the orders; the far one has the set, and sends it to a third, which is the near node's other application.
    let setting = Setting::start_both(ALL, BACK);
    let _accepting = accepting(&setting, "inbox");
    let out = setting.succeeds(&["copy", "far:climate", "near"]);
    assert!(out.contains("the set is complete at near"), "{out}");
    setting.is_same("inbox/climate");
    setting.fails(
        4,
        &["copy", "far:climate", "nobody"],
        "cannot reach 'nobody'",
    );
    setting.fails(4, &["copy", "far:weather", "near"], "no set 'weather'");
    // The third party vanishes: the reason arrives, and no hidden success.
    fs::remove_dir_all(setting.at().join("inbox")).unwrap();
    drop(_accepting);
    setting.fails(4, &["copy", "far:climate", "near"], "failed");
}

#[test]
fn parts_of_any_size_take_what_is_asked_of_them() {
    let setting = Setting::start(ALL, "");
    let set = setting.at().join("sets/huge");
    fs::create_dir(&set).unwrap();
    let manifest = "[[component]]\nname = \"a\"\nfile = \"{n}.dat\"\n[records]\ncount = 2\n";
    fs::write(set.join("records.toml"), manifest).unwrap();
    fs::write(set.join("1.dat"), "").unwrap();
    let whole = fs::File::create(set.join("0.dat")).unwrap();
    whole.set_len(100_000_000_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&whole, b"the end", 100_000_000_000 - 7).unwrap();
    let get = ["get", "far:huge", "copy", "--bytes", "99999999990.."];
    let out = setting.succeeds(&get);
    assert!(out.contains("10 B moved"), "{out}");
    let copy = fs::File::open(setting.at().join("copy/0.dat")).unwrap();
    let mut end = [0; 10];
    std::os::unix::fs::FileExt::read_exact_at(&copy, &mut end, 99_999_999_990).unwrap();
    assert_eq!(&end, b"\0\0\0the end");
    assert_eq!(
        fs::metadata(setting.at().join("copy/1.dat")).unwrap().len(),
        0
    );
}

/// Where this user may mount a small file system for one process.
fn limited_disk(setting: &Setting, folder: &str, words: &[&str]) -> Option<Output> {
    let script = format!("mount -t tmpfs -o size=1M none {folder} && exec \"$@\"");
    let program = env!("CARGO_BIN_EXE_anabranch");
    let isolated = |arguments: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        crate::harness::isolate(&mut command, setting.at());
        command
            .args(["-rm", "sh", "-c", &script, "sh"])
            .args(arguments)
            .output()
            .unwrap()
    };
    isolated(&["true"])
        .status
        .success()
        .then(|| isolated(&[&["timeout", "60", program], words].concat()))
}

#[test]
fn a_full_disk_is_reported_and_what_arrived_is_kept() {
    let setting = Setting::start_both(ALL, BACK);
    fs::write(
        setting.at().join("sets/climate/images/07.png"),
        noise(99, 3_000_000),
    )
    .unwrap();
    fs::create_dir(setting.at().join("disk")).unwrap();
    let words = Setting::arguments(&["get", "far:climate", "disk/copy"]);
    let Some(output) = limited_disk(&setting, "disk", &words) else {
        return;
    };
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(6), "{err}");
    assert!(err.contains("No space left on device"), "{err}");
    // The same of a peer that takes a set.
    fs::create_dir(setting.at().join("small")).unwrap();
    let serve = [
        "records", "serve", "small", "--accept", "--local", "1.local",
    ];
    let script = "mount -t tmpfs -o size=1M none small && exec \"$@\"";
    let mut serving = std::process::Command::new("unshare");
    crate::harness::isolate(&mut serving, setting.at());
    serving.args([
        "-rm",
        "sh",
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_anabranch"),
    ]);
    let mut serving = Running::start(serving.args(serve).stdout(std::process::Stdio::piped()));
    assert!(serving.line().starts_with("Serving"));
    let put = [
        "records",
        "put",
        "sets/climate",
        &id(1),
        "--local",
        "2.local",
    ];
    let output = limited(setting.at(), 60).args(put).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{err}");
    assert!(
        err.contains("cannot write the set: No space left on device"),
        "{err}"
    );
}
