//! Properties of operators on numeric arrays: the error of `precision` is bounded as documented, and `delta` loses nothing.

use anabranch_process::{
    Adu, Element, Limits, Modules, Pipeline,
    operators::{
        delta::{DecodeError, Decoder, Encoder},
        precision::rounded,
    },
};
use bytes::Bytes;
use proptest::prelude::*;

fn element() -> impl Strategy<Value = Element> {
    prop::sample::select(Element::ALL.to_vec())
}

/// Bits of numbers of all kinds: any bits, infinities, NaN, zeros, subnormal numbers, the largest.
fn bits() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        any::<f64>().prop_map(f64::to_bits),
        any::<f32>().prop_map(|number| u64::from(number.to_bits())),
        prop::sample::select(vec![
            0,
            1,
            0x8000_0000,
            1 << 63,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0xff80_0000,
            f64::MAX.to_bits(),
            f64::INFINITY.to_bits(),
            f64::INFINITY.to_bits() + 1,
            f64::MIN_POSITIVE.to_bits() - 1,
        ]),
    ]
}

fn value(bits: u64, element: Element) -> f64 {
    let mut bytes = vec![0; element.bytes()];
    element.write_bits(bits, &mut bytes);
    element.read(&bytes)
}

proptest! {
    #[test]
    fn precision_is_within_its_bound(bits in bits(), kept in 1_u32..53, element in element()) {
        let kept = kept.min(element.mantissa_bits());
        let bits = if element.bytes() == 4 { bits & 0xffff_ffff } else { bits };
        let result = rounded(bits, kept, element);
        let (before, after) = (value(bits, element), value(result, element));
        if !before.is_finite() {
            prop_assert_eq!(result, bits);
            return Ok(());
        }
        prop_assert!(after.is_finite());
        prop_assert_eq!(before.is_sign_negative(), after.is_sign_negative());
        prop_assert_eq!(rounded(result, kept, element), result);
        let (normal_min, max) = if element.bytes() == 4 {
            (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))
        } else {
            (f64::MIN_POSITIVE, f64::MAX)
        };
        // Without underflow: both sides are scaled up where they are small.
        let scale = if before.abs() < 1.0 { 2_f64.powi(600) } else { 1.0 };
        let error = (after * scale - before * scale).abs();
        let share = 2_f64.powi(-(kept as i32) - 1);
        let magnitude = before.abs().max(normal_min) * scale;
        let near_infinity = before.abs() > max * (1.0 - share);
        prop_assert!(error <= share * magnitude || near_infinity && error < 2.0 * share * magnitude);
        let cut = element.mantissa_bits() - kept;
        prop_assert_eq!(result & ((1 << cut) - 1), 0);
    }

    #[test]
    fn delta_restores_every_bit(
        arrays in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..8),
        copies in prop::collection::vec(any::<bool>(), 8),
        element in element(),
        whole in prop::option::of(1_u32..5),
    ) {
        let mut encoder = Encoder::new(element, whole.and_then(std::num::NonZeroU32::new));
        let mut decoder = Decoder::new(element);
        let mut array = Vec::new();
        for (next, is_copy) in arrays.into_iter().zip(copies) {
            if is_copy {
                // Almost the same as before, so that a difference is sent.
                if let (Some(byte), Some(other)) = (array.first_mut(), next.first()) {
                    *byte = *other;
                }
            } else {
                array = next;
            }
            let (body, _) = encoder.encode(Bytes::from(array.clone()));
            prop_assert!(body.len() <= array.len() + 5);
            prop_assert_eq!(decoder.decode(body).unwrap(), array.clone());
        }
    }

    #[test]
    fn numbers_survive_precision_and_delta(
        frames in prop::collection::vec(prop::collection::vec(bits(), 6), 1..6),
        element in element(),
        kept in 1_u32..24,
    ) {
        let pipeline: Pipeline = format!("precision {kept} of {element} then delta of {element}").parse().unwrap();
        let modules = Modules::default();
        let mut running = pipeline.start(&modules, Limits::default()).unwrap();
        let mut decoder = Decoder::new(element);
        for frame in frames {
            let mut body = vec![0; 6 * element.bytes()];
            let mut expected = body.clone();
            let numbers = body.chunks_exact_mut(element.bytes()).zip(expected.chunks_exact_mut(element.bytes()));
            for (bits, (number, rounded_number)) in frame.into_iter().zip(numbers) {
                let bits = if element.bytes() == 4 { bits & 0xffff_ffff } else { bits };
                element.write_bits(bits, number);
                element.write_bits(rounded(bits, kept, element), rounded_number);
            }
            let derived = running.process(Adu::new(0, body), &modules).unwrap().adus.remove(0);
            prop_assert_eq!(decoder.decode(derived.body).unwrap(), expected);
        }
    }

    #[test]
    fn a_decoder_survives_any_bytes(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..32), 0..8)) {
        let mut decoder = Decoder::new(Element::F32);
        let mut encoder = Encoder::new(Element::F32, None);
        decoder.decode(encoder.encode(Bytes::from_static(&[1; 12])).0).unwrap();
        for body in bodies {
            let _ = decoder.decode(body.into());
        }
    }
}

#[test]
fn a_decoder_that_missed_an_array_waits_for_a_whole_one() {
    let mut encoder = Encoder::new(Element::F64, std::num::NonZeroU32::new(4));
    let mut decoder = Decoder::new(Element::F64);
    let array = Bytes::from(vec![7; 80]);
    let bodies: Vec<(Bytes, bool)> = (0..8).map(|_| encoder.encode(array.clone())).collect();
    let differences: Vec<bool> = bodies
        .iter()
        .map(|(_, is_difference)| *is_difference)
        .collect();
    assert_eq!(
        differences,
        [false, true, true, true, false, true, true, true]
    );
    assert!(bodies[1].0.len() < 10);
    assert_eq!(decoder.decode(bodies[0].0.clone()).unwrap(), array);
    assert_eq!(
        decoder.decode(bodies[2].0.clone()),
        Err(DecodeError::Missing)
    );
    assert_eq!(decoder.decode(bodies[1].0.clone()).unwrap(), array);
    assert_eq!(
        decoder.decode(bodies[3].0.clone()),
        Err(DecodeError::Missing)
    );
    assert_eq!(decoder.decode(bodies[4].0.clone()).unwrap(), array);
}

#[test]
fn bytes_that_are_no_difference_are_refused_and_what_was_decoded_is_kept() {
    let mut encoder = Encoder::new(Element::F32, None);
    let mut decoder = Decoder::new(Element::F32);
    let array = Bytes::from(vec![7; 12]);
    decoder.decode(encoder.encode(array.clone()).0).unwrap();
    for rest in [
        &[0, 13][..],
        &[0x80],
        &[0xff; 12],
        &[12, 1, 5],
        &[0, 2, 5],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1],
    ] {
        let body: Bytes = [&[1, 0, 0, 0, 1], rest].concat().into();
        assert_eq!(decoder.decode(body), Err(DecodeError::Format), "{rest:?}");
    }
    assert_eq!(
        decoder.decode(Bytes::from_static(&[2, 0, 0, 0, 0])),
        Err(DecodeError::Format)
    );
    assert_eq!(
        decoder.decode(Bytes::from_static(&[0, 0])),
        Err(DecodeError::Format)
    );
    assert_eq!(
        decoder.decode(encoder.encode(array.clone()).0).unwrap(),
        array
    );
}
