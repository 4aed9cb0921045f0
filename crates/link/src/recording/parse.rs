//! Parser of the three forms of a recording.

use std::time::Duration;

use super::{ETHERNET_BYTES, PACKETS_MAX, Packet};
use crate::{
    limits::{MTU_MAX_BYTES, PACKET_MIN_BYTES},
    trace::{DURATION_MAX, OPPORTUNITY_BYTES, ParseTraceError, lines, text_of},
};

const HEADER: &str = "the header t_s,bytes";
const COLUMNS: &str = "two columns: seconds and bytes";
const TIME_S: &str = "a time in seconds from 0 to 3600000, not below the line before";
const TIME_MS: &str =
    "a whole number of milliseconds, not below the line before, at most 3600000000";
const FRAME: &str = "the whole bytes of an Ethernet frame, 64 to 1518";
const PACKET: &str = "the whole bytes of an IP packet, 20 to 65535";
const LINE: &str =
    "seconds and bytes (Bellcore), milliseconds (mahimahi), or the CSV columns t_s,bytes";

/// The smallest and largest Ethernet frame.
const FRAME_BYTES: std::ops::RangeInclusive<u32> = 64..=1518;

pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Packet>, ParseTraceError> {
    let text = text_of(bytes)?;
    let first = lines(text).next();
    let (line, head) = first.ok_or(ParseTraceError::Empty {
        missing: "packet",
        expected: LINE,
    })?;
    let is_csv = head.contains(|c: char| c.is_alphabetic() || c == ',');
    let packets = if is_csv {
        if head.split(',').map(str::trim).ne(["t_s", "bytes"]) {
            return Err(ParseTraceError::cell(line, 1, head, HEADER));
        }
        read(lines(text).skip(1), |line, row| {
            two_columns(line, row, row.split(',')).and_then(|cells| sized(line, cells, false))
        })
    } else if head.split_whitespace().count() > 1 {
        read(lines(text), |line, row| {
            two_columns(line, row, row.split_whitespace())
                .and_then(|cells| sized(line, cells, true))
        })
    } else {
        read(lines(text), full_sized)
    }?;
    let is_span = |packets: &[Packet]| match packets {
        [first, .., last] => last.at_ns > first.at_ns,
        _ => false,
    };
    if !is_span(&packets) {
        return Err(ParseTraceError::Empty {
            missing: "two packets at different times",
            expected: LINE,
        });
    }
    Ok(packets)
}

/// Parses line by line, in order of time, up to the limit.
fn read<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    one: impl Fn(usize, &str) -> Result<Packet, ParseTraceError>,
) -> Result<Vec<Packet>, ParseTraceError> {
    let mut packets: Vec<Packet> = Vec::new();
    for (line, row) in lines {
        if packets.len() == PACKETS_MAX {
            return Err(ParseTraceError::TooMany {
                line,
                most: PACKETS_MAX,
            });
        }
        let packet = one(line, row)?;
        if packets.last().is_some_and(|last| packet.at_ns < last.at_ns) {
            return Err(ParseTraceError::cell(line, 1, row, TIME_S));
        }
        packets.push(packet);
    }
    Ok(packets)
}

fn two_columns<'a>(
    line: usize,
    row: &str,
    cells: impl Iterator<Item = &'a str>,
) -> Result<[&'a str; 2], ParseTraceError> {
    // Three are enough to detect too many.
    let cells: Vec<&str> = cells.map(str::trim).take(3).collect();
    <[&str; 2]>::try_from(cells.as_slice())
        .map_err(|_| ParseTraceError::cell(line, cells.len(), row, COLUMNS))
}

/// Seconds and bytes; of an Ethernet frame or of an IP packet.
fn sized(line: usize, [time, bytes]: [&str; 2], is_frame: bool) -> Result<Packet, ParseTraceError> {
    let seconds = time.parse::<f64>().ok();
    let at = seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|&at| at <= DURATION_MAX)
        .ok_or_else(|| ParseTraceError::cell(line, 1, time, TIME_S))?;
    let number = bytes.parse::<u32>().ok();
    let (number, expected) = if is_frame {
        let frame = number.filter(|bytes| FRAME_BYTES.contains(bytes));
        (frame.map(|bytes| bytes - ETHERNET_BYTES), FRAME)
    } else {
        let range = PACKET_MIN_BYTES as u32..=MTU_MAX_BYTES as u32;
        (number.filter(|bytes| range.contains(bytes)), PACKET)
    };
    Ok(Packet {
        at_ns: at.as_nanos() as u64,
        bytes: number.ok_or_else(|| ParseTraceError::cell(line, 2, bytes, expected))?,
    })
}

