//! Checker of the boundaries between crates (`docs/architecture.md`): permitted dependencies between crates, libraries confined
//! to one crate, and words banned from the engine's source; also of the ratchets on the code: fields of a struct (`fields`),
//! headers (`headers`), reasons of dependencies (`reasons`), links of documents (`links`).
//!
//! No dependencies: `tools/check-layers` compiles it with plain rustc and runs it on the repository; `tools/check-layers
//! --self-test` runs the fixtures at the end of this file, which prove that the checks can fail. It reads manifests line by
//! line and understands the forms that this repository uses: `name = …`, `name.workspace = true`, `[dependencies.name]`,
//! `package = "name"`.

#[path = "check_layers/fields.rs"]
mod fields;
#[path = "check_layers/headers.rs"]
mod headers;
#[path = "check_layers/links.rs"]
mod links;
#[path = "check_layers/reasons.rs"]
mod reasons;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Rules for the dependencies of one crate.
struct Layer {
    /// Folder under `crates/`, or the folder itself for crates outside.
    name: &'static str,
    /// Crates it may use directly; through them, all of their dependencies.
    uses: &'static [&'static str],
    /// Only the crates named, and none of their dependencies.
    is_strict: bool,
    /// Sans-IO: no clock, runtime, socket, file, environment, thread, global randomness.
    is_engine: bool,
}

const fn engine(name: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer {
        name,
        uses,
        is_strict: false,
        is_engine: true,
    }
}

const fn host(name: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer {
        name,
        uses,
        is_strict: false,
        is_engine: false,
    }
}

const fn guest(name: &'static str, uses: &'static [&'static str]) -> Layer {
    Layer {
        name,
        uses,
        is_strict: true,
        is_engine: false,
    }
}

/// The arrows of DESIGN §2. A new crate is refused until it is listed here.
const LAYERS: &[Layer] = &[
    engine("base", &[]),
    engine("link", &["base"]),
    engine("stats", &["base"]),
    engine("hose", &["base"]),
    engine("media", &["base"]),
    engine("recordset", &["base"]),
    engine("process", &["base", "hose"]),
    engine("route", &["base", "stats"]),
    engine("overlay", &["base", "stats", "route"]),
    engine("spec", &["base", "metering"]),
    engine("admission", &["base", "spec", "stats"]),
    engine("estimate", &["base", "spec", "stats"]),
    engine("sched", &["base", "spec", "hose"]),
    engine("metering", &["base"]),
    engine("channel", &["base", "stats"]),
    engine(
        "session",
        &[
            "base",
            "spec",
            "stats",
            "hose",
            "metering",
            "admission",
            "estimate",
            "sched",
            "channel",
        ],
    ),
    engine("twoflow", &["base", "stats"]),
    engine("sim", &["session", "link", "overlay"]),
    host("net", &["session", "link", "overlay"]),
    host("node", &["net"]),
    host(
        "lab",
        &[
            "sim",
            "node",
            "twoflow",
            "recordset",
            "records",
            "processing",
            "clinic",
        ],
    ),
    guest("gateway", &["node"]),
    guest("tunnel", &["node", "gateway"]),
    host(
        "cli",
        &[
            "node",
            "gateway",
            "tunnel",
            "hose",
            "console",
            "video",
            "records",
            "visualise",
            "processing",
            "clinic",
        ],
    ),
    guest("video", &["node", "media", "twoflow"]),
    guest("records", &["node", "recordset"]),
    guest("visualise", &["node", "hose", "console"]),
    guest("processing", &["node", "process", "stats"]),
    guest("clinic", &["node", "console"]),
    guest("python", &["node", "stats", "hose"]),
    // It uses the control socket of a node, with messages of its own.
    guest("console", &[]),
];

/// Libraries confined to the named crates, with the reason.
const CONFINED: &[(&str, &[&str], &str)] = &[
    (
        "noq-proto",
        &["channel"],
        "an upgrade of QUIC must affect only one crate",
    ),
    ("noq-udp", &["net"], "sockets live in the net crate"),
];

/// Libraries that no crate of the engine may depend on (dev-dependencies aside).
const HOST_LIBRARIES: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "mio",
    "socket2",
    "noq-udp",
    "quinn-udp",
    "rustix",
    "nix",
    "libc",
    "getrandom",
    "netlink-sys",
    "rtnetlink",
    "tun-rs",
    "if-addrs",
    "chrono",
    "tempfile",
];

