//! Three nodes on this machine with emulated paths between them: on loopback, or in two network namespaces.

use std::net::SocketAddr;

use anabranch::{
    AllowList, Host, HostConfig, SecretKey,
    base::Seed,
    keys,
    net::{
        emulate::{Emulator, Entrance, Path, PathSpec},
        session::Link,
    },
};
use anabranch_lab::experiments::promises_live::setting::{PEERS, Setting};

use crate::failure::Failure;

/// Nodes and paths. Fields are dropped in their order: the namespaces last.
pub(super) struct Bench {
    pub(super) origin: Host,
    pub(super) peers: Vec<Host>,
    /// Links to each peer, one for each path.
    pub(super) links: Vec<Vec<Link>>,
    emulator: Emulated,
    #[cfg(target_os = "linux")]
    _namespaces: Vec<super::namespaces::Namespace>,
}

/// The emulator of the paths, which ends when it is dropped.
enum Emulated {
    Udp(Emulator),
    #[cfg(target_os = "linux")]
    Tun(anabranch::net::emulate::tun::TunEmulator),
}

/// Keys of the origin and of the peers.
struct Keys {
    origin: SecretKey,
    peers: Vec<SecretKey>,
}

impl Keys {
    fn new() -> Result<Self, Failure> {
        let peers: Result<Vec<SecretKey>, _> = (0..PEERS).map(|_| keys::generate()).collect();
        Ok(Self {
            origin: keys::generate()?,
            peers: peers?,
        })
    }

    fn into_configs(self) -> (HostConfig, Vec<HostConfig>) {
        let caller = self.origin.node_id();
        let peer = |key: SecretKey| HostConfig::new(key, AllowList::of([caller]));
        let peers = self.peers.into_iter().map(peer).collect();
        (HostConfig::new(self.origin, AllowList::default()), peers)
    }
}

/// The links of an origin whose sockets are in the order of these remote addresses, by peer.
fn links(origin: &Host, remotes: impl Iterator<Item = SocketAddr>, paths: usize) -> Vec<Vec<Link>> {
    let sockets = origin.sockets().into_iter();
    let links: Vec<Link> = sockets
        .zip(remotes)
        .map(|(socket, remote)| Link {
            socket: socket.id,
            remote,
        })
        .collect();
    links.chunks(paths).map(<[Link]>::to_vec).collect()
}

impl Bench {
    /// The emulated paths.
    pub(super) fn paths(&self) -> &[Path] {
        match &self.emulator {
            Emulated::Udp(emulator) => emulator.paths(),
            #[cfg(target_os = "linux")]
            Emulated::Tun(emulator) => emulator.paths(),
        }
    }

    /// Starts all of it on loopback, where the paths are UDP ports.
    pub(super) fn on_loopback(seed: Seed, setting: &Setting) -> Result<Self, Failure> {
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (origin, configs) = Keys::new()?.into_configs();
        let mut peers = Vec::new();
        for config in configs {
            peers.push(Host::start(config.bind([loopback]))?);
        }
        // A socket for each path of each session, as in virtual time.
        let paths = setting.paths.len();
        let origin = Host::start(origin.bind(vec![loopback; paths * PEERS]))?;
        let specs = setting.paths.iter().map(|path| PathSpec {
            name: path.name.clone(),
            listen: loopback,
            target: peers[0].addresses()[0],
            links: path.configs(),
        });
        let others = peers.iter().skip(1);
        let entrances = others.flat_map(|peer| {
            (0..paths).map(|path| Entrance {
                path,
                listen: loopback,
                target: peer.addresses()[0],
            })
        });
        let entrances: Vec<Entrance> = entrances.collect();
        let emulator = Emulator::start_with(specs.collect(), &entrances, seed);
        let emulator = emulator.map_err(Failure::other)?;
        let remotes = emulator.addresses().iter().chain(emulator.entrances());
        Ok(Self {
            links: links(&origin, remotes.copied(), paths),
            origin,
            peers,
            emulator: Emulated::Udp(emulator),
            #[cfg(target_os = "linux")]
            _namespaces: Vec::new(),
        })
    }

    /// Starts the origin in one network namespace and the peers in another, with a pair of TUN devices for each path. Needs root.
    #[cfg(target_os = "linux")]
    pub(super) fn in_namespaces(seed: Seed, setting: &Setting) -> Result<Self, Failure> {
        use anabranch::net::emulate::tun::{End, TunEmulator, TunSpec, within};

        use super::namespaces::Namespace;

        let namespaces = [Namespace::new("near")?, Namespace::new("far")?];
        let [near, far] = namespaces.each_ref().map(Namespace::name);
        let end = |namespace: &str, device: String, address: String| End {
            namespace: Some(namespace.to_owned()),
            device,
            address: format!("{address}/24"),
        };
        let specs = setting
            .paths
            .iter()
            .enumerate()
            .map(|(index, path)| TunSpec {
                name: path.name.clone(),
                first: end(
                    near,
                    format!("path{index}a"),
                    address(index, NEAR).ip().to_string(),
                ),
                second: end(
                    far,
                    format!("path{index}b"),
                    address(index, FAR).ip().to_string(),
                ),
                links: path.configs(),
            });
        let emulator = TunEmulator::start(specs.collect(), seed).map_err(Failure::other)?;
        let paths = setting.paths.len();
        let all = |end: u8| (0..paths).map(move |index| address(index, end));
        let (origin, configs) = Keys::new()?.into_configs();
        let start = |namespace: &str, config: HostConfig| {
            let started = within(namespace, || Host::start(config)).map_err(Failure::other)?;
            started.map_err(Failure::other)
        };
        // An address on each path, so that what a peer sends on a path leaves by it.
        let mut peers = Vec::new();
        for config in configs {
            peers.push(start(far, config.bind(all(FAR)))?);
        }
        let binds: Vec<SocketAddr> = (0..PEERS).flat_map(|_| all(NEAR)).collect();
        let origin = start(near, origin.bind(binds))?;
        let remotes: Vec<SocketAddr> = peers.iter().flat_map(Host::addresses).collect();
        Ok(Self {
            links: links(&origin, remotes.into_iter(), paths),
            origin,
            peers,
            emulator: Emulated::Tun(emulator),
            _namespaces: namespaces.into(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn in_namespaces(_: Seed, _: &Setting) -> Result<Self, Failure> {
        Err(Failure::usage("--netns works on Linux only"))
    }
}

/// Ends of a path, in the last part of their addresses.
#[cfg(target_os = "linux")]
const NEAR: u8 = 1;
#[cfg(target_os = "linux")]
const FAR: u8 = 2;

/// Address of an end of a path, with a port that the kernel chooses.
#[cfg(target_os = "linux")]
fn address(path: usize, end: u8) -> SocketAddr {
    let path = u8::try_from(path).expect("a set has few paths");
    ([10, 94, path, end], 0).into()
}
