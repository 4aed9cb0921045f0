//! `anabranch send`

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::{
    AllowList, Explanation, Guarantee, Host, HostConfig, Session, Ticket,
    base::{Instant, duration},
    config,
    control::{Control, ControlError},
    keys,
    ledger::Ledger,
    spec::{GuaranteeText, words},
    transfer::{
        Completed, DATA_LABEL, Manner, Progress, Source, Step, TransferError, send_promised,
        send_with_retries,
    },
};
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    costs,
    exit::{Failure, Outcome, note, print_line, stopped},
    guarantee,
    keygen::key_path,
    meter::{self, Direction},
    overlay::follow::User,
    recv,
    ticket::TicketArguments,
};

/// Paths are chosen for so much where the size is not known.
const BYTES_UNKNOWN: u64 = 100_000_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A promise is made as soon as it can be, after some 20 s of traffic at the earliest, and the data flows all the \
same. Decisions about it are told on standard error, and at the end how it was kept.")]
pub(crate) struct Arguments {
    /// The file or directory; `-` for standard input.
    #[arg(value_name = "FILE|DIR|-")]
    source: PathBuf,
    #[command(flatten)]
    ticket: TicketArguments,
    /// Name at the receiver for standard input.
    #[arg(long, default_value = "stdin")]
    name: String,
    /// Addresses to send from, IP:PORT with port 0 for any; may be repeated [default: all interfaces].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Time for which to call the receiver again after an interruption, such as `90 s` or `2 min`; `0 s`: not
    /// at all. Standard input cannot be sent again.
    #[arg(long, value_name = "DURATION", default_value = "1 min", value_parser = parse_duration)]
    retry: Duration,
    /// Open a control socket here for as long as it takes, for `anabranch paths`, `streams`, `admit` and
    /// `explain`.
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Use the overlay of the node that runs here, too: ways through relays to a receiver that is a member. FILE is the node's
    /// control socket [default: $XDG_RUNTIME_DIR/anabranch.sock].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    overlay: Option<Option<PathBuf>>,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    costs: costs::Costing,
    #[command(flatten)]
    guarantee: guarantee::Flags,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let is_stdin = arguments.source.as_os_str() == "-";
    let source = if is_stdin {
        Source::Reader {
            name: arguments.name.clone(),
            reader: Box::new(std::io::stdin()),
        }
    } else {
        // Before anybody is called: a wrong name is the most likely mistake.
        std::fs::metadata(&arguments.source).map_err(|error| {
            Failure::file(format!(
                "cannot read {}: {error}",
                arguments.source.display()
            ))
        })?;
        Source::Path(arguments.source.clone())
    };
    let guarantee = wanted(&arguments.guarantee)?;
    let ticket = arguments.ticket.resolve(is_stdin)?;
    let (host, ledger) = host(&arguments, &ticket)?;
    let control = match &arguments.control {
        Some(path) => Some(Control::open(path).await.map_err(|error| match error {
            ControlError::Listen { .. } => Failure::file(error),
            _ => Failure::other(error),
        })?),
        None => None,
    };
    let answering = async {
        match &control {
            Some(control) => control.serve(&host, None).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        outcome = transfer(&host, &ticket, &arguments, guarantee, source) => outcome,
        () = recv::keep(ledger.as_ref(), &host) => Err(Failure::other("the ledger is not kept any more")),
        () = answering => unreachable!("questions are answered until this is dropped"),
        stopped = stopped() => stopped.and(Err(Failure::by_signal(
            "stopped; the same command continues where it stopped",
        ))),
    };
    recv::shutdown(ledger.as_ref(), &host, outcome).await
}

/// What the flags ask for; nothing is known of any path yet, so that it has to wait.
fn wanted(flags: &guarantee::Flags) -> Result<Option<Guarantee>, Failure> {
    let Some(text) = flags.text() else {
        return Ok(None);
    };
    let text = GuaranteeText {
        waits: Some(true),
        ..text
    };
    let guarantee = text.resolve(guarantee::flag).map_err(Failure::usage)?;
    Ok(Some(guarantee))
}

/// Receivers on this machine are reached from loopback, all others from the interfaces.
fn host(arguments: &Arguments, ticket: &Ticket) -> Result<(Host, Option<Ledger>), Failure> {
    let mut bind: Vec<SocketAddr> = arguments.bind.clone();
    let addresses = &ticket.addresses;
    if bind.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()) {
        bind.push(SocketAddr::new(addresses[0].ip(), 0));
    }
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let mut config = HostConfig::new(key, AllowList::default());
    let ledger = arguments.costs.clone().resolve()?.apply(&mut config)?;
    Ok((recv::host(&bind, 0, config)?, ledger))
}

