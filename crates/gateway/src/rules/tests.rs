//! Rules that are read, refused, and matched.

use anabranch::{SecretKey, config::Layer, rights::Transport};

use super::*;
use crate::{endpoint::Endpoint, source::Source};

fn studio() -> NodeId {
    SecretKey::from_seed([1; 32]).node_id()
}

fn read(text: &str) -> Result<Table, String> {
    let layer = Layer::from_toml(text).map_err(|error| error.to_string())?;
    let peer = |name: &str| match name {
        "studio" => Ok(studio()),
        _ => Err("there is no such peer".to_owned()),
    };
    let table = Table::read(&layer.rule.unwrap_or_default(), peer);
    table.map_err(|error| error.to_string())
}

fn rules(text: &str) -> Rules {
    let rules = Rules::default();
    rules.replace(read(text).unwrap());
    rules
}

async fn decided(rules: &Rules, target: &str, dscp: Option<u8>) -> Option<String> {
    let target: Endpoint = target.parse().unwrap();
    let facts = Facts {
        target: &target,
        source: &Source::Unknown,
        dscp,
    };
    rules.decide(&facts).await.name()
}

const SOME: &str = r#"
[[rule]]
name = "secret"
match = { address = ["10.1.0.0/16", "*.secret"] }
deny = true
[[rule]]
name = "video"
match = { protocol = "udp", port = 5004 }
service = { rate = "6 Mbit/s", probability = "99 %", lifetime = "300 ms" }
[[rule]]
match = { protocol = "udp", dscp = 46 }
service = "live"
[[rule]]
name = "ten"
match = { address = "10.0.0.0/8", port = "5000-6000" }
service = "bulk"
peer = "studio"
[[rule]]
name = "socket"
match = { address = "unix:/run/x.sock" }
service = {}
"#;

#[tokio::test]
async fn the_first_rule_that_matches_decides() {
    let rules = rules(SOME);
    for (target, dscp, expected) in [
        ("10.1.0.1:80", None, Some("secret")),
        ("udp:10.1.0.1:5004", None, Some("secret")),
        ("db.secret:80", None, Some("secret")),
        ("udp:10.2.0.1:5004", Some(46), Some("video")),
        ("udp:10.2.0.1:5005", Some(46), Some("3")),
        ("udp:10.2.0.1:5005", Some(0), Some("ten")),
        ("10.2.0.1:6000", None, Some("ten")),
        ("10.2.0.1:6001", None, None),
        ("db.internal:5004", None, None),
        ("unix:/run/x.sock", None, Some("socket")),
        ("unix:/run/y.sock", None, None),
    ] {
        let name = decided(&rules, target, dscp).await;
        assert_eq!(name.as_deref(), expected, "{target} {dscp:?}");
    }
    let report = rules.report();
    let counts: Vec<(u64, u64)> = report.iter().map(|row| (row.flows, row.denied)).collect();
    assert_eq!(counts, [(3, 3), (1, 0), (1, 0), (2, 0), (1, 0), (3, 0)]);
    assert_eq!(report[0].action, "deny");
    assert_eq!(report[3].action, "bulk, by studio");
    assert_eq!(report[5].matches, "all others");
}

#[tokio::test]
async fn services_and_peers_are_those_of_the_rule() {
    let table = read(SOME).unwrap();
    assert!(table.rules[0].services().is_none());
    let video = table.rules[1].services().unwrap();
    let service = video.of(&"udp:10.0.0.1:5004".parse().unwrap());
    let guarantee = service.spec().guarantee.as_ref().unwrap();
    assert_eq!(guarantee.probability(), Some(0.99));
    assert_eq!(table.rules[3].peer(), Some(studio()));
}

