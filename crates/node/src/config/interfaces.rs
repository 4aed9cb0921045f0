//! Descriptions of interfaces, in the text form of the configuration.

use std::collections::BTreeMap;

use anabranch_net::{LocalDescription, Place, session::ATTRIBUTES_MAX, session::Attribute};
use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, missing, refused};

/// Longest name of a technology or an attribute, and longest text, in bytes.
const TEXT_BYTES_MAX: usize = 64;

/// Description of an interface or a local address.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceLayer {
    /// The interface, or the local address.
    pub on: String,
    /// Its technology, for objectives and path preferences.
    pub technology: Option<String>,
    /// Further attributes for objectives.
    #[serde(default)]
    pub attributes: BTreeMap<String, AttributeLayer>,
}

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "give a number, true, false, or a text in quotes"
)]
pub enum AttributeLayer {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Whole(i32),
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl AttributeLayer {
    fn resolve(&self, key: &str) -> Result<Attribute, ConfigError> {
        Ok(match self {
            Self::Boolean(truth) => Attribute::Boolean(*truth),
            Self::Whole(number) => Attribute::Number(f64::from(*number)),
            Self::Number(number) if number.is_finite() => Attribute::Number(*number),
            Self::Number(number) => {
                return Err(refused(key, &number.to_string(), "give a finite number"));
            }
            Self::Text(text) => Attribute::Text(short(key, text)?.into()),
        })
    }
}

fn short<'a>(key: &str, text: &'a str) -> Result<&'a str, ConfigError> {
    match text.len() {
        1..=TEXT_BYTES_MAX => Ok(text),
        _ => Err(refused(key, text, "give 1 to 64 bytes")),
    }
}

impl InterfaceLayer {
    fn resolve(&self) -> Result<(Place, LocalDescription), ConfigError> {
        let place = self.on.parse();
        let place = place.map_err(|error| refused("interface.on", &self.on, format!("{error}")))?;
        if self.attributes.len() > ATTRIBUTES_MAX {
            let reason = format!("{} has more than {ATTRIBUTES_MAX}", self.on);
            return Err(missing("interface.attributes", reason));
        }
        let mut attributes = Vec::new();
        for (name, value) in &self.attributes {
            let key = format!("interface.attributes.{name}");
            attributes.push((short(&key, name)?.into(), value.resolve(&key)?));
        }
        let technology = match &self.technology {
            None => None,
            Some(text) => Some(short("interface.technology", text)?.into()),
        };
        let description = LocalDescription {
            name: None,
            technology,
            attributes,
        };
        Ok((place, description))
    }
}

impl Layer {
    /// Descriptions of interfaces.
    pub(super) fn interfaces(&self) -> Result<Vec<(Place, LocalDescription)>, ConfigError> {
        let mut all: Vec<(Place, LocalDescription)> = Vec::new();
        for layer in self.interface.iter().flatten() {
            let (place, description) = layer.resolve()?;
            if all.iter().any(|(other, _)| *other == place) {
                let reason = format!("{place} is described twice; write one section");
                return Err(missing("interface", reason));
            }
            all.push((place, description));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interfaces(text: &str) -> Result<Vec<(Place, LocalDescription)>, ConfigError> {
        Layer::from_toml(text)?.interfaces()
    }

    #[test]
    fn descriptions_are_read() {
        let text = "[[interface]]\non = \"wwan0\"\ntechnology = \"lte\"\n\
                    attributes = { operator = \"A\", price_class = 2, indoor = true, height_m = 1.5 }";
        let all = interfaces(text).unwrap();
        let [(place, description)] = &all[..] else {
            panic!("one interface");
        };
        assert_eq!(place.to_string(), "wwan0");
        assert_eq!(description.technology.as_deref(), Some("lte"));
        let value = |name: &str| {
            let mut all = description.attributes.iter();
            let found = all.find(|(known, _)| **known == *name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(value("operator"), Some(Attribute::Text("A".into())));
        assert_eq!(value("price_class"), Some(Attribute::Number(2.0)));
        assert_eq!(value("indoor"), Some(Attribute::Boolean(true)));
        assert_eq!(value("height_m"), Some(Attribute::Number(1.5)));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, words) in [
            ("on = \"a b\"", "interface.on"),
            ("on = \"eth0\"\ntechnology = \"\"", "interface.technology"),
            ("on = \"eth0\"\nspeed = 1", "speed"),
            (
                "on = \"eth0\"\nattributes = { x = [1] }",
                "a text in quotes",
            ),
            (
                "on = \"eth0\"\nattributes = { x = inf }",
                "interface.attributes.x",
            ),
            (
                "on = \"eth0\"\n[[interface]]\non = \"eth0\"",
                "described twice",
            ),
        ] {
            let error = interfaces(&format!("[[interface]]\n{text}")).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
