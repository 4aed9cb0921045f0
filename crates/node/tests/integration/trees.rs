//! Trees of files between two nodes on this machine: what is in them arrives, and what a hostile peer could add does not.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anabranch::{
    Host, Order, Priority, Session, Stream, StreamSpec, Ticket,
    base::ids::encode_base32,
    transfer::{
        CONTROL_LABEL, Clash, Completed, DATA_LABEL, Progress, Receiver, Rules, Selection, Source,
        TransferError, send,
    },
};
use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{host, key, within};

/// A sender, and a receiver with a folder to receive into.
struct Pair {
    folder: TempDir,
    a: Host,
    b: Host,
    receiver: Receiver,
    progress: Progress,
}

type Result<T> = std::result::Result<T, TransferError>;

impl Pair {
    fn new(rules: Rules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("to")).unwrap();
        let receiver = Receiver::new(folder.path().join("to"), &key(2), []).unwrap();
        Self {
            folder,
            a: host(1),
            b: host(2),
            receiver: receiver.with_rules(rules),
            progress: Progress::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn session(&self) -> (Session, Ticket) {
        let ticket = self.receiver.issue(&self.b).unwrap();
        let session = self.a.connect(ticket.node, &ticket.addresses).await;
        (session.unwrap(), ticket)
    }

    async fn receive(&self) -> Result<Completed> {
        let session = self.b.accept().await.unwrap();
        self.receiver.receive(&session, &Progress::default()).await
    }

    /// Sends, and receives; the results of the receiver and of the sender.
    async fn both(&self, selection: Selection) -> (Result<Completed>, Result<Completed>) {
        let sending = async {
            let (session, ticket) = self.session().await;
            let source = Source::Selection(selection);
            send(&session, ticket.secret, source, &self.progress).await
        };
        tokio::join!(self.receive(), sending)
    }

    /// Names in the receiver's folder.
    fn arrived(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("to")).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn age(path: impl AsRef<Path>, seconds: u64) {
    let at = SystemTime::UNIX_EPOCH + Duration::new(seconds, 123_456_789);
    fs::File::open(path).unwrap().set_modified(at).unwrap();
}

#[tokio::test]
async fn links_modes_times_and_holes_arrive() {
    const HOLE: u64 = 64 << 20;
    within(async {
        let pair = Pair::new(Rules::default());
        let tree = pair.path("tree");
        fs::create_dir_all(tree.join("locked/deep")).unwrap();
        fs::create_dir(tree.join("empty")).unwrap();
        for (path, content) in [
            ("run", "#!"),
            ("secret", "s"),
            ("locked/deep/x", "x"),
            ("none", ""),
        ] {
            fs::write(tree.join(path), content).unwrap();
        }
        for (link, target) in [
            ("here", "run"),
            ("locked/deep/up", "../../empty"),
            ("gone", "lost"),
        ] {
            symlink(target, tree.join(link)).unwrap();
        }
        symlink("/etc/hostname", tree.join("outside")).unwrap();
        let sparse = fs::File::create(tree.join("sparse")).unwrap();
        sparse.set_len(HOLE).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", HOLE).unwrap();
        sparse.set_len(2 * HOLE).unwrap();
        for (path, bits) in [("run", 0o4751), ("secret", 0o600), ("none", 0o444)] {
            set_mode(tree.join(path), bits);
            age(tree.join(path), 1_000_000_000);
        }
        age(tree.join("empty"), 2_000);
        for (path, bits) in [("locked/deep", 0o500), ("locked", 0o2550), ("", 0o710)] {
            age(tree.join(path), 3_000);
            set_mode(tree.join(path), bits);
        }

        let (received, sent) = pair.both(Selection::new(&tree)).await;
        let (received, sent) = (received.unwrap(), sent.unwrap());
        assert_eq!((received.files, received.bytes), (5, 2 * HOLE + 4));
        let left: Vec<_> = sent.left_out.named.iter().map(|l| &l.path[..]).collect();
        assert_eq!(left, ["tree/outside"]);
        let left: Vec<_> = received
            .left_out
            .named
            .iter()
            .map(|l| &l.path[..])
            .collect();
        assert_eq!(left, ["tree/locked", "tree/run"]);

        let to = pair.path("to/tree");
        for (path, bits, at) in [
            ("run", 0o751, 1_000_000_000),
            ("secret", 0o600, 1_000_000_000),
            ("none", 0o444, 1_000_000_000),
            ("empty", mode(tree.join("empty")), 2_000),
            ("locked/deep", 0o500, 3_000),
            ("locked", 0o550, 3_000),
            ("", 0o710, 3_000),
        ] {
            let metadata = fs::metadata(to.join(path)).unwrap();
            assert_eq!(metadata.mode() & 0o7777, bits, "{path}");
            assert_eq!(
                (metadata.mtime(), metadata.mtime_nsec()),
                (at, 123_456_789),
                "{path}"
            );
        }
        for (link, target) in [
            ("here", "run"),
            ("locked/deep/up", "../../empty"),
            ("gone", "lost"),
        ] {
            assert_eq!(fs::read_link(to.join(link)).unwrap(), Path::new(target));
        }
        assert!(fs::symlink_metadata(to.join("outside")).is_err());
        assert!(fs::read(to.join("sparse")).unwrap() == fs::read(tree.join("sparse")).unwrap());
        let [before, after] = [&tree, &to].map(|at| fs::metadata(at.join("sparse")).unwrap());
        if before.blocks() * 512 < HOLE {
            assert!(after.blocks() * 512 < HOLE, "{} blocks", after.blocks());
        }
        assert_eq!(pair.arrived(), ["tree"]);
        // Modes under which a folder cannot be removed by another user than root.
        for path in ["locked", "locked/deep"] {
            set_mode(tree.join(path), 0o700);
            set_mode(to.join(path), 0o700);
        }
    })
    .await;
}

#[tokio::test]
async fn special_bits_are_kept_for_those_who_ask() {
    within(async {
        let pair = Pair::new(Rules {
            allow_special_bits: true,
            ..Rules::default()
        });
        fs::write(pair.path("tool"), "#!").unwrap();
        set_mode(pair.path("tool"), 0o6755);
        let (received, sent) = pair.both(Selection::new(pair.path("tool"))).await;
        assert_eq!(received.unwrap().left_out.count, 0);
        sent.unwrap();
        assert_eq!(mode(pair.path("to/tool")), 0o6755);
    })
    .await;
}

/// Both sides count what is durable, and nothing else.
#[tokio::test]
async fn many_small_files_arrive_and_are_counted_as_durable() {
    const FILES: u64 = 3_000;
    within(async {
        let pair = Pair::new(Rules::default());
        let tree = pair.path("tree");
        for n in 0..FILES {
            let folder = tree.join((n / 500).to_string());
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(n.to_string()), n.to_string().repeat(400)).unwrap();
        }
        let (received, sent) = pair.both(Selection::new(&tree)).await;
        assert_eq!(received.unwrap().files, FILES);
        let bytes = sent.unwrap().bytes;
        let now = pair.progress.snapshot();
        assert_eq!((now.files_done, now.bytes_durable), (FILES, bytes));
        for n in 0..FILES {
            let path = pair.path("to/tree").join(format!("{}/{n}", n / 500));
            assert_eq!(fs::read_to_string(path).unwrap(), n.to_string().repeat(400));
        }
    })
    .await;
}

#[tokio::test]
async fn a_name_that_exists_is_refused_replaced_or_avoided() {
    within(async {
        for (clash, old, new) in [
            (Clash::Refuse, "film", ""),
            (Clash::Overwrite, "", "film"),
            (Clash::Rename, "film", "film (2)"),
        ] {
            let pair = Pair::new(Rules {
                clash,
                ..Rules::default()
            });
            for (at, content) in [("to/film", "old"), ("film", "new")] {
                fs::create_dir(pair.path(at)).unwrap();
                fs::write(pair.path(at).join(content), content).unwrap();
            }
            let (received, sent) = pair.both(Selection::new(pair.path("film"))).await;
            if clash == Clash::Refuse {
                assert!(matches!(received, Err(TransferError::Exists { .. })));
                assert!(sent.is_err());
            } else {
                sent.unwrap();
                let path = received.unwrap().path.unwrap();
                assert_eq!(path, pair.path("to").join(new));
                let inside: Vec<_> = fs::read_dir(&path).unwrap().collect();
                assert_eq!(inside.len(), 1);
                assert_eq!(fs::read(path.join("new")).unwrap(), b"new");
            }
            if !old.is_empty() {
                assert_eq!(fs::read(pair.path("to/film/old")).unwrap(), b"old");
            }
            let names: Vec<_> = [old, new].into_iter().filter(|n| !n.is_empty()).collect();
            assert_eq!(pair.arrived(), names, "{clash:?}");
        }
    })
    .await;
}

/// One side of a transfer that sends whatever messages a test needs.
struct Hand {
    session: Session,
    control: Stream,
}

impl Hand {
    /// A sender that has said hello with these fields.
    async fn sender(pair: &Pair, mut hello: Value) -> Self {
        let (session, ticket) = pair.session().await;
        let control = session.open_stream(StreamSpec {
            duplex: true,
            priority: Priority::NORMAL,
            order: Order::Ordered,
            label: CONTROL_LABEL.to_owned(),
            ..StreamSpec::default()
        });
        let control = control.unwrap();
        hello["type"] = "hello".into();
        hello["secret"] = encode_base32(&ticket.secret.unwrap().0).into();
        let hand = Self { session, control };
        hand.send(hello).await;
        hand
    }

