//! TUN devices: network interfaces whose IP packets a program reads and writes. Linux only; needs CAP_NET_ADMIN.
//!
//! A device lives as long as its handle: when the process ends, however it ends, the kernel removes the device with its addresses
//! and routes.

mod batch;

use std::{
    fs::File,
    io,
    process::Command,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use tun_rs::{AsyncDevice, DeviceBuilder, SyncDevice};

pub use self::batch::{ReadBatch, WRITES_MAX, WriteBatch};

/// The file through which devices are made.
const CLONE_DEVICE: &str = "/dev/net/tun";
/// Longest name of a device, in bytes (`IFNAMSIZ` without the final zero).
pub const NAME_BYTES_MAX: usize = 15;

/// Longest time for the route of an address to appear, and the pause between two looks.
const ROUTE_TIME: Duration = Duration::from_secs(5);
const ROUTE_PAUSE: Duration = Duration::from_millis(10);

/// A device cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The name cannot be that of a device.
    #[error(
        "'{0}' is no name for a device; give 1 to {NAME_BYTES_MAX} letters, digits, '-', '_' or '.'"
    )]
    Name(String),
    /// The kernel has no TUN devices here.
    #[error(
        "there is no {CLONE_DEVICE}: {0}; load the module with `modprobe tun`, or give the container this device"
    )]
    Missing(io::Error),
    /// The process may not open the file.
    #[error(
        "{CLONE_DEVICE} cannot be opened: {0}; run this as root, or with the right CAP_NET_ADMIN where every user may open it (chmod 666)"
    )]
    Denied(io::Error),
    /// The process may not create devices.
    #[error(
        "creating the device '{0}' needs the right CAP_NET_ADMIN, which this process does not have; run it as root, or with \
         AmbientCapabilities=CAP_NET_ADMIN under systemd"
    )]
    Rights(String),
    /// Another process has a device of this name.
    #[error("another process has the device '{0}'; give another name")]
    Busy(String),
    /// Another failure.
    #[error("cannot create the device '{name}': {source}")]
    Other {
        /// The device.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// `EBUSY` of errno.h.
const BUSY: i32 = 16;

/// True if a device may have this name.
pub fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !matches!(text, "." | "..")
}

/// Creates a device of this name in the namespace of the calling thread, and sets it up.
pub(crate) fn create(name: &str) -> Result<SyncDevice, TunError> {
    build(name, false)
}

/// As [`create`]; with `offloads`, a read or a write has a header, and may be of a large packet.
fn build(name: &str, offloads: bool) -> Result<SyncDevice, TunError> {
    if !is_name(name) {
        return Err(TunError::Name(name.to_owned()));
    }
    // Tells apart what the library reports as one.
    if let Err(error) = File::options().read(true).write(true).open(CLONE_DEVICE) {
        return Err(match error.kind() {
            io::ErrorKind::PermissionDenied => TunError::Denied(error),
            _ => TunError::Missing(error),
        });
    }
    let name_of = || name.to_owned();
    let builder = DeviceBuilder::new().name(name).offload(offloads);
    let built = builder.build_sync();
    built.map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => TunError::Rights(name_of()),
        _ if source.raw_os_error() == Some(BUSY) => TunError::Busy(name_of()),
        _ => TunError::Other {
            name: name_of(),
            source,
        },
    })
}

/// Runs `ip` in the namespace of the calling thread.
///
/// # Errors
/// The command, and what it printed.
pub fn ip(arguments: &[&str]) -> Result<(), String> {
    ip_output(arguments).map(drop)
}

/// As [`ip`]; returns what it printed to standard output.
///
/// # Errors
/// The command, and what it printed to standard error.
pub fn ip_output(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("ip")
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run `ip` (package iproute2): {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("`ip {}`: {}", arguments.join(" "), words.trim()))
}

/// Waits until the kernel delivers packets to an IPv6 address that `ip` has given a device, for at most 5 s; false: not yet. Without `options`, such as
/// `-n` with a namespace, the device is in the namespace of the calling thread.
///
/// The kernel adds the address's route by itself, after the command has ended, and later the more devices and namespaces come and go. Until then,
/// packets to the address are dropped.
pub fn await_v6_route(options: &[&str], address: &str) -> bool {
    let address = address.split('/').next().unwrap_or_default();
    let question = ["-6", "route", "show", "table", "local", address];
    let question = [options, &question].concat();
    let begun = Instant::now();
    loop {
        // Where it cannot be asked for, nothing is waited for.
        match ip_output(&question) {
            Ok(routes) if routes.trim().is_empty() => {}
            _ => return true,
        }
        if begun.elapsed() >= ROUTE_TIME {
            return false;
        }
        thread::sleep(ROUTE_PAUSE);
    }
}

/// A TUN device of this process, up and without addresses; removed when dropped.
pub struct Tun {
    name: String,
    device: AsyncDevice,
    /// True if a read or a write has a header, and may be of a large packet.
    offloads: bool,
    /// Empty batches whose memory is used again.
    batches: Mutex<Vec<WriteBatch>>,
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tun").field("name", &self.name).finish()
    }
}

impl Tun {
    /// Creates a device of this name in the network namespace of the calling thread. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The cause, and what to do about it.
    pub fn create(name: &str) -> Result<Self, TunError> {
        // An old kernel, or one without this, has plain packets.
        let (device, offloads) = match build(name, true) {
            Ok(device) => (device, true),
            Err(TunError::Other { .. }) => (create(name)?, false),
            Err(error) => return Err(error),
        };
        let device = AsyncDevice::new(device).map_err(|source| TunError::Other {
            name: name.to_owned(),
            source,
        })?;
        Ok(Self {
            name: name.to_owned(),
            device,
            offloads,
            batches: Mutex::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until there may be a packet to read.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn readable(&self) -> io::Result<()> {
        self.device.readable().await
    }

    /// Hands one IP packet to the kernel, as if it had arrived at the interface.
    ///
    /// # Errors
    /// The kernel takes no more now, refuses the packet, or the device is gone.
    pub fn try_send(&self, packet: &[u8]) -> io::Result<usize> {
        if !self.offloads {
            return self.device.try_send(packet);
        }
        self.device.try_send(&batch::with_header(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_are_checked() {
        for name in ["tun0", "anabranch0", "a.b-c_d", "123456789012345"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "1234567890123456",
            "a/b",
            "a b",
            "tun%d",
            ".",
            "..",
            "ä",
        ] {
            assert!(!is_name(name), "{name}");
            let error = create(name).map(drop).unwrap_err().to_string();
            assert!(error.contains("no name for a device"), "{error}");
        }
    }

    #[test]
    fn a_failure_of_ip_names_the_command() {
        let error = ip(&["link", "show", "no-such-device0"]).unwrap_err();
        assert!(error.contains("ip"), "{error}");
    }
}
