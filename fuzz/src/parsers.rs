//! Decoders without state.

use anabranch::Ticket;
use anabranch_base::{Instant, Seed};
use anabranch_link::{
    Recording, Trace, Traffic,
    describe::{no_traces, parse, parse_both},
    traffic::{Replay, Source},
};
use anabranch_session::{
    Policy,
    transcript::{Transcript, replay, what_if},
    wire::{
        Fragment, Frame, Reader,
        frame::{Place, fragment_overhead, write_fragment},
        read_header, write_header,
    },
};
use bytes::Bytes;

/// Decoding terminates, and decoded frames encode to bytes that decode to the same frames.
pub fn wire(data: &[u8]) {
    let mut rest = Bytes::copy_from_slice(data);
    let Ok(header) = read_header(&mut rest) else {
        return;
    };
    let mut again = Vec::new();
    write_header(&mut again, header.timestamp);
    assert_eq!(read_header(&mut Bytes::from(again)), Ok(header));

    let mut reader = Reader::new(rest);
    for _ in 0..=data.len() {
        let Ok(Some(frame)) = reader.next_frame() else {
            return;
        };
        let mut again = Vec::new();
        match &frame {
            Frame::Control(control) => {
                control.write(&mut again);
                assert!(again.len() <= control.size_bound(), "{control:?}");
            }
            Frame::Fragment(Fragment {
                stream,
                sequence,
                offset,
                is_final,
                payload,
            }) => {
                let place = Place {
                    stream: *stream,
                    sequence: *sequence,
                    offset: *offset,
                };
                write_fragment(&mut again, place, *is_final, false, payload);
                assert_eq!(again.len(), payload.len() + fragment_overhead(place, false));
            }
        }
        assert_eq!(
            Reader::new(Bytes::from(again)).next_frame(),
            Ok(Some(frame))
        );
    }
    panic!("more frames than bytes");
}

/// An accepted text prints to a text that reads back as the same link.
pub fn link(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let _ = parse_both(text, &mut no_traces);
    if let Ok(config) = parse(text, &mut no_traces) {
        let printed = config.to_string();
        assert_eq!(parse(&printed, &mut no_traces), Ok(config), "{printed}");
    }
}

/// An accepted trace answers every question about itself; an accepted recording can be replayed.
pub fn trace(data: &[u8]) {
    if let Ok(recording) = Recording::parse("recording", data) {
        assert!(!recording.duration().is_zero());
        let replay = Traffic::Replay(Replay::new(recording));
        let arrivals: Vec<_> = Source::new(&replay, Instant::EPOCH, Seed(1))
            .expect("in range")
            .take(100)
            .collect();
        assert!(arrivals.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }
    let Ok(trace) = Trace::parse("trace", data) else {
        return;
    };
    let duration = trace.duration();
    assert!(!duration.is_zero());
    assert!(trace.rate_min() <= trace.rate_max());
    for position in [duration / 3, duration, duration.saturating_mul(3)] {
        let _ = (trace.rate_at(position), trace.step_at(position));
        assert!(trace.bits(position).is_finite());
    }
}

/// Reading a transcript terminates, and so do a replay of it and the model of another policy, without a panic.
pub fn transcript(data: &[u8]) {
    const HEAD: &[u8] = b"ABTRANSC\x01";
    let file = [HEAD, data].concat();
    for file in [data, &file] {
        let Ok(mut transcript) = Transcript::new(file) else {
            continue;
        };
        let read = transcript.by_ref().take_while(Result::is_ok).count();
        assert_eq!(read as u64, transcript.read());
        assert!(transcript.position() <= file.len());
        assert!(transcript.next().is_none(), "nothing follows the end");
        let _ = replay(file);
        let _ = what_if(file, Policy::Default);
    }
}

/// An accepted text prints to a text that reads back as the same ticket.
pub fn ticket(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(ticket) = text.parse::<Ticket>() {
        let printed = ticket.to_string();
        assert_eq!(printed.parse(), Ok(ticket), "{printed}");
    }
}
