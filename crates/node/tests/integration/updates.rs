//! Updates between two nodes on this machine, and peers that break their rules.

use std::{fs, path::Path, time::Duration};

use anabranch::{
    Host, Order, Session, Stream, StreamSpec, Ticket,
    base::ids::encode_base32,
    transfer::{
        CONTROL_LABEL, Completed, Manner, Progress, Receiver, Rules, Source, TransferError, Update,
        Updates, send_in,
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{host, key, within};

type Result<T> = std::result::Result<T, TransferError>;

/// A sender with `tree/a`, and a receiver whose `tree` has another `a`, and `b`.
struct Pair {
    folder: TempDir,
    a: Host,
    b: Host,
    receiver: Receiver,
}

impl Pair {
    fn new(updates: Updates) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("to/tree")).unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        for (path, content) in [("tree/a", "new"), ("to/tree/a", "old!"), ("to/tree/b", "b")] {
            fs::write(folder.path().join(path), content).unwrap();
        }
        let receiver = Receiver::new(folder.path().join("to"), &key(2), []).unwrap();
        let rules = Rules {
            updates,
            ..Rules::default()
        };
        Self {
            folder,
            a: host(1),
            b: host(2),
            receiver: receiver.with_rules(rules),
        }
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join("to/tree").join(path)).ok()
    }

    fn is_as_before(&self) -> bool {
        self.read("a").unwrap() == "old!" && self.read("b").unwrap() == "b"
    }

    async fn receive(&self) -> Result<Completed> {
        let session = self.b.accept().await.unwrap();
        self.receiver.receive(&session, &Progress::default()).await
    }

    async fn session(&self) -> (Session, Ticket) {
        let ticket = self.receiver.issue(&self.b).unwrap();
        let session = self.a.connect(ticket.node, &ticket.addresses).await;
        (session.unwrap(), ticket)
    }

    async fn update(&self, update: Update) -> Result<Completed> {
        let (session, ticket) = self.session().await;
        send(&session, &ticket, &self.folder.path().join("tree"), update).await
    }
}

async fn send(
    session: &Session,
    ticket: &Ticket,
    path: &Path,
    update: Update,
) -> Result<Completed> {
    let manner = Manner {
        update: Some(update),
        answer_within: Duration::from_secs(60),
        ..Manner::default()
    };
    let source = Source::Path(path.to_owned());
    let progress = Progress::default();
    send_in(session, ticket.secret, source, &manner, &progress, |_| {}).await
}

const DELETE: Update = Update {
    delete: true,
    dry_run: false,
};

#[tokio::test]
async fn both_sides_report_what_changed() {
    within(async {
        let pair = Pair::new(Updates::WithDeletion);
        let dry = Update {
            dry_run: true,
            ..DELETE
        };
        let (received, planned) = tokio::join!(pair.receive(), pair.update(dry));
        assert!(
            matches!(received, Err(TransferError::DryRun)),
            "{received:?}"
        );
        assert!(pair.is_as_before());
        assert_eq!(
            fs::read_dir(pair.folder.path().join("to")).unwrap().count(),
            1
        );
        let (received, sent) = tokio::join!(pair.receive(), pair.update(DELETE));
        let (received, sent) = (received.unwrap(), sent.unwrap());
        assert_eq!(received.changes, sent.changes);
        assert_eq!(planned.unwrap().changes, sent.changes);
        let changes = sent.changes.unwrap();
        assert_eq!((changes.replaced.len(), changes.bytes()), (1, 3));
        assert_eq!(changes.deleted, ["tree/b"]);
        assert_eq!(
            (pair.read("a").unwrap().as_str(), pair.read("b")),
            ("new", None)
        );
    })
    .await;
}

#[tokio::test]
async fn what_is_not_permitted_is_refused_before_anything_is_shown() {
    let refused = [
        (Updates::Refused, false, "recv --update"),
        (Updates::Refused, true, "recv --update"),
        (Updates::Permitted, true, "recv --update --delete"),
    ];
    within(async {
        for (updates, delete, words) in refused {
            for dry_run in [false, true] {
                let pair = Pair::new(updates);
                let update = Update { delete, dry_run };
                let (received, sent) = tokio::join!(pair.receive(), pair.update(update));
                assert!(matches!(received, Err(TransferError::Unpermitted(_))));
                let error = sent.unwrap_err();
                assert!(matches!(error, TransferError::Refused(_)), "{error}");
                assert!(error.to_string().contains(words), "{error}");
                assert!(pair.is_as_before());
            }
        }
    })
    .await;
}

