//! Checks of the network: routes by source, sizes of packets, queues, the firewall.

use super::{
    facts::{Facts, Interface},
    finding::Finding,
};

/// Size of a packet of Ethernet.
const MTU_USUAL_BYTES: u64 = 1_500;
/// Smallest packet of QUIC in IPv6: 1,200 bytes, with 48 of headers.
const MTU_MIN_BYTES: u64 = 1_248;
/// Metric of a default route that is added: after those that there are.
const METRIC: u32 = 1_024;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let only = &facts.config.only;
    let is_used = |interface: &&Interface| only.is_empty() || only.contains(&interface.name);
    let used: Vec<&Interface> = facts.interfaces.iter().filter(is_used).collect();
    let mut all = Vec::new();
    if used.is_empty() {
        all.push(Finding::problem(
            "routes",
            "no interface that the node may use has an address; connect one, or compare `interfaces` with `ip address`",
        ));
    }
    for interface in &used {
        all.push(routes(interface));
        all.push(mtu(interface));
        all.extend(queue(interface));
    }
    all.push(firewall(facts));
    all
}

fn routes(interface: &Interface) -> Finding {
    const CHECK: &str = "routes";
    let name = &interface.name;
    let without = interface.addresses.iter().find(|own| !own.has_route);
    let Some(address) = without else {
        return Finding::ok(
            CHECK,
            format!("{name}: packets from its addresses leave by it"),
        );
    };
    let ip = address.ip;
    let version = if ip.is_ipv6() { "-6 " } else { "" };
    let words =
        format!("{name}: packets from {ip} cannot leave by it, so that it is no path to elsewhere");
    let gateway = interface
        .gateways
        .iter()
        .find(|(gateway, _)| gateway.is_ipv6() == ip.is_ipv6());
    match gateway {
        // Its table is there, and nothing leads to it.
        Some((_, table)) if table != "main" => Finding::warning(CHECK, words)
            .mended_by(format!("ip {version}rule add from {ip} lookup {table}")),
        Some((gateway, _)) => Finding::warning(CHECK, words).mended_by(format!(
            "ip {version}route add default via {gateway} dev {name} metric {METRIC}"
        )),
        None => {
            let words = format!("{words}; replace GATEWAY by the address of the router there");
            Finding::warning(CHECK, words).mended_by(format!(
                "ip {version}route add default via GATEWAY dev {name} metric {METRIC}"
            ))
        }
    }
}

fn mtu(interface: &Interface) -> Finding {
    const CHECK: &str = "mtu";
    let (name, mtu) = (&interface.name, interface.mtu_bytes);
    let command = format!("ip link set dev {name} mtu {MTU_USUAL_BYTES}");
    match mtu {
        0..MTU_MIN_BYTES => {
            let words = format!(
                "{name}: packets of {mtu} B are too small for a path, which needs {MTU_MIN_BYTES} B"
            );
            Finding::problem(CHECK, words).mended_by(command)
        }
        MTU_MIN_BYTES..MTU_USUAL_BYTES => {
            let words = format!(
                "{name}: packets have {mtu} B in place of {MTU_USUAL_BYTES} B, and each costs as much as a large one; if the link \
                 can carry more:"
            );
            Finding::warning(CHECK, words).mended_by(command)
        }
        _ => Finding::ok(CHECK, format!("{name}: packets have up to {mtu} B")),
    }
}

fn queue(interface: &Interface) -> Option<Finding> {
    let qdisc = interface.qdisc.as_deref()?;
    let name = &interface.name;
    matches!(qdisc, "netem" | "tbf").then(|| {
        let words = format!("{name}: {qdisc} delays or drops packets on purpose");
        Finding::warning("queue", words).mended_by(format!("tc qdisc del dev {name} root"))
    })
}

