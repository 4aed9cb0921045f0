//! Checks of the node: its configuration, its addresses, its version and those of its peers, its paths.

use super::{
    facts::{Bound, Facts, Node},
    finding::Finding,
};

/// Version of the wire format that this program has.
const WIRE: u64 = anabranch::net::session::wire::VERSION;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut all = configuration(facts);
    match &facts.node {
        None => {
            all.push(not_running());
            all.extend(ports(facts));
        }
        Some(node) => {
            all.push(version(node));
            all.extend(peers(node));
            all.extend(paths(node));
        }
    }
    all.extend(probes(facts));
    all
}

fn configuration(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "config";
    let Some(file) = &facts.config.file else {
        let words = "this user has no configuration of a node";
        return vec![Finding::warning(CHECK, words).mended_by("anabranch up")];
    };
    let file = file.display();
    if facts.config.faults.is_empty() {
        return vec![Finding::ok(CHECK, format!("{file} is usable"))];
    }
    let faults = facts.config.faults.iter();
    let findings = faults.map(|fault| {
        Finding::problem(CHECK, fault).mended_by(format!(
            "\"${{EDITOR:-vi}}\" '{file}' && anabranch config check '{file}'"
        ))
    });
    findings.collect()
}

fn not_running() -> Finding {
    Finding::warning("node", "no node runs here for this user").mended_by("anabranch up --detach")
}

fn ports(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "port";
    let findings = facts.config.listen.iter().map(|listen| {
        let address = listen.address;
        match &listen.bound {
            Bound::Free => Finding::ok(CHECK, format!("{address} is free")),
            Bound::Taken(Some((program, id))) => Finding::problem(
                CHECK,
                format!("{address} is taken by {program}, process {id}"),
            )
            .mended_by(format!("kill {id}")),
            Bound::Taken(None) => {
                Finding::problem(CHECK, format!("{address} is taken by another program"))
                    .mended_by(format!("ss -ulnp 'sport = :{}'", address.port()))
            }
            Bound::NoSuchAddress => {
                let words =
                    format!("{address} is not an address of this machine; correct `listen`");
                Finding::problem(CHECK, words).mended_by("ip -brief address")
            }
            Bound::Denied => {
                let words = format!(
                    "{address}: this user may not use a port below 1024; choose another one, or:"
                );
                Finding::problem(CHECK, words)
                    .mended_by("setcap cap_net_bind_service+ep \"$(command -v anabranch)\"")
            }
        }
    });
    findings.collect()
}

fn version(node: &Node) -> Finding {
    const CHECK: &str = "version";
    let own = env!("CARGO_PKG_VERSION");
    if node.version == own {
        return Finding::ok(
            CHECK,
            format!("the node runs version {own}, as this command"),
        );
    }
    let words = format!(
        "the node runs version {}, and this command is {own}; start it again",
        node.version
    );
    Finding::warning(CHECK, words).mended_by("systemctl restart anabranch")
}

fn peers(node: &Node) -> Option<Finding> {
    const CHECK: &str = "peers";
    let other = node.peers.iter().find(|(_, version)| *version < WIRE);
    if let Some((peer, version)) = other {
        let words = format!(
            "the session with {peer} has version {version} of the wire format, and this program {WIRE}: what is newer is not used; \
             install this release there"
        );
        return Some(Finding::warning(CHECK, words).mended_by("anabranch --version"));
    }
    let count = node.peers.len();
    (count > 0).then(|| {
        Finding::ok(
            CHECK,
            format!("{count} sessions, with this version of the wire format"),
        )
    })
}

fn paths(node: &Node) -> Vec<Finding> {
    const CHECK: &str = "paths";
    let stalled = node.paths.iter().filter(|path| path.state != "active");
    let mut all: Vec<Finding> = stalled
        .map(|path| {
            let (peer, interface) = (&path.peer, path.interface.as_deref().unwrap_or("any"));
            let words = format!("{interface} → {} of {peer} is {}", path.remote, path.state);
            Finding::warning(CHECK, words).mended_by(format!("anabranch ping '{peer}'"))
        })
        .collect();
    if all.is_empty() && !node.paths.is_empty() {
        let smallest = node.paths.iter().filter_map(|path| path.mtu_bytes).min();
        let sizes = smallest.map_or_else(String::new, |mtu| {
            format!("; the smallest carries {mtu} B of UDP")
        });
        all.push(Finding::ok(
            CHECK,
            format!("{} paths respond{sizes}", node.paths.len()),
        ));
    }
    all
}

