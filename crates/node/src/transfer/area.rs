//! The hidden folder in which a transfer waits until it is complete.
//!
//! ```text
//! DIRECTORY/.anabranch-TAG/journal        line 1: what is being received; then a line per complete file
//! DIRECTORY/.anabranch-TAG/ticket         who sends it, and the hash of the ticket it came under, if any
//! DIRECTORY/.anabranch-TAG/data/NAME…     the files, complete or partial
//! DIRECTORY/NAME                          appears in one step when all is complete
//! ```
//! The tag comes from the sender and the name, so a second attempt finds the first one's folder.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anabranch_base::{NodeId, ids::encode_base32};
use serde::{Deserialize, Serialize};

use super::{
    error::TransferError,
    manifest::Manifest,
    message::{Entry, Kind},
    tickets::{Digest, write_note},
    write_behind::WriteBehind,
};

const COPY_BYTES: usize = 1 << 20;
/// What the names of all such folders begin with.
pub(super) const FOLDER_PREFIX: &str = ".anabranch-";

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    digest: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    index: u32,
    size_bytes: u64,
    blake3: String,
}

/// Belongs to one attempt at one transfer.
#[derive(Debug)]
pub(crate) struct Area {
    directory: PathBuf,
    root: PathBuf,
    manifest: Manifest,
    journal: File,
    /// Size and hash of each complete file.
    complete: HashMap<u32, (u64, String)>,
}

/// What is here of one file.
#[derive(Clone, Debug)]
pub(crate) struct Have {
    pub(crate) bytes: u64,
    /// Over these bytes.
    pub(crate) hasher: blake3::Hasher,
    pub(crate) is_complete: bool,
}

/// A file being written.
#[derive(Debug)]
pub(crate) struct Sink {
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
    pub(crate) position: u64,
    behind: WriteBehind,
}