#[tokio::test]
async fn rules_that_stay_keep_their_counters() {
    let rules = rules(SOME);
    decided(&rules, "10.1.0.1:80", None).await;
    decided(&rules, "10.2.0.1:6000", None).await;
    let changed = SOME.replace("service = \"bulk\"", "service = \"background\"");
    rules.replace(read(&changed).unwrap());
    let report = rules.report();
    assert_eq!(report[0].flows, 1, "the same rule");
    assert_eq!(report[3].flows, 0, "another rule of the same name");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn programs_are_distinguished_by_executable_and_group() {
    let own = std::env::current_exe().unwrap();
    let name = own.file_name().unwrap().to_str().unwrap();
    let text = format!(
        "[[rule]]\nname = \"other\"\nmatch = {{ process = \"no-such-program\" }}\ndeny = true\n\
         [[rule]]\nname = \"group\"\nmatch = {{ cgroup = \"/no/such/group\" }}\ndeny = true\n\
         [[rule]]\nname = \"path\"\nmatch = {{ process = {own:?}, port = 1 }}\ndeny = true\n\
         [[rule]]\nname = \"name\"\nmatch = {{ process = \"{name}\", cgroup = \"/\" }}\ndeny = true\n"
    );
    let rules = rules(&text);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let own = Source::Address {
        transport: Transport::Tcp,
        client: client.local_addr().unwrap(),
        at: listener.local_addr().unwrap(),
    };
    for (source, target, expected) in [
        (&own, "db:1", Some("path")),
        (&own, "db:2", Some("name")),
        // Of another machine, or gone.
        (&Source::Unknown, "db:1", None),
    ] {
        let target: Endpoint = target.parse().unwrap();
        let facts = Facts {
            target: &target,
            source,
            dscp: None,
        };
        let name = rules.decide(&facts).await.name();
        assert_eq!(name.as_deref(), expected, "{target}");
    }
}

#[test]
fn wrong_rules_are_refused_by_number_and_key() {
    let cases = [
        ("service = \"fast\"", "not a profile"),
        (
            "service = { rate = \"6\", probability = \"99 %\" }",
            "guarantee.rate",
        ),
        (
            "match = { port = 1 }",
            "give a service, a peer, a limit, or deny",
        ),
        ("deny = true\nservice = \"bulk\"", "leave them out"),
        ("deny = true\nflows_max = 2", "leave them out"),
        ("flows_max = 0", "deny = true"),
        ("rate_max = \"0 bit/s\"", "deny = true"),
        ("rate_max = \"fast\"", "rate_max"),
        ("promised_rate_max = \"5\"", "promised_rate_max"),
        ("peer = \"who\"", "there is no such peer"),
        ("match = { port = 0 }\ndeny = true", "match.port"),
        ("match = { port = \"9-8\" }\ndeny = true", "match.port"),
        ("match = { port = \"+9\" }\ndeny = true", "match.port"),
        (
            "match = { protocol = \"sctp\" }\ndeny = true",
            "match.protocol",
        ),
        (
            "match = { protocol = \"unix\", port = 1 }\ndeny = true",
            "has no port",
        ),
        (
            "match = { address = \"10.0.0.1/8\" }\ndeny = true",
            "10.0.0.0/8",
        ),
        (
            "match = { address = \"a b\" }\ndeny = true",
            "match.address",
        ),
        ("match = { address = [] }\ndeny = true", "match.address"),
        (
            "match = { address = \"unix:x\" }\ndeny = true",
            "absolute path",
        ),
        ("match = { dscp = 46 }\ndeny = true", "protocol = \"udp\""),
        (
            "match = { dscp = 64, protocol = \"udp\" }\ndeny = true",
            "0 to 63",
        ),
        (
            "match = { process = \"bin/x\" }\ndeny = true",
            "match.process",
        ),
        ("match = { cgroup = \"x\" }\ndeny = true", "match.cgroup"),
        ("name = \"\"\ndeny = true", "name"),
        // What fits datagrams only.
        ("service = { lifetime = \"300 ms\" }", "protocol = \"udp\""),
        (
            "match = { protocol = \"tcp\" }\nservice = { lifetime = \"300 ms\" }",
            "byte stream",
        ),
    ];
    for (text, word) in cases {
        let first = "[[rule]]\ndeny = true\nmatch = { port = 7 }\n";
        let error = read(&format!("{first}[[rule]]\n{text}\n")).unwrap_err();
        assert!(
            error.starts_with("rule 2: ") && error.contains(word),
            "{text}: {error}"
        );
    }
    let twice = "[[rule]]\nname = \"2\"\ndeny = true\n[[rule]]\ndeny = true\n";
    assert!(read(twice).unwrap_err().contains("another rule"));
}
