//! Words of a pipeline's text.

use std::{ops::Range, str::FromStr};

use super::{At, suggestion};

/// Word that separates steps.
const THEN: &str = "then";

/// A word, a string, or a comma, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    Plain(&'a str),
    Quoted(&'a str),
    Comma,
}

/// Places of the steps in a text, without the words between them.
pub(super) fn segments(text: &str) -> Result<Vec<Range<usize>>, At> {
    let is_of_word =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':') || byte >= 0x80;
    let bytes = text.as_bytes();
    let (mut found, mut start, mut at, mut quote) = (Vec::new(), 0, 0, None);
    while at < bytes.len() {
        if bytes[at] == b'"' {
            quote = if quote.is_some() { None } else { Some(at) };
        }
        let is_free = |byte: Option<&u8>| byte.is_none_or(|&byte| !is_of_word(byte));
        let end = at + THEN.len();
        if quote.is_none()
            && bytes[at..].starts_with(THEN.as_bytes())
            && is_free(bytes.get(end))
            && is_free(at.checked_sub(1).and_then(|before| bytes.get(before)))
        {
            found.push(start..at);
            start = end;
            at = end;
        } else {
            at += 1;
        }
    }
    if let Some(open) = quote {
        return Err(At::new(
            open,
            "this quotation mark is not closed; add another one",
        ));
    }
    found.push(start..text.len());
    Ok(found)
}

/// Reader of the words of one step.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, segment: Range<usize>) -> Self {
        let mut reader = Self {
            text,
            at: segment.start,
            end: segment.end,
        };
        reader.skip_space();
        reader
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..self.end];
        self.at = self.end - rest.trim_start().len();
    }

    /// Place of the next word.
    pub(super) fn place(&self) -> usize {
        self.at
    }

    /// Everything up to the end of the step.
    pub(super) fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..self.end];
        self.at = self.end;
        rest.trim_end()
    }

    pub(super) fn peek(&self) -> Option<Word<'a>> {
        self.clone().next()
    }

    pub(super) fn next(&mut self) -> Option<Word<'a>> {
        let rest = &self.text[self.at..self.end];
        let first = rest.chars().next()?;
        let (word, length) = match first {
            ',' => (Word::Comma, 1),
            '"' => {
                let close = rest[1..].find('"').unwrap_or(rest.len() - 1);
                (
                    Word::Quoted(&rest[1..1 + close]),
                    (close + 2).min(rest.len()),
                )
            }
            _ => {
                let is_end = |letter: char| letter.is_whitespace() || matches!(letter, ',' | '"');
                let length = rest.find(is_end).unwrap_or(rest.len());
                (Word::Plain(&rest[..length]), length)
            }
        };
        self.at += length;
        self.skip_space();
        Some(word)
    }

    /// Error at the next word, where `wanted` was expected.
    pub(super) fn unexpected(&self, wanted: &str) -> At {
        let found = match self.peek() {
            None => "the step ends".to_owned(),
            Some(Word::Comma) => "there is a comma".to_owned(),
            Some(Word::Plain(word)) => format!("there is \"{word}\""),
            Some(Word::Quoted(text)) => format!("there is the string \"{text}\""),
        };
        At::new(self.at, format!("{found} where {wanted} must stand"))
    }

    /// One of the words.
    pub(super) fn one_of(
        &mut self,
        words: &[&'static str],
        kind: &str,
    ) -> Result<&'static str, At> {
        let (place, next) = (self.at, self.peek());
        let Some(Word::Plain(word)) = next else {
            return Err(self.unexpected(&format!("{kind}: {}", words.join(", "))));
        };
        let known = words.iter().find(|known| **known == word);
        let unknown = || {
            At::new(
                place,
                format!("there is no {kind} \"{word}\"{}", suggestion(word, words)),
            )
        };
        let known = known.ok_or_else(unknown)?;
        self.next();
        Ok(known)
    }

    /// True, and the word is read, if it is the next.
    pub(super) fn accept(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(Word::Plain(word));
        if is_next {
            self.next();
        }
        is_next
    }

    /// A number that `is_valid`; `wanted` states its range.
    pub(super) fn number<T: FromStr + Copy>(
        &mut self,
        wanted: &str,
        is_valid: impl Fn(T) -> bool,
    ) -> Result<T, At> {
        let number = match self.peek() {
            Some(Word::Plain(word)) => word.parse().ok().filter(|number| is_valid(*number)),
            _ => None,
        };
        let number = number.ok_or_else(|| self.unexpected(wanted))?;
        self.next();
        Ok(number)
    }

    /// Nothing may follow.
    pub(super) fn end(&self, wanted: &str) -> Result<(), At> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected(wanted)),
        }
    }
}