fn firewall(facts: &Facts) -> Finding {
    const CHECK: &str = "firewall";
    let Some(rules) = &facts.firewall else {
        return Finding::unknown(
            CHECK,
            "the rules of the firewall cannot be seen here; root sees them by `nft list ruleset`",
        );
    };
    let ports = &facts.config.ports;
    let blocking = chains(rules).into_iter().find(|chain| chain.blocks(ports));
    match blocking {
        None => Finding::ok(CHECK, "no rule of this machine stops all UDP"),
        Some(chain) => {
            let place = &chain.place;
            let side = if chain.hook == "output" {
                "sport"
            } else {
                "dport"
            };
            let numbers: Vec<String> = ports.iter().map(u16::to_string).collect();
            let matching = match &numbers[..] {
                // The port is one that the kernel chooses.
                [] => "meta l4proto udp".to_owned(),
                [one] => format!("udp {side} {one}"),
                many => format!("udp {side} '{{ {} }}'", many.join(", ")),
            };
            let words = format!(
                "the chain `{place}` of nft drops UDP packets of the node ({})",
                chain.hook
            );
            Finding::problem(CHECK, words)
                .mended_by(format!("nft insert rule {place} {matching} accept"))
        }
    }
}

/// A chain of the firewall at which packets of this machine pass.
#[derive(Debug, Default)]
struct Chain {
    /// Family, table and name.
    place: String,
    hook: String,
    drops_by_default: bool,
    rules: Vec<String>,
}

impl Chain {
    /// True if UDP packets are dropped before they are accepted. Rules with other conditions than protocol and port are not
    /// considered.
    fn blocks(&self, ports: &[u16]) -> bool {
        for rule in &self.rules {
            let verdict = rule.split(" comment ").next().unwrap_or_default().trim();
            let is_drop = verdict.ends_with("drop") || verdict.contains("reject");
            let is_accept = verdict.ends_with("accept");
            let words: Vec<&str> = verdict
                .split_whitespace()
                .filter(|word| *word != "counter")
                .collect();
            let concerns = match &words[..] {
                ["drop" | "reject" | "accept", ..] => true,
                ["meta", "l4proto", "udp", ..]
                | ["ip", "protocol", "udp", ..]
                | ["udp", "drop" | "accept"] => true,
                ["udp", "dport" | "sport", ..] => {
                    !ports.is_empty() && ports.iter().all(|port| names(verdict, *port))
                }
                _ => false,
            };
            match (concerns, is_drop, is_accept) {
                (true, true, _) => return true,
                (true, _, true) => return false,
                _ => {}
            }
        }
        self.drops_by_default
    }
}

/// True if a rule names a port, alone, in a range or in a set.
fn names(rule: &str, port: u16) -> bool {
    let mut parts = rule.split(|c: char| !(c.is_ascii_digit() || c == '-'));
    parts.any(|part| match part.split_once('-') {
        Some((first, last)) => match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&port),
            _ => false,
        },
        None => part.parse() == Ok(port),
    })
}

