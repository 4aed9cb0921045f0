use std::net::SocketAddr;

use anabranch_base::SocketId;
use anabranch_session::{AllowList, Config, Engine, SecretKey, metering::Billing};

use super::*;
use crate::{
    clock::Clock,
    socket::{Bind, SocketStats},
    state::{Shared, Stage},
    waker::Waker,
};

const NOVEMBER_S: u64 = 1_795_219_200;
const DAY_S: u64 = 86_400;

fn tariff(place: &str, price: &str) -> Tariff {
    Tariff::new(place.parse().unwrap(), price.parse().unwrap())
}

fn used(place: &str, price: &str, used_bytes: u64) -> Tariff {
    let tariff = tariff(place, price);
    Tariff {
        counted: Some(Counted {
            period: tariff.billing.period(NOVEMBER_S),
            used_bytes,
        }),
        ..tariff
    }
}

/// A host with sockets on two addresses of `wwan0` and one of `eth0`.
fn shared() -> Shared {
    let clock = Clock::start();
    let key = SecretKey::from_seed([9; 32]);
    let allowed = AllowList::default();
    let engine = Engine::new(clock.epoch(), key, allowed, Config::default(), [1; 32]);
    let shared = Shared::new(clock, Waker::new().unwrap(), engine);
    let places = [
        ("192.0.2.1", "wwan0"),
        ("192.0.2.2", "wwan0"),
        ("192.0.2.3", "eth0"),
    ];
    for (id, (address, device)) in places.into_iter().enumerate() {
        let local: SocketAddr = format!("{address}:7").parse().unwrap();
        shared.lock().sockets.push(SocketEntry {
            id: SocketId(id as u64),
            bind: Bind::from(local),
            device: Some(device.to_owned()),
            interface: Some(device.to_owned()),
            local,
            is_up: true,
            stage: Stage::InUse,
            stats: SocketStats::default(),
        });
    }
    shared
}

fn set(shared: &Shared, unix_s: u64, tariffs: Vec<Tariff>) -> Vec<(String, u64)> {
    let usage = shared.command(|state, now| state.set_tariffs(now, unix_s, tariffs));
    let usage = usage.into_iter();
    usage
        .map(|(place, counted)| (place.to_string(), counted.used_bytes))
        .collect()
}

/// Bytes used on the meter of each socket.
fn meters(shared: &Shared) -> Vec<Option<u64>> {
    let state = shared.lock();
    let meter = |id| Some(state.engine.meter(SocketId(id))?.used_bytes());
    (0..3).map(meter).collect()
}

#[test]
fn a_place_keeps_what_was_used_under_another_price() {
    let shared = shared();
    assert_eq!(
        set(
            &shared,
            NOVEMBER_S,
            vec![used("wwan0", "5 GB then stop", 7)]
        ),
        []
    );
    assert_eq!(meters(&shared), [Some(7), Some(7), None]);
    // Another price, and a place that costs something from now on.
    let now = vec![
        used("eth0", "0.01/MB", 3),
        tariff("wwan0", "1 GB then stop"),
    ];
    let before = [("wwan0".to_owned(), 7)];
    assert_eq!(set(&shared, NOVEMBER_S, now), before);
    assert_eq!(meters(&shared), [Some(7), Some(7), Some(3)]);
    let budgets = shared.lock().budgets();
    assert_eq!(budgets[1].meter.model().cap_bytes(), Some(1_000_000_000));
    assert_eq!(budgets[1].locals.len(), 2);
    // An address has a tariff of its own; what the ledger states is larger for the interface.
    let now = vec![
        used("192.0.2.1", "free", 0),
        used("wwan0", "1 GB then stop", 9),
    ];
    set(&shared, NOVEMBER_S, now);
    assert_eq!(meters(&shared), [Some(0), Some(9), None]);
    let before = set(&shared, NOVEMBER_S, Vec::new());
    assert_eq!(before.len(), 2);
    assert_eq!(meters(&shared), [None, None, None]);
    assert!(shared.lock().calendar_due.is_none());
}

#[test]
fn a_budget_is_not_given_twice_in_a_period() {
    let shared = shared();
    let monthly = |day| Tariff {
        billing: Billing::monthly(day, Default::default()).unwrap(),
        ..tariff("wwan0", "1 MB then stop")
    };
    let first = Tariff {
        counted: used("wwan0", "free", 1_000_000).counted,
        ..monthly(1)
    };
    set(&shared, NOVEMBER_S, vec![first]);
    assert!(shared.lock().engine.is_spent(SocketId(1)));
    // The day before belongs to a period that began before the present one.
    set(&shared, NOVEMBER_S, vec![monthly(28)]);
    assert!(shared.lock().engine.is_spent(SocketId(1)));
    set(&shared, NOVEMBER_S + 40 * DAY_S, vec![monthly(28)]);
    assert!(!shared.lock().engine.is_spent(SocketId(1)));
}

#[test]
fn a_larger_cap_puts_a_spent_place_into_use_and_a_smaller_one_out_of_it() {
    let shared = shared();
    set(
        &shared,
        NOVEMBER_S,
        vec![used("wwan0", "1 MB then stop", 1_000_000)],
    );
    for (price, is_spent) in [
        ("2 MB then stop", false),
        ("1 MB then stop", true),
        ("0.01/MB", false),
    ] {
        set(&shared, NOVEMBER_S, vec![tariff("wwan0", price)]);
        assert_eq!(shared.lock().engine.is_spent(SocketId(0)), is_spent);
    }
    assert_eq!(meters(&shared), [Some(1_000_000), Some(1_000_000), None]);
}

#[test]
fn a_place_without_a_socket_is_found() {
    let shared = shared();
    let state = shared.lock();
    let without = |places: &[&str]| {
        let tariffs: Vec<Tariff> = places.iter().map(|place| tariff(place, "free")).collect();
        let place = state.place_without_socket(&tariffs);
        place.map(|place| place.to_string())
    };
    assert_eq!(without(&["wwan0", "192.0.2.3"]), None);
    assert_eq!(without(&["wwan1"]), Some("wwan1".to_owned()));
    let covered = ["192.0.2.1", "192.0.2.2", "wwan0"];
    assert_eq!(without(&covered), Some("wwan0".to_owned()));
}

#[test]
fn descriptions_apply_to_the_sockets_that_there_are() {
    let shared = shared();
    let named = |name: &str| LocalDescription {
        name: Some(name.into()),
        ..LocalDescription::default()
    };
    let names = |shared: &Shared| {
        let state = shared.lock();
        let names = state.sockets.iter().map(|socket| socket.interface.clone());
        names.flatten().collect::<Vec<_>>()
    };
    let of_place = ("wwan0".parse().unwrap(), named("lte"));
    shared.command(|state, _| state.set_descriptions(vec![of_place]));
    assert_eq!(names(&shared), ["lte", "lte", "eth0"]);
    shared.command(|state, _| state.set_descriptions(Vec::new()));
    assert_eq!(names(&shared), ["wwan0", "wwan0", "eth0"]);
}
