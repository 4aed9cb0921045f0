//! Words of codes: 2,048 of them, the English list of BIP 39 (as in the crate `bip39`, CC0), sorted; no two begin with the same four
//! letters.

/// One word a line, sorted.
const LIST: &str = include_str!("words.txt");

/// Number of words.
pub(super) const COUNT: u16 = 2048;

/// The word with this number, which is below [`COUNT`].
pub(super) fn word(number: u16) -> &'static str {
    LIST.lines().nth(usize::from(number)).unwrap_or_default()
}

/// Number of a word, in lower case.
pub(super) fn number(word: &str) -> Option<u16> {
    let found = LIST.lines().position(|known| known == word)?;
    u16::try_from(found).ok()
}

/// The word that was probably meant.
pub(super) fn nearest(wrong: &str) -> Option<&'static str> {
    anabranch_base::text::nearest(wrong, LIST.lines())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_list_has_as_many_words_as_eleven_bits_count_and_no_two_are_alike() {
        let words: Vec<&str> = LIST.lines().collect();
        assert_eq!(words.len(), usize::from(COUNT));
        let beginnings: BTreeSet<&str> = words
            .iter()
            .map(|word| &word[..word.len().min(4)])
            .collect();
        assert_eq!(beginnings.len(), words.len());
        assert!(
            words
                .iter()
                .all(|word| word.bytes().all(|c| c.is_ascii_lowercase()))
        );
    }

    #[test]
    fn every_word_has_one_number() {
        for n in 0..COUNT {
            assert_eq!(number(word(n)), Some(n));
        }
        assert_eq!(number("anabranch"), None);
        assert_eq!(nearest("rivver"), Some("river"));
    }
}
