use std::fs;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::wire::Format;

const MANIFEST: &str = r#"
    [[component]]
    name = "numbers"
    file = "all/numbers.dat"
    offset = 4
    size = 10
    stride = 12
    [[component]]
    name = "image"
    file = "images/{n}.png"
    [[component]]
    name = "note"
    file = "{n}.txt"
    optional = true
    [records]
    count = 3
"#;

fn text(manifest: &str) -> Text {
    Text::new(Bytes::copy_from_slice(manifest.as_bytes()), Format::Toml)
}

fn open(path: &Path, manifest: &str) -> Result<Sink, SinkError> {
    let text = text(manifest);
    Sink::open(path, Arc::new(text.parse().unwrap()), &text)
}

fn piece(record: u64, component: u16, part_bytes: u64, offset: u64, data: &[u8]) -> Piece {
    Piece {
        record,
        component,
        is_absent: false,
        version: 1,
        part_bytes,
        offset,
        data: Bytes::copy_from_slice(data),
    }
}

fn sync(sink: &mut Sink) {
    if let Some(work) = sink.take_work() {
        work.perform(&sink.note()).unwrap();
    }
}

fn records(from: u64, to: u64, component: u16) -> Item {
    Item::Records {
        from,
        to,
        components: vec![component],
        bytes: None,
    }
}

#[test]
fn an_attempt_goes_on_where_the_last_one_has_noted_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("set");
    let mut sink = open(&path, MANIFEST).unwrap();
    let selection = Selection::all(sink.manifest());
    assert_eq!(sink.missing(&selection, 0), [records(0, 3, 0)]);
    assert_eq!(
        sink.take(&piece(1, 0, 10, 0, &[1; 10])).unwrap(),
        (10, true)
    );
    assert_eq!(sink.take(&piece(2, 1, 8, 2, b"cde")).unwrap(), (3, false));
    let absent = Piece {
        is_absent: true,
        ..piece(0, 2, 0, 0, b"")
    };
    assert_eq!(sink.take(&absent).unwrap(), (0, true));
    sync(&mut sink);
    // Not noted: it is fetched again.
    sink.take(&piece(2, 1, 8, 5, b"fgh")).unwrap();
    drop(sink);
    let mut sink = open(&path, MANIFEST).unwrap();
    assert_eq!(
        sink.missing(&selection, 0),
        [records(0, 1, 0), records(2, 3, 0)]
    );
    // The file that records share has its whole length, so that readers of it can open it.
    let numbers = fs::metadata(path.join("all/numbers.dat")).unwrap();
    assert_eq!(numbers.len(), 4 + 2 * 12 + 10);
    let part = Item::Part {
        record: 2,
        component: 1,
        version: 1,
        ranges: vec![(0, 2), (5, 8)],
    };
    assert_eq!(sink.missing(&selection, 1), [records(0, 2, 1), part]);
    assert_eq!(sink.missing(&selection, 2), [records(1, 3, 2)]);
    for piece in [
        piece(0, 0, 10, 0, &[0; 10]),
        piece(2, 0, 10, 0, &[2; 10]),
        piece(0, 1, 0, 0, b""),
        piece(1, 1, 1, 0, b"x"),
        piece(2, 1, 8, 0, b"ab"),
        piece(2, 1, 8, 5, b"fgh"),
        piece(1, 2, 3, 0, b"one"),
        piece(2, 2, 3, 0, b"two"),
    ] {
        assert!(!sink.is_complete());
        sink.take(&piece).unwrap();
    }
    assert!(sink.is_complete());
    sync(&mut sink);
    sink.conclude().unwrap();
    drop(sink);
    assert_eq!(fs::read(path.join("images/2.png")).unwrap(), b"abcdefgh");
    assert_eq!(fs::read(path.join("images/0.png")).unwrap(), b"");
    let numbers = fs::read(path.join("all/numbers.dat")).unwrap();
    assert_eq!((numbers.len(), numbers[16], numbers[28]), (38, 1, 2));
    assert!(!path.join(NOTE_NAME).exists() && !path.join("0.txt").exists());
    // A set that is complete lacks nothing.
    let sink = open(&path, MANIFEST).unwrap();
    assert!(sink.is_complete() && sink.missing_together(&selection).is_empty());
}

#[test]
fn another_version_replaces_what_is_there_of_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open(folder.path(), MANIFEST).unwrap();
    let selection = Selection::all(sink.manifest());
    sink.take(&piece(0, 1, 9, 0, b"oldoldo")).unwrap();
    let newer = |offset, data| Piece {
        version: 2,
        ..piece(0, 1, 4, offset, data)
    };
    sink.take(&newer(0, b"ne")).unwrap();
    assert_eq!(sink.take(&newer(2, b"ew")).unwrap(), (2, true));
    assert_eq!(
        fs::read(folder.path().join("images/0.png")).unwrap(),
        b"neew"
    );
    // What the sender gives up is not taken, in whatever order it arrives.
    sink.take(&piece(1, 1, 4, 0, b"ab")).unwrap();
    sink.give_up(1, 1, 1);
    assert_eq!(sink.take(&piece(1, 1, 4, 2, b"cd")).unwrap(), (0, false));
    assert_eq!(sink.missing(&selection, 1), [records(1, 3, 1)]);
    sync(&mut sink);
    sink.forget(0, 1);
    sync(&mut sink);
    drop(sink);
    let sink = open(folder.path(), MANIFEST).unwrap();
    assert_eq!(sink.missing(&selection, 1), [records(0, 3, 1)]);
}

