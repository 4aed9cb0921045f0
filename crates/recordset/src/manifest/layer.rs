//! The keys of a manifest, as they are read.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    marker::PhantomData,
};

use anabranch_base::text::printable;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

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

/// A table of keys. Without it, the values alone, as a list in the order of the fields, would be one, too.
#[derive(Debug)]
pub(super) struct Table<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, keys: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(keys))
            }
        }

        deserializer.deserialize_map(Keys(PhantomData)).map(Table)
    }
}

/// Parts by component, each named once.
#[derive(Debug, Default)]
pub(super) struct Parts(pub(super) BTreeMap<String, PartLayer>);

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named;

        impl<'de> Visitor<'de> for Named {
            type Value = Parts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of parts by component")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Parts, A::Error> {
                let mut parts = BTreeMap::new();
                while let Some(component) = keys.next_key::<String>()? {
                    match parts.entry(component) {
                        Entry::Vacant(free) => {
                            free.insert(keys.next_value()?);
                        }
                        Entry::Occupied(taken) => {
                            let words = format!("the part '{}' is named twice", taken.key());
                            return Err(A::Error::custom(words));
                        }
                    }
                }
                Ok(Parts(parts))
            }
        }

        deserializer.deserialize_map(Named)
    }
}

/// The whole text.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) name: Option<String>,
    pub(super) rate: Option<String>,
    #[serde(default)]
    pub(super) component: Vec<Table<ComponentLayer>>,
    pub(super) records: Option<Table<RecordsLayer>>,
    #[serde(default)]
    pub(super) record: Vec<Table<RecordLayer>>,
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
    pub(super) parts: Parts,
}

/// A part: a file, or bytes of one.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum PartLayer {
    File(String),
    Bytes(Table<BytesLayer>),
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
    toml::from_str(text)
        .map(|Table(layer)| layer)
        .map_err(|error: toml::de::Error| {
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
    serde_json::from_str(text)
        .map(|Table(layer)| layer)
        .map_err(|error| {
            let words = error.to_string();
            // The reader repeats the place at the end.
            let words = words.split(" at line ").next().unwrap_or_default();
            let words = printable(words, MESSAGE_CHARS);
            ManifestError::Syntax(format!("line {}: {words}", error.line()))
        })
}
