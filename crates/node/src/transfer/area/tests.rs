use std::{fs, os::unix::fs::symlink};

use anabranch_base::NodeId;
use anabranch_session::SecretKey;

use super::*;
use crate::transfer::{
    digest::Digest,
    earlier::{REMEMBERED, unfinished},
    keyed::FOLDER_PREFIX,
};

fn key() -> StateKey {
    StateKey::of(&SecretKey::from_seed([9; 32]))
}

fn sender() -> NodeId {
    NodeId::from_public_key([1; 32])
}

fn ticket() -> Digest {
    Digest::from_hash(blake3::hash(b"ticket"))
}

fn manifest(size: u64) -> Manifest {
    let mut manifest = Manifest::stream("film");
    manifest.kind = Kind::File;
    manifest.entries[0].size_bytes = Some(size);
    manifest
}

fn tree(files: &[(&str, u64)]) -> Manifest {
    let mut manifest = Manifest::stream("d");
    manifest.kind = Kind::Directory;
    manifest.entries[0].is_directory = true;
    for (name, size) in files {
        let mut entry = manifest.entries[0].clone();
        entry.path = format!("d/{name}");
        entry.is_directory = false;
        entry.size_bytes = Some(*size);
        manifest.entries.push(entry);
    }
    manifest
}

fn open_as(
    folder: &Path,
    ticket: Option<Digest>,
    clash: Clash,
    manifest: Manifest,
) -> Result<Area, TransferError> {
    let opening = Opening {
        directory: folder,
        folder_name: &key().folder_name(sender(), &manifest.name),
        key: &key(),
        sender: sender(),
        ticket,
        clash,
        has_more: false,
        progress: &Progress::default(),
    };
    Area::open(&opening, manifest, None)
}

fn try_open(folder: &Path, manifest: Manifest) -> Result<Area, TransferError> {
    open_as(folder, Some(ticket()), Clash::Refuse, manifest)
}

fn open(folder: &Path, size: u64) -> Area {
    try_open(folder, manifest(size)).unwrap()
}

fn write(area: &mut Area, index: u32, bytes: &[u8]) -> Sink {
    let have = area.have(index).unwrap();
    let mut sink = area.open_file(index, have).unwrap();
    sink.write(bytes).unwrap();
    sink
}

fn close(area: &mut Area, index: u32, bytes: &[u8]) -> Result<(), TransferError> {
    let have = area.have(index).unwrap();
    let hash = blake3::hash(bytes).into();
    area.close_untouched(index, &have, bytes.len() as u64, hash)
}

/// The only folder of a transfer in `folder`.
fn hidden(folder: &Path) -> PathBuf {
    let mut found = fs::read_dir(folder).unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        name.starts_with(FOLDER_PREFIX).then(|| entry.path())
    });
    let folder = found.next().expect("there is one");
    assert!(found.next().is_none());
    folder
}

#[test]
fn a_file_appears_only_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = open(folder.path(), 6);
    drop(write(&mut area, 0, b"abc"));
    assert!(!folder.path().join("film").exists());

    // Interrupted; the next attempt continues.
    let mut area = open(folder.path(), 6);
    let have = area.have(0).unwrap();
    assert_eq!(have.bytes, 3);
    assert_eq!(have.hash, blake3::hash(b"abc"));
    let mut sink = area.open_file(0, have).unwrap();
    sink.write(b"def").unwrap();
    area.close_file(0, sink, 6, blake3::hash(b"abcdef").into())
        .unwrap();
    let named = area.finish().unwrap();
    assert_eq!(fs::read(&named.path).unwrap(), b"abcdef");
    assert_eq!(named.bytes, 6);
    assert_eq!(named.hash.unwrap(), blake3::hash(b"abcdef"));
    named.forget(&[]);
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the hidden folder is gone");
}

#[test]
fn a_changed_source_starts_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    drop(write(&mut open(folder.path(), 6), 0, b"abc"));
    assert_eq!(open(folder.path(), 7).have(0).unwrap().bytes, 0);
}

#[test]
fn a_wrong_hash_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = open(folder.path(), 3);
    let sink = write(&mut area, 0, b"abX");
    let result = area.close_file(0, sink, 3, blake3::hash(b"abc").into());
    assert!(matches!(result, Err(TransferError::Hash { .. })));
    assert_eq!(area.have(0).unwrap().bytes, 0);
    assert!(area.finish().is_err());
    assert!(!folder.path().join("film").exists());
}

#[test]
fn an_existing_name_is_never_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = open(folder.path(), 0);
    close(&mut area, 0, b"").unwrap();
    // It appears between the start and the end.
    fs::write(folder.path().join("film"), "mine").unwrap();
    assert!(matches!(area.finish(), Err(TransferError::Exists { .. })));
    assert_eq!(fs::read(folder.path().join("film")).unwrap(), b"mine");
    let refused = try_open(folder.path(), manifest(0));
    assert!(matches!(refused, Err(TransferError::Exists { .. })));
}

