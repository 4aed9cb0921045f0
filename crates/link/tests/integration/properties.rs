//! Properties of every link under every traffic.

use std::time::Duration;

use anabranch_base::{Instant, Rate, Seed};
use anabranch_link::{
    Config, DropReason, Jitter, Link, Loss, Outage, Queue, RateSource, Ticket, Trace, Verdict,
    loss::Doubling,
    source::{Playback, Walk},
    stats::Count,
    trace::Shape,
};
use proptest::prelude::*;

/// Operations on a link.
#[derive(Debug, Clone)]
enum Step {
    Wait(Duration),
    Offer { bytes: usize, ect: bool },
    SetUp(bool),
    SetRate(RateSource),
}

/// Outcome of one offered packet.
#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    now: Instant,
    bytes: u64,
    verdict: Verdict,
}

fn any_rate() -> impl Strategy<Value = Rate> {
    (100_000..100_000_000u64).prop_map(Rate::from_bps)
}

fn any_trace() -> impl Strategy<Value = Trace> {
    let rate = prop_oneof![1 => Just(Rate::ZERO), 3 => any_rate()];
    let steps = (1..200u64, prop::collection::vec(rate, 1..8));
    let steps = steps.prop_map(|(ms, mut rates)| {
        rates.push(Rate::from_mbps(1));
        Trace::from_rates("steps", Duration::from_millis(ms), &rates)
    });
    // None at zero, where one lap ends and the next begins.
    let gaps = prop::collection::vec(0..30u64, 1..20);
    let opportunities = gaps.prop_map(|gaps| {
        let sum = |time: &mut u64, gap| {
            *time += gap;
            Some(format!("{time}\n"))
        };
        let text: String = [1].into_iter().chain(gaps).scan(0, sum).collect();
        Trace::from_mahimahi("opportunities", &text).expect("rising times")
    });
    prop_oneof![steps, opportunities]
}

fn any_source() -> impl Strategy<Value = RateSource> {
    let walk = (any_rate(), 0.0..=1.0, 1..50u64).prop_map(|(base, spread, ms)| {
        let every = Duration::from_millis(ms);
        RateSource::Walk(Walk {
            base,
            spread,
            every,
        })
    });
    let trace = (any_trace(), 0.5..2.0, 0..100u64).prop_map(|(trace, scale, ms)| {
        RateSource::Trace(Playback {
            trace: trace.into(),
            scale,
            start: Duration::from_millis(ms),
        })
    });
    prop_oneof![
        Just(RateSource::Unlimited),
        any_rate().prop_map(RateSource::Constant),
        walk,
        trace
    ]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    let time = || (0..20_000_000u64).prop_map(Duration::from_nanos);
    prop_oneof![
        Just(Jitter::None),
        time().prop_map(Jitter::uniform),
        time().prop_map(Jitter::normal),
        time().prop_map(Jitter::gaussian),
        time().prop_map(|most| Jitter::uniform(most).reordering()),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let loss = prop_oneof![
        Just(Loss::None),
        (0.0..1.0).prop_map(|p| Loss::random(p).expect("in range")),
        (0.0..0.5, 1.0..5.0).prop_map(|(rate, burst)| Loss::bursts(rate, burst).expect("in range")),
        (0.0..0.4, 0..5u32).prop_map(|(rate, doublings)| {
            Loss::Doubling(Doubling::horde(rate, 1 << doublings).expect("in range"))
        }),
    ];
    let queue = (0..60_000u64, 0..60_000u64)
        .prop_map(|(limit, mark)| Queue::bytes(limit).marking_above(mark));
    let outage = (0..400u64, 1..100u64).prop_map(|(from, length)| Outage {
        from: Duration::from_millis(from),
        to: Duration::from_millis(from + length),
    });
    let outages = prop::collection::vec(outage, 0..2);
    let delay = (0..100_000_000u64).prop_map(Duration::from_nanos);
    (any_source(), delay, any_jitter(), loss, queue, outages).prop_map(
        |(rate, delay, jitter, loss, queue, outages)| Config {
            rate,
            delay,
            jitter,
            loss,
            queue,
            mtu_bytes: 1500,
            outages,
        },
    )
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let offer =
        || (1..1600usize, any::<bool>()).prop_map(|(bytes, ect)| Step::Offer { bytes, ect });
    let step = prop_oneof![
        30 => offer(),
        10 => (0..20_000_000u64).prop_map(|nanos| Step::Wait(Duration::from_nanos(nanos))),
        1 => any::<bool>().prop_map(Step::SetUp),
        1 => any_source().prop_map(Step::SetRate),
    ];
    prop::collection::vec(step, 1..300)
}

/// Offers only, so that one rate source holds throughout.
fn any_traffic() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..1500usize).prop_map(|bytes| Step::Offer { bytes, ect: false }),
        1 => (0..20_000_000u64).prop_map(|nanos| Step::Wait(Duration::from_nanos(nanos))),
    ];
    prop::collection::vec(step, 1..300)
}

