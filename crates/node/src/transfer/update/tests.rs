//! Updates between two directories of one disk, without a network.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use anabranch_base::NodeId;
use anabranch_session::SecretKey;
use bytes::Bytes;
use proptest::prelude::*;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::*;
use crate::transfer::{
    Exclude, Progress, Rules, Selection, TransferError,
    area::{Area, Named, Opening},
    folder::Folder,
    keyed::StateKey,
    message::{Record, Reply},
    reading::{CHUNK_BYTES, Known, Origins, Reading},
    rules::Clash,
    source::Found,
    writing::{Writing, have_all, write_all},
};

const DELETE: Update = Update {
    delete: true,
    dry_run: false,
};
const KEEP: Update = Update {
    delete: false,
    dry_run: false,
};

/// A source `from/tree`, and a receiver's directory `to`.
struct Scene {
    disk: TempDir,
    exclude: Exclude,
}

/// Result of an attempt.
struct Updated {
    plan: Changes,
    named: Named,
    /// Bytes of data that were sent.
    moved: u64,
}

impl Scene {
    fn new() -> Self {
        let disk = tempfile::tempdir().unwrap();
        fs::create_dir_all(disk.path().join("from/tree")).unwrap();
        fs::create_dir(disk.path().join("to")).unwrap();
        Self {
            disk,
            exclude: Exclude::default(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.disk.path().join(path)
    }

    /// Writes files below `from/tree` or `to/tree`.
    fn write(&self, side: &str, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = self.path(&format!("{side}/tree/{path}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path("to/tree").join(path)).unwrap()
    }

    fn update(&self, update: Update) -> Result<Updated, TransferError> {
        self.attempt(update, usize::MAX, 0)
    }

    /// One attempt, in which the connection breaks after so many records; `stale` files of the receiver change after they were read.
    fn attempt(
        &self,
        update: Update,
        records_max: usize,
        stale: usize,
    ) -> Result<Updated, TransferError> {
        let selection = Selection::new(self.path("from/tree")).without(self.exclude.clone());
        let found = Found::read(&selection)?;
        let directory = self.path("to");
        let key = StateKey::of(&SecretKey::from_seed([9; 32]));
        let progress = Progress::default();
        let survey = Survey::of(&Folder::open(&directory).unwrap(), &found.manifest, update)?;
        let opening = Opening {
            directory: &directory,
            folder_name: &key.folder_name(NodeId::from_public_key([1; 32]), "tree/update"),
            key: &key,
            sender: NodeId::from_public_key([1; 32]),
            ticket: None,
            clash: Clash::Refuse,
            has_more: false,
            progress: &progress,
        };
        let (present, extras) = (survey.present.clone(), survey.extras.clone());
        let area = Area::open(&opening, found.manifest.clone(), Some(survey))?;
        let (reporter, mut reports) = mpsc::channel(10_000);
        let (mut area, have) = have_all(area, &reporter)?;
        drop(reporter);
        let (compared, queue) = mpsc::channel(10_000);
        while let Some(Reply::Have {
            index,
            bytes,
            hash,
            waits,
        }) = reports.blocking_recv()
        {
            let known = Known {
                bytes,
                hash: blake3::Hash::from_hex(hash).unwrap(),
                is_same: false,
                waits,
            };
            compared.blocking_send((index, known)).unwrap();
        }
        drop(compared);
        let known = compare(&found.manifest, &found.origins, queue, &progress)?;
        let plan = Plan::new(
            &found.manifest,
            &known,
            &present,
            &extras,
            &self.exclude,
            &found.left_out,
        )?;
        area.choose(plan.delete)?;
        for entry in found
            .manifest
            .entries
            .iter()
            .filter(|e| !e.is_directory)
            .take(stale)
        {
            let _ = fs::write(directory.join(&entry.path), "changed in between");
        }
        let (sent, mut records) = mpsc::channel::<Bytes>(10_000);
        let reading = Reading {
            manifest: &found.manifest,
            known: &known,
            records: &sent,
            revision: 2,
            chunk_bytes: CHUNK_BYTES,
        };
        reading.all(Origins::Paths(found.origins), &progress)?;
        drop(sent);
        let (arrive, queue) = mpsc::channel(10_000);
        let mut moved = 0;
        for _ in 0..records_max {
            let Some(record) = records.blocking_recv() else {
                break;
            };
            moved += Record::reach(&record).map_or(0, |(_, _, bytes)| bytes);
            arrive.blocking_send(record).unwrap();
        }
        drop(arrive);
        let writing = Writing {
            area,
            have,
            rules: Rules::default(),
            progress,
        };
        let named = write_all(writing, queue)?;
        Ok(Updated {
            plan: plan.changes,
            named,
            moved,
        })
    }

    fn assert_equal(&self) {
        assert_eq!(
            listing(&self.path("from/tree")),
            listing(&self.path("to/tree"))
        );
    }
}

/// Kind, mode, time and content of everything below a path, by path.
fn listing(root: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut rest = vec![root.to_owned()];
    while let Some(path) = rest.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = if metadata.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if metadata.is_dir() {
            rest.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        // Links have no times of their own here.
        let (seconds, ns) = match metadata.is_symlink() {
            true => (0, 0),
            false => (metadata.mtime(), metadata.mtime_nsec()),
        };
        let value = (metadata.mode(), seconds, ns, content);
        all.insert(path.strip_prefix(root).unwrap().to_owned(), value);
    }
    all
}

fn paths(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| &change.path[..]).collect()
}

#[test]
fn only_what_differs_is_sent() {
    let scene = Scene::new();
    let files = [
        ("same", "12345"),
        ("old", "new content"),
        ("d/e/deep", "x"),
        ("empty", ""),
    ];
    scene.write("from", &files);
    scene.write(
        "to",
        &[
            ("same", "12345"),
            ("old", "old content"),
            ("mine", "m"),
            ("empty", ""),
        ],
    );
    let inode = fs::metadata(scene.path("to/tree/same")).unwrap().ino();
    let done = scene.update(KEEP).unwrap();
    assert_eq!(done.moved, 12, "two files");
    let changes = done.named.changes.clone().unwrap();
    assert_eq!(paths(&changes.added), ["tree/d/e/deep"]);
    assert_eq!(paths(&changes.replaced), ["tree/old"]);
    assert_eq!(changes.deleted, [""; 0]);
    assert_eq!(done.plan, changes, "both sides agree");
    assert_eq!(done.named.bytes, 17);
    assert_eq!(
        fs::metadata(scene.path("to/tree/same")).unwrap().ino(),
        inode
    );
    assert_eq!(
        (scene.read("old"), scene.read("mine")),
        ("new content".into(), "m".into())
    );
    done.named.forget(&[]);
    assert_eq!(
        fs::read_dir(scene.path("to")).unwrap().count(),
        1,
        "nothing else is left"
    );
    let again = scene.update(DELETE).unwrap();
    assert_eq!(
        (again.moved, &again.plan.deleted[..]),
        (0, &["tree/mine".to_owned()][..])
    );
    scene.assert_equal();
}

#[test]
fn a_tree_that_is_not_there_arrives_as_a_whole() {
    let scene = Scene::new();
    scene.write("from", &[("a", "a"), ("d/b", "b")]);
    symlink("a", scene.path("from/tree/l")).unwrap();
    let done = scene.update(DELETE).unwrap();
    assert_eq!(done.plan.added.len(), 3);
    assert_eq!(done.plan, done.named.changes.unwrap());
    scene.assert_equal();
}

#[test]
fn kinds_that_differ_give_way() {
    let scene = Scene::new();
    scene.write(
        "from",
        &[
            ("file", "f"),
            ("dir/in", "i"),
            ("link", "l"),
            ("was-link/x", "x"),
        ],
    );
    symlink("file", scene.path("from/tree/to-link")).unwrap();
    symlink("file", scene.path("from/tree/kept-link")).unwrap();
    scene.write(
        "to",
        &[
            ("file/in/side", "old"),
            ("dir", "a file"),
            ("to-link", "a file"),
        ],
    );
    // A link that leads out is not followed, and nothing behind it changes.
    let outside = scene.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x"), "theirs").unwrap();
    symlink(&outside, scene.path("to/tree/was-link")).unwrap();
    symlink(outside.join("x"), scene.path("to/tree/link")).unwrap();
    symlink("file", scene.path("to/tree/kept-link")).unwrap();
    let refused = scene.update(KEEP);
    assert!(matches!(refused, Err(TransferError::InTheWay { .. })));
    let done = scene.update(DELETE).unwrap();
    assert!(!paths(&done.plan.replaced).contains(&"tree/kept-link"));
    assert!(paths(&done.plan.replaced).contains(&"tree/to-link"));
    scene.assert_equal();
    assert_eq!(fs::read(outside.join("x")).unwrap(), b"theirs");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn what_is_excluded_or_left_out_is_not_deleted() {
    let mut scene = Scene::new();
    scene.exclude = Exclude::parse(["*.o", "target"]).unwrap();
    scene.write("from", &[("a", "a")]);
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        scene.path("from/tree/pipe"),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    let old = ["obj/x.o", "obj/gone", "target/deep/y", "gone/z", "pipe"].map(|path| (path, "old"));
    scene.write("to", &old);
    let hidden = scene.path("to/tree/.anabranch-xyz");
    fs::create_dir(&hidden).unwrap();
    let done = scene.update(DELETE).unwrap();
    assert_eq!(
        done.plan.deleted,
        ["tree/gone", "tree/gone/z", "tree/obj/gone"]
    );
    assert_eq!(done.plan.deleted, done.named.changes.unwrap().deleted);
    for kept in ["obj/x.o", "target/deep/y", "pipe", ".anabranch-xyz"] {
        assert!(scene.path("to/tree").join(kept).exists(), "{kept}");
    }
    assert!(!scene.path("to/tree/gone").exists());
}

#[test]
fn a_deletion_may_need_modes_and_never_leaves_the_directory() {
    let scene = Scene::new();
    scene.write("from", &[("a", "a")]);
    scene.write("to", &[("locked/x", "x"), ("a", "b")]);
    fs::write(scene.path("to/neighbour"), "n").unwrap();
    fs::set_permissions(
        scene.path("to/tree/locked"),
        fs::Permissions::from_mode(0o500),
    )
    .unwrap();
    // A link to a directory is deleted, and what it leads to stays.
    symlink(scene.path("from"), scene.path("to/tree/away")).unwrap();
    scene.update(DELETE).unwrap();
    scene.assert_equal();
    assert_eq!(fs::read(scene.path("to/neighbour")).unwrap(), b"n");
    assert!(scene.path("from/tree/a").exists());
}

#[test]
fn what_changes_at_the_receiver_in_between_is_not_called_the_same() {
    let scene = Scene::new();
    scene.write("from", &[("a", "1"), ("b", "2")]);
    scene.write("to", &[("a", "1"), ("b", "2")]);
    let error = scene.attempt(KEEP, usize::MAX, 1).err().unwrap();
    assert!(
        matches!(error, TransferError::ChangedHere { .. }),
        "{error}"
    );
    assert_eq!(scene.update(KEEP).unwrap().plan.replaced.len(), 1);
    scene.assert_equal();
}

#[test]
fn what_arrived_before_an_interruption_is_not_sent_again() {
    let scene = Scene::new();
    let large = "x".repeat(3 * CHUNK_BYTES);
    scene.write("from", &[("a", &large), ("b", &large)]);
    scene.write("to", &[("a", "old"), ("b", "old")]);
    assert!(scene.attempt(KEEP, 5, 0).is_err());
    assert_eq!(
        (scene.read("a"), scene.read("b")),
        ("old".into(), "old".into())
    );
    let done = scene.update(KEEP).unwrap();
    assert_eq!(done.moved, 2 * CHUNK_BYTES as u64);
    scene.assert_equal();
}

/// Of a directory in which one name can be written in two ways, the other spelling is not something to delete.
#[test]
fn hard_links_are_extras_of_their_own() {
    let scene = Scene::new();
    scene.write("from", &[("a", "a")]);
    scene.write("to", &[("a", "a")]);
    fs::hard_link(scene.path("to/tree/a"), scene.path("to/tree/b")).unwrap();
    let done = scene.update(DELETE).unwrap();
    assert_eq!(done.plan.deleted, ["tree/b"]);
    scene.assert_equal();
}

/// Item at a path of a random tree.
#[derive(Clone, Debug)]
enum Node {
    File(u8, u32),
    Directory(BTreeMap<u8, Node>),
    Link(u8),
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        4 => (0..3_u8, prop_oneof![Just(0o644), Just(0o600), Just(0o755), Just(0o400)])
            .prop_map(|(content, mode)| Node::File(content, mode)),
        1 => (0..4_u8).prop_map(Node::Link),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop::collection::btree_map(0..4_u8, inner, 0..4).prop_map(Node::Directory)
    })
}

fn tree() -> impl Strategy<Value = BTreeMap<u8, Node>> {
    prop::collection::btree_map(0..4_u8, node(), 0..4)
}

fn plant(at: &Path, nodes: &BTreeMap<u8, Node>) {
    fs::create_dir_all(at).unwrap();
    for (name, node) in nodes {
        let path = at.join(format!("n{name}"));
        match node {
            Node::File(content, mode) => {
                fs::write(&path, vec![*content; usize::from(*content)]).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            Node::Directory(nodes) => plant(&path, nodes),
            Node::Link(to) => symlink(format!("n{to}"), &path).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn both_trees_are_equal_after_an_update(
        source in tree(), target in prop::option::of(tree()), broken_after in 0..6_usize,
    ) {
        let scene = Scene::new();
        plant(&scene.path("from/tree"), &source);
        if let Some(target) = &target {
            plant(&scene.path("to/tree"), target);
        }
        // An attempt that breaks off changes nothing of the tree.
        let before = target.as_ref().map(|_| listing(&scene.path("to/tree")));
        if scene.attempt(DELETE, broken_after, 0).is_err() {
            let after = target.as_ref().map(|_| listing(&scene.path("to/tree")));
            prop_assert_eq!(before, after);
        }
        let done = scene.update(DELETE).unwrap();
        prop_assert_eq!(&done.plan, done.named.changes.as_ref().unwrap());
        prop_assert_eq!(done.named.left_out.count, 0);
        scene.assert_equal();
        let again = scene.update(DELETE).unwrap();
        prop_assert_eq!(again.plan, Changes::default());
        prop_assert_eq!(again.moved, 0);
    }

    /// Without deletion, everything of the source is there, and what only the receiver has is as it was.
    #[test]
    fn nothing_is_lost_without_deletion(source in tree(), target in tree()) {
        let scene = Scene::new();
        plant(&scene.path("from/tree"), &source);
        plant(&scene.path("to/tree"), &target);
        let before = listing(&scene.path("to/tree"));
        let after = match scene.update(KEEP) {
            Err(TransferError::InTheWay { .. }) => {
                prop_assert_eq!(before, listing(&scene.path("to/tree")));
                return Ok(());
            }
            result => {
                result.unwrap();
                listing(&scene.path("to/tree"))
            }
        };
        let from = listing(&scene.path("from/tree"));
        for (path, value) in &from {
            prop_assert_eq!(after.get(path), Some(value), "{:?}", path);
        }
        for (path, value) in &before {
            let gave_way = path.ancestors().any(|at| from.get(at).is_some_and(|new| new.0 != before[at].0));
            if !from.contains_key(path) && !gave_way {
                prop_assert_eq!(after.get(path), Some(value), "{:?}", path);
            }
        }
    }
}
