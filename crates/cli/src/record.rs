//! `anabranch record`: the transcript of a session of a running node, in a file.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    base::{duration, ids::decode_base32, size},
    control::Request,
};
use serde_json::json;
use tokio::time;

use crate::{
    control,
    exit::{Failure, Outcome, print_line, stopped},
};

/// Memory of a recording, unless it is given.
const MEMORY_BYTES: u64 = 32 << 20;

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
    let session = || arguments.session.clone();
    if !arguments.last {
        let begin = Request::Record {
            session: session(),
            bytes: arguments.memory.unwrap_or(MEMORY_BYTES),
        };
        let answer = control::ask_at(&place, &begin).await?;
        let row = control::rows(&answer).first();
        let begun = row.and_then(|row| row["session"].as_str());
        wait(
            arguments.time,
            begun.unwrap_or("the session"),
            arguments.json,
        )
        .await;
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
    let path = &arguments.file;
    write(path, &file).map_err(|error| Failure::file(format!("{}: {error}", path.display())))?;
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

/// Waits until the time is over, or Ctrl-C.
async fn wait(time: Option<Duration>, session: &str, is_quiet: bool) {
    if !is_quiet {
        let until = match time {
            Some(time) => format!("for {}", duration::format(time)),
            None => "until Ctrl-C".to_owned(),
        };
        eprintln!("recording {session} {until}");
    }
    let over = async {
        match time {
            Some(time) => time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => {}
        _ = stopped() => {}
    }
}

/// Writes a file in one step, readable by its owner only.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // Its failure is the one that counts.
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("inner")).unwrap();
        assert!(write(&taken, b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let free = folder.path().join("free");
        write(&free, b"x").unwrap();
        assert_eq!(fs::read(free).unwrap(), b"x");
    }
}
