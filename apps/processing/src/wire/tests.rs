//! Tests of messages, ADUs and marks.

use anabranch_process::{Adu, Value};
use bytes::Bytes;
use proptest::{collection::vec, prelude::*};

use super::{
    Carried, Item, Notice, Request, decode, encode,
    item::HEADER_BYTES_MAX,
    label::chosen,
    message::{ALLOWED_MAX, Demand, MESSAGE_BYTES_MAX, Offer, Pace, Position, Subscribe},
};

fn offer(subscribers: Vec<String>) -> Offer {
    Offer {
        run: u64::MAX,
        subscribers,
        is_reliable: true,
        pace: Pace::Slowest,
        first: 7,
        readers: 2,
        confirms: false,
        opens: None,
    }
}

fn subscribe() -> Subscribe {
    Subscribe {
        run: 3,
        source: None,
        pipeline: "every 5".to_owned(),
        is_reliable: true,
        change: 0,
        of: None,
        position: None,
        demand: None,
        wait_ms: 250,
        opens: None,
    }
}

#[test]
fn messages_are_as_the_specification_writes_them() {
    let json = r#"{"do":"subscribe","run":3,"pipeline":"every 5","is_reliable":true,"change":0,"wait_ms":250}"#;
    let adu: Bytes = [&[0], json.as_bytes()].concat().into();
    let request = Request::Subscribe(subscribe());
    assert_eq!(decode::<Request>(&adu), Ok(request.clone()));
    assert_eq!(encode(&request), adu);
    let json = r#"{"do":"offer","run":18446744073709551615,"subscribers":["*"],"is_reliable":true,"pace":"slowest","first":7,"readers":2,"confirms":false}"#;
    let adu: Bytes = [&[0], json.as_bytes()].concat().into();
    assert_eq!(encode(&Request::Offer(offer(vec!["*".to_owned()]))), adu);
    let early = Subscribe {
        opens: Some(chosen(1)),
        ..subscribe()
    };
    let json = r#"{"do":"subscribe","run":3,"pipeline":"every 5","is_reliable":true,"change":0,"wait_ms":250,"opens":9223372036854775809}"#;
    let adu: Bytes = [&[0], json.as_bytes()].concat().into();
    assert_eq!(encode(&Request::Subscribe(early)), adu);
    for (json, request) in [
        (r#"{"do":"measure"}"#, Request::Measure),
        (
            r#"{"do":"leave","why":"x"}"#,
            Request::Leave {
                why: "x".to_owned(),
            },
        ),
        (
            r#"{"do":"chosen","why":"x"}"#,
            Request::Chosen {
                why: "x".to_owned(),
            },
        ),
    ] {
        let adu: Bytes = [&[0], json.as_bytes()].concat().into();
        assert_eq!(encode(&request), adu);
        assert_eq!(decode(&adu), Ok(request));
    }
    let refused = Notice::Refused {
        number: None,
        may_retry: false,
        why: "no".to_owned(),
    };
    assert_eq!(decode(&encode(&refused)), Ok(refused));
    let long: Bytes = vec![0; MESSAGE_BYTES_MAX + 2].into();
    assert!(
        decode::<Request>(&long)
            .unwrap_err()
            .to_string()
            .contains("65537 bytes")
    );
}

#[test]
fn offers_and_subscriptions_are_bounded() {
    let node = anabranch::SecretKey::from_seed([7; 32]).node_id();
    let other = anabranch::SecretKey::from_seed([8; 32]).node_id();
    let named = offer(vec![node.to_string()]);
    assert_eq!(named.check(), Ok(()));
    assert!(named.allows(node) && !named.allows(other));
    assert!(offer(vec!["*".to_owned()]).allows(other));
    for wrong in [
        vec![],
        vec!["near".to_owned()],
        vec!["*".to_owned(); ALLOWED_MAX + 1],
    ] {
        assert!(offer(wrong).check().is_err());
    }
    let most = offer(vec![node.to_string(); ALLOWED_MAX]);
    assert!(encode(&Request::Offer(most)).len() <= MESSAGE_BYTES_MAX);
    assert_eq!(subscribe().check(), Ok(()));
    let long = Subscribe {
        pipeline: "x".repeat(9_000),
        ..subscribe()
    };
    assert!(long.check().is_err());
    let phases = Some(vec![0; 17]);
    let many = Subscribe {
        position: Some(Position { next: 0, phases }),
        ..subscribe()
    };
    assert!(many.check().is_err());
    for share_ppm in [0, 1_000_000] {
        let demand = Some(Demand {
            rate_bps: 1_000_000,
            share_ppm,
            deadline_ms: None,
        });
        let wrong = Subscribe {
            demand,
            ..subscribe()
        };
        assert!(wrong.check().is_err(), "{share_ppm}");
    }
}

#[test]
fn an_adu_has_the_header_of_the_specification() {
    let adu = Adu::new(2, &b"xy"[..]).with("n", 1.0).with("k", true);
    let item = Item::Adu(Carried {
        adu,
        change: 5,
        is_last: true,
    });
    let mut expected = vec![1, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 2, 2];
    expected.extend([0, 1, b'n', 1, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0, 1, b'k', 3, b'x', b'y']);
    assert_eq!(item.to_bytes(), expected);
    assert_eq!(Item::read(expected.into()), Ok(item));
    let mut adu = Adu::new(2, &b"xy"[..]);
    adu.made = Some(std::time::Duration::from_micros(258));
    let item = Item::Adu(Carried {
        adu,
        change: 0,
        is_last: false,
    });
    let mut expected = vec![1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    expected.extend([0, 0, 0, 0, 0, 0, 1, 2, 0, b'x', b'y']);
    assert_eq!(item.to_bytes(), expected);
    for length in 0..22 {
        assert!(Item::read(expected[..length].to_vec().into()).is_err());
    }
    assert_eq!(Item::read(expected.into()), Ok(item));
    let mark = Item::Mark(Position {
        next: 9,
        phases: Some(vec![0, 4]),
    });
    let expected = [2, 0, 0, 0, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 4];
    assert_eq!(mark.to_bytes(), &expected[..]);
    assert_eq!(Item::read(mark.to_bytes()), Ok(mark));
}

#[test]
fn bytes_that_are_no_adu_are_refused() {
    let head = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let with = |rest: &[u8]| [&head[..], rest].concat();
    for (bytes, says) in [
        (vec![], "empty"),
        (vec![7], "kind 7"),
        (vec![1; 14], "is cut"),
        ([&[1, 8], &head[2..], &[0]].concat(), "flags 0x8"),
        ([&[1, 4], &head[2..], &[0]].concat(), "is cut"),
        (with(&[1]), "is cut"),
        (with(&[1, 0, 1, b'n']), "is cut"),
        (with(&[1, 0, 1, b'n', 1, 0]), "is cut"),
        (with(&[1, 0, 1, b'n', 9]), "type 9"),
        (with(&[1, 0, 0, 2]), "1 to 256 bytes"),
        (with(&[1, 1, 1, b'n']), "257 bytes"),
        (with(&[1, 0, 1, 0xff, 2]), "no text"),
        (with(&[2, 0, 1, b'n', 2, 0, 1, b'n', 3]), "twice"),
        (vec![2, 0, 0], "is cut"),
        (vec![2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0], "1 phases"),
        ([&[2; 9][..], &[17], &[0; 68]].concat(), "17 phases"),
    ] {
        let error = Item::read(bytes.clone().into()).unwrap_err().to_string();
        assert!(error.contains(says), "{bytes:?}: {error}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-1e300..1e300).prop_map(Value::Number),
        any::<bool>().prop_map(Value::Boolean),
        "\\PC{0,60}".prop_map(|text| Value::from(&*text)),
    ]
}

fn carried() -> impl Strategy<Value = Carried> {
    let fields = vec(("[a-z]{1,9}", value()), 0..9);
    let body = vec(any::<u8>(), 0..60);
    (any::<u64>(), any::<(u32, bool, bool)>(), fields, body).prop_map(
        |(sequence, (change, is_last, needs_previous), fields, body)| {
            let mut adu = Adu::new(sequence, body);
            adu.needs_previous = needs_previous;
            adu.made = needs_previous.then(|| std::time::Duration::from_micros(sequence));
            for (name, value) in fields {
                adu = adu.with(&name, value);
            }
            Carried {
                adu,
                change,
                is_last,
            }
        },
    )
}

proptest! {
    #[test]
    fn adus_are_read_as_they_are_written(carried in carried()) {
        let bytes = carried.to_bytes();
        prop_assert!(bytes.len() <= HEADER_BYTES_MAX + carried.adu.body.len());
        prop_assert_eq!(Item::read(bytes), Ok(Item::Adu(carried)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..80), kind in 0..4_u8) {
        let mut all = vec![kind];
        all.extend(bytes);
        let all = Bytes::from(all);
        let _ = (decode::<Request>(&all), decode::<Notice>(&all));
        if let Ok(item) = Item::read(all.clone()) {
            prop_assert_eq!(item.to_bytes(), all);
        }
    }

    #[test]
    fn an_adu_that_is_cut_is_not_another_one(carried in carried(), at in any::<prop::sample::Index>()) {
        let bytes = carried.to_bytes();
        let header = bytes.len() - carried.adu.body.len();
        let cut = bytes.slice(..at.index(header));
        prop_assert!(Item::read(cut).is_err());
    }
}
