//! What a store says of its objects: a page of a listing. Other elements than those that are needed are skipped, whatever they are.
//!
//! Source: "ListObjectsV2", Amazon S3 API Reference.

use std::borrow::Cow;

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) objects: Vec<Listed>,
    /// How the next page is asked for; `None`: this was the last.
    pub(super) next: Option<String>,
}

/// An object of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) key: String,
    pub(super) bytes: u64,
    /// With its quotes; empty where the store has none.
    pub(super) etag: String,
    pub(super) modified: String,
}

/// Reads a page; `None` when it is none. Objects with keys that are no text are left out.
pub(super) fn page(xml: &str) -> Option<Page> {
    let root = element(xml, "ListBucketResult")?;
    let is_encoded = element(root, "EncodingType") == Some("url");
    let mut page = Page {
        objects: Vec::new(),
        next: element(root, "NextContinuationToken").map(|token| text(token).into_owned()),
    };
    let mut rest = root;
    while let Some((contents, after)) = next(rest, "Contents") {
        rest = after;
        let of = |name| text(element(contents, name).unwrap_or_default());
        let key = of("Key");
        let Some(key) = (if is_encoded {
            decode(&key)
        } else {
            Some(key.into_owned())
        }) else {
            continue;
        };
        page.objects.push(Listed {
            key,
            bytes: of("Size").trim().parse().ok()?,
            etag: of("ETag").into_owned(),
            modified: of("LastModified").into_owned(),
        });
    }
    Some(page)
}

/// What is in the first element of this name, whatever its attributes.
pub(super) fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    next(xml, name).map(|(inside, _)| inside)
}

/// What is in the first element of this name, and what comes after it. No element holds another of its name here.
fn next<'a>(xml: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = xml;
    loop {
        let at = rest.find(&format!("<{name}"))? + 1 + name.len();
        rest = &rest[at..];
        // The whole name, not the beginning of a longer one.
        if !rest.starts_with(['>', ' ', '/', '\t', '\r', '\n']) {
            continue;
        }
        let end = rest.find('>')?;
        let is_empty = rest[..end].ends_with('/');
        rest = &rest[end + 1..];
        if is_empty {
            return Some(("", rest));
        }
        let close = format!("</{name}>");
        let end = rest.find(&close)?;
        return Some((&rest[..end], &rest[end + close.len()..]));
    }
}

/// Text without the references that XML has for some characters. Those that are none stay.
fn text(raw: &str) -> Cow<'_, str> {
    if !raw.contains('&') {
        return raw.into();
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').filter(|&end| end <= 10);
        let found = end.and_then(|end| Some((character(&rest[1..end])?, end)));
        match found {
            Some((character, end)) => {
                out.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out.into()
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

/// Keys are listed percent-encoded, with a plus for a space, as in forms. `None`: they are no text.
fn decode(key: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let digits = others.get(..2).filter(|_| first == b'%');
        let coded = digits.and_then(|two| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            u8::try_from(digit(two[0])? << 4 | digit(two[1])?).ok()
        });
        let plain = if first == b'+' { b' ' } else { first };
        bytes.push(coded.unwrap_or(plain));
        rest = if coded.is_some() {
            &others[2..]
        } else {
            others
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As AWS says it.
    #[test]
    fn a_page_is_read() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>films</Name><Prefix>in/</Prefix>
<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/+wm36Hy4vbOwM=&lt;</NextContinuationToken><KeyCount>2</KeyCount>
<MaxKeys>2</MaxKeys><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
<Contents><Key>in/my+film%2B%25.mp4</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>
<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size><StorageClass>STANDARD</StorageClass>
<Owner><ID>75aa</ID><DisplayName/></Owner></Contents>
<Contents><Key>in/%C3%A9</Key><Size>7</Size></Contents>
<Contents><Key>%FF</Key><Size>7</Size></Contents>
<CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes></ListBucketResult>"#;
        let page = page(xml).unwrap();
        let token = "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/+wm36Hy4vbOwM=<";
        assert_eq!(page.next.as_deref(), Some(token));
        let [film, other] = &page.objects[..] else {
            panic!("{page:?}");
        };
        assert_eq!(film.key, "in/my film+%.mp4");
        assert_eq!(film.bytes, 434_234);
        assert_eq!(film.etag, "\"fba9dede5f27731c9771645a39863328\"");
        assert_eq!(film.modified, "2009-10-12T17:50:30.000Z");
        assert_eq!((&*other.key, &*other.etag), ("in/é", ""));
    }

    /// Stores that do not know the encoding leave keys as they are.
    #[test]
    fn keys_may_come_as_they_are() {
        let xml = "<ListBucketResult><Contents><Key>a+b%20&amp;&#x41;&bogus;.mp4</Key><Size>1</Size></Contents></ListBucketResult>";
        let page = page(xml).unwrap();
        assert_eq!(page.objects[0].key, "a+b%20&A&bogus;.mp4");
        assert_eq!(page.next, None);
    }

    #[test]
    fn what_is_no_page_is_none() {
        for xml in [
            "",
            "<html>",
            "<Error><Code>NoSuchBucket</Code></Error>",
            "<ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        ] {
            assert_eq!(page(xml), None, "{xml}");
        }
        assert_eq!(page("<ListBucketResult/>"), Some(Page::default()));
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(parts in prop::collection::vec(prop_oneof![
            Just("<ListBucketResult>".to_owned()), Just("</ListBucketResult>".to_owned()), Just("<Contents>".to_owned()),
            Just("</Contents>".to_owned()), Just("<Key>".to_owned()), Just("</Key>".to_owned()), Just("<Size>1</Size>".to_owned()),
            Just("<EncodingType>url</EncodingType>".to_owned()), Just("&#x".to_owned()), Just("%C3".to_owned()), ".{0,6}",
        ], 0..40)) {
            let _ = page(&parts.concat());
        }
    }
}
