//! firewalld: zones with interfaces, in the words of `firewall-cmd --list-all-zones`.

use super::{
    super::{facts::Firewalld, finding::Finding},
    CHECK, named, no_fixed_port,
};

/// The finding; `None`: firewalld does not run.
pub(super) fn check(firewalld: &Firewalld, ports: &[u16]) -> Option<Finding> {
    if firewalld.state.trim() != "running" {
        return None;
    }
    if ports.is_empty() {
        return Some(no_fixed_port("firewalld"));
    }
    let Some(text) = &firewalld.zones else {
        let words = format!(
            "firewalld is in force, and this user may not see its rules (`firewall-cmd --list-all-zones`). If it does not allow {}, nobody \
             can call this node:",
            named(ports)
        );
        return Some(opened(Finding::unknown(CHECK, words), None, ports));
    };
    let zones = zones(text);
    let is_closed = |zone: &&Zone| ports.iter().any(|port| !zone.lets_in(*port));
    let Some(zone) = zones.iter().find(is_closed) else {
        let words = format!("firewalld lets UDP packets to {} in", named(ports));
        return Some(Finding::ok(CHECK, words));
    };
    let closed: Vec<u16> = ports
        .iter()
        .copied()
        .filter(|port| !zone.lets_in(*port))
        .collect();
    let words = format!(
        "firewalld drops UDP packets to {} that are no replies, on {} (zone {}): nobody can call this node there",
        named(&closed),
        zone.interfaces,
        zone.name
    );
    Some(opened(
        Finding::problem(CHECK, words),
        Some(&zone.name),
        &closed,
    ))
}

/// With the commands that open ports, now and after the next start.
fn opened(finding: Finding, zone: Option<&str>, ports: &[u16]) -> Finding {
    let zone = zone.map_or(String::new(), |zone| format!(" --zone={zone}"));
    let commands = ports
        .iter()
        .map(|port| format!("firewall-cmd --permanent{zone} --add-port={port}/udp"));
    commands
        .fold(finding, Finding::mended_by)
        .mended_by("firewall-cmd --reload")
}

/// A zone that has interfaces.
#[derive(Debug, Default)]
struct Zone {
    name: String,
    interfaces: String,
    accepts: bool,
    /// As `4433/udp 5000-6000/udp`.
    ports: String,
}

impl Zone {
    fn lets_in(&self, port: u16) -> bool {
        let has = |word: &str| {
            let Some(range) = word.strip_suffix("/udp") else {
                return false;
            };
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<u16>(), last.parse::<u16>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&port),
                _ => false,
            }
        };
        self.accepts || self.ports.split_whitespace().any(has)
    }
}

fn zones(text: &str) -> Vec<Zone> {
    let mut all: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if !line.starts_with(char::is_whitespace) {
            let name = line.split_whitespace().next().unwrap_or_default();
            if !name.is_empty() {
                all.push(Zone {
                    name: name.to_owned(),
                    ..Zone::default()
                });
            }
            continue;
        }
        let (Some(zone), Some((key, value))) = (all.last_mut(), line.trim().split_once(':')) else {
            continue;
        };
        let value = value.trim();
        match key {
            "target" => zone.accepts = value == "ACCEPT",
            "interfaces" => value.clone_into(&mut zone.interfaces),
            "ports" => value.clone_into(&mut zone.ports),
            _ => {}
        }
    }
    all.retain(|zone| !zone.interfaces.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::{super::super::finding::State, *};

    /// As firewalld 1.3 prints it.
    const ZONES: &str = "\
block
  target: %%REJECT%%
  icmp-block-inversion: no
  interfaces: 
  sources: 
  services: 
  ports: 
  protocols: 
  forward: yes

public (active)
  target: default
  icmp-block-inversion: no
  interfaces: eth0 wwan0
  sources: 
  services: dhcpv6-client ssh
  ports: 53/tcp 5000-6000/udp
  protocols: 
  forward: yes
  rich rules: 
";

    fn of(zones: Option<&str>, ports: &[u16]) -> Option<Finding> {
        let state = "running\n".to_owned();
        let zones = zones.map(str::to_owned);
        check(&Firewalld { state, zones }, ports)
    }

    #[test]
    fn a_port_that_a_zone_in_use_does_not_let_in_is_named_with_the_commands() {
        let found = of(Some(ZONES), &[4433, 5433]).unwrap();
        assert_eq!(found.state, State::Problem);
        assert!(
            found.words.contains("port 4433 ") && found.words.contains("eth0 wwan0 (zone public)"),
            "{}",
            found.words
        );
        assert_eq!(
            found.mend,
            [
                "firewall-cmd --permanent --zone=public --add-port=4433/udp",
                "firewall-cmd --reload"
            ]
        );
        assert_eq!(of(Some(ZONES), &[5433]).unwrap().state, State::Ok);
        // TCP only.
        assert_eq!(of(Some(ZONES), &[53]).unwrap().state, State::Problem);
        let open = ZONES.replace("target: default", "target: ACCEPT");
        assert_eq!(of(Some(&open), &[4433]).unwrap().state, State::Ok);
    }

    #[test]
    fn what_this_user_may_not_see_is_unknown() {
        let found = of(None, &[4433]).unwrap();
        assert_eq!(found.state, State::Unknown);
        assert_eq!(
            found.mend[0],
            "firewall-cmd --permanent --add-port=4433/udp"
        );
        assert_eq!(of(None, &[]).unwrap().state, State::Ok);
        let stopped = Firewalld {
            state: "not running\n".to_owned(),
            zones: None,
        };
        assert_eq!(check(&stopped, &[4433]), None);
    }
}
