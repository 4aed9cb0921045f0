//! Private decoders, for `fuzz/`.

/// A line of a note: what is read is written as it was understood.
pub fn note_line(text: &str) {
    crate::sink::fuzz_note(text);
}