fn control_spec() -> StreamSpec {
    StreamSpec {
        duplex: true,
        order: Order::Ordered,
        label: CONTROL_LABEL.to_owned(),
        ..StreamSpec::default()
    }
}

async fn say(control: &Stream, message: Value) {
    // The receiver may have closed the stream.
    let _ = control.send(message.to_string().into()).await;
}

async fn hear(control: &Stream) -> Value {
    let adu = control.recv().await.unwrap().unwrap();
    serde_json::from_slice(&adu.data).unwrap()
}

/// A sender may delete only what the receiver listed, each path once and in order.
#[tokio::test]
async fn a_deletion_that_was_not_listed_ends_the_transfer() {
    let lists: [&[u32]; 4] = [&[1], &[0, 0], &[u32::MAX], &[0, 1]];
    within(async {
        for list in lists {
            let pair = Pair::new(Updates::WithDeletion);
            let hostile = async {
                let (session, ticket) = pair.session().await;
                let control = session.open_stream(control_spec()).unwrap();
                let secret = encode_base32(&ticket.secret.unwrap().0);
                say(&control, json!({"type": "hello", "secret": secret, "revision": 2})).await;
                let root = json!({"path": "tree", "is_directory": true, "size_bytes": null});
                let entry = json!({"path": "tree/a", "size_bytes": 3});
                let update = json!({"delete": true, "dry_run": false});
                say(
                    &control,
                    json!({"type": "offer", "kind": "directory", "name": "tree", "entries": 2, "update": update}),
                )
                .await;
                say(&control, json!({"type": "entries", "list": [root, entry]})).await;
                say(&control, json!({"type": "offer_end"})).await;
                let mut seen = Vec::new();
                loop {
                    let message = hear(&control).await;
                    if message["type"] == "go" {
                        break;
                    }
                    seen.push(message);
                }
                let extra = seen.iter().find(|message| message["type"] == "extra");
                let extra = &extra.unwrap()["list"];
                assert_eq!(extra.as_array().unwrap().len(), 1);
                assert_eq!(extra[0]["path"], "tree/b");
                say(&control, json!({"type": "delete", "list": list})).await;
                say(&control, json!({"type": "proceed"})).await;
                assert_eq!(hear(&control).await["type"], "failed");
            };
            let (received, ()) = tokio::join!(pair.receive(), hostile);
            assert!(matches!(received, Err(TransferError::Protocol(_))), "{received:?}");
            assert!(pair.is_as_before());
        }
    })
    .await;
}

/// A receiver that does not know updates would take the offer for one that needs a free name.
#[tokio::test]
async fn an_old_receiver_is_not_asked_to_update() {
    within(async {
        let pair = Pair::new(Updates::Refused);
        let old = async {
            let session = pair.b.accept().await.unwrap();
            let control = session.accept_stream().await.unwrap();
            assert_eq!(hear(&control).await["type"], "hello");
            say(&control, json!({"type": "welcome", "revision": 1})).await;
            // Nothing else came.
            assert!(!control.recv().await.is_ok_and(|adu| adu.is_some()));
        };
        let update = async {
            let updated = pair.update(DELETE).await;
            pair.a.shutdown().await;
            updated
        };
        let (sent, ()) = tokio::join!(update, old);
        assert!(matches!(sent, Err(TransferError::NoUpdates)), "{sent:?}");
    })
    .await;
}

#[tokio::test]
async fn a_sender_whose_stream_nobody_takes_gives_up() {
    within(async {
        let pair = Pair::new(Updates::Refused);
        let idle = async {
            // Held open.
            let session = pair.b.accept().await.unwrap();
            session.closed().await
        };
        let sending = async {
            let (session, ticket) = pair.session().await;
            let manner = Manner {
                answer_within: Duration::from_millis(200),
                ..Manner::default()
            };
            let source = Source::Path(pair.folder.path().join("tree"));
            let progress = Progress::default();
            let sent = send_in(&session, ticket.secret, source, &manner, &progress, |_| {}).await;
            session.close(0, "done");
            sent
        };
        let (_, sent) = tokio::join!(idle, sending);
        let error = sent.unwrap_err();
        assert!(matches!(error, TransferError::Unanswered(_)), "{error}");
        assert!(error.to_string().contains("anabranch recv"), "{error}");
    })
    .await;
}
