use super::*;
use crate::{
    Config, Jitter, Loss, Outage, Queue, RateSource,
    duplex::Configs,
    jitter::Shape,
    loss::{Doubling, GilbertElliott},
    preset,
    queue::Limit,
    source::Playback,
    source::Walk,
};
use anabranch_base::Rate;
use proptest::prelude::*;
use std::time::Duration;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn read(text: &str) -> Config {
    text.parse().unwrap()
}

fn refusal(text: &str) -> String {
    text.parse::<Config>().unwrap_err().to_string()
}

/// A trace whose shape depends on its name, as if read from a file.
fn any_trace(name: &str) -> Result<Arc<Trace>, String> {
    Ok(Arc::new(Trace::from_rates(
        name,
        ms(100),
        &[Rate::from_mbps(1), Rate::ZERO],
    )))
}

#[test]
fn the_example_reads_as_stated() {
    let config = read("rate=50 Mbit/s, delay=30 ms, loss=1 %, queue=250 kB, jitter=2 ms");
    let expected = Config {
        rate: RateSource::Constant(Rate::from_mbps(50)),
        delay: ms(30),
        loss: Loss::Random { probability: 0.01 },
        queue: Queue::bytes(250_000),
        jitter: Jitter::uniform(ms(2)),
        ..Config::default()
    };
    assert_eq!(config, expected);
    assert_eq!(
        config.to_string(),
        "rate=50 Mbit/s, delay=30 ms, jitter=2 ms, loss=1 %, queue=250 kB"
    );
    assert_eq!(read(""), Config::default());
}

#[test]
fn every_form_of_the_table_is_read() {
    assert_eq!(read("rate=unlimited").rate, RateSource::Unlimited);
    let walk = RateSource::Walk(Walk {
        base: Rate::from_mbps(20),
        spread: 0.5,
        every: ms(500),
    });
    assert_eq!(read("rate=20 Mbit/s +- 50 % every 500 ms").rate, walk);
    assert_eq!(read("rate=20Mbit/s ±0.5 every 500ms").rate, walk);
    assert_eq!(read("jitter=none").jitter, Jitter::None);
    assert_eq!(read("jitter=normal 2 ms").jitter, Jitter::normal(ms(2)));
    assert_eq!(
        read("jitter=uniform 2 ms reordering").jitter,
        Jitter::uniform(ms(2)).reordering()
    );
    assert_eq!(read("loss=none").loss, Loss::None);
    assert_eq!(
        read("loss=2 % in bursts of 5").loss,
        Loss::bursts(0.02, 5.0).unwrap()
    );
    assert_eq!(read("jitter=gaussian 2 ms").jitter, Jitter::gaussian(ms(2)));
    assert_eq!(
        read("loss=20 % in bursts up to 16").loss,
        Loss::Doubling(Doubling::horde(0.2, 16).unwrap())
    );
    let doubling = Doubling {
        start: 0.1,
        decay: 0.25,
        burst_max: 8,
    };
    assert_eq!(
        read("loss=doubling 10 %/0.25/8").loss,
        Loss::Doubling(doubling)
    );
    assert!(refusal("loss=20 % in bursts up to 12").contains("power of two"));
    let model = GilbertElliott {
        good_to_bad: 0.001,
        bad_to_good: 0.25,
        loss_good: 0.0,
        loss_bad: 0.5,
    };
    assert_eq!(
        read("loss=gilbert 0.1 %/25 %/0/0.5").loss,
        Loss::GilbertElliott(model)
    );
    assert_eq!(
        read("queue=80 ms, ecn=60 kB").queue,
        Queue::time(ms(80)).marking_above(60_000)
    );
    assert_eq!(read("ecn=none, mtu=1400 B").mtu_bytes, 1400);
    let outages = read("outage=5 s to 7 s, outage=9 s to 9.5 s").outages;
    assert_eq!(
        outages[1],
        Outage {
            from: ms(9_000),
            to: ms(9_500)
        }
    );
}

#[test]
fn traces_are_asked_for_by_name() {
    let rate = |text: &str| parse(text, &mut any_trace).map(|config| config.rate);
    let playing = |name, scale, start_ms| {
        Ok(RateSource::Trace(Playback {
            trace: any_trace(name).unwrap(),
            scale,
            start: ms(start_ms),
        }))
    };
    assert_eq!(rate("rate=trace data/a.csv"), playing("data/a.csv", 1.0, 0));
    assert_eq!(
        rate("rate=trace a.csv x0.5 from 10 s, delay=1 ms"),
        playing("a.csv", 0.5, 10_000)
    );
    assert_eq!(
        rate("rate=trace \"from, here x.csv\" from 1 s"),
        playing("from, here x.csv", 1.0, 1_000)
    );
    for bad in [
        "trace",
        "trace \"a",
        "trace a 0.5",
        "trace a x",
        "trace a from",
        "trace \"\"",
    ] {
        assert!(rate(&format!("rate={bad}")).is_err(), "{bad}");
    }
    let text = refusal("rate=trace a.csv");
    assert_eq!(
        text,
        "rate=trace a.csv: traces cannot be read here; state a rate"
    );
}

