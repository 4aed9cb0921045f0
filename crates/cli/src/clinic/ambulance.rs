//! `anabranch clinic ambulance`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::{
    AllowList, Host, HostConfig, Ticket,
    base::{Rate, duration},
    keys,
};
use anabranch_clinic::ambulance::{Ambulance, Report, Settings};
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};

use super::{consent, failure, inputs::NONE, tell};
use crate::{
    attach,
    exit::{Failure, Outcome, note, stopped},
    keygen::key_path,
    locals,
    planning::Planning,
    recv,
    ticket::{self, Source},
};

/// Reports that wait to be printed.
const REPORTS_MAX: usize = 1_024;
/// Name of this command in the log of a node to which it is attached.
const PROGRAM: &str = "anabranch clinic ambulance";
/// Pause before the hospital is called again.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The record is played as if it were measured now. When the session breaks, the hospital is called again, and gets what it lacks of the last 30 s of the record. \
Video: a file *.h264 (byte stream, without B pictures) is played at --fps; any other file is played by ffmpeg as it is; a camera such as /dev/video0, and \
lavfi:SOURCE, are encoded by ffmpeg at the rate that the paths have for it, between --rate-min and --rate. Speech: a file of Opus (Ogg) with packets of 20 ms is \
played as it is; other files, and alsa:NAME, pulse:NAME and lavfi:SOURCE, are encoded by ffmpeg. A part that fails leaves the others alone; the exit code is 7 then.

No fitness for diagnosis is claimed.")]
pub(super) struct Arguments {
    /// Ticket that `anabranch clinic hospital` printed, or `-` for a line of standard input [default: ANABRANCH_TICKET]. Other users of this
    /// machine can see it here; prefer --ticket-file or the variable.
    ticket: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "ticket")]
    ticket_file: Option<PathBuf>,
    /// Header of the record to play (WFDB).
    #[arg(long, value_name = "RECORD.hea")]
    pub(super) ekg: Option<PathBuf>,
    /// Begin the record anew at its end.
    #[arg(long = "loop", requires = "ekg")]
    is_looping: bool,
    /// Video: a file, a camera (/dev/…), or lavfi:SOURCE.
    #[arg(long, value_name = "FILE|CAMERA")]
    pub(super) video: Option<String>,
    /// Pictures per second of a file *.h264.
    #[arg(long, value_name = "N", default_value_t = 25.0, value_parser = parse_fps)]
    pub(super) fps: f64,
    /// Highest rate at which a camera is encoded.
    #[arg(long, value_name = "RATE", default_value = "2 Mbit/s")]
    pub(super) rate: Rate,
    /// Lowest rate at which a camera is encoded.
    #[arg(long, value_name = "RATE", default_value = "200 kbit/s")]
    pub(super) rate_min: Rate,
    /// Do not send parts of pictures that were lost again. Otherwise they are, within 800 ms of the capture, and pictures after them wait meanwhile.
    #[arg(long, requires = "video")]
    no_repair: bool,
    /// Speech: a file, a microphone (alsa:NAME, pulse:NAME), lavfi:SOURCE, or none.
    #[arg(long, value_name = "FILE|DEVICE", default_value = "none")]
    pub(super) audio: String,
    /// Output of what the hospital says: a file (Ogg Opus, extended if it is there), a device (alsa:NAME, pulse:NAME), or none.
    #[arg(long, value_name = "FILE|DEVICE", default_value = "none")]
    pub(super) audio_out: String,
    /// Folder whose files are sent: those that are in it, and those that come.
    #[arg(long, value_name = "DIR")]
    stills: Option<PathBuf>,
    /// Time after the end of the case for which the patient lets the hospital keep it: yes (as long as the hospital keeps cases), no, or a time such as
    /// '7 days' [default: asked at the terminal].
    #[arg(long, value_name = "yes|no|TIME", value_parser = consent::parse_consent)]
    consent: Option<Duration>,
    #[command(flatten)]
    planning: Planning,
    /// Time for which a hospital that cannot be reached is called again.
    #[arg(long, value_name = "DURATION", default_value = "1 h", value_parser = parse_duration)]
    retry: Duration,
    /// Local address to call from, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    #[command(flatten)]
    node: Node,
    /// Print events as lines of JSON.
    #[arg(long)]
    json: bool,
}

/// The running node that carries the case, if it is one.
#[derive(Debug, clap::Args)]
struct Node {
    /// Send over the paths of the running node, beside its other streams; its configuration has policy, objectives and addresses. The hospital
    /// knows this machine by the node's key.
    #[arg(long, conflicts_with_all = ["bind", "policy", "objectives", "key"])]
    attach: bool,
    #[command(flatten)]
    place: attach::Place,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn parse_fps(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(fps) if (0.1..=240.0).contains(&fps) => Ok(fps),
        _ => Err("give 0.1 to 240 pictures per second".to_owned()),
    }
}

