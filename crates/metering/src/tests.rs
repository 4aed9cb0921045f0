use proptest::prelude::*;

use super::*;

const GB: u64 = 1_000_000_000;

fn model(text: &str) -> Model {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn cost(model: &Model, used: u64, bytes: u64) -> u64 {
    model
        .cost(used, bytes)
        .expect("below the cap")
        .as_millionths()
}

#[test]
fn by_hand() {
    let free = model("free");
    assert!(free.is_free() && free == Model::default());
    assert_eq!(cost(&free, 0, u64::MAX), 0);
    // One hundredth for a megabyte: 10,000 millionths, one for 100 bytes.
    let flat = model("0.01/MB");
    assert_eq!(cost(&flat, 0, 1_000_000), 10_000);
    assert_eq!((cost(&flat, 0, 99), cost(&flat, 99, 1)), (0, 1));
    let quota = model("2 GB then 0.01/MB");
    assert_eq!(cost(&quota, 0, 2 * GB), 0);
    assert_eq!(cost(&quota, 2 * GB, GB), 10_000_000, "ten units");
    assert_eq!(cost(&quota, GB, 2 * GB), 10_000_000, "half of it free");
    let capped = model("5 GB then stop");
    assert_eq!(cost(&capped, 0, 5 * GB), 0);
    let refused = CapReached {
        left_bytes: 1,
        wanted_bytes: 2,
    };
    assert_eq!(capped.cost(5 * GB - 1, 2), Err(refused));
    let tiers = model("1 GB then 2 GB at 0.005/MB then 10 GB at 0.01/MB then stop");
    assert_eq!(tiers.cap_bytes(), Some(13 * GB));
    assert_eq!(cost(&tiers, 0, 13 * GB), 2 * 5_000_000 + 10 * 10_000_000);
    let energy = model("0.5 J/MB");
    assert_eq!(energy.unit(), Unit::Energy);
    assert_eq!(cost(&energy, 0, 3_000_000), 1_500_000);
}

#[test]
fn what_is_wrong_is_said() {
    for (text, words) in [
        ("", "the list ends with ''"),
        ("2 GB", "the list ends with '2 GB'"),
        ("2 GB then", "the list ends with '2 GB then'"),
        ("2 GB then then free", "the list ends with"),
        ("2 GB then 0.01", "the list ends with '0.01'"),
        ("2 XB then free", "'2 XB' is not an amount"),
        ("0.5 B then free", "'0.5 B' is not an amount"),
        ("-1 GB then free", "'-1 GB' is not an amount"),
        ("99999999999 TB then free", "is not an amount"),
        ("0.0000001/MB", "'0.0000001/MB' is not a price"),
        ("1e3/MB", "'1e3/MB' is not a price"),
        ("0.01/parsec", "'0.01/parsec' is not a price"),
        (".5/MB", "is not a price"),
        ("1 GB at 1 J/MB then 1/MB", "in money or in joules"),
        ("0 GB then free", "step 1 of the price list holds 0 bytes"),
        ("10000000 TB then 10000000 TB then stop", "more than 2^64"),
    ] {
        let error = text.parse::<Model>().expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let long = "1 B then ".repeat(8) + "free";
    let error = long.parse::<Model>().expect_err("too long").to_string();
    assert!(error.contains("at most 8 steps"), "{error}");
}

#[test]
fn a_period_begins_anew_once() {
    let mut meter = Meter::new(model("1 kB then 1 kB at 0.001/B then stop"), Period(5), 900);
    assert_eq!(meter.spend(200), Ok(Cost::from_millionths(100_000)));
    assert_eq!((meter.used_bytes(), meter.left_bytes()), (1100, Some(900)));
    assert_eq!(meter.paid(), Cost::from_millionths(100_000));
    assert!(meter.spend(901).is_err());
    assert_eq!(meter.used_bytes(), 1100, "nothing was used");
    meter.begin(Period(4));
    meter.begin(Period(5));
    assert_eq!(meter.used_bytes(), 1100);
    meter.begin(Period(6));
    assert_eq!((meter.used_bytes(), meter.period()), (0, Period(6)));
    // A smaller cap than what was used already.
    meter.spend(7).expect("it is free");
    meter.set_model(model("1 B then stop"));
    assert_eq!(meter.left_bytes(), Some(0));
    assert!(meter.spend(1).is_err());
    assert_eq!(meter.spend(0), Ok(Cost::ZERO));
}

#[test]
fn the_next_byte_has_a_price() {
    let tiers = model("1 kB then 2 kB at 5/kB then stop");
    assert_eq!(tiers.next_price(0), Some((Price::FREE, Some(1000))));
    assert_eq!(tiers.next_price(999), Some((Price::FREE, Some(1))));
    let (price, left) = tiers.next_price(1000).expect("below the cap");
    assert_eq!((price.per_byte(), left), (0.005, Some(2000)));
    assert_eq!(tiers.next_price(2999), Some((price, Some(1))));
    assert_eq!(tiers.next_price(3000), None);
    assert_eq!(tiers.next_price(u64::MAX), None);
    let quota = model("1 kB then 5/kB");
    assert_eq!(quota.next_price(1000), Some((price, None)));
}

fn any_model() -> impl Strategy<Value = Model> {
    let amount = || prop_oneof![1..5_000_u64, 1..5_000_000_000_u64];
    let price = || {
        let per = prop_oneof![Just(1_u64), Just(1000), Just(1 << 20), Just(1_000_000)];
        (0..3_000_000_u64, per)
            .prop_map(|(cost, per)| Price::new(Cost(cost), per).expect("not zero"))
    };
    let step = (amount(), price()).prop_map(|(bytes, price)| Step { bytes, price });
    (
        any::<bool>(),
        proptest::collection::vec(step, 0..STEPS_MAX),
        proptest::option::of(price()),
    )
        .prop_map(|(energy, steps, last)| {
            let unit = if energy { Unit::Energy } else { Unit::Money };
            Model::new(unit, steps, last).expect("in range")
        })
}

proptest! {
    /// Parts cost what the whole costs, never less than nothing, and no less than a smaller part.
    #[test]
    fn costs_add_up(model in any_model(), used in 0..20_000_000_000_u64, parts in proptest::collection::vec(0..3_000_000_000_u64, 1..8)) {
        let mut meter = Meter::new(model.clone(), Period(0), used);
        let (mut paid, mut spent) = (0, 0);
        for part in parts {
            let before = meter.clone();
            match meter.spend(part) {
                Ok(cost) => {
                    prop_assert!(before.cost(part / 2)? <= cost);
                    paid += cost.as_millionths();
                    spent += part;
                }
                Err(refused) => {
                    prop_assert!(refused.left_bytes < part);
                    prop_assert_eq!(&meter, &before);
                }
            }
        }
        prop_assert_eq!(model.cost(used, spent).map(Cost::as_millionths).unwrap_or(0), paid);
    }

    /// A written form can be read.
    #[test]
    fn texts_round_trip(model in any_model()) {
        let text = model.to_string();
        let read: Model = text.parse()?;
        // A price of nothing has no unit and no amount.
        for bytes in [0, 1, 999, 10_000, 3_000_000_000] {
            prop_assert_eq!(read.cost(0, bytes), model.cost(0, bytes), "{}", &text);
        }
        prop_assert_eq!(read.to_string(), text);
    }

    /// No text makes it panic.
    #[test]
    fn any_text_is_read_or_refused(text in "[0-9./ JkMGTiBahnstopefr]{0,60}") {
        if let Ok(model) = text.parse::<Model>() {
            let again = model.to_string().parse::<Model>();
            prop_assert_eq!(again.map(|again| again.cost(7, 9)), Ok(model.cost(7, 9)));
        }
    }
}
