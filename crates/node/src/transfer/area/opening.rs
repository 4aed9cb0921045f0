//! Opening of a transfer's folder: that of an earlier attempt, or a new one.

use std::{collections::HashMap, path::Path};

use anabranch_base::NodeId;

use super::{Area, Confirmed, DATA, Kind, Manifest, Merge, Place, Progress, claim};
use crate::transfer::{
    barrier::Barrier,
    digest::Digest,
    earlier::Earlier,
    error::TransferError,
    folder::{FileKind, Folder, Parents},
    keyed::StateKey,
    note::Note,
    rules::Clash,
    tickets::USED,
    update::Survey,
};

/// Circumstances of an attempt.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) directory: &'a Path,
    /// Name of the transfer's folder in it.
    pub(crate) folder_name: &'a str,
    pub(crate) key: &'a StateKey,
    pub(crate) sender: NodeId,
    /// Ticket of the transfer; `None`: the sender is trusted.
    pub(crate) ticket: Option<Digest>,
    pub(crate) clash: Clash,
    /// True if the sender has announced more transfers under the same ticket.
    pub(crate) has_more: bool,
    /// Counts the files that are durable.
    pub(crate) progress: &'a Progress,
}

impl Area {
    /// Opens the folder of an earlier attempt at the same transfer, or begins anew. An update has a `survey` of what there is.
    pub(crate) fn open(
        opening: &Opening<'_>,
        manifest: Manifest,
        survey: Option<Survey>,
    ) -> Result<Self, TransferError> {
        let Opening {
            directory,
            folder_name,
            key,
            sender,
            ticket,
            clash,
            has_more,
            progress,
        } = *opening;
        let directory = Folder::open(directory).map_err(TransferError::write(directory))?;
        let folder_name = folder_name.to_owned();
        let is_update = survey.is_some();
        let name = manifest.name.clone();
        let failed = |name: &str| TransferError::write(directory.path_of(name));
        let digest = manifest.digest();
        let earlier = Earlier::find(&directory, key, &folder_name, &name);
        let given = earlier.as_ref().and_then(|e| e.note.named.clone());
        let final_name = given.unwrap_or_else(|| name.clone());
        let is_named = directory.holds(&final_name);
        let is_named = is_named.map_err(failed(&final_name))?;
        let is_same =
            |earlier: &Earlier| earlier.note.digest == digest && manifest.kind != Kind::Stream;
        let was_named = earlier.as_ref().is_some_and(Earlier::was_named);
        let same = earlier.as_ref().is_some_and(is_same);
        let is_update_done = is_update && earlier.as_ref().is_some_and(|e| e.note.is_complete);
        if (was_named || is_update_done) && !(same && is_named) {
            // The transfer that the ticket was good for is complete.
            let used = earlier
                .as_ref()
                .is_some_and(|e| ticket.is_some() && e.note.ticket == ticket);
            if used {
                return Err(TransferError::Ticket(USED));
            }
        }
        let is_repeated = was_named && same && is_named && !is_update;
        let exists = directory.holds(&name).map_err(failed(&name))?;
        if exists && !is_repeated && !is_update && clash == Clash::Refuse {
            return Err(TransferError::Exists {
                path: directory.path_of(&name),
            });
        }
        let note = Note {
            sender,
            digest,
            ticket,
            is_complete: is_repeated,
            named: is_repeated.then(|| final_name.clone()),
            has_more,
        };
        let (root, place, is_fresh) = match earlier {
            Some(earlier) if is_repeated => (earlier.root, Place::Named, false),
            Some(Earlier {
                root,
                data: Some(data),
                ..
            }) if same && (!was_named || is_update) => (root, Place::Waiting(data), false),
            _ => {
                let failed = || failed(&folder_name);
                directory.remove_all(&folder_name).map_err(failed())?;
                let root = directory.make_private(&folder_name).map_err(failed())?;
                let data = root.make_private(DATA).map_err(failed())?;
                (root, Place::Waiting(data), true)
            }
        };
        note.write(&root, key, &folder_name)
            .map_err(TransferError::write(root.path()))?;
        let counted = progress.clone();
        let barrier = Barrier::new(&root, move |count| counted.durable(count))
            .map_err(TransferError::write(root.path()))?;
        let mut area = Self {
            confirmed: Confirmed {
                is_so: vec![false; manifest.entries.len()],
                ..Confirmed::default()
            },
            directory,
            root,
            folder_name,
            key: key.clone(),
            note,
            manifest,
            place,
            inodes: HashMap::new(),
            barrier,
            progress: progress.clone(),
            is_fresh,
            parents: Parents::default(),
            clash,
            final_name,
            merge: survey.map(Merge::from),
        };
        area.make_directories()?;
        Ok(area)
    }

    fn make_directories(&mut self) -> Result<(), TransferError> {
        let Place::Waiting(data) = &self.place else {
            return Ok(());
        };
        let entries = self.manifest.entries.iter().zip(0..);
        for (entry, index) in entries.filter(|(entry, _)| entry.is_directory) {
            let make = || {
                let (parent, name) = data.walk(&entry.path)?;
                if self.merge.is_some() {
                    // What gave way to the directory in an attempt that was killed.
                    let stat = parent.stat(name)?;
                    if stat.is_some_and(|stat| stat.kind != FileKind::Directory) {
                        parent.remove_file(name)?;
                    }
                }
                parent.make(name)?.identity()
            };
            let path = data.path_of(&entry.path);
            let identity = make().map_err(TransferError::write(&path))?;
            claim(&mut self.inodes, index, identity, &path)?;
        }
        Ok(())
    }
}
