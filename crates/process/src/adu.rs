//! Application data unit as operators see it: fields and a body.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

/// Largest number of fields of an ADU.
pub const FIELDS_MAX: usize = 64;

/// Largest length of a field's name and of a text in a field, in bytes.
pub const FIELD_BYTES_MAX: usize = 256;

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number; NaN counts as unknown.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// A text, at most [`FIELD_BYTES_MAX`] long.
    Text(Arc<str>),
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Value {
    fn from(boolean: bool) -> Self {
        Self::Boolean(boolean)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// Error of a field that an ADU cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// There are [`FIELDS_MAX`] already.
    #[error("an ADU has at most {FIELDS_MAX} fields; leave some out")]
    Full,
    /// The name is empty or too long, or the text is too long.
    #[error(
        "a field's name has 1 to {FIELD_BYTES_MAX} bytes, and its text at most {FIELD_BYTES_MAX}; shorten them"
    )]
    Length,
}

/// Fields of an ADU by name, at most [`FIELDS_MAX`]. A clone is cheap as long as it is not changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(Arc<Vec<(Arc<str>, Value)>>);

impl Fields {
    /// Value of a field; `None` if the ADU does not have it. O([`FIELDS_MAX`]).
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut fields = self.0.iter();
        fields
            .find(|(known, _)| **known == *name)
            .map(|(_, value)| value)
    }

    /// Value of a field that holds a number other than NaN.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(name) {
            Some(Value::Number(number)) if !number.is_nan() => Some(*number),
            _ => None,
        }
    }

    /// Value of a field that holds a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Sets a field.
    ///
    /// # Errors
    /// There are too many fields, or the name or the text has a length that is not allowed; nothing is then changed.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> Result<(), FieldError> {
        let value = value.into();
        let is_long = matches!(&value, Value::Text(text) if text.len() > FIELD_BYTES_MAX);
        if name.is_empty() || name.len() > FIELD_BYTES_MAX || is_long {
            return Err(FieldError::Length);
        }
        let at = self.0.iter().position(|(known, _)| **known == *name);
        if at.is_none() && self.0.len() >= FIELDS_MAX {
            return Err(FieldError::Full);
        }
        let fields = Arc::make_mut(&mut self.0);
        match at {
            Some(at) => fields[at].1 = value,
            None => fields.push((name.into(), value)),
        }
        Ok(())
    }

    /// Memory that they take, in bytes, about.
    fn held_bytes(&self) -> usize {
        let of = |name: &str, value: &Value| {
            let text = match value {
                Value::Text(text) => text.len(),
                Value::Number(_) | Value::Boolean(_) => 0,
            };
            size_of::<(Arc<str>, Value)>() + name.len() + text
        };
        self.iter().map(|(name, value)| of(name, value)).sum()
    }

    /// All fields, in the order in which they were first set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// Application data unit of a source stream, or of one that is derived from it. A clone shares the body.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adu {
    /// Its number in the source stream; what is derived from an ADU keeps its number.
    pub sequence: u64,
    /// Its fields.
    pub fields: Fields,
    /// Its bytes.
    pub body: Bytes,
    /// Time at which the source made it, since the source's beginning; what is derived from an ADU keeps it. `None`: not known.
    pub made: Option<Duration>,
    /// True if only a receiver that has the ADU derived before it, too, can decode it: the differences of delta coding.
    pub needs_previous: bool,
}

impl Adu {
    /// An ADU without fields.
    pub fn new(sequence: u64, body: impl Into<Bytes>) -> Self {
        Self {
            sequence,
            body: body.into(),
            ..Self::default()
        }
    }

    /// Memory that it takes, in bytes, about; that of its body counts for each clone.
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.fields.held_bytes() + self.body.len()
    }

    /// This ADU with another field.
    ///
    /// # Panics
    /// An ADU cannot have the field ([`Fields::set`]).
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields
            .set(name, value)
            .expect("an ADU can have the field");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_bounded_in_number_and_length() {
        let mut fields = Fields::default();
        for number in 0..FIELDS_MAX {
            fields.set(&format!("f{number}"), 1.0).unwrap();
        }
        assert_eq!(fields.set("more", true), Err(FieldError::Full));
        fields.set("f0", "text").unwrap();
        assert_eq!(fields.text("f0"), Some("text"));
        assert_eq!(fields.number("f0"), None);
        assert_eq!(fields.set("", 1.0), Err(FieldError::Length));
        let long = "x".repeat(FIELD_BYTES_MAX + 1);
        assert_eq!(fields.set("f0", &*long), Err(FieldError::Length));
        assert_eq!(fields.text("f0"), Some("text"));
        assert_eq!(fields.iter().count(), FIELDS_MAX);
    }
}
