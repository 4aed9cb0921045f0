//! Tests of headers: those that are read, and those that are refused with their line.

use proptest::{collection::vec, option, prelude::*};

use super::{Header, Lead};
use crate::wfdb::{
    Format, HEADER_BYTES_MAX, LEADS_MAX, WfdbError,
    tests::{TWO_FILES, header},
};

fn refusal(text: &str) -> String {
    Header::read(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_header_is_read() {
    let header = header(TWO_FILES);
    assert_eq!((&*header.name, header.frequency), ("r1", 360.0));
    assert_eq!(
        (header.counter, header.frames),
        (Some((100.0, -2.0)), Some(4))
    );
    assert_eq!(header.time.as_deref(), Some("12:30:00.5"));
    assert_eq!(header.date.as_deref(), Some("01/02/2003"));
    assert_eq!(header.comments, ["age: 81"]);
    let [one, two, three] = &header.leads[..] else {
        panic!("three leads");
    };
    assert_eq!(
        (one.gain, one.baseline, &*one.units),
        (Some(200.0), Some(-10), "uV")
    );
    assert_eq!(
        (one.initial, one.checksum, &*one.name()),
        (Some(1000), Some(4010), "MLII or so")
    );
    assert_eq!(one.physical(190), 1.0);
    assert_eq!((two.gain, two.offset, two.checksum), (None, 4, Some(-5)));
    assert_eq!(
        (three.initial, three.checksum, &*three.name()),
        (None, None, "b.dat")
    );
    assert_eq!(Header::read(header.to_text().as_bytes()).unwrap(), header);
}

#[test]
fn control_characters_become_spaces() {
    let header = header("r 1\nr.dat 16 200 16 0 0 0 0 M\rII\n# a\tb\x7f\n");
    assert_eq!(header.leads[0].description, "M II");
    assert_eq!(header.comments, ["a b"]);
    assert_eq!(Header::read(header.to_text().as_bytes()).unwrap(), header);
}

#[test]
fn a_short_header_has_defaults() {
    let header = header("r 1\nr.dat 16\n");
    assert_eq!((header.frequency, header.frames), (250.0, None));
    assert_eq!(header.leads[0].physical(200), 1.0);
    assert_eq!(header.leads[0].units, "mV");
}

#[test]
fn wrong_headers_are_refused_with_their_line() {
    let cases = [
        ("", "line 1 of the header: the header is empty"),
        ("r", "line 1 of the header: it states no number of leads"),
        (
            "r/3 2 360",
            "line 1 of the header: records of several segments are not read",
        ),
        ("GIF89a\u{1} 1", "is no name of a record"),
        ("../r 1", "several segments"),
        ("r 0", "it has 0 leads; 1 to 64 are read"),
        (
            "r 99999999999999999999 1",
            "the number of leads is '99999999999999999999'",
        ),
        ("r 65", "it has 65 leads"),
        ("r 1 0", "the sampling frequency is '0'; it must be above 0"),
        ("r 1 nan", "the sampling frequency is 'nan'"),
        ("r 1 1e30", "at most 100000"),
        ("r 1 100/", "the counter frequency"),
        ("r 1 100/2(x)", "the counter's base is 'x'"),
        ("r 1 100/2(3", "lacks ')'"),
        (
            "r 1 100 18446744073709551615",
            "more than 1099511627776 samples",
        ),
        ("r 1 100 -1", "the number of samples is '-1'"),
        ("r 1 100 1 12h", "the time is '12h'"),
        (
            "r 2 100 1\nr.dat 16",
            "promises 2 leads and describes 1; it was cut off",
        ),
        (
            "r 1\nr.dat 16\nr.dat 16",
            "line 3 of the header: there are more leads than promised",
        ),
        (
            "r 1\n../r.dat 16",
            "line 2 of the header: '../r.dat' is no name of a file in the folder",
        ),
        ("r 1\n/etc/passwd 16", "is no name of a file"),
        ("r 1\n..\\r 16", "is no name of a file"),
        ("r 1\n.. 16", "is no name of a file"),
        ("r 1\n~ 0", "is no name of a file"),
        ("r 1\n- 16", "is no name of a file"),
        ("r 1\nr.dat", "it states no format"),
        ("r 1\nr.dat 80", "format 80 is not read; 16 and 212 are"),
        ("r 1\nr.dat 16x4", "several samples of a lead"),
        ("r 1\nr.dat 16:7", "leads with skew"),
        (
            "r 1\nr.dat 16+99999999999999999999",
            "a number of the format",
        ),
        ("r 1\nr.dat 16+5z", "the format is '16+5z'"),
        ("r 1\nr.dat 16 -200", "the gain is -200"),
        ("r 1\nr.dat 16 inf", "the gain is inf"),
        ("r 1\nr.dat 16 200/", "the units are empty"),
        (
            "r 1\nr.dat 16 200 16 0 0 70000",
            "the checksum is 70000; it has 16 bits",
        ),
        (
            "r 1\nr.dat 16 200 16 3000000000",
            "the zero of the converter is '3000000000'",
        ),
        (
            "r 3\na 16\nb 16\na 16",
            "leads of a do not follow each other",
        ),
        ("r 2\na 16\na 212", "leads of a have different formats"),
    ];
    for (text, why) in cases {
        let words = refusal(text);
        assert!(words.contains(why), "{text:?}: {words}");
    }
    let long = vec![b'#'; HEADER_BYTES_MAX + 1];
    assert!(matches!(Header::read(&long), Err(WfdbError::Long)));
}

fn any_lead() -> impl Strategy<Value = Lead> {
    let format = prop_oneof![Just(Format::F16), Just(Format::F212)];
    let numbers = (
        any::<i32>(),
        option::of((any::<i32>(), option::of(any::<i16>()))),
        any::<u32>(),
        any::<u32>(),
    );
    let gain = option::of((1e-300_f64..1e300, option::of(any::<i32>())));
    (
        ("[a-z][a-z0-9_.-]{0,8}", format, 0..1000_u64),
        gain,
        "[a-zA-Z%^]{1,5}",
        numbers,
        "([a-z]( [a-z0-9]{1,5}){0,3})?",
    )
        .prop_map(
            |((file, format, offset), gain, units, (zero, initial, bits, block), description)| {
                let checksum = initial.and_then(|(_, checksum)| checksum);
                Lead {
                    file,
                    format,
                    offset,
                    gain: gain.map(|(gain, _)| gain),
                    baseline: gain.and_then(|(_, baseline)| baseline),
                    units,
                    bits,
                    zero,
                    initial: initial.map(|(initial, _)| initial),
                    checksum,
                    block: checksum.map_or(0, |_| block),
                    description: checksum.map_or(String::new(), |_| description),
                }
            },
        )
}

/// Spaces that stand for control characters at the ends of a description are none of it.
#[test]
fn a_description_begins_and_ends_with_a_letter() {
    let text = "r 1 500\na.dat 16 200 16 0 0 0 0 \u{e} lead one \u{1b}\n";
    let header = Header::read(text.as_bytes()).unwrap();
    assert_eq!(header.leads[0].description, "lead one");
    assert_eq!(Header::read(header.to_text().as_bytes()).unwrap(), header);
}

proptest! {
    #[test]
    fn headers_are_read_as_they_are_written(
        leads in vec(any_lead(), 1..5),
        frequency in 1e-9..100_000.0_f64,
        counter in option::of((1e-9..1e9_f64, -1e9..1e9_f64)),
        frames in option::of(1..1_u64 << 40),
        comments in vec("[ -~]{0,20}[!-~]", 0..4),
    ) {
        let mut leads = leads;
        leads.dedup_by_key(|lead| lead.file.clone());
        let mut files: Vec<_> = leads.iter().map(|lead| lead.file.clone()).collect();
        files.sort_unstable();
        files.dedup();
        prop_assume!(files.len() == leads.len());
        let comments = comments.into_iter().map(|comment| comment.trim_start().to_owned()).collect();
        let name = "r-1_x".to_owned();
        let header = Header { name, frequency, counter, frames, time: None, date: None, leads, comments };
        prop_assert_eq!(Header::read(header.to_text().as_bytes()).unwrap(), header);
    }

    #[test]
    fn any_bytes_are_a_header_or_refused(bytes in vec(any::<u8>(), 0..300), at in 0..TWO_FILES.len(), value in any::<u8>()) {
        let _ = Header::read(&bytes);
        let mut text = TWO_FILES.as_bytes().to_vec();
        text[at] = value;
        for text in [&text[..], &text[..at]] {
            if let Ok(header) = Header::read(text) {
                prop_assert!(header.leads.len() <= LEADS_MAX);
                prop_assert_eq!(Header::read(header.to_text().as_bytes()).unwrap(), header);
            }
        }
    }
}
