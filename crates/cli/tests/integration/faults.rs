//! Whole transfers with faults: killed and stopped processes, full and read-only disks, tickets with two
//! users. The data crosses an emulated 40 Mbit/s link, so that there is time to interfere.

#[expect(dead_code, reason = "one attack of several")]
#[path = "../../../channel/tests/bare/mod.rs"]
mod bare;
mod disk;
mod impostor;
mod kills;
#[cfg(target_os = "linux")]
#[path = "../../../net/tests/netns/namespace.rs"]
#[expect(dead_code, reason = "shared with tests that do more with them")]
mod namespace;
#[cfg(target_os = "linux")]
mod overlay;
mod process;
mod restart;
mod setting;
mod tickets;
mod tun;
