//! `anabranch demo --console`: the same paths and streams between two nodes that run until they are stopped, with the console open.

use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};

use anabranch::{
    Client, ClientError, LocalAddress, StreamSpec,
    base::{NodeId, Seed},
    control::{self, Request},
    keys,
    local::client::{Session, Stream},
    net::emulate,
    spec::SpecText,
};
use bytes::Bytes;

use super::super::{
    data::Data,
    links::{CUT, emulate},
    stage::{Narrator, Place, Running},
};
use crate::{
    attach::failure,
    control::rows,
    exit::{Failure, Outcome},
};

/// Interval of the telemetry: 50 messages of 500 bytes a second.
const TELEMETRY_EVERY: Duration = Duration::from_millis(20);
const TELEMETRY_BYTES: usize = 500;
/// Interval of the video: 25 frames of 7,500 bytes a second, which is 1.5 Mbit/s.
const FRAME_EVERY: Duration = Duration::from_millis(40);
const FRAME_BYTES: usize = 7_500;
/// Size of the messages of the file.
const PIECE_BYTES: usize = 64 << 10;
/// Time between two cuts of a path, and length of each.
const WHOLE: Duration = Duration::from_secs(30);
const BROKEN: Duration = Duration::from_secs(6);
/// Time in which the nodes find each other.
const STARTED: Duration = Duration::from_secs(60);
/// Interval between two questions to a node that starts.
const LOOK: Duration = Duration::from_millis(200);

const TELEMETRY: &str = "
label = 'telemetry'
reliable = false
lifetime = '150 ms'
priority = 'urgent'
guarantee = { rate = '200 kbit/s', probability = '95 %', waits = true }
";
const VIDEO: &str = "
label = 'video'
reliable = false
order = 'unordered'
lifetime = '400 ms'
guarantee = { rate = '1.5 Mbit/s', probability = '90 %', waits = true }
";
const FILE: &str = "label = 'file'\npriority = 'bulk'\n";

/// Runs until dropped.
pub(super) async fn show(data: &Data, seed: u64, opens: bool, narrator: Narrator) -> Outcome {
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let folder = folder.path();
    let near_id = keys::create(&folder.join("van.key"))?.node_id();
    let far_id = keys::create(&folder.join("studio.key"))?.node_id();
    configure(
        folder,
        "studio",
        &format!("[[peer]]\nname = \"van\"\nnode = \"{near_id}\"\n"),
    )?;
    let _far = start(folder, "studio").await?;
    let emulator = emulate(
        data,
        address(&folder.join("studio.control")).await?,
        Seed(seed),
    )?;
    let addresses = emulator.addresses().iter();
    let addresses: Vec<String> = addresses.map(|at| format!("\"{at}\"")).collect();
    configure(
        folder,
        "van",
        &format!(
            "console = \"127.0.0.1:0\"\n[[peer]]\nname = \"studio\"\nnode = \"{far_id}\"\naddresses = [{}]\n",
            addresses.join(", ")
        ),
    )?;
    let _near = start(folder, "van").await?;
    let control = folder.join("van.control");
    for path in emulator.paths() {
        narrator.say(format!("path {}", path.name()))?;
    }
    offer(&link(&control).await?, &control, opens, narrator)?;

    let (near, far) = tokio::try_join!(attach(folder, "van"), attach(folder, "studio"))?;
    let session = connect(&near, far_id).await?;
    tokio::select! {
        outcome = receive(&far) => outcome,
        outcome = send(&session) => outcome,
        outcome = cut(&emulator.paths()[CUT], narrator) => outcome,
    }
}

fn configure(folder: &Path, name: &str, rest: &str) -> Outcome {
    let text = format!(
        "name = \"{name}\"\nkey = \"{name}.key\"\nlisten = [\"127.0.0.1:0\"]\ncontrol = \"{name}.control\"\nlocal = \"{name}.local\"\n\
         promise_record = \"{name}.promises\"\nevidence = \"\"\n{rest}\
         may = [\"call\", {{ right = \"use-service\", services = [\"*\"] }}]\n"
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).map_err(Failure::file)
}

async fn start(folder: &Path, name: &str) -> Result<Running, Failure> {
    let config = format!("{name}.toml");
    let mut node = Running::start(Place::Here, folder, &["node", "--config", &config])?;
    node.line().await?;
    Ok(node)
}

