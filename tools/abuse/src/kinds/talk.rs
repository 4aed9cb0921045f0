//! Abuse by frames: a session that sends frames that no honest one would.

use std::{
    net::IpAddr,
    thread,
    time::{Duration, Instant},
};

use super::{
    Failure, Limits, Pace, Tally,
    frames::{FRAMES_MAX, Script},
};
use crate::{
    client::{Client, host},
    target::Target,
};

/// New sessions a second, if the victim ends them.
const SESSIONS_PER_S: f64 = 20.0;
/// Time after which a connection that is not established is given up.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Sends the script at the rate of the run, in one session after another.
pub(super) fn run(
    target: &Target,
    limits: &Limits,
    script: fn(u64) -> Script,
) -> Result<Tally, Failure> {
    let quic = target.quic.ok_or("no ticket")?;
    let mut tally = Tally::default();
    let mut sessions = Pace::new(limits.end, SESSIONS_PER_S);
    let mut key = 0x5eed_u64;
    while sessions.next() {
        key += 1;
        let from = IpAddr::V4(host(0x1_0000 + key as u32 % 1024));
        let mut client = Client::new(quic, from, target.listed.unwrap_or(key), &mut tally)?;
        let since = Instant::now();
        while !client.is_connected() && !client.is_over() && since.elapsed() < TIMEOUT {
            client.exchange(&mut tally)?;
            thread::sleep(Duration::from_millis(1));
        }
        if !client.is_connected() || !client.join() {
            continue;
        }
        let mut script = script(key);
        let per_s = limits.bits_per_s as f64 / 8.0 / FRAMES_MAX as f64;
        let mut pace = Pace::new(limits.end, per_s);
        while Instant::now() < limits.end && !client.is_over() {
            for _ in 0..pace.ready() {
                client.send_frames(&script.next());
            }
            client.exchange(&mut tally)?;
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(tally)
}
