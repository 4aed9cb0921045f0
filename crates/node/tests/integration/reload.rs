//! Files and sockets of a node that a reload replaces: all or none of them, and sessions go on.

use std::{
    collections::BTreeMap,
    fs,
    future::Future,
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use anabranch::{
    AllowList, Client, Host, HostConfig, LocalAddress, Session, StreamSpec,
    config::{Layer, NodeConfig},
    control::{self, Control, Request},
    daemon::{Daemon, Reloaded},
    ledger::Ledger,
    transfer::{Completed, Progress, Source, send},
};

use crate::common::{id, key, wait_for, within};

const NODE: u8 = 1;
const PEER: u8 = 2;

/// Values of keys, as TOML; tables come last.
type Keys = BTreeMap<&'static str, String>;

/// A node in a folder, whose configuration can be rewritten, and a peer with a session.
struct Stand {
    folder: tempfile::TempDir,
    daemon: Daemon,
    keys: Arc<Mutex<Keys>>,
    peer: Host,
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn text(keys: &Keys) -> String {
    let (tables, plain): (Vec<_>, Vec<_>) = keys.iter().partition(|(_, v)| v.starts_with("[["));
    let lines = plain
        .iter()
        .map(|(key, value)| format!("{key} = {value}\n"));
    let tables = tables.iter().map(|(_, table)| format!("{table}\n"));
    lines.chain(tables).collect()
}

/// Values with names of this ending for everything in the folder.
fn keys(folder: &Path, ending: &str) -> Keys {
    let path = |name: &str| format!("{:?}", folder.join(format!("{name}{ending}")));
    let (price, currency) = match ending {
        "1" => ("5 GB then stop", "\"CHF\""),
        _ => ("4 GB then stop", "\"EUR\""),
    };
    let received = folder.join(format!("in{ending}"));
    fs::create_dir_all(received).unwrap();
    Keys::from([
        ("key", format!("{:?}", folder.join("key"))),
        ("listen", "[\"127.0.0.1:0\"]".to_owned()),
        ("control", path("made/control")),
        ("receive", path("in")),
        ("local", path("made/local")),
        ("local_tcp", format!("{:?}", free_address())),
        ("local_token", path("token")),
        ("promise_record", path("promises")),
        ("evidence", path("evidence")),
        ("ledger", path("ledger")),
        ("currency", currency.to_owned()),
        (
            "cost",
            format!("[[cost]]\non = \"127.0.0.1\"\nprice = \"{price}\""),
        ),
        (
            "interface",
            format!("[[interface]]\non = \"127.0.0.1\"\ntechnology = \"kind{ending}\""),
        ),
        (
            "peer",
            format!(
                "[[peer]]\nname = \"peer\"\nnode = \"{}\"\nmay = [\"call\", \"send-files\", \
                 {{ right = \"use-service\", services = [\"*\"] }}]",
                id(PEER)
            ),
        ),
    ])
}

impl Stand {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("key");
        fs::write(&key_file, key(NODE).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&key_file, owner_only).unwrap();
        let keys = Arc::new(Mutex::new(keys(folder.path(), "1")));
        let source = {
            let keys = keys.clone();
            move || -> Result<NodeConfig, String> {
                let text = text(&keys.lock().unwrap());
                let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
                layer.resolve(|_| None).map_err(|error| error.to_string())
            }
        };
        let daemon = Daemon::start(source().unwrap()).await.unwrap();
        let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
        let peer = HostConfig::new(key(PEER), AllowList::default()).bind([loopback]);
        Self {
            daemon: daemon.with_source(Box::new(source)),
            peer: Host::start(peer).unwrap(),
            folder,
            keys,
        }
    }

    async fn run(&self, work: impl Future<Output = ()>) {
        within(async {
            tokio::select! {
                () = self.daemon.run() => unreachable!("it runs until dropped"),
                () = work => {}
            }
        })
        .await;
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn session(&self) -> Session {
        let host = self.daemon.host();
        let addresses = host.addresses();
        let session = self.peer.connect(host.node_id(), &addresses);
        session.await.unwrap()
    }

    fn configure(&self, keys: Keys) {
        *self.keys.lock().unwrap() = keys;
    }

    async fn attach_tcp(&self, keys: &Keys) -> Result<Client, String> {
        let value = |key: &str| keys[key].trim_matches('"').to_owned();
        let (place, token) = (format!("tcp:{}", value("local_tcp")), value("local_token"));
        let place = LocalAddress::parse(place.as_ref(), Some(token.as_ref())).unwrap();
        let client = Client::attach_at(&place, "test").await;
        client.map_err(|error| error.to_string())
    }

    /// Names of everything in the folder, but for what belongs to the peer.
    fn contents(&self) -> Vec<PathBuf> {
        fn list(folder: &Path, all: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    list(&path, all);
                }
                all.push(path);
            }
        }
        let mut all = Vec::new();
        list(self.folder.path(), &mut all);
        // The ledger is written while the node runs.
        all.retain(|path| !path.ends_with("ledger1") && !path.ends_with("ledger1.new"));
        all.sort();
        all
    }

    fn price(&self) -> String {
        let budgets = self.daemon.host().budgets();
        format!(
            "{:?} {:?}",
            budgets[0].currency,
            budgets[0].meter.model().cap_bytes()
        )
    }

    async fn send(&self, session: &Session, name: &str) -> Completed {
        let path = self.path(name);
        fs::write(&path, [7; 10_000]).unwrap();
        let sent = send(
            session,
            None,
            Source::Path(path.clone()),
            &Progress::default(),
        )
        .await;
        fs::remove_file(path).unwrap();
        sent.unwrap()
    }
}

