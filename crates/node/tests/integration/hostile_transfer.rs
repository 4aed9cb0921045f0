//! Hostile senders and receivers of transfers, and files that change during a transfer.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    Host, Order, Priority, Session, Stream, StreamSpec, Ticket,
    base::ids::encode_base32,
    transfer::{
        CONTROL_LABEL, Completed, DATA_LABEL, Progress, Receiver, Rules, Source, TransferError,
        send,
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
}

impl Pair {
    fn new() -> Self {
        Self::with_rules(Rules::default())
    }

    fn with_rules(rules: Rules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("to")).unwrap();
        let receiver = Receiver::new(folder.path().join("to"), &key(2), []).unwrap();
        Self {
            folder,
            a: host(1),
            b: host(2),
            receiver: receiver.with_rules(rules),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn issue(&self) -> Ticket {
        self.receiver.issue(&self.b).unwrap()
    }

    async fn receive(&self) -> Result<Completed, TransferError> {
        let session = self.b.accept().await.unwrap();
        self.receiver.receive(&session, &Progress::default()).await
    }

    async fn send(&self, ticket: &Ticket, path: &Path) -> Result<Completed, TransferError> {
        let session = self.connect(ticket).await;
        let source = Source::Path(path.to_owned());
        send(&session, ticket.secret, source, &Progress::default()).await
    }

    async fn both(
        &self,
        ticket: &Ticket,
        path: &Path,
    ) -> (
        Result<Completed, TransferError>,
        Result<Completed, TransferError>,
    ) {
        tokio::join!(self.receive(), self.send(ticket, path))
    }

    async fn connect(&self, ticket: &Ticket) -> Session {
        let session = self.a.connect(ticket.node, &ticket.addresses).await;
        session.unwrap()
    }

    /// Names in the receiver's directory.
    fn arrived(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("to")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

fn control_spec() -> StreamSpec {
    StreamSpec {
        duplex: true,
        priority: Priority::NORMAL,
        order: Order::Ordered,
        label: CONTROL_LABEL.to_owned(),
        ..StreamSpec::default()
    }
}

/// One side of a transfer that sends whatever messages a test needs.
struct Hand {
    session: Session,
    control: Stream,
}

impl Hand {
    async fn new(pair: &Pair, ticket: &Ticket) -> Self {
        let session = pair.connect(ticket).await;
        let control = session.open_stream(control_spec()).unwrap();
        let hand = Self { session, control };
        let secret = ticket.secret.map(|secret| encode_base32(&secret.0));
        hand.send(json!({"type": "hello", "secret": secret.unwrap_or_default()}))
            .await;
        hand
    }

    /// Offers the file `film` of 8 bytes, and is welcome.
    async fn with_film(pair: &Pair, ticket: &Ticket) -> Self {
        let hand = Self::new(pair, ticket).await;
        let mut entry = file("film", 8);
        entry["modified_ns"] = modified_ns(&pair.path("film")).into();
        hand.offer("file", "film", &[entry]).await;
        assert_eq!(hand.receive().await["type"], "welcome");
        hand
    }

    async fn send(&self, message: Value) {
        // The receiver may have closed the stream.
        let _ = self.control.send(message.to_string().into()).await;
    }

    async fn receive(&self) -> Value {
        let adu = self.control.recv().await.unwrap().unwrap();
        serde_json::from_slice(&adu.data).unwrap()
    }

    async fn offer(&self, kind: &str, name: &str, entries: &[Value]) {
        self.send(json!({"type": "offer", "kind": kind, "name": name, "entries": entries.len()}))
            .await;
        for list in entries.chunks(500) {
            self.send(json!({"type": "entries", "list": list})).await;
        }
        self.send(json!({"type": "offer_end"})).await;
    }
}

fn file(path: &str, size: u64) -> Value {
    json!({"path": path, "size_bytes": size})
}

fn directory(path: &str) -> Value {
    json!({"path": path, "is_directory": true, "size_bytes": null})
}

fn modified_ns(path: &Path) -> u64 {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_nanos() as u64
}

/// A chunk record of `spec/transfer.md` §3.
fn chunk(index: u32, offset: u64, data: &[u8]) -> Bytes {
    let head = [&[0][..], &index.to_be_bytes(), &offset.to_be_bytes()].concat();
    [&head, data].concat().into()
}

fn file_end(index: u32, content: &[u8]) -> Bytes {
    let size = (content.len() as u64).to_be_bytes();
    let hash = blake3::hash(content);
    [&[1][..], &index.to_be_bytes(), &size, hash.as_bytes()]
        .concat()
        .into()
}

/// Issue 19, fault 5: a received directory was taken for the folder of an unfinished transfer.
#[tokio::test]
async fn names_of_the_receivers_own_are_refused_whatever_their_case() {
    within(async {
        for name in [
            ".anabranch-zzz",
            ".Anabranch-ZZZ",
            "d/.anabranch-zzz",
            "d/.ANABRANCH-x/note",
        ] {
            let pair = Pair::with_rules(Rules {
                allow_hidden: true,
                ..Rules::default()
            });
            let ticket = pair.issue();
            let hand = async {
                let hand = Hand::new(&pair, &ticket).await;
                let top = name.split('/').next().unwrap();
                let mut entries = vec![directory(top)];
                let mut at = top.to_owned();
                for part in name.split('/').skip(1) {
                    at = format!("{at}/{part}");
                    entries.push(directory(&at));
                }
                entries.push(file(&format!("{at}/ticket"), 3));
                hand.offer("directory", top, &entries).await;
                assert_eq!(hand.receive().await["type"], "welcome");
                let last = hand.receive().await;
                assert_eq!(last["type"], "failed", "{last}");
                assert!(
                    last["reason"].as_str().unwrap().contains("reserved"),
                    "{last}"
                );
            };
            let (received, ()) = tokio::join!(pair.receive(), hand);
            assert!(
                matches!(received, Err(TransferError::Path { .. })),
                "{received:?}"
            );
            assert!(pair.arrived().is_empty());
        }
    })
    .await;
}

/// Issue 19, fault 5: several transfers used one ticket.
#[tokio::test]
async fn a_ticket_is_good_for_one_name() {
    within(async {
        let pair = Pair::new();
        let ticket = pair.issue();
        fs::write(pair.path("film"), "film").unwrap();
        let hand = async {
            let hand = Hand::new(&pair, &ticket).await;
            hand.offer("file", "first", &[file("first", 5)]).await;
            assert_eq!(hand.receive().await["type"], "welcome");
            assert_eq!(hand.receive().await["type"], "go");
            hand.session.close(0, "enough");
        };
        let (received, ()) = tokio::join!(pair.receive(), hand);
        assert!(received.unwrap_err().is_interruption());
        let (received, sent) = pair.both(&ticket, &pair.path("film")).await;
        assert!(
            matches!(received, Err(TransferError::Ticket(_))),
            "{received:?}"
        );
        let error = sent.unwrap_err().to_string();
        assert!(error.contains("good for one transfer"), "{error}");
        assert!(!pair.path("to/film").exists());

        // The same after a restart of the receiver.
        let again = Receiver::new(pair.path("to"), &key(2), []).unwrap();
        let pair = Pair {
            receiver: again,
            ..pair
        };
        let (received, _) = pair.both(&ticket, &pair.path("film")).await;
        assert!(
            matches!(received, Err(TransferError::Ticket(_))),
            "{received:?}"
        );
    })
    .await;
}

/// Issue 19, fault 6: a file of a directory is replaced by one of the same size and time while the transfer is
/// interrupted.
#[tokio::test]
async fn a_finished_file_that_was_replaced_meanwhile_arrives_as_it_is_now() {
    within(async {
        let pair = Pair::new();
        let from = pair.path("tree");
        fs::create_dir(&from).unwrap();
        let (old, new) = (vec![1; 300_000], vec![2; 300_000]);
        fs::write(from.join("a"), &old).unwrap();
        fs::write(from.join("b"), vec![3; 20]).unwrap();
        let ticket = pair.issue();
        let hand = async {
            let hand = Hand::new(&pair, &ticket).await;
            let with_time = |name: &str, size: u64| {
                let mut entry = file(&format!("tree/{name}"), size);
                entry["modified_ns"] = modified_ns(&from.join(name)).into();
                entry
            };
            let entries = [
                directory("tree"),
                with_time("a", 300_000),
                with_time("b", 20),
            ];
            hand.offer("directory", "tree", &entries).await;
            assert_eq!(hand.receive().await["type"], "welcome");
            assert_eq!(hand.receive().await["type"], "go");
            let data = hand
                .session
                .open_stream(StreamSpec::bulk(DATA_LABEL))
                .unwrap();
            data.send(chunk(1, 0, &old)).await.unwrap();
            data.send(file_end(1, &old)).await.unwrap();
            // On disk, and past the end of the file: the next one has begun.
            data.send(chunk(2, 0, &[3; 10])).await.unwrap();
            let partial = || {
                let folder = pair.arrived().pop()?;
                let file = pair.path("to").join(folder).join("data/tree/b");
                fs::metadata(file).ok().map(|metadata| metadata.len())
            };
            while partial() != Some(10) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            hand.session.close(0, "the cable was pulled");
        };
        let (received, ()) = tokio::join!(pair.receive(), hand);
        assert!(received.unwrap_err().is_interruption());

        let modified = fs::metadata(from.join("a")).unwrap().modified().unwrap();
        fs::write(from.join("a"), &new).unwrap();
        let file = fs::OpenOptions::new().write(true).open(from.join("a"));
        file.unwrap().set_modified(modified).unwrap();

        let (received, sent) = pair.both(&ticket, &from).await;
        sent.unwrap();
        received.unwrap();
        assert!(
            fs::read(pair.path("to/tree/a")).unwrap() == new,
            "old bytes"
        );
        assert_eq!(fs::read(pair.path("to/tree/b")).unwrap(), [3; 20]);
    })
    .await;
}

/// Issue 19, fault 5: bytes of the right size lie where a finished file was.
#[tokio::test]
async fn planted_data_is_never_called_verified() {
    within(async {
        let pair = Pair::new();
        fs::write(pair.path("film"), "the film").unwrap();
        let ticket = pair.issue();
        let hand = async {
            let hand = Hand::with_film(&pair, &ticket).await;
            assert_eq!(hand.receive().await["type"], "go");
            hand.session.close(0, "enough");
        };
        let (received, ()) = tokio::join!(pair.receive(), hand);
        received.unwrap_err();
        let folder = pair.arrived().pop().unwrap();
        fs::write(pair.path("to").join(folder).join("data/film"), "a virus!").unwrap();
        let (received, sent) = pair.both(&ticket, &pair.path("film")).await;
        sent.unwrap();
        received.unwrap();
        assert_eq!(fs::read(pair.path("to/film")).unwrap(), b"the film");
        assert_eq!(pair.arrived(), ["film"]);
    })
    .await;
}

/// Issue 19, fault 10: the receiver dies after the rename, and before the sender has the confirmation.
#[tokio::test]
async fn a_retry_after_the_name_was_given_succeeds() {
    within(async {
        let pair = Pair::new();
        fs::write(pair.path("film"), "the film").unwrap();
        let ticket = pair.issue();
        let dying = async {
            let hand = Hand::with_film(&pair, &ticket).await;
            let data = hand.session.open_stream(StreamSpec::bulk(DATA_LABEL)).unwrap();
            data.send(chunk(0, 0, b"the film")).await.unwrap();
            data.send(file_end(0, b"the film")).await.unwrap();
            data.send(Bytes::from_static(&[2])).await.unwrap();
            while !pair.path("to/film").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // The receiver is dropped at this point, as if it had been killed.
        tokio::select! {
            received = pair.receive() => panic!("it waits for the sender's last word: {received:?}"),
            () = dying => {}
        }
        let again = Receiver::new(pair.path("to"), &key(2), []).unwrap();
        let pair = Pair { receiver: again, ..pair };
        let (received, sent) = pair.both(&ticket, &pair.path("film")).await;
        let (received, sent) = (received.unwrap(), sent.unwrap());
        assert_eq!((received.bytes, sent.bytes), (8, 8));
        assert_eq!(fs::read(pair.path("to/film")).unwrap(), b"the film");
        assert_eq!(pair.arrived(), ["film"]);
        // The ticket was good for this transfer only.
        let (received, _) = pair.both(&ticket, &pair.path("film")).await;
        assert!(matches!(received, Err(TransferError::Ticket(_))), "{received:?}");
    })
    .await;
}

/// The same for a directory with an empty file, of which the sender is not told that it is present, and so sends it again.
#[tokio::test]
async fn a_retry_after_a_tree_was_named_succeeds_with_an_empty_file_in_it() {
    within(async {
        let pair = Pair::new();
        let ticket = pair.issue();
        let entries = [directory("tree"), file("tree/empty", 0), file("tree/full", 4)];
        let whole = |index: u32, content: &[u8]| {
            let (size, hash) = (content.len() as u32, blake3::hash(content));
            [&index.to_be_bytes(), &size.to_be_bytes(), &hash.as_bytes()[..], content].concat()
        };
        let offered = || async {
            let hand = Hand::new(&pair, &ticket).await;
            hand.offer("directory", "tree", &entries).await;
            assert_eq!(hand.receive().await["type"], "welcome");
            hand.session.open_stream(StreamSpec::bulk(DATA_LABEL)).map(|data| (hand, data)).unwrap()
        };
        let dying = async {
            let (_hand, data) = offered().await;
            let both = [&[4][..], &whole(1, b""), &whole(2, b"full")].concat();
            data.send(both.into()).await.unwrap();
            data.send(Bytes::from_static(&[2])).await.unwrap();
            while !pair.path("to/tree").exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            received = pair.receive() => panic!("it waits for the sender's last word: {received:?}"),
            () = dying => {}
        }
        let again = Receiver::new(pair.path("to"), &key(2), []).unwrap();
        let receiving = async {
            let session = pair.b.accept().await.unwrap();
            again.receive(&session, &Progress::default()).await
        };
        let sending = async {
            let (hand, data) = offered().await;
            let have = hand.receive().await;
            assert_eq!((&have["type"], &have["index"]), (&json!("have"), &json!(2)));
            data.send([&[4][..], &whole(1, b"")].concat().into()).await.unwrap();
            data.send(file_end(2, b"full")).await.unwrap();
            data.send(Bytes::from_static(&[2])).await.unwrap();
            loop {
                match hand.receive().await["type"].as_str().unwrap() {
                    "done" => return,
                    "failed" | "refused" => panic!("it was complete"),
                    _ => {}
                }
            }
        };
        let (received, ()) = tokio::join!(receiving, sending);
        assert_eq!(received.unwrap().files, 2);
    })
    .await;
}

/// Offers by the holder of a ticket that are absurd, too large, or lead elsewhere. Each is refused with a reason, and leaves
/// nothing.
#[tokio::test]
async fn absurd_offers_are_refused_and_leave_nothing() {
    let many = json!({"type": "offer", "kind": "directory", "name": "d", "entries": 1_000_000});
    let endless = json!({"type": "entries", "list": []});
    let long_list = json!({"type": "entries", "list": vec![directory(&"d".repeat(100)); 4_000]});
    let offer = |name: &str, entries: u64| json!({"type": "offer", "kind": "directory", "name": name, "entries": entries});
    let whole = |name: &str, list: Vec<Value>| {
        let number = list.len() as u64;
        vec![
            offer(name, number),
            json!({"type": "entries", "list": list}),
            json!({"type": "offer_end"}),
        ]
    };
    let cases: Vec<Vec<Value>> = vec![
        vec![many],
        vec![offer("d", 3), endless],
        vec![offer("d", 4_000), long_list],
        vec![offer("d", 1), json!({"type": "hello", "secret": "x"})],
        vec![json!({"type": "offer_end"})],
        vec![json!("nonsense")],
        whole(
            "d",
            vec![directory("d"), file(&format!("d/{}", "n".repeat(256)), 1)],
        ),
        whole("d", vec![directory("d"), file("d/../x", 1)]),
        whole("d", vec![directory("d"), file("d/a", 1), file("d/a", 1)]),
        whole("d", vec![directory("d"), file("d/a", 1), file("d/a/b", 1)]),
        whole("d", vec![directory("d"), file("e", 1)]),
        whole("d", vec![directory("d"), file("d/\u{1b}[2J", 1)]),
        whole("..", vec![directory("..")]),
        whole("d", vec![]),
        whole(".bashrc", vec![directory(".bashrc")]),
        whole(
            "d",
            vec![directory("d"), file("d/a", u64::MAX), file("d/b", u64::MAX)],
        ),
    ];
    within(async {
        for case in cases {
            let pair = Pair::with_rules(Rules {
                bytes_max: Some(1_000_000),
                ..Rules::default()
            });
            let ticket = pair.issue();
            let hand = async {
                let hand = Hand::new(&pair, &ticket).await;
                for message in &case {
                    hand.send(message.clone()).await;
                }
                assert_eq!(hand.receive().await["type"], "welcome");
                hand.receive().await
            };
            let (received, last) = tokio::join!(pair.receive(), hand);
            let error = received.unwrap_err();
            assert!(!error.is_interruption(), "{error}");
            assert_eq!(last["type"], "failed", "{last}");
            assert_eq!(last["reason"], error.to_string());
            assert!(pair.arrived().is_empty(), "{error}");
        }
    })
    .await;
}

/// A stream of unknown length, and a file that claims less than it sends.
#[tokio::test]
async fn more_bytes_than_are_taken_do_not_reach_the_disk() {
    within(async {
        for (kind, size) in [("stream", Value::Null), ("file", json!(10))] {
            let pair = Pair::with_rules(Rules {
                bytes_max: Some(100),
                ..Rules::default()
            });
            let ticket = pair.issue();
            let hand = async {
                let hand = Hand::new(&pair, &ticket).await;
                let entry = json!({"path": "film", "size_bytes": size});
                hand.offer(kind, "film", &[entry]).await;
                assert_eq!(hand.receive().await["type"], "welcome");
                let data = hand
                    .session
                    .open_stream(StreamSpec::bulk(DATA_LABEL))
                    .unwrap();
                data.send(chunk(0, 0, &[0; 101])).await.unwrap();
                assert_eq!(hand.receive().await["type"], "go");
                hand.receive().await
            };
            let (received, last) = tokio::join!(pair.receive(), hand);
            received.unwrap_err();
            assert_eq!(last["type"], "failed", "{last}");
            assert!(!pair.path("to/film").exists());
        }
    })
    .await;
}

/// Issue 19, fault 10: secrets could be guessed without a limit of attempts.
#[tokio::test]
async fn wrong_tickets_are_ignored_after_a_limit() {
    within(async {
        let pair = Pair::new();
        fs::write(pair.path("film"), "the film").unwrap();
        let good = pair.issue();
        for n in 0..10 {
            let mut wrong = good.clone();
            wrong.secret.as_mut().unwrap().0 = [n; 16];
            let (received, _) = pair.both(&wrong, &pair.path("film")).await;
            assert!(
                matches!(received, Err(TransferError::Unknown)),
                "{received:?}"
            );
        }
        let (received, sent) = pair.both(&good, &pair.path("film")).await;
        assert!(
            matches!(received, Err(TransferError::Ticket(_))),
            "{received:?}"
        );
        let error = sent.unwrap_err().to_string();
        assert!(error.contains("wait ten minutes"), "{error}");
    })
    .await;
}

/// A receiver that sends a malicious reason: it is shown escaped and shortened, and ends the transfer.
#[tokio::test]
async fn a_receivers_words_cannot_act_on_the_senders_terminal() {
    within(async {
        let pair = Pair::new();
        fs::write(pair.path("film"), "the film").unwrap();
        let ticket = pair.issue();
        let hostile = async {
            let session = pair.b.accept().await.unwrap();
            let control = session.accept_stream().await.unwrap();
            let reason = format!("\u{1b}]0;title\u{7}\u{202e}{}", "x".repeat(100_000));
            let refused = json!({"type": "refused", "reason": reason});
            control.send(refused.to_string().into()).await.unwrap();
            while control.recv().await.is_ok_and(|adu| adu.is_some()) {}
        };
        let film = pair.path("film");
        let (sent, ()) = tokio::join!(pair.send(&ticket, &film), hostile);
        let error = sent.unwrap_err().to_string();
        assert!(
            !error.contains(['\u{1b}', '\u{7}', '\u{202e}']),
            "{error:?}"
        );
        assert!(error.contains("\\u001b]0;title"), "{error}");
        assert!(error.chars().count() < 400, "{}", error.len());
    })
    .await;
}

/// Replies about files present at the receiver are refused if they name a file twice, an unknown file, or an invalid hash.
#[tokio::test]
async fn nonsense_about_what_is_there_already_ends_the_transfer() {
    let hash = blake3::hash(b"").to_hex().to_string();
    let have = |index: u64, hash: &str| json!({"type": "have", "index": index, "bytes": u64::MAX, "hash": hash});
    let cases = [
        vec![have(0, &hash), have(0, &hash)],
        vec![have(1, &hash)],
        vec![have(u64::from(u32::MAX), &hash)],
        vec![have(0, &"x".repeat(200_000))],
    ];
    within(async {
        for case in cases {
            let pair = Pair::new();
            fs::write(pair.path("film"), "the film").unwrap();
            let ticket = pair.issue();
            let hostile = async {
                let session = pair.b.accept().await.unwrap();
                let control = session.accept_stream().await.unwrap();
                let welcome = json!({"type": "welcome"});
                for message in std::iter::once(&welcome).chain(&case) {
                    control.send(message.to_string().into()).await.unwrap();
                }
                while control.recv().await.is_ok_and(|adu| adu.is_some()) {}
            };
            let film = pair.path("film");
            let (sent, ()) = tokio::join!(pair.send(&ticket, &film), hostile);
            assert!(matches!(sent, Err(TransferError::Protocol(_))), "{sent:?}");
        }
    })
    .await;
}

/// During probation a receiver accepts no more than a few packets, so that a large offer would be dropped and sent again: it
/// waits until the ticket was read. A small one saves the round trip.
#[tokio::test]
async fn a_large_offer_waits_for_the_welcome() {
    within(async {
        for (files, waits) in [(1, false), (200, true)] {
            let pair = Pair::new();
            let film = pair.path("film");
            fs::create_dir(&film).unwrap();
            for number in 0..files {
                fs::write(film.join(number.to_string()), "a scene").unwrap();
            }
            let ticket = pair.issue();
            let slow = async {
                let session = pair.b.accept().await.unwrap();
                let control = session.accept_stream().await.unwrap();
                let hand = Hand { session, control };
                assert_eq!(hand.receive().await["type"], "hello");
                if waits {
                    let early = tokio::time::timeout(Duration::from_millis(300), hand.receive());
                    assert!(early.await.is_err(), "the offer did not wait");
                    hand.send(json!({"type": "welcome"})).await;
                }
                assert_eq!(hand.receive().await["type"], "offer");
            };
            tokio::select! {
                sent = pair.send(&ticket, &film) => panic!("not received: {sent:?}"),
                () = slow => {}
            }
        }
    })
    .await;
}