async fn transfer(
    host: &Host,
    ticket: &Ticket,
    arguments: &Arguments,
    guarantee: Option<Guarantee>,
    source: Source,
) -> Outcome {
    let progress = Progress::default();
    let (notices, shown) = mpsc::unbounded_channel();
    let mut last = None;
    let mut explained = None;
    let manner = Manner {
        retry_for: arguments.retry,
        guarantee,
    };
    let user = overlay_user(arguments, ticket).await?;
    let sending = async {
        let mut following = JoinSet::new();
        let tell = |step: Step<'_>| {
            if let Step::Connected(session) = &step {
                last = Some((*session).clone());
                if let Some(user) = &user {
                    following.spawn(user.clone().follow((*session).clone()));
                }
            }
            // The display may have ended; the transfer goes on.
            let _ = notices.send(Notice::of(&step));
        };
        send_source(host, ticket, source, manner, &progress, tell).await
    };
    let done: Completed = if arguments.quiet {
        sending.await?
    } else {
        tokio::select! {
            result = sending => result?,
            () = display(shown, progress.clone(), &mut explained) => {
                unreachable!("the display runs until it is dropped")
            }
        }
    };
    if arguments.quiet {
        return Ok(());
    }
    let resumed = progress.snapshot().bytes_resumed;
    let note = match resumed {
        0 => String::new(),
        bytes => format!(", {bytes} of them were there already"),
    };
    print_line(&format!(
        "sent {} ({} files, {} bytes{note}); the receiver has verified it",
        done.name, done.files, done.bytes
    ))?;
    for line in last
        .iter()
        .flat_map(|session| meter::summary(session, Direction::Sending))
    {
        print_line(&line)?;
    }
    if let Some(guarantee) = &guarantee {
        print_line(&account(guarantee, explained.as_ref()))?;
    }
    Ok(())
}

/// Who uses the overlay, if it is to be used.
async fn overlay_user(arguments: &Arguments, ticket: &Ticket) -> Result<Option<User>, Failure> {
    let Some(control) = arguments.overlay.clone() else {
        return Ok(None);
    };
    let usual = || config::default_control(|name| std::env::var(name).ok());
    let control = control.or_else(usual);
    let control = control.ok_or_else(|| Failure::usage(config::NO_CONTROL))?;
    // Of a directory or standard input the size is not known; routes for a large message do.
    let bytes = std::fs::metadata(&arguments.source)
        .ok()
        .filter(std::fs::Metadata::is_file)
        .map_or(BYTES_UNKNOWN, |file| file.len().max(1));
    Ok(Some(User::new(control, ticket.node, bytes).await?))
}

/// How the promise of the stream with the data was kept, as far as it was seen.
fn account(guarantee: &Guarantee, explained: Option<&Explanation>) -> String {
    let asked = words(guarantee);
    let account = explained.map(|explained| explained.account);
    match account.filter(|account| account.kept + account.broken > 0) {
        None => format!("  {asked}: was not promised in this time"),
        Some(account) => format!(
            "  {asked}: windows kept {}, broken {}; promises withdrawn {}",
            account.kept, account.broken, account.withdrawn
        ),
    }
}

/// A path is tried again after an interruption; what was read from standard input is gone.
async fn send_source(
    host: &Host,
    ticket: &Ticket,
    source: Source,
    manner: Manner,
    progress: &Progress,
    mut tell: impl FnMut(Step<'_>),
) -> Result<Completed, TransferError> {
    match source {
        Source::Path(path) => send_with_retries(host, ticket, &path, manner, progress, tell).await,
        source @ Source::Reader { .. } => {
            let session = host.connect(ticket.node, &ticket.addresses).await?;
            tell(Step::Connected(&session));
            send_promised(&session, ticket.secret, source, manner.guarantee, progress).await
        }
    }
}

/// For the display.
enum Notice {
    Session(Session),
    Words(String),
}

impl Notice {
    fn of(step: &Step<'_>) -> Self {
        let words = match step {
            Step::Connected(session) => return Self::Session((*session).clone()),
            Step::Silent => "no path to the receiver answers; waiting for one".to_owned(),
            Step::Heard => "a path answers again".to_owned(),
            Step::Interrupted { failure, retry_for } => format!(
                "the transfer was interrupted: {failure}; calling the receiver again for {}",
                duration::format(*retry_for)
            ),
            _ => format!("{step:?}"),
        };
        Self::Words(words)
    }
}

/// The meter of the newest session, and a line on standard error for everything else. What is last known of
/// the promise is left in `explained`.
async fn display(
    mut notices: mpsc::UnboundedReceiver<Notice>,
    progress: Progress,
    explained: &mut Option<Explanation>,
) {
    let mut session: Option<Session> = None;
    let mut is_first = true;
    let mut told = None;
    loop {
        let meter = async {
            match session.clone() {
                Some(session) => meter::show(session, progress.clone(), Direction::Sending).await,
                None => std::future::pending().await,
            }
        };
        let promise = async {
            match &session {
                Some(session) => watch(session, explained, &mut told).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = promise => unreachable!("the promise is watched until it is dropped"),
            () = meter => unreachable!("the meter runs until it is dropped"),
            next = notices.recv() => match next {
                Some(Notice::Session(next)) => {
                    if !std::mem::take(&mut is_first) {
                        note("the receiver answers; the transfer goes on where it stopped");
                    }
                    session = Some(next);
                }
                Some(Notice::Words(words)) => note(&words),
                // Nothing more will come; the meter stays.
                None => std::future::pending().await,
            },
        }
    }
}

/// Tells every decision about the promise of the stream with the data.
async fn watch(session: &Session, explained: &mut Option<Explanation>, told: &mut Option<Instant>) {
    const EVERY: Duration = Duration::from_millis(250);
    loop {
        let streams = session.streams();
        let data = streams.iter().find(|found| found.spec.label == DATA_LABEL);
        let now = data.and_then(|found| session.explain(found.stream));
        if let Some(now) = now {
            // Within a window, nothing is decided twice at one moment.
            let fresh = now.notes.iter().filter(|n| told.is_none_or(|at| n.at > at));
            for decision in fresh {
                note(&decision.text);
            }
            *told = now.notes.last().map(|last| last.at).or(*told);
            *explained = Some(now);
        }
        tokio::time::sleep(EVERY).await;
    }
}
