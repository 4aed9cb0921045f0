//! JSON Schema of a configuration file, for editors and other programs.
//!
//! Keys, their order and their descriptions are those of `node.example.toml`; kinds that an example cannot show are in [`special`].
//! The tests compare it with the parser, in both directions.

use serde_json::{Map, Value, json};

use super::mistake::{EXAMPLE, header};
use crate::rights::Right;

/// Dialect of the schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The JSON Schema of a configuration file.
pub fn schema() -> Value {
    let mut root = table("Configuration of a node of Anabranch", "");
    root.insert("$schema".to_owned(), DIALECT.into());
    root.insert("title".to_owned(), "node.toml".into());
    let mut root = Value::Object(root);
    let (mut path, mut words, mut is_fresh) = (String::new(), String::new(), true);
    for line in EXAMPLE.lines() {
        match Line::of(line) {
            Line::Empty => words.clear(),
            Line::Words(text) => {
                if is_fresh {
                    words.clear();
                }
                if !words.is_empty() {
                    words.push(' ');
                }
                words.push_str(text);
                is_fresh = false;
                continue;
            }
            Line::Table(name, is_list) => {
                let parent = at(&mut root, parent(name));
                let mut own = Value::Object(table(&words, name));
                if is_list {
                    own = json!({ "type": "array", "items": own });
                }
                insert(parent, last(name), own);
                name.clone_into(&mut path);
                words.clear();
            }
            Line::Key(key, example) => {
                let mut kind = special(&path, key).unwrap_or_else(|| kind(example));
                if let (Some(kind), false) = (kind.as_object_mut(), words.is_empty()) {
                    kind.insert("description".to_owned(), words.clone().into());
                }
                insert(at(&mut root, &path), key, kind);
            }
        }
        is_fresh = true;
    }
    root
}

/// Line of the example.
enum Line<'a> {
    Empty,
    Words(&'a str),
    /// Header of a table, and if there may be several of them.
    Table(&'a str, bool),
    Key(&'a str, &'a str),
}

impl<'a> Line<'a> {
    fn of(line: &'a str) -> Self {
        let is_words = line == "#" || line.starts_with("# ");
        if line.trim().is_empty() {
            return Self::Empty;
        }
        if is_words {
            return Self::Words(line.trim_start_matches('#').trim());
        }
        let bare = line.strip_prefix('#').unwrap_or(line);
        if let Some(name) = header(bare) {
            return Self::Table(name, bare.starts_with("[["));
        }
        match bare.split_once(" = ") {
            Some((key, example)) => Self::Key(key, example),
            None => Self::Empty,
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

fn last(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, last)| last)
}

/// Schema of a table without keys.
fn table(words: &str, path: &str) -> Map<String, Value> {
    let mut table = Map::new();
    if !words.is_empty() {
        table.insert("description".to_owned(), words.into());
    }
    table.insert("type".to_owned(), "object".into());
    table.insert("additionalProperties".to_owned(), false.into());
    let required = required(path);
    if !required.is_empty() {
        table.insert("required".to_owned(), required.into());
    }
    table.insert("properties".to_owned(), Map::new().into());
    table
}

/// Keys that a table must have.
pub(super) fn required(path: &str) -> &'static [&'static str] {
    match path {
        "peer" | "overlay.member" => &["name", "node"],
        "cost" => &["on", "price"],
        "interface" => &["on"],
        "stream" => &["label"],
        "export" => &["name", "path"],
        "forward" => &["peer", "to"],
        "gateway.socks" => &["local"],
        "tunnel.server" => &["pools"],
        "tunnel.client" => &["peer"],
        _ => &[],
    }
}

/// The schema of the table at a path; made where it is not written as a header.
fn at<'v>(mut table: &'v mut Value, path: &str) -> &'v mut Value {
    let mut sofar = String::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !sofar.is_empty() {
            sofar.push('.');
        }
        sofar.push_str(part);
        let own = &mut table["properties"][part];
        if own.is_null() {
            *own = Value::Object(self::table("", &sofar));
        }
        table = match own["type"] == "array" {
            true => &mut own["items"],
            false => own,
        };
    }
    table
}

fn insert(table: &mut Value, key: &str, own: Value) {
    table["properties"][key] = own;
}

/// Kind of value that an example shows.
fn kind(example: &str) -> Value {
    match example.chars().next() {
        Some('[') => json!({ "type": "array", "items": { "type": "string" } }),
        Some('t' | 'f') => json!({ "type": "boolean" }),
        Some('0'..='9') => json!({ "type": "integer", "minimum": 0 }),
        _ => json!({ "type": "string" }),
    }
}

