//! Tests of the codec: round trips in pieces of any size, refusals, and the bound on memory.

use anabranch_session::Missing;
use proptest::prelude::*;

use super::*;

fn bytes_of(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        let payload = encode(frame, &mut out);
        out.extend_from_slice(&payload);
    }
    out
}

fn greeted(side: Side) -> Decoder {
    Decoder {
        is_greeted: true,
        ..Decoder::new(side)
    }
}

/// Feeds the bytes in pieces of this size.
fn decode(side: Side, bytes: &[u8], piece: usize) -> Result<Vec<Frame>, FrameError> {
    let mut decoder = greeted(side);
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.space().extend_from_slice(piece);
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

fn send(data: &[u8], fields: &'static str) -> Frame {
    Frame::Send(SendFrame {
        stream: 7,
        confirm: !fields.is_empty(),
        importance: 9,
        fields: fields.into(),
        data: Bytes::copy_from_slice(data),
        cost: send_cost(data.len(), fields.len()),
    })
}

fn received(data: &[u8], ranges: Vec<Range<u64>>, is_cut: bool) -> Frame {
    let adu = Adu {
        sequence: u64::MAX - 1,
        data: Bytes::copy_from_slice(data),
        missing: Missing { ranges, is_cut },
    };
    let cost = adu_cost(&adu);
    Frame::Adu(AduFrame {
        stream: 3,
        adu,
        cost,
    })
}

#[test]
fn frames_round_trip_in_pieces_of_any_size() {
    let to_node = [
        Frame::Request("{}".into()),
        send(b"a", ""),
        send(&[5; 70_000], "{\"frame_type\":\"I\"}"),
        Frame::Credit {
            stream: 0,
            bytes: u32::MAX,
        },
        Frame::End {
            stream: 1,
            end: End::Reset(5),
        },
        Frame::End {
            stream: 1,
            end: End::Close,
        },
        Frame::Ignored(0x80),
        Frame::Bye("{}".into()),
    ];
    let to_application = [
        Frame::Answer("{}".into()),
        Frame::Event("{}".into()),
        received(b"whole", vec![], false),
        received(&[0; 9_000], vec![0..4, 10..9_000], true),
        Frame::End {
            stream: u32::MAX,
            end: End::Delivered,
        },
    ];
    for (side, frames) in [
        (Side::Node, &to_node[..]),
        (Side::Application, &to_application),
    ] {
        let bytes = bytes_of(frames);
        for piece in [1, 7, 4_096, bytes.len()] {
            assert_eq!(decode(side, &bytes, piece).unwrap(), frames, "{piece}");
        }
    }
}

#[test]
fn nothing_but_a_greeting_is_taken_first() {
    let mut node = Decoder::new(Side::Node);
    let early = bytes_of(&[Frame::Request("{}".into())]);
    node.space().extend_from_slice(&early);
    assert_eq!(node.next_frame(), Err(FrameError::Kind(0x10)));
    let mut node = Decoder::new(Side::Node);
    let long = bytes_of(&[Frame::Hello(vec![b' '; GREETING_BYTES_MAX + 1].into())]);
    node.space().extend_from_slice(&long);
    assert!(matches!(node.next_frame(), Err(FrameError::TooLong { .. })));
    let mut node = Decoder::new(Side::Node);
    let both = bytes_of(&[Frame::Hello("{}".into()), Frame::Request("{}".into())]);
    node.space().extend_from_slice(&both);
    assert_eq!(node.next_frame(), Ok(Some(Frame::Hello("{}".into()))));
    assert_eq!(node.next_frame(), Ok(Some(Frame::Request("{}".into()))));
}

#[test]
fn damaged_frames_are_refused() {
    let frames = |side, bytes: &[u8]| decode(side, bytes, bytes.len());
    // No type at all; an empty ADU; a flag and an end that do not exist; a range outside the ADU; a frame for the other side.
    for (side, bytes) in [
        (Side::Node, &[0, 0, 0, 0, 0x20][..]),
        (Side::Node, &[0, 0, 0, 7, 0x20, 0, 0, 0, 1, 0, 0]),
        (Side::Node, &[0, 0, 0, 8, 0x20, 0, 0, 0, 1, 4, 0, 1]),
        // Header fields, and missing parts, of which there are none.
        (Side::Node, &[0, 0, 0, 10, 0x20, 0, 0, 0, 1, 1, 0, 0, 0, 9]),
        (
            Side::Application,
            &[
                0, 0, 0, 18, 0x21, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        ),
        (Side::Node, &[0, 0, 0, 10, 0x23, 0, 0, 0, 1, 9, 0, 0, 0, 0]),
    ] {
        let error = frames(side, bytes).unwrap_err();
        assert!(matches!(error, FrameError::Damaged(_)), "{error}");
    }
    let beyond = bytes_of(&[received(b"abc", vec![0..1, 2..9], false)]);
    assert_eq!(
        frames(Side::Application, &beyond),
        Err(FrameError::Damaged(0x21))
    );
    let foreign = bytes_of(&[received(b"abc", vec![], false)]);
    assert_eq!(frames(Side::Node, &foreign), Err(FrameError::Kind(0x21)));
    let too_long = (ADU_BYTES_MAX as u32 + 100_000).to_be_bytes();
    let too_long = [&too_long[..], &[0x20]].concat();
    assert!(matches!(
        frames(Side::Node, &too_long),
        Err(FrameError::TooLong { .. })
    ));
}

#[test]
fn memory_follows_the_bytes_that_arrived() {
    let mut decoder = greeted(Side::Node);
    decoder
        .space()
        .extend_from_slice(&[0x00, 0xff, 0xff, 0xff, 0x20]);
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.space().capacity() <= 2 * READ_BYTES);
    for _ in 0..20 {
        decoder.space().extend_from_slice(&[0; 50_000]);
        let held = decoder.space().len();
        assert!(decoder.space().capacity() <= 2 * held + 2 * READ_BYTES);
    }
}

#[test]
fn large_payloads_are_not_copied_and_small_ones_keep_no_buffer() {
    let mut decoder = greeted(Side::Node);
    let bytes = bytes_of(&[send(&[1; 100_000], ""), send(&[2; 10], "")]);
    decoder.space().extend_from_slice(&bytes);
    let within = decoder.buffer.as_ptr_range();
    let mut next = || match decoder.next_frame() {
        Ok(Some(Frame::Send(send))) => send.data,
        other => panic!("{other:?}"),
    };
    let (large, small) = (next(), next());
    assert!(within.contains(&large.as_ptr()));
    assert!(!within.contains(&small.as_ptr()));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
        let _ = decode(Side::Node, &bytes, piece);
        let _ = decode(Side::Application, &bytes, piece);
    }

    #[test]
    fn what_is_read_is_what_was_written(data in proptest::collection::vec(any::<u8>(), 1..2_000), importance: u8, confirm: bool) {
        let frame = Frame::Send(SendFrame {
            stream: 1,
            confirm,
            importance,
            fields: Bytes::new(),
            cost: send_cost(data.len(), 0),
            data: data.into(),
        });
        prop_assert_eq!(decode(Side::Node, &bytes_of(std::slice::from_ref(&frame)), 3).unwrap(), [frame]);
    }
}
