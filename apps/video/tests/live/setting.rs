//! Origin, emulated pipe and proxy in one process, and a film.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anabranch::{
    AllowList, Host, HostConfig, Ticket,
    base::{Rate, Seed},
    keys,
    net::emulate::{
        Emulator, PathSpec,
        link::{Trace, describe::parse_both},
    },
};
use anabranch_video::{
    media::Policy,
    origin::{Library, Origin},
    proxy::{Config, Http, Proxy},
    video::{CHUNK_LENGTH, Division},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
};

/// Timeout of every operation; no test asserts a duration within it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// A division in which everything is essential: for tests of the content, which is then the same whatever the load of the
/// machine.
pub(crate) const WHOLE: Division = Division {
    policy: Policy::Budget(Rate::from_mbps(100)),
    chunk: CHUNK_LENGTH,
    segment: None,
};

/// A pipe without losses.
pub(crate) const GOOD: &str = "rate=20 Mbit/s, delay=10 ms, queue=200 ms";

/// A rate that falls below that of the film after 6 s: the trace `halved`.
const HALVED: &str = "t_s,bandwidth_bps\n0,2000000\n6,600000\n600,600000\n";
/// After 14 s, when a browser has begun to play: the trace `halved later`.
const HALVED_LATER: &str = "t_s,bandwidth_bps\n0,2000000\n14,600000\n600,600000\n";

/// A running origin.
pub(crate) struct RunningOrigin {
    pub(crate) host: Host,
    pub(crate) ticket: Ticket,
    task: JoinHandle<()>,
}

impl RunningOrigin {
    pub(crate) fn start(library: &Path, key: &anabranch::SecretKey, bind: SocketAddr) -> Self {
        let library = Library::open(library, None, Division::default()).unwrap();
        Self::serve(library, key, bind, None)
    }

    /// An origin with any library, on any port.
    pub(crate) fn of(library: Library, key: &anabranch::SecretKey) -> Self {
        Self::serve(library, key, ([127, 0, 0, 1], 0).into(), None)
    }

    fn serve(
        library: Library,
        key: &anabranch::SecretKey,
        bind: SocketAddr,
        pipe: Option<Rate>,
    ) -> Self {
        let config = HostConfig::new(key.clone(), AllowList::everyone()).bind([bind]);
        let config = Origin::host_config(config, pipe);
        let host = Host::start(config).unwrap();
        Self::run(host, Origin::new(library, key).over(pipe))
    }

    /// An origin whose tickets are in the folder `state`.
    pub(crate) fn with_tickets(library: &Path, key: &anabranch::SecretKey, state: &Path) -> Self {
        let library = Library::open(library, None, WHOLE).unwrap();
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        let config = HostConfig::new(key.clone(), AllowList::everyone()).bind([loopback]);
        let host = Host::start(Origin::host_config(config, None)).unwrap();
        let origin = Origin::new(library, key).with_tickets(state).unwrap();
        origin.announce(state, &host).unwrap();
        Self::run(host, origin)
    }

    fn run(host: Host, origin: Origin) -> Self {
        let ticket = origin.ticket(&host);
        let serving = host.clone();
        let task = tokio::spawn(async move { origin.serve(&serving).await });
        Self { host, ticket, task }
    }

    pub(crate) async fn stop(self) {
        self.host.shutdown().await;
        self.task.abort();
    }
}

/// A running proxy.
pub(crate) struct RunningProxy {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RunningProxy {
    pub(crate) async fn start(config: Config, ticket: &Ticket) -> Self {
        let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
        let own = HostConfig::new(keys::generate().unwrap(), AllowList::default());
        let host = Host::start(own.bind([loopback])).unwrap();
        let proxy = Proxy::open(config, loopback, ticket).await.unwrap();
        let address = proxy.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let ticket = ticket.clone();
        let task = tokio::spawn(async move {
            let until = async move {
                let _ = stopped.await;
            };
            proxy.run(&host, &ticket, until).await;
            host.shutdown().await;
        });
        Self {
            address,
            stop,
            task,
        }
    }

    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        tokio::time::timeout(TIMEOUT, self.task)
            .await
            .expect("the proxy stops")
            .unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn stats(&self) -> Value {
        let answer = get(self.address, "/stats.json", "").await;
        serde_json::from_slice(&answer.body).unwrap()
    }
}

/// The whole setting, with one pipe.
pub(crate) struct Setting {
    pub(crate) folder: TempDir,
    pub(crate) key: anabranch::SecretKey,
    pub(crate) origin: Option<RunningOrigin>,
    pub(crate) emulator: Emulator,
    pub(crate) ticket: Ticket,
}

impl Setting {
    /// A library with the film, behind a pipe.
    pub(crate) fn new(film: &Path, pipe: &str) -> Self {
        Self::start(film, Division::default(), &[pipe], None)
    }

