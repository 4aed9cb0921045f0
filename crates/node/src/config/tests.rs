use anabranch_session::{Controller, Policy, metering::Billing};

use super::*;

const EXAMPLE: &str = include_str!("../../node.example.toml");

/// Environment of a user with no settings other than `HOME`.
fn nowhere(name: &str) -> Option<String> {
    (name == "HOME").then(|| "/home/ada".to_owned())
}

fn resolve(text: &str) -> Result<NodeConfig, ConfigError> {
    Layer::from_toml(text)?.resolve(nowhere)
}

#[test]
fn the_example_is_accepted_as_it_stands() {
    resolve(EXAMPLE).unwrap();
}

/// Every key that is commented out in the example is accepted with the value given there, and that value is the default.
#[test]
fn every_key_of_the_example_shows_its_default() {
    let bare: String = EXAMPLE
        .lines()
        .map(|line| {
            let rest = line.strip_prefix('#').unwrap_or(line);
            let is_key = !rest.starts_with(' ') && (rest.contains(" = ") || rest.starts_with('['));
            if is_key {
                format!("{rest}\n")
            } else {
                String::new()
            }
        })
        .collect();
    let shown = resolve(&bare).unwrap();
    let default = resolve("").unwrap();
    assert_eq!(
        format!("{:?}", shown.engine),
        format!("{:?}", default.engine)
    );
    assert!(!shown.peers.is_empty());
    let billing = shown.costs.tariffs.iter().map(|tariff| tariff.billing);
    assert_eq!(billing.collect::<Vec<_>>(), [Billing::default()]);
    assert_eq!(shown.descriptions.len(), 1);
    assert_eq!(shown.streams.len(), 1);
    for key in [
        "technology",
        "attributes",
        "key",
        "listen",
        "interfaces",
        "port",
        "may",
        "via",
        "strangers",
        "per_day",
        "control",
        "local",
        "local_users",
        "local_tcp",
        "local_token",
        "console",
        "receive",
        "hidden",
        "currency",
        "ledger",
        "promise_record",
        "evidence",
        "qlog",
        "on",
        "price",
        "day",
        "zone",
        "policy",
        "timeout",
        "connect_timeout",
        "outage_timeout",
        "flows_max",
        "promised_rate_max",
        "promised_share_max",
        "rate_max",
        "stream_window",
        "session_window",
        "send_buffer",
        "transcript",
        "copies_max",
        "coupling",
        "probe_idle",
        "probe_share",
        "probe_metered",
        "paths",
        "controller",
        "mtu_max",
        "idle_timeout",
        "queue_target",
        "ack_delay_max",
        "ack_every",
        "initial_window",
        "model",
        "pools",
        "device",
        "mtu",
        "leases",
        "default_route",
        "routes",
        "dns",
        "allow_ipv6_leak",
        "split_tcp",
    ] {
        assert!(
            bare.contains(&format!("{key} = ")),
            "{key} is missing in the example"
        );
    }
}

#[test]
fn default_is_used_when_the_key_is_absent() {
    assert_eq!(resolve("").unwrap().engine.policy, Policy::Default);
}

#[test]
fn file_goes_over_default() {
    let config = resolve("[session]\npolicy = \"ecf\"").unwrap();
    assert_eq!(config.engine.policy, Policy::Ecf);
}

fn environment(name: &str) -> Option<String> {
    (name == "ANABRANCH_POLICY").then(|| "blest".to_owned())
}

#[test]
fn environment_goes_over_file() {
    let file = Layer::from_toml("[session]\npolicy = \"ecf\"\ntimeout = \"9 s\"").unwrap();
    let layer = Layer::from_environment(environment).unwrap().over(file);
    let config = layer.resolve(nowhere).unwrap();
    assert_eq!(config.engine.policy, Policy::Blest);
    assert_eq!(config.engine.session_timeout, Duration::from_secs(9));
}

#[test]
fn flag_goes_over_environment() {
    let mut flags = Layer::default();
    flags.session.policy = Some("min_rtt".to_owned());
    let layer = flags.over(Layer::from_environment(environment).unwrap());
    assert_eq!(
        layer.resolve(nowhere).unwrap().engine.policy,
        Policy::MinRtt
    );
}