fn probes(facts: &Facts) -> Vec<Finding> {
    const CHECK: &str = "udp";
    let findings = facts.probes.iter().map(|probe| {
        let peer = &probe.peer;
        let blocked = |words: String| {
            let words = format!("{words}; if the peer runs, a firewall between the two stops UDP, or its address is wrong");
            // What passes on the way is seen there.
            Finding::problem(CHECK, words).mended_by("tcpdump -ni any udp")
        };
        match &probe.outcome {
            Ok((paths, replies)) if replies == paths && *paths > 0 => {
                Finding::ok(CHECK, format!("{peer} replies on {paths} paths"))
            }
            Ok((paths, 0)) => blocked(format!("{peer} replies on none of {paths} paths")),
            Ok((paths, replies)) => {
                let words = format!("{peer} replies on {replies} of {paths} paths");
                Finding::warning(CHECK, words).mended_by(format!("anabranch ping '{peer}'"))
            }
            Err(reason) => blocked(format!("{peer} is not reached: {reason}")),
        }
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::{Config, Listen, Path, Probe},
            finding::State,
        },
        *,
    };

    fn facts() -> Facts {
        Facts {
            config: Config {
                file: Some("/etc/node.toml".into()),
                ..Config::default()
            },
            node: Some(Node {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                peers: vec![("ship".to_owned(), WIRE)],
                paths: vec![Path {
                    peer: "ship".to_owned(),
                    state: "active".to_owned(),
                    mtu_bytes: Some(1472),
                    ..Path::default()
                }],
                ..Node::default()
            }),
            ..Facts::default()
        }
    }

    fn worst(change: impl FnOnce(&mut Facts)) -> Finding {
        let mut facts = facts();
        change(&mut facts);
        check(&facts)
            .into_iter()
            .max_by_key(|own| own.state)
            .unwrap()
    }

    fn node(facts: &mut Facts) -> &mut Node {
        facts.node.as_mut().unwrap()
    }

    #[test]
    fn a_node_that_is_well_has_no_findings() {
        assert_eq!(worst(|_| ()).state, State::Ok);
        assert_eq!(check(&facts()).len(), 4);
    }

    #[test]
    fn each_fault_is_named_with_a_command() {
        let found = worst(|facts| facts.node = None);
        assert_eq!(
            (found.check, &found.mend[0][..]),
            ("node", "anabranch up --detach")
        );
        let found = worst(|facts| facts.config.file = None);
        assert_eq!(
            (found.check, &found.mend[0][..]),
            ("config", "anabranch up")
        );
        let found = worst(|facts| facts.config.faults = vec!["node.toml:1:1: no".to_owned()]);
        assert_eq!((found.check, found.state), ("config", State::Problem));
        let found = worst(|facts| node(facts).version = "0.0.1".to_owned());
        assert_eq!((found.check, found.state), ("version", State::Warning));
        let found = worst(|facts| node(facts).peers[0].1 = 1);
        assert_eq!((found.check, found.state), ("peers", State::Warning));
        let found = worst(|facts| node(facts).paths[0].state = "not responding".to_owned());
        assert_eq!(
            (found.check, &found.mend[0][..]),
            ("paths", "anabranch ping 'ship'")
        );
        for (bound, command) in [
            (Bound::Taken(Some(("python3".to_owned(), 12))), "kill 12"),
            (Bound::Taken(None), "ss -ulnp 'sport = :4433'"),
            (Bound::NoSuchAddress, "ip -brief address"),
            (
                Bound::Denied,
                "setcap cap_net_bind_service+ep \"$(command -v anabranch)\"",
            ),
        ] {
            let found = worst(|facts| {
                facts.node = None;
                facts.config.listen = vec![Listen {
                    address: "192.0.2.1:4433".parse().unwrap(),
                    bound,
                }];
            });
            assert_eq!((found.check, &found.mend[0][..]), ("port", command));
        }
    }

    #[test]
    fn a_peer_that_does_not_reply_is_a_problem() {
        for (outcome, state) in [
            (Ok((2, 2)), State::Ok),
            (Ok((2, 1)), State::Warning),
            (Ok((2, 0)), State::Problem),
            (Ok((0, 0)), State::Problem),
            (Err("no answer".to_owned()), State::Problem),
        ] {
            let found = worst(|facts| {
                facts.probes = vec![Probe {
                    peer: "ship".to_owned(),
                    outcome: outcome.clone(),
                }];
            });
            assert_eq!(found.state, state, "{outcome:?}");
        }
    }
}
