//! Network of the demonstration: a laptop with three emulated paths to a server, and a host behind the server, each in a network
//! namespace of its own.

use std::{fs, path::Path, process::Command};

use anabranch::{
    base::Seed,
    net::{
        emulate::tun::{End, TunEmulator, TunSpec, within},
        tun,
    },
};
use anabranch_link::describe::parse_both;

use super::super::stage::Place;
use crate::exit::Failure;

/// Beginning of the names of the namespaces; the number of the process and the role follow.
const PREFIX: &str = "anabdemo";
/// Folder in which `ip netns` keeps the namespaces.
const FOLDER: &str = "/var/run/netns";
/// Paths: name, which is also that of the laptop's device, and link.
pub(super) const PATHS: [(&str, &str); 3] = [
    ("wifi", "rate=40 Mbit/s, delay=15 ms, queue=60 ms"),
    ("lte", "rate=20 Mbit/s, delay=40 ms, queue=100 ms"),
    ("5g", "rate=30 Mbit/s, delay=25 ms, queue=80 ms"),
];
/// Index of the path that is cut: the fastest one, which is also the laptop's ordinary route.
pub(super) const CUT: usize = 0;
/// Address of the server, which every path leads to.
pub(super) const SERVER: &str = "192.0.2.1";
/// Addresses of the host behind the server.
pub(super) const HOST: [&str; 2] = ["203.0.113.9", "2001:db8:7::9"];

/// A network namespace; removed when dropped.
#[derive(Debug)]
pub(super) struct Namespace {
    name: String,
}

impl Namespace {
    fn new(role: &str) -> Result<Self, Failure> {
        let name = format!("{PREFIX}-{}-{role}", std::process::id());
        tun::ip(&["netns", "add", &name]).map_err(|error| no_rights(&error))?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    pub(super) fn place(&self) -> Place<'_> {
        Place::Namespace(&self.name)
    }

    /// Runs `ip` in the namespace.
    fn ip(&self, words: &str) -> Result<(), Failure> {
        let words = words.split(' ');
        let words: Vec<&str> = ["-n", &self.name].into_iter().chain(words).collect();
        tun::ip(&words).map_err(Failure::other)
    }

    /// Turns a setting of the kernel on, named by its path in /proc/sys.
    fn turn_on(&self, setting: &str) -> Result<(), Failure> {
        let path = format!("/proc/sys/{setting}");
        let written = within(&self.name, || fs::write(&path, "1")).map_err(Failure::other)?;
        written.map_err(|error| Failure::other(format!("{path}: {error}")))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that remains is removed by the next run.
        let _ = tun::ip(&["netns", "delete", &self.name]);
    }
}

/// The missing right, in one line.
fn no_rights(cause: &str) -> Failure {
    let last = cause.lines().last().unwrap_or_default().trim();
    Failure::other(format!(
        "the demonstration makes network namespaces and TUN devices, which needs root, `ip` and /dev/net/tun ({last}): run it with \
         sudo; `anabranch demo-gateway` needs no root"
    ))
}

/// Namespaces with the paths between them; removed when dropped.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) emulator: TunEmulator,
    pub(super) laptop: Namespace,
    pub(super) server: Namespace,
    pub(super) host: Namespace,
}

impl Layout {
    /// # Errors
    /// The process may not make namespaces and devices.
    pub(super) fn new(seed: Seed) -> Result<Self, Failure> {
        remove_orphans();
        let device = fs::File::options().write(true).open("/dev/net/tun");
        device.map_err(|error| no_rights(&format!("/dev/net/tun: {error}")))?;
        let [laptop, server, host] = [
            Namespace::new("laptop")?,
            Namespace::new("server")?,
            Namespace::new("host")?,
        ];
        let emulator = TunEmulator::start(specs(&laptop, &server), seed);
        let emulator = emulator.map_err(|error| no_rights(&error.to_string()))?;
        server.ip(&format!("address add {SERVER}/32 dev lo"))?;
        for (index, (name, _)) in PATHS.iter().enumerate() {
            laptop.ip(&format!(
                "route add default via 10.95.{index}.2 dev {name} metric {}",
                100 + index
            ))?;
        }
        connect(&server, &host)?;
        Ok(Self {
            emulator,
            laptop,
            server,
            host,
        })
    }
}

fn specs(laptop: &Namespace, server: &Namespace) -> Vec<TunSpec> {
    let spec = |(index, (name, link)): (usize, &(&str, &str))| {
        let end = |namespace: &Namespace, side: u8| End {
            namespace: Some(namespace.name.clone()),
            device: (*name).to_owned(),
            address: format!("10.95.{index}.{side}/24"),
        };
        TunSpec {
            name: (*name).to_owned(),
            first: end(laptop, 1),
            second: end(server, 2),
            links: parse_both(link, &mut |_| Err("no traces here".to_owned()))
                .expect("the links of this file are valid"),
        }
    };
    PATHS.iter().enumerate().map(spec).collect()
}

/// Joins the server and the host by a cable. The server forwards between them and its clients; the host knows the way back, in
/// place of masquerading.
fn connect(server: &Namespace, host: &Namespace) -> Result<(), Failure> {
    let there = &host.name;
    server.ip(&format!(
        "link add lan type veth peer name eth0 netns {there}"
    ))?;
    let near = ["203.0.113.1", "2001:db8:7::1"];
    for (namespace, device, addresses) in [(server, "lan", near), (host, "eth0", HOST)] {
        let [v4, v6] = addresses;
        namespace.ip(&format!("address add {v4}/24 dev {device}"))?;
        namespace.ip(&format!("address add {v6}/64 dev {device} nodad"))?;
        namespace.ip(&format!("link set {device} up"))?;
        tun::await_v6_route(&["-n", &namespace.name], v6);
    }
    for gateway in near {
        host.ip(&format!("route add default via {gateway}"))?;
    }
    server.turn_on("net/ipv4/ip_forward")?;
    server.turn_on("net/ipv6/conf/all/forwarding")
}

/// Number of the process in the name of a namespace; `None`: it is not one of ours.
fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix('-')?;
    rest.split('-').next()?.parse().ok()
}

/// Removes the namespaces of runs that were killed, with the processes in them.
fn remove_orphans() {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_over = |owner: u32| !Path::new(&format!("/proc/{owner}")).exists();
        if owner(&name).is_some_and(is_over) {
            let processes = tun::ip_output(&["netns", "pids", &name]).unwrap_or_default();
            for process in processes.split_ascii_whitespace() {
                // It may have ended.
                let _ = Command::new("kill").args(["-KILL", process]).status();
            }
            let _ = tun::ip(&["netns", "delete", &name]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_the_demonstration_have_an_owner() {
        assert_eq!(owner("anabdemo-17-host"), Some(17));
        for other in ["anabdemo", "anabdemo-x-host", "anablab-17-near"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn a_missing_right_is_one_line() {
        let failure = no_rights("`ip netns add x`: mkdir failed\nmount failed: not permitted\n");
        let text = failure.message();
        assert!(
            !text.contains('\n') && text.contains("mount failed: not permitted"),
            "{text}"
        );
        assert!(text.contains("sudo"), "{text}");
    }
}
