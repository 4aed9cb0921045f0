//! Streams of local applications, as the configuration declares them for checks of objectives.

use std::collections::BTreeMap;

use anabranch_session::LABEL_BYTES_MAX;
use anabranch_session::hose::Type;
use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, refused};

/// Most streams that a configuration declares.
pub const STREAMS_MAX: usize = 1024;

/// Streams that a local application opens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StreamLayer {
    /// Their label; one that ends with `*` stands for all that begin with the rest.
    pub label: String,
    /// Header fields of their ADUs, each with its type: `numeric`, `boolean` or `string`.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// Declared streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredStream {
    /// Their label, or its beginning and `*`.
    pub label: String,
    /// Header fields of their ADUs.
    pub fields: Vec<(String, Type)>,
}

impl StreamLayer {
    fn resolve(&self) -> Result<DeclaredStream, ConfigError> {
        if !(1..=LABEL_BYTES_MAX).contains(&self.label.len()) {
            let reason = format!("give 1 to {LABEL_BYTES_MAX} bytes");
            return Err(refused("stream.label", &self.label, reason));
        }
        let field = |(name, value): (&String, &String)| {
            let key = format!("stream.fields.{name}");
            let known = Type::named(value);
            let known =
                known.ok_or_else(|| refused(&key, value, "give numeric, boolean or string"))?;
            Ok((name.clone(), known))
        };
        Ok(DeclaredStream {
            label: self.label.clone(),
            fields: self.fields.iter().map(field).collect::<Result<_, _>>()?,
        })
    }
}

impl Layer {
    /// Streams that local applications open.
    pub(super) fn streams(&self) -> Result<Vec<DeclaredStream>, ConfigError> {
        let layers = self.stream.as_deref().unwrap_or_default();
        if layers.len() > STREAMS_MAX {
            let count = layers.len().to_string();
            let reason = format!("a configuration declares at most {STREAMS_MAX}");
            return Err(refused("stream", &count, reason));
        }
        layers.iter().map(StreamLayer::resolve).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(text: &str) -> Result<Vec<DeclaredStream>, ConfigError> {
        Layer::from_toml(text)?.streams()
    }

    #[test]
    fn streams_are_read() {
        let text = "[[stream]]\nlabel = \"video\"\nfields = { frame_type = \"string\", key = \"boolean\" }\n\
                    [[stream]]\nlabel = \"log/*\"";
        let all = streams(text).unwrap();
        assert_eq!(all[0].label, "video");
        let fields = [
            ("frame_type".to_owned(), Type::String),
            ("key".to_owned(), Type::Boolean),
        ];
        assert_eq!(all[0].fields, fields);
        assert_eq!(all[1].label, "log/*");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("label = \"\"", "stream.label"),
            ("label = \"x\"\ncolour = 1", "colour"),
            (
                "label = \"x\"\nfields = { n = \"number\" }",
                "stream.fields.n",
            ),
        ] {
            let error = streams(&format!("[[stream]]\n{text}")).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
