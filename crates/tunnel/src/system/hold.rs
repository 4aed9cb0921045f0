//! Routes of the tunnel while the addresses of its device change. With the last IPv4 address of a device, the kernel drops all IPv4 routes
//! that lead there, and packets would pass outside.

use anabranch::{
    config::TUNNEL_MARK,
    net::tun::{ip, ip_output},
};

/// Metric of what takes the place of a route: any other route counts more.
const LAST: &str = "4294967295";

/// Destinations of the tunnel's tables, which nothing else is reached by meanwhile; the routes are set again when this is dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    device: String,
    routes: Vec<(String, String)>,
}

impl Hold {
    /// Holds the IPv4 routes to a device.
    pub(crate) fn new(device: &str) -> Self {
        let mut routes = Vec::new();
        // Those of this machine, and of local networks behind it.
        for table in [TUNNEL_MARK, TUNNEL_MARK + 1].map(|table| table.to_string()) {
            // There may be no such table.
            let words = ["-4", "route", "show", "table", &table, "dev", device];
            let shown = ip_output(&words).unwrap_or_default();
            let networks = shown.lines().filter_map(|line| line.split(' ').next());
            routes.extend(networks.map(|network| (table.clone(), network.to_owned())));
        }
        let hold = Self {
            device: device.to_owned(),
            routes,
        };
        for (table, network) in &hold.routes {
            let words = ["unreachable", network, "metric", LAST, "table", table];
            report(&[&["-4", "route", "replace"], &words[..]].concat());
        }
        hold
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for (table, network) in &self.routes {
            let words = [network, "dev", &self.device, "table", table];
            if report(&[&["-4", "route", "replace"], &words[..]].concat()) {
                let words = ["unreachable", network, "metric", LAST, "table", table];
                report(&[&["-4", "route", "delete"], &words[..]].concat());
            }
        }
    }
}

/// Runs `ip`; true if it has succeeded. If it has not, packets of this destination stay on this machine.
fn report(words: &[&str]) -> bool {
    let done = ip(words);
    if let Err(error) = &done {
        tracing::error!(error, "a route of the tunnel is not set");
    }
    done.is_ok()
}
