//! Suggestion of the word that was probably meant.

/// Length above which words are not compared.
const LETTERS_MAX: usize = 32;

/// Candidate nearest to `word`, if it is near: at most a quarter of its letters changed, or one.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = ((word.len() + 1) / 4).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .filter_map(|candidate| Some((distance(word, candidate)?, candidate)))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Edit distance: letters to insert, remove, replace, or swap with their neighbour (optimal string alignment), ignoring
/// case.
fn distance(a: &str, b: &str) -> Option<usize> {
    let lower = |text: &str| text.to_ascii_lowercase().into_bytes();
    let (a, b) = (lower(a), lower(b));
    if a.len() > LETTERS_MAX || b.len() > LETTERS_MAX {
        return None;
    }
    let mut rows = [[0usize; LETTERS_MAX + 1]; 3];
    for (column, cell) in rows[1].iter_mut().enumerate() {
        *cell = column;
    }
    for i in 1..=a.len() {
        // Three rows in rotation: the current one, the last, and the one before it.
        let (row, last, before) = ((i + 1) % 3, i % 3, (i + 2) % 3);
        rows[row][0] = i;
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut cell = (rows[last][j] + 1)
                .min(rows[row][j - 1] + 1)
                .min(rows[last][j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                cell = cell.min(rows[before][j - 2] + 1);
            }
            rows[row][j] = cell;
        }
    }
    Some(rows[(a.len() + 1) % 3][b.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        for (a, b, expected) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("latency", "latencey", 1),
            ("latency", "latnecy", 1),
            ("kitten", "sitting", 3),
            ("Stream_ID", "stream_id", 0),
        ] {
            assert_eq!(distance(a, b), Some(expected), "{a} {b}");
            assert_eq!(distance(b, a), Some(expected), "{b} {a}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let fields = ["stream_id", "stream_seq", "length"];
        assert_eq!(nearest("steam_id", fields), Some("stream_id"));
        assert_eq!(nearest("lenght", fields), Some("length"));
        assert_eq!(nearest("colour", fields), None);
        assert_eq!(nearest("x", fields), None);
    }
}
