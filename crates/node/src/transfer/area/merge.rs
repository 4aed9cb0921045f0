//! Folder of an update: what the receiver has beside what waits, and the end, at which both become one.

use std::collections::HashMap;

use super::{Area, Count, DATA, Have, Kind, Named, Place, TransferError, make_links};
use crate::transfer::{
    selection::LeftOut,
    source::Stamp,
    update::{Extra, Placing, Present, Survey, have_here},
};

/// Findings of an update, and their results.
#[derive(Debug)]
pub(super) struct Merge {
    present: Present,
    /// Paths that the offer lacks; once it is chosen, only those that are deleted.
    extras: Vec<Extra>,
    left_out: LeftOut,
    /// Files that have the size that is offered, with their state when they were read.
    here: HashMap<u32, Stamp>,
    /// Those of them that the sender confirmed.
    same: HashMap<u32, Stamp>,
}

impl From<Survey> for Merge {
    fn from(survey: Survey) -> Self {
        Self {
            present: survey.present,
            extras: survey.extras,
            left_out: survey.left_out,
            here: HashMap::new(),
            same: HashMap::new(),
        }
    }
}

impl Area {
    /// Number of files and directories that the offer lacks.
    pub(in crate::transfer) fn extras(&self) -> usize {
        self.merge.as_ref().map_or(0, |merge| merge.extras.len())
    }

    /// Chooses what is deleted of them, by position.
    ///
    /// # Errors
    /// A position that none of them has.
    pub(in crate::transfer) fn choose(&mut self, chosen: Vec<u32>) -> Result<(), TransferError> {
        if let Some(merge) = &mut self.merge {
            let extras = std::mem::take(&mut merge.extras);
            let picked = chosen
                .into_iter()
                .map(|at| extras.get(at as usize).cloned());
            let picked: Option<_> = picked.collect();
            merge.extras =
                picked.ok_or(TransferError::Protocol("a deletion that was not listed"))?;
        }
        Ok(())
    }

    /// True if the file that the receiver had has the size that is offered, and nothing of a new one waits.
    pub(in crate::transfer) fn is_here(&self, index: u32) -> bool {
        self.here(index).is_some()
    }

    /// True of an update if what is present of a file is not in its place yet.
    pub(in crate::transfer) fn waits(&self, index: u32) -> bool {
        self.merge.is_some() && !self.is_here(index)
    }

    pub(super) fn here(&self, index: u32) -> Option<Stamp> {
        self.merge.as_ref()?.here.get(&index).copied()
    }

    /// The file that the receiver had, if this is an update and it has the size that is offered.
    pub(super) fn have_here(&mut self, index: u32) -> Result<Have, TransferError> {
        let entry = self.manifest.entries.get(index as usize);
        let (Some(merge), Some(entry)) = (&mut self.merge, entry) else {
            return Ok(Have::default());
        };
        let Some((have, stamp)) = have_here(&self.directory, entry)? else {
            return Ok(Have::default());
        };
        merge.here.insert(index, stamp);
        Ok(have)
    }

    /// Keeps a file that is the same.
    pub(super) fn keep(
        &mut self,
        index: u32,
        stamp: Stamp,
        have: &Have,
        is_so: bool,
    ) -> Result<(), TransferError> {
        if !is_so {
            return Err(TransferError::Protocol("a file that is not the same"));
        }
        self.confirm(index, have.bytes, have.hash)?;
        if let Some(merge) = &mut self.merge {
            merge.same.insert(index, stamp);
        }
        self.progress.durable(Count {
            files: 1,
            bytes: have.bytes,
        });
        Ok(())
    }

    /// Merges what waits into what the receiver had.
    pub(super) fn finish_update(mut self, merge: &Merge) -> Result<Named, TransferError> {
        let Place::Waiting(data) = &self.place else {
            return Err(TransferError::Protocol("an update without a place"));
        };
        make_links(&self.manifest, data)?;
        let durable = self.barrier.finish();
        durable.map_err(TransferError::write(self.root.path()))?;
        let placing = Placing {
            manifest: &self.manifest,
            data,
            directory: &self.directory,
            same: &merge.same,
            present: &merge.present,
            delete: &merge.extras,
        };
        let (changes, mut left_out) = placing.all()?;
        left_out.join(merge.left_out.clone());
        let failed = || TransferError::write(self.root.path());
        self.note.is_complete = true;
        self.note
            .write(&self.root, &self.key, &self.folder_name)
            .map_err(failed())?;
        self.root.remove_all(DATA).map_err(failed())?;
        self.root.make_private(DATA).map_err(failed())?;
        let is_single = self.manifest.kind != Kind::Directory;
        Ok(Named {
            path: self.directory.path_of(&self.manifest.name),
            bytes: self.confirmed.bytes,
            hash: self.confirmed.first.filter(|_| is_single),
            directory: self.directory,
            folder_name: self.folder_name,
            changes: Some(changes),
            left_out,
        })
    }
}
