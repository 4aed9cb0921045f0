//! Two nodes on loopback: one that asks for connections, and one that makes them.

use std::{
    fs,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use anabranch::{
    SecretKey,
    base::NodeId,
    config::{Layer, NodeConfig},
    daemon::Daemon,
};
use anabranch_gateway::{Endpoint, Gateway, Host, Notice, Notices};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
    task::JoinHandle,
};

/// Fails a test that hangs.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work)
        .await
        .expect("the test hangs")
}

/// Section of tests that do without one of their own: a busy machine may take its time.
const PATIENT: &str = "\n[gateway]\nconnect_timeout = \"5 min\"\noutage_timeout = \"5 min\"\n";

pub(crate) const NEAR: u8 = 1;
pub(crate) const FAR: u8 = 2;

pub(crate) fn id(n: u8) -> NodeId {
    SecretKey::from_seed([n; 32]).node_id()
}

/// A node that runs, with its gateway.
pub(crate) struct Node {
    pub(crate) daemon: Arc<Daemon>,
    pub(crate) gateway: Gateway,
    pub(crate) notices: Arc<Mutex<Vec<Notice>>>,
    text: Arc<Mutex<String>>,
    running: JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// A node without a gateway, that does not run yet; its configuration, and the text of the sections, which a reload reads again.
pub(crate) async fn daemon(
    folder: &Path,
    own: u8,
    listen: &str,
    sections: &str,
) -> (Arc<Daemon>, NodeConfig, Arc<Mutex<String>>) {
    let folder: PathBuf = folder.join(own.to_string());
    let key_file = folder.join("key");
    if !folder.exists() {
        fs::create_dir(&folder).unwrap();
        fs::write(&key_file, SecretKey::from_seed([own; 32]).to_text()).unwrap();
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&key_file, owner_only).unwrap();
    }
    let places = format!(
        "key = {key_file:?}\nlisten = [{listen:?}]\ncontrol = {:?}\n",
        folder.join("control")
    );
    let text = Arc::new(Mutex::new(sections.to_owned()));
    let source = {
        let text = text.clone();
        move || -> Result<NodeConfig, String> {
            let mut text = places.clone() + &text.lock().unwrap();
            if !text.contains("[gateway]") {
                text += PATIENT;
            }
            let layer = Layer::from_toml(&text).map_err(|error| error.to_string())?;
            layer.resolve(|_| None).map_err(|error| error.to_string())
        }
    };
    let config = source().unwrap();
    let daemon = Daemon::start(config.clone()).await.unwrap();
    let daemon = Arc::new(daemon.with_source(Box::new(source)));
    (daemon, config, text)
}

impl Node {
    pub(crate) async fn start(folder: &Path, own: u8, listen: &str, sections: &str) -> Self {
        let (daemon, config, text) = daemon(folder, own, listen, sections).await;
        let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let seen = notices.clone();
        let show = Notices::new(move |notice| seen.lock().unwrap().push(notice.clone()));
        let gateway = Gateway::start(&daemon.handle(), &config, show).unwrap();
        let runs = daemon.clone();
        let running = tokio::spawn(async move { runs.run().await });
        Self {
            daemon,
            gateway,
            notices,
            text,
            running,
        }
    }

    /// Ends it; its addresses are free when this returns.
    pub(crate) async fn stop(mut self) {
        self.daemon.shutdown().await.unwrap();
        self.running.abort();
        let _ = (&mut self.running).await;
    }

    pub(crate) async fn reload(&self, sections: &str) -> Result<(), String> {
        sections.clone_into(&mut self.text.lock().unwrap());
        let reloaded = self.daemon.reload().await;
        reloaded.map(drop).map_err(|error| error.to_string())
    }

    /// Endpoints at which it listens, in the order of the configuration.
    pub(crate) fn listening(&self) -> Vec<SocketAddr> {
        let notices = self.notices.lock().unwrap();
        let mut all = Vec::new();
        for notice in notices.iter() {
            if let Notice::Listening {
                at:
                    Endpoint::Port {
                        host: Host::Ip(ip),
                        port,
                        ..
                    },
                ..
            } = notice
            {
                all.push(SocketAddr::new(*ip, *port));
            }
        }
        all
    }

