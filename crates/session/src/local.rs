//! Description of a local socket, for objectives and path preferences.

use std::sync::Arc;

use anabranch_estimate::model::{Choice, Technology};
use anabranch_hose::{
    Type, Vocabulary,
    provided::{Item, Provided},
    symbol,
};

/// Most attributes of a socket.
pub const ATTRIBUTES_MAX: usize = 32;

/// The value of an attribute that a host gives the paths of a local socket.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A number.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// Text, to be compared for equality.
    Text(Arc<str>),
}

impl Attribute {
    /// Its type in objectives.
    pub const fn kind(&self) -> Type {
        match self {
            Self::Number(_) => Type::Numeric,
            Self::Boolean(_) => Type::Boolean,
            Self::Text(_) => Type::String,
        }
    }

    fn value(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Boolean(truth) => f64::from(u8::from(*truth)),
            Self::Text(text) => symbol(text),
        }
    }
}

/// Description of a local socket: what a host knows of the paths that begin there. Key: local socket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalDescription {
    /// Name of its interface or place, such as `wlan0`; objectives call it `channel::name`.
    pub name: Option<Arc<str>>,
    /// Its technology, such as `lte`, instead of the one that is recognised from traffic; `channel::technology`.
    pub technology: Option<Arc<str>>,
    /// Further attributes by name, [`ATTRIBUTES_MAX`] at most; `channel::NAME`.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

impl LocalDescription {
    /// Adds what objectives can know of channels with this description. Without a technology of their own, they may have
    /// any that `model` recognises.
    pub fn provide(&self, model: Choice, provided: &mut Provided) {
        match (&self.technology, model) {
            (Some(technology), _) => provided.add(Item::technology(&**technology)),
            (None, Choice::Fixed(technology)) => provided.add(Item::technology(technology.name())),
            (None, Choice::Auto) => {
                provided.extend(Technology::ALL.map(|known| Item::technology(known.name())));
            }
        }
        for (name, attribute) in self.attributes.iter().take(ATTRIBUTES_MAX) {
            provided.add(match attribute {
                Attribute::Text(text) => Item::text(&**name, &**text),
                other => Item::attribute(&**name, other.kind()),
            });
        }
    }

    /// Writes the attributes that objectives ask about, by number; those of another type than the objectives' are left out.
    pub(crate) fn fields(&self, known: &Vocabulary, fields: &mut Vec<f64>) {
        fields.clear();
        for (name, attribute) in self.attributes.iter().take(ATTRIBUTES_MAX) {
            let Some(id) = known.attribute(name) else {
                continue;
            };
            let at = usize::from(id.0);
            if known.fields()[at].value != attribute.kind() {
                continue;
            }
            if fields.len() <= at {
                fields.resize(at + 1, f64::NAN);
            }
            fields[at] = attribute.value();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_provides_its_technology_or_those_that_are_recognised() {
        let items = |description: &LocalDescription, model: Choice| {
            let mut provided = Provided::default();
            description.provide(model, &mut provided);
            provided.items().collect::<Vec<_>>()
        };
        let plain = LocalDescription::default();
        assert_eq!(items(&plain, Choice::Auto).len(), 3);
        let fixed = Choice::Fixed(Technology::Cellular);
        assert_eq!(items(&plain, fixed), [Item::technology("cellular")]);
        let description = LocalDescription {
            technology: Some("lte".into()),
            attributes: vec![
                ("operator".into(), Attribute::Text("A".into())),
                ("indoor".into(), Attribute::Boolean(true)),
            ],
            ..plain
        };
        let expected = [
            Item::technology("lte"),
            Item::attribute("indoor", Type::Boolean),
            Item::text("operator", "A"),
        ];
        assert_eq!(items(&description, Choice::Auto), expected);
    }

    #[test]
    fn attributes_are_found_by_name_and_type() {
        let mut known = Vocabulary::default();
        known.declare("operator", Type::String).unwrap();
        let class = known
            .declare_attribute("price_class", Type::Numeric)
            .unwrap();
        let operator = known.declare_attribute("operator", Type::String).unwrap();
        known.declare_attribute("indoor", Type::Numeric).unwrap();
        let description = LocalDescription {
            attributes: vec![
                ("operator".into(), Attribute::Text("A".into())),
                ("indoor".into(), Attribute::Boolean(true)),
                ("unknown".into(), Attribute::Number(1.0)),
                ("price_class".into(), Attribute::Number(2.0)),
            ],
            ..LocalDescription::default()
        };
        let mut fields = vec![7.0];
        description.fields(&known, &mut fields);
        assert_eq!(fields[usize::from(class.0)], 2.0);
        assert_eq!(fields[usize::from(operator.0)], symbol("A"));
        // The field of ADUs with the same name, and the attribute of another type.
        assert!(fields[0].is_nan());
        assert_eq!(fields.len(), 3);
    }
}
