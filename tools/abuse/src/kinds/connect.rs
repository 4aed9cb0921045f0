//! Abuse by connecting: handshakes and channels that hold state without a right.

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr, UdpSocket},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use anabranch_base::NodeId;

use super::{Failure, Limits, Pace, Tally};
use crate::{
    client::{Client, host},
    target::Target,
};

/// Number of first packets prepared before the run: each begins a new handshake as long as the victim has forgotten the earlier one.
const INITIALS: usize = 20_000;
/// Addresses from which they are sent.
const INITIAL_HOSTS: u32 = 250;
/// Connections held at the same time, limited so that the descriptors of one process suffice.
const CLIENTS_MAX: usize = 400;
/// Time after which a connection that has come to nothing is replaced.
const TIMEOUT: Duration = Duration::from_secs(10);

fn quic(target: &Target) -> Result<(NodeId, SocketAddr), Failure> {
    target.quic.ok_or_else(|| "no ticket".into())
}

/// Packets made by [`prepare_initials`].
static PACKETS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();

/// Makes the first packets, as many as a run of `seconds` can use: each costs a key exchange, which the run itself must not pay
/// for.
pub(super) fn prepare_initials(
    target: &Target,
    seconds: u64,
    attempts_per_s: u32,
) -> Result<(), Failure> {
    let quic = quic(target)?;
    let mut tally = Tally::default();
    let needed = (seconds + 1).saturating_mul(u64::from(attempts_per_s));
    let count = usize::try_from(needed).unwrap_or(INITIALS).min(INITIALS);
    let mut packets = Vec::with_capacity(count);
    for key in 0..count as u64 {
        let mut client = Client::new(quic, IpAddr::V4(host(0)), key << 20, &mut tally)?;
        packets.extend(client.first_packets());
    }
    let _ = PACKETS.set(packets);
    Ok(())
}

/// First packets from many addresses; answers are not read.
pub(super) fn initials(target: &Target, limits: &Limits) -> Result<Tally, Failure> {
    let quic = quic(target)?;
    let mut tally = Tally::default();
    let packets = PACKETS.get().ok_or("nothing is prepared")?;
    let sockets: Vec<UdpSocket> = (0..INITIAL_HOSTS)
        .map(|n| UdpSocket::bind((host(n * 257), 0)))
        .collect::<Result<_, _>>()?;
    let mut pace = Pace::new(limits.end, f64::from(limits.attempts_per_s));
    let mut at = 0;
    while pace.next() {
        let packet = &packets[at % packets.len()];
        let socket = &sockets[at % sockets.len()];
        at += 1;
        if socket.send_to(packet, quic.1).is_ok() {
            tally.attempts += 1;
            tally.packets_sent += 1;
            tally.bytes_sent += packet.len() as u64;
        }
    }
    Ok(tally)
}

/// Handshakes that go on until the address is proven, and no further.
pub(super) fn half_open(target: &Target, limits: &Limits) -> Result<Tally, Failure> {
    hold(target, limits, |client, tally| {
        client.exchange_until_proven(tally)
    })
}

/// Channels whose handshake is complete, but on which nothing is sent.
pub(super) fn no_join(target: &Target, limits: &Limits) -> Result<Tally, Failure> {
    hold(target, limits, |client, tally| client.exchange(tally))
}

/// Sessions that are established but show no right.
pub(super) fn no_right(target: &Target, limits: &Limits) -> Result<Tally, Failure> {
    hold(target, limits, |client, tally| {
        client.exchange(tally)?;
        if client.is_connected() && !client.has_joined() {
            client.join();
        }
        Ok(())
    })
}

/// Opens connections at the rate of the run (a twentieth of it: each costs the adversary a handshake), holds them, and advances
/// each with `step`.
fn hold(
    target: &Target,
    limits: &Limits,
    mut step: impl FnMut(&mut Client, &mut Tally) -> Result<(), Failure>,
) -> Result<Tally, Failure> {
    let quic = quic(target)?;
    let mut tally = Tally::default();
    let mut clients: VecDeque<(Instant, Client)> = VecDeque::new();
    let per_s = f64::from(limits.attempts_per_s) / 20.0;
    let mut pace = Pace::new(limits.end, per_s);
    let mut key = 1u64;
    while Instant::now() < limits.end {
        for _ in 0..pace.ready() {
            if clients.len() >= CLIENTS_MAX {
                break;
            }
            key += 1;
            let from = IpAddr::V4(host(key as u32 % 4096));
            clients.push_back((Instant::now(), Client::new(quic, from, key, &mut tally)?));
        }
        for (_, client) in &mut clients {
            step(client, &mut tally)?;
        }
        clients.retain(|(since, client)| {
            !client.is_over() && (client.has_joined() || since.elapsed() < TIMEOUT)
        });
        thread::sleep(Duration::from_millis(2));
    }
    Ok(tally)
}