/// Words that the source of an engine crate may not contain (tests, benches and programs aside), with the reason.
const FORBIDDEN: &[(&str, &str)] = &[
    ("Instant::now", "time comes in as an argument"),
    ("SystemTime::now", "time comes in as an argument"),
    ("thread::spawn", "the engine has no threads"),
    ("thread::sleep", "the engine never waits"),
    ("std::fs", "the engine has no files"),
    ("fs::", "the engine has no files"),
    ("File::open", "the engine has no files"),
    ("File::create", "the engine has no files"),
    ("std::env", "the engine has no environment"),
    ("env::", "the engine has no environment"),
    ("std::process", "the engine starts and ends no process"),
    ("UdpSocket", "sockets live in the net crate"),
    ("TcpStream", "sockets live in the net crate"),
    ("TcpListener", "sockets live in the net crate"),
    ("UnixStream", "sockets live in the net crate"),
    ("tokio::", "the engine has no runtime"),
    ("rand::rng", "randomness comes in as a seeded stream"),
    ("rand::random", "randomness comes in as a seeded stream"),
    ("thread_rng", "randomness comes in as a seeded stream"),
    ("ThreadRng", "randomness comes in as a seeded stream"),
    ("OsRng", "randomness comes in as a seeded stream"),
    ("SysRng", "randomness comes in as a seeded stream"),
    ("getrandom", "randomness comes in as a seeded stream"),
    (
        "RandomState",
        "hash order must not decide anything; use a BTreeMap",
    ),
];

/// Files that may contain one of the words, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "crates/sim/src/epoch.rs",
    "Instant::now",
    "QUIC's types hold an Instant, which cannot be made out of nothing; its value influences nothing",
)];

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    place: String,
    words: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.words)
    }
}

fn layer(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// The layer of a crate by its package name.
fn layer_of_package(package: &str) -> Option<&str> {
    if package == "anabranch" {
        return Some("node");
    }
    package.strip_prefix("anabranch-")
}

/// True if `from` may use `to`.
fn may_use(from: &Layer, to: &str) -> bool {
    from.uses.contains(&to)
        || !from.is_strict
            && from
                .uses
                .iter()
                .any(|via| layer(via).is_some_and(|via| may_use(via, to)))
}

#[derive(Debug, PartialEq, Eq)]
struct Dependency {
    line: usize,
    package: String,
    is_dev: bool,
}

/// Dependencies that a manifest names.
fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found: Vec<Dependency> = Vec::new();
    // Within a table of dependencies: whether it is for development, and whether it describes a single one.
    let mut table: Option<(bool, bool)> = None;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line
            .strip_prefix('[')
            .and_then(|rest| rest.split(']').next())
        {
            table = None;
            let (head, last) = header.rsplit_once('.').unwrap_or(("", header));
            if let Some(is_dev) = kind_of(last) {
                table = Some((is_dev, false));
            } else if let Some(is_dev) = kind_of(head.rsplit('.').next().unwrap_or(head)) {
                table = Some((is_dev, true));
                found.push(Dependency {
                    line: index + 1,
                    package: unquote(last),
                    is_dev,
                });
            }
            continue;
        }
        let Some((is_dev, is_single)) = table else {
            continue;
        };
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim();
        if line.starts_with('#') || key.is_empty() {
            continue;
        }
        if is_single {
            if key == "package"
                && let Some(last) = found.last_mut()
            {
                last.package = unquote(value);
            }
            continue;
        }
        let package = match value.split_once("package") {
            Some((_, rest)) => unquote(
                rest.trim_start_matches([' ', '='])
                    .split([',', '}'])
                    .next()
                    .unwrap_or(""),
            ),
            None => unquote(key.split('.').next().unwrap_or(key)),
        };
        found.push(Dependency {
            line: index + 1,
            package,
            is_dev,
        });
    }
    found
}

fn kind_of(table: &str) -> Option<bool> {
    match table {
        "dependencies" | "build-dependencies" => Some(false),
        "dev-dependencies" => Some(true),
        _ => None,
    }
}

