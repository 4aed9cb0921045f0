//! Links, loads and set-ups of the experiment.

use std::time::Duration;

use anabranch_base::Rate;
use anabranch_link::{Config, Loss, Queue, RateSource, duplex::Configs, source::Walk};
use anabranch_session::{Controller, Policy};

/// A link of a case.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub mbps: f64,
    pub rtt_ms: u64,
    pub loss: f64,
    /// Fraction by which the rate walks every 500 ms.
    pub walk: f64,
}

/// A stream of small messages beside the bulk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Small {
    pub bytes: usize,
    pub every: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub name: String,
    pub links: Vec<Path>,
    pub bytes: u64,
    pub small: Option<Small>,
    /// Start and end of the first link's outage.
    pub outage: Option<(Duration, Duration)>,
    pub setups: Vec<Setup>,
}

/// Configuration of the nodes.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub policy: Policy,
    pub controller: Controller,
    /// True to measure every path alone, too.
    pub with_single: bool,
}

impl Setup {
    pub(super) fn name(&self) -> &'static str {
        self.policy.name()
    }
}

impl Path {
    fn new(mbps: f64, rtt_ms: u64) -> Self {
        Self {
            mbps,
            rtt_ms,
            loss: 0.0,
            walk: 0.0,
        }
    }

    fn lossy(mbps: f64, rtt_ms: u64, loss: f64) -> Self {
        Self {
            loss,
            ..Self::new(mbps, rtt_ms)
        }
    }

    fn walking(mbps: f64, rtt_ms: u64) -> Self {
        Self {
            walk: 0.5,
            ..Self::new(mbps, rtt_ms)
        }
    }

    pub(super) fn configs(&self) -> Configs {
        let rate = Rate::from_bps((self.mbps * 1e6) as u64);
        let rtt = Duration::from_millis(self.rtt_ms);
        let one = Config {
            rate: if self.walk > 0.0 {
                RateSource::Walk(Walk {
                    base: rate,
                    spread: self.walk,
                    every: Duration::from_millis(500),
                })
            } else {
                RateSource::Constant(rate)
            },
            delay: rtt / 2,
            loss: if self.loss > 0.0 {
                Loss::random(self.loss).expect("a probability")
            } else {
                Loss::None
            },
            queue: Queue::bdp(rate, rtt),
            ..Config::default()
        };
        Configs {
            // Losses concern the direction of the data; the return path is clean, as in the comparisons quoted in
            // docs/results/performance.md.
            backward: Config {
                loss: Loss::None,
                ..one.clone()
            },
            forward: one,
        }
    }
}

fn default_setup() -> Setup {
    Setup {
        policy: Policy::Default,
        controller: Controller::Auto,
        with_single: true,
    }
}

/// The default, every other policy, and the other controllers under the default policy.
fn every_setup() -> Vec<Setup> {
    let mut setups = vec![default_setup()];
    for policy in Policy::ALL {
        if !matches!(policy, Policy::Default | Policy::Redundant) {
            setups.push(Setup {
                policy,
                with_single: false,
                ..default_setup()
            });
        }
    }
    for controller in [Controller::Cubic, Controller::NewReno, Controller::Bbr3] {
        setups.push(Setup {
            controller,
            with_single: false,
            ..default_setup()
        });
    }
    setups
}

fn main_setups() -> Vec<Setup> {
    vec![
        default_setup(),
        Setup {
            controller: Controller::Bbr3,
            with_single: false,
            ..default_setup()
        },
        Setup {
            controller: Controller::Cubic,
            with_single: false,
            ..default_setup()
        },
        Setup {
            policy: Policy::MinRtt,
            with_single: false,
            ..default_setup()
        },
    ]
}

pub(super) fn all() -> Vec<Case> {
    let pair_b = || vec![Path::new(100.0, 20), Path::new(50.0, 60)];
    let case = |name: &str, links: Vec<Path>, bytes: u64| Case {
        name: name.to_owned(),
        links,
        bytes,
        small: None,
        outage: None,
        setups: main_setups(),
    };
    let two_mbit = Small {
        bytes: 1200,
        every: Duration::from_micros(4800),
    };
    let mut cases = vec![
        Case {
            setups: every_setup(),
            ..case("B", pair_b(), 250_000_000)
        },
        Case {
            setups: every_setup(),
            ..case(
                "C",
                vec![Path::lossy(80.0, 30, 0.01), Path::lossy(40.0, 100, 0.001)],
                120_000_000,
            )
        },
        Case {
            outage: Some((Duration::from_secs(4), Duration::from_secs(9))),
            ..case("E", pair_b(), 250_000_000)
        },
        Case {
            small: Some(two_mbit),
            ..case("F", pair_b(), 150_000_000)
        },
        Case {
            small: Some(Small {
                bytes: 200,
                every: Duration::from_millis(20),
            }),
            ..case(
                "G",
                vec![Path::new(300.0, 10), Path::new(80.0, 30)],
                400_000_000,
            )
        },
        case(
            "three",
            vec![
                Path::walking(12.0, 60),
                Path::walking(6.0, 120),
                Path::walking(2.0, 300),
            ],
            20_000_000,
        ),
    ];
    cases.extend(unequal().into_iter().enumerate().map(|(index, links)| {
        // About eight seconds at the sum of the rates.
        let sum: f64 = links.iter().map(|link| link.mbps).sum();
        Case {
            setups: vec![default_setup()],
            ..case(&format!("u{:02}", index + 1), links, (sum * 1e6) as u64)
        }
    }));
    cases
}

/// Sixteen pairs of unequal paths: every combination of spread of round trips, ratio of rates, and loss, in a balanced
/// selection.
fn unequal() -> Vec<Vec<Path>> {
    let path = Path::lossy;
    vec![
        vec![path(50.0, 20, 0.0), path(50.0, 40, 0.0)],
        vec![path(50.0, 20, 0.0), path(50.0, 300, 0.0)],
        vec![path(100.0, 20, 0.0), path(10.0, 20, 0.0)],
        vec![path(100.0, 20, 0.0), path(10.0, 300, 0.0)],
        vec![path(10.0, 20, 0.0), path(100.0, 300, 0.0)],
        vec![path(20.0, 50, 0.0), path(5.0, 150, 0.01)],
        vec![path(20.0, 50, 0.01), path(5.0, 150, 0.0)],
        vec![path(40.0, 80, 0.005), path(40.0, 100, 0.005)],
        vec![path(80.0, 30, 0.03), path(20.0, 60, 0.0)],
        vec![path(80.0, 30, 0.0), path(20.0, 60, 0.03)],
        vec![path(30.0, 300, 0.0), path(30.0, 20, 0.02)],
        vec![path(12.0, 60, 0.02), path(6.0, 120, 0.02)],
        vec![path(5.0, 20, 0.0), path(2.0, 200, 0.0)],
        vec![path(50.0, 100, 0.001), path(25.0, 250, 0.001)],
        vec![path(100.0, 40, 0.01), path(50.0, 40, 0.01)],
        vec![path(60.0, 25, 0.0), path(6.0, 250, 0.03)],
    ]
}
