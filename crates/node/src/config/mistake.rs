//! Mistakes in a configuration file, in words: the line, the key, the value, what is accepted, and the key that was probably meant.

use std::ops::Range;

use anabranch_base::text::nearest;

use super::ConfigError;

/// Keys that are listed where none is similar.
const KEYS_MAX: usize = 30;
/// All keys, each in its table; those that are comments there, too.
pub(super) const EXAMPLE: &str = include_str!("../../node.example.toml");

/// Error of a file that is not TOML, has an unknown key or a value of the wrong type.
pub(crate) fn syntax(text: &str, error: &toml::de::Error) -> ConfigError {
    let span = error.span();
    let place = span.as_ref().map(|span| line_at(text, span.start));
    let words = in_words(text, error.message(), span);
    ConfigError::Syntax(match place {
        Some(line) => format!("line {line}: {words}"),
        None => words,
    })
}

/// Number of the line in which the value of an error probably is.
pub(super) fn line_of(text: &str, key: &str, value: &str) -> Option<usize> {
    let mut parts = key.split('.');
    let last = parts.next_back()?;
    let in_table = parts.next_back();
    let mut table = "";
    let mut found: Option<(bool, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = header(line) {
            table = name;
        }
        let is_key =
            key_of(line) == Some(last) && in_table.is_none_or(|name| table.ends_with(name));
        let has_value = !value.is_empty() && line.contains(value);
        // The first one with the value; or else the first one with the key.
        if is_key && found.is_none_or(|(had_value, _)| has_value && !had_value) {
            found = Some((has_value, index + 1));
        }
    }
    found.map(|(_, line)| line)
}

pub(super) fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

/// Name in the header of a table, `[name]` or `[[name]]`.
pub(super) fn header(line: &str) -> Option<&str> {
    let line = line.trim().trim_start_matches('#').trim();
    let inner = line.strip_prefix('[')?.split(']').next()?;
    Some(inner.trim_start_matches('['))
}

/// Key of a line `key = value`, or of one that is a comment.
fn key_of(line: &str) -> Option<&str> {
    let line = line.trim().trim_start_matches('#');
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    is_key.then_some(key)
}

/// Table in which the text at a position is.
fn table_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let headers = before
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    headers.filter_map(header).next_back()
}

/// Key and value at a position; the key of a value that takes several lines is in an earlier one.
fn assignment_at(text: &str, span: &Range<usize>) -> Option<(String, String)> {
    let value = text.get(span.clone())?.trim();
    let before = text.get(..span.start)?;
    let (this, earlier) = match before.rfind('\n') {
        Some(at) => (&before[at + 1..], &before[..at]),
        None => (before, ""),
    };
    // The innermost one of tables in a line.
    let innermost = this.rsplit_once('=').map(|(before, _)| {
        let names = before.trim_end().rsplit(|c| " {,".contains(c));
        names.into_iter().next().unwrap_or_default()
    });
    let key = innermost.or_else(|| earlier.lines().rev().find_map(key_of))?;
    Some((key.to_owned(), value.to_owned()))
}

/// Names in backquotes.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

pub(super) fn in_words(text: &str, message: &str, span: Option<Range<usize>>) -> String {
    let message = message.trim_end();
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let names = quoted(rest);
        if let [wrong, known @ ..] = &names[..] {
            let table = span.and_then(|span| table_at(text, span.start));
            return unknown(wrong, known, table);
        }
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let names = quoted(rest);
        if let [wrong, known @ ..] = &names[..] {
            return format!("'{wrong}' is not known here{}", meant(wrong, known));
        }
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        let name = quoted(rest).first().copied().unwrap_or_default().to_owned();
        let at = span.as_ref().map_or(0, |span| span.start);
        let table = text.get(at..).and_then(|rest| header(rest.lines().next()?));
        return match table {
            Some(table) => format!("[{table}] lacks the key '{name}'"),
            None => format!("the key '{name}' is missing"),
        };
    }
    if message == "duplicate key" {
        let name = span.and_then(|span| text.get(span)).unwrap_or_default();
        return format!("the key '{name}' is there twice");
    }
    for kind in ["invalid type: ", "invalid value: ", "invalid length "] {
        let Some((got, wanted)) = message
            .strip_prefix(kind)
            .and_then(|rest| rest.split_once(", expected "))
        else {
            continue;
        };
        let wanted = expected(wanted);
        return match span.and_then(|span| assignment_at(text, &span)) {
            Some((key, value)) => format!("{key} = {value}: expected {wanted}"),
            None => format!("expected {wanted}, not {}", given(got)),
        };
    }
    message.to_owned()
}