/// The same size, other bytes: only the hash differs.
#[test]
fn a_finished_file_is_trusted_only_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = try_open(folder.path(), tree(&[("a", 3), ("b", 3)])).unwrap();
    let sink = write(&mut area, 1, b"one");
    area.close_file(1, sink, 3, blake3::hash(b"one").into())
        .unwrap();
    drop(area);
    fs::write(hidden(folder.path()).join("data/d/a"), "two").unwrap();

    let mut area = try_open(folder.path(), tree(&[("a", 3), ("b", 3)])).unwrap();
    let have = area.have(1).unwrap();
    assert_eq!(have.hash, blake3::hash(b"two"));
    assert!(matches!(
        close(&mut area, 1, b"one"),
        Err(TransferError::Hash { .. })
    ));
}

#[test]
fn every_file_must_be_confirmed_in_the_attempt_that_ends() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("a", 3), ("b", 0)];
    let mut area = try_open(folder.path(), tree(&files)).unwrap();
    let sink = write(&mut area, 1, b"one");
    area.close_file(1, sink, 3, blake3::hash(b"one").into())
        .unwrap();
    assert!(area.open_file(1, Have::default()).is_err(), "twice");
    assert!(close(&mut area, 0, b"").is_err(), "a directory is no file");
    assert!(area.finish().is_err());

    let mut area = try_open(folder.path(), tree(&files)).unwrap();
    close(&mut area, 2, b"").unwrap();
    assert!(area.finish().is_err());

    let mut area = try_open(folder.path(), tree(&files)).unwrap();
    close(&mut area, 2, b"").unwrap();
    close(&mut area, 1, b"one").unwrap();
    let named = area.finish().unwrap();
    assert_eq!((named.bytes, named.hash), (3, None));
    assert_eq!(fs::read(named.path.join("a")).unwrap(), b"one");
}

/// A note, a journal and data as anyone who knows the format can write them.
#[test]
fn a_planted_folder_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let name = key().folder_name(sender(), "film");
    let planted = folder.path().join(&name);
    fs::create_dir_all(planted.join("data")).unwrap();
    fs::write(planted.join("data/film"), "theirs").unwrap();
    let note = Note {
        sender: sender(),
        digest: manifest(6).digest(),
        ticket: Some(ticket()),
        is_complete: true,
        named: None,
        has_more: false,
    };
    let other = StateKey::of(&SecretKey::from_seed([8; 32]));
    fs::write(planted.join("note"), note.encode(&other, &name)).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&planted, private).unwrap();
    assert!(unfinished(folder.path(), &key()).is_empty());
    let mut area = open(folder.path(), 6);
    assert_eq!(area.have(0).unwrap().bytes, 0);
}

#[test]
fn links_in_the_folder_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("film"), "theirs").unwrap();
    // In place of the folder.
    let name = key().folder_name(sender(), "film");
    symlink(elsewhere.path(), folder.path().join(&name)).unwrap();
    drop(open(folder.path(), 6));
    // In place of the data, and of a file.
    let root = hidden(folder.path());
    fs::remove_dir_all(root.join("data")).unwrap();
    symlink(elsewhere.path(), root.join("data")).unwrap();
    drop(open(folder.path(), 6));
    symlink(elsewhere.path().join("film"), root.join("data/film")).unwrap();
    let mut area = open(folder.path(), 6);
    assert!(area.have(0).is_err());
    assert!(area.open_file(0, Have::default()).is_err());
    assert_eq!(fs::read(elsewhere.path().join("film")).unwrap(), b"theirs");
}

#[test]
fn a_link_in_the_place_of_the_name_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), folder.path().join("d")).unwrap();
    let refused = try_open(folder.path(), tree(&[("a", 3)]));
    assert!(matches!(refused, Err(TransferError::Exists { .. })));
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

/// As on a file system that folds case; a second link does the same to one that does not.
#[test]
fn two_names_of_one_file_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("a", 3), ("A", 3)];
    let mut area = try_open(folder.path(), tree(&files)).unwrap();
    drop(write(&mut area, 1, b"one"));
    let data = hidden(folder.path()).join("data/d");
    fs::hard_link(data.join("a"), data.join("A")).unwrap();
    let error = area.open_file(2, Have::default()).unwrap_err().to_string();
    assert!(error.contains("d/A"), "{error}");
    let mut again = try_open(folder.path(), tree(&files)).unwrap();
    again.have(1).unwrap();
    assert!(again.have(2).is_err());
}

/// Killed after the rename, before the sender received the confirmation.
#[test]
fn a_retry_after_the_rename_finds_the_transfer_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = open(folder.path(), 3);
    let sink = write(&mut area, 0, b"abc");
    area.close_file(0, sink, 3, blake3::hash(b"abc").into())
        .unwrap();
    drop(area.finish().unwrap());

    let found = unfinished(folder.path(), &key());
    assert_eq!(found[0].note.ticket, Some(ticket()));
    let mut area = open(folder.path(), 3);
    let have = area.have(0).unwrap();
    assert_eq!(have.hash, blake3::hash(b"abc"));
    close(&mut area, 0, b"abc").unwrap();
    let named = area.finish().unwrap();
    assert_eq!(named.bytes, 3);
    named.forget(&[]);
    assert!(unfinished(folder.path(), &key()).is_empty());
    assert_eq!(fs::read(folder.path().join("film")).unwrap(), b"abc");
}