/// Address of a node.
async fn address(control: &Path) -> Result<SocketAddr, Failure> {
    let answer = control::ask(control, &Request::Status {}).await;
    let answer = answer.map_err(Failure::other)?;
    let node = rows(&answer).iter().find(|row| row["kind"] == "node");
    let addresses = node.and_then(|row| row["addresses"].as_str());
    let first = addresses.and_then(|text| text.split(',').next()?.parse().ok());
    first.ok_or_else(|| Failure::other("a node of the demonstration has no address"))
}

async fn link(control: &Path) -> Result<String, Failure> {
    let answer = control::ask(control, &Request::ConsoleLink {}).await;
    let answer = answer.map_err(Failure::other)?;
    let link = rows(&answer).first().and_then(|row| row["link"].as_str());
    let link = link.map(str::to_owned);
    link.ok_or_else(|| Failure::other("the node of the demonstration has no console"))
}

fn offer(link: &str, control: &Path, opens: bool, narrator: Narrator) -> Outcome {
    narrator.say("\nOpen this link in a browser, within ten minutes; it is good once:\n")?;
    narrator.say(format!("    {link}\n"))?;
    narrator.say(format!(
        "In a terminal: anabranch top --control {}\nCtrl-C: the end.\n",
        control.display()
    ))?;
    if opens {
        let program = match cfg!(target_os = "macos") {
            true => "open",
            false => "xdg-open",
        };
        let mut command = std::process::Command::new(program);
        command
            .arg(link)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Err(error) = command.spawn() {
            narrator.say(format!(
                "{program} cannot be started: {error}; open the link yourself"
            ))?;
        }
    }
    Ok(())
}

async fn attach(folder: &Path, name: &str) -> Result<Client, Failure> {
    let place = LocalAddress::Unix(folder.join(format!("{name}.local")));
    let client = Client::attach_at(&place, "anabranch demo").await;
    client.map_err(failure)
}

/// The session, as soon as the nodes have one.
async fn connect(client: &Client, peer: NodeId) -> Result<Session, Failure> {
    let peer = peer.to_string();
    let connecting = async {
        loop {
            match client.connect(&peer).await {
                Ok(session) => return session,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    };
    let limited = tokio::time::timeout(STARTED, connecting).await;
    limited.map_err(|_| Failure::unreachable("the nodes of the demonstration do not meet"))
}

/// Takes whatever streams bring; returns only on failure.
async fn receive(client: &Client) -> Outcome {
    let service = client.register("*").await.map_err(failure)?;
    loop {
        let (_, stream) = service.accept().await.map_err(failure)?;
        tokio::spawn(async move { while let Ok(Some(_)) = stream.recv().await {} });
    }
}

/// Sends the three streams; returns only on failure.
async fn send(session: &Session) -> Outcome {
    let (telemetry, video, file) = tokio::try_join!(
        open(session, TELEMETRY),
        open(session, VIDEO),
        open(session, FILE)
    )?;
    tokio::try_join!(
        regularly(&telemetry, TELEMETRY_EVERY, TELEMETRY_BYTES),
        regularly(&video, FRAME_EVERY, FRAME_BYTES),
        without_pause(&file),
    )
    .map(drop)
}

async fn open(session: &Session, text: &str) -> Result<Stream, Failure> {
    let spec = SpecText::from_toml(text).map_err(Failure::other)?;
    let spec: StreamSpec = spec.resolve().map_err(Failure::other)?;
    session.open_stream(spec).await.map_err(failure)
}

async fn regularly(stream: &Stream, every: Duration, bytes: usize) -> Outcome {
    let content = Bytes::from(vec![0x42; bytes]);
    let mut tick = tokio::time::interval(every);
    loop {
        tick.tick().await;
        match stream.send(content.clone()).await {
            Ok(_) => {}
            Err(ClientError::Send(_)) => {}
            Err(error) => return Err(failure(error)),
        }
    }
}

async fn without_pause(stream: &Stream) -> Outcome {
    let piece = Bytes::from(vec![0x42; PIECE_BYTES]);
    loop {
        stream.send(piece.clone()).await.map_err(failure)?;
    }
}

/// Cuts a path now and then; returns only on failure.
async fn cut(path: &emulate::Path, narrator: Narrator) -> Outcome {
    loop {
        tokio::time::sleep(WHOLE).await;
        path.set_up(false);
        narrator.say(format!("{} is cut", path.name()))?;
        tokio::time::sleep(BROKEN).await;
        path.set_up(true);
        narrator.say(format!("{} is back", path.name()))?;
    }
}
