//! Buffers of a sender and a receiver [IQ-Paths §V-C].
//!
//! Everything is counted in packets and packets per second. The source mixes both with bytes: its
//! Equation 1 divides the buffer by s, its Equations 2 and 3 add packets to bytes (`deviation:
//! buffer-units`).

use std::time::Duration;

/// Packets that left the sender in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// r'·t_w: what the receiver got.
    pub received: f64,
    /// Packets that found the buffer full.
    pub dropped: f64,
}

/// B_s: what waits at the sender, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderBuffer {
    /// Packets waiting; at least 0.
    pub packets: f64,
    /// B_s_MAX; `None`: no limit.
    pub packets_max: Option<f64>,
}

impl SenderBuffer {
    /// Equation 1 (16): r' = min{B_s/t_w + r_s, r}, in packets per second, with r_s what the application
    /// hands over and r what the path carries. δ of the source is the length of the window.
    pub fn rate_received(&self, rate_sent: f64, rate_path: f64, window: Duration) -> f64 {
        (self.packets / window.as_secs_f64() + rate_sent).min(rate_path)
    }

    /// Equation 2 (17), one window on: B_s ← min{B_s + (r_s − r')·t_w, B_s_MAX}. Without a limit the sum of
    /// the steps is Equation 3 (18).
    pub fn step(&mut self, rate_sent: f64, rate_path: f64, window: Duration) -> Step {
        let seconds = window.as_secs_f64();
        let rate = self.rate_received(rate_sent, rate_path, window);
        let left = (self.packets + (rate_sent - rate) * seconds).max(0.0);
        self.packets = self.packets_max.map_or(left, |max| left.min(max));
        Step {
            received: rate * seconds,
            dropped: left - self.packets,
        }
    }
}

/// The time that the path takes for a packet, S: its first two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceTime {
    /// E\[S\], in seconds.
    pub mean_s: f64,
    /// E\[S²\] = Var(S) + E\[S\]², in seconds squared.
    pub square_s2: f64,
}

impl ServiceTime {
    /// As packets meet it, from rates (packets per second) of equal windows: a window of rate r serves r
    /// packets, of 1/r each (19). E\[S\] is then 1/mean(r), and the queue is stable where the path is. `None`
    /// when nothing was served; E\[S²\] is infinite when a window served nothing, since some packet then
    /// waits for it and the rate does not determine how long.
    pub fn of_packets(rates: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut windows, mut served, mut seconds2) = (0.0, 0.0, 0.0);
        for rate in rates {
            windows += 1.0;
            served += rate;
            // r packets of (1/r)² each.
            seconds2 += rate.recip();
        }
        (served > 0.0).then(|| Self {
            mean_s: windows / served,
            square_s2: seconds2 / served,
        })
    }

    /// As windows meet it: the plain moments of S = 1/r over windows (20), as in the source.
    /// E\[1/r\] is above 1/E\[r\], so that it calls paths overloaded that are not. `None` without a window.
    pub fn of_windows(rates: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut windows, mut sum, mut square) = (0.0, 0.0, 0.0);
        for rate in rates {
            windows += 1.0;
            sum += rate.recip();
            square += rate.recip().powi(2);
        }
        (windows > 0.0).then(|| Self {
            mean_s: sum / windows,
            square_s2: square / windows,
        })
    }
}

/// Equation 4 (21): the mean number of packets that wait at the sender for their service to begin,
/// λ²·E\[S²\] / (2·(1 − λ·E\[S\])), Pollaczek–Khintchine with λ = `rate_sent` in packets per second. `None` when
/// λ·E\[S\] is 1 or more: the queue grows for ever.
///
/// The source prints r_s⁻²·E\[S²\] / (2·(1 − E\[S\]/r_s)). With r_s a rate this has the unit s⁴; it is the same
/// as ours when r_s is read as the time *between* packets, 1/λ (`deviation: buffer-equation-4`). The packet
/// in service is not counted; with it the mean is λ·E\[S\] larger.
///
/// It holds for packets that come at random (Poisson) and service times that do not depend on each other.
/// Streams come more evenly, which needs less; the rate of real paths stays low when it is low, which needs
/// more, without a bound that E\[S²\] knows. The experiment `buffers` measures both.
pub fn mean_waiting(rate_sent: f64, service: ServiceTime) -> Option<f64> {
    let load = rate_sent * service.mean_s;
    (load < 1.0).then(|| rate_sent.powi(2) * service.square_s2 / (2.0 * (1.0 - load)))
}