    async fn receiver(pair: &Pair) -> Self {
        let session = pair.b.accept().await.unwrap();
        let control = session.accept_stream().await.unwrap();
        Self { session, control }
    }

    async fn send(&self, message: Value) {
        // The receiver may have closed the stream.
        let _ = self.control.send(message.to_string().into()).await;
    }

    async fn receive(&self) -> Value {
        let adu = self.control.recv().await.unwrap().unwrap();
        serde_json::from_slice(&adu.data).unwrap()
    }

    async fn data(&self, records: &[Bytes]) {
        let data = self.session.open_stream(StreamSpec {
            label: DATA_LABEL.to_owned(),
            ..StreamSpec::bulk("")
        });
        let data = data.unwrap();
        for record in records {
            let _ = data.send(record.clone()).await;
        }
        let _ = data.finish();
    }
}

fn directory(path: &str) -> Value {
    json!({"path": path, "is_directory": true, "size_bytes": null})
}

fn file(path: &str, size: u64) -> Value {
    json!({"path": path, "size_bytes": size})
}

fn hole(index: u32, offset: u64, bytes: u64) -> Bytes {
    [
        &[3][..],
        &index.to_be_bytes(),
        &offset.to_be_bytes(),
        &bytes.to_be_bytes(),
    ]
    .concat()
    .into()
}

fn file_end(index: u32, content: &[u8]) -> Bytes {
    let size = (content.len() as u64).to_be_bytes();
    let hash = blake3::hash(content);
    [&[1][..], &index.to_be_bytes(), &size, hash.as_bytes()]
        .concat()
        .into()
}

/// Links out of the tree, through another link, in the place of a file and of a directory; modes that are none.
#[tokio::test]
async fn links_and_attributes_that_could_do_harm_are_refused_and_leave_nothing() {
    let link = |path: &str, target: &str| json!({"type": "links", "list": [{"path": path, "target": target}]});
    let entries = |attributes: Value| json!({"type": "entries", "list": [directory("d"), file("d/f", 1)], "attributes": attributes});
    let plain = || entries(json!([]));
    let mode = |mode: u64| entries(json!([{"mode": mode}, {}]));
    let cases = [
        vec![plain(), link("d/l", "/etc")],
        vec![plain(), link("d/l", "..")],
        vec![plain(), link("d/l", "x/../../..")],
        vec![plain(), link("d/l", ".anabranch-x")],
        vec![plain(), link("d/f", "x")],
        vec![plain(), link("d", "x")],
        vec![plain(), link("l", "x")],
        vec![plain(), link("d/f/l", "x")],
        vec![plain(), link("d/l", "f"), link("d/l", "f")],
        vec![plain(), link("d/l", "f"), link("d/l/x", "f")],
        vec![plain(), link("d/../l", "f")],
        vec![plain(), json!({"type": "links", "list": []})],
        vec![
            plain(),
            json!({"type": "links", "list": [{"path": "d/l", "target": "f", "mode": 1}]}),
        ],
        vec![mode(0o100_644)],
        vec![mode(u64::MAX)],
        vec![entries(json!([{}]))],
        vec![entries(json!([{}, {}, {}]))],
    ];
    within(async {
        for case in cases {
            let pair = Pair::new(Rules::default());
            let hand = async {
                let hand = Hand::sender(&pair, json!({"revision": 1})).await;
                hand.send(json!({"type": "offer", "kind": "directory", "name": "d", "entries": 2}))
                    .await;
                for message in &case {
                    hand.send(message.clone()).await;
                }
                hand.send(json!({"type": "offer_end"})).await;
                assert_eq!(hand.receive().await["type"], "welcome");
                hand.receive().await
            };
            let (received, reply) = tokio::join!(pair.receive(), hand);
            assert!(received.is_err(), "{case:?}");
            assert_eq!(reply["type"], "failed", "{case:?}");
            assert!(pair.arrived().is_empty(), "{case:?}");
        }
    })
    .await;
}

/// A record of whole files, with the hash of what is given as hashed.
fn files(all: &[(u32, &[u8], &[u8])]) -> Bytes {
    let one = |(index, data, hashed): &(u32, &[u8], &[u8])| {
        let size = (data.len() as u32).to_be_bytes();
        let hash = blake3::hash(hashed);
        [&index.to_be_bytes()[..], &size, hash.as_bytes(), data].concat()
    };
    let files: Vec<u8> = all.iter().flat_map(one).collect();
    [&[4][..], &files].concat().into()
}

/// Holes that are too long, beyond the end of the file, at the wrong place, or in a stream; whole files that are longer or shorter
/// than offered, twice in a record, cut off, or not what their hash states.
#[tokio::test]
async fn absurd_records_end_the_transfer() {
    let cut = files(&[(0, b"0123456789", b"0123456789")]);
    let cut = cut.slice(..cut.len() - 1);
    within(async {
        for (kind, size, record) in [
            ("file", Some(10), hole(0, 0, 11)),
            ("file", Some(u64::MAX), hole(0, 0, u64::MAX)),
            ("file", Some(1 << 40), hole(0, 0, (1 << 30) + 1)),
            ("file", Some(10), hole(0, 5, 5)),
            ("file", Some(10), hole(1, 0, 5)),
            ("stream", None, hole(0, 0, 5)),
            ("file", Some(3), files(&[(0, b"four", b"four")])),
            ("file", Some(4), files(&[(0, b"two", b"two")])),
            (
                "file",
                Some(3),
                files(&[(0, b"two", b"two"), (0, b"two", b"two")]),
            ),
            ("file", Some(3), files(&[(1, b"two", b"two")])),
            ("file", Some(10), cut),
            ("file", Some(3), files(&[(0, b"two", b"owt")])),
            ("file", Some(0), files(&[])),
        ] {
            let pair = Pair::new(Rules::default());
            let hand = async {
                let hand = Hand::sender(&pair, json!({"revision": 1})).await;
                let entry = json!({"path": "f", "size_bytes": size});
                for message in [
                    json!({"type": "offer", "kind": kind, "name": "f", "entries": 1}),
                    json!({"type": "entries", "list": [entry]}),
                    json!({"type": "offer_end"}),
                ] {
                    hand.send(message).await;
                }
                assert_eq!(hand.receive().await["type"], "welcome");
                assert_eq!(hand.receive().await["type"], "go");
                hand.data(&[record.clone(), file_end(0, b"")]).await;
                hand.receive().await
            };
            let (received, reply) = tokio::join!(pair.receive(), hand);
            let is_refused = matches!(
                received,
                Err(TransferError::Protocol(_) | TransferError::Hash { .. })
            );
            assert!(is_refused, "{received:?}");
            assert_eq!(reply["type"], "failed");
            assert!(!pair.path("to/f").exists());
        }
    })
    .await;
}

/// A sender of revision 0 states neither modes nor times, and gets no message that it does not know.
#[tokio::test]
async fn only_a_sender_that_knows_the_message_is_told_what_is_durable() {
    const FILES: u32 = 200;
    within(async {
        for revision in [1, 0] {
            let pair = Pair::new(Rules::default());
            let names = (1..=FILES).map(|n| file(&format!("d/{n}"), 0));
            let entries: Vec<_> = std::iter::once(directory("d")).chain(names).collect();
            let hand = async {
                let hand = Hand::sender(&pair, json!({"revision": revision})).await;
                for message in [
                    json!({"type": "offer", "kind": "directory", "name": "d", "entries": FILES + 1}),
                    json!({"type": "entries", "list": entries}),
                    json!({"type": "offer_end"}),
                ] {
                    hand.send(message).await;
                }
                assert_eq!(hand.receive().await["type"], "welcome");
                assert_eq!(hand.receive().await["type"], "go");
                let data = hand.session.open_stream(StreamSpec {
                    label: DATA_LABEL.to_owned(),
                    ..StreamSpec::bulk("")
                });
                let data = data.unwrap();
                // Slowly: a batch that is a second old is made durable.
                let mut told = None;
                let mut sent = 0;
                while told.is_none() && sent < if revision == 0 { 15 } else { FILES } {
                    sent += 1;
                    data.send(file_end(sent, b"")).await.unwrap();
                    let wait = tokio::time::timeout(Duration::from_millis(200), hand.receive());
                    told = wait.await.ok();
                }
                for left in sent + 1..=FILES {
                    data.send(file_end(left, b"")).await.unwrap();
                }
                data.send(Bytes::from_static(&[2])).await.unwrap();
                data.finish().unwrap();
                let mut last = hand.receive().await;
                while revision == 1 && last["type"] == "durable" {
                    last = hand.receive().await;
                }
                hand.control.finish().unwrap();
                (told, last)
            };
            let (received, (told, last)) = tokio::join!(pair.receive(), hand);
            assert_eq!(received.unwrap().files, u64::from(FILES));
            assert_eq!(last["type"], "done");
            match told {
                Some(told) => {
                    assert_eq!((revision, &told["type"]), (1, &json!("durable")));
                    assert!(told["files"].as_u64().unwrap() >= 1);
                }
                None => assert_eq!(revision, 0),
            }
        }
    })
    .await;
}

/// A receiver of revision 0 gets neither links nor holes, and the sender names what it left out.
#[tokio::test]
async fn an_old_receiver_gets_what_it_knows() {
    within(async {
        let pair = Pair::new(Rules::default());
        let tree = pair.path("tree");
        fs::create_dir(&tree).unwrap();
        symlink("f", tree.join("l")).unwrap();
        let sparse = fs::File::create(tree.join("f")).unwrap();
        sparse.set_len(1 << 20).unwrap();
        let old = async {
            let hand = Hand::receiver(&pair).await;
            assert_eq!(hand.receive().await["type"], "hello");
            hand.session.end_probation().unwrap();
            hand.send(json!({"type": "welcome"})).await;
            assert_eq!(hand.receive().await["type"], "offer");
            let entries = hand.receive().await;
            assert_eq!(entries["list"].as_array().unwrap().len(), 2);
            assert_eq!(hand.receive().await["type"], "offer_end");
            hand.send(json!({"type": "go"})).await;
            let data = hand.session.accept_stream().await.unwrap();
            let mut bytes = 0;
            while let Some(adu) = data.recv().await.unwrap() {
                assert!(adu.data[0] <= 2, "record {}", adu.data[0]);
                if adu.data[0] == 0 {
                    bytes += adu.data.len() - 13;
                }
            }
            assert_eq!(bytes, 1 << 20);
            hand.send(json!({"type": "done", "files": 1, "bytes": bytes}))
                .await;
            let _ = hand.control.finish();
            while hand.control.recv().await.is_ok_and(|adu| adu.is_some()) {}
        };
        let sending = async {
            let (session, ticket) = pair.session().await;
            let source = Source::Path(tree.clone());
            send(&session, ticket.secret, source, &pair.progress).await
        };
        let (sent, ()) = tokio::join!(sending, old);
        let sent = sent.unwrap();
        assert_eq!(sent.left_out.named[0].path, "tree/l");
        assert_eq!(pair.progress.snapshot().files_done, 1);
    })
    .await;
}
