//! Text from a peer, made safe to display.
//!
//! A name, a label or a reason that a peer chose may contain control characters, which a terminal obeys, or direction
//! marks, which make one text read as another. [`printable`] is the one function that such text passes through before
//! it is displayed or put into an error. [`nearest`] finds the name that was meant by a misspelt one.

/// Number of characters shown of a peer's reason.
pub const REASON_CHARS: usize = 300;

/// True if a terminal or renderer obeys the character instead of showing it: control characters, line separators,
/// direction marks and overrides, invisible tags, and invisible characters that no script needs.
pub const fn is_obeyed(c: char) -> bool {
    matches!(c,
        '\0'..='\x1f'
        | '\x7f'..='\u{9f}'
        | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}')
}

/// The text on one line: characters that are obeyed rather than shown are written as `\uXXXX` (UTF-16, as in JSON, so
/// that a JSON text keeps its meaning), and text beyond `chars_max` characters is replaced by `…`.
///
/// ```
/// use anabranch_base::text::printable;
///
/// assert_eq!(printable("full\x1b[2J", 100), "full\\u001b[2J");
/// assert_eq!(printable("naïve 文字", 5), "naïve…");
/// ```
pub fn printable(text: &str, chars_max: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(chars_max));
    for (count, c) in text.chars().enumerate() {
        if count == chars_max {
            shown.push('…');
            break;
        }
        push(&mut shown, c);
    }
    shown
}

/// Similarity above which a name was probably meant.
const SIMILAR: f64 = 0.8;

/// The one of the `known` names that was probably meant by a wrong one; `None` if none is similar. O(names).
///
/// ```
/// use anabranch_base::text::nearest;
///
/// let policies = ["default", "round_robin"];
/// assert_eq!(nearest("defualt", policies), Some("default"));
/// assert_eq!(nearest("x", policies), None);
/// ```
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILAR).then_some(best.1)
}

/// The same for text of several lines and any length, as a command prints it: line ends and tabs are kept.
pub fn printable_lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c => push(&mut shown, c),
        }
    }
    shown
}

fn push(shown: &mut String, c: char) {
    if !is_obeyed(c) {
        shown.push(c);
        return;
    }
    for unit in c.encode_utf16(&mut [0; 2]) {
        shown.push_str("\\u");
        for shift in [12, 8, 4, 0] {
            let digit = u32::from(*unit >> shift) & 0xf;
            shown.push(char::from_digit(digit, 16).expect("four bits are a digit"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_that_it_would_obey() {
        let hostile =
            "\x1b]0;title\x07 \u{9b}2J \u{202e}gpj.exe \u{2066}x\u{2069} a\nb\r \u{e0041}";
        let shown = printable(hostile, 1000);
        assert!(!shown.chars().any(is_obeyed), "{shown:?}");
        assert!(shown.contains("\\u001b]0;title\\u0007"));
        assert!(shown.contains("\\u202egpj.exe"));
        assert!(shown.contains("\\udb40\\udc41"));
        assert!(
            !printable_lines(hostile)
                .replace('\n', "")
                .chars()
                .any(is_obeyed)
        );
    }

    #[test]
    fn what_people_write_stays() {
        for text in [
            "film.mp4",
            "größer 文字 עברית",
            "👩\u{200d}💻",
            "می\u{200c}خواهم",
        ] {
            assert_eq!(printable(text, 1000), text);
        }
        assert_eq!(printable_lines("a\n\tb"), "a\n\tb");
    }

    #[test]
    fn a_long_text_is_cut() {
        let shown = printable(&"é".repeat(1 << 20), REASON_CHARS);
        assert_eq!(shown.chars().count(), REASON_CHARS + 1);
        assert!(shown.ends_with('…'));
    }
}