    /// Behind a good pipe, with everything essential.
    pub(crate) fn whole(film: &Path) -> Self {
        Self::start(film, WHOLE, &[GOOD], None)
    }

    /// With an origin that knows the capacity of the pipe.
    pub(crate) fn held(film: &Path, pipe: &str, rate: Rate) -> Self {
        Self::start(film, Division::default(), &[pipe], Some(rate))
    }

    /// With several paths between proxy and origin.
    pub(crate) fn over(film: &Path, pipes: &[&str]) -> Self {
        Self::start(film, Division::default(), pipes, None)
    }

    fn start(film: &Path, division: Division, pipes: &[&str], rate: Option<Rate>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("library");
        std::fs::create_dir(&library).unwrap();
        std::fs::copy(film, library.join("film.mp4")).unwrap();
        let key = keys::generate().unwrap();
        let library = Library::open(&library, None, division).unwrap();
        let origin = RunningOrigin::serve(library, &key, ([127, 0, 0, 1], 0).into(), rate);
        let mut load = |name: &str| {
            let text = match name {
                "halved" => HALVED,
                "halved later" => HALVED_LATER,
                other => return Err(format!("there is no trace {other}")),
            };
            let trace = Trace::from_csv(name, text);
            trace.map(Arc::new).map_err(|error| error.to_string())
        };
        let specs = pipes.iter().enumerate().map(|(number, pipe)| PathSpec {
            name: format!("pipe {number}"),
            listen: ([127, 0, 0, 1], 0).into(),
            target: origin.host.addresses()[0],
            links: parse_both(pipe, &mut load).unwrap(),
        });
        let emulator = Emulator::start(specs.collect(), Seed(1)).unwrap();
        let mut ticket = origin.ticket.clone();
        ticket.addresses = emulator.addresses().to_vec();
        Self {
            folder,
            key,
            origin: Some(origin),
            emulator,
            ticket,
        }
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.folder.path().join("library")
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            cache_bytes: 1 << 30,
            // The browsers' page belongs to another site.
            http: Http {
                cors: vec!["*".to_owned()],
                ..Http::default()
            },
            ..Config::new(self.folder.path().join("cache"))
        }
    }

    pub(crate) async fn proxy(&self) -> RunningProxy {
        RunningProxy::start(self.config(), &self.ticket).await
    }
}

/// Result of a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl fmt::Debug for Answer {
    /// Omits the body, which may be a film.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} and {} bytes", self.head, self.body.len())
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// One GET on a connection of its own. `headers`: further lines, each with its line break.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> Answer {
    ask(address, "GET", path, headers).await
}

pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let asking = async {
        let mut connection = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"
        );
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        // A response that is cut off is returned as it is.
        let _ = connection.read_to_end(&mut all).await;
        let end = all.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.expect("a head");
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head,
            body: all[end + 4..].to_vec(),
        }
    };
    tokio::time::timeout(TIMEOUT, asking)
        .await
        .expect("an answer")
}

/// Waits until the proxy's statistics satisfy `is_so`; `what` is for people.
pub(crate) async fn until(proxy: &RunningProxy, what: &str, is_so: impl Fn(&Value) -> bool) {
    let waiting = async {
        while !is_so(&proxy.stats().await) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    if waited.is_err() {
        panic!("{what}: {}", proxy.stats().await);
    }
}

/// Waits until the proxy has the film in its catalogue.
pub(crate) async fn ready(proxy: &RunningProxy) {
    let waiting = async {
        loop {
            let page = get(proxy.address, "/", "").await;
            if String::from_utf8_lossy(&page.body).contains("/v/film.mp4") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting)
        .await
        .expect("the catalogue");
}
