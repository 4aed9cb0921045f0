//! Transfers between two nodes on this machine.

use std::{fs, path::Path};

use anabranch::{
    Host, Ticket,
    transfer::{Completed, Progress, Receiver, Source, TransferError, send},
};

use crate::common::{host, key, within};

async fn receive_one(host: &Host, receiver: &Receiver) -> Result<Completed, TransferError> {
    let session = host.accept().await.unwrap();
    receiver.receive(&session, &Progress::default()).await
}

async fn send_one(host: &Host, ticket: &Ticket, path: &Path) -> Result<Completed, TransferError> {
    let session = host.connect(ticket.node, &ticket.addresses).await.unwrap();
    let source = Source::Path(path.to_owned());
    send(&session, ticket.secret, source, &Progress::default()).await
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count)
        .map(|index| (index * 7 + index / 251) as u8)
        .collect()
}

#[tokio::test]
async fn a_file_arrives_under_its_name() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("film.mp4"), folder.path().join("to"));
        fs::create_dir(&to).unwrap();
        fs::write(&from, bytes(3_000_000)).unwrap();
        let (a, b) = (host(1), host(2));
        let receiver = Receiver::new(to.clone(), &key(2), []).unwrap();
        let ticket = receiver.issue(&b).unwrap();
        let (received, sent) =
            tokio::join!(receive_one(&b, &receiver), send_one(&a, &ticket, &from));
        let (received, sent) = (received.unwrap(), sent.unwrap());
        assert_eq!((received.bytes, sent.bytes), (3_000_000, 3_000_000));
        assert_eq!(received.path, Some(to.join("film.mp4")));
        assert_eq!(fs::read(to.join("film.mp4")).unwrap(), bytes(3_000_000));
        assert_eq!(
            received.blake3.unwrap(),
            blake3::hash(&bytes(3_000_000)).to_hex().to_string()
        );
        assert_eq!(
            fs::read_dir(&to).unwrap().count(),
            1,
            "nothing else is left"
        );
    })
    .await;
}

#[tokio::test]
async fn a_directory_arrives_whole_with_empty_files_and_folders() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("tree"), folder.path().join("to"));
        fs::create_dir_all(from.join("a/b/empty")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("nothing"), "").unwrap();
        fs::write(from.join("a/one"), bytes(300_000)).unwrap();
        fs::write(from.join("a/b/two"), bytes(5)).unwrap();
        let (a, b) = (host(1), host(2));
        let receiver = Receiver::new(to.clone(), &key(2), []).unwrap();
        let ticket = receiver.issue(&b).unwrap();
        let (received, sent) =
            tokio::join!(receive_one(&b, &receiver), send_one(&a, &ticket, &from));
        sent.unwrap();
        assert_eq!(received.unwrap().files, 3);
        assert_eq!(fs::read(to.join("tree/a/one")).unwrap(), bytes(300_000));
        assert_eq!(fs::read(to.join("tree/a/b/two")).unwrap(), bytes(5));
        assert_eq!(fs::read(to.join("tree/nothing")).unwrap(), b"");
        assert!(to.join("tree/a/b/empty").is_dir());
    })
    .await;
}

#[tokio::test]
async fn a_reader_is_sent_to_its_end() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (host(1), host(2));
        let receiver = Receiver::new(folder.path().to_owned(), &key(2), []).unwrap();
        let ticket = receiver.issue(&b).unwrap();
        let sending = async {
            let session = a.connect(ticket.node, &ticket.addresses).await.unwrap();
            let source = Source::Reader {
                name: "stdin".to_owned(),
                reader: Box::new(std::io::Cursor::new(bytes(700_000))),
            };
            send(&session, ticket.secret, source, &Progress::default()).await
        };
        let (received, sent) = tokio::join!(receive_one(&b, &receiver), sending);
        assert_eq!(
            (received.unwrap().bytes, sent.unwrap().bytes),
            (700_000, 700_000)
        );
        assert_eq!(
            fs::read(folder.path().join("stdin")).unwrap(),
            bytes(700_000)
        );
    })
    .await;
}