impl Area {
    /// Opens the folder of an earlier attempt at the same thing, or begins anew.
    pub(crate) fn open(
        directory: &Path,
        sender: NodeId,
        manifest: Manifest,
    ) -> Result<Self, TransferError> {
        let destination = directory.join(&manifest.name);
        if destination.symlink_metadata().is_ok() {
            return Err(TransferError::Exists { path: destination });
        }
        let root = directory.join(format!("{FOLDER_PREFIX}{}", tag(sender, &manifest.name)));
        let digest = manifest.digest();
        let journal_path = root.join("journal");
        let complete = match read_journal(&journal_path, &digest) {
            Some(complete) if manifest.kind != Kind::Stream => complete,
            _ => match fs::remove_dir_all(&root) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TransferError::write(&root)(error));
                }
                _ => HashMap::new(),
            },
        };
        fs::create_dir_all(root.join("data")).map_err(TransferError::write(directory))?;
        let mut journal = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&journal_path)
            .map_err(TransferError::write(&journal_path))?;
        if journal
            .metadata()
            .map_err(TransferError::write(&journal_path))?
            .len()
            == 0
        {
            let header = Header { version: 1, digest };
            write_line(&mut journal, &header).map_err(TransferError::write(&journal_path))?;
        }
        let area = Self {
            directory: directory.to_owned(),
            root,
            manifest,
            journal,
            complete,
        };
        for entry in area
            .manifest
            .entries
            .iter()
            .filter(|entry| entry.is_directory)
        {
            let path = area.path_of(entry);
            fs::create_dir_all(&path).map_err(TransferError::write(path))?;
        }
        Ok(area)
    }

    /// Notes under which ticket this transfer came, for a receiver that is started after this one.
    pub(crate) fn note(&self, ticket: Digest, sender: NodeId) -> Result<(), TransferError> {
        write_note(&self.root, ticket, sender).map_err(TransferError::write(&self.root))
    }

    pub(crate) fn entry(&self, index: u32) -> Option<&Entry> {
        self.manifest.entries.get(index as usize)
    }

    /// Where an entry is kept until all is complete. Its parts have been checked.
    pub(crate) fn path_of(&self, entry: &Entry) -> PathBuf {
        let data = self.root.join("data");
        entry.path.iter().fold(data, |path, part| path.join(part))
    }

    /// What is here of a file. Reads all of a partial one, to know its hash.
    pub(crate) fn have(&self, index: u32, entry: &Entry) -> Result<Have, TransferError> {
        let path = self.path_of(entry);
        let mut have = Have {
            bytes: 0,
            hasher: blake3::Hasher::new(),
            is_complete: false,
        };
        let length = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(have),
            Err(error) => return Err(TransferError::read(path)(error)),
        };
        if let Some((size, _)) = self.complete.get(&index)
            && *size == length
        {
            have.bytes = length;
            have.is_complete = true;
            return Ok(have);
        }
        let usable = length.min(entry.size_bytes.unwrap_or(0));
        let mut file = File::open(&path).map_err(TransferError::read(&path))?;
        have.bytes =
            hash_prefix(&mut file, usable, &mut have.hasher).map_err(TransferError::read(&path))?;
        Ok(have)
    }

    /// Opens a file for writing after the bytes that `have` describes; they are trusted.
    pub(crate) fn open_file(&self, entry: &Entry, have: Have) -> Result<Sink, TransferError> {
        let path = self.path_of(entry);
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(
                &mut options,
                if entry.is_executable { 0o777 } else { 0o666 },
            );
            let mut file = options.open(&path)?;
            file.set_len(have.bytes)?;
            file.seek(SeekFrom::Start(have.bytes))?;
            Ok(file)
        };
        let file = open().map_err(TransferError::write(&path))?;
        Ok(Sink {
            path,
            file,
            hasher: have.hasher,
            position: have.bytes,
            behind: WriteBehind::default(),
        })
    }

    /// The sender says what the file must be; it is, or it is removed.
    pub(crate) fn close_file(
        &mut self,
        index: u32,
        sink: Sink,
        size: u64,
        hash: [u8; 32],
    ) -> Result<(), TransferError> {
        let actual = sink.hasher.finalize();
        if sink.position != size || actual != blake3::Hash::from_bytes(hash) {
            // Nothing of it can be trusted; a failure to remove shows on the next attempt.
            let _ = fs::remove_file(&sink.path);
            return Err(TransferError::Hash { path: sink.path });
        }
        sink.behind
            .finish()
            .and_then(|()| sink.file.sync_all())
            .map_err(TransferError::write(&sink.path))?;
        let line = Line {
            index,
            size_bytes: size,
            blake3: actual.to_hex().to_string(),
        };
        let journal = self.root.join("journal");
        write_line(&mut self.journal, &line).map_err(TransferError::write(journal))?;
        self.complete.insert(index, (size, line.blake3));
        Ok(())
    }

    /// Gives the complete transfer its name. The hash is that of a single file.
    pub(crate) fn finish(self) -> Result<(PathBuf, u64, Option<String>), TransferError> {
        let files = self.manifest.files();
        if self.complete.len() as u64 != files {
            return Err(TransferError::Protocol("the end came before all files"));
        }
        let bytes = self.complete.values().map(|(size, _)| size).sum();
        let single = self
            .complete
            .get(&0)
            .filter(|_| self.manifest.kind != Kind::Directory);
        let hash = single.map(|(_, hash)| hash.clone());
        let from = self.root.join("data").join(&self.manifest.name);
        let to = self.directory.join(&self.manifest.name);
        rename_new(&from, &to).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
                TransferError::Exists { path: to.clone() }
            }
            _ => TransferError::write(&to)(error),
        })?;
        // The name is on disk when the directory is; not every file system can say so.
        if let Ok(directory) = File::open(&self.directory) {
            let _ = directory.sync_all();
        }
        let _ = fs::remove_dir_all(&self.root);
        Ok((to, bytes, hash))
    }
}

impl Sink {
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), TransferError> {
        self.file
            .write_all(data)
            .and_then(|()| self.behind.wrote(&self.file, data.len() as u64))
            .map_err(TransferError::write(&self.path))?;
        self.hasher.update(data);
        self.position += data.len() as u64;
        Ok(())
    }
}

/// Hashes up to `bytes` from the beginning; how many there were.
pub(crate) fn hash_prefix(
    file: &mut File,
    bytes: u64,
    hasher: &mut blake3::Hasher,
) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut rest = file.take(bytes);
    let mut done = 0;
    loop {
        match rest.read(&mut buffer)? {
            0 => return Ok(done),
            count => {
                hasher.update(&buffer[..count]);
                done += count as u64;
            }
        }
    }
}

/// Renames without ever replacing what has the name already.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            // The file system does not know the flag; look before renaming.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if to.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

fn tag(sender: NodeId, name: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(sender.public_key());
    hasher.update(name.as_bytes());
    encode_base32(&hasher.finalize().as_bytes()[..10])
}

