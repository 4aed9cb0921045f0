//! Short texts, such as an address or a command, that travel as files (`send --text`).
//!
//! A text is a file with a name of its own form, `text-abcdefgh.txt`, so that every receiver keeps it, and a present one shows it.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Longest text, in bytes.
pub const TEXT_BYTES_MAX: u64 = 16 << 10;

const BEGINNING: &str = "text-";
const END: &str = ".txt";
/// Letters of a name between its beginning and its end.
const LETTERS: usize = 8;

/// Name for a text, new with every call.
///
/// # Errors
/// The operating system provides no random numbers.
pub fn new_name() -> io::Result<String> {
    let mut random = [0; LETTERS];
    getrandom::fill(&mut random).map_err(io::Error::from)?;
    let letters = random.iter().map(|byte| char::from(b'a' + byte % 26));
    let letters: String = letters.collect();
    Ok(format!("{BEGINNING}{letters}{END}"))
}

/// True if a transfer of this name is a text.
pub fn is_text(name: &str) -> bool {
    let letters = name
        .strip_prefix(BEGINNING)
        .and_then(|rest| rest.strip_suffix(END));
    letters.is_some_and(|letters| {
        letters.len() == LETTERS && letters.bytes().all(|byte| byte.is_ascii_lowercase())
    })
}

/// The text in a file that was received; `None` if the file is none. It is a peer's: it must be made safe before it is displayed.
pub fn read(path: &Path) -> Option<String> {
    let is_named = path.file_name()?.to_str().is_some_and(is_text);
    let file = File::open(path).ok().filter(|_| is_named)?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (text.len() as u64 <= TEXT_BYTES_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_by_its_name_and_size() {
        let folder = tempfile::tempdir().unwrap();
        let name = new_name().unwrap();
        assert!(is_text(&name), "{name}");
        assert_ne!(name, new_name().unwrap());
        let path = folder.path().join(&name);
        std::fs::write(&path, "https://example.org").unwrap();
        assert_eq!(read(&path).as_deref(), Some("https://example.org"));
        std::fs::write(&path, vec![b'x'; TEXT_BYTES_MAX as usize + 1]).unwrap();
        assert_eq!(read(&path), None);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read(&path), None);
        for other in [
            "text-abcdefgh.md",
            "text-ABCDEFGH.txt",
            "text-abc.txt",
            "notes.txt",
        ] {
            assert!(!is_text(other), "{other}");
        }
    }
}
