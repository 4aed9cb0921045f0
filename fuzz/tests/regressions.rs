//! Inputs that once broke a property, each by name; those marked `ignore` still do.

use anabranch_fuzz::{container, transfer_manifest, transfer_messages, transfer_note};

/// A conversation: `habits`, then each frame in a container of its own.
fn input(frames: &[Vec<u8>], habits: u8) -> Vec<u8> {
    let mut v = vec![habits];
    for f in frames {
        v.push(0);
        v.push(f.len() as u8);
        v.extend(f);
    }
    v
}

#[test]
fn skips_beyond_every_credit() {
    let mut f = vec![vec![3, 0, 3, 0, 0x80, 1, 0]];
    for k in 0..6u8 {
        let mut s = vec![9, 0, k];
        s.extend([0xff; 8]);
        f.push(s);
    }
    container(&input(&f, 0));
}

#[test]
fn resets_beyond_every_credit() {
    let mut f = vec![];
    for k in 0..6u8 {
        f.push(vec![3, k * 2, 3, 0, 0x80, 1, 0]);
        let mut s = vec![7, k * 2, 0];
        s.extend([0xff; 8]);
        f.push(s);
    }
    container(&input(&f, 0));
}

#[test]
fn many_streams_hold_reliable() {
    let mut f = vec![];
    for k in 0..4u8 {
        f.push(vec![3, k * 2, 3, 0, 0x80, 1, 0]);
        f.push(vec![0x4a, k * 2, 0, 0x80, 0xff, 0xff, 0xf0, 1, 9]);
    }
    container(&input(&f, 1));
}

#[test]
fn many_streams_hold_unreliable() {
    let mut f = vec![];
    for k in 0..4u8 {
        f.push(vec![3, k * 2, 2, 0, 0x80, 1, 0]);
        f.push(vec![0x4a, k * 2, 0, 0x80, 0xff, 0xff, 0xf0, 1, 9]);
    }
    container(&input(&f, 1));
}

#[test]
fn sequences_at_the_end_of_the_range() {
    let f = vec![
        vec![3, 0, 7, 0, 0x80, 1, 0],
        vec![6, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0],
        vec![
            0x4c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 1, 1,
        ],
        vec![8, 1, 0],
        vec![8, 3, 0],
        vec![8, 0, 0],
    ];
    container(&input(&f, 0));
}

#[test]
fn sparse_sequences() {
    let f = vec![
        vec![3, 0, 2, 0, 0x80, 1, 0],
        vec![
            0x4c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1,
        ],
        vec![
            0x4c, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 1, 1,
        ],
    ];
    container(&input(&f, 0));
}

/// An OPEN of an ordered reliable stream, or of another kind.
fn open(flags: u8) -> Vec<u8> {
    vec![0x03, 0x00, flags, 0x00, 0x80, 0x01, 0x00]
}

/// A byte at 16 MiB - 16 of an ADU.
fn far(sequence: u8) -> Vec<u8> {
    vec![0x4a, 0x00, sequence, 0x80, 0xff, 0xff, 0xf0, 0x01, 0x09]
}

/// A SKIP that claims 16 MiB.
fn skip(sequence: u8) -> Vec<u8> {
    vec![0x09, 0x00, sequence, 0x81, 0x00, 0x10, 0x00]
}

/// One container, in units of four bytes, padded with SESSION_CREDITs that grant nothing.
fn packet(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = frames.concat();
    let padding: &[u8] = match bytes.len() % 4 {
        0 => &[],
        1 => &[0x05, 0x40, 0x00],
        2 => &[0x05, 0x00],
        _ => &[0x05, 0x00, 0x05, 0x40, 0x00],
    };
    bytes.extend_from_slice(padding);
    [&[0x40, (bytes.len() / 4) as u8], &bytes[..]].concat()
}

/// A SKIP renewed credit for data that was never sent, and a far fragment was padded with zeros.
#[test]
fn skips_renew_no_credit_and_far_fragments_take_no_memory() {
    container(&input(&[open(3), far(0), skip(1), far(2)], 1));
    for windows in 0..4 {
        let pairs = (0..59).flat_map(|n| [far(2 * n % 64), skip((2 * n + 1) % 64)]);
        let frames: Vec<Vec<u8>> = std::iter::once(open(3)).chain(pairs).collect();
        container(&[&[1 | windows << 2], &packet(&frames)[..]].concat());
    }
}