#[test]
fn refusals_name_key_value_and_form() {
    let text = refusal("speed=5 Mbit/s");
    assert_eq!(
        text,
        "a link has no 'speed'; the keys are rate, delay, jitter, loss, queue, ecn, mtu, outage"
    );
    assert_eq!(
        refusal("delay=30"),
        "delay=30: expected a time such as '30 ms'"
    );
    assert!(refusal("delay=1 ms, lte").contains("'lte' is not of the form key=value"));
    assert_eq!(
        refusal("delay=1 ms, delay=2 ms"),
        "'delay' is given twice; give it once"
    );
    assert!(refusal("loss=150 %").contains("loss is 1.5"));
    assert!(refusal("loss=90 % in bursts of 2").contains("bursts of 2 packets"));
    assert!(refusal("rate=0 Mbit/s").contains("take it down"));
    assert!(refusal("rate=trace").contains("trace NAME"));
    assert!(refusal("mtu=9 B").contains("mtu is 9 bytes"));
    for bad in [
        "rate=fast",
        "jitter=some",
        "loss=gilbert 1/2/3",
        "queue=9",
        "ecn=yes",
        "mtu=1400",
        "outage=1 s",
    ] {
        let key = bad.split('=').next().unwrap();
        assert!(refusal(bad).starts_with(bad), "{bad}");
        assert!(KEYS.contains(&key));
    }
}

#[test]
fn presets_may_be_changed() {
    assert_eq!(read("lte"), preset::lte().backward);
    assert_eq!(read("lte-up"), preset::lte().forward);
    let config = read("lte-up, delay=80 ms");
    assert_eq!(
        (config.delay, config.rate),
        (ms(80), preset::lte().forward.rate)
    );
    for name in preset::names() {
        let both: Configs = name.parse().unwrap();
        assert_eq!(Some(&both), preset::by_name(name).as_ref());
        assert_eq!(both.to_string().parse(), Ok(both), "{name}");
    }
    let text = preset::lte().forward.to_string();
    assert_eq!(
        text,
        "rate=5 Mbit/s +- 80 % every 1 s, delay=30 ms, jitter=normal 6 ms, loss=0.65 % in bursts of 2, queue=300 ms"
    );
}

#[test]
fn directions_are_separated_by_a_semicolon() {
    let both: Configs = "delay=1 ms ; delay=2 ms".parse().unwrap();
    assert_eq!((both.forward.delay, both.backward.delay), (ms(1), ms(2)));
    let both: Configs = "leo, loss=none".parse().unwrap();
    assert_eq!(
        (both.forward.loss, both.backward.loss),
        (Loss::None, Loss::None)
    );
    assert_ne!(both.forward.rate, both.backward.rate);
    let both: Configs = "delay=1 ms".parse().unwrap();
    assert_eq!(both.to_string(), "rate=unlimited, delay=1 ms");
    assert_eq!(
        "a;b;c".parse::<Configs>(),
        Err(DescribeError::Directions { count: 3 })
    );
    assert_eq!("".parse(), Ok(Configs::default()));
}

fn any_time(most: Duration) -> impl Strategy<Value = Duration> {
    let nanos = most.as_nanos() as u64;
    prop_oneof![
        0..=nanos,
        (0..=nanos / 1_000_000).prop_map(|n| n * 1_000_000)
    ]
    .prop_map(Duration::from_nanos)
}

fn any_rate() -> impl Strategy<Value = Rate> {
    prop_oneof![
        (1_000..1_000_000_000_000u64).prop_map(Rate::from_bps),
        (1..100_000u64).prop_map(Rate::from_mbps)
    ]
}

