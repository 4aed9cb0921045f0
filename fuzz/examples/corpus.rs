//! Packs a folder of inputs into a file of text, and unpacks it again (`anabranch_fuzz::corpus`).
//!
//! ```text
//! corpus pack FOLDER FILE
//! corpus unpack FILE FOLDER
//! ```

use std::{fs, io, path::Path, process::ExitCode};

use anabranch_fuzz::corpus;

/// Limit on the text kept for a target, shortest inputs first; a run finds the inputs left out again.
const KEPT_BYTES: usize = 256 << 10;

fn pack(folder: &Path, file: &Path) -> io::Result<usize> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            inputs.push(fs::read(path)?);
        }
    }
    let text = corpus::write(inputs);
    let mut end = 0;
    let lines = text.split_inclusive('\n').take_while(|line| {
        end += line.len();
        end <= KEPT_BYTES
    });
    let kept: String = lines.collect();
    fs::write(file, &kept)?;
    Ok(kept.lines().count())
}

fn unpack(file: &Path, folder: &Path) -> io::Result<usize> {
    let text = fs::read_to_string(file)?;
    let wrong = |line| io::Error::other(format!("line {line} is not hexadecimal"));
    let inputs = corpus::read(&text).map_err(wrong)?;
    fs::create_dir_all(folder)?;
    for (number, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("kept-{number:05}")), input)?;
    }
    Ok(inputs.len())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["pack", folder, file] => pack(Path::new(folder), Path::new(file)),
        ["unpack", file, folder] => unpack(Path::new(file), Path::new(folder)),
        _ => {
            eprintln!("usage: corpus pack FOLDER FILE   or   corpus unpack FILE FOLDER");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(inputs) => {
            println!("{inputs}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("corpus: {error}");
            ExitCode::FAILURE
        }
    }
}