/// A packet of far fragments of unreliable ADUs: each was padded with zeros, and discarded for the next. With P, each is given
/// up, too.
#[test]
fn far_fragments_of_unreliable_adus_cost_nothing() {
    let many: Vec<Vec<u8>> = std::iter::once(open(0)).chain((0..60).map(far)).collect();
    container(&[&[1], &packet(&many)[..]].concat());
    let given_up = (0..60).flat_map(|n| [far(n), vec![0x09, 0x00, n, 0x00]]);
    let many: Vec<Vec<u8>> = std::iter::once(open(8)).chain(given_up).collect();
    container(&[&[1], &packet(&many)[..]].concat());
    container(&[&[0], &packet(&many)[..]].concat());
}

/// After SKIPs of data that was never sent, the bytes read exceeded the account of a small session window: an abort.
#[test]
fn reading_in_a_small_session_window() {
    let mut frames = vec![open(2 | 1)];
    // A whole ADU of 64 bytes after a SKIP that claims nearly all of the window.
    frames.push(skip(0));
    frames.push(vec![0x4c, 0x00, 0x01, 0x02, b'h', b'i']);
    for sequence in 2..8 {
        frames.push(skip(sequence));
    }
    for windows in 0..4 {
        container(&input(&frames, windows << 2));
    }
}

/// One-byte fragments of one ADU, the last first.
#[test]
fn one_byte_fragments_in_descending_order() {
    for flags in [0, 1, 3] {
        let frames: Vec<Vec<u8>> = (0..1000_u16)
            .rev()
            .map(|at| {
                let [high, low] = (0x4000 | at).to_be_bytes();
                vec![0x4a, 0x00, 0x00, high, low, 0x01, 0x09]
            })
            .collect();
        let mut all = vec![1];
        all.extend(packet(&[open(flags)]));
        for part in frames.chunks(100) {
            all.extend(packet(part));
        }
        container(&all);
    }
}

/// A stand-in whose frame could not be padded divided a table where no sample was missing, and the tables outgrew the space
/// that a fragment's size leaves for them.
#[test]
fn media_tables_outgrow_their_space() {
    anabranch_fuzz::media(&[
        93, 241, 122, 217, 50, 192, 249, 28, 198, 252, 108, 221, 228, 252, 58, 56, 8, 11, 217, 2,
        14, 156, 76, 97,
    ]);
}

/// A stored index with two consecutive runs of the same value was read, and written again as one.
#[test]
fn media_runs_of_the_same_value() {
    anabranch_fuzz::media(&[
        45, 195, 113, 62, 83, 176, 40, 97, 65, 182, 106, 29, 213, 119, 159, 204, 15, 89, 253, 75,
        162, 95, 230, 34, 87, 100, 166, 170, 152, 198, 83, 131, 120, 98, 74, 161, 250, 200, 15, 76,
        207, 186, 187, 247, 240, 6, 219, 140, 0, 211, 133, 218, 8, 75, 180, 47, 229, 251, 217, 137,
        5, 204, 19, 142, 99, 92, 61, 141, 227, 71, 220, 128, 18, 29, 28, 226, 208, 226, 252, 13,
        83, 127, 104, 210, 44, 216, 16, 163, 195, 220, 216, 44, 54, 11, 18, 245, 22, 137, 110, 75,
        117, 6, 35, 139, 178, 33, 130, 241, 242, 28, 59, 139, 28, 138, 29, 241, 23, 31, 87, 154,
    ]);
}

/// A sent directory posed as the folder of an unfinished transfer, in the spelling of case-insensitive file systems.
#[test]
fn a_sent_folder_with_a_reserved_name() {
    for name in [".anabranch-zzz", ".ANABRANCH-zzz", ".anab\u{200d}ranch-zzz"] {
        let offer = format!(
            "{{\"type\":\"offer\",\"kind\":\"directory\",\"name\":\"{name}\",\"entries\":1}}\n\
             {{\"type\":\"entries\",\"list\":[{{\"path\":\"{name}\",\"is_directory\":true,\"size_bytes\":null}}]}}\n\
             {{\"type\":\"offer_end\"}}\n"
        );
        assert!(anabranch::transfer::decoders::manifest(offer.as_bytes()).is_none());
        transfer_manifest(offer.as_bytes());
    }
}

