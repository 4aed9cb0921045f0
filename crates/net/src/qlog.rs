//! Traces of channels as files in a folder ([`anabranch_session::qlog`]).

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::PathBuf,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anabranch_session::qlog::{Traced, Traces};

use crate::Host;

/// Largest file: its trace ends there.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Files in the folder; of more, the oldest are removed.
pub const FILES_MAX: usize = 64;
/// Bytes of a trace that are gathered before they are written, and lost if the program is killed.
const BUFFER_BYTES: usize = 8 << 10;
/// End of the names of files, by which programs know the format.
const SUFFIX: &str = ".sqlog";

impl Host {
    /// Traces channels that begin from now on as files in a folder, which is created with the first; `None`: no longer. Channels that are
    /// traced already stay so.
    pub fn set_qlog(&self, folder: Option<PathBuf>) {
        let traces = folder.map(Folder::shared);
        self.inner
            .shared
            .command(|state, _| state.engine.set_traces(traces));
    }
}

/// Folder of traces, one file for each channel.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    file_bytes_max: u64,
    files_max: usize,
}

impl Folder {
    /// A folder, which is created with the first file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            file_bytes_max: FILE_BYTES_MAX,
            files_max: FILES_MAX,
        }
    }

    /// As [`Self::new`], for an engine.
    pub(crate) fn shared(path: PathBuf) -> Arc<dyn Traces> {
        Arc::new(Self::new(path))
    }

    /// Creates a file that only its owner can read, for it has addresses.
    #[allow(
        clippy::disallowed_methods,
        reason = "names of files, by which the oldest are found, also after a restart"
    )]
    fn create(&self, channel: &Traced) -> io::Result<Trace> {
        fs::create_dir_all(&self.path)?;
        self.make_room()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.unwrap_or_default().as_millis();
        let name = format!("{ms:013}-{}{SUFFIX}", channel.channel);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(self.path.join(name))?;
        Ok(Trace {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            left: self.file_bytes_max,
            record: Vec::new(),
        })
    }

    /// Removes the oldest files, so that there may be one more.
    fn make_room(&self) -> io::Result<()> {
        let mut traces = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(is_trace) {
                traces.push(name);
            }
        }
        traces.sort_unstable();
        let excess = (traces.len() + 1).saturating_sub(self.files_max);
        for name in &traces[..excess] {
            fs::remove_file(self.path.join(name))?;
        }
        Ok(())
    }
}

impl Traces for Folder {
    fn begin(&self, channel: &Traced) -> Option<Box<dyn Write + Send + Sync>> {
        match self.create(channel) {
            Ok(trace) => Some(Box::new(trace)),
            Err(error) => {
                let (channel, path) = (channel.channel, self.path.display());
                tracing::warn!("{channel} is not traced: {path}: {error}");
                None
            }
        }
    }
}

/// True for names of our files: others are left alone.
fn is_trace(name: &str) -> bool {
    let stem = name.strip_suffix(SUFFIX);
    let parts = stem.and_then(|stem| stem.split_once("-channel-"));
    parts.is_some_and(|(ms, number)| {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(ms) && digits(number)
    })
}

/// File of one trace: whole records, up to its size.
struct Trace {
    file: BufWriter<fs::File>,
    /// Bytes that it may still have; 0 once it is full or cannot be written.
    left: u64,
    record: Vec<u8>,
}

impl Write for Trace {
    /// Never fails: a disk that is full ends the trace, not the channel.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Ok(bytes.len());
        }
        self.record.extend_from_slice(bytes);
        if bytes.ends_with(b"\n") {
            let left = self.left.checked_sub(self.record.len() as u64);
            self.left = match left {
                Some(left) if self.file.write_all(&self.record).is_ok() => left,
                _ => 0,
            };
            self.record.clear();
            if self.left == 0 {
                // What fits is there when it is looked at; an error has ended the trace already.
                let _ = self.file.flush();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // As above.
        let _ = self.file.flush();
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
mod tests {
    use std::path::Path;

    use anabranch_base::{ChannelId, SocketId};

    use super::*;

    fn channel(number: u64) -> Traced {
        Traced {
            channel: ChannelId(number),
            socket: SocketId(0),
            remote: "192.0.2.1:9".parse().unwrap(),
            is_dialled: true,
        }
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_full_file_has_whole_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces");
        let traces = Folder {
            path: path.clone(),
            file_bytes_max: 100,
            files_max: 4,
        };
        let mut trace = traces.begin(&channel(3)).unwrap();
        for number in 0..40 {
            trace.write_all(b"\x1e{\"time\":").unwrap();
            trace
                .write_all(format!("{number:02}}}").as_bytes())
                .unwrap();
            trace.write_all(b"\n").unwrap();
        }
        drop(trace);
        let [name] = &names(&path)[..] else {
            panic!("{:?}", names(&path));
        };
        assert!(name.ends_with("-channel-3.sqlog"), "{name}");
        let text = fs::read_to_string(path.join(name)).unwrap();
        // Records of 13 bytes: seven fit 100.
        assert_eq!(text.len(), 91);
        assert!(text.ends_with("\x1e{\"time\":06}\n"), "{text:?}");
        #[cfg(unix)]
        {
            let mode = fs::metadata(path.join(name)).unwrap().permissions();
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
                0o600
            );
        }
    }

    #[test]
    fn the_latest_files_are_kept_and_no_others_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces");
        fs::create_dir_all(&path).unwrap();
        for name in ["0-channel-x.sqlog", "0.sqlog", "notes-channel-1.sqlog"] {
            fs::write(path.join(name), "mine").unwrap();
        }
        for number in 10..20 {
            fs::write(path.join(format!("{number:013}-channel-0.sqlog")), "").unwrap();
        }
        let traces = Folder {
            path: path.clone(),
            file_bytes_max: 100,
            files_max: 4,
        };
        drop(traces.begin(&channel(7)));
        let names = names(&path);
        assert_eq!(names.len(), 3 + 4, "{names:?}");
        assert!(names.iter().any(|name| name.ends_with("-channel-7.sqlog")));
        assert!(names.contains(&"0000000000017-channel-0.sqlog".to_owned()));
        assert!(!names.contains(&"0000000000016-channel-0.sqlog".to_owned()));
    }

    #[test]
    fn a_folder_that_cannot_be_made_ends_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces");
        fs::write(&path, "a file").unwrap();
        assert!(Folder::new(path).begin(&channel(0)).is_none());
    }
}
