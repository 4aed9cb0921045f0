use proptest::prelude::*;

use super::*;

fn request() -> impl Strategy<Value = Request> {
    let path = || "[a-zé/.]{0,40}";
    prop_oneof![
        path().prop_map(|path| Request::Stat { path }),
        (path(), path(), any::<u16>()).prop_map(|(path, after, max)| Request::List {
            path,
            after,
            max
        }),
        (
            path(),
            any::<u64>(),
            any::<u32>(),
            any::<Option<[u8; VERSION_BYTES]>>()
        )
            .prop_map(|(path, offset, bytes, version)| Request::Read {
                path,
                offset,
                bytes,
                version: version.map(Version),
            }),
    ]
}

fn metadata() -> impl Strategy<Value = Metadata> {
    (any::<bool>(), any::<u64>(), any::<i64>(), any::<[u8; 16]>()).prop_map(
        |(is_file, size_bytes, modified_ns, version)| Metadata {
            kind: if is_file { Kind::File } else { Kind::Directory },
            size_bytes,
            modified_ns,
            version: Version(version),
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let entry = ("[a-zé]{1,20}", metadata());
    let entry = entry.prop_map(|(name, metadata)| Entry { name, metadata });
    prop_oneof![
        (0..Fault::ALL.len()).prop_map(|at| Answer::Fault(Fault::ALL[at])),
        metadata().prop_map(Answer::Stat),
        (prop::collection::vec(entry, 0..5), any::<bool>())
            .prop_map(|(entries, has_more)| Answer::List { entries, has_more }),
        (
            any::<[u8; 16]>(),
            any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..50)
        )
            .prop_map(|(version, size_bytes, bytes)| Answer::Data {
                version: Version(version),
                size_bytes,
                bytes: bytes.into(),
            }),
    ]
}

proptest! {
    #[test]
    fn requests_round_trip_and_a_part_of_one_is_none(id in any::<u32>(), request in request()) {
        let bytes = request.encode(id);
        prop_assert_eq!(Request::decode(&bytes), Ok((id, request)));
        for end in 0..bytes.len() {
            prop_assert_eq!(Request::decode(&bytes[..end]), Err(DecodeError));
        }
        prop_assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), Err(DecodeError));
    }

    #[test]
    fn answers_round_trip(id in any::<u32>(), answer in answer()) {
        let bytes = Bytes::from(answer.encode(id));
        prop_assert_eq!(Answer::decode(&bytes), Ok((id, answer)));
    }
}

/// Worked out by hand from `spec/exports.md`.
#[test]
fn messages_are_those_of_the_specification() {
    let request = Request::Read {
        path: "data/a".to_owned(),
        offset: 0x0102,
        bytes: 0x10,
        version: Some(Version([7; 16])),
    };
    let expected = [
        &[3, 0, 0, 0, 9, 0, 6][..],
        b"data/a",
        &[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0x10, 1],
        &[7; 16],
    ];
    assert_eq!(request.encode(9), expected.concat());
    let answer = Answer::Data {
        version: Version([7; 16]),
        size_bytes: 3,
        bytes: Bytes::from_static(b"abc"),
    };
    let expected = [
        &[3, 0, 0, 0, 9][..],
        &[7; 16],
        &[0, 0, 0, 0, 0, 0, 0, 3],
        b"abc",
    ];
    assert_eq!(answer.encode(9), expected.concat());
    assert_eq!(
        Answer::Fault(Fault::Changed).encode(9),
        [0, 0, 0, 0, 9, 5],
        "{}",
        Fault::Changed
    );
}

#[test]
fn versions_are_texts() {
    let version = Version(std::array::from_fn(|at| at as u8 * 17));
    assert_eq!(version.to_string().parse(), Ok(version));
    for text in ["", "00", &"zz".repeat(16), &"é".repeat(16)] {
        assert_eq!(text.parse::<Version>(), Err(ParseVersionError), "{text}");
    }
}

#[test]
fn messages_beyond_the_bounds_are_refused() {
    let path = "x".repeat(REQUEST_BYTES_MAX - 7);
    let mut longest = Request::Stat { path }.encode(1);
    assert!(Request::decode(&longest).is_ok());
    longest.push(b'x');
    assert_eq!(Request::decode(&longest), Err(DecodeError));
    let data = |bytes: usize| {
        let bytes = vec![0; bytes].into();
        let (version, size_bytes) = (Version::default(), 0);
        let answer = Answer::Data {
            version,
            size_bytes,
            bytes,
        };
        Answer::decode(&answer.encode(1).into())
    };
    assert!(data(READ_BYTES_MAX as usize).is_ok());
    assert_eq!(data(READ_BYTES_MAX as usize + 1), Err(DecodeError));
}
