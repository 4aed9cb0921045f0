//! Reasons of dependencies: each direct one has a line in `docs/dependencies.md`.

use super::{Dependency, Violation};

/// Names in the first column of the document's tables.
pub(super) fn names(document: &str) -> Vec<&str> {
    let rows = document.lines();
    rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect()
}

/// Dependencies of a manifest that are not among `names`.
pub(super) fn check(place: &str, of: &[Dependency], names: &[&str]) -> Vec<Violation> {
    let is_unknown = |dependency: &&Dependency| {
        let package = dependency.package.as_str();
        !package.starts_with("anabranch") && !names.contains(&package)
    };
    let report = |dependency: &Dependency| Violation {
        place: format!("{place}:{}", dependency.line),
        words: format!(
            "'{}' has no line in docs/dependencies.md: give its reason there, or do without it",
            dependency.package
        ),
    };
    of.iter().filter(is_unknown).map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_without_a_reason_is_refused() {
        let document = "| dependency | used by |\n|---|---|\n| `bytes` | most |\n";
        let manifest =
            "[dependencies]\nbytes.workspace = true\nanabranch-base = \"1\"\nleft-pad = \"1\"\n";
        let found = check(
            "Cargo.toml",
            &super::super::dependencies(manifest),
            &names(document),
        );
        let places: Vec<&str> = found
            .iter()
            .map(|violation| violation.place.as_str())
            .collect();
        assert_eq!(places, ["Cargo.toml:4"]);
    }
}
