//! Packets through a server, one after the other.

use anabranch_admission::guarantee::buffers::{ServiceTime, mean_waiting};
use anabranch_base::Random;

/// Packets of a run.
const PACKETS: usize = 400_000;
/// Loads.
const LOADS: [f64; 3] = [0.5, 0.8, 0.9];
/// Arrival processes.
const ARRIVALS: [&str; 2] = ["poisson", "even"];
/// Distributions of service times, with the number of consecutive packets that share one.
const SERVICES: [(&str, usize); 6] = [
    ("constant", 1),
    ("exponential", 1),
    ("two_rates", 1),
    ("two_rates", 10),
    ("two_rates", 100),
    ("two_rates", 1000),
];

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Queue {
    pub(super) arrivals: &'static str,
    pub(super) service: &'static str,
    pub(super) run_packets: usize,
    pub(super) load: f64,
    pub(super) measured: f64,
    pub(super) formula: f64,
}

/// All runs, each with the same randomness whatever else runs.
pub(super) fn all(stream: impl Fn(&str) -> Random) -> Vec<Queue> {
    let mut all = Vec::new();
    for arrivals in ARRIVALS {
        for (service, run_packets) in SERVICES {
            for load in LOADS {
                let name = format!("{arrivals} {service} {run_packets} {load}");
                all.push(run(
                    arrivals,
                    service,
                    run_packets,
                    load,
                    &mut stream(&name),
                ));
            }
        }
    }
    all
}

/// Runs one queue with a mean service time of 1, so that the load is the rate of arrivals.
fn run(
    arrivals: &'static str,
    service: &'static str,
    run_packets: usize,
    load: f64,
    random: &mut Random,
) -> Queue {
    let moments = ServiceTime {
        mean_s: 1.0,
        square_s2: match service {
            "constant" => 1.0,
            "exponential" => 2.0,
            // 1.5 and 0.5, equally often.
            _ => 1.25,
        },
    };
    let (mut waits, mut time, mut wait, mut last) = (0.0, 0.0, 0.0f64, 0.0);
    let mut current = 0.0;
    for packet in 0..PACKETS {
        let gap = match arrivals {
            "poisson" => random.exponential(1.0 / load),
            _ => 1.0 / load,
        };
        // Lindley: the waiting and service time of the packet before, less the time since its arrival.
        wait = (wait + last - gap).max(0.0);
        waits += wait;
        time += gap;
        if packet % run_packets == 0 {
            current = match service {
                "constant" => 1.0,
                "exponential" => random.exponential(1.0),
                _ if random.chance(0.5) => 1.5,
                _ => 0.5,
            };
        }
        last = current;
    }
    Queue {
        arrivals,
        service,
        run_packets,
        load,
        // Little's law: waits begun per second times their mean.
        measured: waits / time,
        formula: mean_waiting(load, moments).unwrap_or(f64::INFINITY),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_base::Seed;

    use super::*;

    #[test]
    fn the_formula_holds_where_it_should_and_only_there() {
        let all = all(|name| Seed(1).stream(name));
        let ratio = |queue: &Queue| queue.measured / queue.formula;
        for queue in all
            .iter()
            .filter(|q| q.arrivals == "poisson" && q.run_packets == 1)
        {
            assert!((0.93..1.07).contains(&ratio(queue)), "{queue:?}");
        }
        for queue in all
            .iter()
            .filter(|q| q.arrivals == "even" && q.run_packets == 1)
        {
            assert!(ratio(queue) < 0.6, "{queue:?}");
        }
        for queue in all.iter().filter(|q| q.run_packets >= 100 && q.load >= 0.8) {
            assert!(ratio(queue) > 5.0, "{queue:?}");
        }
    }
}
