//! AWS's signatures, version 4, in the URL of a request: computed anew, with another implementation of SHA-256 than the
//! program's, from the text of the request alone.
//!
//! Source: "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)", Amazon S3 API Reference.

use std::{collections::BTreeMap, fmt::Write};

use ring::{digest, hmac};

/// Key of a signature.
pub(crate) struct Key<'a> {
    pub(crate) id: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) region: &'a str,
}

/// Reason for which a request is denied: the code of S3's error.
pub(crate) type Code = &'static str;

/// Checks a request, by its method, its target and its host. `now`: seconds since 1970.
pub(crate) fn check(
    method: &str,
    target: &str,
    host: &str,
    key: &Key<'_>,
    now: u64,
) -> Result<(), Code> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parameters = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        parameters.insert(decode(name), decode(value));
    }
    let given = parameters.remove("X-Amz-Signature").ok_or("AccessDenied")?;
    let parameter = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
    if parameter("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" {
        return Err("AuthorizationQueryParametersError");
    }
    let date = parameter("X-Amz-Date");
    let credential: Vec<&str> = parameter("X-Amz-Credential").split('/').collect();
    let [id, day, region, "s3", "aws4_request"] = credential[..] else {
        return Err("AuthorizationQueryParametersError");
    };
    if id != key.id {
        return Err("InvalidAccessKeyId");
    }
    if region != key.region || !date.starts_with(day) || day.len() != 8 {
        return Err("AuthorizationQueryParametersError");
    }
    let begun = seconds(date).ok_or("AuthorizationQueryParametersError")?;
    let lasts: u64 = parameter("X-Amz-Expires")
        .parse()
        .map_err(|_| "AuthorizationQueryParametersError")?;
    if begun > now + 900 {
        return Err("RequestTimeTooSkewed");
    }
    if begun + lasts < now {
        return Err("AccessDenied");
    }
    // Only the host is signed; the body is not.
    if parameter("X-Amz-SignedHeaders") != "host" {
        return Err("AuthorizationQueryParametersError");
    }
    let path: Vec<String> = path.split('/').map(|part| encode(&decode(part))).collect();
    let query: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect();
    let canonical = format!(
        "{method}\n{}\n{}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD",
        path.join("/"),
        query.join("&"),
    );
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{day}/{region}/s3/aws4_request\n{hash}");
    let mut derived = format!("AWS4{}", key.secret).into_bytes();
    for part in [day, region, "s3", "aws4_request"] {
        derived = mac(&derived, part);
    }
    let expected = hex(&mac(&derived, &text));
    if given == expected {
        Ok(())
    } else {
        Err("SignatureDoesNotMatch")
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

/// `YYYYMMDDTHHMMSSZ` as seconds since 1970.
fn seconds(date: &str) -> Option<u64> {
    let number = |from: usize, to: usize| date.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    // Years that begin in March end in the leap day.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + number(9, 11)?) * 60 + number(11, 13)?) * 60 + number(13, 15)?)
}

/// Percent-encoding as AWS requires it: all but letters, digits and `-._~`.
fn encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
        out
    })
}

pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let coded = others.get(..2).filter(|_| first == b'%');
        let coded =
            coded.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        bytes.push(coded.unwrap_or(first));
        rest = if coded.is_some() {
            &others[2..]
        } else {
            others
        };
    }
    String::from_utf8(bytes).unwrap()
}

/// The example of AWS's own documentation.
#[test]
fn the_documented_example_is_good() {
    let target = "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    let key = Key {
        id: "AKIAIOSFODNN7EXAMPLE",
        secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        region: "us-east-1",
    };
    let now = 1_369_353_600;
    let host = "examplebucket.s3.amazonaws.com";
    assert_eq!(check("GET", target, host, &key, now), Ok(()));
    assert_eq!(
        check("GET", target, host, &key, now + 86_401),
        Err("AccessDenied")
    );
    assert_eq!(
        check("GET", target, host, &key, now - 1_000),
        Err("RequestTimeTooSkewed")
    );
    let other = target.replace("test", "tent");
    for (method, target, host) in [
        ("PUT", target, host),
        ("GET", &other, host),
        ("GET", target, "x"),
    ] {
        assert_eq!(
            check(method, target, host, &key, now),
            Err("SignatureDoesNotMatch")
        );
    }
    let wrong = Key {
        secret: "wrong",
        ..key
    };
    assert_eq!(
        check("GET", target, host, &wrong, now),
        Err("SignatureDoesNotMatch")
    );
}
