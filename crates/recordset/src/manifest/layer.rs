//! The keys of a manifest, as they are read.

use std::collections::BTreeMap;

use anabranch_base::text::printable;
use serde::Deserialize;

use super::ManifestError;

/// Characters of a reader's message that an error shows.
const MESSAGE_CHARS: usize = 500;

/// A size: a number of bytes, or a text with a unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Size {
    Bytes(u64),
    Text(String),
}

/// The whole text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) name: Option<String>,
    pub(super) rate: Option<String>,
    #[serde(default)]
    pub(super) component: Vec<ComponentLayer>,
    pub(super) records: Option<RecordsLayer>,
    #[serde(default)]
    pub(super) record: Vec<RecordLayer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ComponentLayer {
    pub(super) name: String,
    pub(super) file: Option<String>,
    pub(super) size: Option<Size>,
    pub(super) offset: Option<Size>,
    pub(super) stride: Option<Size>,
    #[serde(default)]
    pub(super) optional: bool,
    pub(super) rate: Option<String>,
    pub(super) promise: Option<f64>,
    pub(super) deadline: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordsLayer {
    pub(super) count: u64,
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordLayer {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parts: BTreeMap<String, PartLayer>,
}

/// A part: a file, or bytes of one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum PartLayer {
    File(String),
    Bytes(BytesLayer),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BytesLayer {
    pub(super) file: String,
    pub(super) offset: Option<Size>,
    pub(super) size: Option<Size>,
    /// Pairs of offset and size.
    pub(super) extents: Option<Vec<(u64, u64)>>,
}

pub(super) fn from_toml(text: &str) -> Result<Layer, ManifestError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map(|span| {
            let before = text.bytes().take(span.start);
            before.filter(|byte| *byte == b'\n').count() + 1
        });
        let words = printable(error.message(), MESSAGE_CHARS);
        ManifestError::Syntax(match line {
            Some(line) => format!("line {line}: {words}"),
            None => words,
        })
    })
}

pub(super) fn from_json(text: &str) -> Result<Layer, ManifestError> {
    serde_json::from_str(text).map_err(|error| {
        let words = error.to_string();
        // The reader repeats the place at the end.
        let words = words.split(" at line ").next().unwrap_or_default();
        let words = printable(words, MESSAGE_CHARS);
        ManifestError::Syntax(format!("line {}: {words}", error.line()))
    })
}
