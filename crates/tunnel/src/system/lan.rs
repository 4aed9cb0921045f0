//! Local networks behind a client, whose machines reach everything through the tunnel.
//!
//! | priority | rule | purpose |
//! |---|---|---|
//! | 5268 | from the local network: table `main`, but for its default routes | the networks of this machine's own interfaces stay as they are |
//! | 5269 | from the local network: a table with nothing but the tunnel | everything else goes through the tunnel |
//!
//! They precede the rules of the client's own traffic, and hold without a default route of its own. Packets get the client's address in the
//! tunnel, so that the server needs to know nothing. A family that the tunnel does not carry is not forwarded.

use std::fs;

use anabranch::{
    config::TUNNEL_MARK,
    net::tun::{ip, ip_output},
};

use super::{
    SetupError,
    masquerade::{self, Masquerade},
    routing::{RoutingError, remove, taken_by},
};

const PRIORITY_OWN_NETWORKS: &str = "5268";
const PRIORITY_LAN: &str = "5269";
/// Table with the routes of local networks.
const TABLE: u32 = TUNNEL_MARK + 1;

/// Rules of local networks; removed when dropped.
#[derive(Debug)]
struct Rules {
    _priv: (),
}

impl Drop for Rules {
    fn drop(&mut self) {
        remove_rules();
    }
}

/// Local networks that are routed into the tunnel, as long as this value.
#[derive(Debug)]
pub(crate) struct Lan {
    // Forwarding ends first, while the rules lead into the tunnel.
    masquerade: Masquerade,
    _rules: Rules,
}

/// Removes the rules of this process, or of one that was killed.
pub(crate) fn remove_rules() {
    remove(&[PRIORITY_LAN, PRIORITY_OWN_NETWORKS]);
}

/// Checks that the devices of local networks are there, and the program for masquerading.
///
/// # Errors
/// The first one that is missing.
pub(crate) fn check(devices: &[String]) -> Result<(), SetupError> {
    for device in devices {
        if ip(&["link", "show", "dev", device]).is_err() {
            return Err(SetupError::NoInterface(device.clone()));
        }
    }
    if !devices.is_empty() {
        masquerade::check()?;
    }
    Ok(())
}

/// True if one of the devices has an IPv6 address that others than its neighbours can use.
fn has_v6(devices: &[String]) -> bool {
    devices.iter().any(|device| {
        let words = [
            "-6", "-oneline", "address", "show", "dev", device, "scope", "global",
        ];
        ip_output(&words).is_ok_and(|shown| !shown.trim().is_empty())
    })
}

fn set_family(family: &str, device: &str, lan: &[String]) -> Result<(), String> {
    let table = TABLE.to_string();
    ip(&[
        family, "route", "replace", "default", "dev", device, "table", &table,
    ])?;
    for from in lan {
        let rule = |priority| [family, "rule", "add", "priority", priority, "iif", from];
        let own = ["lookup", "main", "suppress_prefixlength", "0"];
        ip(&[&rule(PRIORITY_OWN_NETWORKS)[..], &own].concat())?;
        ip(&[&rule(PRIORITY_LAN)[..], &["lookup", &table]].concat())?;
    }
    Ok(())
}

impl Lan {
    /// Makes the table of the packet filter again if it was lost; returns what is to be reported.
    pub(crate) fn mend(&mut self) -> Option<String> {
        self.masquerade.mend()
    }

    /// Routes what comes from the devices `lan` into the tunnel at `device`, which carries IPv6 or not; also returns what may keep packets
    /// from passing.
    ///
    /// # Errors
    /// The command that failed; nothing is left of what was set.
    pub(crate) fn set(
        device: &str,
        lan: &[String],
        carries_v6: bool,
    ) -> Result<(Self, Vec<String>), SetupError> {
        if let Some(other) = taken_by(device, TABLE) {
            return Err(RoutingError::Taken(other).into());
        }
        remove_rules();
        let rules = Rules { _priv: () };
        set_family("-4", device, lan).map_err(RoutingError::Ip)?;
        super::enable_v6(device);
        let has_v6 = has_v6(lan);
        match set_family("-6", device, lan) {
            Ok(()) => {}
            Err(error) if has_v6 => return Err(RoutingError::Ip(error).into()),
            Err(error) => tracing::debug!(error, "no IPv6 for local networks, which have none"),
        }
        // Answers come from everywhere, also where this machine's own default route leads elsewhere: a strict reverse-path filter would
        // drop them. The setting ends with the device.
        let _ = fs::write(format!("/proc/sys/net/ipv4/conf/{device}/rp_filter"), "2");
        let families = (true, has_v6 && carries_v6);
        let (masquerade, warnings) = Masquerade::lan(device, lan, families)?;
        let lan = Self {
            masquerade,
            _rules: rules,
        };
        Ok((lan, warnings))
    }
}
