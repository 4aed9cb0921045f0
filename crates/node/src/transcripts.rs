//! Transcripts of sessions, from which their decisions can be repeated ([`anabranch_session::transcript`]): written to files when a
//! promise is broken.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch_base::{SessionId, StreamId};
use anabranch_net::Host;

use crate::{record::unix_ms, whole_file};

/// Smallest and largest memory of a transcript.
pub const MEMORY_MIN_BYTES: u64 = anabranch_session::transcript::BYTES_MIN as u64;
/// See above: its answer fits the control socket.
pub const MEMORY_MAX_BYTES: u64 = 32 << 20;
/// Interval between two looks at the promises.
const EVERY: Duration = Duration::from_secs(1);
/// Time between two files of one session: a promise that is broken in each second is one story.
const PAUSE: Duration = Duration::from_secs(60);
/// Files kept; of more, the latest.
const FILES_MAX: usize = 8;
/// Beginning and end of the names of files.
const NAME: (&str, &str) = ("broken-promise-", ".transcript");

/// Writer of transcripts of sessions that broke a promise.
#[derive(Debug)]
pub struct Transcripts {
    folder: Option<PathBuf>,
}

impl Transcripts {
    /// A writer to this folder, which is created with the first file; `None`: nothing is written.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Follows the promises of `host` until dropped. Costs nothing while no transcripts are kept.
    pub(crate) async fn keep(&self, host: &Host) {
        let Some(folder) = &self.folder else {
            return;
        };
        let mut broken: BTreeMap<(SessionId, StreamId), u64> = BTreeMap::new();
        let mut written: BTreeMap<SessionId, tokio::time::Instant> = BTreeMap::new();
        loop {
            tokio::time::sleep(EVERY).await;
            let promises = host.promises();
            let mut now_broken = BTreeMap::new();
            let mut due = Vec::new();
            for promise in &promises {
                let account = &promise.explanation.account;
                let count = account.broken + account.withdrawn;
                let key = (promise.session, promise.explanation.stream);
                let before = broken.get(&key).copied().unwrap_or(0);
                if count > before && !due.contains(&promise.session) {
                    due.push(promise.session);
                }
                now_broken.insert(key, count);
            }
            broken = now_broken;
            written.retain(|_, at| at.elapsed() < PAUSE);
            for session in due {
                if written.contains_key(&session) {
                    continue;
                }
                let Some(file) = host.transcript(session) else {
                    continue;
                };
                written.insert(session, tokio::time::Instant::now());
                let folder = folder.clone();
                let name = format!("{}{}-{session}{}", NAME.0, unix_ms(), NAME.1);
                let task = tokio::task::spawn_blocking(move || write(&folder, &name, &file));
                match task.await {
                    Ok(Ok(path)) => {
                        let path = path.display();
                        tracing::warn!(
                            "a promise of {session} was broken; its transcript is in {path}: anabranch-lab replay {path}"
                        );
                    }
                    Ok(Err(error)) => {
                        tracing::warn!("the transcript of {session} is not written: {error}");
                    }
                    Err(_) => {}
                }
            }
        }
    }
}

/// Writes a file that only its owner can read, and removes the oldest of too many.
fn write(folder: &Path, name: &str, file: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let path = folder.join(name);
    whole_file::replace_bytes(&path, file)?;
    let mut others = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let is_ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(NAME.0) && name.ends_with(NAME.1));
        if is_ours {
            others.push(name);
        }
    }
    others.sort_unstable();
    let excess = others.len().saturating_sub(FILES_MAX);
    for name in &others[..excess] {
        fs::remove_file(folder.join(name))?;
    }
    Ok(path)
}

/// Memory of a transcript as a size with a unit.
pub(crate) fn check_memory(bytes: u64) -> Result<u64, String> {
    match bytes {
        0 | MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES => Ok(bytes),
        _ => Err("give \"0 B\", or 64 KiB to 32 MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("transcripts");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("broken-promise-mine.txt"), "x").unwrap();
        for number in 10..30 {
            let name = format!("{}{number}-session-0{}", NAME.0, NAME.1);
            let path = write(&folder, &name, b"contents").unwrap();
            assert_eq!(fs::read(path).unwrap(), b"contents");
        }
        let names = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names.len(), FILES_MAX + 1);
        assert!(names[0].starts_with("broken-promise-22-"), "{names:?}");
    }

    #[test]
    fn memory_has_a_range() {
        assert_eq!(check_memory(0), Ok(0));
        assert_eq!(check_memory(8 << 20), Ok(8 << 20));
        assert!(check_memory(1_000).is_err());
        assert!(check_memory(64 << 20).is_err());
    }
}
