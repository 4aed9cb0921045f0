//! Decisions about packets.

use anabranch::config::Layer;

use super::*;
use crate::{notice::Notices, rules::Table};

fn connections(rules: &str) -> Connections {
    let connections = Connections::new(Notices::new(|_| ()));
    replace(&connections, rules);
    connections
}

fn replace(connections: &Connections, rules: &str) {
    let layer = Layer::from_toml(rules).unwrap();
    let none = |_: &str| Err("no peer".to_owned());
    let table = Table::read(&layer.rule.unwrap_or_default(), none).unwrap();
    connections.rules().replace(table);
}

fn flow(protocol: u8, to: &str, port: u16) -> PacketFlow {
    PacketFlow {
        protocol,
        source: "10.77.0.2".parse().unwrap(),
        destination: to.parse().unwrap(),
        ports: (port > 0).then_some((40_000, port)),
        dscp: 46,
    }
}

fn decided(rules: &PacketRules, flow: PacketFlow) -> (bool, Option<String>) {
    match rules.decide(&flow).unwrap() {
        Decision::Carried(admitted) => (true, admitted.rule().name()),
        Decision::Denied(rule) => (false, rule.name()),
    }
}

const SOME: &str = r#"
[[rule]]
name = "call"
match = { protocol = "udp", port = "5000-5010" }
service = { rate = "1 Mbit/s", probability = "99 %", lifetime = "200 ms" }
[[rule]]
name = "marked"
match = { protocol = "udp", dscp = 46, port = 6000 }
rate_max = "1 Mbit/s"
[[rule]]
name = "secret"
match = { address = "10.1.0.0/16" }
deny = true
[[rule]]
name = "plain"
match = { address = "10.2.0.0/16" }
service = {}
[[rule]]
name = "names"
match = { address = "*.internal" }
deny = true
"#;

#[test]
fn packets_are_matched_by_address_port_protocol_and_code_point() {
    let rules = PacketRules::new(&connections(SOME));
    let named = |name: &str| Some(name.to_owned());
    let udp = |port| flow(17, "192.0.2.1", port);
    assert_eq!(decided(&rules, udp(5004)), (true, named("call")));
    assert_eq!(decided(&rules, udp(6000)), (true, named("marked")));
    assert_eq!(decided(&rules, udp(7000)), (true, None));
    assert_eq!(decided(&rules, flow(6, "192.0.2.1", 5004)), (true, None));
    // ICMP, and a fragment that shows no ports.
    let secret = flow(1, "10.1.2.3", 0);
    assert_eq!(decided(&rules, secret), (false, named("secret")));
    assert_eq!(decided(&rules, flow(17, "192.0.2.1", 0)), (true, None));
}

#[test]
fn a_rule_with_a_service_or_a_rate_has_a_stream() {
    let rules = PacketRules::new(&connections(SOME));
    let has_stream = |flow: PacketFlow| match rules.decide(&flow).unwrap() {
        Decision::Carried(admitted) => admitted.rule().has_stream(),
        Decision::Denied(_) => false,
    };
    assert!(has_stream(flow(17, "192.0.2.1", 5004)));
    assert!(has_stream(flow(17, "192.0.2.1", 6000)));
    assert!(!has_stream(flow(6, "10.2.0.1", 80)));
    assert!(!has_stream(flow(6, "192.0.2.1", 80)));
}

#[test]
fn flows_count_until_they_are_over_and_no_more_than_the_limit() {
    let connections = connections("[[rule]]\nname = \"few\"\nflows_max = 1\n");
    let rules = PacketRules::new(&connections);
    let first = rules.decide(&flow(6, "192.0.2.1", 80)).unwrap();
    assert!(matches!(first, Decision::Carried(_)));
    assert!(!decided(&rules, flow(6, "192.0.2.1", 81)).0);
    drop(first);
    assert!(decided(&rules, flow(6, "192.0.2.1", 81)).0);
    let report = &connections.rules().report()[0];
    assert_eq!((report.flows, report.denied, report.open), (3, 1, 0));
}

#[test]
fn a_change_of_rules_is_noticed() {
    let connections = connections(SOME);
    let rules = PacketRules::new(&connections);
    let before = rules.generation();
    let rule = match rules.decide(&flow(17, "192.0.2.1", 5004)).unwrap() {
        Decision::Carried(admitted) => admitted.rule().clone(),
        Decision::Denied(_) => panic!("it is carried"),
    };
    replace(&connections, SOME);
    assert!(rules.generation() > before && rules.has(&rule), "unchanged");
    replace(
        &connections,
        "[[rule]]\nmatch = { port = 25 }\ndeny = true\n",
    );
    assert!(!rules.has(&rule));
    assert!(!decided(&rules, flow(17, "192.0.2.1", 25)).0);
}

#[tokio::test]
async fn a_rule_that_names_a_program_is_decided_after_a_search() {
    let text = "[[rule]]\nname = \"own\"\nmatch = { process = \"nothing-like-it\" }\ndeny = true\n";
    let rules = PacketRules::new(&connections(text));
    let flow = flow(17, "192.0.2.1", 5004);
    assert!(rules.decide(&flow).is_none());
    let decision = rules.search(&flow).await;
    assert!(matches!(decision, Decision::Carried(_)));
}
