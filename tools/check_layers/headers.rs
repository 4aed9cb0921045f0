//! Headers of modules and items: they begin with the noun and its role ("Circuit table of a relay: …"), not with a question.

use super::Violation;

/// Words that headers do not begin with.
const QUESTIONS: &[&str] = &[
    "What", "Who", "Whom", "Whose", "How", "Which", "When", "Where", "Whether", "Why",
];

/// Largest share of item headers in a crate that may begin with one of them, in percent; of module headers none may.
const ITEMS_MAX_PERCENT: usize = 5;

/// Crates that have more, with the most headers of modules and of items that may begin so; the numbers only fall.
const EXEMPT: &[(&str, usize, usize)] = &[];

/// Headers of one crate, and those that begin with a question word.
#[derive(Debug, Default)]
pub(super) struct Tally {
    items: usize,
    item_questions: usize,
    /// Places of module headers.
    module_questions: Vec<String>,
}

impl Tally {
    /// Counts the headers of a file.
    pub(super) fn add(&mut self, place: &str, source: &str) {
        let mut before = "";
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
                self.item_questions += usize::from(is_question);
            } else if is_question {
                self.module_questions.push(format!("{place}: \"{text}\""));
            }
        }
    }

    /// Violations of the crate.
    pub(super) fn check(&self, name: &str) -> Vec<Violation> {
        let exempt = EXEMPT.iter().find(|(of, ..)| *of == name);
        let share = self.items * ITEMS_MAX_PERCENT / 100;
        let (modules_max, items_max) = exempt.map_or((0, share), |&(_, m, i)| (m, i.max(share)));
        let mut broken = Vec::new();
        let mut report = |words: String| {
            broken.push(Violation {
                place: name.to_owned(),
                words,
            });
        };
        if self.module_questions.len() > modules_max {
            report(format!(
                "{} module headers begin with a question word, at most {modules_max}; begin with the noun: {}",
                self.module_questions.len(),
                self.module_questions.join(", ")
            ));
        }
        if self.item_questions > items_max {
            report(format!(
                "{} of {} item headers begin with a question word, at most {items_max}",
                self.item_questions, self.items
            ));
        }
        if exempt
            .is_some_and(|&(_, m, i)| self.module_questions.len() < m && self.item_questions < i)
        {
            report(format!(
                "{} module and {} item headers begin with a question word now: lower them in tools/check_layers/headers.rs",
                self.module_questions.len(),
                self.item_questions
            ));
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_begins_with_its_noun() {
        let mut tally = Tally::default();
        tally.add("a.rs", "//! Circuit table of a relay.\n//! What else.\n");
        assert!(tally.check("a").is_empty());
        tally.add("b.rs", "//! Who has which circuits.\n");
        assert_eq!(tally.check("a").len(), 1);
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
        assert!(tally.check("a").is_empty());
        tally.add("a.rs", "/// How long it is.\nfn f() {}\n");
        assert_eq!(tally.check("a").len(), 1);
    }
}
