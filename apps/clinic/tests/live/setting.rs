//! A hospital that can be started again, an ambulance, and their inputs.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anabranch::{
    AllowList, Host, HostConfig, Policy, SecretKey, Session, Stream, StreamSpec, Ticket,
    base::ids::encode_base32,
};
use anabranch_clinic::{
    ClinicError,
    ambulance::{self, Ambulance, Film},
    hospital::{self, Hospital},
    wfdb::{Format, INVALID, Packer, files::Reader},
    wire::{Contents, Notice, Purpose, Request, decode, encode},
};
use tokio::{sync::mpsc, task::JoinHandle};

pub(crate) const FREQUENCY: usize = 500;
/// Reports that wait.
const REPORTS: usize = 10_000;
/// Time for which cases are kept.
pub(crate) const KEPT: Duration = Duration::from_secs(86_400);

fn host(seed: u8, address: SocketAddr, allowed: AllowList) -> Host {
    let config = HostConfig::new(SecretKey::from_seed([seed; 32]), allowed);
    Host::start(config.bind([address])).unwrap()
}

/// A hospital that runs.
pub(crate) struct Running {
    host: Host,
    serving: JoinHandle<()>,
    pub(crate) ticket: Ticket,
    pub(crate) reports: mpsc::Receiver<hospital::Report>,
    pub(crate) live: std::sync::Arc<hospital::live::Live>,
}

impl Running {
    pub(crate) fn start(store: &Path, address: SocketAddr) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS);
        let key = SecretKey::from_seed([1; 32]);
        let hospital = Hospital::open(store, KEPT, &key, sender).unwrap();
        let host = host(1, address, AllowList::everyone());
        let ticket = hospital.ticket(&host);
        let live = hospital.live();
        let serving = tokio::spawn({
            let host = host.clone();
            async move { hospital.serve(&host).await }
        });
        Self {
            host,
            serving,
            ticket,
            reports,
            live,
        }
    }

    /// Ends it without a word to the sessions' tasks; returns its address.
    pub(crate) async fn stop(self) -> SocketAddr {
        self.serving.abort();
        let _ = self.serving.await;
        self.host.shutdown().await;
        self.ticket.addresses[0]
    }
}

/// Node of an ambulance.
pub(crate) struct Car(Host);

impl Car {
    pub(crate) fn new(seed: u8) -> Self {
        Self(host(seed, loopback(), AllowList::default()))
    }

    /// One whose channels send at a rate, whatever the paths carry.
    pub(crate) fn at_rate(seed: u8, rate: &str) -> Self {
        let key = SecretKey::from_seed([seed; 32]);
        let mut config = HostConfig::new(key, AllowList::default()).bind([loopback()]);
        config.engine.channel.controller = format!("fixed:{rate}").parse().unwrap();
        Self(Host::start(config).unwrap())
    }

    /// One that sends by objectives.
    pub(crate) fn by(seed: u8, objectives: &str) -> Self {
        let key = SecretKey::from_seed([seed; 32]);
        let mut config = HostConfig::new(key, AllowList::default()).bind([loopback()]);
        config.engine.policy = Policy::Assign;
        config.engine.objectives = Some(objectives.into());
        Self(Host::start(config).unwrap())
    }

    pub(crate) async fn call(&self, ticket: &Ticket) -> Session {
        self.0
            .connect(ticket.node, &ticket.addresses)
            .await
            .unwrap()
    }
}

/// Carries what an ambulance has to a hospital. A machine that is so busy that the greeting takes longer than a stranger has costs
/// one more call, as with the command.
pub(crate) async fn carry(car: &Car, ambulance: &Ambulance, ticket: &Ticket) {
    loop {
        match ambulance.run(&car.call(ticket).await).await {
            Err(ClinicError::Over(why)) if why.contains("no right to the session") => {}
            ended => return ended.unwrap(),
        }
    }
}

/// A stream as an ambulance opens it, but reliable.
pub(crate) fn open(session: &Session, purpose: Purpose) -> Stream {
    let spec = StreamSpec {
        duplex: matches!(purpose, Purpose::Case | Purpose::Stills),
        label: purpose.label().to_owned(),
        ..StreamSpec::default()
    };
    session.open_stream(spec).unwrap()
}

/// Greets a hospital, and waits for its welcome.
pub(crate) async fn greet(session: &Session, ticket: &Ticket, takes_key: bool) -> Stream {
    let case = open(session, Purpose::Case);
    let hello = Request::Hello {
        secret: encode_base32(&ticket.secret.unwrap().0),
        run: 7,
        contents: Contents::default(),
        takes_key,
        consent_s: KEPT.as_secs(),
    };
    case.send(encode(&hello)).await.unwrap();
    let welcome = case.recv().await.unwrap().unwrap();
    let kept_s = Some(KEPT.as_secs());
    let expected = Notice::Welcome {
        kept_s,
        fills: true,
        takes_objectives: true,
    };
    assert_eq!(decode(&welcome.data), Ok(expected));
    case
}

