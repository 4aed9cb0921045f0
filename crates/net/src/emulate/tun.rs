//! Emulated links between network namespaces, for any program's IP traffic. Needs root.
//!
//! Each link is a pair of TUN devices, one in each namespace; an IP packet that enters one leaves
//! the other, unless the link drops it.

use std::{fs::File, future::poll_fn, os::fd::AsFd, pin::pin, task::Poll};

use anabranch_base::Seed;
use anabranch_link::{Duplex, duplex::Configs};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::{AsyncDevice, SyncDevice};

use super::{
    control::{EmulateError, Path, Shared, Worker},
    line::{Arrived, Line},
};
use crate::{
    timer::Timer,
    tun::{create, ip},
};

/// Packets read from one device before packets that are due are sent.
const READS_MAX: usize = 64;
/// Largest IP packet.
const PACKET_BYTES_MAX: usize = 65_535;

/// One end of an emulated link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Name of a network namespace as in `ip netns`; `None`: that of this process.
    pub namespace: Option<String>,
    /// Name of the device to create, at most 15 characters.
    pub device: String,
    /// Its address with prefix length, such as `10.9.1.1/24`.
    pub address: String,
}

/// One emulated link.
#[derive(Clone, Debug)]
pub struct TunSpec {
    /// Name, for display only.
    pub name: String,
    /// End at which the forward direction begins.
    pub first: End,
    /// End at which the forward direction ends.
    pub second: End,
    /// The link.
    pub links: Configs,
}

/// Running links between namespaces; dropping it removes the devices.
#[derive(Debug)]
pub struct TunEmulator {
    paths: Vec<Path>,
    _worker: Worker,
}

