//! Settings of the client's machine: addresses of the device, routes, and the servers that resolve names. All are taken back when this is
//! dropped, or end with the device.

use std::net::{IpAddr, SocketAddr};

use crate::{
    lease::Prefix,
    system::{self, Kinds, Lan, Names, Routing, SetupError},
    wire::Terms,
};

/// Settings of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Name of the device.
    pub device: String,
    /// Largest IP packet, in bytes; that of the server counts if it is smaller.
    pub mtu: u16,
    /// Destinations that go through the tunnel.
    pub kinds: Kinds,
    /// Servers that resolve names; empty: those of this machine stay.
    pub dns: Vec<IpAddr>,
    /// Addresses at which this node reaches the server.
    pub servers: Vec<SocketAddr>,
    /// TCP connections end at the node, and are carried as streams.
    pub split_tcp: bool,
    /// Devices of local networks whose machines reach everything through the tunnel.
    pub lan: Vec<String>,
}

/// The settings in force.
#[derive(Debug)]
pub(super) struct Machine {
    settings: Settings,
    terms: Option<Terms>,
    is_over: bool,
    // Names first, then local networks: they are put back before the routes.
    names: Option<Names>,
    lan: Option<Lan>,
    routing: Option<Routing>,
}

impl Machine {
    /// Takes back what a process that was killed has left, and sets the device up, which exists.
    pub(super) fn prepare(settings: Settings) -> Result<Self, SetupError> {
        system::set_up(&settings.device, settings.mtu)?;
        system::restore_names(&settings.device)?;
        system::restore_forwarding(&settings.device);
        system::check_lan(&settings.lan)?;
        Ok(Self {
            settings,
            terms: None,
            is_over: false,
            names: None,
            lan: None,
            routing: None,
        })
    }

    /// Takes everything back but the device; later addresses are not applied.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.names = None;
        self.lan = None;
        self.routing = None;
    }

    /// Makes again what was lost of its settings; returns what is to be reported.
    pub(super) fn mend(&mut self) -> Option<String> {
        self.lan.as_mut()?.mend()
    }

    /// Adds addresses at which this node reaches the server, such as those of its name, before the routes are set.
    pub(super) fn reach(&mut self, servers: &[SocketAddr]) {
        for server in servers {
            if !self.settings.servers.contains(server) {
                self.settings.servers.push(*server);
            }
        }
    }

    /// Gives the device the addresses that the server assigned.
    pub(super) fn number(&mut self, terms: &Terms) -> Result<(), SetupError> {
        if self.is_over || self.terms.as_ref() == Some(terms) {
            return Ok(());
        }
        let device = &self.settings.device;
        let v4 = terms.v4.map(|v4| (IpAddr::V4(v4.address), v4.length));
        let v6 = terms.v6.map(|v6| (IpAddr::V6(v6.address), v6.length));
        let addresses: Vec<(IpAddr, u8)> = v4.into_iter().chain(v6).collect();
        let networks = addresses.iter();
        let networks: Vec<Prefix> = networks
            .filter_map(|&(address, length)| Prefix::of(address, length))
            .collect();
        system::check_conflicts(device, &networks)?;
        system::set_addresses(device, &addresses)?;
        system::set_mtu(device, terms.mtu)?;
        self.terms = Some(*terms);
        Ok(())
    }

    /// Leads traffic to the device, which has addresses; returns what needs attention.
    pub(super) fn route(&mut self) -> Result<Vec<String>, SetupError> {
        let mut warnings = Vec::new();
        let Some(terms) = self.terms.filter(|_| !self.is_over) else {
            return Ok(warnings);
        };
        let Settings {
            device,
            kinds,
            dns,
            servers,
            lan,
            ..
        } = &self.settings;
        if self.routing.is_none() {
            self.routing = Routing::set(device, kinds, servers, system::has_v6())?;
        }
        if self.lan.is_none() {
            system::remove_lan_rules();
            if !lan.is_empty() {
                let (set, cautions) = Lan::set(device, lan, terms.v6.is_some())?;
                self.lan = Some(set);
                warnings = cautions;
            }
        }
        if self.names.is_none() && !dns.is_empty() {
            self.names = Some(Names::set(device, dns)?);
        }
        Ok(warnings)
    }
}
