//! Services in text form, as forwards and rules have them: the name of a profile, or the keys of a stream specification, with those of
//! its promise beside them.
//!
//! ```
//! # #[derive(serde::Deserialize)] struct File { service: anabranch::spec::ServiceText }
//! let short: File = toml::from_str(r#"service = "live""#)?;
//! assert_eq!(short.service.0.profile.as_deref(), Some("live"));
//!
//! let text = r#"service = { rate = "6 Mbit/s", probability = "99 %", lifetime = "300 ms" }"#;
//! let promised: File = toml::from_str(text)?;
//! assert_eq!(promised.service.0.resolve()?.guarantee.unwrap().probability(), Some(0.99));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};
use serde_json::Value;

use super::{GuaranteeText, SpecText};

/// Keys of a [`GuaranteeText`].
const PROMISE: [&str; 11] = [
    "rate",
    "probability",
    "packets",
    "packet_bytes",
    "late_packets",
    "window",
    "term",
    "grade",
    "waits",
    "levels",
    "on_warning",
];

/// A service for flows: a profile's name, or a [`SpecText`] in which the keys of the guarantee may stand beside the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct ServiceText(pub SpecText);

impl ServiceText {
    /// The service of a profile, whose name is checked when the specification is resolved.
    pub fn of_profile(name: &str) -> Self {
        Self(SpecText {
            profile: Some(name.to_owned()),
            ..SpecText::default()
        })
    }
}

struct ServiceVisitor;

impl<'de> Visitor<'de> for ServiceVisitor {
    type Value = ServiceText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the name of a profile in quotes, or a table with the keys of a stream specification",
        )
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<ServiceText, E> {
        Ok(ServiceText::of_profile(name))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ServiceText, A::Error> {
        let (mut spec, mut promise) = (toml::Table::new(), toml::Table::new());
        while let Some((key, value)) = map.next_entry::<String, toml::Value>()? {
            let table = match PROMISE.contains(&key.as_str()) {
                true => &mut promise,
                false => &mut spec,
            };
            table.insert(key, value);
        }
        let wrong = |error: toml::de::Error| A::Error::custom(error.message());
        let mut spec: SpecText = toml::Value::Table(spec).try_into().map_err(wrong)?;
        if promise.is_empty() {
            return Ok(ServiceText(spec));
        }
        if spec.guarantee.is_some() {
            let reason =
                "the promise is written twice; leave out `guarantee`, or the keys beside it";
            return Err(A::Error::custom(reason));
        }
        let promise: GuaranteeText = toml::Value::Table(promise).try_into().map_err(wrong)?;
        spec.guarantee = Some(promise);
        Ok(ServiceText(spec))
    }
}

impl<'de> Deserialize<'de> for ServiceText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ServiceVisitor)
    }
}

/// The keys that are given, such as `live, lifetime 200 ms`; `preset` if there are none.
impl fmt::Display for ServiceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut spec = self.0.clone();
        let guarantee = spec.guarantee.take();
        let mut parts: Vec<String> = spec.profile.take().into_iter().collect();
        let tables = [
            serde_json::to_value(spec),
            serde_json::to_value(guarantee.unwrap_or_default()),
        ];
        for table in tables.into_iter().flatten() {
            let Value::Object(keys) = table else { continue };
            // A map of JSON may keep another order, by a feature of the crate.
            for (key, value) in keys.into_iter().collect::<BTreeMap<_, _>>() {
                match value {
                    Value::Null => {}
                    Value::String(text) => parts.push(format!("{key} {text}")),
                    other => parts.push(format!("{key} {other}")),
                }
            }
        }
        match parts.is_empty() {
            true => f.write_str("preset"),
            false => f.write_str(&parts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct File {
        service: ServiceText,
    }

    fn read(text: &str) -> Result<ServiceText, String> {
        let file: Result<File, _> = toml::from_str(&format!("service = {text}"));
        file.map(|file| file.service)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_stands_for_a_profile_and_a_table_for_a_specification() {
        assert_eq!(read("\"live\""), Ok(ServiceText::of_profile("live")));
        assert_eq!(read("{ profile = \"live\" }"), read("\"live\""));
        let beside = read("{ lifetime = \"300 ms\", rate = \"6 Mbit/s\", probability = \"99 %\" }");
        let below = read(
            "{ lifetime = \"300 ms\", guarantee = { rate = \"6 Mbit/s\", probability = \"99 %\" } }",
        );
        assert_eq!(beside, below);
        assert!(beside.unwrap().0.resolve().unwrap().guarantee.is_some());
    }

    #[test]
    fn keys_that_do_not_exist_and_wrong_types_are_refused_by_name() {
        for (text, word) in [
            ("{ rates = \"6 Mbit/s\" }", "rates"),
            ("{ rate = 6 }", "string"),
            ("7", "name of a profile"),
            (
                "{ rate = \"1 Mbit/s\", guarantee = { rate = \"1 Mbit/s\" } }",
                "twice",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_given_is_shown() {
        for (text, shown) in [
            ("{}", "preset"),
            ("\"bulk\"", "bulk"),
            (
                "{ profile = \"live\", lifetime = \"200 ms\", rate = \"6 Mbit/s\", probability = \"99 %\" }",
                "live, lifetime 200 ms, probability 99 %, rate 6 Mbit/s",
            ),
        ] {
            assert_eq!(read(text).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn the_keys_of_a_promise_are_all_listed() {
        // These are left out where they are absent.
        let text = GuaranteeText {
            levels: Some(Vec::new()),
            on_warning: Some(String::new()),
            ..GuaranteeText::default()
        };
        let Ok(Value::Object(keys)) = serde_json::to_value(text) else {
            panic!("an object")
        };
        let mut names: Vec<&str> = keys.keys().map(String::as_str).collect();
        let mut listed = PROMISE.to_vec();
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }
}
