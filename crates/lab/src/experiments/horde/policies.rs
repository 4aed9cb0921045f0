//! Objectives of the simulated experiments [Horde §7.2].

/// Low latency for streams 0 and 3; low loss for 3; low latency for 3 again; little correlated loss for 0.
const ALL: [&str; 4] = [
    include_str!("../../../../hose/samples/x1.hose"),
    include_str!("../../../../hose/samples/x2.hose"),
    include_str!("../../../../hose/samples/x3.hose"),
    include_str!("../../../../hose/samples/x4.hose"),
];

/// Low latency for one stream, not to be met on `cdma1` [Horde §7.3].
pub(super) const LOOK_AHEAD: &str = include_str!("../../../../hose/samples/look_ahead.hose");

/// Low latency for streams 2 and 4 [Horde Figure 7-4].
pub(super) const E1: &str = include_str!("../../../../hose/samples/e1.hose");

/// Objectives of S0, S1, … S4, in that order.
pub(super) fn of(experiment: usize) -> String {
    ALL[..experiment].concat()
}
