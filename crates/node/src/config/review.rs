//! Every mistake in the text of a configuration, each with its place.

use std::{borrow::Cow, ops::Range};

use serde::Deserialize;
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue, Deserializer},
};

use super::{
    ConfigError, Layer, NodeConfig,
    mistake::{in_words, line_at},
    schema::required,
};

/// Mistakes of a file that are named.
const MISTAKES_MAX: usize = 100;

/// A mistake, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line and column, from 1; `None`: it is not in the text, or is that something is missing.
    pub place: Option<(usize, usize)>,
    /// The mistake, and how to mend it.
    pub words: String,
}

/// Reads a configuration as a node would: `upper`, which are flags and the environment, over the text of a file. `variable` looks
/// up the environment for defaults.
///
/// # Errors
/// All mistakes. A text that is not TOML is not examined further. A part with a mistake is left out in the search for others.
pub fn review(
    text: &str,
    upper: &Layer,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<NodeConfig, Vec<Mistake>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let all = errors.iter().take(MISTAKES_MAX).map(|error| {
            let span = error.span();
            let place = span.as_ref().map(|span| place(text, span.start));
            Mistake {
                place,
                words: in_words(text, error.message(), span),
            }
        });
        let mut all: Vec<Mistake> = all.collect();
        all.sort_by_key(|mistake| mistake.place);
        return Err(all);
    }
    let mut root = root;
    let mut mistakes: Vec<Mistake> = Vec::new();
    while mistakes.len() < MISTAKES_MAX {
        let (mistake, found) = match Layer::deserialize(Deserializer::from(root.clone())) {
            Err(error) => {
                let span = error.span();
                let mistake = Mistake {
                    place: span.as_ref().map(|span| place(text, span.start)),
                    words: in_words(text, error.message(), span.clone()),
                };
                (mistake, span)
            }
            Ok(layer) => match upper.clone().over(layer).resolve(&variable) {
                Ok(config) if mistakes.is_empty() => return Ok(config),
                Ok(_) => break,
                Err(error) => {
                    let span = find(&root, text, &error);
                    let mistake = Mistake {
                        place: span.as_ref().map(|span| place(text, span.start)),
                        words: error.to_string(),
                    };
                    (mistake, span)
                }
            },
        };
        mistakes.push(mistake);
        // Without it, there may be others.
        let is_removed = found.is_some_and(|span| remove(root.get_mut(), &span, ""));
        if !is_removed {
            break;
        }
    }
    mistakes.sort_by_key(|mistake| mistake.place);
    mistakes.dedup();
    Err(mistakes)
}

/// Line and column of a position, from 1; columns count characters.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (line_at(text, at), line.chars().count() + 1)
}

/// Place of the value that is refused: the first one with the text of the error, or else the first one of the key.
fn find(root: &Spanned<DeTable<'_>>, text: &str, error: &ConfigError) -> Option<Range<usize>> {
    let (key, value) = match error {
        ConfigError::Value { key, value, .. } => (key, value.as_str()),
        ConfigError::Missing { key, .. } => (key, ""),
        ConfigError::Syntax(_) => return None,
    };
    let mut all = Vec::new();
    let parts: Vec<&str> = key.split('.').collect();
    places(root.get_ref(), &parts, &mut all);
    let has_value = |span: &&Range<usize>| {
        text.get((*span).clone())
            .is_some_and(|own| own.contains(value))
    };
    all.iter().find(has_value).or(all.first()).cloned()
}

/// Places of all entries with this path; of the last key that there is, where a part of it is no key.
fn places(table: &DeTable<'_>, parts: &[&str], all: &mut Vec<Range<usize>>) {
    let Some((first, rest)) = parts.split_first() else {
        return;
    };
    let entry = table.iter().find(|(key, _)| key.get_ref() == first);
    let Some((key, value)) = entry else { return };
    let whole = key.span().start..value.span().end.max(key.span().end);
    let count = all.len();
    match value.get_ref() {
        _ if rest.is_empty() => {}
        DeValue::Table(own) => places(own, rest, all),
        DeValue::Array(entries) => {
            let own = entries
                .iter()
                .filter_map(|entry| entry.get_ref().as_table());
            own.for_each(|own| places(own, rest, all));
        }
        _ => {}
    }
    if all.len() == count {
        all.push(whole);
    }
}

