//! Patterns of paths that are not sent.

/// A pattern that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{pattern}' is not a pattern of paths: {reason}; write a name such as '*.tmp', or a path below the source such as 'build/**'"
)]
pub struct PatternError {
    pattern: String,
    reason: &'static str,
}

/// Patterns of paths below a source, none of which is sent. By default none.
///
/// `*` stands for any characters of a name, `?` for one, and `**` for any number of whole names. A pattern without `/` applies to
/// names at every depth, one with `/` to paths below the source. With a directory, everything in it is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclude(Vec<Vec<String>>);

impl Exclude {
    /// Reads patterns.
    ///
    /// # Errors
    /// A pattern is empty, or leads out of the source.
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, PatternError> {
        let patterns = patterns.into_iter().map(|pattern| {
            let refuse = |reason| {
                Err(PatternError {
                    pattern: pattern.to_owned(),
                    reason,
                })
            };
            let trimmed = pattern.strip_suffix('/').unwrap_or(pattern);
            let anchored = trimmed.strip_prefix('/');
            let path = anchored.unwrap_or(trimmed);
            let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
            if parts.iter().any(String::is_empty) {
                return refuse("a part of it is empty");
            }
            if parts.iter().any(|part| part == "." || part == "..") {
                return refuse("no path contains '.' or '..'");
            }
            if anchored.is_none() && parts.len() == 1 {
                parts.insert(0, "**".to_owned());
            }
            Ok(parts)
        });
        patterns.collect::<Result<_, _>>().map(Self)
    }

    /// True if nothing at this path below the source is sent. Parts are joined by `/`.
    pub(super) fn matches(&self, path: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let names: Vec<&str> = path.split('/').collect();
        self.0.iter().any(|pattern| fits(pattern, &names))
    }
}

/// Work grows with the product of both lengths: `reached[n]` is true if the pattern so far fits the first `n` of what it is matched
/// with.
fn reach<Part, Of>(
    pattern: impl Iterator<Item = Part>,
    all: &[Of],
    is_many: impl Fn(&Part) -> bool,
    is_one: impl Fn(&Part, &Of) -> bool,
) -> bool {
    let mut reached = vec![false; all.len() + 1];
    reached[0] = true;
    for part in pattern {
        if is_many(&part) {
            let first = reached.iter().position(|&is_so| is_so);
            if let Some(first) = first {
                reached[first..].fill(true);
            }
            continue;
        }
        for n in (0..all.len()).rev() {
            reached[n + 1] = reached[n] && is_one(&part, &all[n]);
        }
        reached[0] = false;
    }
    reached[all.len()]
}

fn fits(pattern: &[String], names: &[&str]) -> bool {
    let is_one = |part: &&String, name: &&str| {
        let characters: Vec<char> = name.chars().collect();
        reach(
            part.chars(),
            &characters,
            |&c| c == '*',
            |&c, &of| c == '?' || c == of,
        )
    };
    reach(pattern.iter(), names, |part| *part == "**", is_one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn excluded(pattern: &str, path: &str) -> bool {
        Exclude::parse([pattern]).unwrap().matches(path)
    }

    #[test]
    fn names_match_everywhere_and_paths_from_the_source() {
        for (pattern, path) in [
            ("*.tmp", "a.tmp"),
            ("*.tmp", "deep/down/.tmp"),
            ("target", "a/target"),
            ("target/", "target"),
            ("a?c", "x/aöc"),
            ("build/**", "build/x"),
            ("build/**", "build"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z"),
            ("/top", "top"),
            ("a/*", "a/b"),
            ("*a*b*", "xxaxxbxx"),
        ] {
            assert!(excluded(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*.tmp", "a.tmpx"),
            ("/top", "a/top"),
            ("a/*", "a/b/c"),
            ("a/*", "x/a/b"),
            ("a?c", "ac"),
        ] {
            assert!(!excluded(pattern, path), "{pattern} {path}");
        }
        assert!(!Exclude::default().matches("x"));
        for bad in ["", "/", "a//b", "../x", "a/./b"] {
            assert!(Exclude::parse([bad]).is_err(), "{bad}");
        }
    }

    proptest! {
        /// A name fits itself, and anything fits what it begins and ends with around a star.
        #[test]
        fn a_star_stands_for_anything(a in "[a-z]{0,9}", b in "[a-z]{0,9}", c in "[a-z]{0,9}") {
            let name = format!("x{a}{b}{c}");
            prop_assert!(excluded(&name, &name));
            let (around, longer) = (format!("x{a}*{c}"), format!("x{a}*{c}0"));
            prop_assert!(excluded(&around, &name));
            prop_assert!(!excluded(&longer, &name));
        }
    }
}
