//! `anabranch demo`: two nodes on this machine, three emulated paths, three streams.

#[cfg(feature = "console")]
mod live;
mod report;
mod streams;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use anabranch::{
    AllowList, Host, HostConfig, Session, SessionEvent,
    base::{ChannelId, Seed},
    keys,
    net::{
        Clock,
        emulate::{Emulator, Path},
        session::Link,
    },
};

use self::{
    report::{PathRow, Report},
    streams::Tally,
};
use super::{
    data::{Data, FILM},
    links::{CUT, PATHS, emulate},
    stage::{Narrator, until_ctrl_c},
};
#[cfg(feature = "console")]
use crate::exit::stopped;
use crate::exit::{Failure, Outcome, print_line};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    data: Data,
    /// Approximate duration of the transmission, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(5..=600))]
    seconds: u64,
    /// Seed of the random losses; the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON, and nothing else.
    #[arg(long)]
    json: bool,
    /// Run until Ctrl-C, and show it in the console: prints a link to its page.
    #[cfg(feature = "console")]
    #[arg(long, conflicts_with_all = ["json", "seconds"])]
    console: bool,
    /// Open the link in the browser.
    #[cfg(feature = "console")]
    #[arg(long, requires = "console")]
    open: bool,
}

/// Interval between two progress lines.
const EVERY: Duration = Duration::from_secs(1);
/// Size of the file for each second of the run: about what the paths carry beside the other streams.
const FILE_BYTES_PER_S: u64 = 2_000_000;

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    #[cfg(feature = "console")]
    if arguments.console {
        let narrator = Narrator::new(false);
        let showing = live::show(&arguments.data, arguments.seed, arguments.open, narrator);
        // Ctrl-C is its usual end, and drops it, together with its processes and sockets.
        return tokio::select! {
            outcome = showing => outcome,
            stopped = stopped() => stopped,
        };
    }
    until_ctrl_c(show(&arguments)).await
}

async fn show(arguments: &Arguments) -> Outcome {
    let film = arguments.data.read(FILM)?;
    let narrator = Narrator::new(arguments.json);

    let (sender_key, receiver_key) = (keys::generate()?, keys::generate()?);
    let loopback: SocketAddr = ([127, 0, 0, 1], 0).into();
    let admitted = AllowList::of([sender_key.node_id()]);
    let receiver = Host::start(HostConfig::new(receiver_key, admitted).bind([loopback]))?;
    let locals = [loopback; PATHS.len()];
    let sender = Host::start(HostConfig::new(sender_key, AllowList::default()).bind(locals))?;
    let emulator = emulate(
        &arguments.data,
        receiver.addresses()[0],
        Seed(arguments.seed),
    )?;
    narrator.say(format!(
        "receiver {}, sender {}",
        receiver.node_id(),
        sender.node_id()
    ))?;
    for (path, address) in emulator.paths().iter().zip(emulator.addresses()) {
        let rate = path
            .rates()
            .0
            .map(|rate| rate.to_string())
            .unwrap_or_default();
        narrator.say(format!(
            "path {:<10} {address}, {rate} at first",
            path.name()
        ))?;
    }

    // A separate socket for each path, as on a machine with three modems.
    let pairs = sender.sockets().into_iter().zip(emulator.addresses());
    let links = pairs.map(|(socket, &remote)| Link {
        socket: socket.id,
        remote,
    });
    let calling = sender.connect_over(receiver.node_id(), links.collect());
    let (outgoing, incoming) = tokio::join!(calling, receiver.accept());
    let outgoing = outgoing?;
    let incoming = incoming.ok_or_else(|| Failure::other("the receiver did not start"))?;

    let clock = Clock::start();
    let time = Duration::from_secs(arguments.seconds);
    let tally = Tally::default();
    let plan = streams::Plan {
        film: film.into_owned().into(),
        file_bytes: FILE_BYTES_PER_S * arguments.seconds,
        time,
        clock,
        seed: arguments.seed,
    };
    let mut watch = Watch::new(&outgoing, &emulator);
    let hash = {
        let sending = streams::send_all(&outgoing, &plan, &tally);
        let receiving = streams::receive_all(incoming, clock, tally.clone());
        let cutting = cut(&emulator.paths()[CUT], time);
        let watching = watch.run(&tally, clock, plan.file_bytes, narrator);
        tokio::select! {
            both = async { tokio::try_join!(sending, receiving) } => both?,
            () = cutting => unreachable!("`cut` does not return"),
            never = watching => return never,
        }
    };
    watch.sample();
    let report = Report {
        streams: tally.rows(),
        paths: watch.rows(),
        events: watch.events,
        file_is_intact: hash.0 == hash.1,
        seed: arguments.seed,
    };
    if arguments.json {
        print_line(&report.json())?;
    } else {
        narrator.say_all(report.lines())?;
    }
    tokio::join!(sender.shutdown(), receiver.shutdown());
    if report.file_is_intact {
        Ok(())
    } else {
        Err(Failure::other("the file did not arrive as it was sent"))
    }
}

