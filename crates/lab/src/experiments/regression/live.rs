//! The same probes on loopback sockets, through the emulator, by this machine's clock.

use std::{
    io,
    net::UdpSocket,
    thread,
    time::{Duration, Instant as Clock},
};

use anabranch::net::emulate::{Emulator, PathSpec};
use anabranch_base::{Rate, Seed};
use anabranch_link::{Config, Queue, RateSource, duplex::Configs};
use anabranch_stats::regression::LinkEstimator;

use super::{
    Fit, PROBES, Truth, estimates, fit,
    links::{Case, PACKET_BYTES},
    shuffle,
};

pub(super) const NAME: &str = "emulated";
pub(super) const TRIALS: u64 = 1;
/// Limit on the probes; a live run should take seconds.
const PROBES_MAX: usize = 50;
/// UDP payload of a packet with [`PACKET_BYTES`] on the wire.
const PAYLOAD_BYTES: usize = PACKET_BYTES as usize - 28;
const TIMEOUT: Duration = Duration::from_secs(2);

/// Sends messages through an emulated link; returns the true parameters, and the estimates.
pub(super) fn run(seed: Seed) -> io::Result<(Truth, Vec<Fit>)> {
    let rate = Rate::from_mbps(20);
    let delay = Duration::from_millis(10);
    let config = Config {
        rate: RateSource::Constant(rate),
        delay,
        queue: Queue::time(Duration::from_secs(1)),
        ..Config::default()
    };
    let case = Case {
        name: NAME,
        config: config.clone(),
        rate,
        delay,
        cross: None,
    };
    let truth = Truth {
        bandwidth_bps: rate.as_bps() as f64,
        delay_min_s: delay.as_secs_f64(),
    };
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(TIMEOUT))?;
    let path = PathSpec {
        name: NAME.to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        target: receiver.local_addr()?,
        links: Configs::symmetric(config),
    };
    let emulator = Emulator::start(vec![path], seed).map_err(io::Error::other)?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(emulator.addresses()[0])?;

    let mut estimator = LinkEstimator::new(PROBES_MAX).map_err(io::Error::other)?;
    estimator.observe_small(message(&sender, &receiver, PACKET_BYTES)?);
    let mut fits = Vec::new();
    let mut random = seed.stream("sizes");
    // A fifth of the simulated sizes: a tenth of a second at most.
    let mut sizes = case.sizes().map(|bytes| (bytes / 5).max(2 * PACKET_BYTES));
    for count in 1..=PROBES_MAX {
        if count % sizes.len() == 1 {
            shuffle(&mut sizes, &mut random);
        }
        let bytes = sizes[count % sizes.len()].next_multiple_of(PACKET_BYTES);
        estimator
            .observe(bytes, message(&sender, &receiver, bytes)?)
            .map_err(io::Error::other)?;
        if PROBES.contains(&count) {
            for (method, estimate) in estimates(&mut estimator).iter().enumerate() {
                fits.extend(
                    estimate
                        .iter()
                        .map(|estimate| fit(&case, truth, count, method, estimate)),
                );
            }
        }
    }
    Ok((truth, fits))
}

/// Sends one message, all at once: a sleep between packets would occasionally be late, and a link that is offered exactly its
/// rate never makes up for it. Returns the time until the arrival of its last packet.
fn message(sender: &UdpSocket, receiver: &UdpSocket, bytes: u64) -> io::Result<Duration> {
    let packets = bytes.div_ceil(PACKET_BYTES);
    let begin = Clock::now();
    thread::scope(|scope| {
        let sending = scope.spawn(move || {
            for _ in 0..packets {
                sender.send(&[0; PAYLOAD_BYTES])?;
            }
            Ok::<_, io::Error>(())
        });
        let mut buffer = [0; PAYLOAD_BYTES];
        let mut received = Ok(());
        for _ in 0..packets {
            received = receiver.recv(&mut buffer).map(|_| ());
            if received.is_err() {
                break;
            }
        }
        let delay = begin.elapsed();
        sending
            .join()
            .map_err(|_| io::Error::other("the sending thread failed"))??;
        received?;
        Ok(delay)
    })
}
