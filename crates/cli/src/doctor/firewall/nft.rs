//! Rules of nft: chains of incoming and outgoing packets that drop UDP.

use std::path::Path;

use super::{super::finding::Finding, CHECK};

/// The finding about rules in force. Chains whose place begins with one of `others` are those of a program that has a check of its own.
pub(super) fn in_force(rules: &str, ports: &[u16], others: &[&str]) -> Finding {
    let is_own = |chain: &Chain| !others.iter().any(|other| chain.place.starts_with(other));
    let mut all = chains(rules).into_iter().filter(is_own);
    match all.find(|chain| chain.blocks(ports)) {
        None => Finding::ok(CHECK, "no rule of nft stops all UDP"),
        Some(chain) => {
            let place = &chain.place;
            let matching = chain.matching(ports);
            let words = format!(
                "the chain `{place}` of nft drops UDP packets of the node ({})",
                chain.hook
            );
            Finding::problem(CHECK, words)
                .mended_by(format!("nft insert rule {place} {matching} accept"))
        }
    }
}

/// The finding about a file of rules that is applied when the machine starts, where those in force cannot be seen.
pub(super) fn of_file(path: &Path, rules: &str, ports: &[u16]) -> Option<Finding> {
    let chain = chains(rules)
        .into_iter()
        .find(|chain| chain.blocks(ports))?;
    let path = path.display();
    let words = format!(
        "the chain `{}` in {path} drops UDP packets of the node ({}), if it is applied; root sees the rules in force by `nft list ruleset`",
        chain.place, chain.hook
    );
    let rule = format!(
        "nft insert rule {} {} accept",
        chain.place,
        chain.matching(ports)
    );
    Some(Finding::warning(CHECK, words).mended_by(rule))
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
    /// The condition of a rule about the node's packets in this chain.
    fn matching(&self, ports: &[u16]) -> String {
        let side = if self.hook == "output" {
            "sport"
        } else {
            "dport"
        };
        let numbers: Vec<String> = ports.iter().map(u16::to_string).collect();
        match &numbers[..] {
            // The port is one that the kernel chooses.
            [] => "meta l4proto udp".to_owned(),
            [one] => format!("udp {side} {one}"),
            many => format!("udp {side} '{{ {} }}'", many.join(", ")),
        }
    }

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
    use super::{super::super::finding::State, *};

    fn of_rules(rules: &str, ports: &[u16]) -> Finding {
        let chain = format!("table inet filter {{\n\tchain input {{\n{rules}\n\t}}\n}}\n");
        in_force(&chain, ports, &[])
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

    #[test]
    fn chains_of_another_program_are_left_to_its_own_check() {
        let rules = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n";
        assert_eq!(in_force(rules, &[4433], &[]).state, State::Problem);
        assert_eq!(in_force(rules, &[4433], &["ip filter "]).state, State::Ok);
    }

    /// `/etc/nftables.conf` of Debian 12, with the policy of a server.
    #[test]
    fn a_file_of_rules_is_a_warning() {
        let file = "#!/usr/sbin/nft -f\n\nflush ruleset\n\ntable inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t\tct state established,related accept\n\t\ttcp dport 22 accept\n\t}\n\tchain forward {\n\t\ttype filter hook forward priority filter;\n\t}\n\tchain output {\n\t\ttype filter hook output priority filter;\n\t}\n}\n";
        let path = Path::new("/etc/nftables.conf");
        let found = of_file(path, file, &[4433]).unwrap();
        assert_eq!(found.state, State::Warning);
        assert!(
            found.words.contains("/etc/nftables.conf"),
            "{}",
            found.words
        );
        assert_eq!(
            found.mend,
            ["nft insert rule inet filter input udp dport 4433 accept"]
        );
        let open = file.replace("tcp dport 22", "udp dport 4433");
        assert_eq!(of_file(path, &open, &[4433]), None);
    }
}