fn run(link: &mut Link, steps: &[Step]) -> Vec<Outcome> {
    let mut now = Instant::EPOCH;
    let mut outcomes = Vec::new();
    for step in steps {
        match step {
            Step::Wait(time) => now += *time,
            Step::Offer { bytes, ect } => {
                let verdict = link.offer(now, *bytes, *ect);
                let bytes = *bytes as u64;
                outcomes.push(Outcome {
                    now,
                    bytes,
                    verdict,
                });
            }
            Step::SetUp(up) => link.set_up(now, *up),
            Step::SetRate(rate) => link.set_rate(now, rate.clone()).expect("in range"),
        }
    }
    outcomes
}

/// The delivered ones: the offer, its arrival time, its ticket.
fn delivered(outcomes: &[Outcome]) -> Vec<(&Outcome, Instant, Ticket)> {
    let arrival = |outcome| match outcome {
        &Outcome {
            verdict: Verdict::Deliver { at, ticket, .. },
            ..
        } => Some((at, ticket)),
        _ => None,
    };
    let pairs = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome, arrival(outcome)?)));
    pairs
        .map(|(outcome, (at, ticket))| (outcome, at, ticket))
        .collect()
}

/// The bits that a source can carry after the one departure and until the other, including the ends as far as another
/// packet can leave at the same time. `None`: no bound is known.
fn bits_between(source: &RateSource, first: Instant, last: Instant) -> Option<f64> {
    match source {
        RateSource::Constant(rate) => Some(rate.as_bps() as f64 * last.since(first).as_secs_f64()),
        RateSource::Trace(Playback {
            trace,
            scale,
            start,
        }) => {
            let position = |at: Instant| at.since_epoch() + *start;
            // Packets may share an opportunity, or use several at one time.
            let from = match trace.shape() {
                Shape::Steps(_) => position(first),
                Shape::Opportunities(_) => position(first).saturating_sub(Duration::from_nanos(1)),
            };
            Some((trace.bits(position(last)) - trace.bits(from)) * scale)
        }
        RateSource::Unlimited | RateSource::Walk(_) => None,
    }
}

