//! Customers: their demands and times.

use anabranch_base::{Rate, Seed, StreamId};
use anabranch_session::{Grade, Guarantee, Offer, StreamSpec};

use super::exact::STREAMS_MAX;

/// Probabilities requested.
pub(super) const LEVELS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];
/// Mean time of a stay, in windows.
const STAY: f64 = 240.0;
/// The shortest stay.
const STAY_MIN: usize = 60;
/// Smallest acceptable rate of an offer, as a share of the rate requested.
const ACCEPTABLE: f64 = 0.25;

/// Customers that come in the course of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    /// Mean time between two arrivals, in windows.
    between: f64,
    /// A stream's rate, as a share of the mean of one of the paths.
    of_a_path: (f64, f64),
    /// Most of them at a time.
    at_a_time: usize,
}

impl Crowd {
    /// Those of a session: never more at a time than the exact mapping can handle.
    pub(super) const OF_A_SESSION: Self = Self {
        between: 50.0,
        of_a_path: (0.05, 0.6),
        at_a_time: STREAMS_MAX,
    };
    /// Those of all sessions of a node: four times as many, who ask for a quarter.
    pub(super) const OF_A_NODE: Self = Self {
        between: 12.0,
        of_a_path: (0.0125, 0.15),
        at_a_time: 4 * STREAMS_MAX,
    };
}

/// A stream for which a promise is requested.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Customer {
    /// Window before which it arrives, and window before which it leaves.
    pub(super) stay: std::ops::Range<usize>,
    pub(super) rate: Rate,
    pub(super) probability: f64,
    pub(super) is_divisible: bool,
    pub(super) grade: Grade,
    /// True if it accepts an offer after a refusal; otherwise it waits.
    pub(super) takes_offers: bool,
}

impl Customer {
    /// First demand.
    pub(super) fn wanted(&self, label: &str) -> StreamSpec {
        let guarantee = Guarantee {
            grade: self.grade,
            ..Guarantee::rate(self.rate, self.probability)
        };
        StreamSpec {
            may_split: self.is_divisible,
            label: label.to_owned(),
            ..StreamSpec::default().with_guarantee(guarantee)
        }
    }

    /// Demand after a refusal with an offer: a smaller rate before a smaller probability.
    pub(super) fn accepts(&self, offer: &Offer, label: &str) -> Option<StreamSpec> {
        if !self.takes_offers {
            return None;
        }
        let least = self.rate.as_bps() as f64 * ACCEPTABLE;
        let smaller = offer.rate.filter(|rate| rate.as_bps() as f64 >= least);
        let (rate, probability) = match (smaller, offer.probability) {
            (Some(rate), _) => (rate, self.probability),
            (None, Some(probability)) => (self.rate, probability),
            (None, None) => return None,
        };
        let taken = Self {
            rate,
            probability,
            ..self.clone()
        };
        Some(taken.wanted(label))
    }
}

/// The id of the customer with this index.
pub(super) fn id(index: usize) -> StreamId {
    StreamId(index as u64)
}

/// Customers of `paths_bps` (the means of the paths) in the windows `when`, in order of arrival.
pub(super) fn draw(
    seed: Seed,
    name: &str,
    crowd: Crowd,
    paths_bps: &[f64],
    when: std::ops::Range<usize>,
) -> Vec<Customer> {
    let mut random = seed.stream(name);
    let mut customers: Vec<Customer> = Vec::new();
    let mut at = when.start as f64;
    while at < when.end as f64 {
        let begin = at as usize;
        let stay = STAY_MIN + random.exponential(STAY - STAY_MIN as f64) as usize;
        let path = random.below(paths_bps.len() as u64) as usize;
        let share = random.uniform(crowd.of_a_path.0, crowd.of_a_path.1);
        let customer = Customer {
            stay: begin..(begin + stay).min(when.end),
            rate: Rate::from_bps((paths_bps[path] * share).max(1_000.0) as u64),
            probability: LEVELS[random.below(LEVELS.len() as u64) as usize],
            is_divisible: random.chance(0.5),
            grade: if random.chance(0.5) {
                Grade::Best
            } else {
                Grade::Renewable
            },
            takes_offers: random.chance(0.5),
        };
        let here = customers.iter().filter(|c| c.stay.contains(&begin)).count();
        if here < crowd.at_a_time {
            customers.push(customer);
        }
        at += random.exponential(crowd.between);
    }
    customers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn customers_come_in_order_and_not_too_many() {
        let customers = draw(Seed(1), "test", Crowd::OF_A_SESSION, &[1e6, 4e6], 60..2_000);
        assert!(customers.len() > 20);
        for pair in customers.windows(2) {
            assert!(pair[0].stay.start <= pair[1].stay.start);
        }
        for at in 60..2_000 {
            let here = customers.iter().filter(|c| c.stay.contains(&at)).count();
            assert!(here <= STREAMS_MAX);
        }
        assert!(customers.iter().all(|c| c.wanted("a").validate().is_ok()));
        assert_eq!(
            customers,
            draw(Seed(1), "test", Crowd::OF_A_SESSION, &[1e6, 4e6], 60..2_000)
        );
        assert_ne!(
            customers,
            draw(Seed(2), "test", Crowd::OF_A_SESSION, &[1e6, 4e6], 60..2_000)
        );
    }

    #[test]
    fn an_offer_is_taken_by_customers_that_take_offers() {
        let mut customer = draw(Seed(1), "test", Crowd::OF_A_SESSION, &[1e6], 0..100).remove(0);
        customer.takes_offers = true;
        let mut offer = Offer {
            rate: Some(customer.rate),
            probability: Some(0.25),
            reduction: None,
        };
        fn taken(customer: &Customer, offer: &Offer) -> Option<Guarantee> {
            customer
                .accepts(offer, "a")?
                .guarantee
                .map(|guarantee| *guarantee)
        }
        let guarantee = taken(&customer, &offer).unwrap();
        assert_eq!(guarantee.probability(), Some(customer.probability));
        offer.rate = Some(Rate::from_bps(1));
        let guarantee = taken(&customer, &offer).unwrap();
        assert_eq!(guarantee.probability(), Some(0.25));
        assert_eq!(guarantee.required(), customer.rate);
        assert_eq!(taken(&customer, &Offer::default()), None);
        customer.takes_offers = false;
        assert_eq!(taken(&customer, &offer), None);
    }
}