fn unquote(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

fn check_manifest(name: &str, place: &str, manifest: &str) -> Vec<Violation> {
    let violation = |line: usize, words: String| Violation {
        place: format!("{place}:{line}"),
        words,
    };
    let Some(from) = layer(name) else {
        return vec![violation(
            1,
            format!(
                "'{name}' is unknown; add it to LAYERS in tools/check_layers.rs and to docs/architecture.md"
            ),
        )];
    };
    let mut broken = Vec::new();
    for dependency in dependencies(manifest) {
        let package = dependency.package.as_str();
        if let Some(to) = layer_of_package(package) {
            // Tests of guests may run in virtual time.
            let is_for_tests = dependency.is_dev && from.is_strict && to == "sim";
            if to != name && !is_for_tests && !may_use(from, to) {
                broken.push(violation(
                    dependency.line,
                    format!(
                        "'{name}' may not use '{to}'; it may use: {}",
                        list(from.uses)
                    ),
                ));
            }
            continue;
        }
        if let Some((_, layers, why)) = CONFINED.iter().find(|(library, ..)| *library == package)
            && !layers.contains(&name)
        {
            broken.push(violation(
                dependency.line,
                format!(
                    "'{name}' may not use {package}, only {} may: {why}",
                    list(layers)
                ),
            ));
        } else if from.is_engine && !dependency.is_dev && HOST_LIBRARIES.contains(&package) {
            broken.push(violation(
                dependency.line,
                format!("'{name}' is part of the engine and may not use {package}; do it in the net crate"),
            ));
        }
    }
    broken
}

fn list(names: &[&str]) -> String {
    if names.is_empty() {
        "no crate of ours".to_owned()
    } else {
        names.join(", ")
    }
}

fn check_source(name: &str, place: &str, source: &str) -> Vec<Violation> {
    let code = without_tests(&without_comments_and_strings(source));
    let is_engine = layer(name).is_some_and(|layer| layer.is_engine);
    let mut broken = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut report = |words: String| {
            broken.push(Violation {
                place: format!("{place}:{}", index + 1),
                words,
            })
        };
        if name != "channel" && holds(line, "noq_proto") {
            report(format!(
                "'{name}' names noq_proto; only the channel crate may"
            ));
        }
        if !is_engine {
            continue;
        }
        let hit = FORBIDDEN.iter().find(|(word, _)| holds(line, word));
        if let Some((word, why)) = hit
            && !EXCEPTIONS
                .iter()
                .any(|(file, allowed, _)| *file == place && allowed == word)
        {
            report(format!(
                "'{name}' is part of the engine and names {word}: {why}"
            ));
        }
    }
    if is_engine {
        broken.extend(fields::check(place, &code));
    }
    broken
}

/// True if `line` contains `word`, not as the end of a longer name.
fn holds(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let after = line[at + word.len()..].chars().next();
        !line[..at].chars().next_back().is_some_and(is_name)
            && (word.ends_with(':') || !after.is_some_and(is_name))
    })
}

/// Source with comments and the contents of literals blanked; line breaks stay.
fn without_comments_and_strings(source: &str) -> String {
    let text: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let at = |index: usize| text.get(index).copied().unwrap_or('\0');
    let mut i = 0;
    // Blanks everything up to `end`.
    let blank = |out: &mut String, from: usize, end: usize| {
        out.extend(
            text[from..end.min(text.len())]
                .iter()
                .map(|&c| if c == '\n' { '\n' } else { ' ' }),
        );
    };
    while i < text.len() {
        let start = i;
        if at(i) == '/' && at(i + 1) == '/' {
            while i < text.len() && at(i) != '\n' {
                i += 1;
            }
        } else if at(i) == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            loop {
                if at(i) == '/' && at(i + 1) == '*' {
                    depth += 1;
                    i += 2;
                } else if at(i) == '*' && at(i + 1) == '/' {
                    depth -= 1;
                    i += 2;
                } else {
                    i += 1;
                }
                if depth == 0 || i >= text.len() {
                    break;
                }
            }
        } else if let Some(hashes) = raw_string(&text, i) {
            while at(i) != '"' {
                i += 1;
            }
            i += 1;
            while i < text.len() && !(at(i) == '"' && (1..=hashes).all(|n| at(i + n) == '#')) {
                i += 1;
            }
            i += 1 + hashes;
        } else if at(i) == '"' {
            i += 1;
            while i < text.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if at(i) == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            // A character, not a lifetime.
            i += if at(i + 1) == '\\' { 3 } else { 2 };
            while i < text.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
        } else {
            out.push(at(i));
            i += 1;
            continue;
        }
        blank(&mut out, start, i);
    }
    out
}

/// Number of hashes, if a raw string begins here.
fn raw_string(text: &[char], i: usize) -> Option<usize> {
    let is_name = |c: &char| c.is_alphanumeric() || *c == '_';
    if i > 0 && is_name(&text[i - 1]) && text[i - 1] != 'b' {
        return None;
    }
    let rest = text[i..].strip_prefix(&['r'])?;
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(hashes)
}

