//! Checks of the network: routes by source, sizes of packets, queues.

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

#[cfg(test)]
mod tests {
    use super::{
        super::{facts::Address, finding::State},
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
}