proptest! {
    #[test]
    fn nothing_is_created_or_forgotten(config in any_config(), steps in any_steps(), seed: u64) {
        let mut link = Link::new(config, Seed(seed)).unwrap();
        let outcomes = run(&mut link, &steps);
        let stats = *link.stats();
        let mut sum = stats.delivered;
        sum += stats.dropped_total();
        prop_assert_eq!(stats.offered, sum);

        // The driver, querying each packet at the end, counts the same.
        let mut seen = Count::default();
        for (outcome, _, ticket) in delivered(&outcomes) {
            if link.still_delivers(ticket) {
                seen += Count { packets: 1, bytes: outcome.bytes };
            }
        }
        prop_assert_eq!(seen, stats.delivered);
        let too_big = outcomes.iter().filter(|o| o.bytes > 1500);
        prop_assert_eq!(too_big.count() as u64, stats.dropped(DropReason::TooBig).packets);
    }

    #[test]
    fn the_same_seed_gives_the_same_verdicts(config in any_config(), steps in any_steps(), seed: u64) {
        let mut first = Link::new(config.clone(), Seed(seed)).unwrap();
        let mut second = Link::new(config, Seed(seed)).unwrap();
        prop_assert_eq!(run(&mut first, &steps), run(&mut second, &steps));
        prop_assert_eq!(first.stats(), second.stats());
    }

    #[test]
    fn nothing_arrives_before_it_can(config in any_config(), steps in any_steps(), seed: u64) {
        let delay = config.delay;
        let mut link = Link::new(config, Seed(seed)).unwrap();
        for (outcome, at, ticket) in delivered(&run(&mut link, &steps)) {
            prop_assert!(ticket.departs() >= outcome.now);
            prop_assert!(at >= ticket.departs() + delay);
        }
    }

    #[test]
    fn a_constant_rate_takes_its_time(rate in any_rate(), steps in any_traffic()) {
        let config = Config { rate: RateSource::Constant(rate), ..Config::default() };
        let mut link = Link::new(config, Seed(1)).unwrap();
        for (outcome, at, _) in delivered(&run(&mut link, &steps)) {
            prop_assert!(at >= outcome.now + rate.time_to_send(outcome.bytes));
        }
    }

    #[test]
    fn order_is_kept_unless_reordering(config in any_config(), steps in any_steps(), seed: u64) {
        let reorders = config.jitter.reorders();
        let mut link = Link::new(config, Seed(seed)).unwrap();
        let outcomes = run(&mut link, &steps);
        let kept: Vec<_> = delivered(&outcomes)
            .into_iter()
            .filter(|&(_, _, ticket)| link.still_delivers(ticket))
            .collect();
        for pair in kept.windows(2) {
            prop_assert!(pair[0].2.departs() <= pair[1].2.departs());
            prop_assert!(reorders || pair[0].1 <= pair[1].1);
        }
    }

    #[test]
    fn no_interval_carries_more_than_its_rate(
        config in any_config(), steps in any_traffic(), seed: u64
    ) {
        let source = config.rate.clone();
        let config = Config { outages: Vec::new(), ..config };
        let mut link = Link::new(config, Seed(seed)).unwrap();
        let outcomes = run(&mut link, &steps);
        let delivered = delivered(&outcomes);
        // Scaling rounds each step's rate to whole bits per second and each opportunity to whole bytes.
        let factor = match &source {
            RateSource::Trace(_) => 1.001,
            _ => 1.0 + 1e-9,
        };
        for (index, &(_, _, first)) in delivered.iter().enumerate() {
            let mut sum = 0.0;
            for &(outcome, _, last) in &delivered[index + 1..] {
                sum += outcome.bytes as f64 * 8.0;
                if let Some(bits) = bits_between(&source, first.departs(), last.departs()) {
                    // Departures are rounded up to whole nanoseconds: less than a bit at 100 Mbit/s.
                    prop_assert!(sum <= bits * factor + 1.0, "{sum} bits in {bits}");
                }
            }
        }
    }

    #[test]
    fn the_queue_never_exceeds_its_limit(config in any_config(), steps in any_steps(), seed: u64) {
        let mut link = Link::new(config, Seed(seed)).unwrap();
        let limit = link.queue_limit_bytes().max(1500);
        let _ = run(&mut link, &steps);
        prop_assert!(link.stats().queue_max_bytes <= limit);
    }

    #[test]
    fn random_bytes_never_make_the_trace_parser_panic(bytes: Vec<u8>) {
        let _ = Trace::parse("fuzz", &bytes);
    }

    #[test]
    fn nearly_right_traces_never_make_the_parser_panic(
        header in prop_oneof![
            Just(""), Just("t_s,bandwidth_bps\n"), Just("bandwidth_bps,loss,t_s,rtt_ms\n")
        ],
        rows in "([-+]?[0-9.e,\\-naif \n]{0,12}\n){0,8}",
    ) {
        if let Ok(trace) = Trace::parse("fuzz", format!("{header}{rows}").as_bytes()) {
            prop_assert!(!trace.duration().is_zero());
            prop_assert!(trace.rate_min() <= trace.rate_max());
            if let Ok(mut link) = Link::new(
                Config { rate: RateSource::trace(trace), ..Config::default() },
                Seed(1),
            ) {
                for _ in 0..20 {
                    let _ = link.offer(Instant::EPOCH, 1500, false);
                }
            }
        }
    }
}

proptest! {
    /// The extremes of a trace of opportunities are those of its whole seconds, one by one.
    #[test]
    fn extremes_are_those_of_the_seconds(
        gaps in prop::collection::vec(prop_oneof![0..900u64, Just(1000u64), 900..4000u64], 1..30),
    ) {
        let mut time = 0;
        let mut text = String::new();
        for gap in gaps.iter().chain([&1]) {
            time += gap;
            text += &format!("{time}\n");
        }
        let trace = Trace::from_mahimahi("opportunities", &text).expect("rising times");
        let rates: Vec<_> = (0..trace.duration().as_secs())
            .map(|second| trace.rate_at(Duration::from_secs(second)))
            .collect();
        prop_assert_eq!(trace.rate_min(), rates.iter().min().copied().unwrap_or(trace.rate_mean()));
        prop_assert_eq!(trace.rate_max(), rates.iter().max().copied().unwrap_or(trace.rate_mean()));
    }
}