/// Kinds that an example does not show.
fn special(table: &str, key: &str) -> Option<Value> {
    let integer =
        |first: u32, last: u32| json!({ "type": "integer", "minimum": first, "maximum": last });
    Some(match (table, key) {
        ("", "port") => integer(0, 65_535),
        ("", "local_users") => json!({ "type": "array", "items": { "anyOf": [
            { "type": "string" }, integer(0, u32::MAX), local_user(),
        ] } }),
        ("cost", "day") => integer(1, 31),
        ("overlay", "paths" | "hops") => integer(1, 8),
        ("interface", "attributes") => {
            json!({ "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } })
        }
        ("stream", "fields") => {
            json!({ "type": "object", "additionalProperties": { "type": "string" } })
        }
        ("peer" | "overlay.member", "may") => json!({ "type": "array", "items": grant() }),
        ("forward", "protocol") => json!({ "enum": ["tcp", "udp"] }),
        ("forward" | "rule" | "gateway.socks", "service") => service(),
        ("rule", "match") => flows(),
        _ => return None,
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it becomes a part of the result"
)]
fn closed(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties })
}

fn texts() -> Value {
    json!({ "type": "array", "items": { "type": "string" } })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn whole() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn truth() -> Value {
    json!({ "type": "boolean" })
}

/// A user of the local interface with limits.
fn local_user() -> Value {
    closed(
        json!({
            "user": { "anyOf": [text(), whole()] },
            "priority_max": text(),
            "promised_rate_max": text(),
            "promised_share_max": text(),
            "streams_max": whole(),
            "rate_max": text(),
            "objectives": truth(),
        }),
        &["user"],
    )
}

/// A right, with or without terms.
fn grant() -> Value {
    let names: Vec<&str> = Right::ALL.iter().map(|right| right.name()).collect();
    let terms = closed(
        json!({
            "right": { "enum": names },
            "folder": text(),
            "update": truth(),
            "delete": truth(),
            "services": texts(),
            "exports": texts(),
            "to": texts(),
            "listen": texts(),
        }),
        &["right"],
    );
    json!({ "anyOf": [{ "enum": names }, terms] })
}

/// Keys of a stream's guarantee.
fn guarantee() -> Map<String, Value> {
    let number = json!({ "type": "number", "minimum": 0 });
    let keys = [
        ("rate", text()),
        ("probability", text()),
        ("packets", text()),
        ("packet_bytes", whole()),
        ("late_packets", number),
        ("window", text()),
        ("term", text()),
        ("grade", text()),
        ("waits", truth()),
        ("levels", texts()),
        ("on_warning", text()),
    ];
    keys.into_iter()
        .map(|(key, kind)| (key.to_owned(), kind))
        .collect()
}

/// A service: the name of a profile, or the keys of a stream with those of its guarantee beside them.
fn service() -> Value {
    let guarantee = guarantee();
    let keys = [
        ("profile", text()),
        ("label", text()),
        ("reliable", truth()),
        ("order", text()),
        ("lifetime", text()),
        ("priority", text()),
        ("weight", whole()),
        ("cap", text()),
        ("drop", text()),
        ("paths", texts()),
        ("redundant", truth()),
        ("pinned", whole()),
        ("may_split", truth()),
        ("duplex", truth()),
        ("partial", truth()),
        ("notify", truth()),
        ("notify_fragments", truth()),
        ("guarantee", closed(guarantee.clone().into(), &[])),
    ];
    let own = keys.into_iter().map(|(key, kind)| (key.to_owned(), kind));
    let all: Map<String, Value> = own.chain(guarantee).collect();
    json!({ "anyOf": [text(), closed(all.into(), &[])] })
}

/// Flows of a rule.
fn flows() -> Value {
    let port = json!({ "type": "integer", "minimum": 0, "maximum": 65_535 });
    closed(
        json!({
            "address": { "anyOf": [text(), texts()] },
            "port": { "anyOf": [port, text()] },
            "protocol": { "enum": ["tcp", "udp", "unix"] },
            "dscp": { "type": "integer", "minimum": 0, "maximum": 63 },
            "process": text(),
            "cgroup": text(),
        }),
        &[],
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::Layer;
    use super::*;

    const LISTS: [&str; 9] = [
        "peer",
        "overlay.member",
        "cost",
        "interface",
        "stream",
        "export",
        "forward",
        "rule",
        "gateway.socks",
    ];

    /// Keys that the parser knows in a table, from its answer to an unknown one.
    fn keys_of_parser(path: &str, inside: &str) -> BTreeSet<String> {
        let text = match (path, LISTS.contains(&path)) {
            ("", _) => "zzz = 1\n".to_owned(),
            (path, true) => format!("[[{path}]]\n{inside}\n"),
            (path, false) => format!("[{path}]\n{inside}\n"),
        };
        let error = toml::from_str::<Layer>(&text).unwrap_err();
        let message = error.message().to_owned();
        assert!(
            message.starts_with("unknown field `zzz`"),
            "{path}: {message}"
        );
        let names = message.split('`').skip(3).step_by(2);
        names
            .map(str::to_owned)
            .filter(|name| name != "allow")
            .collect()
    }

    fn keys_of_schema(table: &Value) -> BTreeSet<String> {
        let table = if table["type"] == "array" {
            &table["items"]
        } else {
            table
        };
        table["properties"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect()
    }

    fn find<'v>(root: &'v Value, path: &str) -> &'v Value {
        path.split('.')
            .filter(|part| !part.is_empty())
            .fold(root, |table, part| {
                let table = if table["type"] == "array" {
                    &table["items"]
                } else {
                    table
                };
                &table["properties"][part]
            })
    }

    #[test]
    fn every_key_of_the_parser_is_in_the_schema_and_no_other() {
        let root = schema();
        let tables = [
            "",
            "session",
            "channel",
            "gateway",
            "tunnel",
            "tunnel.server",
            "tunnel.client",
            "rendezvous",
            "overlay",
        ];
        for path in tables.into_iter().chain(LISTS) {
            assert_eq!(
                keys_of_schema(find(&root, path)),
                keys_of_parser(path, "zzz = 1"),
                "{path}"
            );
        }
        let of_rule = &find(&root, "rule.match");
        assert_eq!(
            keys_of_schema(of_rule),
            keys_of_parser("rule", "match = { zzz = 1 }")
        );
        let service = &find(&root, "rule.service")["anyOf"][1];
        let mut parsed = keys_of_parser("rule", "service = { zzz = 1 }");
        parsed.extend(keys_of_parser(
            "rule",
            "service = { guarantee = { zzz = 1 } }",
        ));
        assert_eq!(keys_of_schema(service), parsed);
        let user = &find(&root, "local_users")["items"]["anyOf"][2];
        let error = toml::from_str::<Layer>("local_users = [{ zzz = 1 }]").unwrap_err();
        let known: BTreeSet<String> = error
            .message()
            .split('`')
            .skip(3)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        assert_eq!(keys_of_schema(user), known);
        let terms = &find(&root, "peer.may")["items"]["anyOf"][1];
        let error = toml::from_str::<super::super::TermsLayer>("zzz = 1").unwrap_err();
        let known: BTreeSet<String> = error
            .message()
            .split('`')
            .skip(3)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        assert_eq!(keys_of_schema(terms), known);
    }

    /// The kinds of simple values are those that the parser takes.
    #[test]
    fn kinds_are_those_of_the_parser() {
        let root = schema();
        let tables = [
            "",
            "session",
            "channel",
            "gateway",
            "rendezvous",
            "overlay",
            "rule",
        ];
        let mut seen = 0;
        for path in tables {
            let table = find(&root, path);
            let table = if table["type"] == "array" {
                &table["items"]
            } else {
                table
            };
            for (key, own) in table["properties"].as_object().unwrap() {
                let (right, wrong) = match own["type"].as_str() {
                    Some("string") => ("\"x\"", "5"),
                    Some("boolean") => ("true", "5"),
                    Some("integer") => ("5", "true"),
                    Some("array") if own["items"]["type"] == "string" => ("[\"x\"]", "[[5]]"),
                    _ => continue,
                };
                let text = |value: &str| match (path, LISTS.contains(&path)) {
                    ("", _) => format!("{key} = {value}"),
                    (path, true) => format!("[[{path}]]\n{key} = {value}"),
                    (path, false) => format!("[{path}]\n{key} = {value}"),
                };
                let parsed = Layer::from_toml(&text(right));
                assert!(parsed.is_ok(), "{path} {key}: {parsed:?}");
                assert!(
                    Layer::from_toml(&text(wrong)).is_err(),
                    "{path} {key} = {wrong}"
                );
                seen += 1;
            }
        }
        assert!(seen > 50, "{seen}");
    }

    /// A table with the keys that are required is accepted, and refused without any of them.
    #[test]
    fn required_keys_are_those_of_the_parser() {
        for path in LISTS
            .into_iter()
            .chain(["tunnel.server", "tunnel.client", "rendezvous"])
        {
            let keys = required(path);
            let without = |left_out: &str| {
                let lines = keys
                    .iter()
                    .filter(|key| **key != left_out)
                    .map(|key| match *key {
                        "pools" => "pools = []\n".to_owned(),
                        key => format!("{key} = \"x\"\n"),
                    });
                let header = if LISTS.contains(&path) {
                    format!("[[{path}]]\n")
                } else {
                    format!("[{path}]\n")
                };
                Layer::from_toml(&(header + &lines.collect::<String>()))
            };
            assert!(without("").is_ok(), "{path}: {:?}", without(""));
            for key in keys {
                assert!(without(key).is_err(), "{path} without {key}");
            }
        }
    }

    #[test]
    fn every_key_is_described() {
        let root = schema();
        let mut bare = Vec::new();
        for (key, own) in root["properties"].as_object().unwrap() {
            let is_described =
                own["description"].is_string() || own["items"]["description"].is_string();
            if !is_described {
                bare.push(key.as_str());
            }
        }
        // Their keys are described one by one.
        assert_eq!(bare, ["session", "channel", "tunnel"]);
        assert!(
            root["properties"]["port"]["description"]
                .as_str()
                .unwrap()
                .contains("0 lets the kernel choose")
        );
    }
}
