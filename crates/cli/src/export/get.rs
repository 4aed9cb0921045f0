//! `anabranch get`: a file that a peer exports, copied by ranges.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, UNIX_EPOCH},
};

use anabranch::{
    AduStream,
    exports::{Exports, Kind, Metadata},
    transfer::Hasher,
};
use serde_json::json;

use super::{
    Place, failure,
    origin::{Origin, OriginFlags, with},
    window::Window,
};
use crate::{
    bytes, events,
    exit::{Failure, Outcome, STOPPED, print_line, unless_stopped},
    meter,
};

/// Bytes of a range.
const RANGE_BYTES: u64 = 1 << 20;
/// Beginning of the names of incomplete files, which no transfer and no export shows.
const PARTIAL: &str = ".anabranch-get-";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file gets its name when it is complete. After an interruption, the same command goes on where it stopped, if the peer's file is still \
the same; exit code 5.")]
pub(crate) struct Arguments {
    /// PEER:/EXPORT/PATH of a file. PEER is the name or id of a peer of the running node; or without a node, ID@HOST:PORT or the line that
    /// `anabranch node` printed there.
    #[arg(value_name = "PEER:/EXPORT/PATH")]
    place: String,
    /// File, or directory in which the file gets its name there [default: the current directory].
    #[arg(value_name = "DEST")]
    to: Option<PathBuf>,
    /// Replace a file that exists.
    #[arg(short, long)]
    force: bool,
    /// Print events as lines of JSON on standard output (docs/exports.md).
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    flags: OriginFlags,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let place = Place::parse(&arguments.place)?;
    let getting = async {
        let to = destination(&place, arguments.to.as_deref(), arguments.force)?;
        let opening = Origin::open(&place.peer, &arguments.flags, "anabranch get");
        let origin = unless_stopped(STOPPED, opening).await?;
        let got = async { with!(&origin, exports => get(exports, &place, &to, &arguments).await) };
        let got = unless_stopped(STOPPED, got).await;
        origin.close().await;
        got
    };
    let outcome = getting.await;
    if let (true, Err(failure)) = (arguments.json, &outcome) {
        events::failed(failure);
    }
    outcome
}

/// Path of the file here.
fn destination(place: &Place, to: Option<&Path>, may_replace: bool) -> Result<PathBuf, Failure> {
    let name = place.path.rsplit('/').next().unwrap_or_default();
    if !place.path.contains('/') {
        return Err(Failure::usage(
            "that is no file; give PEER:/EXPORT/PATH, and list the files with `anabranch ls`",
        ));
    }
    let to = match to {
        None => PathBuf::from(name),
        Some(to) if to.is_dir() => to.join(name),
        Some(to) => to.to_owned(),
    };
    match to.symlink_metadata() {
        Ok(found) if found.is_dir() => Err(Failure::file(format!(
            "{} is a directory; give another name",
            to.display()
        ))),
        Ok(_) if !may_replace => Err(exists(&to)),
        _ => Ok(to),
    }
}

fn exists(to: &Path) -> Failure {
    Failure::file(format!(
        "{} exists; --force replaces it, or give another name",
        to.display()
    ))
}

/// File with the bytes that have arrived. Its name says which file of which peer, in which version.
struct Partial {
    path: PathBuf,
    file: File,
    present: u64,
}

