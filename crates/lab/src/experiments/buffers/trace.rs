//! Equations 1, 2 and 4 on recorded paths.

use std::time::Duration;

use anabranch_admission::guarantee::{
    Scale,
    buffers::{SenderBuffer, ServiceTime, mean_waiting, prebuffer},
};

use super::PACKET_BYTES;

/// Rates of a stream, as shares of the mean bandwidth.
const LOADS: [f64; 2] = [0.5, 0.8];

/// A stream on one recording.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OnTrace {
    pub(super) load: f64,
    pub(super) measured: f64,
    /// Infinite if a window carries nothing.
    pub(super) formula: f64,
    /// Infinite if the formula calls the path overloaded.
    pub(super) formula_windows: f64,
    pub(super) prebuffer: f64,
}

/// Every load on one series.
pub(super) fn all(bps: &[f64], window_s: f64) -> Vec<OnTrace> {
    let window = Duration::from_secs_f64(window_s);
    let second = Scale {
        packet_bytes: PACKET_BYTES,
        window: Duration::from_secs(1),
    };
    let rates: Vec<f64> = bps.iter().map(|&bps| second.packets(bps)).collect();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let waiting = |sent: f64, service: Option<ServiceTime>| {
        service
            .and_then(|service| mean_waiting(sent, service))
            .unwrap_or(f64::INFINITY)
    };
    LOADS
        .into_iter()
        .map(|load| {
            let sent = load * mean;
            let mut buffer = SenderBuffer::default();
            let (mut sum, mut received) = (0.0, Vec::with_capacity(rates.len()));
            for &rate in &rates {
                received.push(buffer.step(sent, rate, window).received);
                sum += buffer.packets;
            }
            OnTrace {
                load,
                measured: sum / rates.len().max(1) as f64,
                formula: waiting(sent, ServiceTime::of_packets(rates.iter().copied())),
                formula_windows: waiting(sent, ServiceTime::of_windows(rates.iter().copied())),
                prebuffer: prebuffer(received, sent * window_s),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 9.6 Mbit/s are 1,000 packets a second: for one second 500, for one 1,500; 800 are sent.
    #[test]
    fn by_hand() {
        let all = all(&[4.8e6, 14.4e6, 4.8e6, 14.4e6], 1.0);
        let at = &all[1];
        assert_eq!(at.load, 0.8);
        // 300 wait after every first second, none after every second.
        assert!((at.measured - 150.0).abs() < 1e-6);
        assert!((at.prebuffer - 300.0).abs() < 1e-6);
        // E[S] = 1 ms, E[S²] = 4/3 of it squared: 0.64·4/3/(2·0.2).
        assert!((at.formula - 0.64 * 4.0 / 3.0 / 0.4).abs() < 1e-9);
        assert!(at.formula_windows.is_infinite(), "0.8·(2 + 2/3)/2 > 1");
    }
}