#[test]
fn unknown_keys_are_refused_with_those_that_exist() {
    let error = resolve("[session]\npolcy = \"ecf\"")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("polcy") && error.contains("policy"),
        "{error}"
    );
    assert!(resolve("colour = 1").is_err());
    assert!(resolve("[[peer]]\nname = \"a\"\nnode = \"b\"\naddresses = []\nport = 1").is_err());
}

#[test]
fn a_refusal_names_key_value_and_accepted_form() {
    for (text, parts) in [
        (
            "[session]\ntimeout = \"5\"",
            ["session.timeout", "5", "number and a unit"],
        ),
        (
            "[session]\nstream_window = \"32\"",
            ["session.stream_window", "32", "MiB"],
        ),
        (
            "[session]\ncopies_max = \"200 %\"",
            ["session.copies_max", "200 %", "100 %"],
        ),
        (
            "[session]\npaths = [\"never wifi\"]",
            ["session.paths", "never wifi", "interface=NAME"],
        ),
        (
            "[session]\nprobe_idle = \"64 apples\"",
            ["session.probe_idle", "64 apples", "kB"],
        ),
        (
            "[session]\nprobe_share = \"150 %\"",
            ["session.probe_share", "150 %", "%"],
        ),
        (
            "[session]\ncoupling = \"some\"",
            ["session.coupling", "some", "auto, all or off"],
        ),
        (
            "[channel]\ncontroller = \"vegas\"",
            ["channel.controller", "vegas", "bbr3"],
        ),
        (
            "[channel]\nmodel = \"wimax\"",
            ["channel.model", "wimax", "cellular"],
        ),
        (
            "[channel]\nmtu_max = \"100 B\"",
            ["channel.mtu_max", "100 B", "1200 B"],
        ),
        (
            "[channel]\nack_every = \"8\"",
            ["channel.ack_every", "8", "packets"],
        ),
        (
            "listen = [\"localhost\"]",
            ["listen", "localhost", "IP:PORT"],
        ),
        (
            "[[peer]]\nname = \"a\"\nnode = \"abc\"\nmay = []",
            ["peer.node", "abc", "52 characters"],
        ),
        ("listen = []", ["listen: ", "name", "leave it out"]),
    ] {
        let error = resolve(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn lists_in_the_environment_are_separated_by_commas() {
    let layer = Layer::from_environment(|name| {
        (name == "ANABRANCH_LISTEN").then(|| "127.0.0.1:1, [::1]:2".to_owned())
    });
    let config = layer.unwrap().resolve(nowhere).unwrap();
    let Locals::Fixed(binds) = config.locals else {
        panic!("addresses were given");
    };
    assert_eq!(binds.len(), 2);
    let bad = Layer::from_environment(|name| (name == "ANABRANCH_PORT").then(|| "x".to_owned()));
    assert!(bad.unwrap_err().to_string().contains("ANABRANCH_PORT"));
}

#[test]
fn a_model_is_chosen_by_name() {
    let config = resolve("[channel]\nmodel = \"satellite\"").unwrap();
    assert_eq!(config.engine.model.to_string(), "satellite");
    assert_eq!(resolve("").unwrap().engine.model.to_string(), "auto");
}

#[test]
fn costs_come_from_the_topmost_layer_that_has_any() {
    let file = "currency = \"EUR\"\n[[cost]]\non = \"eth0\"\nprice = \"free\"";
    let file = Layer::from_toml(file).unwrap();
    let environment = Layer::from_environment(|name| match name {
        "ANABRANCH_COST" => Some("wwan0=5 GB then stop from day 15, wwan1=0.01/MB".to_owned()),
        "ANABRANCH_LEDGER" => Some("l".to_owned()),
        _ => None,
    });
    let layer = environment.unwrap().over(file);
    let costs = layer.resolve(nowhere).unwrap().costs;
    let places: Vec<String> = costs.tariffs.iter().map(|t| t.place.to_string()).collect();
    assert_eq!(places, ["wwan0", "wwan1"]);
    assert_eq!(costs.tariffs[0].billing.day(), 15);
    assert_eq!(costs.tariffs[0].currency.as_deref(), Some("EUR"));
    assert_eq!(costs.ledger.to_str(), Some("l"));
    let bad = Layer::from_environment(|name| (name == "ANABRANCH_COST").then(|| "5 GB".to_owned()));
    assert!(
        bad.unwrap_err()
            .to_string()
            .contains("wwan0=5 GB then stop")
    );
}

#[test]
fn a_controller_may_have_a_rate() {
    let config = resolve("[channel]\ncontroller = \"fixed 8 Mbit/s\"").unwrap();
    assert!(matches!(
        config.engine.channel.controller,
        Controller::Fixed(_)
    ));
}

const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn peer(more: &str) -> String {
    format!("[[peer]]\nname = \"ship\"\nnode = \"{ID}\"\n{more}\n")
}

#[test]
fn rights_are_given_one_by_one() {
    use crate::{
        rights::{Right, Terms},
        transfer::Updates,
    };
    let id: NodeId = ID.parse().unwrap();
    let rights = "may = [\"call\", { right = \"send-files\", folder = \"ship/a\" }]";
    let config = resolve(&format!("receive = \"in\"\n{}", peer(rights))).unwrap();
    assert!(config.rights.may(&id, Right::Call));
    assert_eq!(
        config.rights.terms(&id, Right::SendFiles),
        Some(&Terms::into_folder("ship/a"))
    );
    for (terms, updates) in [
        ("update = true", Updates::Permitted),
        ("update = true, delete = true", Updates::WithDeletion),
        ("update = false", Updates::Refused),
    ] {
        let may = format!("may = [\"call\", {{ right = \"send-files\", {terms} }}]");
        let config = resolve(&format!("receive = \"in\"\n{}", peer(&may))).unwrap();
        let terms = config.rights.terms(&id, Right::SendFiles).unwrap();
        assert_eq!(terms.updates, updates);
    }
    let rights =
        "may = [\"call\", { right = \"use-service\", services = [\"telemetry\", \"video/*\"] }]";
    let services = resolve(&peer(rights)).unwrap().rights;
    let terms = services.terms(&id, Right::UseService).unwrap();
    assert_eq!(*terms, Terms::for_services(["telemetry", "video/*"]));
    assert!(terms.include_service("video/1") && !terms.include_service("video"));
    for right in [
        Right::Member,
        Right::UseRelay,
        Right::ReadLibrary,
        Right::UseService,
    ] {
        assert!(!config.rights.may(&id, right), "{right}");
    }
    assert!(
        config.peers.is_empty(),
        "it has no addresses to be called at"
    );
    // A peer that is dialled has no right because of that.
    let called = resolve(&peer("may = []\naddresses = [\"192.0.2.7:4433\"]")).unwrap();
    assert_eq!(called.peers.len(), 1);
    assert_eq!(called.rights.iter().count(), 0);
    // A member has only the right of membership.
    let member = peer("").replace("[peer]", "[overlay.member]");
    let member = resolve(&member).unwrap();
    let given: Vec<Right> = (member.rights.iter())
        .flat_map(|(_, rights)| rights.keys().copied())
        .collect();
    assert_eq!(given, [Right::Member]);
}

#[test]
fn rights_that_could_not_be_used_are_refused() {
    let member = |more: &str| peer(more).replace("[peer]", "[overlay.member]");
    let receive = |text: String| format!("receive = \"in\"\n{text}");
    for (text, word) in [
        (peer(""), "may = []"),
        (
            peer("may = [\"fly\"]"),
            "member, call, send-files, read-library, use-relay, use-service",
        ),
        (peer("may = [\"call\", \"call\"]"), "twice"),
        (peer("may = [\"member\"]"), "[[overlay.member]]"),
        (peer("may = [\"read-library\"]"), "video origin"),
        (peer("may = [\"use-relay\"]"), "[[overlay.member]]"),
        (member("may = [\"use-relay\"]"), "[overlay] relay"),
        (
            member("") + "[overlay]\nrelay = \"1 Mbit/s\"",
            "no member may use the relay",
        ),
        (peer("may = [\"call\", \"send-files\"]"), "receive"),
        (receive(peer("may = [\"send-files\"]")), "needs a session"),
        (
            peer("may = [\"call\", \"use-service\"]"),
            "name the services",
        ),
        (
            peer("may = [{ right = \"use-service\", services = [\"x\"] }]"),
            "needs a session",
        ),
        (
            peer("may = [{ right = \"use-service\", services = [\"x\"], folder = \"a\" }]"),
            "only send-files",
        ),
        (
            peer("may = [{ right = \"use-service\", services = [\"anabranch-x\"] }]"),
            "the node itself",
        ),
        (
            peer("may = [{ right = \"call\", services = [\"x\"] }]"),
            "only use-service",
        ),
        (
            peer("may = [{ right = \"call\", update = true }]"),
            "only send-files takes `update`",
        ),
        (
            receive(peer(
                "may = [\"call\", { right = \"send-files\", delete = true }]",
            )),
            "update = true, delete = true",
        ),
        (receive(member("may = [\"send-files\"]")), "needs a session"),
        (
            peer("may = [\"call\", \"tunnel\"]"),
            "pools in [tunnel.server]",
        ),
        (
            peer("may = [\"tunnel\"]") + "[tunnel.server]\npools = [\"10.77.0.0/24\"]",
            "needs a session",
        ),
        (
            peer("may = [{ right = \"call\", folder = \"a\" }]"),
            "only send-files",
        ),
        (
            receive(peer(
                "may = [{ right = \"send-files\", folder = \"../a\" }]",
            )),
            "below",
        ),
        (
            receive(peer("may = [{ right = \"send-files\", folder = \"/a\" }]")),
            "below",
        ),
        (
            receive(peer("may = [{ right = \"send-files\", folder = \"\" }]")),
            "below",
        ),
        (peer("may = [7]"), "give a right such as"),
        (peer("may = []") + &peer("may = []"), "listed twice"),
        (peer("may = []\nobjectives = \"x\""), "addresses"),
    ] {
        let error = resolve(&text).expect_err(&text).to_string();
        assert!(error.contains(word), "{text}\n{error}\nshould say {word}");
    }
}

#[test]
fn one_list_for_all_rights_is_refused_with_the_replacement() {
    let file = resolve("allow = [\"x\"]\n").unwrap_err().to_string();
    let variable =
        Layer::from_environment(|name| (name == "ANABRANCH_ALLOW").then(|| "x".to_owned()));
    for error in [file, variable.unwrap_err().to_string()] {
        assert!(
            error.contains("[[peer]]") && error.contains("may = ["),
            "{error}"
        );
    }
}

#[test]
fn without_a_folder_of_the_user_the_control_socket_must_be_named() {
    let layer = Layer::from_toml("").unwrap();
    let error = layer.clone().resolve(|_| None).unwrap_err().to_string();
    assert!(error.contains("--control"), "{error}");
    let named = Layer {
        control: Some("c".into()),
        ..layer
    };
    named.resolve(|_| None).unwrap();
}

/// A file that is only half written is refused, or is a configuration; and what is refused is explained.
#[test]
fn a_file_cut_anywhere_is_refused_or_used() {
    let keys: String = EXAMPLE
        .lines()
        .filter_map(|line| {
            let rest = line.strip_prefix('#').unwrap_or(line);
            let is_key = !rest.starts_with(' ') && (rest.contains(" = ") || rest.starts_with('['));
            is_key.then(|| format!("{rest}\n"))
        })
        .collect();
    let (mut used, mut refused) = (0, 0);
    for at in (0..=keys.len()).filter(|at| keys.is_char_boundary(*at)) {
        let text = &keys[..at];
        let read = Layer::from_toml(text).and_then(|layer| layer.resolve(nowhere));
        match read {
            Ok(_) => used += 1,
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty(), "{text}");
            }
        }
        // The search for all mistakes comes to the same answer.
        if at % 17 == 0 {
            let reviewed = review(text, &Layer::default(), nowhere);
            let read = resolve(text);
            assert_eq!(
                reviewed.is_ok(),
                read.is_ok(),
                "{text}\n{reviewed:?}\n{read:?}"
            );
        }
    }
    assert!(used > 100 && refused > 1000, "{used} {refused}");
}