#[tokio::test]
async fn the_second_user_of_a_ticket_is_refused_with_a_reason() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("x"), folder.path().join("to"));
        fs::create_dir(&to).unwrap();
        fs::write(&from, "x").unwrap();
        let (a, b, c) = (host(1), host(2), host(3));
        let receiver = Receiver::new(to, &key(2), []).unwrap();
        let ticket = receiver.issue(&b).unwrap();
        let (received, sent) =
            tokio::join!(receive_one(&b, &receiver), send_one(&a, &ticket, &from));
        received.unwrap();
        sent.unwrap();
        let (received, sent) =
            tokio::join!(receive_one(&b, &receiver), send_one(&c, &ticket, &from));
        assert!(matches!(received, Err(TransferError::Ticket(_))));
        let error = sent.unwrap_err();
        assert!(matches!(error, TransferError::Refused(_)), "{error}");
        assert!(error.to_string().contains("used already"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_interrupted_transfer_resumes_where_it_stopped() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("big"), folder.path().join("to"));
        fs::create_dir(&to).unwrap();
        fs::write(&from, bytes(40_000_000)).unwrap();
        let (a, b) = (host(1), host(2));
        let receiver = Receiver::new(to.clone(), &key(2), []).unwrap();
        let ticket = receiver.issue(&b).unwrap();

        let progress = Progress::default();
        let first = async {
            let session = b.accept().await.unwrap();
            let watching = async {
                while progress.snapshot().bytes_done < 4_000_000 {
                    tokio::task::yield_now().await;
                }
                session.close(1, "the cable was pulled");
            };
            tokio::join!(receiver.receive(&session, &progress), watching).0
        };
        let (received, sent) = tokio::join!(first, send_one(&a, &ticket, &from));
        assert!(received.unwrap_err().is_interruption());
        assert!(sent.unwrap_err().is_interruption());
        assert!(
            !to.join("big").exists(),
            "no half file under the final name"
        );

        let progress = Progress::default();
        let second = async {
            let session = b.accept().await.unwrap();
            receiver.receive(&session, &progress).await
        };
        let (received, sent) = tokio::join!(second, send_one(&a, &ticket, &from));
        sent.unwrap();
        received.unwrap();
        assert!(
            progress.snapshot().bytes_resumed >= 3_000_000,
            "{:?}",
            progress.snapshot()
        );
        assert_eq!(fs::read(to.join("big")).unwrap(), bytes(40_000_000));
    })
    .await;
}

#[tokio::test]
async fn an_existing_name_is_refused_before_anything_is_sent() {
    within(async {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("x"), folder.path().join("to"));
        fs::create_dir(&to).unwrap();
        fs::write(&from, "new").unwrap();
        fs::write(to.join("x"), "old").unwrap();
        let (a, b) = (host(1), host(2));
        let receiver = Receiver::new(to.clone(), &key(2), []).unwrap();
        let ticket = receiver.issue(&b).unwrap();
        let (received, sent) =
            tokio::join!(receive_one(&b, &receiver), send_one(&a, &ticket, &from));
        assert!(matches!(received, Err(TransferError::Exists { .. })));
        assert!(sent.unwrap_err().to_string().contains("exists already"));
        assert_eq!(fs::read(to.join("x")).unwrap(), b"old");
    })
    .await;
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let error = Receiver::new("/proc/no-such".into(), &key(2), [])
        .unwrap_err()
        .to_string();
    assert!(error.contains("/proc/no-such"), "{error}");
}

/// `/dev/full` fails every write with "no space left".
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_explained() {
    let mut full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let source = std::io::Write::write_all(&mut full, b"x").unwrap_err();
    let error = TransferError::Write {
        path: "film".into(),
        source,
    };
    assert!(error.to_string().contains("free some space"), "{error}");
}