fn unknown(wrong: &str, known: &[&str], table: Option<&str>) -> String {
    let place = match table {
        Some(table) => format!(" in [{table}]"),
        None => String::new(),
    };
    let start = format!("there is no key '{wrong}'{place}");
    if nearest(wrong, known.iter().copied()).is_some() {
        return format!("{start}{}", meant(wrong, known));
    }
    // It may be one of another table.
    let mut homes: Vec<&str> = Vec::new();
    let mut current = "";
    for line in EXAMPLE.lines() {
        if let Some(name) = header(line) {
            current = name;
        }
        if key_of(line) == Some(wrong) && !homes.contains(&current) {
            homes.push(current);
        }
    }
    if !homes.is_empty() {
        let names: Vec<String> = homes
            .iter()
            .map(|home| match *home {
                "" => "the beginning of the file, before the first [table]".to_owned(),
                home => format!("[{home}]"),
            })
            .collect();
        return format!("{start}; its place is {}", names.join(" or "));
    }
    format!("{start}{}", meant(wrong, known))
}

/// The one that was probably meant, or all that there are.
fn meant(wrong: &str, known: &[&str]) -> String {
    match (nearest(wrong, known.iter().copied()), known.len()) {
        (Some(near), _) => format!("; did you mean '{near}'?"),
        (None, 0) => String::new(),
        (None, 1..=KEYS_MAX) => format!("; there are {}", known.join(", ")),
        (None, _) => "; see node.example.toml".to_owned(),
    }
}

/// Words for the kind of value that serde expects.
fn expected(wanted: &str) -> String {
    let words = match wanted {
        "a sequence" => "a list, such as [\"one\", \"two\"]",
        "a boolean" => "true or false",
        "a string" | "string" | "a formatted path" | "path string" => "a text in quotes",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a map" => "a table",
        "a nonzero u8" | "a nonzero u16" | "a nonzero u32" | "a nonzero u64"
        | "a nonzero usize" => "a whole number above 0",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    words.to_owned()
}

/// Words for the value that serde got.
fn given(got: &str) -> String {
    match got {
        "sequence" => "a list".to_owned(),
        "map" => "a table".to_owned(),
        _ => match got.split_once(' ') {
            Some((_, value)) => value.trim_matches('`').to_owned(),
            None => got.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layer;
    use super::*;

    fn words(text: &str) -> String {
        Layer::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_names_the_one_that_was_meant() {
        assert_eq!(
            words("port = 1\nlistne = [\"127.0.0.1:0\"]\n"),
            "line 2: there is no key 'listne'; did you mean 'listen'?"
        );
        assert_eq!(
            words("policy = \"assign\"\n"),
            "line 1: there is no key 'policy'; its place is [session]"
        );
        assert_eq!(
            words("[session]\nport = 1\n"),
            "line 2: there is no key 'port' in [session]; its place is the beginning of the file, before the first [table]"
        );
        let text = words("[tunnel.client]\nzzz = 1\n");
        assert!(
            text.starts_with("line 2: there is no key 'zzz' in [tunnel.client]; there are peer, "),
            "{text}"
        );
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_named_with_what_is_accepted() {
        for (text, expected) in [
            (
                "listen = \"127.0.0.1:0\"",
                "line 1: listen = \"127.0.0.1:0\": expected a list, such as [\"one\", \"two\"]",
            ),
            (
                "\nport = 70000",
                "line 2: port = 70000: expected a whole number from 0 to 65535",
            ),
            (
                "port = \"x\"",
                "line 1: port = \"x\": expected a whole number from 0 to 65535",
            ),
            ("key = 5", "line 1: key = 5: expected a text in quotes"),
            (
                "listen = [\n  \"a\",\n  5,\n]",
                "line 3: listen = 5: expected a text in quotes",
            ),
            ("session = 5", "line 1: session = 5: expected a table"),
            (
                "[[peer]]\nname = \"x\"",
                "line 1: [peer] lacks the key 'node'",
            ),
            (
                "port = 1\nport = 2",
                "line 2: the key 'port' is there twice",
            ),
        ] {
            assert_eq!(words(text), expected);
        }
        let text = words("control = \"a.sock\n");
        assert!(text.starts_with("line 1: "), "{text}");
    }

    #[test]
    fn the_line_of_a_refused_value_is_found() {
        let text = "# listen = [\"x\"]\nport = 1\nlisten = [\"127.0.0.1\"]\n[[peer]]\nname = \"a b\"\n[[peer]]\nname = \"c d\"\n";
        assert_eq!(line_of(text, "listen", "127.0.0.1"), Some(3));
        assert_eq!(line_of(text, "peer.name", "c d"), Some(7));
        assert_eq!(line_of(text, "peer.name", ""), Some(5));
        assert_eq!(line_of(text, "cost.on", "x"), None);
    }

    /// Every message of the library that is translated here still has its form.
    #[test]
    fn no_word_of_the_library_is_left() {
        for text in [
            "port = 1.5",
            "allow = 5",
            "port = true",
            "peer = 5",
            "interfaces = 3",
        ] {
            let words = words(text);
            for word in [
                "invalid",
                "sequence",
                "u16",
                "struct",
                "expected one of",
                "field",
                "`",
            ] {
                assert!(!words.contains(word), "{text}: {words}");
            }
        }
    }
}
