//! Transfers that earlier attempts left in a directory.

use std::{io, path::Path, time::Duration};

use super::{
    area::DATA,
    folder::Folder,
    keyed::{FOLDER_PREFIX, StateKey},
    note::{Note, Unfinished},
};

/// Limit on the folders that are examined when a receiver starts.
const FOLDERS_MAX: usize = 10_000;
/// Time for which a sender that did not receive the confirmation of its transfer can ask for it.
pub(super) const REMEMBERED: Duration = Duration::from_secs(86_400);

/// Folder of an earlier attempt, with a note that this node wrote.
pub(super) struct Earlier {
    pub(super) root: Folder,
    pub(super) note: Note,
    /// `None` if it is gone.
    pub(super) data: Option<Folder>,
    has_data: bool,
}

impl Earlier {
    pub(super) fn find(
        directory: &Folder,
        key: &StateKey,
        folder_name: &str,
        name: &str,
    ) -> Option<Self> {
        let root = directory.private(folder_name).ok()?;
        let note = Note::read(&root, key, folder_name)?;
        let data = root.child(DATA).ok();
        let has_data = data
            .as_ref()
            .is_some_and(|data| data.holds(name).unwrap_or(true));
        Some(Self {
            root,
            note,
            data,
            has_data,
        })
    }

    /// True if it was complete and the data was moved to its final name.
    pub(super) fn was_named(&self) -> bool {
        self.note.is_complete && !self.has_data
    }
}

/// Checks that files can be written to `directory`.
pub(super) fn probe(directory: &Path) -> io::Result<()> {
    let folder = Folder::open(directory)?;
    let name = format!("{FOLDER_PREFIX}probe-{}", std::process::id());
    // From a process that was killed, or a link that another user put there.
    folder.remove_all(&name)?;
    folder.make_private(&name)?;
    folder.remove_all(&name)
}

/// Transfers that an earlier receiver with this key left unfinished in `directory`. Folders of transfers that got their final
/// name more than a day ago are removed.
pub(super) fn unfinished(directory: &Path, key: &StateKey) -> Vec<Unfinished> {
    let Ok(folder) = Folder::open(directory) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found = Vec::new();
    for folder_name in names
        .filter(|name| name.starts_with(FOLDER_PREFIX))
        .take(FOLDERS_MAX)
    {
        let Ok(root) = folder.private(&folder_name) else {
            continue;
        };
        let Some(note) = Note::read(&root, key, &folder_name) else {
            continue;
        };
        if note.is_complete && is_empty(&root.path_of(DATA)) && is_old(root.path(), folder.path()) {
            // If it cannot be removed now, it stays.
            let _ = folder.remove_all(&folder_name);
            continue;
        }
        found.push(Unfinished { folder_name, note });
    }
    found
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// True if nothing was changed in it for a day before the last change in `directory`, such as the probe's. Both times are the
/// file system's own.
fn is_old(root: &Path, directory: &Path) -> bool {
    let modified = |path: &Path| std::fs::symlink_metadata(path)?.modified();
    match (modified(root), modified(directory)) {
        (Ok(then), Ok(now)) => now.duration_since(then).is_ok_and(|age| age > REMEMBERED),
        _ => false,
    }
}
