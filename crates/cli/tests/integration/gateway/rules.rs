//! Rules of a running node and of a command, and what `anabranch flows` shows.

use std::path::Path;

use super::*;

fn free_tcp_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Runs a command to its end, and returns its exit code and what it printed.
fn ended(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(folder).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn rows(folder: &Path, arguments: &[&str]) -> Vec<Value> {
    let asked = [&["flows", "--json", "--control", "near.sock"], arguments].concat();
    let (code, text) = ended(folder, &asked);
    assert_eq!(code, Some(0), "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["rows"].as_array().unwrap().clone()
}

/// The far node, and the ID of the near one, whose key is `mine.key`.
fn far(folder: &Path, target: SocketAddr) -> (Running, String, SocketAddr) {
    let listen = free_port();
    let id = keygen(folder);
    let right = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
    configure(folder, listen, &id, &right);
    let mut far = Running::start(command(folder).args(["node", "--config", "far.toml"]));
    let line = far.line();
    let far_id = line.rsplit(' ').next().unwrap().to_owned();
    far.line();
    (far, far_id, listen)
}

#[test]
fn a_rule_file_is_put_into_force_whole_or_not_at_all() {
    let folder = private_folder();
    let folder = folder.path();
    let (target, at) = (echo(), free_tcp_port());
    let (_far, far_id, listen) = far(folder, target);
    let base = format!(
        "key = \"mine.key\"\nlisten = [\"127.0.0.1:0\"]\ncontrol = \"near.sock\"\n\
         [[peer]]\nname = \"far\"\nnode = \"{far_id}\"\nmay = []\naddresses = [\"{listen}\"]\n\
         [[forward]]\nlocal = \"{at}\"\npeer = \"far\"\nto = \"{target}\"\n"
    );
    let write =
        |rules: &str| fs::write(folder.join("near.toml"), format!("{base}{rules}")).unwrap();
    write("[[rule]]\nname = \"all\"\nservice = \"bulk\"\n");
    let mut near = Running::start(command(folder).args(["node", "--config", "near.toml"]));
    near.line();
    near.line();
    let mut open = connect(at);
    open.write_all(b"abc").unwrap();
    open.read_exact(&mut [0; 3]).unwrap();
    let flows = rows(folder, &[]);
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0]["rule"], "all");
    assert_eq!(flows[0]["service"], "bulk");
    assert_eq!(flows[0]["peer"], "far");
    assert_eq!(
        (&flows[0]["sent_bytes"], &flows[0]["received_bytes"]),
        (&3.into(), &3.into())
    );
    let (_, table) = ended(folder, &["flows", "--control", "near.sock"]);
    let line = table.lines().nth(1).unwrap();
    assert!(
        line.contains(&target.to_string()) && line.contains("bulk"),
        "{table}"
    );

    // Half written, as by an editor: refused by both ways of a reload.
    let deny = "[[rule]]\nname = \"none\"\ndeny = true\n";
    write(&deny[..deny.len() - 4]);
    let (code, text) = ended(folder, &["reload", "--control", "near.sock"]);
    assert!(
        code != Some(0) && text.contains("near.toml"),
        "{code:?} {text}"
    );
    signal(near.id(), "HUP");
    echoes(connect(at), b"the old rule is in force");
    let rules = rows(folder, &["--rules"]);
    assert_eq!(
        (&rules[0]["rule"], &rules[0]["flows"]),
        (&"all".into(), &2.into())
    );

    write(deny);
    let (code, text) = ended(folder, &["reload", "--control", "near.sock"]);
    assert_eq!(code, Some(0), "{text}");
    let mut refused = connect(at);
    let error = refused.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    let (_, table) = ended(folder, &["flows", "--rules", "--control", "near.sock"]);
    let line = table.lines().nth(1).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..5], ["none", "any", "deny", "1", "1"], "{table}");
    // What was open has the service that it began with.
    open.write_all(b"d").unwrap();
    open.read_exact(&mut [0]).unwrap();
    assert_eq!(rows(folder, &[])[0]["service"], "bulk");
    let (code, text) = ended(folder, &["node", "--check", "--config", "near.toml"]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_command_has_the_rules_of_its_configuration_or_a_profile() {
    let folder = private_folder();
    let folder = folder.path();
    let target = echo();
    let (_far, far_id, listen) = far(folder, target);
    let text = format!(
        "[[peer]]\nname = \"far\"\nnode = \"{far_id}\"\nmay = []\naddresses = [\"{listen}\"]\n\
         [[rule]]\nname = \"none\"\nmatch = {{ port = {} }}\ndeny = true\n",
        target.port()
    );
    fs::write(folder.join("rules.toml"), text).unwrap();
    let mapping = format!("0:{target}");
    let start = |more: &[&str]| {
        let file = [
            "forward",
            "--json",
            "--key",
            "mine.key",
            "--config",
            "rules.toml",
        ];
        let arguments = [&file[..], &["-L", &mapping, "far"], more].concat();
        Running::start(command(folder).args(arguments))
    };
    let mut ruled = start(&[]);
    let mut stream = connect(ruled.listening());
    assert!(stream.read(&mut [0; 8]).is_err());
    let event = ruled.event("failed");
    assert_eq!(event["code"], "not allowed");
    assert!(
        event["text"].as_str().unwrap().contains("rule none"),
        "{event}"
    );
    let mut own = start(&["--profile", "interactive"]);
    echoes(connect(own.listening()), b"a service of its own");
    let (code, text) = ended(
        folder,
        &["forward", "-L", &mapping, "--profile", "fast", "far"],
    );
    assert!(
        code == Some(2) && text.contains("interactive, live"),
        "{text}"
    );
    // Exits by rule are for a node.
    let key = anabranch::SecretKey::from_seed([7; 32]).node_id();
    let more = format!(
        "[[peer]]\nname = \"other\"\nnode = \"{key}\"\nmay = []\n[[rule]]\npeer = \"other\"\n"
    );
    let path = folder.join("rules.toml");
    let text = fs::read_to_string(&path).unwrap() + &more;
    fs::write(path, text).unwrap();
    let socks = [
        "socks",
        "0",
        "far",
        "--config",
        "rules.toml",
        "--key",
        "mine.key",
    ];
    let (code, text) = ended(folder, &socks);
    assert!(code == Some(2) && text.contains("anabranch node"), "{text}");
}