/// Cuts the path for the middle fifth of the run; does not return.
async fn cut(path: &Path, time: Duration) {
    tokio::time::sleep(time.mul_f64(0.4)).await;
    path.set_up(false);
    tokio::time::sleep(time.mul_f64(0.2)).await;
    path.set_up(true);
    std::future::pending::<()>().await;
}

/// Samples the sender's channels periodically and records their events.
struct Watch<'a> {
    session: &'a Session,
    emulator: &'a Emulator,
    /// Payload bytes by remote address and channel; a channel may be replaced by another.
    carried: BTreeMap<(SocketAddr, ChannelId), u64>,
    remotes: BTreeMap<ChannelId, SocketAddr>,
    events: Vec<String>,
}

impl<'a> Watch<'a> {
    fn new(session: &'a Session, emulator: &'a Emulator) -> Self {
        Self {
            session,
            emulator,
            carried: BTreeMap::new(),
            remotes: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    fn sample(&mut self) {
        for channel in self.session.channels() {
            let key = (channel.remote, channel.channel);
            self.carried.insert(key, channel.payload_sent_bytes);
            self.remotes.insert(channel.channel, channel.remote);
        }
    }

    fn bytes_to(&self, address: SocketAddr) -> u64 {
        let all = self.carried.iter();
        all.filter(|((remote, _), _)| *remote == address)
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Prints a progress line at every tick; returns only on failure.
    async fn run(
        &mut self,
        tally: &Tally,
        clock: Clock,
        file_bytes: u64,
        narrator: Narrator,
    ) -> Outcome {
        let mut tick = tokio::time::interval(EVERY);
        tick.tick().await;
        let mut before = vec![0; self.emulator.paths().len()];
        loop {
            tokio::select! {
                event = self.session.next_event() => match event {
                    Ok(event) => self.note(&event, clock),
                    Err(closed) => return Err(Failure::interrupted(closed)),
                },
                _ = tick.tick() => {
                    self.sample();
                    let mut line = format!("{:>4.0} s ", clock.now().as_secs_f64());
                    let pairs = self.emulator.paths().iter().zip(self.emulator.addresses());
                    for (index, (path, &address)) in pairs.enumerate() {
                        let bytes = self.bytes_to(address);
                        let mbps = (bytes - before[index]) as f64 * 8e-6 / EVERY.as_secs_f64();
                        before[index] = bytes;
                        let state = if path.is_up() { "" } else { " (cut)" };
                        line += &format!("| {} {mbps:.1} Mbit/s{state} ", path.name());
                    }
                    line += &tally.line(file_bytes);
                    narrator.say(line)?;
                }
            }
        }
    }

    fn note(&mut self, event: &SessionEvent, clock: Clock) {
        self.sample();
        let name = |channel: &ChannelId| {
            let address = self.remotes.get(channel);
            let pairs = self.emulator.paths().iter().zip(self.emulator.addresses());
            let mut matching = pairs.filter(|(_, own)| Some(*own) == address);
            matching
                .next()
                .map_or_else(|| channel.to_string(), |(path, _)| path.name().to_owned())
        };
        let text = match event {
            SessionEvent::ChannelUp { channel, .. } => format!("{} is up", name(channel)),
            SessionEvent::ChannelSuspected { channel } => {
                format!("{} is not responding", name(channel))
            }
            SessionEvent::ChannelRecovered { channel, silence } => {
                format!(
                    "{} recovered after {:.2} s",
                    name(channel),
                    silence.as_secs_f64()
                )
            }
            SessionEvent::ChannelClosed { channel, reason } => {
                format!("{} closed: {reason}", name(channel))
            }
            _ => return,
        };
        self.events
            .push(format!("{:7.3} s  {text}", clock.now().as_secs_f64()));
    }

    fn rows(&self) -> Vec<PathRow> {
        let pairs = self.emulator.paths().iter().zip(self.emulator.addresses());
        let row = |(path, &address): (&Path, &SocketAddr)| {
            let (forward, _) = path.stats();
            PathRow {
                name: path.name().to_owned(),
                bytes: self.bytes_to(address),
                packets: forward.offered.packets,
                queue_full: forward.queue_full.packets,
                lost: forward.loss.packets,
                cut: forward.down.packets,
            }
        };
        pairs.map(row).collect()
    }
}
