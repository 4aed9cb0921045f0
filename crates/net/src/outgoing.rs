//! ADUs that wait to be sent, with what objectives and drop orders may know of them.

use anabranch_session::FieldValue;
use bytes::Bytes;

/// Value of a header field; the owned form of [`FieldValue`].
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Text, to be compared for equality.
    Text(String),
}

impl Field {
    /// The borrowed form.
    pub fn value(&self) -> FieldValue<'_> {
        match self {
            Self::Number(number) => FieldValue::Number(*number),
            Self::Boolean(is_true) => FieldValue::Boolean(*is_true),
            Self::Text(text) => FieldValue::Text(text),
        }
    }
}

/// An ADU that waits to be sent. Importance and fields are not sent to the peer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outgoing {
    /// The ADU: 1 byte to 16 MiB.
    pub data: Bytes,
    /// Importance for streams that drop the least important ADUs first: those with the smallest number.
    pub importance: u8,
    /// Header fields that objectives may use; a field has one type, that of its declaration or first use.
    pub fields: Vec<(String, Field)>,
}

impl Outgoing {
    /// The fields in the form that the engine takes.
    pub fn field_values(&self) -> Vec<(&str, FieldValue<'_>)> {
        let fields = self.fields.iter();
        fields
            .map(|(name, field)| (name.as_str(), field.value()))
            .collect()
    }
}

impl From<Bytes> for Outgoing {
    fn from(data: Bytes) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }
}

impl From<&'static str> for Outgoing {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(data: Vec<u8>) -> Self {
        Bytes::from(data).into()
    }
}
