//! Checks of the firewall: rules of nft, and programs that make them.
//!
//! | file | holds |
//! |---|---|
//! | `nft` | rules in force, which root sees, and the file from which they are made |
//! | `ufw`, `firewalld` | the port of the node in their rules, as far as a user can read them |

mod firewalld;
mod nft;
mod ufw;

use super::{facts::Facts, finding::Finding};

const CHECK: &str = "firewall";

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let ports = &facts.config.ports;
    let seen = &facts.firewall;
    let ufw = seen.ufw.as_ref().and_then(|own| ufw::check(own, ports));
    let firewalld = (seen.firewalld.as_ref()).and_then(|own| firewalld::check(own, ports));
    let mut others = Vec::new();
    if ufw.is_some() {
        others.extend(["ip filter ", "ip6 filter "]);
    }
    if firewalld.is_some() {
        others.push("inet firewalld ");
    }
    let has_other = !others.is_empty();
    let mut all: Vec<Finding> = ufw.into_iter().chain(firewalld).collect();
    match (&seen.rules, &seen.file) {
        (Some(rules), _) => all.push(nft::in_force(rules, ports, &others)),
        (None, _) if has_other => {}
        (None, Some((path, rules))) => all.extend(nft::of_file(path, rules, ports)),
        (None, None) => {}
    }
    if all.is_empty() {
        all.push(Finding::unknown(
            CHECK,
            "the rules of the firewall cannot be seen here; root sees them by `nft list ruleset`",
        ));
    }
    all
}

/// Ports for people: `port 4433`, `ports 4433, 4434`.
fn named(ports: &[u16]) -> String {
    let numbers: Vec<String> = ports.iter().map(u16::to_string).collect();
    let noun = if ports.len() == 1 { "port" } else { "ports" };
    format!("{noun} {}", numbers.join(", "))
}

/// The finding where the port is one that the kernel chooses: nobody calls it, and replies pass.
fn no_fixed_port(program: &str) -> Finding {
    Finding::ok(
        CHECK,
        format!("{program} is in force, and lets replies to this node in, which has no fixed port"),
    )
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            facts::{Config, Firewall, Ufw},
            finding::State,
        },
        *,
    };

    #[test]
    fn rules_of_ufw_are_judged_by_ufw_and_not_as_those_of_nft() {
        let chain = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n\t\tcounter jump ufw-user-input\n\t}\n}\n";
        let mut facts = Facts {
            config: Config {
                ports: vec![4433],
                ..Config::default()
            },
            firewall: Firewall {
                rules: Some(chain.to_owned()),
                ufw: Some(Ufw {
                    config: "ENABLED=yes\n".to_owned(),
                    defaults: "DEFAULT_INPUT_POLICY=\"DROP\"\n".to_owned(),
                    rules: Some(
                        "### tuple ### allow udp 4433 0.0.0.0/0 any 0.0.0.0/0 in\n".to_owned(),
                    ),
                    rules6: None,
                }),
                ..Firewall::default()
            },
            ..Facts::default()
        };
        let states: Vec<State> = check(&facts).iter().map(|own| own.state).collect();
        assert_eq!(states, [State::Ok, State::Ok]);
        facts.firewall.ufw = None;
        assert_eq!(check(&facts)[0].state, State::Problem);
        facts.firewall = Firewall::default();
        assert_eq!(check(&facts)[0].state, State::Unknown);
    }
}
