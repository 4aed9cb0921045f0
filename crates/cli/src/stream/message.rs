//! Messages with header fields: those that a flag gives all of them, and those that a line of JSON gives one.

use std::io;

use anabranch::{Field, Outgoing};
use serde_json::{Map, Value, json};

/// Reads `NAME=VALUE`: a number, `true`, `false`, or a text, which may be in quotation marks.
pub(super) fn parse_field(text: &str) -> Result<(String, Field), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = parts.ok_or_else(|| format!("'{text}' is not of the form NAME=VALUE"))?;
    let quoted = value
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let field = match (quoted, value, value.parse::<f64>()) {
        (Some(text), ..) => Field::Text(text.to_owned()),
        (_, "true", _) => Field::Boolean(true),
        (_, "false", _) => Field::Boolean(false),
        (_, _, Ok(number)) if number.is_finite() => Field::Number(number),
        _ => Field::Text(value.to_owned()),
    };
    Ok((name.to_owned(), field))
}

/// Reads a line such as `{"data": "…", "fields": {"frame": "I"}, "importance": 2}`; all but `data` may be left out.
///
/// # Errors
/// The line is no such object.
pub(super) fn from_json(line: &[u8]) -> io::Result<Outgoing> {
    let wrong = |reason: &str| {
        let line = String::from_utf8_lossy(line);
        let shown: String = line.chars().take(60).collect();
        io::Error::other(format!("'{shown}': {reason}"))
    };
    let value: Value = serde_json::from_slice(line).map_err(|error| wrong(&error.to_string()))?;
    let Value::Object(object) = value else {
        return Err(wrong(
            r#"give an object, such as {"data": "…", "fields": {"frame": "I"}}"#,
        ));
    };
    let mut outgoing = Outgoing::default();
    for (key, value) in object {
        match (key.as_str(), value) {
            ("data", Value::String(text)) => outgoing.data = text.into_bytes().into(),
            ("fields", Value::Object(fields)) => {
                outgoing.fields = fields_of(fields).map_err(|reason| wrong(&reason))?;
            }
            ("importance", Value::Number(number)) => {
                let importance = number.as_u64().and_then(|number| number.try_into().ok());
                outgoing.importance = importance.ok_or_else(|| wrong("importance is 0 to 255"))?;
            }
            ("data" | "fields" | "importance", _) => {
                return Err(wrong(
                    "data is a text, fields are an object, importance is a number",
                ));
            }
            (key, _) => {
                return Err(wrong(&format!(
                    "there is no '{key}'; give data, fields and importance"
                )));
            }
        }
    }
    if outgoing.data.is_empty() {
        return Err(wrong("data must not be missing or empty"));
    }
    Ok(outgoing)
}

fn fields_of(object: Map<String, Value>) -> Result<Vec<(String, Field)>, String> {
    let field = |(name, value)| {
        let field = match value {
            Value::String(text) => Field::Text(text),
            Value::Bool(truth) => Field::Boolean(truth),
            Value::Number(number) => Field::Number(number.as_f64().unwrap_or(f64::NAN)),
            _ => {
                return Err(format!(
                    "the field '{name}' is a number, true, false or a text"
                ));
            }
        };
        Ok((name, field))
    };
    object.into_iter().map(field).collect()
}

/// The line for a message that arrived. Bytes that are no text are replaced.
pub(super) fn to_json(data: &[u8]) -> String {
    json!({ "data": String::from_utf8_lossy(data) }).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_have_the_type_of_their_value() {
        for (text, field) in [
            ("frame=I", Field::Text("I".to_owned())),
            ("n=-1.5", Field::Number(-1.5)),
            ("n=\"1\"", Field::Text("1".to_owned())),
            ("key=true", Field::Boolean(true)),
            ("x=a=b", Field::Text("a=b".to_owned())),
            ("x=inf", Field::Text("inf".to_owned())),
        ] {
            let (_, found) = parse_field(text).unwrap();
            assert_eq!(found, field, "{text}");
        }
        for wrong in ["frame", "=I", ""] {
            assert!(parse_field(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lines_of_json_are_read() {
        let line =
            br#"{"data": "x", "fields": {"frame": "I", "n": 2, "key": true}, "importance": 7}"#;
        let read = from_json(line).unwrap();
        assert_eq!((&read.data[..], read.importance), (&b"x"[..], 7));
        assert_eq!(read.fields.len(), 3);
        assert!(read.fields.contains(&("n".to_owned(), Field::Number(2.0))));
        assert_eq!(from_json(br#"{"data": "x"}"#).unwrap(), "x".into());
        for (wrong, words) in [
            ("x", "'x'"),
            ("[]", "give an object"),
            ("{}", "missing or empty"),
            (r#"{"data": 3}"#, "data is a text"),
            (r#"{"data": "x", "importance": 256}"#, "0 to 255"),
            (r#"{"data": "x", "fields": {"a": []}}"#, "the field 'a'"),
            (r#"{"data": "x", "field": {}}"#, "no 'field'"),
        ] {
            let error = from_json(wrong.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in any::<Vec<u8>>(), text in "\\PC+") {
            let _ = from_json(&line);
            let _ = parse_field(&text);
            prop_assert_eq!(&from_json(to_json(text.as_bytes()).as_bytes()).unwrap().data[..], text.as_bytes());
        }
    }
}
