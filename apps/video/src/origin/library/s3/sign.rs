//! URLs with a signature of AWS's, version 4.
//!
//! Source: "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)", Amazon S3 API Reference. Only the host
//! is signed, so that ranges and conditions are headers like any others.

use std::{
    fmt::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ring::{digest, hmac};

use super::access::Key;

/// Validity of a signature, in seconds; clocks differ.
const SIGNED_FOR_S: u32 = 3_600;

/// Target of a request.
#[derive(Clone, Debug)]
pub(super) struct Target<'a> {
    /// `http://HOST:PORT` or `https://HOST`.
    pub(super) scheme: &'a str,
    /// Value of the header `Host`.
    pub(super) host: &'a str,
    /// Path, percent-encoded.
    pub(super) path: String,
    /// Parameters, not encoded.
    pub(super) query: Vec<(&'static str, String)>,
}

/// The URL for GET; signed if there is a key.
pub(super) fn address(
    mut target: Target<'_>,
    key: Option<&Key>,
    region: &str,
    now: SystemTime,
) -> String {
    let Some(key) = key else {
        let query = canonical(&mut target.query);
        let mark = if query.is_empty() { "" } else { "?" };
        return format!(
            "{}://{}{}{mark}{query}",
            target.scheme, target.host, target.path
        );
    };
    let date = date(now);
    let day = &date[..8];
    let scope = format!("{day}/{region}/s3/aws4_request");
    let query = &mut target.query;
    query.push(("X-Amz-Algorithm", "AWS4-HMAC-SHA256".to_owned()));
    query.push(("X-Amz-Credential", format!("{}/{scope}", key.id)));
    query.push(("X-Amz-Date", date.clone()));
    query.push(("X-Amz-Expires", SIGNED_FOR_S.to_string()));
    query.push(("X-Amz-SignedHeaders", "host".to_owned()));
    if let Some(token) = &key.token {
        query.push(("X-Amz-Security-Token", token.clone()));
    }
    let query = canonical(query);
    let request = format!(
        "GET\n{}\n{query}\nhost:{}\n\nhost\nUNSIGNED-PAYLOAD",
        target.path, target.host
    );
    let hash = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let first = format!("AWS4{}", key.secret);
    let parts = [day, region, "s3", "aws4_request"];
    let derived = parts
        .into_iter()
        .fold(first.into_bytes(), |key, part| mac(&key, part));
    let signature = hex(&mac(&derived, &text));
    format!(
        "{}://{}{}?{query}&X-Amz-Signature={signature}",
        target.scheme, target.host, target.path
    )
}

/// Parameters in the order of their names, percent-encoded.
fn canonical(query: &mut [(&'static str, String)]) -> String {
    query.sort_unstable();
    let pairs = query.iter();
    let pairs = pairs.map(|(name, value)| format!("{}={}", encode(name, ""), encode(value, "")));
    pairs.collect::<Vec<_>>().join("&")
}

/// Percent-encodes everything but letters, digits, `-._~` and the characters in `plain`.
pub(super) fn encode(text: &str, plain: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_plain || plain.as_bytes().contains(&byte) {
            out.push(byte.into());
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A time as `YYYYMMDDTHHMMSSZ`, in UTC.
fn date(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let mut days = seconds / 86_400;
    let mut year = 1970;
    let is_leap = |year: u64| {
        let divides = |by: u64| year.is_multiple_of(by);
        divides(4) && (!divides(100) || divides(400))
    };
    loop {
        let length = 365 + u64::from(is_leap(year));
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{year:04}{month:02}{:02}T{hour:02}{minute:02}{second:02}Z",
        days + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and day of AWS's documentation.
    fn key() -> Key {
        Key {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// The documented signing key and signed text, step by step ("Signature Calculations", Amazon S3 API Reference).
    #[test]
    fn keys_are_derived_as_documented() {
        let first = "AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        let parts = ["20120215", "us-east-1", "iam", "aws4_request"];
        let derived = parts
            .into_iter()
            .fold(first.as_bytes().to_vec(), |key, part| mac(&key, part));
        assert_eq!(
            hex(&derived),
            "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"
        );
    }

    /// The documented presigned URL, except for its validity: `tests/live/s3/signature.rs` has that one.
    #[test]
    fn an_address_has_every_part_in_its_order() {
        let target = Target {
            scheme: "https",
            host: "examplebucket.s3.amazonaws.com",
            path: "/test.txt".to_owned(),
            query: vec![
                ("prefix", "a b/+".to_owned()),
                ("list-type", "2".to_owned()),
            ],
        };
        let address = address(target, Some(&key()), "us-east-1", at(1_369_353_600));
        let (before, signature) = address.split_once("&X-Amz-Signature=").unwrap();
        assert_eq!(
            before,
            "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=3600&X-Amz-SignedHeaders=host&list-type=2&prefix=a%20b%2F%2B"
        );
        assert_eq!(signature.len(), 64);
    }

    #[test]
    fn without_a_key_nothing_is_signed() {
        let target = Target {
            scheme: "http",
            host: "store:9000",
            path: "/films/a".to_owned(),
            query: Vec::new(),
        };
        let of = |target| address(target, None, "us-east-1", at(0));
        assert_eq!(of(target.clone()), "http://store:9000/films/a");
        let query = vec![("list-type", "2".to_owned())];
        let target = Target { query, ..target };
        assert_eq!(of(target), "http://store:9000/films/a?list-type=2");
    }

    #[test]
    fn days_are_counted_as_in_calendars() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_767_225_599, "20251231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(date(at(seconds)), expected);
        }
    }

    #[test]
    fn names_are_encoded_by_their_bytes() {
        assert_eq!(encode("a b/é~", "/"), "a%20b/%C3%A9~");
        assert_eq!(encode("a/b+c%", ""), "a%2Fb%2Bc%25");
    }
}
