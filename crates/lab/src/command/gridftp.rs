//! `anabranch-lab run gridftp --live`: a record set served and watched between two nodes on this machine, over emulated paths of which one
//! fails and one is added, by this machine's clock.

mod samples;

use std::{
    fs,
    net::SocketAddr,
    path::Path as FilePath,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::{
    AllowList, Client, Host, HostConfig, LocalAddress, Session,
    base::{NodeId, Seed},
    config::Layer,
    daemon::Daemon,
    keys,
    net::{
        emulate::{Emulator, PathSpec, link::duplex::Configs},
        session::Link,
    },
};
use anabranch_lab::{
    Options, Outcome as Results,
    experiments::gridftp::{
        self,
        live::{self, Live, Observed, Plan, Seconds},
    },
    kit::{
        corpus::Corpus,
        sources::records::{NAMES, PERIOD, PROBABILITY},
    },
};
use anabranch_records::{
    client::{Difference, Fetch, Plan as Selection, Records, Up},
    server::Server,
    wire::{OnRefusal, Promised},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use self::samples::{Look, Samples};
use super::stop::stopped;
use crate::failure::Failure;

/// Name of the set.
const SET: &str = "climate";
/// Distance between two records of a component in the file of the set, in bytes; neighbours share the rest.
const STRIDE: usize = 960;
/// Time between two looks at what has arrived.
const STEP: Duration = Duration::from_millis(5);
/// Time for what is late at the end.
const REST: Duration = Duration::from_secs(300);
/// Time in which the nodes are connected.
const CONNECTED: Duration = Duration::from_secs(30);
/// Events that wait to be counted.
const EVENTS_MAX: usize = 1_024;

/// Parameters of a run.
pub(super) struct Show<'a> {
    pub(super) seed: u64,
    pub(super) corpus: &'a Corpus,
    pub(super) only: Option<&'a str>,
    pub(super) seconds: u64,
}

/// Runs the records in virtual time, then live.
pub(super) async fn run(
    show: &Show<'_>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Results, Failure> {
    let seed = Seed(show.seed);
    let options = Options {
        seed,
        only: None,
        corpus: show.corpus,
        progress,
    };
    let plan = Plan {
        seconds: show.seconds,
    };
    let recordings = show.corpus.recordings.iter();
    let mut results = Results {
        experiment: gridftp::EXPERIMENT.name,
        version: env!("CARGO_PKG_VERSION"),
        seed: show.seed,
        traces: recordings.map(|recording| recording.name.clone()).collect(),
        rows: Vec::new(),
    };
    if show.only.is_some_and(|only| !live::LAYOUT.contains(only)) {
        return Ok(results);
    }
    let live = live::setting(&options, plan).map_err(Failure::file)?;
    progress(&format!(
        "gridftp: {:.1} Mbit/s for the application; in virtual time",
        live.application_bps() / 1e6
    ));
    let expected = live.in_virtual_time(seed).map_err(Failure::other)?;
    progress(&format!("gridftp: live for {} s", plan.seconds));
    let stopped = stopped("there are no rows of a part of a run")?;
    let observed = tokio::select! {
        observed = one(seed, &live, progress) => observed?,
        stopped = stopped => return Err(stopped),
    };
    results.rows = live.rows(&expected, &observed);
    Ok(results)
}

/// Watches the set over the paths, and compares the copy with it.
async fn one(
    seed: Seed,
    live: &Live,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Observed, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::file)?;
    let shelf = folder.path().join("sets");
    write_set(&shelf.join(SET), live).map_err(Failure::file)?;
    let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
    let key = keys::generate()?;
    let (archive, id) = archive(folder.path(), key.node_id()).await?;
    let archive = Arc::new(archive);
    let running = archive.clone();
    let node = tokio::spawn(async move { running.run().await });

    let target = archive.host().addresses()[0];
    let specs = live.paths.iter().map(|path| {
        // Records come towards the node that watches.
        let Configs { forward, backward } = path.configs();
        PathSpec {
            name: path.name.clone(),
            listen: loopback,
            target,
            links: Configs {
                forward: backward,
                backward: forward,
            },
        }
    });
    let emulator = Emulator::start(specs.collect(), seed).map_err(Failure::other)?;
    // The recordings are at the same place as in virtual time when the first record is produced.
    let records_begin = Instant::now() + Live::begin();
    let config = HostConfig::new(key, AllowList::default());
    let desk = Host::start(config.bind(vec![loopback; live.paths.len()]))?;
    let sockets = desk.sockets().into_iter().zip(emulator.addresses());
    let links: Vec<Link> = sockets
        .map(|(socket, &remote)| Link {
            socket: socket.id,
            remote,
        })
        .collect();
    let added = live.failing() + 1;
    let connecting = desk.connect_over(id, links[..added].to_vec());
    let session = timeout(CONNECTED, connecting).await;
    let session = session.map_err(|_| Failure::other("the nodes do not connect"))??;

    let place = LocalAddress::Unix(folder.path().join("local"));
    let client = Client::attach_at(&place, "anabranch-lab").await;
    let client = client.map_err(Failure::other)?;
    let opening = tokio::task::spawn_blocking(move || Server::open(client, &shelf, false));
    let (server, _) = opening.await??;
    let service = server.register().await?;
    sleep_until(records_begin).await;
    let watching = watch(
        live,
        &session,
        (&emulator, links[added]),
        folder.path(),
        progress,
    );
    let observed = tokio::select! {
        observed = watching => observed,
        ended = server.serve(&service) => Err(Failure::other(ended)),
    };
    desk.shutdown().await;
    // There is nothing that costs anything, so that no ledger is to be written.
    let _ = archive.shutdown().await;
    node.abort();
    observed
}

