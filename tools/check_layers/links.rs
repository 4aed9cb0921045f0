//! Links of Markdown documents: every relative one leads to a file or folder of the repository, and its fragment to a heading there.

use super::Violation;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that hold no documents of ours.
const SKIPPED: &[&str] = &["target", "node_modules", "lab-report"];

/// Contents of a file by its path from the root; empty for a folder, `None` where there is nothing.
type Read<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Targets of the links in `page` with their lines, those in code left out.
fn targets(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in page.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let is_span = line[..at].matches('`').count() % 2 == 1;
            let rest = &line[at + 2..];
            if let Some(end) = rest.find(')')
                && !is_span
            {
                found.push((index + 1, &rest[..end]));
            }
        }
    }
    found
}

/// Fragments that lead to the headings of `page`, as GitHub forms them.
fn fragments(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if is_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let again = found.iter().filter(|other| **other == slug).count();
        found.push(if again == 0 {
            slug
        } else {
            format!("{slug}-{again}")
        });
    }
    found
}

/// Path from the root of `target` in the document `place`; `None` outside of the repository.
fn resolve(place: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = place.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Number of relative links in the document `place`, and those that lead nowhere.
pub(super) fn check(place: &str, page: &str, read: Read<'_>) -> (usize, Vec<Violation>) {
    let mut broken = Vec::new();
    let mut links = 0;
    for (line, target) in targets(page) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        links += 1;
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let mut report = |words: String| {
            broken.push(Violation {
                place: format!("{place}:{line}"),
                words,
            });
        };
        let linked = if path.is_empty() {
            Some(page.to_owned())
        } else {
            resolve(place, path).and_then(|path| read(&path))
        };
        let Some(linked) = linked else {
            report(format!("the link '{target}' leads to no file: correct it"));
            continue;
        };
        let is_page = path.is_empty() || path.ends_with(".md");
        if is_page && !fragment.is_empty() && !fragments(&linked).iter().any(|f| f == fragment) {
            report(format!(
                "the link '{target}' leads to no heading: correct what follows '#'"
            ));
        }
    }
    (links, broken)
}

/// Documents under `folder`, those of hidden folders aside, in a stable order.
fn documents(folder: &Path, into: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                documents(&path, into);
            }
        } else if name.ends_with(".md") {
            into.push(path);
        }
    }
}

/// The same for every document of the repository.
pub(super) fn check_all(root: &Path) -> std::io::Result<(usize, Vec<Violation>)> {
    let read = |path: &str| {
        let path = root.join(path);
        if path.is_dir() {
            return Some(String::new());
        }
        let bytes = fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut pages = Vec::new();
    documents(root, &mut pages);
    let (mut links, mut broken) = (0, Vec::new());
    for page in pages {
        let place = page
            .strip_prefix(root)
            .unwrap_or(&page)
            .display()
            .to_string();
        let (count, found) = check(&place, &fs::read_to_string(&page)?, &read);
        links += count;
        broken.extend(found);
    }
    Ok((links, broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links and broken ones of a document in `docs/`, in a repository of three files.
    fn found(page: &str) -> (usize, usize) {
        let read = |path: &str| match path {
            "README.md" => Some("# A\n## The `b_c`: d, e\n## Twice\n## Twice\n".to_owned()),
            "docs/loop.svg" | "docs" => Some(String::new()),
            _ => None,
        };
        let (links, broken) = check("docs/page.md", page, &read);
        (links, broken.len())
    }

    #[test]
    fn a_link_that_leads_nowhere_is_refused() {
        assert_eq!(found("[a](../README.md), [`b`](loop.svg), [c](.)"), (3, 0));
        for page in [
            "[a](README.md)",
            "![a](../loop.svg)",
            "[a](../../README.md)",
            "[`a`](missing.md)",
        ] {
            assert_eq!(found(page), (1, 1), "{page}");
        }
    }

    #[test]
    fn a_fragment_names_a_heading() {
        let page = "# Here it is\n[a](#here-it-is) [b](../README.md#the-b_c-d-e) [c](../README.md#twice-1)";
        assert_eq!(found(page), (3, 0));
        assert_eq!(found("[a](../README.md#the-bc)"), (1, 1));
        assert_eq!(found("```text\n# Code\n```\n[a](#code)"), (1, 1));
    }

    #[test]
    fn addresses_and_code_are_no_links() {
        for page in [
            "[a](https://example.org/x.md)",
            "```text\n[a](missing.md)\n```",
            "`[a](missing.md)`",
        ] {
            assert_eq!(found(page), (0, 0), "{page}");
        }
    }
}