/// Packets that a receiver must have before it plays `played` packets a window without a gap: the largest lead of
/// what was to be played over what was `received`, window by window, in packets.
pub fn prebuffer(received: impl IntoIterator<Item = f64>, played: f64) -> f64 {
    let mut behind = 0.0f64;
    let mut most = 0.0f64;
    for packets in received {
        behind += played - packets;
        most = most.max(behind);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn steps_by_hand() {
        let mut buffer = SenderBuffer {
            packets: 0.0,
            packets_max: Some(50.0),
        };
        // 100 come, 80 leave; 100 come, 60 leave: 60 would wait, 50 may; then 130 may leave of 150.
        let step = buffer.step(100.0, 80.0, SECOND);
        assert_eq!(
            (step.received, step.dropped, buffer.packets),
            (80.0, 0.0, 20.0)
        );
        let step = buffer.step(100.0, 60.0, SECOND);
        assert_eq!(
            (step.received, step.dropped, buffer.packets),
            (60.0, 10.0, 50.0)
        );
        let step = buffer.step(100.0, 130.0, SECOND);
        assert_eq!(
            (step.received, step.dropped, buffer.packets),
            (130.0, 0.0, 20.0)
        );
        // No more leaves than there is: 20 waiting and 100 of this window.
        let step = buffer.step(100.0, 500.0, SECOND);
        assert_eq!((step.received, buffer.packets), (120.0, 0.0));
        // Half a second: 20 packets wait, so 40 a second could leave on their account.
        buffer.packets = 20.0;
        let half = Duration::from_millis(500);
        assert_eq!(buffer.rate_received(100.0, 500.0, half), 140.0);
    }

    /// M/D/1 at half load: λ = 50/s, S = 10 ms. λ²E[S²] = 0.25, over 2·(1 − 0.5): 0.25 packets wait.
    /// M/M/1 at the same load has E[S²] = 2·E[S]², twice as many: 0.5 = ρ²/(1 − ρ).
    #[test]
    fn equation_4_by_hand() {
        let constant = ServiceTime {
            mean_s: 0.01,
            square_s2: 1e-4,
        };
        assert!((mean_waiting(50.0, constant).unwrap() - 0.25).abs() < 1e-12);
        let exponential = ServiceTime {
            square_s2: 2e-4,
            ..constant
        };
        assert!((mean_waiting(50.0, exponential).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(mean_waiting(100.0, constant), None);
        // As printed, with r_s the time between packets: 0.02⁻²·1e-4/(2·(1 − 0.01/0.02)).
        let between_s: f64 = 0.02;
        let printed = between_s.powi(-2) * 1e-4 / (2.0 * (1.0 - 0.01 / between_s));
        assert!((mean_waiting(50.0, constant).unwrap() - printed).abs() < 1e-12);
    }

    /// Half of the time 50, half of the time 150 packets a second: a mean of 100. Packets take 10 ms on
    /// average, windows give 13.3 ms and reject a load of 80/s.
    #[test]
    fn service_times_of_packets_and_of_windows() {
        let packets = ServiceTime::of_packets([50.0, 150.0]).unwrap();
        assert!((packets.mean_s - 0.01).abs() < 1e-12);
        // 50 packets of 20 ms and 150 of 6.67 ms: (50·4e-4 + 150·4.44e-5)/200.
        assert!((packets.square_s2 - 4.0 / 3.0 * 1e-4).abs() < 1e-9);
        assert!(mean_waiting(80.0, packets).is_some());
        let windows = ServiceTime::of_windows([50.0, 150.0]).unwrap();
        assert!((windows.mean_s - 0.04 / 3.0).abs() < 1e-12);
        assert_eq!(mean_waiting(80.0, windows), None);
        assert_eq!(ServiceTime::of_packets([0.0]), None);
        assert_eq!(ServiceTime::of_windows([]), None);
        let stalled = ServiceTime::of_packets([0.0, 10.0]).unwrap();
        assert_eq!(mean_waiting(1.0, stalled), Some(f64::INFINITY));
    }

    #[test]
    fn prebuffer_by_hand() {
        // Behind by 2, 5, 1: five packets have to be there.
        assert_eq!(prebuffer([8.0, 7.0, 14.0], 10.0), 5.0);
        assert_eq!(prebuffer([12.0, 10.0], 10.0), 0.0);
    }

    proptest! {
        /// Equation 3: what waits is what came and did not leave; and it is the largest backlog of any
        /// suffix (Reich's formula).
        #[test]
        fn nothing_is_lost_or_made(rates in prop::collection::vec(0u32..200, 1..60), sent in 1u32..150) {
            let mut buffer = SenderBuffer::default();
            let sent = f64::from(sent);
            let received: f64 = rates
                .iter()
                .map(|&rate| buffer.step(sent, f64::from(rate), SECOND).received)
                .sum();
            prop_assert!((buffer.packets - (sent * rates.len() as f64 - received)).abs() < 1e-6);
            let (mut suffix, mut most) = (0.0f64, 0.0f64);
            for &rate in rates.iter().rev() {
                suffix += sent - f64::from(rate);
                most = most.max(suffix);
            }
            prop_assert!((buffer.packets - most).abs() < 1e-6);
        }
    }
}