/// Removes the entry at a place: a key, or the whole table if it cannot be without that key. False if there is none.
fn remove<'i>(table: &mut DeTable<'i>, span: &Range<usize>, path: &str) -> bool {
    let is_in = |own: &Range<usize>| own.start <= span.start && span.start < own.end;
    let mut name: Option<Spanned<Cow<'i, str>>> = None;
    for (key, value) in table.iter_mut() {
        let below = match path {
            "" => key.get_ref().to_string(),
            path => format!("{path}.{}", key.get_ref()),
        };
        let is_key = is_in(&key.span());
        let own = value.span();
        let is_removed = match value.get_mut() {
            _ if is_key => false,
            DeValue::Table(own) => remove(own, span, &below),
            DeValue::Array(entries) => {
                let count = entries.len();
                let mut is_changed = false;
                let kept: Vec<Spanned<DeValue<'i>>> = std::mem::replace(entries, DeArray::new())
                    .into_iter()
                    .filter_map(|mut entry| {
                        let is_whole = entry.span() == *span;
                        let DeValue::Table(own) = entry.get_mut() else {
                            return Some(entry);
                        };
                        is_changed |= !is_whole && remove(own, span, &below);
                        let lacks =
                            |key: &&str| !own.iter().any(|(name, _)| name.get_ref() == *key);
                        (!is_whole && !required(&below).iter().any(lacks)).then_some(entry)
                    })
                    .collect();
                is_changed |= kept.len() < count;
                *entries = kept.into_iter().collect();
                is_changed
            }
            _ => false,
        };
        if is_removed {
            return true;
        }
        if is_key || is_in(&own) || own == *span {
            name = Some(key.clone());
            break;
        }
    }
    name.is_some_and(|name| table.remove(&name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/ada".to_owned())
    }

    fn mistakes(text: &str) -> Vec<String> {
        let all = review(text, &Layer::default(), home).unwrap_err();
        let shown = all.into_iter().map(|mistake| match mistake.place {
            Some((line, column)) => format!("{line}:{column}: {}", mistake.words),
            None => mistake.words,
        });
        shown.collect()
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        let text = r#"listne = ["127.0.0.1:0"]
  port = "x"

[session]
policy = "best"
timeout = "9"
colour = 1

[[peer]]
name = "ship"
node = "?"
may = ["call"]

[[peer]]
name = "van"
may = []

[[cost]]
on = "wwan0"
price = "cheap"
day = 40

[channel]
mtu_max = "100 B"
"#;
        let all = mistakes(text);
        let starts = [
            "1:1: there is no key 'listne'; did you mean 'listen'?",
            "2:10: port = \"x\": expected a whole number from 0 to 65535",
            "5:1: session.policy = \"best\"",
            "6:1: session.timeout = \"9\"",
            "7:1: there is no key 'colour'",
            "11:1: peer.node = \"?\"",
            "14:1: [peer] lacks the key 'node'",
            "20:1: cost.price = \"cheap\"",
        ];
        for start in starts {
            assert!(
                all.iter().any(|own| own.starts_with(start)),
                "{start}\n{all:#?}"
            );
        }
        assert!(all.iter().any(|own| own.contains("mtu_max")), "{all:#?}");
    }

    #[test]
    fn what_is_not_toml_is_named() {
        let all = mistakes("port = \n[session\npolicy = \"ecf\"\n");
        assert!(all[0].starts_with("1:"), "{all:#?}");
    }

    #[test]
    fn a_good_file_has_none() {
        let example = include_str!("../../node.example.toml");
        assert!(review(example, &Layer::default(), home).is_ok());
    }
}