/// The note of earlier versions: unsigned, so that anyone could write it.
#[test]
fn a_note_that_anyone_can_write() {
    let hash = "0".repeat(64);
    let note = format!(
        "{{\"version\":1,\"sender\":\"{}\",\"blake3\":\"{hash}\"}}",
        "a".repeat(52)
    );
    for kind in [0, 1] {
        let mut input = vec![kind];
        input.extend(note.as_bytes());
        transfer_note(&input);
    }
}

/// Arrays in arrays, deeper than in any message.
#[test]
fn a_message_of_opening_brackets() {
    for kind in 0..4 {
        let mut input = vec![kind];
        input.extend(vec![b'['; 100_000]);
        transfer_messages(&input);
    }
}

/// The target never ended: faults were left, and neither end had a packet to apply them to.
#[test]
fn a_conversation_that_dies_before_the_faults_are_over() {
    let mut input = vec![0x06, 0x02, 0xc0, 0x00];
    input.extend([0xe1; 45]);
    input.extend([0x05, 0x14, 0x1e, 0xed, 0xc9, 0x52, 0x09, 0x43, 0, 2, 4, 1]);
    anabranch_fuzz::packet(&input);
}

/// Three packets of the handshake are lost. The server's second probe after that was in one batch with a small first one, and
/// the QUIC library panicked: its ACK_FREQUENCY frame did not fit.
#[test]
fn probes_of_different_sizes() {
    anabranch_fuzz::packet(&[0x06, 0x02, 0xc0, 0x00, 0xff, 0x31, 0x01, 0x01]);
}

/// Probes of several time-outs wait until the address is proved, and leave then.
#[test]
fn probes_that_waited() {
    anabranch_fuzz::packet(&[
        0x05, 0x02, 0x00, 0x08, 0x39, 0x84, 0x00, 0x05, 0x14, 0x01, 0x01, 0x03, 0x24, 0x59, 0x2f,
        0xb9, 0x25, 0x03, 0xa4, 0xe6, 0xcf, 0xe9, 0x63, 0x03, 0x01, 0x05, 0x14, 0x05, 0xc0, 0x00,
        0x44, 0xd0, 0x99, 0xc7, 0x05, 0xa4, 0x00, 0x0f, 0x42, 0x40, 0xbc, 0x8b, 0x04, 0x09, 0xd1,
        0xd1, 0xd1, 0xd1, 0xd0, 0x64, 0x7f, 0x5b, 0x01, 0xd1, 0xd1, 0xd1, 0xd1, 0xa0, 0x71, 0x0b,
    ]);
}

/// A handshake that ends with an error: polled for one packet at a time, the QUIC library repeated its close without end.
#[test]
fn a_handshake_of_repeated_and_lost_packets() {
    anabranch_fuzz::packet(&[
        0x85, 0x06, 0x04, 0x09, 0x01, 0x40, 0x04, 0x09, 0x01, 0x40, 0x03, 0x58, 0x01, 0x61, 0x41,
        0x10, 0xff, 0x04, 0x09, 0x01, 0x40, 0x01, 0x01, 0x04, 0x09, 0x01, 0x40, 0x04, 0x09, 0x01,
        0x40, 0x01, 0x03,
    ]);
}

/// Encoded again, the first message of a stranger may exceed the length that a stranger may send.
#[test]
fn a_first_message_that_grows() {
    let path = "a".repeat(440);
    let mut input = vec![0];
    input.extend(format!(r#"{{"type":"entries","list":[{{"path":"{path}"}}]}}"#).bytes());
    assert!(input.len() <= 512);
    transfer_messages(&input);
}

/// A trace of 23 days in two lines: each of its seconds was examined, twice.
#[test]
fn a_trace_that_lasts_for_ever() {
    anabranch_fuzz::trace(b"12\n2000000160");
}

/// Header fields and missing parts of length 0 are another form of none; both were read, and cost what the sender said.
#[test]
fn local_frames_have_one_form() {
    let fields = [0, 0, 0, 10, 0x20, 0, 0, 0, 1, 1, 0, 0, 0, 9];
    anabranch_fuzz::local(&[&[0, 1][..], &fields].concat());
    let missing = [
        0, 0, 0, 18, 0x21, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    anabranch_fuzz::local(&[&[1, 1][..], &missing].concat());
}

/// A frame that announces 16 MiB and never comes.
#[test]
fn a_local_frame_that_is_only_announced() {
    let mut input = vec![0, 255, 0x00, 0xff, 0xff, 0xff, 0x20];
    input.extend([0; 600]);
    anabranch_fuzz::local(&input);
}
