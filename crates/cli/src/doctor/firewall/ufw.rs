//! ufw: its state and its policy, which everyone can read, and its rules, which root can.

use super::{
    super::{facts::Ufw, finding::Finding},
    CHECK, named, no_fixed_port,
};

/// The finding; `None`: ufw is not in force.
pub(super) fn check(ufw: &Ufw, ports: &[u16]) -> Option<Finding> {
    if value(&ufw.config, "ENABLED")? != "yes" {
        return None;
    }
    if ports.is_empty() {
        return Some(no_fixed_port("ufw"));
    }
    let lets_in = value(&ufw.defaults, "DEFAULT_INPUT_POLICY") == Some("ACCEPT");
    let open = |finding: Finding, ports: &[u16]| {
        let commands = ports.iter().map(|port| format!("ufw allow {port}/udp"));
        commands.fold(finding, Finding::mended_by)
    };
    let Some(rules) = &ufw.rules else {
        if lets_in {
            let words = "ufw is in force, and lets in what no rule of it denies; only root can read the rules";
            return Some(Finding::unknown(CHECK, words));
        }
        let words = format!(
            "ufw is in force, and drops what no rule of it allows; only root can read the rules (`ufw status`). If it does not allow {}, \
             nobody can call this node:",
            named(ports)
        );
        return Some(open(Finding::unknown(CHECK, words), ports));
    };
    let closed = |rules: &str, everywhere: &str| -> Vec<u16> {
        let is_closed = |port: &&u16| !verdict(rules, **port, everywhere).unwrap_or(lets_in);
        ports.iter().filter(is_closed).copied().collect()
    };
    let has_ipv6 = value(&ufw.defaults, "IPV6") == Some("yes");
    let closed6 = match &ufw.rules6 {
        Some(rules) if has_ipv6 => closed(rules, "::/0"),
        _ => Vec::new(),
    };
    let closed = closed(rules, "0.0.0.0/0");
    if closed.is_empty() && !closed6.is_empty() {
        let words = format!(
            "ufw lets UDP packets to {} in, but those to {} not over IPv6: nobody can call this node's IPv6 addresses",
            named(ports),
            named(&closed6)
        );
        return Some(open(Finding::warning(CHECK, words), &closed6));
    }
    if closed.is_empty() {
        let words = format!("ufw lets UDP packets to {} in", named(ports));
        return Some(Finding::ok(CHECK, words));
    }
    let words = format!(
        "ufw drops UDP packets to {} that are no replies: nobody can call this node",
        named(&closed)
    );
    Some(open(Finding::problem(CHECK, words), &closed))
}

/// Value of `NAME=value` or `NAME="value"`, without comments.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        let rest = line.trim().strip_prefix(name)?.strip_prefix('=')?;
        Some(rest.trim().trim_matches('"'))
    };
    text.lines().filter_map(of_line).next_back()
}

/// True if the first rule about UDP packets to a port from everywhere lets them in; `None`: there is none. A rule is
/// `### tuple ### allow udp 4433 0.0.0.0/0 any 0.0.0.0/0 in`: action, protocol, port, destination, source port, source, direction.
fn verdict(rules: &str, port: u16, everywhere: &str) -> Option<bool> {
    rules.lines().find_map(|line| {
        let words: Vec<&str> = line
            .strip_prefix("### tuple ### ")?
            .split_whitespace()
            .collect();
        let [action, protocol, to, _, "any", source, ..] = words[..] else {
            return None;
        };
        let is_in = words.iter().skip(6).any(|word| *word == "in");
        let is_udp = matches!(protocol, "udp" | "any");
        if !is_in || !is_udp || source != everywhere || !has(to, port) {
            return None;
        }
        Some(action.starts_with("allow") || action.starts_with("limit"))
    })
}

/// True if a port is in a list such as `53,4000:5000`, or it is `any`.
fn has(list: &str, port: u16) -> bool {
    list == "any"
        || list.split(',').any(|part| match part.split_once(':') {
            Some((first, last)) => match (first.parse::<u16>(), last.parse::<u16>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&port),
                _ => false,
            },
            None => part.parse() == Ok(port),
        })
}

#[cfg(test)]
mod tests {
    use super::{super::super::finding::State, *};

