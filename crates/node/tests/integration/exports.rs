//! Exported directories: read by a peer over a session, by its rights, while files change.

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use anabranch::{
    AllowList, Client, Host, HostConfig, Priority, Session, Stream, StreamSpec,
    config::{Layer, NodeConfig},
    daemon::{CODE_BUSY, CODE_NO_RIGHT, Daemon},
    exports::{
        ExportError, Exports, Fault, Kind, LABEL, LIST_MAX, READ_BYTES_MAX, Request, Version,
    },
};

use crate::common::{id, key, within};

const NODE: u8 = 11;
const PEER: u8 = 12;
/// Larger than what is asked for at a time, and not a multiple of anything.
const LARGE_BYTES: usize = (17 << 20) + 12_345;

/// A node that exports, whose configuration can be changed, and a peer.
struct Stand {
    daemon: Daemon,
    text: Arc<Mutex<String>>,
    peer: Host,
    folder: tempfile::TempDir,
}

fn sections(folder: &Path, may: &str, hidden: bool) -> String {
    format!(
        "[[export]]\nname = \"data\"\npath = {:?}\nhidden = {hidden}\n\
         [[export]]\nname = \"other\"\npath = {:?}\n\
         [[peer]]\nname = \"peer\"\nnode = \"{}\"\nmay = [{may}]\n",
        folder.join("data"),
        folder.join("other"),
        id(PEER)
    )
}

const MAY_READ: &str = "\"call\", { right = \"read-export\", exports = [\"data\"] }";

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