#[test]
fn what_is_none_of_the_set_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open(folder.path(), MANIFEST).unwrap();
    let absent = Piece {
        is_absent: true,
        ..piece(0, 0, 0, 0, b"")
    };
    for foreign in [
        piece(3, 0, 10, 0, b"x"),
        piece(0, 3, 10, 0, b"x"),
        piece(0, 0, 11, 0, b"x"),
        piece(u64::MAX, 0, 10, 0, b"x"),
        absent,
    ] {
        let error = sink.take(&foreign).unwrap_err();
        assert!(matches!(error, SinkError::Foreign { .. }), "{error}");
    }
}

#[test]
fn a_directory_with_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.tex"), "x").unwrap();
    let error = open(folder.path(), MANIFEST).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), MANIFEST).unwrap());
    let other = MANIFEST.replace("count = 3", "count = 4");
    let error = open(folder.path(), &other).unwrap_err().to_string();
    assert!(error.contains("another set"), "{error}");
    for name in [".anabranch-records", "Records.toml", ".anabranch-x/y"] {
        let folder = tempfile::tempdir().unwrap();
        let manifest = format!(
            "[[component]]\nname = \"x\"\nfile = \"{name}\"\nsize = 1\n[records]\ncount = 1"
        );
        let error = open(folder.path(), &manifest).unwrap_err();
        assert!(matches!(error, SinkError::Reserved(_)), "{error}");
    }
}

#[cfg(unix)]
#[test]
fn no_link_is_followed() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut sink = open(folder.path(), MANIFEST).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("images")).unwrap();
    assert!(sink.take(&piece(0, 1, 1, 0, b"x")).is_err());
    let target = outside.path().join("target");
    fs::write(&target, "safe").unwrap();
    std::os::unix::fs::symlink(&target, folder.path().join("0.txt")).unwrap();
    assert!(sink.take(&piece(0, 2, 1, 0, b"x")).is_err());
    assert_eq!(fs::read(target).unwrap(), b"safe");
}

#[test]
fn records_that_lack_everything_are_wanted_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = open(folder.path(), MANIFEST).unwrap();
    let selection = Selection {
        components: vec![0, 1],
        ..Selection::all(sink.manifest())
    };
    let together = |from, to| Item::Records {
        from,
        to,
        components: vec![0, 1],
        bytes: None,
    };
    assert_eq!(sink.missing_together(&selection), [together(0, 3)]);
    for component in [0, 1] {
        let bytes = if component == 0 { 10 } else { 1 };
        let data = vec![0; bytes as usize];
        sink.take(&piece(1, component, bytes, 0, &data)).unwrap();
    }
    assert_eq!(
        sink.missing_together(&selection),
        [together(0, 1), together(2, 3)]
    );
    sink.take(&piece(0, 1, 5, 0, b"x")).unwrap();
    let items = sink.missing_together(&selection);
    assert_eq!(items.len(), 3, "{items:?}");
}

proptest! {
    /// Pieces in any order, with attempts in between, make the files, and each is written once at most after it is complete.
    #[test]
    fn any_order_makes_the_same_files(
        order in proptest::collection::vec((0_u64..3, 0_usize..40, 1_usize..15), 30..80),
        stops in proptest::collection::vec(0_usize..80, 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = open(folder.path(), MANIFEST).unwrap();
        let image = |record: u64| -> Vec<u8> { (0..40).map(|at| at ^ record as u8).collect() };
        for (number, (record, from, length)) in order.into_iter().enumerate() {
            let to = (from + length).min(40);
            let data = &image(record)[from..to];
            sink.take(&piece(record, 1, 40, from as u64, data)).unwrap();
            if stops.contains(&number) {
                sync(&mut sink);
                drop(sink);
                sink = open(folder.path(), MANIFEST).unwrap();
            }
        }
        let selection = Selection::all(sink.manifest());
        for item in sink.missing(&selection, 1) {
            match item {
                Item::Records { from, to, .. } => {
                    for record in from..to {
                        sink.take(&piece(record, 1, 40, 0, &image(record))).unwrap();
                    }
                }
                Item::Part { record, ranges, .. } => {
                    for (from, to) in ranges {
                        let data = &image(record)[from as usize..to as usize];
                        prop_assert_eq!(
                            sink.take(&piece(record, 1, 40, from, data)).unwrap().0,
                            to - from
                        );
                    }
                }
            }
        }
        for record in 0..3 {
            let path = folder.path().join(format!("images/{record}.png"));
            prop_assert_eq!(fs::read(path).unwrap(), image(record));
        }
        prop_assert!(sink.missing(&selection, 1).is_empty());
    }
}
