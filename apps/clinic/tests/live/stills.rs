//! Files as an ambulance sends them that makes mistakes: what is not whole is not kept.

use std::{fs, path::Path, time::Duration};

use anabranch::{Session, Stream};
use anabranch_clinic::{
    hospital::Report,
    wire::{Data, Notice, Piece, Purpose, Request, decode, encode},
};
use tokio::time::timeout;

use crate::setting::{Car, Running, case, greet, loopback, open};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// An ambulance with an open stream of files.
struct Sending {
    stream: Stream,
    _session: Session,
    _case: Stream,
    _car: Car,
}

impl Sending {
    async fn begin(hospital: &Running) -> Self {
        let car = Car::new(2);
        let session = car.call(&hospital.ticket).await;
        let case = greet(&session, &hospital.ticket, false).await;
        Self {
            stream: open(&session, Purpose::Stills),
            _session: session,
            _case: case,
            _car: car,
        }
    }

    async fn announce(&self, still: u32, name: &str, bytes: u64) {
        let name = name.to_owned();
        let still = Request::Still { still, name, bytes };
        self.stream.send(encode(&still)).await.unwrap();
    }

    async fn piece(&self, still: u32, offset: u64, bytes: &'static [u8]) {
        let piece = Data::Piece(Piece {
            still,
            offset,
            bytes: bytes.into(),
        });
        self.stream.send(piece.to_adu()).await.unwrap();
    }

    /// States the hash of `bytes`; returns the reason why the file is not kept.
    async fn whole(&self, still: u32, bytes: &[u8]) -> Option<String> {
        let hash = blake3::hash(bytes).to_hex().to_string();
        let whole = Request::Whole { still, hash };
        self.stream.send(encode(&whole)).await.unwrap();
        let answer = timeout(LONG, self.stream.recv()).await.unwrap();
        match decode(&answer.unwrap().unwrap().data) {
            Ok(Notice::Kept { still: own, why }) if own == still => why,
            other => panic!("{other:?}"),
        }
    }
}

fn files(store: &Path) -> Vec<String> {
    let entries = fs::read_dir(case(store).join("stills")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_kept_only_if_its_hash_and_its_size_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let sending = Sending::begin(&hospital).await;
    // One byte is another one.
    sending.announce(0, "wound.jpg", 6).await;
    sending.piece(0, 0, b"abcdef").await;
    let why = sending.whole(0, b"abcdeg").await.unwrap();
    assert!(why.ends_with("0000-wound.jpg has another hash"), "{why}");
    assert_eq!(files(folder.path()), [""; 0]);
    // It was cut while it was sent.
    sending.announce(1, "wound.jpg", 6).await;
    sending.piece(1, 0, b"abc").await;
    let why = sending.whole(1, b"abc").await.unwrap();
    assert!(why.ends_with("3 of 6 bytes came"), "{why}");
    assert_eq!(files(folder.path()), [""; 0]);
    // The same again, as it is.
    sending.announce(2, "wound.jpg", 6).await;
    sending.piece(2, 0, b"abc").await;
    sending.piece(2, 3, b"def").await;
    assert_eq!(sending.whole(2, b"abcdef").await, None);
    assert_eq!(files(folder.path()), ["0002-wound.jpg"]);
    let kept = case(folder.path()).join("stills/0002-wound.jpg");
    assert_eq!(fs::read(kept).unwrap(), b"abcdef");
    hospital.stop().await;
}

/// A piece that is not where it should be ends the stream; what came of the file is no file.
#[tokio::test(flavor = "multi_thread")]
async fn pieces_at_other_places_are_refused() {
    for (still, offset) in [(0, 4), (0, 2), (1, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let mut hospital = Running::start(folder.path(), loopback());
        let sending = Sending::begin(&hospital).await;
        sending.announce(0, "wound.jpg", 6).await;
        sending.piece(0, 0, b"abc").await;
        sending.piece(still, offset, b"def").await;
        let why = loop {
            let report = timeout(LONG, hospital.reports.recv()).await.unwrap();
            match report.unwrap() {
                Report::Failed { why, .. } | Report::Left { why, .. } => break why,
                _ => {}
            }
        };
        assert!(why.contains("a piece of a file at another place"), "{why}");
        let names = files(folder.path());
        assert!(names.iter().all(|name| name.starts_with('.')), "{names:?}");
        hospital.stop().await;
    }
}