/// A stream of the peer to an application that sends everything back.
struct Echo {
    stream: anabranch::net::Stream,
    _application: tokio::task::JoinHandle<()>,
}

impl Echo {
    async fn open(session: &Session, near: &Client) -> Self {
        let service = near.register("echo").await.unwrap();
        let application = tokio::spawn(async move {
            let (_, stream) = service.accept().await.unwrap();
            while let Ok(Some(adu)) = stream.recv().await {
                stream.send(adu.data).await.unwrap();
            }
        });
        let spec = StreamSpec {
            duplex: true,
            ..StreamSpec::messages("echo")
        };
        Self {
            stream: session.open_stream(spec).unwrap(),
            _application: application,
        }
    }

    async fn works(&self, text: &'static str) {
        self.stream.send(text.into()).await.unwrap();
        let adu = self.stream.recv().await.unwrap().unwrap();
        assert_eq!(adu.data, text.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_and_socket_is_replaced_and_sessions_go_on() {
    let stand = Stand::start().await;
    let before = stand.keys.lock().unwrap().clone();
    let next = keys(stand.folder.path(), "2");
    stand
        .run(async {
            let session = stand.session().await;
            let near = Client::attach(stand.path("made/local1"), "test")
                .await
                .unwrap();
            let over_tcp = stand.attach_tcp(&before).await.unwrap();
            let echo = Echo::open(&session, &near).await;
            echo.works("before").await;
            stand.send(&session, "film").await;
            let used = stand.daemon.host().budgets()[0].meter.used_bytes();

            stand.configure(next.clone());
            // Over the socket that it closes.
            let answer = control::ask(&stand.path("made/control1"), &Request::Reload {}).await;
            let rows = answer.unwrap()["rows"].to_string();
            assert!(rows.contains("\"needs_restart\":\"\""), "{rows}");

            echo.works("after").await;
            assert!(session.close_reason().is_none());
            over_tcp.register("still attached").await.unwrap();
            for gone in ["made/control1", "made/local1", "token1"] {
                assert!(!stand.path(gone).exists(), "{gone}");
            }
            stand.attach_tcp(&before).await.unwrap_err();
            stand.attach_tcp(&next).await.unwrap();
            Client::attach(stand.path("made/local2"), "test")
                .await
                .unwrap();
            let status = control::ask(&stand.path("made/control2"), &Request::Status {}).await;
            status.unwrap();
            stand.send(&session, "film").await;
            assert!(stand.path("in1/film").exists() && stand.path("in2/film").exists());

            assert_eq!(stand.price(), "Some(\"EUR\") Some(4000000000)");
            // The first ledger has what was used until then, and is free.
            let written = fs::read_to_string(stand.path("ledger1")).unwrap();
            let line = written
                .lines()
                .find_map(|line| line.strip_prefix("used_bytes = "));
            let written: u64 = line.unwrap().parse().unwrap();
            let now = stand.daemon.host().budgets()[0].meter.used_bytes();
            assert!(used <= written && written <= now, "{used} {written} {now}");
            Ledger::open(&stand.path("ledger1")).unwrap();
            Ledger::open(&stand.path("ledger2")).unwrap_err();
            // Channels that are opened from now on are described by it.
            let later = stand.session().await;
            let provided = Request::Provided { session: None };
            let provided = control::ask(&stand.path("made/control2"), &provided).await;
            let rows = provided.unwrap()["rows"].to_string();
            assert!(rows.contains("kind1") && rows.contains("kind2"), "{rows}");
            drop(later);

            // And back, at once.
            stand.configure(before.clone());
            let Reloaded { restart, .. } = stand.daemon.reload().await.unwrap();
            assert_eq!(restart, Vec::<&str>::new());
            stand.attach_tcp(&before).await.unwrap();
            echo.works("again").await;
            let kept = stand.daemon.host().budgets()[0].meter.used_bytes();
            assert!(kept >= now, "what was used is not forgotten");
        })
        .await;
    stand.daemon.shutdown().await.unwrap();
    drop(stand.daemon);
    let left = ["made/control1", "made/local1", "token1"];
    assert!(
        left.iter()
            .all(|name| !stand.folder.path().join(name).exists())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_value_keeps_everything_as_it_was() {
    let stand = Stand::start().await;
    let taken = Control::open(&stand.path("taken")).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = Ledger::open(&stand.path("other-ledger")).unwrap();
    fs::write(stand.path("file"), "x").unwrap();
    let good = keys(stand.folder.path(), "2");
    let path = |name: &str| format!("{:?}", stand.path(name));
    stand
        .run(async {
            let session = stand.session().await;
            let near = Client::attach(stand.path("made/local1"), "test")
                .await
                .unwrap();
            let echo = Echo::open(&session, &near).await;
            stand.send(&session, "first").await;
            // The receiver removes what it had beside the file after it has confirmed it.
            let is_settled = async || {
                let all = stand.contents();
                !all.iter()
                    .any(|path| path.to_string_lossy().contains("/.anabranch-"))
            };
            wait_for(is_settled).await;
            let contents = stand.contents();
            for (key, value, reason) in [
                ("receive", path("file"), "file"),
                ("receive", path("missing"), "missing"),
                ("promise_record", path("file/promises"), "promise_record"),
                ("evidence", path("file/evidence"), "evidence"),
                ("evidence", path("file"), "evidence"),
                ("control", path("taken"), "is running on control socket"),
                ("control", path("file"), "not a socket"),
                ("control", path("file/control"), "cannot listen"),
                ("local", path("taken"), "is running on the local interface"),
                ("local", path("file"), "not a socket"),
                (
                    "local_tcp",
                    format!("\"{address}\""),
                    "cannot listen on 127.0.0.1",
                ),
                ("local_tcp", "\"0.0.0.0:1\"".to_owned(), "loopback"),
                ("local_token", path("file"), "no token"),
                ("ledger", path("file"), "cannot be parsed"),
                ("ledger", path("other-ledger"), "another anabranch process"),
                ("ledger", path("file/ledger"), "cannot write the ledger"),
                (
                    "cost",
                    "[[cost]]\non = \"192.0.2.1\"\nprice = \"free\"".to_owned(),
                    "192.0.2.1",
                ),
            ] {
                let mut keys = good.clone();
                // Into a folder that is made for it.
                keys.insert("local_token", path("new/deep/token"));
                keys.insert(key, value);
                stand.configure(keys);
                let error = stand.daemon.reload().await.unwrap_err().to_string();
                assert!(error.contains(reason), "{key}: {error}");
                assert_eq!(stand.contents(), contents, "{key}");
                assert_eq!(stand.price(), "Some(\"CHF\") Some(5000000000)");
                let control = stand.path("made/control1");
                control::ask(&control, &Request::Status {}).await.unwrap();
                echo.works("still").await;
            }
            Client::attach(stand.path("made/local1"), "test")
                .await
                .unwrap();
            stand.send(&session, "film").await;
            assert!(stand.path("in1/film").exists());
            // Nothing of the failed attempts is in the way.
            stand.configure(good.clone());
            stand.daemon.reload().await.unwrap();
            stand.attach_tcp(&good).await.unwrap();
            echo.works("at last").await;
        })
        .await;
    drop((taken, other));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_that_arrive_while_the_folder_changes_are_received() {
    const FILES: usize = 40;
    let stand = Stand::start().await;
    stand
        .run(async {
            let session = stand.session().await;
            let (first, second) = (stand.path("in1"), stand.path("in2"));
            fs::create_dir_all(&second).unwrap();
            let sending = async {
                for number in 0..FILES {
                    stand.send(&session, &format!("film{number}")).await;
                }
            };
            let reloading = async {
                loop {
                    for folder in [&second, &first] {
                        let mut keys = stand.keys.lock().unwrap().clone();
                        keys.insert("receive", format!("{folder:?}"));
                        stand.configure(keys);
                        stand.daemon.reload().await.unwrap();
                        tokio::task::yield_now().await;
                    }
                }
            };
            tokio::select! {
                () = sending => {}
                () = reloading => {}
            }
            let count = |folder: &Path| {
                let names = fs::read_dir(folder).unwrap();
                let names = names.map(|entry| entry.unwrap().file_name());
                names
                    .filter(|name| name.to_string_lossy().starts_with("film"))
                    .count()
            };
            assert_eq!(count(&first) + count(&second), FILES);
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_begins_and_ends_to_accept_files_and_applications() {
    let stand = Stand::start().await;
    let all = stand.keys.lock().unwrap().clone();
    stand
        .run(async {
            let session = stand.session().await;
            let near = Client::attach(stand.path("made/local1"), "test")
                .await
                .unwrap();
            let echo = Echo::open(&session, &near).await;
            let mut none = all.clone();
            for key in ["local_tcp", "local_token", "receive", "cost", "interface"] {
                none.remove(key);
            }
            none.insert("local", "\"\"".to_owned());
            none.insert("promise_record", "\"\"".to_owned());
            none.insert("evidence", "\"\"".to_owned());
            let peer = none["peer"].replace("\"send-files\",", "");
            none.insert("peer", peer);
            stand.configure(none);
            let reloaded = stand.daemon.reload().await.unwrap();
            assert!(reloaded.restart.is_empty(), "{reloaded:?}");
            assert!(stand.daemon.local().is_none());
            assert!(stand.daemon.host().budgets().is_empty());
            Ledger::open(&stand.path("ledger1")).unwrap();
            Client::attach(stand.path("made/local1"), "test")
                .await
                .unwrap_err();
            // Who is attached stays.
            echo.works("attached").await;
            let path = stand.path("film");
            fs::write(&path, "x").unwrap();
            let refused = send(&session, None, Source::Path(path), &Progress::default()).await;
            refused.unwrap_err();

            stand.configure(all.clone());
            stand.daemon.reload().await.unwrap();
            Client::attach(stand.path("made/local1"), "test")
                .await
                .unwrap();
            stand.attach_tcp(&all).await.unwrap();
            echo.works("after").await;
            stand.send(&session, "film").await;
            assert!(stand.path("in1/film").exists());
            assert_eq!(stand.price(), "Some(\"CHF\") Some(5000000000)");
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_price_keeps_the_ledger_and_what_was_used() {
    let stand = Stand::start().await;
    stand
        .run(async {
            let session = stand.session().await;
            stand.send(&session, "first").await;
            let used = || stand.daemon.host().budgets()[0].meter.used_bytes();
            for cap in [4, 6, 5] {
                let before = used();
                let mut keys = stand.keys.lock().unwrap().clone();
                let cost = format!("[[cost]]\non = \"127.0.0.1\"\nprice = \"{cap} GB then stop\"");
                keys.insert("cost", cost);
                stand.configure(keys);
                stand.daemon.reload().await.unwrap();
                assert_eq!(stand.price(), format!("Some(\"CHF\") Some({cap}000000000)"));
                assert!(used() >= before, "{} {before}", used());
                Ledger::open(&stand.path("ledger1")).unwrap_err();
                stand.send(&session, &format!("film{cap}")).await;
            }
            // The file is ahead of what is used, and counts nothing twice.
            let written = fs::read_to_string(stand.path("ledger1")).unwrap();
            let line = written
                .lines()
                .find_map(|line| line.strip_prefix("used_bytes = "));
            let written: u64 = line.unwrap().parse().unwrap();
            assert!(used() <= written, "{} {written}", used());
            assert!(
                used() < 1_000_000,
                "what was written ahead is not used: {}",
                used()
            );
        })
        .await;
}