fn any_source() -> impl Strategy<Value = RateSource> {
    let walk = (any_rate(), 0.0..=1.0, any_time(crate::config::DURATION_MAX));
    let trace = (
        ".{1,12}",
        prop_oneof![Just(1.0), 1e-3..1e6],
        any_time(crate::config::OUTAGE_MAX),
    );
    prop_oneof![
        Just(RateSource::Unlimited),
        any_rate().prop_map(RateSource::Constant),
        walk.prop_map(|(base, spread, every)| {
            let every = every.max(crate::source::EVERY_MIN);
            RateSource::Walk(Walk {
                base,
                spread,
                every,
            })
        }),
        trace.prop_map(|(name, scale, start)| {
            let trace = any_trace(&name).unwrap();
            RateSource::Trace(Playback {
                trace,
                scale,
                start,
            })
        }),
    ]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    let time = || any_time(crate::config::DURATION_MAX);
    let shape = prop_oneof![
        time().prop_map(Shape::Uniform),
        time().prop_map(Shape::Normal),
        time().prop_map(Shape::Gaussian)
    ];
    let some = (shape, any::<bool>());
    prop_oneof![
        Just(Jitter::None),
        some.prop_map(|(shape, reorders)| Jitter::Some { shape, reorders })
    ]
}

fn any_loss() -> impl Strategy<Value = Loss> {
    let p = || prop_oneof![0.0..=1.0, (0..=1000u32).prop_map(|n| f64::from(n) / 1000.0)];
    let bursts = (0.0..0.5, 1.0..20.0).prop_map(|(rate, burst)| Loss::bursts(rate, burst).unwrap());
    prop_oneof![
        Just(Loss::None),
        p().prop_map(|probability| Loss::Random { probability }),
        bursts,
        (p(), 0.0..=0.5, 0..=16u32).prop_map(|(start, decay, doublings)| {
            Loss::Doubling(Doubling {
                start,
                decay,
                burst_max: 1 << doublings,
            })
        }),
        [p(), p(), p(), p()].prop_map(|[good_to_bad, bad_to_good, loss_good, loss_bad]| {
            Loss::GilbertElliott(GilbertElliott {
                good_to_bad,
                bad_to_good,
                loss_good,
                loss_bad,
            })
        }),
    ]
}

fn any_queue() -> impl Strategy<Value = Queue> {
    let bytes = || 0..=crate::queue::QUEUE_MAX_BYTES;
    let time = any_time(crate::config::DURATION_MAX);
    let limit = prop_oneof![bytes().prop_map(Limit::Bytes), time.prop_map(Limit::Time)];
    (limit, prop::option::of(bytes())).prop_map(|(limit, mark_above_bytes)| Queue {
        limit,
        mark_above_bytes,
    })
}

fn any_config() -> impl Strategy<Value = Config> {
    let outages = prop::collection::btree_set(0u64..360_000_000, 0..3);
    let time = any_time(crate::config::DURATION_MAX);
    (
        any_source(),
        time,
        any_jitter(),
        any_loss(),
        any_queue(),
        68..=65_535usize,
        outages,
    )
        .prop_map(|(rate, delay, jitter, loss, queue, mtu_bytes, marks)| {
            let marks: Vec<u64> = marks.into_iter().collect();
            let outage = |pair: &[u64]| Outage {
                from: ms(pair[0]),
                to: ms(pair[1]),
            };
            let outages = marks.chunks_exact(2).map(outage).collect();
            Config {
                rate,
                delay,
                jitter,
                loss,
                queue,
                mtu_bytes,
                outages,
            }
        })
}

proptest! {
    #[test]
    fn a_config_reads_back_from_its_text(config in any_config()) {
        prop_assert_eq!(config.validate(), Ok(()));
        let text = config.to_string();
        prop_assert_eq!(parse(&text, &mut any_trace), Ok(config), "{}", text);
    }

    #[test]
    fn both_directions_read_back(forward in any_config(), backward in any_config()) {
        let both = Configs { forward, backward };
        let text = both.to_string();
        prop_assert_eq!(parse_both(&text, &mut any_trace), Ok(both), "{}", text);
    }

    #[test]
    fn no_text_makes_it_panic(text in ".{0,80}") {
        let _ = parse_both(&text, &mut any_trace);
    }

    #[test]
    fn no_nearly_right_text_makes_it_panic(
        parts in prop::collection::vec(
            ("(rate|delay|jitter|loss|queue|ecn|mtu|outage|lte-up)", "[=;,\" ]{0,2}",
             "(trace|from|x|normal|gilbert|doubling|to|every|\\+-|in bursts of|in bursts up to|/|%|ms|s|Mbit/s|kB|[0-9.]{1,9}| |\"){0,6}"),
            0..4)
    ) {
        let text: String = parts.into_iter().map(|(a, b, c)| format!("{a}{b}{c},")).collect();
        let _ = parse_both(&text, &mut any_trace);
    }
}