/// A line of a mahimahi file.
fn full_sized(line: usize, row: &str) -> Result<Packet, ParseTraceError> {
    let time_ms = row.parse::<u64>().ok();
    let at = time_ms
        .map(Duration::from_millis)
        .filter(|&at| at <= DURATION_MAX)
        .ok_or_else(|| ParseTraceError::cell(line, 1, row, TIME_MS))?;
    Ok(Packet {
        at_ns: at.as_nanos() as u64,
        bytes: OPPORTUNITY_BYTES as u32,
    })
}

#[cfg(test)]
mod tests {
    use crate::recording::{PACKETS_MAX, Packet, Recording};
    use anabranch_base::Rate;
    use std::time::Duration;

    fn packets(text: &str) -> Vec<(u64, u32)> {
        let recording = Recording::parse("test", text.as_bytes()).unwrap();
        let pair = |packet: &Packet| (packet.at_ns / 1_000, packet.bytes);
        recording.packets().iter().map(pair).collect()
    }

    fn refusal(text: &str) -> String {
        Recording::parse("test.TL", text.as_bytes())
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_three_forms_are_recognised() {
        // Lines as in BC-pAug89.TL: frames of 1090 and 64 bytes are packets of 1072 and 46.
        let bellcore = "    0.001340  1090 \n    0.001508   174 \n   25.703184    64 \n";
        assert_eq!(packets(bellcore), [(0, 1072), (168, 156), (25_701_844, 46)]);
        assert_eq!(
            packets("# c\n3\n3\n10\n"),
            [(0, 1500), (0, 1500), (7_000, 1500)]
        );
        assert_eq!(
            packets("t_s, bytes\r\n0.5,40\n\n0.75,1500\n"),
            [(0, 40), (250_000, 1500)]
        );
    }

    #[test]
    fn a_recording_lasts_one_gap_longer_than_its_packets() {
        let recording = Recording::parse("t", b"t_s,bytes\n1,1000\n2,500\n3,1500\n").unwrap();
        assert_eq!(recording.duration(), Duration::from_secs(3));
        // 3000 bytes in 3 s.
        assert_eq!(recording.rate_mean(), Rate::from_kbps(8));
        assert_eq!(
            recording.to_string(),
            "t: 3 packets in 3.0 s, mean 8.00 kbit/s"
        );
    }

    #[test]
    fn errors_name_file_line_and_column() {
        assert_eq!(
            refusal("0.1 64\n0.2 63\n"),
            "test.TL: line 2, column 2: found '63', expected the whole bytes of an Ethernet frame, 64 to 1518"
        );
        for (text, place) in [
            ("0.2 64\n0.1 64\n", "line 2, column 1"),
            ("0.1 64\nNaN 64\n", "line 2, column 1"),
            ("0.1 64\n-1 64\n", "line 2, column 1"),
            ("0.1 64\ninf 64\n", "line 2, column 1"),
            ("0.1 64\n0.2 64 9\n", "line 2, column 3"),
            ("0.1 64\n0.2\n", "line 2, column 1"),
            ("0.1 64\n0.2 -64\n", "line 2, column 2"),
            ("0.1 64\n0.2 64.5\n", "line 2, column 2"),
            ("5\n4\n", "line 2, column 1"),
            ("5\n6.5\n", "line 2, column 1"),
            ("t_s,bytes\n0\n", "line 2, column 1"),
            ("t_s,bytes\n0,19\n", "line 2, column 2"),
            ("t_s,bytes\n0,NaN\n", "line 2, column 2"),
            ("t_s,size\n0,40\n", "line 1, column 1"),
        ] {
            let error = refusal(text);
            assert!(error.contains(place), "{text:?}: {error}");
        }
        let error = Recording::parse("z", b"1 64\n\x1f\x8b\xff").unwrap_err();
        assert!(error.to_string().contains("line 2: not UTF-8"), "{error}");
    }

    #[test]
    fn too_short_is_refused() {
        for text in ["", "# nothing\n", "t_s,bytes\n", "0.5 64\n", "7\n7\n7\n"] {
            let error = refusal(text);
            assert!(error.starts_with("test.TL: the trace has no"), "{error}");
        }
    }

    #[test]
    fn too_long_is_refused_where_it_becomes_so() {
        let mut text = String::with_capacity(2 * PACKETS_MAX + 4);
        for _ in 0..=PACKETS_MAX {
            text.push_str("1\n");
        }
        let error = refusal(&text);
        assert!(error.contains("line 10000001"), "{error}");
    }
}