#[test]
fn after_the_rename_the_ticket_is_good_for_no_other_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film");
    let mut area = open(folder.path(), 3);
    let sink = write(&mut area, 0, b"abc");
    area.close_file(0, sink, 3, blake3::hash(b"abc").into())
        .unwrap();
    drop(area.finish().unwrap());
    // Other bytes under the same name.
    let mut area = open(folder.path(), 3);
    assert!(area.open_file(0, Have::default()).is_err());
    assert!(close(&mut area, 0, b"abX").is_err());
    drop(area);
    // Another source; then the same one, after the user has moved the file away.
    let other = try_open(folder.path(), manifest(4));
    assert!(matches!(other, Err(TransferError::Ticket(_))), "{other:?}");
    fs::remove_file(&film).unwrap();
    let again = try_open(folder.path(), manifest(3));
    assert!(matches!(again, Err(TransferError::Ticket(_))), "{again:?}");
    // Under another ticket it is another transfer.
    let new = Some(Digest::from_hash(blake3::hash(b"new")));
    open_as(folder.path(), new, Clash::Refuse, manifest(3)).unwrap();
}

/// Killed between the note and the rename.
#[test]
fn a_note_of_a_rename_that_did_not_happen_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = open(folder.path(), 3);
    drop(write(&mut area, 0, b"abc"));
    area.note.is_complete = true;
    area.note
        .write(&area.root, &area.key, &area.folder_name)
        .unwrap();
    drop(area);
    let mut area = open(folder.path(), 3);
    assert!(!area.note.is_complete);
    assert_eq!(area.have(0).unwrap().bytes, 3);
}

#[test]
fn transfers_named_long_ago_are_forgotten_and_unfinished_ones_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = open(folder.path(), 0);
    close(&mut area, 0, b"").unwrap();
    drop(area.finish().unwrap());
    let age = |root: &Path| {
        let now = fs::metadata(root).unwrap().modified().unwrap();
        let folder = File::open(root).unwrap();
        folder.set_modified(now - 2 * REMEMBERED).unwrap();
    };
    age(&hidden(folder.path()));
    assert!(unfinished(folder.path(), &key()).is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    fs::remove_file(folder.path().join("film")).unwrap();
    drop(write(&mut open(folder.path(), 3), 0, b"ab"));
    age(&hidden(folder.path()));
    assert_eq!(unfinished(folder.path(), &key()).len(), 1);
}

#[test]
fn sums_and_sizes_near_the_end_of_the_range_do_not_overflow() {
    let folder = tempfile::tempdir().unwrap();
    let mut area = try_open(folder.path(), tree(&[("a", u64::MAX), ("b", u64::MAX)])).unwrap();
    let have = area.have(1).unwrap();
    assert_eq!(have.bytes, 0);
    let hash = blake3::hash(b"").into();
    assert!(area.close_untouched(1, &have, u64::MAX, hash).is_err());
    assert!(area.entry(u32::MAX).is_none());
    assert!(area.open_file(u32::MAX, Have::default()).is_err());
    assert!(area.close_untouched(9, &Have::default(), 0, hash).is_err());
}

/// A hasher takes 2 kB; there may be one for each of 200,000 files.
#[test]
fn little_is_remembered_of_many_files() {
    use super::super::writing::have_all;

    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..60).map(|n| n.to_string()).collect();
    let files: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 3)).collect();
    let mut area = try_open(folder.path(), tree(&files)).unwrap();
    for index in 1..=60 {
        let bytes: &[u8] = if index <= 40 { b"abc" } else { b"ab" };
        drop(write(&mut area, index, bytes));
    }
    let area = try_open(folder.path(), tree(&files)).unwrap();
    let (sender, mut replies) = tokio::sync::mpsc::channel(100);
    let (_, have) = have_all(area, &sender).unwrap();
    assert_eq!(have.len(), 40 + 16);
    let hashers = have.values().filter(|have| have.hasher.is_some());
    assert_eq!(hashers.count(), 16);
    let reported = std::iter::from_fn(|| replies.try_recv().ok()).count();
    assert_eq!(reported, have.len());
}

#[test]
fn a_file_that_is_longer_than_offered_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    drop(write(&mut open(folder.path(), 3), 0, b"abc"));
    let data = hidden(folder.path()).join("data/film");
    fs::write(&data, "abcdef").unwrap();
    let mut area = open(folder.path(), 3);
    close(&mut area, 0, b"abc").unwrap();
    assert_eq!(fs::read(area.finish().unwrap().path).unwrap(), b"abc");
}