/// The complete files of an earlier attempt at the transfer with this digest; `None`: there is none.
fn read_journal(path: &Path, digest: &str) -> Option<HashMap<u32, (u64, String)>> {
    let mut lines = BufReader::new(File::open(path).ok()?).lines();
    let header: Header = serde_json::from_str(&lines.next()?.ok()?).ok()?;
    if header.version != 1 || header.digest != digest {
        return None;
    }
    // A line cut off by a crash ends what is known.
    let known = lines.map_while(|line| serde_json::from_str::<Line>(&line.ok()?).ok());
    Some(
        known
            .map(|line| (line.index, (line.size_bytes, line.blake3)))
            .collect(),
    )
}

fn write_line(journal: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).expect("a line is made of texts and numbers");
    text.push(b'\n');
    journal.write_all(&text)?;
    journal.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender() -> NodeId {
        NodeId::from_public_key([1; 32])
    }

    fn manifest(size: u64) -> Manifest {
        let mut manifest = Manifest::stream("film");
        manifest.kind = Kind::File;
        manifest.entries[0].size_bytes = Some(size);
        manifest
    }

    fn open(folder: &Path, size: u64) -> Area {
        Area::open(folder, sender(), manifest(size)).unwrap()
    }

    #[test]
    fn a_file_appears_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let mut area = open(folder.path(), 6);
        let entry = area.entry(0).unwrap().clone();
        let mut sink = area
            .open_file(&entry, area.have(0, &entry).unwrap())
            .unwrap();
        sink.write(b"abc").unwrap();
        drop(sink);
        assert!(!folder.path().join("film").exists());

        // Interrupted; the next attempt goes on.
        let again = open(folder.path(), 6);
        let have = again.have(0, &entry).unwrap();
        assert_eq!((have.bytes, have.is_complete), (3, false));
        assert_eq!(have.hasher.finalize(), blake3::hash(b"abc"));
        area = again;
        let mut sink = area.open_file(&entry, have).unwrap();
        sink.write(b"def").unwrap();
        area.close_file(0, sink, 6, blake3::hash(b"abcdef").into())
            .unwrap();
        assert!(open(folder.path(), 6).have(0, &entry).unwrap().is_complete);
        let (path, bytes, hash) = area.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abcdef");
        assert_eq!(bytes, 6);
        assert_eq!(hash.unwrap(), blake3::hash(b"abcdef").to_hex().to_string());
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "the hidden folder is gone");
    }

    #[test]
    fn a_changed_source_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let area = open(folder.path(), 6);
        let entry = area.entry(0).unwrap().clone();
        let mut sink = area
            .open_file(&entry, area.have(0, &entry).unwrap())
            .unwrap();
        sink.write(b"abc").unwrap();
        let changed = open(folder.path(), 7);
        assert_eq!(changed.have(0, &entry).unwrap().bytes, 0);
    }

    #[test]
    fn a_wrong_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut area = open(folder.path(), 3);
        let entry = area.entry(0).unwrap().clone();
        let mut sink = area
            .open_file(&entry, area.have(0, &entry).unwrap())
            .unwrap();
        sink.write(b"abX").unwrap();
        let result = area.close_file(0, sink, 3, blake3::hash(b"abc").into());
        assert!(matches!(result, Err(TransferError::Hash { .. })));
        assert_eq!(area.have(0, &entry).unwrap().bytes, 0);
        assert!(area.finish().is_err());
        assert!(!folder.path().join("film").exists());
    }

    #[test]
    fn an_existing_name_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut area = open(folder.path(), 0);
        let entry = area.entry(0).unwrap().clone();
        let sink = area
            .open_file(&entry, area.have(0, &entry).unwrap())
            .unwrap();
        area.close_file(0, sink, 0, blake3::hash(b"").into())
            .unwrap();
        // It appears between the beginning and the end.
        fs::write(folder.path().join("film"), "mine").unwrap();
        assert!(matches!(area.finish(), Err(TransferError::Exists { .. })));
        assert_eq!(fs::read(folder.path().join("film")).unwrap(), b"mine");
        let refused = Area::open(folder.path(), sender(), manifest(0));
        assert!(matches!(refused, Err(TransferError::Exists { .. })));
    }

    #[test]
    fn a_torn_journal_is_read_as_far_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let line = r#"{"index":0,"size_bytes":5,"blake3":"x"}"#;
        fs::write(
            &path,
            format!("{{\"version\":1,\"digest\":\"d\"}}\n{line}\n{{\"ind"),
        )
        .unwrap();
        assert_eq!(read_journal(&path, "d").unwrap().len(), 1);
        assert!(read_journal(&path, "other").is_none());
        assert!(read_journal(&folder.path().join("none"), "d").is_none());
    }
}