/// A node to which the application with the set is attached, and its id. The node that watches may use it.
async fn archive(folder: &FilePath, desk: NodeId) -> Result<(Daemon, NodeId), Failure> {
    let key = folder.join("key");
    let id = keys::create(&key)?.node_id();
    let place = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "key = {:?}\nlisten = [\"127.0.0.1:0\"]\ncontrol = {:?}\nlocal = {:?}\npromise_record = {:?}\nevidence = \"\"\n\
         [[peer]]\nname = \"desk\"\nnode = \"{desk}\"\nmay = [\"call\", {{ right = \"use-service\", services = [\"records/1/*\"] }}]\n",
        place("key"),
        place("control"),
        place("local"),
        place("promises"),
    );
    let config = Layer::from_toml(&text)?.resolve(|_| None)?;
    Ok((Daemon::start(config).await?, id))
}

/// Writes a set of noise: record *n* of each component begins *n* strides after the first.
fn write_set(folder: &FilePath, live: &Live) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let records = live.records() as usize;
    let largest = live.sizes.into_iter().max().unwrap_or_default();
    let length = STRIDE * records + largest;
    let mut random = Seed(1).stream("records");
    let words = (0..length.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes());
    fs::write(folder.join("records.dat"), words.collect::<Vec<u8>>())?;
    let mut text = format!(
        "name = \"{SET}\"\nrate = \"{}/s\"\n",
        1.0 / PERIOD.as_secs_f64()
    );
    for (index, (name, size)) in NAMES.iter().zip(live.sizes).enumerate() {
        text += &format!(
            "\n[[component]]\nname = \"{name}\"\nfile = \"records.dat\"\nsize = {size}\nstride = {STRIDE}\n"
        );
        if index < 2 {
            text += &format!("promise = {PROBABILITY}\n");
        }
    }
    text += &format!("\n[records]\ncount = {records}\n");
    fs::write(folder.join("records.toml"), text)
}