    /// `/etc/ufw/ufw.conf`, `/etc/default/ufw` and `/etc/ufw/user.rules` of ufw 0.36.
    fn ufw(rules: Option<&str>) -> Ufw {
        Ufw {
            config: "# /etc/ufw/ufw.conf\n#\n\n# Set to yes to start on boot.\nENABLED=yes\n\nLOGLEVEL=low\n".to_owned(),
            defaults: "IPV6=yes\nDEFAULT_INPUT_POLICY=\"DROP\"\nDEFAULT_OUTPUT_POLICY=\"ACCEPT\"\n".to_owned(),
            rules: rules.map(|rules| format!("*filter\n:ufw-user-input - [0:0]\n### RULES ###\n\n{rules}\n### END RULES ###\n")),
            rules6: None,
        }
    }

    const SSH: &str = "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n-A ufw-user-input -p tcp --dport 22 -j ACCEPT\n";
    const OPEN: &str = "### tuple ### allow udp 4433 0.0.0.0/0 any 0.0.0.0/0 in\n-A ufw-user-input -p udp --dport 4433 -j ACCEPT\n";

    #[test]
    fn a_port_that_no_rule_allows_is_named_with_the_command() {
        let found = check(&ufw(Some(SSH)), &[4433]).unwrap();
        assert_eq!(found.state, State::Problem);
        assert_eq!(found.mend, ["ufw allow 4433/udp"]);
        let two = check(&ufw(Some(OPEN)), &[4433, 4434]).unwrap();
        assert_eq!(two.mend, ["ufw allow 4434/udp"]);
        let found = check(&ufw(Some(&format!("{SSH}{OPEN}"))), &[4433]).unwrap();
        assert_eq!((found.state, found.mend.len()), (State::Ok, 0));
    }

    #[test]
    fn the_first_rule_from_everywhere_decides() {
        for (rule, is_open) in [
            ("allow any 4000:5000 0.0.0.0/0 any 0.0.0.0/0 in", true),
            ("limit udp 53,4433 0.0.0.0/0 any 0.0.0.0/0 in", true),
            ("allow udp 4433 0.0.0.0/0 any 0.0.0.0/0 Node - in", true),
            ("deny udp 4433 0.0.0.0/0 any 0.0.0.0/0 in", false),
            ("allow udp 4433 0.0.0.0/0 any 10.0.0.0/8 in", false),
            ("allow udp 4433 0.0.0.0/0 any 0.0.0.0/0 out", false),
            ("allow tcp 4433 0.0.0.0/0 any 0.0.0.0/0 in", false),
        ] {
            let rules = format!("### tuple ### {rule}");
            let found = check(&ufw(Some(&rules)), &[4433]).unwrap();
            assert_eq!(found.state == State::Ok, is_open, "{rule}");
        }
    }

    #[test]
    fn a_port_that_is_open_for_ipv4_alone_is_named() {
        let mut ufw = ufw(Some(OPEN));
        ufw.rules6 = Some(SSH.replace("0.0.0.0/0", "::/0"));
        let found = check(&ufw, &[4433]).unwrap();
        assert_eq!(found.state, State::Warning);
        assert!(found.words.contains("not over IPv6"), "{}", found.words);
        assert_eq!(found.mend, ["ufw allow 4433/udp"]);
        // Rules for IPv6 are not in force.
        ufw.defaults = ufw.defaults.replace("IPV6=yes", "IPV6=no");
        assert_eq!(check(&ufw, &[4433]).unwrap().state, State::Ok);
        ufw.defaults = ufw.defaults.replace("IPV6=no", "IPV6=yes");
        ufw.rules6 = Some(OPEN.replace("0.0.0.0/0", "::/0"));
        assert_eq!(check(&ufw, &[4433]).unwrap().state, State::Ok);
    }

    #[test]
    fn what_only_root_can_read_is_unknown_with_the_command() {
        let found = check(&ufw(None), &[4433]).unwrap();
        assert_eq!(found.state, State::Unknown);
        assert!(found.words.contains("ufw status"), "{}", found.words);
        assert_eq!(found.mend, ["ufw allow 4433/udp"]);
        assert_eq!(check(&ufw(None), &[]).unwrap().state, State::Ok);
        let mut off = ufw(None);
        off.config = "ENABLED=no\n".to_owned();
        assert_eq!(check(&off, &[4433]), None);
        let mut open = ufw(Some(SSH));
        open.defaults = "DEFAULT_INPUT_POLICY=\"ACCEPT\"\n".to_owned();
        assert_eq!(check(&open, &[4433]).unwrap().state, State::Ok);
    }
}
