//! Masquerading: packets of others leave this machine under an address of its own, and answers find their way back.
//!
//! | kind | packets | leave by |
//! |---|---|---|
//! | [`Masquerade::exit`] | of a server's clients | every other device |
//! | [`Masquerade::lan`] | of the machines in a client's local networks | the tunnel's device |
//!
//! Forwarding is turned on for it. Where the machine did not forward before, it is no router for others: the table then also drops new
//! connections to clients, and what local networks send elsewhere than into the tunnel.

use std::time::Duration;

use super::{
    filter::{self, Filter, FilterError},
    forwarding::{self, Families, Forwarding},
};
use crate::notice::{Notice, Notices};

/// Time between looks at the table.
const MEND_EVERY: Duration = Duration::from_secs(2);

/// Masquerading with its forwarding, as long as this value.
#[derive(Debug)]
pub(crate) struct Masquerade {
    // Forwarding first: nothing passes when the table is gone.
    _forwarding: Forwarding,
    filter: Filter,
}

/// Shows what `mend` returns, every few seconds; does not return.
pub(crate) async fn keep(notices: &Notices, mend: impl Fn() -> Option<String>) {
    loop {
        tokio::time::sleep(MEND_EVERY).await;
        if let Some(text) = mend() {
            notices.show(&Notice::Warning(text));
        }
    }
}

/// Names of devices as a set of nftables.
fn set<'a>(devices: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = devices
        .into_iter()
        .map(|device| format!("\"{device}\""))
        .collect();
    format!("{{ {} }}", names.join(", "))
}

fn chains(nat: &str, guards: &[String], closed: Families) -> String {
    let families = [(closed.v4, "ipv4"), (closed.v6, "ipv6")];
    let families = families
        .into_iter()
        .filter_map(|(is_closed, name)| is_closed.then_some(name));
    let guards: String = families
        .flat_map(|family| {
            guards
                .iter()
                .map(move |guard| format!("meta nfproto {family} {guard}; "))
        })
        .collect();
    format!(
        "chain leaving {{ type nat hook postrouting priority srcnat; policy accept; {nat} masquerade; }}; \
         chain passing {{ type filter hook forward priority filter; policy accept; {guards} }};"
    )
}

fn exit_chains(device: &str, closed: Families) -> String {
    let nat = format!("iifname \"{device}\" oifname != \"{device}\"");
    let guard = format!("oifname \"{device}\" iifname != \"{device}\" ct state new drop");
    chains(&nat, &[guard], closed)
}

fn lan_chains(device: &str, lan: &[String], closed: Families) -> String {
    let inside = set(lan.iter().map(String::as_str));
    let all = set(lan.iter().map(String::as_str).chain([device]));
    let guards = [
        format!("iifname {inside} oifname != {all} drop"),
        format!("oifname {inside} iifname != {all} ct state new drop"),
    ];
    let nat = format!("iifname {inside} oifname \"{device}\"");
    chains(&nat, &guards, closed)
}

/// Takes back what a process with this device left when it was killed.
pub(crate) fn restore(device: &str) {
    forwarding::restore(device);
}

/// Checks that the program for masquerading is there.
///
/// # Errors
/// It is not.
pub(crate) fn check() -> Result<(), FilterError> {
    filter::check_program()
}

impl Masquerade {
    /// Masquerading for the clients at the device of a server; also returns what may keep their packets from passing.
    ///
    /// # Errors
    /// The table cannot be made.
    pub(crate) fn exit(
        device: &str,
        (v4, v6): (bool, bool),
    ) -> Result<(Self, Vec<String>), FilterError> {
        let wanted = Families { v4, v6 };
        Self::set(device, wanted, |closed| exit_chains(device, closed))
    }

    /// Masquerading for the local networks at these devices into the tunnel; also returns what may keep their packets from passing.
    ///
    /// # Errors
    /// The table cannot be made.
    pub(crate) fn lan(
        device: &str,
        lan: &[String],
        (v4, v6): (bool, bool),
    ) -> Result<(Self, Vec<String>), FilterError> {
        let wanted = Families { v4, v6 };
        Self::set(device, wanted, |closed| lan_chains(device, lan, closed))
    }

    /// Makes the table again if the program that holds it has ended; returns what is to be reported.
    pub(crate) fn mend(&mut self) -> Option<String> {
        match self.filter.mend() {
            Ok(false) => None,
            Ok(true) => Some(
                "the program nft, which holds the rules of masquerading, had ended; they are set again".to_owned(),
            ),
            Err(error) => Some(error.to_string()),
        }
    }

    fn set(
        device: &str,
        wanted: Families,
        chains: impl FnOnce(Families) -> String,
    ) -> Result<(Self, Vec<String>), FilterError> {
        let off = forwarding::off();
        let closed = Families {
            v4: wanted.v4 && off.v4,
            v6: wanted.v6 && off.v6,
        };
        let dropping = filter::dropping();
        let filter = Filter::set(device, &chains(closed))?;
        let (forwarding, mut warnings) = Forwarding::turn_on(device, closed);
        warnings.extend(dropping.iter().map(|chain| {
            format!(
                "the firewall of this machine drops forwarded packets that no rule of it accepts (chain {chain}); have it accept those \
                 from and to {device}, as with `ufw route allow in on {device}` (docs/tunnel.md, \"The exit\")"
            )
        }));
        let masquerade = Self {
            _forwarding: forwarding,
            filter,
        };
        Ok((masquerade, warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_guard_the_families_that_were_not_forwarded() {
        let v4 = Families {
            v4: true,
            v6: false,
        };
        let text = exit_chains("anabranch1", v4);
        assert!(
            text.contains("iifname \"anabranch1\" oifname != \"anabranch1\" masquerade;"),
            "{text}"
        );
        assert!(text.contains("meta nfproto ipv4 oifname \"anabranch1\""));
        assert!(!text.contains("nfproto ipv6"), "{text}");
        let lan = ["eth1".to_owned(), "eth2".to_owned()];
        let none = Families {
            v4: false,
            v6: false,
        };
        let text = lan_chains("anabranch0", &lan, none);
        assert!(text.contains("iifname { \"eth1\", \"eth2\" } oifname \"anabranch0\" masquerade;"));
        assert!(!text.contains("drop"), "{text}");
        let text = lan_chains("anabranch0", &lan, v4);
        assert!(text.contains("oifname != { \"eth1\", \"eth2\", \"anabranch0\" } drop;"));
    }
}
