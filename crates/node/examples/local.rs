//! Rates through the local interface beside those of streams in the same process, in one run: MB/s of bulk data, small messages a
//! second.
//!
//! Two nodes on loopback. *In process*: the sender and the receiver use the nodes' sessions. *Attached*: both are applications of
//! this process, attached to the nodes. Each line is one run of one kind, the kinds alternate; the last lines are medians.
//!
//! `cargo run --release -p anabranch --example local -- [RUNS] [BULK_MB] [MESSAGES]`
#![expect(clippy::unwrap_used, reason = "a measurement: an error ends it")]
#![expect(clippy::print_stdout, reason = "its output")]

use std::{collections::VecDeque, fs, path::Path, sync::Arc, time::Instant};

use anabranch::{
    AduListener, AduSession, AduStream, Client, Outgoing, SecretKey, Session, Stream, StreamSpec,
    api::EngineFailure,
    base::NodeId,
    config::Layer,
    daemon::Daemon,
    service::{Service, Serving},
};
use tokio::sync::{Mutex, mpsc};

/// Bytes of an ADU of the bulk stream.
const BULK_ADU: usize = 64 << 10;
/// Bytes of a small message.
const SMALL_ADU: usize = 100;
/// Small messages that are handed over together, at most.
const BATCH: u64 = 64;

async fn node(folder: &Path, own: u8, peer: u8) -> Daemon {
    let key = folder.join(format!("{own}.key"));
    fs::write(&key, SecretKey::from_seed([own; 32]).to_text()).unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&key, owner_only).unwrap();
    let text = format!(
        "key = {key:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\n[[peer]]\nname = \"other\"\nnode = \"{}\"\n\
         may = [\"call\", {{ right = \"use-service\", services = [\"*\"] }}]\n",
        folder.join(format!("{own}.sock")),
        SecretKey::from_seed([peer; 32]).node_id()
    );
    let config = Layer::from_toml(&text).unwrap().resolve(|_| None).unwrap();
    Daemon::start(config).await.unwrap()
}

/// A service in the process of its node.
#[derive(Debug)]
struct Forward(mpsc::Sender<(NodeId, Stream)>);

impl Service for Forward {
    fn takes(&self, label: &str) -> bool {
        label == "bench"
    }

    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving {
        Box::pin(async move {
            self.0.send((session.peer(), stream)).await.unwrap();
        })
    }
}

/// The streams of [`Forward`].
struct Inside(Mutex<mpsc::Receiver<(NodeId, Stream)>>);

impl AduListener for Inside {
    type Stream = Stream;
    type Error = EngineFailure;

    async fn accept(&self) -> Result<(NodeId, Stream), EngineFailure> {
        Ok(self.0.lock().await.recv().await.unwrap())
    }
}

/// ADUs of one run.
#[derive(Clone, Copy)]
struct Load {
    size: usize,
    count: u64,
    /// ADUs that are handed over together, at most.
    batch: u64,
}

/// Seconds from the first ADU to the confirmed arrival of all.
async fn carry(session: &impl AduSession, listener: &impl AduListener, load: Load) -> f64 {
    let Load { size, count, batch } = load;
    let stream = session.open_stream(spec(size)).await.unwrap();
    let data = bytes::Bytes::from(vec![7; size]);
    let begin = Instant::now();
    let sending = async {
        let mut left = count;
        let mut adus: VecDeque<Outgoing> = VecDeque::new();
        while left > 0 || !adus.is_empty() {
            while left > 0 && (adus.len() as u64) < batch {
                adus.push_back(data.clone().into());
                left -= 1;
            }
            stream.send_many(&mut adus).await.unwrap();
        }
        stream.finish().unwrap();
        stream.delivered().await.unwrap();
    };
    let receiving = async {
        let (_, incoming) = listener.accept().await.unwrap();
        let mut received = 0;
        while let Some(adu) = incoming.recv().await.unwrap() {
            assert_eq!(adu.data.len(), size);
            received += 1;
        }
        assert_eq!(received, count);
    };
    tokio::join!(sending, receiving);
    begin.elapsed().as_secs_f64()
}

fn spec(size: usize) -> StreamSpec {
    if size >= BULK_ADU {
        StreamSpec::bulk("bench")
    } else {
        StreamSpec {
            label: "bench".to_owned(),
            ..StreamSpec::default()
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().unwrap());
    let runs: usize = arguments.next().unwrap_or(5);
    let bulk = arguments.next().unwrap_or(500) * 1_000_000 / BULK_ADU;
    let small = arguments.next().unwrap_or(300_000);
    let folder = tempfile::tempdir().unwrap();
    let near = node(folder.path(), 1, 2).await;
    let far = node(folder.path(), 2, 1).await;
    let measuring = async {
        let addresses = far.host().addresses();
        let peer = far.host().node_id();
        let here = near.handle().session_with(peer, &addresses).await.unwrap();
        let clients = [1, 2].map(|own| folder.path().join(format!("{own}-local.sock")));
        let near_client = Client::attach(&clients[0], "bench").await.unwrap();
        let far_client = Client::attach(&clients[1], "bench").await.unwrap();
        let attached = near_client.connect("other").await.unwrap();
        println!("kind,in_process_per_s,attached_per_s,ratio");
        let load = |size, count: usize, batch| Load {
            size,
            count: count as u64,
            batch,
        };
        for (kind, load, unit) in [
            ("bulk", load(BULK_ADU, bulk, 1), BULK_ADU as f64 / 1e6),
            ("small, one by one", load(SMALL_ADU, small, 1), 1.0),
            ("small, in batches", load(SMALL_ADU, small, BATCH), 1.0),
        ] {
            let count = load.count;
            let mut rates = [Vec::new(), Vec::new()];
            // One run more than asked for: the first one warms up.
            for run in 0..=runs {
                let (sender, receiver) = mpsc::channel(1);
                let forward = Arc::new(Forward(sender));
                let registration = far.handle().services().register(forward).unwrap();
                let listener = Inside(Mutex::new(receiver));
                let inside = carry(&here, &listener, load).await;
                drop(registration);
                let service = far_client.register("bench").await.unwrap();
                let outside = carry(&attached, &service, load).await;
                drop(service);
                let [inside, outside] = [inside, outside].map(|time| count as f64 * unit / time);
                if run > 0 {
                    println!("{kind},{inside:.1},{outside:.1},{:.3}", outside / inside);
                    rates[0].push(inside);
                    rates[1].push(outside);
                }
            }
            let [inside, outside] = rates.map(median);
            let ratio = outside / inside;
            println!("{kind} median,{inside:.1},{outside:.1},{ratio:.3}");
        }
    };
    tokio::select! {
        () = near.run() => unreachable!("it runs until dropped"),
        () = far.run() => unreachable!("it runs until dropped"),
        () = measuring => {}
    }
}
