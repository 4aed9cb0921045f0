//! Time for which cases are kept: a note in the folder of each, and the removal of those whose time is over.
//!
//! A case is removed once the time to which its patient consented has passed since its end, and at most the time for which this hospital keeps cases.
//! One that was interrupted can go on for [`RETURN_TIME`]. Folders without a note are left alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, time::Instant};

/// Time in which an ambulance whose session broke can go on with its case, whether the case is kept or not.
pub(super) const RETURN_TIME: Duration = Duration::from_secs(3_600);
/// Longest time for which a case can be kept.
pub const KEPT_MAX: Duration = Duration::from_secs(36_500 * 86_400);
/// File with the note, in the folder of a case.
const FILE: &str = "keeping.json";
/// Beginning of the names of folders that are being removed.
const REMOVED: &str = ".removed-";
/// Time before a folder that cannot be removed is tried again.
const PAUSE: Duration = Duration::from_secs(60);

/// Note of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    /// Time for which it is kept after its end, in seconds.
    kept_s: u64,
    /// Beginning or end of its last session, in seconds since 1970.
    touched_s: u64,
    /// True if the ambulance has sent everything.
    is_complete: bool,
}

impl Note {
    /// Time of its removal, in seconds since 1970; `start_s`: the start of the hospital.
    fn due_s(self, start_s: u64) -> u64 {
        let due_s = self.touched_s.saturating_add(self.kept_s);
        if self.is_complete {
            return due_s;
        }
        // Its end was not noted if the hospital was killed, and it may be about to go on.
        let begun_s = self.touched_s.max(start_s);
        due_s.max(begun_s.saturating_add(RETURN_TIME.as_secs()))
    }
}

/// A case in the store.
#[derive(Clone, Copy, Debug)]
struct Entry {
    note: Note,
    is_open: bool,
    /// Time before which its removal is not tried again, in seconds since 1970.
    not_before_s: u64,
}

/// Cases of a store, and their times.
#[derive(Debug)]
pub(super) struct Keeping {
    store: PathBuf,
    longest: Duration,
    /// The wall clock at the start, and the time since: a wall clock that is set removes nothing while the hospital runs.
    start: (u64, Instant),
    cases: Mutex<BTreeMap<PathBuf, Entry>>,
    /// Folders that are being removed, under their other names.
    aside: Mutex<BTreeSet<PathBuf>>,
    changed: Notify,
}

