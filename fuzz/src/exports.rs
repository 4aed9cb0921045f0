//! Exported directories: requests of strangers, and answers to them.

use anabranch::exports::{Answer, LIST_MAX, READ_BYTES_MAX, REQUEST_BYTES_MAX, Request};
use bytes::Bytes;

/// Messages that are read are within their bounds, and are written to the same bytes.
pub fn exports(data: &[u8]) {
    if let Ok((id, request)) = Request::decode(data) {
        assert!(data.len() <= REQUEST_BYTES_MAX);
        assert_eq!(request.encode(id), data);
    }
    if let Ok((id, answer)) = Answer::decode(&Bytes::copy_from_slice(data)) {
        match &answer {
            Answer::List { entries, .. } => assert!(entries.len() <= usize::from(LIST_MAX)),
            Answer::Data { bytes, .. } => assert!(bytes.len() <= READ_BYTES_MAX as usize),
            _ => {}
        }
        assert_eq!(answer.encode(id), data);
    }
}
