//! Vocabulary: header fields of the applications' ADUs and attributes of channels, with names, types, and the numbers
//! that stand for them during evaluation.

pub use crate::fact::FieldId;
use crate::{syntax::NAME_BYTES_MAX, types::Type};

/// Largest number of fields and attributes together.
pub const FIELDS_MAX: usize = 256;

/// A field of an application's ADUs, or an attribute of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// Its name.
    pub name: String,
    /// True if it is an attribute of channels.
    pub of_channel: bool,
    /// Numeric, boolean or string.
    pub value: Type,
}

/// Names, types and numbers of fields. Texts that are in force together share one, so that a field has the same type and
/// number in all of them. It only grows, up to [`FIELDS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    fields: Vec<FieldType>,
}

/// Error of a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// It is known with another type.
    #[error("the field '{name}' is already {known} and cannot be {asked}")]
    Conflict {
        /// The field.
        name: String,
        /// The known type.
        known: Type,
        /// The type of the rejected declaration.
        asked: Type,
    },
    /// The name is not a valid name, or is reserved by the language.
    #[error(
        "'{0}' cannot name a field; use up to 64 letters, digits and '_', and no reserved word"
    )]
    Name(String),
    /// The type is a distribution; a header holds definite values.
    #[error("a field is numeric, boolean or string")]
    Type,
    /// There are [`FIELDS_MAX`] already.
    #[error("there are {FIELDS_MAX} fields already")]
    Full,
}

impl Vocabulary {
    /// Declares a field of ADUs, as `field NAME: TYPE` does. Declaring it again is no error.
    pub fn declare(&mut self, name: &str, value: Type) -> Result<FieldId, VocabularyError> {
        self.add(name, false, value)
    }

    /// Declares an attribute of channels, as `field channel::NAME: TYPE` does.
    pub fn declare_attribute(
        &mut self,
        name: &str,
        value: Type,
    ) -> Result<FieldId, VocabularyError> {
        self.add(name, true, value)
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        of_channel: bool,
        value: Type,
    ) -> Result<FieldId, VocabularyError> {
        if let Some((id, known)) = self.find(name, of_channel) {
            return if known == value {
                Ok(id)
            } else {
                Err(VocabularyError::Conflict {
                    name: name.to_owned(),
                    known,
                    asked: value,
                })
            };
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let level = crate::Level::Published;
        if name.is_empty()
            || name.len() > NAME_BYTES_MAX
            || !name.bytes().all(is_name)
            || crate::builtin::is_reserved(name, level)
        {
            return Err(VocabularyError::Name(name.to_owned()));
        }
        if !matches!(value, Type::Numeric | Type::Boolean | Type::String) {
            return Err(VocabularyError::Type);
        }
        if self.fields.len() >= FIELDS_MAX {
            return Err(VocabularyError::Full);
        }
        self.fields.push(FieldType {
            name: name.to_owned(),
            of_channel,
            value,
        });
        Ok(FieldId((self.fields.len() - 1) as u16))
    }

    /// Number and type of a field. O([`FIELDS_MAX`]).
    pub(crate) fn find(&self, name: &str, of_channel: bool) -> Option<(FieldId, Type)> {
        let at = self
            .fields
            .iter()
            .position(|field| field.name == name && field.of_channel == of_channel)?;
        Some((FieldId(at as u16), self.fields[at].value))
    }

    /// Number of a field of ADUs.
    pub fn field(&self, name: &str) -> Option<FieldId> {
        Some(self.find(name, false)?.0)
    }

    /// Number of an attribute of channels.
    pub fn attribute(&self, name: &str) -> Option<FieldId> {
        Some(self.find(name, true)?.0)
    }

    /// All fields and attributes; a [`FieldId`] is an index into this slice.
    pub fn fields(&self) -> &[FieldType] {
        &self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_one_type() {
        let mut vocabulary = Vocabulary::default();
        let id = vocabulary.declare("frame_type", Type::String).unwrap();
        assert_eq!(vocabulary.declare("frame_type", Type::String), Ok(id));
        let error = vocabulary.declare("frame_type", Type::Numeric).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the field 'frame_type' is already string and cannot be numeric"
        );
        let attribute = vocabulary.declare_attribute("frame_type", Type::Numeric);
        assert_eq!(attribute, Ok(FieldId(1)));
        assert_eq!(vocabulary.field("frame_type"), Some(id));
    }

    #[test]
    fn bad_names_types_and_too_many_are_refused() {
        let mut vocabulary = Vocabulary::default();
        for name in ["", "a b", "é", "latency", "lost?", &"x".repeat(65)] {
            let error = vocabulary.declare(name, Type::Numeric).unwrap_err();
            assert!(matches!(error, VocabularyError::Name(_)), "{name}");
        }
        let error = vocabulary.declare("x", Type::BooleanDistribution);
        assert_eq!(error, Err(VocabularyError::Type));
        for n in 0..FIELDS_MAX {
            vocabulary.declare(&format!("f{n}"), Type::Numeric).unwrap();
        }
        let error = vocabulary.declare("one_more", Type::Numeric);
        assert_eq!(error, Err(VocabularyError::Full));
    }
}