impl Keeping {
    /// The cases of a store, each kept for `longest` at most, and what an earlier hospital had begun to remove.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn open(store: &Path, longest: Duration) -> io::Result<Self> {
        let start_s = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| since.as_secs());
        Self::open_at(store, longest, start_s)
    }

    fn open_at(store: &Path, longest: Duration, start_s: u64) -> io::Result<Self> {
        let (mut cases, mut aside) = (BTreeMap::new(), BTreeSet::new());
        for entry in fs::read_dir(store)? {
            let entry = entry?;
            // Not through links.
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let folder = entry.path();
            if entry
                .file_name()
                .as_encoded_bytes()
                .starts_with(REMOVED.as_bytes())
            {
                aside.insert(folder);
            } else if let Some(note) = read(&folder) {
                let not_before_s = 0;
                cases.insert(
                    folder,
                    Entry {
                        note,
                        is_open: false,
                        not_before_s,
                    },
                );
            }
        }
        Ok(Self {
            store: store.to_owned(),
            longest: longest.min(KEPT_MAX),
            start: (start_s, Instant::now()),
            cases: Mutex::new(cases),
            aside: Mutex::new(aside),
            changed: Notify::new(),
        })
    }

    fn now_s(&self) -> u64 {
        self.start.0 + self.start.1.elapsed().as_secs()
    }

    fn cases(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Entry>> {
        self.cases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session of a case begins, whose patient consents to `consent_s` after its end; returns the time for which it is kept. It is not removed until
    /// [`Self::end`].
    pub(super) fn begin(&self, folder: &Path, consent_s: u64) -> Duration {
        let kept_s = consent_s.min(self.longest.as_secs());
        let note = Note {
            kept_s,
            touched_s: self.now_s(),
            is_complete: false,
        };
        let entry = Entry {
            note,
            is_open: true,
            not_before_s: 0,
        };
        self.cases().insert(folder.to_owned(), entry);
        Duration::from_secs(kept_s)
    }

    /// Writes the note of a case into its folder.
    ///
    /// # Errors
    /// It cannot be written: a hospital that is started again has the former note, or none, and never removes the case.
    pub(super) fn note(&self, folder: &Path) -> io::Result<()> {
        let note = self.cases().get(folder).map(|entry| entry.note);
        note.map_or(Ok(()), |note| write(folder, note))
    }

    /// The session of a case has ended; `is_complete`: the ambulance has sent everything.
    ///
    /// # Errors
    /// The note cannot be written: a hospital that is started again counts from the beginning of the session.
    pub(super) fn end(&self, folder: &Path, is_complete: bool) -> io::Result<()> {
        let former = self.cases().get(folder).map(|entry| entry.note);
        let Some(former) = former else {
            return Ok(());
        };
        let note = Note {
            touched_s: self.now_s(),
            is_complete,
            ..former
        };
        // It is not removed before.
        let written = write(folder, note);
        if let Some(entry) = self.cases().get_mut(folder) {
            (entry.note, entry.is_open) = (note, false);
        }
        self.changed.notify_one();
        written
    }

    /// Removes the cases whose time is over, as it passes; each is given to `removed`, with the reason if it could not be removed.
    pub(super) async fn run(&self, removed: impl Fn(PathBuf, Option<io::Error>)) -> Infallible {
        loop {
            let (due, mut pause) = self.due();
            for folder in due {
                if let Err(why) = self.put_aside(&folder) {
                    removed(folder, Some(why));
                }
            }
            let all_aside = self.aside().clone();
            for aside in all_aside {
                let path = aside.clone();
                // A large case takes its time.
                let gone = tokio::task::spawn_blocking(move || fs::remove_dir_all(path)).await;
                let why = match gone.unwrap_or_else(|error| Err(io::Error::other(error))) {
                    Err(why) if why.kind() != io::ErrorKind::NotFound => Some(why),
                    _ => None,
                };
                match why {
                    Some(_) => pause = pause.min(PAUSE),
                    None => drop(self.aside().remove(&aside)),
                }
                removed(self.former(&aside), why);
            }
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Cases whose time is over, and the time until the next.
    fn due(&self) -> (Vec<PathBuf>, Duration) {
        let now_s = self.now_s();
        let mut due = Vec::new();
        let mut next_s = now_s + RETURN_TIME.as_secs();
        for (folder, entry) in self.cases().iter().filter(|(_, entry)| !entry.is_open) {
            match entry.note.due_s(self.start.0).max(entry.not_before_s) {
                due_s if due_s <= now_s => due.push(folder.clone()),
                due_s => next_s = next_s.min(due_s),
            }
        }
        if !due.is_empty() {
            next_s = next_s.min(now_s + PAUSE.as_secs());
        }
        (due, Duration::from_secs(next_s - now_s))
    }

    /// Gives a case that is not open another name, under which it is removed.
    fn put_aside(&self, folder: &Path) -> io::Result<()> {
        let mut name = OsString::from(REMOVED);
        name.push(folder.file_name().unwrap_or_default());
        let aside = self.store.join(name);
        let mut cases = self.cases();
        let Some(entry) = cases.get_mut(folder).filter(|entry| !entry.is_open) else {
            return Ok(());
        };
        entry.not_before_s = self.now_s() + PAUSE.as_secs();
        match fs::rename(folder, &aside) {
            Ok(()) => {}
            // Somebody has removed it.
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => return Err(why),
        }
        cases.remove(folder);
        drop(cases);
        self.aside().insert(aside);
        Ok(())
    }

    /// Folder of a case that was put aside.
    fn former(&self, aside: &Path) -> PathBuf {
        let name = aside.file_name().unwrap_or_default().to_string_lossy();
        self.store.join(name.strip_prefix(REMOVED).unwrap_or(&name))
    }

    fn aside(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The note of a folder; `None`: it has none, or one that is none.
fn read(folder: &Path) -> Option<Note> {
    let text = fs::read(folder.join(FILE)).ok()?;
    let note: Option<Note> = serde_json::from_slice(&text).ok();
    if note.is_none() {
        tracing::warn!(folder = %folder.display(), "the note of a case cannot be read; the case is not removed");
    }
    note
}

/// Writes the note of a folder: the former one, or this one, whenever the machine stops.
fn write(folder: &Path, note: Note) -> io::Result<()> {
    let draft = folder.join("keeping.new");
    let mut file = fs::File::create(&draft)?;
    serde_json::to_writer(&mut file, &note)?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(FILE))
}

#[cfg(test)]
mod tests;