async fn watch(
    live: &Live,
    session: &Session,
    (emulator, added): (&Emulator, Link),
    folder: &FilePath,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Observed, Failure> {
    let records = Records::new(session.clone());
    let copy = folder.join("copy");
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    let selection = Selection {
        promises: Some(OnRefusal::Wait),
        is_watched: true,
        ..Selection::default()
    };
    let begin = Instant::now();
    let promises = Arc::new(Mutex::new([(None, 0); 3]));
    let noting = tokio::spawn(note(events, promises.clone(), begin));
    let fetch = Fetch::open(&records, SET, &copy, selection, Some(sender)).await?;
    let time = Duration::from_secs(live.plan.seconds);
    let running = async {
        let ran = timeout(time + REST, fetch.run(&records)).await;
        ran.map_err(|_| Failure::other("the records do not arrive"))??;
        Ok::<_, Failure>(fetch.settle().await)
    };
    let counting = async {
        let samples = count(live, &fetch, session, (emulator, added), progress).await;
        Ok::<_, Failure>(samples)
    };
    let (settled, samples) = tokio::try_join!(running, counting)?;
    fetch.finish(settled).await?;
    noting.await?;
    progress("gridftp: comparing the copy with the set");
    let verified = records
        .verify(SET, &copy, &Selection::default(), |_| ())
        .await?;
    let is_missing =
        |(_, _, difference): &&(_, _, Difference)| matches!(difference, Difference::Missing);
    let missing = verified.differences.iter().filter(is_missing).count();
    let wrong = verified.differences.len() - missing;
    let promises = *promises.lock().unwrap_or_else(PoisonError::into_inner);
    let carried = emulator.paths().iter();
    Ok(Observed {
        seconds: Seconds {
            arrived: samples.seconds(|look| look.arrived),
            whole: samples.seconds(|look| look.written),
        },
        promises,
        carried: carried.map(|path| path.stats().1.delivered.bytes).collect(),
        parts: [verified.parts, missing as u64, wrong as u64],
    })
}

/// Time to the first promise of each component, and the number of times that one could not be kept any more.
type Promises = Arc<Mutex<[(Option<Duration>, u64); 3]>>;

/// Writes down what becomes of the promises.
async fn note(mut events: mpsc::Receiver<Up>, promises: Promises, begin: Instant) {
    while let Some(up) = events.recv().await {
        let Up::Promise { component, promise } = up else {
            continue;
        };
        let mut promises = promises.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((first, warnings)) = promises.get_mut(usize::from(component)) else {
            continue;
        };
        match promise {
            Promised::Promised { .. } => {
                first.get_or_insert(begin.elapsed());
            }
            Promised::Waiting { .. } => *warnings += u64::from(first.is_some()),
        }
    }
}

/// Looks at what has arrived, at every step, while a path fails and another is added.
async fn count(
    live: &Live,
    fetch: &Fetch,
    session: &Session,
    (emulator, added): (&Emulator, Link),
    progress: &(dyn Fn(&str) + Sync),
) -> Samples {
    let look = || {
        let written = fetch.progress();
        let streams = session.streams();
        let arrived = |component: &str| {
            let of = streams.iter().filter(|stream| {
                let label = stream.spec.label.as_str();
                label.rsplit('/').next() == Some(component)
            });
            of.map(|stream| stream.arrived_bytes).sum()
        };
        Look {
            at: Instant::now(),
            arrived: NAMES.map(arrived),
            written: [0, 1, 2].map(|index| written.get(index).map_or(0, |(bytes, _)| *bytes)),
        }
    };
    let mut samples = Samples::new(live.sizes);
    let [cut, join] = [live.plan.cut(), live.plan.join()];
    let (mut is_cut, mut is_joined) = (false, false);
    let end = Live::window() * live.plan.seconds as u32;
    let start = Instant::now();
    for step in 0.. {
        sleep_until(start + STEP * step).await;
        samples.note(look());
        let Some(begin) = samples.begin() else {
            continue;
        };
        let is_past = |window: usize| begin.elapsed() >= Live::window() * window as u32;
        if !is_cut && is_past(cut) {
            is_cut = true;
            emulator.paths()[live.failing()].set_up(false);
            progress(&format!("gridftp: a path fails after {cut} s"));
        }
        if !is_joined && is_past(join) {
            is_joined = true;
            session.add_link(added);
            progress(&format!("gridftp: another is added after {join} s"));
        }
        if begin.elapsed() > end {
            break;
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the machine does meanwhile, what arrives is right.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn records_arrive_although_a_path_fails_and_another_is_added() {
        let corpus = Corpus::default();
        let options = Options {
            seed: Seed(1),
            only: None,
            corpus: &corpus,
            progress: &|_| {},
        };
        let mut live = live::setting(&options, Plan { seconds: 10 }).unwrap();
        live.sizes = live.sizes.map(|size| size / 100);
        let observed = one(Seed(1), &live, &|_| {}).await.unwrap();
        let Seconds { arrived, whole } = &observed.seconds;
        assert!(arrived.len() >= 10 && whole.len() >= 10, "{observed:?}");
        let sum = |seconds: &[[f64; 3]]| seconds.iter().map(|bytes| bytes[0]).sum::<f64>();
        let most = (live.records() as usize * live.sizes[0]) as f64;
        assert!(
            sum(whole) > 0.5 * most && sum(whole) <= most,
            "{observed:?}"
        );
        assert!(
            sum(arrived) > 0.5 * most && sum(arrived) < 1.2 * most,
            "{observed:?}"
        );
        assert_eq!(observed.parts, [3 * live.records(), 0, 0]);
        assert!(
            observed.carried.iter().all(|bytes| *bytes > 0),
            "{observed:?}"
        );
    }
}