impl TunEmulator {
    /// Creates the devices, sets their addresses, and starts the links.
    ///
    /// # Errors
    /// A namespace or device is not available, or a link's config is out of range.
    pub fn start(specs: Vec<TunSpec>, seed: Seed) -> Result<Self, EmulateError> {
        let configs = specs.iter().map(|spec| (spec.name.as_str(), &spec.links));
        let shared = Shared::new(configs, seed)?;
        let mut devices = Vec::new();
        for spec in &specs {
            let mtu = spec
                .links
                .forward
                .mtu_bytes
                .min(spec.links.backward.mtu_bytes);
            devices.push((make(&spec.first, mtu)?, make(&spec.second, mtu)?));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let wires: std::io::Result<Vec<_>> = {
            let _guard = runtime.enter();
            devices.into_iter().map(Wire::new).collect()
        };
        let wires = match wires {
            Ok(wires) => wires,
            Err(error) => {
                // Dropping it here could block the caller's runtime.
                runtime.shutdown_background();
                return Err(error.into());
            }
        };
        let for_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("tun-emulator".to_owned())
            .spawn(move || runtime.block_on(run(&for_thread, wires)))?;
        let path = |(index, spec): (usize, TunSpec)| Path {
            shared: shared.clone(),
            index,
            name: spec.name,
        };
        Ok(Self {
            paths: specs.into_iter().enumerate().map(path).collect(),
            _worker: Worker {
                shared,
                thread: Some(thread),
            },
        })
    }

    /// The links, in the order of their specs.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }
}

/// Does some work on a thread that enters a network namespace, named as in `ip netns`, and ends then: no other thread of this
/// process changes its namespace. Sockets that the work opens stay in the namespace, as do the threads that it starts, such as that of a
/// [`Host`](crate::Host). Needs root.
///
/// # Errors
/// The namespace cannot be entered; nothing was done.
///
/// # Panics
/// If the work does.
pub fn within<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> T + Send,
) -> Result<T, EmulateError> {
    let inside = || {
        enter(namespace).map_err(|source| EmulateError::Namespace {
            name: namespace.to_owned(),
            source,
        })?;
        Ok(work())
    };
    let joined = std::thread::scope(|scope| scope.spawn(inside).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Creates a device in its namespace.
fn make(end: &End, mtu_bytes: usize) -> Result<SyncDevice, EmulateError> {
    let make = || {
        let failed = |reason: String| EmulateError::Device {
            name: end.device.clone(),
            reason,
        };
        let device = create(&end.device).map_err(|error| failed(error.to_string()))?;
        let mtu = mtu_bytes.to_string();
        let device_name = end.device.as_str();
        ip(&["address", "add", &end.address, "dev", device_name]).map_err(failed)?;
        ip(&["link", "set", device_name, "mtu", &mtu, "up"]).map_err(failed)?;
        Ok(device)
    };
    match &end.namespace {
        Some(name) => within(name, make)?,
        None => make(),
    }
}

fn enter(namespace: &str) -> std::io::Result<()> {
    if namespace.contains('/') {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let file = File::open(format!("/var/run/netns/{namespace}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// One link with both devices.
struct Wire {
    first: AsyncDevice,
    second: AsyncDevice,
    forward: Line<Arrived<Vec<u8>>>,
    backward: Line<Arrived<Vec<u8>>>,
}

async fn run(shared: &Shared, mut wires: Vec<Wire>) {
    let clock = shared.clock;
    let Ok(mut timer) = Timer::new(clock) else {
        tracing::error!("cannot create a timer for the emulator");
        return;
    };
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        let arrivals = wires
            .iter()
            .flat_map(|w| [w.forward.next_at(), w.backward.next_at()]);
        let next = arrivals.flatten().min();
        {
            let mut changed = pin!(shared.changed());
            poll_fn(|cx| {
                let mut is_ready = changed.as_mut().poll(cx).is_ready();
                for device in wires.iter().flat_map(|wire| [&wire.first, &wire.second]) {
                    is_ready |= device.poll_readable(cx).is_ready();
                }
                if timer.arm(next).is_err() || is_ready || timer.poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                Poll::Pending
            })
            .await;
        }
        let mut state = shared.lock();
        if state.is_over {
            return;
        }
        for (wire, link) in wires.iter_mut().zip(&mut state.links) {
            wire.enter(link, shared, &mut buffer);
            wire.leave(link, shared);
        }
    }
}

impl Wire {
    fn new((first, second): (SyncDevice, SyncDevice)) -> std::io::Result<Self> {
        Ok(Self {
            first: AsyncDevice::new(first)?,
            second: AsyncDevice::new(second)?,
            forward: Line::default(),
            backward: Line::default(),
        })
    }

    fn enter(&mut self, link: &mut Duplex, shared: &Shared, buffer: &mut [u8]) {
        for _ in 0..READS_MAX {
            let Ok(length) = self.first.try_recv(buffer) else {
                break;
            };
            let packet = buffer[..length].to_vec();
            let (now, capable) = (shared.clock.now(), is_ecn_capable(&packet));
            self.forward
                .offer(&mut link.forward, now, length, capable, packet);
        }
        for _ in 0..READS_MAX {
            let Ok(length) = self.second.try_recv(buffer) else {
                break;
            };
            let packet = buffer[..length].to_vec();
            let (now, capable) = (shared.clock.now(), is_ecn_capable(&packet));
            self.backward
                .offer(&mut link.backward, now, length, capable, packet);
        }
    }

    fn leave(&mut self, link: &Duplex, shared: &Shared) {
        let now = shared.clock.now();
        let deliver = |device: &AsyncDevice, mut arrived: Arrived<Vec<u8>>| {
            if arrived.is_marked {
                mark(&mut arrived.packet);
            }
            // If the namespace's queue is full, the packet is lost, as in a full network card.
            if let Err(error) = device.try_send(&arrived.packet) {
                tracing::trace!(%error, "packet not delivered");
            }
        };
        while let Some(arrived) = self.forward.arrived(&link.forward, now) {
            deliver(&self.second, arrived);
        }
        while let Some(arrived) = self.backward.arrived(&link.backward, now) {
            deliver(&self.first, arrived);
        }
    }
}

/// True if an IP packet's ECN field is ECT(0) or ECT(1) (RFC 3168 §5).
fn is_ecn_capable(packet: &[u8]) -> bool {
    match packet {
        [first, second, ..] if first >> 4 == 4 => matches!(second & 0b11, 1 | 2),
        [first, second, ..] if first >> 4 == 6 => matches!((second >> 4) & 0b11, 1 | 2),
        _ => false,
    }
}

/// Sets an IP packet's ECN field to CE.
fn mark(packet: &mut [u8]) {
    let Some(&first) = packet.first() else {
        return;
    };
    match first >> 4 {
        4 if packet.len() >= 20 => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= 0b11;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
            let sum = u16::from_be_bytes([packet[10], packet[11]]);
            let mut total = u32::from(!sum) + u32::from(!before) + u32::from(after);
            while total > 0xffff {
                total = (total & 0xffff) + (total >> 16);
            }
            packet[10..12].copy_from_slice(&(!(total as u16)).to_be_bytes());
        }
        6 if packet.len() >= 40 => packet[1] |= 0b11 << 4,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Internet checksum (RFC 1071) of a header; 0 when the checksum in it is right.
    fn checksum(header: &[u8]) -> u16 {
        let words = header
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn a_mark_keeps_the_ipv4_checksum_right() {
        for ecn in [1u8, 2] {
            let mut packet = [
                0x45, ecn, 0, 20, 0x1c, 0x46, 0x40, 0, 64, 6, 0, 0, 172, 16, 10, 99, 172, 16, 10,
                12,
            ];
            let sum = checksum(&packet).to_be_bytes();
            packet[10..12].copy_from_slice(&sum);
            assert!(is_ecn_capable(&packet));
            mark(&mut packet);
            assert_eq!(packet[1] & 0b11, 0b11);
            assert!(!is_ecn_capable(&packet));
            assert_eq!(checksum(&packet), 0);
        }
    }

    #[test]
    fn a_mark_on_ipv6_and_on_rubbish() {
        let mut packet = [0u8; 40];
        packet[0] = 0x60;
        packet[1] = 2 << 4;
        assert!(is_ecn_capable(&packet));
        mark(&mut packet);
        assert_eq!((packet[1] >> 4) & 0b11, 0b11);
        mark(&mut []);
        mark(&mut [0x45]);
        assert!(!is_ecn_capable(&[]));
    }

    #[test]
    fn an_unknown_namespace_is_named() {
        let end = End {
            namespace: Some("no-such-namespace".to_owned()),
            device: "anab0".to_owned(),
            address: "10.9.9.1/30".to_owned(),
        };
        let error = make(&end, 1500).map(drop).unwrap_err().to_string();
        assert!(error.contains("no-such-namespace"), "{error}");
        let entered = within("no-such-namespace", || panic!("it is not there"));
        let error = entered.map(drop).unwrap_err().to_string();
        assert!(error.contains("no-such-namespace"), "{error}");
    }
}
