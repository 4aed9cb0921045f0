//! Numbers with a unit, as people write them.

/// Splits a text into its decimal number and the unit after it, without the space around them; either may be empty.
///
/// ```
/// use anabranch_base::unit::split;
///
/// assert_eq!(split(" 1.5 Mbit/s"), ("1.5", "Mbit/s"));
/// assert_eq!(split("20"), ("20", ""));
/// ```
pub fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim())
}
