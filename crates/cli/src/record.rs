//! `anabranch record`: the transcript of a session of a running node, in a file.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    base::{duration, ids::decode_base32, size},
    control::Request,
};
use serde_json::json;
use tempfile::NamedTempFile;
use tokio::time;

use crate::{
    bytes, control,
    exit::{Failure, Outcome, print_line, stopped},
};

/// Memory of a recording, unless it is given.
const MEMORY_BYTES: u64 = 32 << 20;
/// Interval between two looks at the size.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A transcript has the inputs and decisions of the scheduling policy, sizes, times and outcomes of packets, and labels of streams; nothing of \
what was sent. If it does not fit the memory, its latest part is written. `anabranch lab replay FILE` repeats the decisions; \
docs/replay.md.")]
pub(crate) struct Arguments {
    /// File to write.
    file: PathBuf,
    /// The session, such as session-0, if there are several.
    #[arg(long)]
    session: Option<String>,
    /// Time to record [default: until Ctrl-C].
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    time: Option<Duration>,
    /// Write what the node has recorded already, by the key `transcript` of its configuration.
    #[arg(long, conflicts_with_all = ["time", "memory"])]
    last: bool,
    /// Memory in the node, 64 KiB to 32 MiB [default: 32 MiB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Print the result as a line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: control::Node,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let time = duration::parse(text).map_err(|error| error.to_string())?;
    match time.is_zero() {
        true => Err("give more than 0".to_owned()),
        false => Ok(time),
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    size::parse(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(arguments: &Arguments) -> Outcome {
    let place = arguments.node.place().await?;
    let path = &arguments.file;
    let of_file =
        |error: io::Error| Failure::file(format!("cannot write {}: {error}", path.display()));
    // Before the recording, which would be lost.
    let draft = draft_of(path).map_err(of_file)?;
    let session = || arguments.session.clone();
    if !arguments.last {
        let begin = Request::Record {
            session: session(),
            bytes: arguments.memory.unwrap_or(MEMORY_BYTES),
        };
        let answer = control::ask_at(&place, &begin).await?;
        let row = control::rows(&answer).first();
        let begun = row.and_then(|row| row["session"].as_str());
        let begun = begun.unwrap_or("the session");
        wait(&place, begun, arguments).await;
    }
    let request = Request::Transcript { session: session() };
    let answer = control::ask_at(&place, &request).await?;
    if !arguments.last {
        let end = Request::Record {
            session: session(),
            bytes: 0,
        };
        control::ask_at(&place, &end).await?;
    }
    let row = control::rows(&answer).first();
    let file = row.and_then(|row| decode_base32(row["base32"].as_str()?));
    let (Some(row), Some(file)) = (row, file) else {
        return Err(Failure::other("the node's answer is no transcript"));
    };
    write(draft, path, &file).map_err(of_file)?;
    if arguments.json {
        let line = json!({
            "session": row["session"],
            "peer": row["peer"],
            "file": path.display().to_string(),
            "bytes": file.len(),
        });
        return print_line(&line.to_string());
    }
    print_line(&format!(
        "{}: {} bytes of {}; repeat its decisions with: anabranch lab replay {}",
        path.display(),
        file.len(),
        row["session"].as_str().unwrap_or("the session"),
        path.display(),
    ))
}

/// Waits until the time is over, or the session, or Ctrl-C; shows on a terminal how far it is.
async fn wait(place: &Path, session: &str, arguments: &Arguments) {
    let until = match arguments.time {
        Some(time) => format!("for {}", duration::format(time)),
        None => "until Ctrl-C".to_owned(),
    };
    if !arguments.json {
        eprintln!("recording {session} {until}");
    }
    let is_shown = !arguments.json && io::stderr().is_terminal();
    let over = async {
        match arguments.time {
            Some(time) => time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => {}
        () = follow(place, session, is_shown) => {}
        _ = stopped() => {}
    }
    if is_shown {
        // Over the last progress, which has no end of line.
        eprint!("\r\x1b[K");
    }
}

/// Follows the size of the transcript, until there is none.
async fn follow(place: &Path, session: &str, is_shown: bool) {
    let begun = time::Instant::now();
    let size = Request::TranscriptSize {
        session: Some(session.to_owned()),
    };
    loop {
        time::sleep(PROGRESS_EVERY).await;
        let Ok(answer) = control::ask_at(place, &size).await else {
            return;
        };
        if is_shown && let Some(row) = control::rows(&answer).first() {
            let (seconds, recorded) = (begun.elapsed().as_secs(), bytes::of(row, "bytes"));
            eprint!("\r{seconds} s, {recorded}\x1b[K");
        }
    }
}

/// A file beside `path` that becomes it, readable by its owner only.
fn draft_of(path: &Path) -> io::Result<NamedTempFile> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
}

/// Writes a file in one step.
fn write(mut draft: NamedTempFile, path: &Path, bytes: &[u8]) -> io::Result<()> {
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    draft.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_refused_first_and_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        assert!(draft_of(&taken).is_err());
        assert!(draft_of(&folder.path().join("none/file")).is_err());
        let free = folder.path().join("free");
        let draft = draft_of(&free).unwrap();
        fs::create_dir_all(free.join("inner")).unwrap();
        assert!(write(draft, &free, b"x").is_err());
        fs::remove_dir_all(&free).unwrap();
        write(draft_of(&free).unwrap(), &free, b"x").unwrap();
        assert_eq!(fs::read(&free).unwrap(), b"x");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