impl Arguments {
    fn ticket(&self) -> Result<Ticket, Failure> {
        let source = Source {
            given: self.ticket.as_deref(),
            file: self.ticket_file.as_deref(),
            variables: &["ANABRANCH_TICKET"],
        };
        source.ticket(ticket::typed)?.ok_or_else(|| {
            Failure::usage("no ticket: give the one that `anabranch clinic hospital` printed, in a file with --ticket-file, or in ANABRANCH_TICKET")
        })
    }
}

pub(super) async fn run(arguments: &Arguments) -> Outcome {
    let ticket = arguments.ticket()?;
    let secret = ticket.secret.ok_or_else(|| {
        Failure::usage("the ticket has no secret; copy the whole line that `anabranch clinic hospital` printed")
    })?;
    let is_silent = arguments.audio == NONE && arguments.audio_out == NONE;
    let has_data = arguments.ekg.is_some() || arguments.video.is_some();
    if is_silent && !has_data && arguments.stills.is_none() {
        return Err(Failure::usage(
            "there is nothing to send: give --ekg, --video, --audio, --audio-out or --stills",
        ));
    }
    let consented = arguments.consent.map_or_else(consent::ask, Ok)?;
    let mut run = [0; 8];
    getrandom::fill(&mut run).map_err(Failure::other)?;
    let line = Line::open(arguments, ticket).await?;
    let settings = Settings {
        run: u64::from_ne_bytes(run),
        secret,
        ekg: arguments.ekg.clone(),
        is_looping: arguments.is_looping,
        film: arguments.film(),
        is_video_repaired: !arguments.no_repair,
        sound: arguments.sound()?,
        output: arguments.output(),
        stills: arguments.stills.clone(),
        contents: arguments.contents(),
        consent: consented,
    };
    let (sender, mut reports) = mpsc::channel(REPORTS_MAX);
    let ambulance = Ambulance::begin(settings, sender).map_err(failure)?;
    let mut sending = std::pin::pin!(async {
        tokio::select! {
            sent = sessions(arguments, &line, &ambulance) => sent,
            stopped = stopped() => stopped,
        }
    });
    // Parts of the case that did not arrive.
    let mut missing = Vec::new();
    let outcome = loop {
        tokio::select! {
            biased;
            Some(report) = reports.recv() => {
                missing.extend(left_out(&report));
                show(arguments, &report)?;
            }
            ended = &mut sending => break ended,
        }
    };
    while let Ok(report) = reports.try_recv() {
        missing.extend(left_out(&report));
        show(arguments, &report)?;
    }
    line.close().await;
    outcome?;
    if missing.is_empty() {
        return Ok(());
    }
    let words = missing.join(", ");
    Err(Failure::left_out(format!("not all was sent: {words}")))
}

/// The part of the case that does not arrive, or not to its end.
fn left_out(report: &Report) -> Option<String> {
    match report {
        Report::Failed { purpose, .. } => Some(purpose.to_string()),
        Report::Kept {
            name, why: Some(_), ..
        } => Some(name.clone()),
        Report::Ended { frames, held } if held < frames => {
            Some(format!("{} frames of the record", frames - held))
        }
        _ => None,
    }
}

/// The node that calls the hospital.
enum Line<'a> {
    /// Of this command.
    Own { host: Box<Host>, ticket: Ticket },
    /// The running node of this user or machine.
    Attached {
        place: &'a attach::Place,
        /// Ticket without its secret, which is the hospital's matter.
        peer: String,
    },
}

impl<'a> Line<'a> {
    async fn open(arguments: &'a Arguments, ticket: Ticket) -> Result<Self, Failure> {
        if arguments.node.attach {
            let place = &arguments.node.place;
            // One that is not there, or does not let this user in, is reported before anything is played.
            place.attach(PROGRAM).await.map_err(attach::failure)?;
            let secret = None;
            let peer = Ticket { secret, ..ticket }.to_string();
            return Ok(Self::Attached { place, peer });
        }
        let bind = locals::binds(&arguments.bind, &ticket.remotes()).await;
        let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
        let mut config = HostConfig::new(key, AllowList::default());
        arguments.planning.apply(&mut config)?;
        let host = Box::new(recv::host(&bind, 0, config)?);
        ticket.prepare(&host);
        Ok(Self::Own { host, ticket })
    }

