//! Inputs that reached new code during fuzzing, as text: `corpus/TARGET.hex`, one per line, shortest first.
//!
//! Text, so that a diff shows the additions of a run; one file, so that thousands of inputs do not become thousands of files.

use std::fmt::Write;

/// Inputs of a text.
///
/// # Errors
/// The number of the line that is not pairs of hexadecimal digits, from 1 on.
pub fn read(text: &str) -> Result<Vec<Vec<u8>>, usize> {
    let line = |(number, line): (usize, &str)| decode(line).ok_or(number);
    (1..).zip(text.lines()).map(line).collect()
}

fn decode(line: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = line.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |pair: &[u8; 2]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

/// Text of inputs: each once, in an order that depends on them alone.
pub fn write(mut inputs: Vec<Vec<u8>>) -> String {
    inputs.sort_unstable_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    inputs.dedup();
    let mut text = String::new();
    for input in inputs {
        for byte in input {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_inputs_are_read_back() {
        let inputs = vec![vec![0xff, 0x00], vec![], vec![7], vec![7]];
        let text = write(inputs);
        assert_eq!(text, "\n07\nff00\n");
        assert_eq!(read(&text), Ok(vec![vec![], vec![7], vec![0xff, 0x00]]));
    }

    #[test]
    fn invalid_text_is_refused() {
        assert_eq!(read("00\n0\n"), Err(2));
        assert_eq!(read("0g"), Err(1));
    }
}