    /// All notices, for a test that fails.
    pub(crate) fn seen(&self) -> String {
        let notices = self.notices.lock().unwrap();
        let lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
        lines.join("; ")
    }

    /// Waits for a notice that was not seen before.
    pub(crate) async fn notice(&self, mut is_wanted: impl FnMut(&Notice) -> bool) -> Notice {
        loop {
            {
                let mut notices = self.notices.lock().unwrap();
                if let Some(at) = notices.iter().position(&mut is_wanted) {
                    return notices.remove(at);
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits for the refusal of a connection.
    pub(crate) async fn refusal(&self) -> anabranch_gateway::Refusal {
        match self
            .notice(|notice| matches!(notice, Notice::Failed { .. }))
            .await
        {
            Notice::Failed { refusal, .. } => refusal,
            other => panic!("{other}"),
        }
    }
}

/// Section of the far node: what the near one may do.
pub(crate) fn rights(may: &str) -> String {
    format!(
        "[[peer]]\nname = \"near\"\nnode = \"{}\"\nmay = [\"call\", {may}]\n",
        id(NEAR)
    )
}

/// Section of the near node: the far one, and forwards to it.
pub(crate) fn forwards(far: SocketAddr, forwards: &[(&str, &str, &str)]) -> String {
    let mut text = format!(
        "[[peer]]\nname = \"far\"\nnode = \"{}\"\nmay = []\naddresses = [\"{far}\"]\n",
        id(FAR)
    );
    for (local, to, more) in forwards {
        text +=
            &format!("[[forward]]\nlocal = \"{local}\"\npeer = \"far\"\nto = \"{to}\"\n{more}\n");
    }
    text
}

/// The two nodes.
pub(crate) struct Pair {
    pub(crate) near: Node,
    pub(crate) far: Node,
    pub(crate) folder: tempfile::TempDir,
}

impl Pair {
    pub(crate) async fn start(may: &str, to: &[(&str, &str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let far = Node::start(folder.path(), FAR, "127.0.0.1:0", &rights(may)).await;
        let near = forwards(far.address(), to);
        let near = Node::start(folder.path(), NEAR, "127.0.0.1:0", &near).await;
        Self { near, far, folder }
    }

    /// A forward of TCP connections to a target that is allowed.
    pub(crate) async fn to(target: SocketAddr) -> Self {
        let may = format!("{{ right = \"forward\", to = [\"{target}\"] }}");
        Self::start(&may, &[("127.0.0.1:0", &target.to_string(), "")]).await
    }

    /// A connection of a program to the first forward.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.near.listening()[0]).await.unwrap()
    }
}

impl Node {
    pub(crate) fn address(&self) -> SocketAddr {
        self.daemon.host().addresses()[0]
    }
}

/// A server that sends back what it receives, and FIN when it receives FIN.
pub(crate) async fn echo() -> SocketAddr {
    // With the usual backlog the kernel resets a few of hundreds of connections that are made at once.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener: TcpListener = socket.listen(4096).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
                let _ = writer.shutdown().await;
            });
        }
    });
    address
}

/// Sends bytes over a connection and reads them back, while FIN is sent behind them.
pub(crate) async fn echoed(stream: TcpStream, data: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = stream.into_split();
    let writing = async {
        writer.write_all(data).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let reading = reader.read_to_end(&mut back);
    let ((), read) = tokio::join!(writing, reading);
    read.unwrap();
    back
}

/// Bytes that differ at every offset of a piece.
pub(crate) fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Sends a datagram, again if it was lost, as on a busy machine, and returns the answer.
pub(crate) async fn answered(socket: &UdpSocket, datagram: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    loop {
        socket.send(datagram).await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_secs(2), socket.recv(&mut buffer));
        if let Ok(count) = waiting.await {
            return buffer[..count.unwrap()].to_vec();
        }
    }
}
