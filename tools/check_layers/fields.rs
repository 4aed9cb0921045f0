//! Field counts of structs in the engine: a struct with too many is a hidden centre, even if its methods are spread over twelve
//! files.

use super::Violation;

/// Limit on the fields of a struct in a crate of the engine.
const FIELDS_MAX: usize = 20;

/// Structs that may have more, with their limits; a limit may only fall. A published algorithm keeps the state that its text
/// names.
const EXEMPT: &[(&str, &str, usize, &str)] = &[(
    "crates/channel/src/control/bbr3/mod.rs",
    "Bbr3",
    34,
    "draft-ietf-ccwg-bbr names its state",
)];

/// Names of structs and their field counts, in the order of the file. `code` has no comments and no literals.
fn counts(code: &str) -> Vec<(String, usize)> {
    let mut counts = Vec::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some(name) = name_of(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let body = lines.by_ref().take_while(|line| {
            let is_end = line.trim() == "}" && line.len() - line.trim_start().len() == indent;
            !is_end
        });
        let is_field = |line: &&str| {
            let depth = line.len() - line.trim_start().len();
            depth == indent + 4 && is_field(line.trim_start())
        };
        counts.push((name, body.filter(is_field).count()));
    }
    counts
}

/// Name of a struct with named fields that begins in this line, as rustfmt writes it.
fn name_of(line: &str) -> Option<String> {
    let (before, rest) = line.split_once("struct ")?;
    let is_item = before.trim().is_empty() || before.trim_start().starts_with("pub");
    if !is_item || !line.trim_end().ends_with('{') {
        return None;
    }
    let name: String = rest
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!name.is_empty()).then_some(name)
}

/// True for `name: Type`, perhaps behind `pub` or `pub(…)`.
fn is_field(text: &str) -> bool {
    let text = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, rest)| rest),
        Some(rest) if rest.starts_with(' ') => rest,
        _ => text,
    };
    let name = text.trim_start();
    let end = name
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(name.len());
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    is_name && name[end..].starts_with(':') && !name[end..].starts_with("::")
}

/// Structs of a file that have too many fields.
pub(super) fn check(place: &str, code: &str) -> Vec<Violation> {
    let exempt = |of: &str| {
        let mut all = EXEMPT.iter();
        all.find(|(file, one, ..)| *file == place && *one == of)
    };
    let mut broken = Vec::new();
    for (of, fields) in counts(code) {
        let what = match exempt(&of) {
            None if fields > FIELDS_MAX => {
                format!("struct {of} has {fields} fields; at most {FIELDS_MAX}: divide it")
            }
            Some((.., most, _)) if fields > *most => {
                format!("struct {of} has {fields} fields; at most {most}, and fewer with time")
            }
            Some((.., most, _)) if fields < *most => {
                format!(
                    "struct {of} has {fields} fields now: lower its {most} in tools/check_layers/fields.rs"
                )
            }
            _ => continue,
        };
        broken.push(Violation {
            place: place.to_owned(),
            words: what,
        });
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_fields(name: &str, count: usize) -> String {
        let fields: String = (0..count)
            .map(|n| format!("    pub(crate) f{n}: std::vec::Vec<u8>,\n"))
            .collect();
        format!(
            "#[derive(Debug)]\npub struct {name}<'a> {{\n{fields}}}\n\nimpl X {{ fn f(a: u8) {{}} }}\n"
        )
    }

    const BBR3: &str = "crates/channel/src/control/bbr3/mod.rs";

    #[test]
    fn a_hidden_centre_is_refused() {
        assert!(check("a.rs", &of_fields("Session", 20)).is_empty());
        assert_eq!(check("a.rs", &of_fields("Session", 21)).len(), 1);
    }

    #[test]
    fn an_exemption_only_falls() {
        assert!(check(BBR3, &of_fields("Bbr3", 34)).is_empty());
        assert_eq!(check(BBR3, &of_fields("Bbr3", 35)).len(), 1);
        assert_eq!(check(BBR3, &of_fields("Bbr3", 33)).len(), 1);
        assert_eq!(check("a.rs", &of_fields("Bbr3", 34)).len(), 1);
    }

    #[test]
    fn tuples_and_inner_structs_are_counted_apart() {
        let text = format!(
            "struct Id(u64);\nmod inner {{\n    struct A {{\n        a: u8,\n    }}\n}}\n{}",
            of_fields("B", 2)
        );
        let found = counts(&text);
        assert_eq!(found, [("A".to_owned(), 1), ("B".to_owned(), 2)]);
    }
}