impl Stand {
    async fn new(may: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        fs::create_dir_all(at.join("data/sub")).unwrap();
        fs::create_dir(at.join("other")).unwrap();
        fs::write(at.join("data/small"), "0123456789").unwrap();
        fs::write(at.join("data/.hidden"), "h").unwrap();
        fs::write(at.join("data/sub/large"), pattern(LARGE_BYTES)).unwrap();
        fs::write(at.join("other/file"), "o").unwrap();
        let key_file = at.join("key");
        fs::write(&key_file, key(NODE).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&key_file, owner_only).unwrap();
        let places = format!(
            "key = {key_file:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\n",
            at.join("control")
        );
        let text = Arc::new(Mutex::new(sections(at, may, false)));
        let source = {
            let text = text.clone();
            move || -> Result<NodeConfig, String> {
                let text = places.clone() + &text.lock().unwrap();
                let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
                layer.resolve(|_| None).map_err(|error| error.to_string())
            }
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        let daemon = daemon.with_source(Box::new(source));
        let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        let config = HostConfig::new(key(PEER), AllowList::default()).bind([loopback]);
        let peer = Host::start(config).unwrap();
        Self {
            daemon,
            text,
            peer,
            folder,
        }
    }

    async fn call(&self) -> Session {
        let host = self.daemon.host();
        let called = self.peer.connect(host.node_id(), &host.addresses()).await;
        called.unwrap()
    }

    async fn exports(&self) -> Exports<Stream> {
        let session = self.call().await;
        Exports::open(&session, Priority::NORMAL).await.unwrap()
    }

    async fn reload(&self, may: &str, hidden: bool) {
        *self.text.lock().unwrap() = sections(self.folder.path(), may, hidden);
        self.daemon.reload().await.unwrap();
    }

    /// Runs a test beside the node.
    async fn run(&self, test: impl Future<Output = ()>) {
        within(async {
            tokio::select! {
                () = self.daemon.run() => unreachable!("it runs until dropped"),
                () = test => {}
            }
        })
        .await;
    }
}

fn fault<T: std::fmt::Debug>(result: Result<T, ExportError>) -> Fault {
    let error = result.unwrap_err();
    error.fault().unwrap_or_else(|| panic!("{error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_reads_what_it_may_and_nothing_else() {
    let stand = Stand::new(MAY_READ).await;
    stand
        .run(async {
            let exports = stand.exports().await;
            let names = |listed: anabranch::exports::Listed| {
                let entries = listed.entries.into_iter();
                entries.map(|entry| entry.name).collect::<Vec<_>>()
            };
            assert_eq!(names(exports.list("", "").await.unwrap()), ["data"]);
            let listed = exports.list("data", "").await.unwrap();
            assert_eq!(names(listed), ["small", "sub"]);
            let listed = exports.list("data", "small").await.unwrap();
            assert_eq!(names(listed), ["sub"]);
            let found = exports.stat("data/small").await.unwrap();
            assert_eq!((found.kind, found.size_bytes), (Kind::File, 10));
            let modified = fs::metadata(stand.folder.path().join("data/small")).unwrap();
            let modified = modified.modified().unwrap();
            let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
            assert_eq!(found.modified_ns as u128, since.as_nanos());
            assert_eq!(exports.stat("").await.unwrap().kind, Kind::Directory);

            let part = exports.read("data/small", 3, 4, None).await.unwrap();
            assert_eq!(part.pieces.concat(), b"3456");
            assert_eq!((part.version, part.size_bytes), (found.version, 10));
            let all = exports.read("data/sub/large", 0, u64::MAX, None).await;
            assert!(all.unwrap().pieces.concat() == pattern(LARGE_BYTES));
            // A range of several requests that the file ends in.
            let (at, bytes) = (LARGE_BYTES - 1_300_000, 3 << 20);
            let end = exports.read("data/sub/large", at as u64, bytes, None).await;
            assert!(end.unwrap().pieces.concat() == pattern(LARGE_BYTES)[at..]);
            let beyond = exports.read("data/small", 99, 2 << 20, None).await.unwrap();
            assert!(beyond.is_empty());

            for (path, expected) in [
                ("data/none", Fault::NotFound),
                ("data/.hidden", Fault::NotFound),
                ("other/file", Fault::NotFound),
                ("none", Fault::NotFound),
                ("data/sub", Fault::IsDirectory),
                ("data", Fault::IsDirectory),
                ("", Fault::IsDirectory),
                ("data/../other/file", Fault::Invalid),
                ("/data/small", Fault::Invalid),
            ] {
                assert_eq!(
                    fault(exports.read(path, 0, 1, None).await),
                    expected,
                    "{path}"
                );
            }
            assert_eq!(
                fault(exports.list("data/small", "").await),
                Fault::NotDirectory
            );
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_nothing_is_exported() {
    let stand = Stand::new("\"call\"").await;
    stand
        .run(async {
            let exports = stand.exports().await;
            let error = exports.stat("data").await.unwrap_err();
            assert_eq!(error, ExportError::NotExported);
            assert!(error.to_string().contains("read-export"), "{error}");
            // It was given meanwhile; the stream is another.
            stand.reload(MAY_READ, true).await;
            let exports = stand.exports().await;
            assert!(exports.stat("data/.hidden").await.is_ok());
            // A reload applies to the next request of an open stream.
            stand.reload("\"call\"", true).await;
            assert_eq!(fault(exports.stat("data/.hidden").await), Fault::NotFound);
            stand.reload(MAY_READ, false).await;
            assert_eq!(fault(exports.stat("data/.hidden").await), Fault::NotFound);
            assert!(exports.stat("data/small").await.is_ok());
        })
        .await;
}

/// Two ranges of different contents are an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_changes_between_two_ranges_is_an_error() {
    let stand = Stand::new(MAY_READ).await;
    stand
        .run(async {
            let exports = stand.exports().await;
            let path = stand.folder.path().join("data/small");
            let first = exports.read("data/small", 0, 5, None).await.unwrap();
            let version = Some(first.version);
            let second = exports.read("data/small", 5, 5, version).await.unwrap();
            assert_eq!(second.pieces.concat(), b"56789");
            fs::write(&path, "abcdefghijk").unwrap();
            let changed = exports.read("data/small", 5, 5, version).await;
            assert_eq!(fault(changed), Fault::Changed);
            let again = exports.read("data/small", 5, 9, None).await.unwrap();
            assert_eq!(again.pieces.concat(), b"fghijk");
            let long = exports.read("data/sub/large", 0, 1 << 30, Some(Version::default()));
            assert_eq!(fault(long.await), Fault::Changed);
        })
        .await;
}

/// A hundred reads at a time, some of which are given up, have their own answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_reads_at_a_time_have_their_own_answers() {
    let stand = Stand::new(MAY_READ).await;
    stand
        .run(async {
            let exports = stand.exports().await;
            let expected = Arc::new(pattern(LARGE_BYTES));
            let mut reading = tokio::task::JoinSet::new();
            for number in 0..100usize {
                let (exports, expected) = (exports.clone(), expected.clone());
                let task = reading.spawn(async move {
                    let (at, bytes) = (number * 170_003, 64_000 + number * 11_000);
                    let part = exports.read("data/sub/large", at as u64, bytes as u64, None);
                    let part = part.await.unwrap();
                    let end = (at + bytes).min(LARGE_BYTES);
                    assert!(
                        part.pieces.concat() == expected[at.min(end)..end],
                        "{number}"
                    );
                });
                if number % 10 == 3 {
                    task.abort();
                }
            }
            let mut done = 0;
            while let Some(result) = reading.join_next().await {
                match result {
                    Ok(()) => done += 1,
                    Err(error) => assert!(error.is_cancelled(), "{error}"),
                }
            }
            assert!(done >= 90, "{done}");
            let part = exports.read("data/small", 0, 99, None).await.unwrap();
            assert_eq!(part.pieces.concat(), b"0123456789");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stranger_sends_is_bounded() {
    let stand = Stand::new(MAY_READ).await;
    stand
        .run(async {
            let session = stand.call().await;
            let open = || {
                let spec = StreamSpec {
                    duplex: true,
                    ..StreamSpec::messages(LABEL)
                };
                session.open_stream(spec).unwrap()
            };
            let stream = open();
            let read = |bytes| Request::Read {
                path: "data/sub/large".to_owned(),
                offset: 0,
                bytes,
                version: None,
            };
            let list = |max| Request::List {
                path: "data".to_owned(),
                after: String::new(),
                max,
            };
            for request in [read(READ_BYTES_MAX + 1), list(LIST_MAX + 1), list(0)] {
                stream.send(request.encode(7).into()).await.unwrap();
                let answer = stream.recv().await.unwrap().unwrap();
                assert_eq!(answer.data[..], [0, 0, 0, 0, 7, Fault::TooLong as u8]);
            }
            // More requests than are answered at a time, without reading: all are answered in the end, each with 1 MiB.
            for number in 0..100 {
                let request = read(READ_BYTES_MAX).encode(number);
                stream.send(request.into()).await.unwrap();
            }
            let mut missing: Vec<u32> = (0..100).collect();
            while !missing.is_empty() {
                let adu = stream.recv().await.unwrap().unwrap();
                let (id, _) = anabranch::exports::Answer::decode(&adu.data).unwrap();
                let at = missing.iter().position(|&number| number == id);
                missing.swap_remove(at.expect("one answer each"));
            }
            // Not a request.
            stream.send("x".into()).await.unwrap();
            assert!(stream.recv().await.is_err());
            // More streams than a peer may have; a refused one has a code.
            let streams: Vec<_> = (0..40).map(|_| open()).collect();
            let stat = Request::Stat {
                path: "data".to_owned(),
            };
            let (mut served, mut refused) = (0, 0);
            for stream in &streams {
                stream.send(stat.encode(1).into()).await.unwrap();
                match stream.recv().await {
                    Ok(_) => served += 1,
                    Err(anabranch::StreamFailure::Reset(code)) => {
                        assert_eq!(code, CODE_BUSY);
                        assert_ne!(code, CODE_NO_RIGHT);
                        refused += 1;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!((served, refused), (16, 24));
        })
        .await;
}

/// An application reads the exports of a peer of the node that it is attached to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attached_application_reads_through_its_node() {
    let stand = Stand::new(MAY_READ).await;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let key_file = at.join("key");
    fs::write(&key_file, key(PEER).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key_file, owner_only).unwrap();
    let address = stand.daemon.host().addresses()[0];
    let text = format!(
        "key = {key_file:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\nlocal = {:?}\n\
         [[peer]]\nname = \"data\"\nnode = \"{}\"\nmay = []\naddresses = [\"{address}\"]\n",
        at.join("control"),
        at.join("local"),
        id(NODE)
    );
    let layer = Layer::from_toml(&text).unwrap();
    let near = Daemon::start(layer.resolve(|_| None).unwrap()).await;
    let near = near.unwrap();
    stand
        .run(async {
            tokio::select! {
                () = near.run() => unreachable!("it runs until dropped"),
                () = async {
                    let client = Client::attach(at.join("local"), "test").await.unwrap();
                    let session = client.connect("data").await.unwrap();
                    let exports = Exports::open(&session, Priority::NORMAL).await.unwrap();
                    let all = exports.read("data/sub/large", 0, u64::MAX, None).await;
                    assert!(all.unwrap().pieces.concat() == pattern(LARGE_BYTES));
                    assert_eq!(fault(exports.stat("data/x").await), Fault::NotFound);
                } => {}
            }
        })
        .await;
}
