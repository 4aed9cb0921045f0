//! `docs/tunnel.md`, followed literally: the commands and files of its text, between an empty server, an empty laptop, and a host that is the
//! Internet.
//!
//! Differences from the text: `sudo` is left out, because this is root already; IDs, tickets and the server's address are those of
//! the commands before; 9.9.9.9 and example.net are the host behind the server, which serves a page. Without curl, bash fetches it.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, UdpSocket},
    path::PathBuf,
    process::Command,
};

use crate::{
    destinations::GLOBAL,
    exit::{has_nft, internet},
    namespace::{Namespace, namespaces},
    process::Process,
    stage::{Resolvers, Stage, until},
};

const PAGE: &str = "the first page";
/// Name server of the text, and the name that it knows.
const NAME_SERVER: &str = "9.9.9.9";
const NAME: &[u8] = b"\x07example\x03net\x00";

/// The text below a heading, up to the next one of its rank.
fn section(heading: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tunnel.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, after) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let end = after.find("\n## ").unwrap_or(after.len());
    after[..end].to_owned()
}

/// Blocks of a kind, such as `console`, in a section.
fn blocks(heading: &str, kind: &str) -> Vec<String> {
    let text = section(heading);
    let begin = format!("```{kind}\n");
    let parts = text.split(&begin).skip(1);
    let block = |part: &str| part.split("```").next().unwrap().to_owned();
    parts.map(block).collect()
}

/// A command of a console block, without `sudo`, and what it prints according to the text.
#[derive(Debug)]
struct Step {
    words: Vec<String>,
    printed: Vec<String>,
}

fn steps(heading: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks(heading, "console")
        .iter()
        .flat_map(|block| block.lines())
    {
        match line.strip_prefix("$ ") {
            Some(command) => {
                let words = command.split_whitespace().map(str::to_owned);
                let words = words.skip_while(|word| word == "sudo").collect();
                let printed = Vec::new();
                steps.push(Step { words, printed });
            }
            None => steps.last_mut().unwrap().printed.push(line.to_owned()),
        }
    }
    steps
}

/// The machines of the text.
struct Guide {
    stage: Stage,
    outside: Namespace,
    names: Resolvers,
}

/// A command that runs.
struct Running {
    process: Process,
    out: PathBuf,
}

impl Running {
    fn printed(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.out).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

impl Guide {
    fn new() -> Option<Self> {
        let stage = Stage::new()?;
        let outside = internet(&stage)?;
        let words = format!("route add {NAME_SERVER}/32 via {GLOBAL}");
        stage.server.ip(&words);
        outside.ip(&format!("address add {NAME_SERVER}/32 dev lo"));
        resolve(&outside);
        serve_pages(&outside);
        let names = stage.names("nameserver 192.0.2.53\n");
        Some(Self {
            stage,
            outside,
            names,
        })
    }

    /// Starts a command on an empty machine, whose home has this name.
    fn start(&self, namespace: &Namespace, home: &str, words: &[String]) -> Running {
        let out = self.stage.path(&format!("{home}.out"));
        let home = self.stage.path(home);
        fs::create_dir_all(&home).unwrap();
        let home = format!("HOME={}", home.display());
        // What a client of this name keeps in /run, which tests share, is its own.
        let own = "mkdir -p /run/anabranch && mount -t tmpfs tmpfs /run/anabranch && exec \"$@\"";
        let mut start = vec!["ip", "netns", "exec", namespace.name(), "env", &home];
        start.extend(["sh", "-c", own, "sh"]);
        let program = |word: &'_ String| match word.as_str() {
            "anabranch" => env!("CARGO_BIN_EXE_anabranch").to_owned(),
            word => word.to_owned(),
        };
        let words: Vec<String> = words.iter().map(program).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let process = Process::start_by(&start, &self.stage.path(""), &words, Some(&out));
        Running { process, out }
    }

    /// Starts a command that goes on, and waits until it has printed as much as the text says.
    fn run(&self, namespace: &Namespace, home: &str, step: &Step, names: &[[&str; 2]]) -> Running {
        let mut running = self.start(namespace, home, &replaced(&step.words, names));
        let expected = replaced(&step.printed, names);
        until("it has printed what the text says", || {
            assert!(running.process.is_running(), "{step:?} has ended");
            running.printed().len() >= expected.len()
        });
        // Where the text has a dot of omission, there may be anything.
        for (line, expected) in running.printed().iter().zip(&expected) {
            let is_same = match expected.split_once('…') {
                Some((begin, end)) => line.starts_with(begin) && line.ends_with(end),
                None => line == expected,
            };
            assert!(is_same, "printed: {line}\nthe text: {expected}");
        }
        running
    }

    /// Has a machine run the last step of the text, and checks that it gets the page.
    fn fetch(&self, namespace: &Namespace, step: &Step) {
        let [program, url] = &step.words[..] else {
            panic!("{step:?}");
        };
        assert_eq!(program, "curl");
        let host = url.strip_prefix("http://").unwrap().trim_end_matches('/');
        let has_curl = Command::new("curl").arg("--version").output().is_ok();
        let by_bash =
            format!("exec 3<>/dev/tcp/{host}/80; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3");
        let words = match has_curl {
            true => vec![program.clone(), url.clone()],
            false => ["bash", "-c", &by_bash].map(str::to_owned).to_vec(),
        };
        until("the page is there", || {
            let fetching = self.start(namespace, "browser", &words);
            let out = fetching.out.clone();
            fetching.process.ended();
            fs::read_to_string(out).unwrap().contains(PAGE)
        });
    }
}