/// True if there is an ffmpeg, which encodes what a camera gives.
pub(crate) fn has_ffmpeg() -> bool {
    let mut look = std::process::Command::new("ffmpeg");
    look.arg("-version").output().is_ok()
}

pub(crate) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A loopback address that another hospital can have later: its port is below those that the system gives to sockets without one.
pub(crate) fn steady() -> SocketAddr {
    let mut ports = (0..12_000)
        .map(|tried| 20_000 + (std::process::id().wrapping_mul(61).wrapping_add(tried)) % 12_000);
    let is_free = |port: &u32| {
        let at = SocketAddr::from(([127, 0, 0, 1], *port as u16));
        std::net::UdpSocket::bind(at).is_ok()
    };
    let port = ports.find(is_free).unwrap();
    SocketAddr::from(([127, 0, 0, 1], port as u16))
}

/// Settings without anything to send.
pub(crate) fn nothing(ticket: &Ticket) -> ambulance::Settings {
    ambulance::Settings {
        run: 7,
        secret: ticket.secret.unwrap(),
        ekg: None,
        is_looping: false,
        film: None,
        is_video_repaired: false,
        sound: None,
        output: None,
        stills: None,
        contents: Contents::default(),
        consent: KEPT,
    }
}

pub(crate) fn begin(
    settings: ambulance::Settings,
) -> (Ambulance, mpsc::Receiver<ambulance::Report>) {
    let (sender, reports) = mpsc::channel(REPORTS);
    (Ambulance::begin(settings, sender).unwrap(), reports)
}

/// A record of three leads, of so many frames; returns its header and its samples.
pub(crate) fn record(folder: &Path, frames: usize) -> (PathBuf, Vec<i16>) {
    let samples: Vec<i16> = (0..frames)
        .flat_map(|frame| {
            [
                frame as i16,
                -(frame as i16),
                if frame % 50 == 0 { INVALID } else { 7 },
            ]
        })
        .collect();
    let mut bytes = Vec::new();
    Packer::new(Format::F16).push(&samples, &mut bytes);
    fs::write(folder.join("r.dat"), bytes).unwrap();
    let lead = |name| format!("r.dat 16 1000 16 0 0 0 0 {name}\n");
    let path = folder.join("r.hea");
    let text = format!(
        "r 3 {FREQUENCY} {frames}\n{}{}{}",
        lead("i"),
        lead("ii"),
        lead("v1")
    );
    // Checksums of the source are 0, as those of a program that does not count them.
    fs::write(&path, text).unwrap();
    (path, samples)
}

/// The only case in a store: its folder.
pub(crate) fn case(store: &Path) -> PathBuf {
    let mut folders = fs::read_dir(store)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    folders.find(|path| path.is_dir()).unwrap()
}

/// Samples of the record of a case, and its comments; its checksums hold.
pub(crate) fn kept(store: &Path) -> (Vec<i16>, Vec<String>) {
    let mut reader = Reader::open(&case(store).join("ekg.hea")).unwrap();
    let samples = reader.read(usize::MAX).unwrap();
    assert_eq!(reader.deviations(), [""; 0]);
    (samples, reader.header().comments.clone())
}

/// A byte stream of so many pictures, every tenth of which is a key picture.
pub(crate) fn film(folder: &Path, pictures: usize) -> (Film, Vec<u8>) {
    film_of(folder, pictures, 1_000, 25.0)
}

/// A byte stream of pictures with at least so many bytes, at a rate.
pub(crate) fn film_of(
    folder: &Path,
    pictures: usize,
    picture_bytes: usize,
    rate: f64,
) -> (Film, Vec<u8>) {
    let sets: &[u8] = &[0, 0, 0, 1, 0x67, 66, 0, 30, 0x80, 7, 0, 0, 0, 1, 0x68, 0xc0];
    let mut bytes = Vec::new();
    for picture in 0..pictures {
        match picture % 10 {
            0 => bytes.extend_from_slice(&[sets, &[0, 0, 0, 1, 0x65, 0x88, 0x80]].concat()),
            _ => bytes.extend_from_slice(&[0, 0, 0, 1, 0x41, 0x98, 0x80]),
        }
        bytes.extend(vec![picture as u8 | 1; picture_bytes]);
    }
    let path = folder.join("film.h264");
    fs::write(&path, &bytes).unwrap();
    (Film::File { path, rate }, bytes)
}