/// Chains of incoming and outgoing packets in the words of `nft list ruleset`.
fn chains(text: &str) -> Vec<Chain> {
    let (mut all, mut table, mut chain) = (Vec::new(), "", None::<Chain>);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches('{').trim();
        } else if let Some(name) = line.strip_prefix("chain ") {
            let name = name.trim_end_matches('{').trim();
            chain = Some(Chain {
                place: format!("{table} {name}"),
                ..Chain::default()
            });
        } else if line == "}" {
            let ended = chain.take();
            all.extend(ended.filter(|chain| matches!(&chain.hook[..], "input" | "output")));
        } else if let Some(chain) = &mut chain {
            match line.split_once(" hook ") {
                Some((_, rest)) if line.starts_with("type ") => {
                    rest.split_whitespace()
                        .next()
                        .unwrap_or_default()
                        .clone_into(&mut chain.hook);
                    chain.drops_by_default = line.contains("policy drop");
                }
                _ => chain.rules.push(line.to_owned()),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::{Address, Config},
            finding::State,
        },
        *,
    };

    fn interface(mtu_bytes: u64, has_route: bool) -> Interface {
        Interface {
            name: "wwan0".to_owned(),
            mtu_bytes,
            addresses: vec![Address {
                ip: "10.2.0.2".parse().unwrap(),
                has_route,
            }],
            ..Interface::default()
        }
    }

    #[test]
    fn an_address_without_a_route_is_mended_by_what_is_missing() {
        assert_eq!(routes(&interface(1500, true)).state, State::Ok);
        let mut other = interface(1500, false);
        assert!(routes(&other).mend[0].contains("via GATEWAY dev wwan0"));
        other.gateways = vec![("10.2.0.1".parse().unwrap(), "main".to_owned())];
        assert_eq!(
            routes(&other).mend,
            ["ip route add default via 10.2.0.1 dev wwan0 metric 1024"]
        );
        other.gateways[0].1 = "7".to_owned();
        assert_eq!(routes(&other).mend, ["ip rule add from 10.2.0.2 lookup 7"]);
    }

    #[test]
    fn small_packets_are_named() {
        assert_eq!(mtu(&interface(9000, true)).state, State::Ok);
        assert_eq!(mtu(&interface(1280, true)).state, State::Warning);
        let found = mtu(&interface(1000, true));
        assert_eq!(
            (found.state, &found.mend[0][..]),
            (State::Problem, "ip link set dev wwan0 mtu 1500")
        );
    }

    #[test]
    fn interfaces_that_are_not_used_do_not_matter() {
        let mut facts = Facts {
            interfaces: vec![interface(1000, false)],
            ..Facts::default()
        };
        assert!(
            check(&facts)
                .iter()
                .any(|own| own.check == "mtu" && own.state == State::Problem)
        );
        facts.config.only = vec!["eth0".to_owned()];
        let all = check(&facts);
        assert!(!all.iter().any(|own| own.check == "mtu"));
        assert!(all[0].words.starts_with("no interface"));
        let mut shaped = interface(1500, true);
        assert_eq!(queue(&shaped), None);
        shaped.qdisc = Some("netem".to_owned());
        assert_eq!(
            queue(&shaped).unwrap().mend,
            ["tc qdisc del dev wwan0 root"]
        );
    }

    fn of_rules(rules: &str, ports: &[u16]) -> Finding {
        let chain = format!("table inet filter {{\n\tchain input {{\n{rules}\n\t}}\n}}\n");
        firewall(&Facts {
            firewall: Some(chain),
            config: Config {
                ports: ports.to_vec(),
                ..Config::default()
            },
            ..Facts::default()
        })
    }

    #[test]
    fn a_firewall_that_drops_udp_is_opened_for_the_ports() {
        let hook = "\t\ttype filter hook input priority filter; policy accept;\n";
        let closed = hook.replace("accept", "drop");
        for (rules, is_ok) in [
            (hook.to_owned(), true),
            (closed.clone(), false),
            (closed.clone() + "\t\tudp dport 4433 accept", true),
            (
                closed.clone() + "\t\tudp dport { 53, 4000-5000 } accept",
                true,
            ),
            (closed.clone() + "\t\tudp dport 53 accept", false),
            (closed + "\t\ttcp dport 4433 accept", false),
            (hook.to_owned() + "\t\tmeta l4proto udp drop", false),
            (
                hook.to_owned() + "\t\tmeta l4proto udp counter packets 0 bytes 0 drop",
                false,
            ),
            (
                hook.to_owned() + "\t\tudp dport 4433 accept\n\t\tmeta l4proto udp drop",
                true,
            ),
            (hook.to_owned() + "\t\tip saddr 10.0.0.1 drop", true),
        ] {
            let found = of_rules(&rules, &[4433]);
            assert_eq!(found.state == State::Ok, is_ok, "{rules}");
            if !is_ok {
                assert_eq!(
                    found.mend,
                    ["nft insert rule inet filter input udp dport 4433 accept"]
                );
            }
        }
        assert!(
            of_rules(&hook.replace("accept", "drop"), &[]).mend[0]
                .contains("meta l4proto udp accept")
        );
    }
}
