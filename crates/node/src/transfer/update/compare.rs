//! Sender's side of an update: comparison with what the receiver has, and the choice of what is deleted.

use std::collections::HashSet;

use tokio::sync::mpsc;

use super::{Change, Changes, Extra, Present, parent_of};
use crate::transfer::{
    error::TransferError, exclude::Exclude, manifest::Manifest, progress::Progress, reading::Known,
    selection::LeftOut, sink::hash_prefix, source::Origin,
};

/// Compares the files that the receiver reports, as they come; returns the origins, and what is known of each entry. A file that is the same
/// is not read again.
///
/// # Errors
/// A file cannot be read, or changed since it was offered.
pub(crate) fn compare(
    manifest: &Manifest,
    origins: &[Origin],
    mut reports: mpsc::Receiver<(u32, Known)>,
    progress: &Progress,
) -> Result<Vec<Option<Known>>, TransferError> {
    let mut known = vec![None; manifest.entries.len()];
    while let Some((index, mut report)) = reports.blocking_recv() {
        let at = index as usize;
        let (Some(entry), Some(origin)) = (manifest.entries.get(at), origins.get(at)) else {
            return Err(TransferError::Protocol("an unknown entry"));
        };
        if known[at].is_some() {
            return Err(TransferError::Protocol("an entry reported twice"));
        }
        if entry.size_bytes == Some(report.bytes) {
            let mut file = origin.open()?;
            let mut hasher = blake3::Hasher::new();
            let read = hash_prefix(&mut file, report.bytes, &mut hasher);
            let read = read.map_err(TransferError::read(origin.path()))?;
            origin.check(&file)?;
            if read != report.bytes || hasher.finalize() != report.hash {
                continue;
            }
            report.is_same = true;
            progress.resumed(read);
        }
        known[at] = Some(report);
    }
    Ok(known)
}

/// Sender's view of an update before anything is sent.
pub(crate) struct Plan {
    pub(crate) changes: Changes,
    /// Positions in the receiver's list of what is deleted.
    pub(crate) delete: Vec<u32>,
}

impl Plan {
    /// Changes made by an update. Of `extras`, those stay that are excluded, or at paths that were left out of the source.
    ///
    /// # Errors
    /// More was left out than is known by name, so that it is not certain what may be deleted.
    pub(crate) fn new(
        manifest: &Manifest,
        known: &[Option<Known>],
        present: &Present,
        extras: &[Extra],
        exclude: &Exclude,
        left_out: &LeftOut,
    ) -> Result<Self, TransferError> {
        if !extras.is_empty() && left_out.count > left_out.named.len() as u64 {
            return Err(TransferError::UncertainDeletion {
                count: left_out.count,
            });
        }
        let delete = chosen(manifest, extras, exclude, left_out);
        let mut changes = Changes {
            deleted: delete.iter().map(|&at| extras[at].path.clone()).collect(),
            ..Changes::default()
        };
        let taken: HashSet<u32> = present.entries.iter().copied().collect();
        let files = manifest.entries.iter().zip(known).zip(0..);
        for ((entry, known), index) in files.filter(|((entry, _), _)| !entry.is_directory) {
            if known.is_some_and(|known| known.is_same && !known.waits) {
                continue;
            }
            let change = Change {
                path: entry.path.clone(),
                bytes: entry.size_bytes.unwrap_or(0),
            };
            match taken.contains(&index) {
                true => changes.replaced.push(change),
                false => changes.added.push(change),
            }
        }
        let same: HashSet<u32> = present.links_same.iter().copied().collect();
        let other: HashSet<u32> = present.links_other.iter().copied().collect();
        for (link, index) in manifest.links.iter().zip(0..) {
            let change = Change {
                path: link.path.clone(),
                bytes: 0,
            };
            match (other.contains(&index), same.contains(&index)) {
                (true, _) => changes.replaced.push(change),
                (false, false) => changes.added.push(change),
                (false, true) => {}
            }
        }
        Ok(Self {
            changes,
            delete: delete.into_iter().map(|at| at as u32).collect(),
        })
    }
}

/// Positions of what is deleted.
fn chosen(
    manifest: &Manifest,
    extras: &[Extra],
    exclude: &Exclude,
    left_out: &LeftOut,
) -> Vec<usize> {
    let below = manifest.name.len() + 1;
    let left: HashSet<&str> = left_out.named.iter().map(|left| &left.path[..]).collect();
    let is_kept = |path: &str| {
        let mut at = Some(path).filter(|path| path.len() > below);
        while let Some(part) = at {
            let inner = part.get(below..).unwrap_or_default();
            if left.contains(part) || (!inner.is_empty() && exclude.matches(inner)) {
                return true;
            }
            at = parent_of(part);
        }
        false
    };
    // What stays keeps the directories that it is in.
    let mut stays: HashSet<&str> = HashSet::new();
    let mut delete = Vec::new();
    for (at, extra) in extras.iter().enumerate().rev() {
        let path = extra.path.as_str();
        if is_kept(path) || stays.contains(path) {
            stays.extend(parent_of(path));
        } else {
            delete.push(at);
        }
    }
    delete.reverse();
    delete
}