/// Code with every item under `#[cfg(test)]` blanked.
fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(start) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..start]);
        let mut depth = 0usize;
        let end = rest[start..]
            .char_indices()
            .find_map(|(index, c)| {
                match c {
                    '{' => depth += 1,
                    '}' => depth = depth.saturating_sub(1),
                    ';' if depth == 0 => return Some(start + index + 1),
                    _ => {}
                }
                (c == '}' && depth == 0).then_some(start + index + 1)
            })
            .unwrap_or(rest.len());
        out.extend(rest[start..end].chars().filter(|&c| c == '\n'));
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Rust files under `folder`, programs and tests aside, in a stable order.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() {
            if name != "bin" && name != "tests" {
                sources(&path, into);
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "main.rs" {
            into.push(path);
        }
    }
}

fn check_crate(root: &Path, folder: &Path, broken: &mut Vec<Violation>) -> std::io::Result<()> {
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let place = |path: &Path| {
        path.strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    broken.extend(check_manifest(&name, &place(&manifest), &text));
    let document = fs::read_to_string(root.join("docs/dependencies.md"))?;
    let names = reasons::names(&document);
    broken.extend(reasons::check(
        &place(&manifest),
        &dependencies(&text),
        &names,
    ));
    let mut files = Vec::new();
    sources(&folder.join("src"), &mut files);
    let mut headers = headers::Tally::default();
    for file in files {
        let (place, source) = (place(&file), fs::read_to_string(&file)?);
        broken.extend(check_source(&name, &place, &source));
        headers.add(&place, &source);
    }
    broken.extend(headers.check(&name));
    Ok(())
}

fn run(root: &Path) -> std::io::Result<(usize, usize, Vec<Violation>)> {
    let (links, mut broken) = links::check_all(root)?;
    let mut crates = 0;
    for group in ["crates", "apps"] {
        let Ok(entries) = fs::read_dir(root.join(group)) else {
            continue;
        };
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        for folder in folders {
            if folder.join("Cargo.toml").is_file() {
                crates += 1;
                check_crate(root, &folder, &mut broken)?;
            }
        }
    }
    let python = root.join("python");
    if python.join("Cargo.toml").is_file() {
        crates += 1;
        check_crate(root, &python, &mut broken)?;
    }
    Ok((crates, links, broken))
}

fn main() -> ExitCode {
    let root = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("."), PathBuf::from);
    match run(&root) {
        Ok((0, ..)) => {
            eprintln!(
                "check-layers: no crate under {}; give the repository's root",
                root.display()
            );
            ExitCode::from(2)
        }
        Ok((crates, links, broken)) if broken.is_empty() => {
            println!("check-layers: {crates} crates respect their layers, {links} links resolve");
            ExitCode::SUCCESS
        }
        Ok((_, _, broken)) => {
            for violation in &broken {
                eprintln!("{violation}");
            }
            eprintln!(
                "check-layers: {} violation(s); the boundaries are described in docs/architecture.md",
                broken.len()
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("check-layers: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(broken: &[Violation]) -> String {
        broken.iter().map(|v| format!("{v}\n")).collect()
    }

    fn manifest(name: &str, text: &str) -> String {
        words(&check_manifest(name, "Cargo.toml", text))
    }

    fn source(name: &str, text: &str) -> String {
        words(&check_source(name, "src/lib.rs", text))
    }

    #[test]
    fn forbidden_arrows_are_refused() {
        for (from, to) in [
            ("sim", "anabranch-net"),
            ("net", "anabranch-sim"),
            ("sched", "anabranch-channel"),
            ("channel", "anabranch-sched"),
            ("base", "anabranch-session"),
            ("route", "anabranch-sched"),
            ("session", "anabranch-link"),
            ("video", "anabranch-net"),
            ("gateway", "anabranch-net"),
            ("records", "anabranch-hose"),
            ("clinic", "anabranch-visualise"),
            ("python", "anabranch-session"),
            ("console", "anabranch"),
            ("node", "anabranch-gateway"),
        ] {
            for form in [
                "{}.workspace = true",
                "{} = { path = \"x\" }",
                "other = { package = \"{}\" }",
            ] {
                let text = format!("[dependencies]\n{}\n", form.replace("{}", to));
                assert!(
                    manifest(from, &text).contains("may not use"),
                    "{from} -> {to} by {form}"
                );
            }
            let text = format!("[target.'cfg(unix)'.dev-dependencies.{to}]\nversion = \"1\"\n");
            assert!(
                manifest(from, &text).contains("may not use"),
                "{from} -> {to} in a table"
            );
        }
    }

    #[test]
    fn allowed_arrows_pass() {
        for (from, to) in [
            ("sim", "anabranch-base"),
            ("sim", "anabranch-link"),
            ("net", "anabranch-channel"),
            ("cli", "anabranch"),
            ("cli", "anabranch-gateway"),
            ("cli", "anabranch-clinic"),
            ("video", "anabranch"),
            ("visualise", "anabranch-hose"),
            ("python", "anabranch-stats"),
            ("session", "anabranch-sched"),
            ("base", "anabranch-base"),
        ] {
            assert_eq!(
                manifest(from, &format!("[dependencies]\n{to}.workspace = true\n")),
                ""
            );
        }
    }

    /// Guests' tests may run in virtual time; the guests themselves may not use it.
    #[test]
    fn tests_of_guests_may_simulate() {
        let sim = "anabranch-sim.workspace = true\n";
        assert_eq!(manifest("video", &format!("[dev-dependencies]\n{sim}")), "");
        let used = manifest("video", &format!("[dependencies]\n{sim}"));
        assert!(used.contains("may not use"));
        let node = manifest("node", &format!("[dev-dependencies]\n{sim}"));
        assert!(node.contains("may not use"));
    }

    #[test]
    fn libraries_stay_in_their_crates() {
        assert!(
            manifest("session", "[dependencies]\nnoq-proto = \"1\"\n").contains("only channel")
        );
        assert_eq!(
            manifest("channel", "[dependencies]\nnoq-proto = \"1\"\n"),
            ""
        );
        assert!(manifest("sim", "[dependencies]\ntokio.workspace = true\n").contains("engine"));
        assert_eq!(
            manifest("sim", "[dev-dependencies]\ntokio.workspace = true\n"),
            ""
        );
        assert_eq!(
            manifest("net", "[dependencies]\ntokio.workspace = true\n"),
            ""
        );
        assert_eq!(manifest("net", "[features]\ntokio = []\n"), "");
    }

    #[test]
    fn an_unknown_crate_is_refused() {
        assert!(manifest("attic", "").contains("is unknown"));
    }

    #[test]
    fn the_engine_names_no_clock_file_or_socket() {
        for (word, _) in FORBIDDEN {
            let text = format!("fn f() {{ let _ = {word}; }}");
            assert!(
                source("session", &text).contains("src/lib.rs:1: "),
                "{word}"
            );
            assert_eq!(source("net", &text), "", "{word} is a host's business");
        }
        assert!(
            source("link", "fn f() {\n    x(std::time::Instant::now())\n}")
                .contains("src/lib.rs:2")
        );
        assert!(source("net", "use noq_proto::Connection;").contains("only the channel crate"));
    }

    #[test]
    fn comments_strings_tests_and_longer_names_do_not_count() {
        for text in [
            "// Instant::now\nfn f() {}",
            "/* a /* nested */ Instant::now */ fn f() {}",
            "const A: &str = \"Instant::now \\\" std::fs\";",
            "const A: &str = r#\"Instant::now \" std::fs\"#;",
            "fn f<'a>(x: &'a str) -> char { '\"' } // std::env",
            "#[cfg(test)]\nmod tests { fn f() { if true { std::fs::read(\"x\"); } } }",
            "#[cfg(test)]\nuse std::fs;\n",
            "fn f(x: MyInstant) { my_fs::g(); }",
        ] {
            assert_eq!(source("session", text), "", "{text}");
        }
        let after = "#[cfg(test)]\nmod tests { }\nfn f() { std::env::var(\"X\"); }";
        assert!(
            source("session", after).contains("src/lib.rs:3"),
            "code after the tests counts"
        );
    }

    #[test]
    fn exceptions_are_for_one_word_in_one_file() {
        let place = "crates/sim/src/epoch.rs";
        assert_eq!(check_source("sim", place, "let x = Instant::now();"), []);
        assert_eq!(
            check_source("sim", place, "let x = SystemTime::now();").len(),
            1
        );
        assert_eq!(
            check_source("sim", "crates/sim/src/world.rs", "let x = Instant::now();").len(),
            1
        );
    }

    #[test]
    fn arrows_form_no_circle_and_name_known_crates() {
        for from in LAYERS {
            for to in from.uses {
                assert!(
                    layer(to).is_some(),
                    "{} uses '{to}', which is unknown",
                    from.name
                );
                assert!(
                    !layer(to).is_some_and(|to| may_use(to, from.name)),
                    "{} <-> {to}",
                    from.name
                );
            }
        }
    }
}
