//! Headers of modules and items: they begin with the noun and its role ("Circuit table of a relay: …"), not with a question.

use super::Violation;

/// Words that no module header begins with.
const QUESTIONS: &[&str] = &[
    "What", "Who", "Whom", "Whose", "How", "Which", "When", "Where", "Whether", "Why",
];

/// Largest share of item headers in a crate that may begin with one of them, in percent.
const ITEMS_MAX_PERCENT: usize = 5;

/// Headers of one crate.
#[derive(Debug, Default)]
pub(super) struct Tally {
    items: usize,
    questions: usize,
}

impl Tally {
    /// Counts the headers of a file; returns what is wrong with its module header.
    pub(super) fn add(&mut self, place: &str, source: &str) -> Option<Violation> {
        let mut before = "";
        let mut wrong = None;
        for line in source.lines().map(str::trim) {
            let header = ["//!", "///"].into_iter().find_map(|mark| {
                let text = line.strip_prefix(mark)?;
                (!before.starts_with(mark)).then_some((mark, text.trim()))
            });
            before = line;
            let Some((mark, text)) = header.filter(|(_, text)| !text.is_empty()) else {
                continue;
            };
            let first = text.split_whitespace().next().unwrap_or("");
            let is_question = QUESTIONS.contains(&first);
            if mark == "///" {
                self.items += 1;
                self.questions += usize::from(is_question);
            } else if is_question {
                wrong = Some(Violation {
                    place: place.to_owned(),
                    words: format!(
                        "the header begins with \"{first}\"; begin with the noun: \"{text}\""
                    ),
                });
            }
        }
        wrong
    }

    /// What is wrong with the item headers of the crate.
    pub(super) fn check(&self, name: &str) -> Option<Violation> {
        let is_wrong = self.questions * 100 > self.items * ITEMS_MAX_PERCENT;
        is_wrong.then(|| Violation {
            place: name.to_owned(),
            words: format!(
                "{} of {} item headers begin with a question word; at most {ITEMS_MAX_PERCENT} %",
                self.questions, self.items
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_begins_with_its_noun() {
        let mut tally = Tally::default();
        assert!(
            tally
                .add("a.rs", "//! Circuit table of a relay.\n//! What else.\n")
                .is_none()
        );
        assert!(tally.add("a.rs", "//! Who has which circuits.\n").is_some());
        assert!(tally.check("overlay").is_none());
    }

    #[test]
    fn few_items_begin_with_a_question() {
        let mut tally = Tally::default();
        for _ in 0..19 {
            tally.add(
                "a.rs",
                "/// Length of it.\n/// When it is long.\nfn f() {}\n",
            );
        }
        tally.add("a.rs", "/// How long it is.\nfn f() {}\n");
        assert!(tally.check("overlay").is_none());
        tally.add("a.rs", "/// How long it is.\nfn f() {}\n");
        assert!(tally.check("overlay").is_some());
    }
}