    /// Sends in one session; `begun` is called once there is one.
    async fn run(&self, ambulance: &Ambulance, begun: impl FnOnce()) -> Outcome {
        match self {
            Self::Own { host, ticket } => {
                let session = host.connect(ticket.node, ticket.remotes()).await?;
                begun();
                ambulance.run(&session).await.map_err(failure)
            }
            Self::Attached { place, peer } => {
                let client = place.attach(PROGRAM).await.map_err(attach::failure)?;
                let session = client.connect(peer).await.map_err(attach::failure)?;
                begun();
                ambulance.run(&session).await.map_err(failure)
            }
        }
    }

    async fn close(&self) {
        if let Self::Own { host, .. } = self {
            host.shutdown().await;
        }
    }
}

/// Sends in one session after the other until everything is sent.
async fn sessions(arguments: &Arguments, line: &Line<'_>, ambulance: &Ambulance) -> Outcome {
    let mut until = Instant::now() + arguments.retry;
    let mut before = String::new();
    loop {
        let begun = || until = Instant::now() + arguments.retry;
        let ended = line.run(ambulance, begun).await;
        let failure = match ended {
            Err(failure) if matches!(failure.code(), 3 | 5) && Instant::now() < until => failure,
            ended => return ended,
        };
        if before != failure.message() {
            note(&format!("{}; calling again", failure.message()));
            failure.message().clone_into(&mut before);
        }
        sleep(PAUSE).await;
    }
}

fn show(arguments: &Arguments, report: &Report) -> Outcome {
    let (event, words) = match report {
        Report::Missing(missing) => (
            json!({"kind": "left_out", "file": missing.file, "leads": missing.leads}),
            format!(
                "{} is not there; left out: {}.",
                missing.file,
                missing.leads.join(", ")
            ),
        ),
        Report::Deviation(why) => (
            json!({"kind": "deviation", "why": why}),
            format!("The record does not agree with its header: {why}."),
        ),
        Report::Begun { next } => (
            json!({"kind": "begun", "next": next}),
            match next {
                None | Some(0) => "The hospital takes the case.".to_owned(),
                Some(next) => format!("The hospital takes the case from frame {next} on."),
            },
        ),
        Report::Keeps(kept) => (
            json!({"kind": "keeps", "kept_s": kept.map(|kept| kept.as_secs())}),
            match kept {
                None => "The hospital does not state for how long it keeps the case; it may be of an earlier version.".to_owned(),
                Some(Duration::ZERO) => "The hospital removes the case when it has ended.".to_owned(),
                Some(kept) => format!("The hospital keeps the case for {} after its end.", consent::words(*kept)),
            },
        ),
        Report::Promise(state) => (
            json!({"kind": "promise", "state": state}),
            format!("Record, {state}"),
        ),
        Report::Ended { frames, held } => (
            json!({"kind": "ended", "frames": frames, "held": held}),
            format!("The record has ended: {frames} frames, of which the hospital holds {held}."),
        ),
        Report::Kept { name, why } => (
            json!({"kind": "kept", "name": name, "why": why}),
            match why {
                None => format!("{name} is at the hospital."),
                Some(why) => format!("{name} was not kept: {why}."),
            },
        ),
        Report::Rate { rate_bps } => (
            json!({"kind": "rate", "rate_bps": rate_bps}),
            format!("The video is encoded at {}.", Rate::from_bps(*rate_bps)),
        ),
        Report::EncoderFailed { why } => {
            if !arguments.json {
                note(&format!("video: {why}; another one takes its place"));
                return Ok(());
            }
            (
                json!({"kind": "encoder_failed", "why": why}),
                String::new(),
            )
        }
        Report::Film {
            pictures,
            skipped,
            requests,
        } => (
            json!({"kind": "film", "pictures": pictures, "skipped": skipped, "keys_requested": requests.received, "keys_ignored": requests.ignored}),
            format!(
                "The video has ended: {pictures} pictures, {skipped} of them not sent; {} key pictures were asked for, {} times in vain.",
                requests.received, requests.ignored
            ),
        ),
        Report::Spoken { packets, skipped } => (
            json!({"kind": "spoken", "packets": packets, "skipped": skipped}),
            format!("The speech has ended: {packets} packets, {skipped} of them not sent."),
        ),
        Report::Heard { received, missing } => (
            json!({"kind": "heard", "received": received, "missing": missing}),
            format!("The hospital said {received} packets; {missing} did not come, or too late."),
        ),
        Report::KeyIgnored => (
            json!({"kind": "key_ignored"}),
            "The hospital asks for a key picture; a file is not encoded again, and its next one follows.".to_owned(),
        ),
        Report::Failed { purpose, why } => {
            if !arguments.json {
                note(&format!("{purpose}: {why}"));
                return Ok(());
            }
            (
                json!({"kind": "failed", "stream": purpose.to_string(), "why": why}),
                String::new(),
            )
        }
        _ => return Ok(()),
    };
    tell(arguments.json, &event, &words)
}
