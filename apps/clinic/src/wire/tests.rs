//! Tests of messages and data.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::annexb::PictureType;

#[test]
fn labels_are_those_of_purposes() {
    for purpose in [
        Purpose::Case,
        Purpose::Ekg,
        Purpose::Vitals,
        Purpose::Video,
        Purpose::Stills,
        Purpose::SpeechUp,
        Purpose::SpeechDown,
    ] {
        assert_eq!(Purpose::of_label(purpose.label()), Some(purpose));
    }
    assert_eq!(Purpose::Ekg.to_string(), "ekg");
    for label in ["", "ekg", "clinic/2/ekg", "clinic/1/ekg/"] {
        assert_eq!(Purpose::of_label(label), None);
    }
}

#[test]
fn messages_have_the_form_of_the_document() {
    let hello = Request::Hello {
        secret: "abc".to_owned(),
        run: u64::MAX,
        contents: Contents {
            ekg: Origin::Replayed,
            video: Origin::Unstated,
            speech: Origin::Real,
        },
        takes_key: true,
        consent_s: 60,
    };
    let adu = encode(&hello);
    assert_eq!(
        &adu[1..],
        br#"{"do":"hello","secret":"abc","run":18446744073709551615,"contents":{"ekg":"replayed","video":"unstated","speech":"real"},"takes_key":true,"consent_s":60}"#
    );
    assert_eq!(decode(&adu), Ok(hello));
    let other = br#"{"do":"hello","secret":"","run":0,"contents":{"video":"dreamt"}}"#;
    let Ok(Request::Hello {
        contents,
        takes_key,
        consent_s,
        ..
    }) = decode(&[&[0], &other[..]].concat())
    else {
        panic!("words that are not known are no error");
    };
    assert_eq!(
        (contents, takes_key, consent_s),
        (Contents::default(), false, 0)
    );
    let key = Notice::Key { after: 3 };
    assert_eq!(encode(&key), &b"\0{\"is\":\"key\",\"after\":3}"[..]);
    assert_eq!(
        decode(b"\0{\"is\":\"welcome\",\"more\":1}"),
        Ok(Notice::Welcome {
            kept_s: None,
            fills: false,
            takes_objectives: false,
        })
    );
    let objectives = Request::Objectives {
        at_us: 5,
        objectives: vec![Objective {
            objective: 2,
            name: None,
            contexts: 4,
            contexts_met: 3,
            utility: -1.5,
            contexts_faulty: 1,
        }],
    };
    let adu = encode(&objectives);
    assert_eq!(
        &adu[1..],
        br#"{"do":"objectives","at_us":5,"objectives":[{"objective":2,"name":null,"contexts":4,"contexts_met":3,"utility":-1.5,"contexts_faulty":1}]}"#
    );
    assert_eq!(decode(&adu), Ok(objectives));
    assert!(decode::<Notice>(b"\0{\"is\":\"other\"}").is_err());
    assert!(decode::<Notice>(b"\x01{\"is\":\"welcome\"}").is_err());
    assert!(decode::<Notice>(b"").is_err());
    let long = [&[0][..], &vec![b' '; MESSAGE_BYTES_MAX + 1]].concat();
    assert!(
        decode::<Notice>(&long)
            .unwrap_err()
            .to_string()
            .contains("524289 bytes")
    );
}

#[test]
fn names_of_stills_stay_in_their_folder() {
    for name in ["a.jpg", "Wunde links.JPG", "ä", &"x".repeat(120)] {
        assert!(is_name(name), "{name}");
    }
    for name in [
        "",
        ".",
        "..",
        "../a",
        "a/b",
        "a\\b",
        ".hidden",
        "a\n",
        "c:x",
        " a",
        "a ",
        "a.",
        &"x".repeat(121),
    ] {
        assert!(!is_name(name), "{name}");
    }
}

proptest! {
    #[test]
    fn data_is_read_as_it_is_written(
        captured_us in any::<u64>(),
        number in any::<u64>(),
        samples in vec(any::<i16>(), 0..50),
        bytes in vec(any::<u8>(), 1..50),
        (is_intra, is_key, group) in any::<(bool, bool, u32)>(),
    ) {
        let bytes = Bytes::from(bytes);
        let kind = if is_intra { PictureType::Intra } else { PictureType::Predicted };
        for data in [
            Data::Samples(Samples { captured_us, first: number, samples }),
            Data::Picture(Picture { captured_us, number, kind, is_key, group, bytes: bytes.clone() }),
            Data::Piece(Piece { still: group, offset: number, bytes: bytes.clone() }),
            Data::Speech(Speech { captured_us, number, bytes: [&[8][..], &bytes].concat().into() }),
        ] {
            prop_assert_eq!(Data::read(data.to_adu()), Ok(data));
        }
    }

    #[test]
    fn any_bytes_are_data_or_refused(bytes in vec(any::<u8>(), 0..60)) {
        let adu = Bytes::from(bytes);
        if let Ok(data) = Data::read(adu.clone()) {
            prop_assert_eq!(data.to_adu(), adu);
        }
    }
}
