//! Frames and messages of the local interface, from an application that sends anything to a node, and the reverse.

use anabranch::local::{
    frame::{ADU_BYTES_MAX, Decoder, FIELDS_BYTES_MAX, Frame, Side, encode},
    message::{Answer, Bye, Event, EventBody, Fields, Hello, Numbered, Request, Welcome},
};

use crate::{Input, counter::Meter};

/// Bytes that a decoder may allocate without input: the space that it reads into, twice while it grows.
const ALLOCATED_AT_REST: u64 = 1 << 20;
/// Bytes that it may allocate for each byte of input, in all.
const ALLOCATED_PER_BYTE: u64 = 200;

/// The first byte selects the side, the second the size of the pieces in which the bytes arrive. What decodes encodes to bytes that
/// decode to the same; memory follows the bytes that arrived, and every message in JSON is read or refused.
pub fn local(data: &[u8]) {
    let mut input = Input(data);
    let side = match input.byte() % 2 {
        0 => Side::Node,
        _ => Side::Application,
    };
    let piece = usize::from(input.byte()).max(1);
    let mut bytes = greeting(side);
    bytes.extend_from_slice(input.0);
    let mut meter = Meter::default();
    let frames = meter.run(|| decode(side, &bytes, piece));
    let allowed = ALLOCATED_AT_REST + ALLOCATED_PER_BYTE * bytes.len() as u64;
    assert!(
        meter.total <= allowed,
        "{} bytes for {}",
        meter.total,
        bytes.len()
    );
    let mut again = Vec::new();
    for frame in &frames {
        check(frame);
        let payload = encode(frame, &mut again);
        again.extend_from_slice(&payload);
    }
    // The bodies of frames that are ignored are not kept.
    if !frames
        .iter()
        .any(|frame| matches!(frame, Frame::Ignored(_)))
    {
        assert_eq!(decode(side, &again, again.len().max(1)), frames);
    }
}

/// A greeting, which every connection begins with.
fn greeting(side: Side) -> Vec<u8> {
    let mut bytes = Vec::new();
    let frame = match side {
        Side::Node => Frame::Hello("{}".into()),
        Side::Application => Frame::Welcome("{}".into()),
    };
    let body = encode(&frame, &mut bytes);
    bytes.extend_from_slice(&body);
    bytes
}

/// Frames up to the first that is refused.
fn decode(side: Side, bytes: &[u8], piece: usize) -> Vec<Frame> {
    let mut decoder = Decoder::new(side);
    let mut frames = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.space().extend_from_slice(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    return frames;
                }
            }
        }
    }
    frames
}

fn check(frame: &Frame) {
    match frame {
        Frame::Hello(body) => drop(serde_json::from_slice::<Hello>(body)),
        Frame::Welcome(body) => drop(serde_json::from_slice::<Welcome>(body)),
        Frame::Bye(body) => drop(serde_json::from_slice::<Bye>(body)),
        Frame::Answer(body) => drop(serde_json::from_slice::<Answer>(body)),
        Frame::Request(body) => {
            if let Ok(numbered) = serde_json::from_slice::<Numbered>(body) {
                resolve(&numbered.request);
                let text = serde_json::to_vec(&numbered).expect("a request is a text");
                assert!(serde_json::from_slice::<Numbered>(&text).is_ok());
            }
        }
        Frame::Event(body) => {
            if let Ok(event) = serde_json::from_slice::<Event>(body) {
                let text = serde_json::to_vec(&event).expect("an event is a text");
                assert!(serde_json::from_slice::<Event>(&text).is_ok());
                if let EventBody::Closed { cause } = &event.body {
                    assert!(!format!("{:?}", cause.clone().into_session()).is_empty());
                }
                let body = event.body;
                let _ = body.clone().into_session_event();
                let _ = body.into_stream_event();
            }
        }
        Frame::Send(send) => {
            assert!((1..=ADU_BYTES_MAX).contains(&send.data.len()));
            assert!(send.fields.len() <= FIELDS_BYTES_MAX);
            let _ = serde_json::from_slice::<Fields>(&send.fields);
        }
        Frame::Adu(frame) => {
            let length = frame.adu.data.len() as u64;
            let mut end = 0;
            for range in &frame.adu.missing.ranges {
                assert!(range.start >= end && range.start < range.end && range.end <= length);
                end = range.end + 1;
            }
        }
        Frame::Credit { .. } | Frame::End { .. } | Frame::Ignored(_) => {}
    }
}

/// Texts with units in a request are valid or refused with a message.
fn resolve(request: &Request) {
    let refused = match request {
        Request::Open { spec, .. } | Request::Admit { spec, .. } => spec.resolve().err(),
        Request::Adjust { changes, .. } => changes.resolve().err(),
        _ => None,
    };
    if let Some(error) = refused {
        assert!(!error.to_string().is_empty());
    }
}