fn replaced(texts: &[String], names: &[[&str; 2]]) -> Vec<String> {
    let replace = |text: &String| {
        let replace = |text: String, [from, to]: &[&str; 2]| text.replace(from, to);
        names.iter().fold(text.clone(), replace)
    };
    texts.iter().map(replace).collect()
}

/// Knows the address of one name, over IPv4.
fn resolve(namespace: &Namespace) {
    let socket = namespace.run(|| UdpSocket::bind((NAME_SERVER, 53)).unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let question = 12 + NAME.len() + 4;
            if length < question || &buffer[12..12 + NAME.len()] != NAME {
                continue;
            }
            let is_v4 = buffer[12 + NAME.len()..question] == [0, 1, 0, 1];
            // Its number, an answer without an error, one question, and one answer or none (RFC 1035 §4.1).
            let mut answer = buffer[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]);
            answer.extend(&buffer[12..question]);
            if is_v4 {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                answer.extend(GLOBAL.parse::<std::net::Ipv4Addr>().unwrap().octets());
            }
            let _ = socket.send_to(&answer, from);
        }
    });
}

/// Serves the page, and nothing else.
fn serve_pages(namespace: &Namespace) {
    let listener = namespace.run(|| TcpListener::bind((GLOBAL, 80)).unwrap());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1000]);
            let length = PAGE.len();
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all((head + PAGE).as_bytes());
        }
    });
}

/// The ID that a command has printed, alone in its line.
fn id(running: &[String]) -> String {
    let is_id =
        |line: &&String| line.len() == 52 && line.bytes().all(|b| b.is_ascii_alphanumeric());
    running.iter().find(is_id).expect("an ID").clone()
}

#[test]
fn the_guide_leads_from_an_empty_server_to_the_first_page() {
    if !has_nft() {
        return;
    }
    let Some(guide) = Guide::new() else { return };
    let (laptop, server) = (&guide.stage.client, &guide.stage.server);
    let steps = steps("From an empty server to the first page");
    let [keygen, serve, join, page] = &steps[..] else {
        panic!("{steps:#?}");
    };
    let made = guide.start(laptop, "laptop", &keygen.words);
    let out = made.out.clone();
    made.process.ended().is(0, &[]);
    let printed = fs::read_to_string(out).unwrap();
    let own = id(&printed.lines().map(str::to_owned).collect::<Vec<_>>());
    let in_text = id(&keygen.printed);
    let ids = [[in_text.as_str(), own.as_str()]];
    let serving = guide.run(server, "server", serve, &ids);
    let printed = serving.printed();
    let command = printed.iter().find_map(|line| line.split_once("run: "));
    let command: Vec<&str> = command.unwrap().1.split(' ').collect();
    let names = [["anabranch1:…", command[2]]];
    let words = replaced(&join.words, &names);
    assert_eq!(
        words[..command.len()],
        command,
        "as the server says, and more"
    );
    let joined = guide.run(laptop, "laptop", join, &names);
    let resolvers = guide.names.text();
    assert!(resolvers.contains(NAME_SERVER), "{resolvers}");
    guide.fetch(laptop, page);
    joined.process.signal("INT");
    let ended = joined.process.ended().is(0, &[]);
    assert!(
        ended.err.contains("TCP connections as streams"),
        "{ended:?}"
    );
    assert_eq!(guide.names.text(), "nameserver 192.0.2.53\n");

    // A network behind the laptop; a machine there has a resolver of its own.
    let [machine] = namespaces().unwrap();
    let ends = [("eth1", "192.168.50.1/24"), ("eth0", "192.168.50.7/24")];
    laptop.join(ends[0], &machine, ends[1]);
    machine.ip("route add default via 192.168.50.1");
    let lan = self::steps("A network behind the client");
    let _joined = guide.run(laptop, "laptop", &lan[0], &names);
    let folder = PathBuf::from("/etc/netns").join(machine.name());
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("resolv.conf"),
        format!("nameserver {NAME_SERVER}\n"),
    )
    .unwrap();
    guide.fetch(&machine, page);
    fs::remove_dir_all(folder).unwrap();
    drop(guide.outside);
}

/// The two files of the text, with the keys of the machines.
#[test]
fn the_files_of_the_guide_make_a_service() {
    if !has_nft() {
        return;
    }
    let Some(guide) = Guide::new() else { return };
    let (laptop, server) = (&guide.stage.client, &guide.stage.server);
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let files = blocks("As a service", "toml");
    let in_text = |block: &str| {
        let line = block
            .lines()
            .find_map(|line| line.strip_prefix("node = \""));
        line.unwrap().trim_end_matches('"').to_owned()
    };
    let mut ids = Vec::new();
    for (namespace, home) in [(laptop, "laptop"), (server, "server")] {
        let made = guide.start(namespace, home, &words("anabranch keygen"));
        let out = made.out.clone();
        made.process.ended().is(0, &[]);
        let printed = fs::read_to_string(out).unwrap();
        ids.push(id(&printed.lines().map(str::to_owned).collect::<Vec<_>>()));
    }
    let mut running = Vec::new();
    for (namespace, home, block, id) in [
        (server, "server", &files[0], &ids[0]),
        (laptop, "laptop", &files[1], &ids[1]),
    ] {
        let text = block.replace(&in_text(block), id);
        let text = text.replace("192.0.2.7:4433", "10.95.0.2:4433");
        let path = guide.stage.path(home).join("node.toml");
        fs::write(&path, text).unwrap();
        let command = format!("anabranch node --config {}", path.display());
        running.push(guide.start(namespace, home, &words(&command)));
    }
    let steps = steps("From an empty server to the first page");
    guide.fetch(laptop, steps.last().unwrap());
    for node in &mut running {
        assert!(node.process.is_running());
    }
}