impl Partial {
    fn open(place: &Place, to: &Path, metadata: &Metadata) -> Result<Self, Failure> {
        let folder = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut hasher = Hasher::new();
        for text in [&place.peer, &place.path] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        let beginning = format!("{PARTIAL}{}-", &hasher.finalize().to_hex()[..16]);
        let name = format!("{beginning}{}", metadata.version);
        let in_folder = |error| Failure::file(format!("{}: {error}", folder.display()));
        for entry in fs::read_dir(folder).map_err(in_folder)?.flatten() {
            // Of an earlier version.
            let found = entry.file_name();
            if let Some(found) = found.to_str()
                && found.starts_with(&beginning)
                && found != name
            {
                // What stays is only in the way of space.
                let _ = fs::remove_file(entry.path());
            }
        }
        let path = folder.join(name);
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).read(true).open(&path);
        let file = opened.map_err(|error| cannot_write(&path, &error))?;
        let mut partial = Self {
            path,
            file,
            present: 0,
        };
        partial.seek(metadata.size_bytes)?;
        Ok(partial)
    }

    fn seek(&mut self, size_bytes: u64) -> Outcome {
        let wrong = |error| cannot_write(&self.path, &error);
        self.present = self.file.seek(SeekFrom::End(0)).map_err(wrong)?;
        if self.present > size_bytes {
            self.file.set_len(0).map_err(wrong)?;
            self.present = 0;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome {
        let written = self.file.write_all(bytes);
        written.map_err(|error| cannot_write(&self.path, &error))
    }

    /// Gives the complete file its time and its name.
    fn finish(self, to: &Path, metadata: &Metadata, may_replace: bool) -> Outcome {
        let wrong = |error| cannot_write(to, &error);
        if let Ok(since) = u64::try_from(metadata.modified_ns) {
            let modified = UNIX_EPOCH + Duration::from_nanos(since);
            self.file.set_modified(modified).map_err(wrong)?;
        }
        self.file.sync_all().map_err(wrong)?;
        if !may_replace && to.symlink_metadata().is_ok() {
            return Err(exists(to));
        }
        fs::rename(&self.path, to).map_err(wrong)
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(format!("cannot write {}: {error}", path.display()))
}

async fn get<S: AduStream>(
    exports: &Exports<S>,
    place: &Place,
    to: &Path,
    arguments: &Arguments,
) -> Outcome {
    let metadata = exports.stat(&place.path).await.map_err(failure)?;
    if metadata.kind == Kind::Directory {
        return Err(Failure::usage(format!(
            "'{}' is a directory; get copies one file, and `anabranch ls` lists them",
            place.path
        )));
    }
    let mut partial = Partial::open(place, to, &metadata)?;
    let (present, size) = (partial.present, metadata.size_bytes);
    let done = Arc::new(AtomicU64::new(present));
    let copying = copy(exports, &place.path, &metadata, &mut partial, &done);
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    if arguments.quiet {
        copying.await?;
    } else {
        tokio::select! {
            copied = copying => copied?,
            () = follow(&name, size, &done), if arguments.json => unreachable!("it follows until dropped"),
            () = meter::show_bytes(&name, size, &done) => unreachable!("it is shown until dropped"),
        }
    }
    partial.finish(to, &metadata, arguments.force)?;
    if arguments.json {
        return print_line(
            &json!({
                "kind": "got",
                "path": to.display().to_string(),
                "bytes": size,
                "bytes_present_before": present,
                "version": metadata.version.to_string(),
            })
            .to_string(),
        );
    }
    let before = match present {
        0 => String::new(),
        _ => format!(", of which {} were here before", bytes::text(present)),
    };
    match arguments.quiet {
        true => Ok(()),
        false => print_line(&format!("{}: {}{before}", to.display(), bytes::text(size))),
    }
}

/// Copies what is missing.
async fn copy<S: AduStream>(
    exports: &Exports<S>,
    path: &str,
    metadata: &Metadata,
    partial: &mut Partial,
    done: &AtomicU64,
) -> Outcome {
    let (size, version) = (metadata.size_bytes, Some(metadata.version));
    let begin = |at: u64, bytes: u64| {
        let (exports, path) = (exports.clone(), path.to_owned());
        tokio::spawn(async move { exports.read(&path, at, bytes, version).await })
    };
    let (mut asked, mut reading) = (partial.present, VecDeque::new());
    let mut window = Window::default();
    loop {
        while asked < size && reading.len() < window.ranges() {
            let bytes = RANGE_BYTES.min(size - asked);
            reading.push_back((bytes, Instant::now(), begin(asked, bytes)));
            asked += bytes;
        }
        let Some((bytes, since, part)) = reading.pop_front() else {
            return Ok(());
        };
        let part = part.await.map_err(Failure::other)?.map_err(failure)?;
        window.arrived_after(since.elapsed());
        if part.len() as u64 != bytes {
            return Err(Failure::refused("the peer's file ended early; try again"));
        }
        for piece in &part.pieces {
            partial.write(piece)?;
        }
        done.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Prints the progress every second while it changes; does not return.
async fn follow(name: &str, size: u64, done: &AtomicU64) {
    let mut before = done.load(Ordering::Relaxed);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = done.load(Ordering::Relaxed);
        if now != before {
            let event = json!({
                "kind": "progress",
                "name": name,
                "bytes_total": size,
                "bytes_moved": now,
                "rate_bps": 8 * (now - before),
            });
            // A closed standard output ends the command at its next event.
            let _ = events::print(&event);
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch::exports::Version;

    use super::*;

    fn metadata(size_bytes: u64, version: u8) -> Metadata {
        Metadata {
            kind: Kind::File,
            size_bytes,
            modified_ns: 1_000_000_000,
            version: Version([version; 16]),
        }
    }

    #[test]
    fn what_has_arrived_of_the_same_version_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::parse("studio:/data/film").unwrap();
        let to = folder.path().join("film");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let mut partial = Partial::open(&place, &to, &metadata(10, 1)).unwrap();
        partial.write(b"01234").unwrap();
        drop(partial);
        let partial = Partial::open(&place, &to, &metadata(10, 1)).unwrap();
        assert_eq!(partial.present, 5);
        // Another file, and then another version of the first.
        let other = Place::parse("studio:/data/other").unwrap();
        assert_eq!(
            Partial::open(&other, &to, &metadata(10, 1))
                .unwrap()
                .present,
            0
        );
        let mut partial = Partial::open(&place, &to, &metadata(3, 2)).unwrap();
        assert_eq!((partial.present, names()), (0, 2));
        partial.write(b"abc").unwrap();
        fs::write(&to, "old").unwrap();
        let failure = partial.finish(&to, &metadata(3, 2), false).unwrap_err();
        assert!(failure.message().contains("--force"));
        let partial = Partial::open(&place, &to, &metadata(3, 2)).unwrap();
        assert_eq!(partial.present, 3);
        partial.finish(&to, &metadata(3, 2), true).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"abc");
        let modified = fs::metadata(&to).unwrap().modified().unwrap();
        assert_eq!(modified, UNIX_EPOCH + Duration::from_secs(1));
    }

    #[test]
    fn a_destination_is_a_name_or_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::parse("studio:/data/film").unwrap();
        let at = |path: &Path, force| destination(&place, Some(path), force);
        assert_eq!(destination(&place, None, false).unwrap(), Path::new("film"));
        assert_eq!(
            at(folder.path(), false).unwrap(),
            folder.path().join("film")
        );
        let named = folder.path().join("other");
        assert_eq!(at(&named, false).unwrap(), named);
        fs::write(&named, "").unwrap();
        assert!(at(&named, false).is_err() && at(&named, true).is_ok());
        fs::create_dir(folder.path().join("film")).unwrap();
        assert!(at(folder.path(), true).is_err());
        let export = Place::parse("studio:/data").unwrap();
        assert!(destination(&export, None, false).is_err());
    }
}
