//! Page of a store's listing. Unknown elements are skipped.
//!
//! Source: "ListObjectsV2", Amazon S3 API Reference.

use percent_encoding::percent_decode_str;
use roxmltree::{Document, Node, ParsingOptions};

/// Maximum number of elements and texts of a page; one of a thousand objects has some twenty thousand. Each takes memory many
/// times its bytes.
const NODES_MAX: u32 = 200_000;
/// Maximum number of attributes of one element, or of equals signs in one text: a key of an object may have a thousand.
const ATTRIBUTES_MAX: usize = 1_024;

/// A page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) objects: Vec<Listed>,
    /// Continuation token of the next page; `None`: this was the last.
    pub(super) next: Option<String>,
}

/// An object in a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) key: String,
    pub(super) bytes: u64,
    /// With its quotes; empty where the store has none.
    pub(super) etag: String,
    pub(super) modified: String,
}

/// Parses XML without definitions of its own, up to the size that a store has reason to send.
fn parse(xml: &str) -> Option<Document<'_>> {
    if !is_plain(xml) {
        return None;
    }
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(xml, options).ok()
}

/// True if no element has more attributes than [`ATTRIBUTES_MAX`]: parsing them takes quadratic time. No attribute contains
/// `<`, so that the text between two of them has those of one element at most.
fn is_plain(xml: &str) -> bool {
    let mut between = xml.as_bytes().split(|&byte| byte == b'<');
    between.all(|part| part.iter().filter(|&&byte| byte == b'=').count() <= ATTRIBUTES_MAX)
}

/// Reads a page; `None` when the text is not one. Objects whose keys are not text are left out. O(bytes).
pub(super) fn page(xml: &str) -> Option<Page> {
    let document = parse(xml)?;
    let root = document.root_element();
    if root.tag_name().name() != "ListBucketResult" {
        return None;
    }
    let is_encoded = child(root, "EncodingType") == Some("url");
    let mut page = Page {
        objects: Vec::new(),
        next: child(root, "NextContinuationToken").map(str::to_owned),
    };
    for contents in children(root, "Contents") {
        let of = |name| child(contents, name).unwrap_or_default();
        let bytes = of("Size").trim().parse().ok()?;
        let key = match is_encoded {
            true => decode(of("Key")),
            false => Some(of("Key").to_owned()),
        };
        let Some(key) = key else {
            continue;
        };
        page.objects.push(Listed {
            key,
            bytes,
            etag: of("ETag").to_owned(),
            modified: of("LastModified").to_owned(),
        });
    }
    Some(page)
}

/// Content of the first element of this name, wherever it is; `None` also when the text is not XML.
pub(super) fn element(xml: &str, name: &str) -> Option<String> {
    let document = parse(xml)?;
    let mut all = document.descendants();
    let found = all.find(|node| node.tag_name().name() == name)?;
    Some(found.text().unwrap_or_default().to_owned())
}

fn children<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children()
        .filter(move |child| child.tag_name().name() == name)
}

fn child<'a>(node: Node<'a, '_>, name: &'static str) -> Option<&'a str> {
    let child = children(node, name).next()?;
    Some(child.text().unwrap_or_default())
}

/// Decodes a key: percent-encoded, with a plus for a space, as in forms. `None`: it is not text.
fn decode(key: &str) -> Option<String> {
    let spaced = key.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Example of AWS.
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
        let xml = "<ListBucketResult><Contents><Key>a+b%20&amp;&#x41;.mp4</Key><Size>1</Size></Contents></ListBucketResult>";
        let page = page(xml).unwrap();
        assert_eq!(page.objects[0].key, "a+b%20&A.mp4");
        assert_eq!(page.next, None);
    }

    #[test]
    fn what_is_no_page_is_none() {
        for xml in [
            "",
            "<html>",
            "<Error><Code>NoSuchBucket</Code></Error>",
            "<ListBucketResult>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;</ListBucketResult>",
            "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        ] {
            assert_eq!(page(xml), None, "{xml}");
        }
        assert_eq!(page("<ListBucketResult/>"), Some(Page::default()));
    }

    /// Responses with which a store could keep a processor busy, or fill the memory.
    #[test]
    fn a_hostile_page_is_refused_at_once() {
        let many = |what: &dyn Fn(usize) -> String| (0..300_000).map(what).collect::<String>();
        let attributes = many(&|n| format!("a{n}=''\n"));
        let elements = "<a/>".repeat(300_000);
        for inner in [
            format!("<a {attributes}/>"),
            elements,
            "<a>".repeat(300_000),
        ] {
            let xml = format!("<ListBucketResult>{inner}</ListBucketResult>");
            assert_eq!(page(&xml), None);
            assert_eq!(element(&xml, "Code"), None);
        }
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
