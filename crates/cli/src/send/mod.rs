//! `anabranch send`: sends a file, a directory or standard input, from a node of its own or, in `attached`, through a running one.

mod attached;
mod by_code;
mod choice;
mod standstill;
mod text;
pub(crate) mod update;
mod words;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anabranch::{
    AllowList, Explanation, Guarantee, Host, HostConfig, Order, Session, StreamSpec, Ticket,
    base::{Instant, Rate, duration, rate::ParseRateError},
    control::{Control, ControlError},
    keys,
    ledger::Ledger,
    spec::{GuaranteeText, SpecText, words},
    transfer::{
        Completed, DATA_LABEL, Exclude, Manner, Progress, Selection, Source, Step, TransferError,
        connect, send_in, send_with_retries,
    },
};
use tokio::{sync::mpsc, task::JoinSet};

use self::text::Text;
use crate::{
    attach::Place,
    bytes, code, control, costs, events,
    exit::{Failure, Outcome, files_text, note, print_line, stopped},
    guarantee,
    keygen::key_path,
    locals,
    meter::{self, Direction},
    overlay::follow::User,
    planning::Planning,
    recv,
    ticket::Target,
};

/// Size for which overlay paths are chosen if the actual size is not known, as that of a directory.
const BYTES_UNKNOWN: u64 = 100_000_000;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --rate, --packets or --late, the data is sent at once, and a guarantee is promised as soon as possible, after about \
20 s of traffic at the earliest. Decisions about the promise are printed to standard error, and at the end the number of \
windows in which it was kept.")]
pub(crate) struct Arguments {
    /// Files or directories to send, `-` for standard input. After the last of them, unless --ticket-file is given: the code or the
    /// ticket that `anabranch recv` printed, `-` for a line of standard input with one of these, or a peer of the running node, NAME:
    /// or its id. Other users of this machine can see it here. If there is one argument only, it comes from ANABRANCH_TICKET; without
    /// that, a code is printed, which is entered as `anabranch recv CODE` on the other machine.
    #[arg(value_name = "FILE|DIR|-", required_unless_present = "text")]
    words: Vec<PathBuf>,
    /// Send this text in place of a file, 16 KiB at most: `send --text 'https://…' NAME:`. The receiver keeps it as a file, and `recv`
    /// prints it. Other users of this machine can see it here.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["name", "exclude", "strict"])]
    text: Option<String>,
    /// File with the ticket in its first line; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    ticket_file: Option<PathBuf>,
    #[command(flatten)]
    choice: choice::Choice,
    /// Limit on the rate of the data, such as '20 Mbit/s' [default: what the paths carry].
    #[arg(long, value_name = "RATE", value_parser = parse_limit)]
    limit: Option<Rate>,
    /// Print events as lines of JSON on standard output (docs/operations.md, Events of a transfer).
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Local address to send from, IP:PORT with port 0 for any; may be repeated [default: every interface].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, created if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// Time for which to try to reconnect after an interruption, or to wait for a silent receiver, such as `90 s` or `2 min`; `0 s`: not at all. A transfer
    /// from standard input cannot be resumed.
    #[arg(long, value_name = "DURATION", default_value = "1 min", value_parser = parse_duration)]
    retry: Duration,
    /// Control socket to open during the transfer, for `anabranch paths`, `streams`, `admit` and `explain`.
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Use the overlay of the local node, too: paths through relays to a receiver that is a member. FILE is the node's control
    /// socket [default: $XDG_RUNTIME_DIR/anabranch.sock].
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    overlay: Option<Option<PathBuf>>,
    /// Send from a node of this command's own, even if a running node knows the receiver. --bind, --key, --control, --overlay,
    /// --cost, --currency, --ledger, --policy and --objectives imply it.
    #[arg(long)]
    direct: bool,
    #[command(flatten)]
    meeting: code::Options,
    #[command(flatten)]
    update: update::UpdateFlags,
    #[command(flatten)]
    place: Place,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    costs: costs::Costing,
    /// Profile of the data stream: bulk, background, interactive or redundant.
    #[arg(long, value_name = "NAME", default_value = "bulk")]
    profile: String,
    /// Path preference, such as 'never metered' or 'prefer interface=eth*'; may be repeated, the first that matches decides.
    #[arg(long = "paths", value_name = "RULE")]
    paths: Vec<String>,
    #[command(flatten)]
    guarantee: guarantee::Flags,
    #[command(flatten)]
    planning: Planning,
}

fn parse_limit(text: &str) -> Result<Rate, String> {
    let rate: Rate = text
        .parse()
        .map_err(|error: ParseRateError| error.to_string())?;
    match rate {
        Rate::ZERO => Err("nothing is sent at a rate of zero".to_owned()),
        rate => Ok(rate),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let is_json = arguments.json;
    let outcome = run_once(arguments).await;
    if let (true, Err(failure)) = (is_json, &outcome) {
        events::failed(failure);
    }
    outcome
}

async fn run_once(arguments: Arguments) -> Outcome {
    let words::Words { sources, ticket } = words::split(&arguments)?;
    let text = arguments.text.as_deref().map(Text::new).transpose()?;
    let sources = match &text {
        Some(text) => vec![text.path().to_owned()],
        None => sources,
    };
    let is_stdin = sources.iter().any(|source| source.as_os_str() == "-");
    if is_stdin && arguments.update.update().is_some() {
        return Err(Failure::usage(TransferError::Incomparable));
    }
    let exclude = Exclude::parse(arguments.choice.exclude.iter().map(String::as_str));
    let exclude = exclude.map_err(|error| Failure::usage(format!("--exclude: {error}")))?;
    // Checked before the call: a wrong file name is the most likely mistake.
    for path in sources.iter().filter(|path| path.as_os_str() != "-") {
        std::fs::metadata(path)
            .map_err(|error| Failure::file(format!("cannot read {}: {error}", path.display())))?;
    }
    let jobs = sources.iter().zip((0..sources.len() as u32).rev());
    let jobs: Vec<Job> = jobs
        .map(|(path, more)| Job {
            source: source_of(path, &arguments, &exclude),
            bytes_known: std::fs::metadata(path)
                .ok()
                .filter(std::fs::Metadata::is_file)
                .map(|file| file.len()),
            more,
        })
        .collect();
    let manner = Manner {
        retry_for: arguments.retry,
        data: data_spec(&arguments)?,
        limit: arguments.limit,
        update: arguments.update.update(),
        ..Manner::default()
    };
    let target = ticket.target(is_stdin)?;
    let attached = tokio::select! {
        attached = attached::find(&arguments, &target) => attached?,
        stopped = stopped() => return stopped.and(Err(by_signal())),
    };
    if let Some(attached) = attached {
        return tokio::select! {
            outcome = attached::transfer_all(attached, &arguments, &manner, jobs) => outcome,
            stopped = stopped() => stopped.and(Err(by_signal())),
        };
    }
    let (host, ledger) = host(&arguments, &target).await?;
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
    let transfers = async {
        let ticket = by_code::ticket(&host, target, &arguments, &sources, &jobs).await?;
        let mut outcomes = Outcomes::default();
        for job in jobs {
            let manner = Manner {
                more: job.more,
                ..manner.clone()
            };
            outcomes.add(transfer(&host, &ticket, &arguments, manner, job).await)?;
        }
        outcomes.end()
    };
    let outcome = tokio::select! {
        outcome = transfers => outcome,
        () = recv::keep(ledger.as_ref(), &host) => Err(Failure::other("the usage ledger is no longer kept")),
        () = answering => unreachable!("requests are answered until this is dropped"),
        stopped = stopped() => stopped.and(Err(by_signal())),
    };
    recv::shutdown(ledger.as_ref(), &host, outcome).await
}

/// One of the sources of a command.
struct Job {
    source: Source,
    /// Its size, if it is known beforehand.
    bytes_known: Option<u64>,
    /// Number of those that follow.
    more: u32,
}

fn source_of(path: &Path, arguments: &Arguments, exclude: &Exclude) -> Source {
    if path.as_os_str() == "-" {
        return Source::Reader {
            name: arguments
                .choice
                .name
                .clone()
                .unwrap_or_else(|| "stdin".to_owned()),
            reader: Box::new(std::io::stdin()),
        };
    }
    let mut selection = Selection::new(path).without(exclude.clone());
    selection.name.clone_from(&arguments.choice.name);
    Source::Selection(selection)
}

/// Results of several transfers: one that fails for a reason of its own does not keep the others back.
#[derive(Default)]
struct Outcomes {
    first: Option<Failure>,
}

impl Outcomes {
    /// Takes a result; reports a failure that others precede.
    ///
    /// # Errors
    /// The failure also concerns the transfers that follow.
    fn add(&mut self, outcome: Outcome) -> Outcome {
        let Err(failure) = outcome else {
            return Ok(());
        };
        if !failure.is_of_one_transfer() {
            return Err(failure);
        }
        match &self.first {
            None => self.first = Some(failure),
            Some(_) => note(failure.message()),
        }
        Ok(())
    }

    fn end(self) -> Outcome {
        self.first.map_or(Ok(()), Err)
    }
}

fn by_signal() -> Failure {
    Failure::by_signal("stopped; the same command continues where it stopped")
}

impl Arguments {
    /// A flag that is for a node of the command's own.
    fn of_own_node(&self) -> Option<&'static str> {
        let flags = [
            ("--direct", self.direct),
            ("--bind", !self.bind.is_empty()),
            ("--key", self.key.is_some()),
            ("--control", self.control.is_some()),
            ("--overlay", self.overlay.is_some()),
            ("--cost", self.costs.is_given()),
            ("--policy", self.planning.policy.is_some()),
            ("--objectives", self.planning.objectives.is_some()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }
}

/// The spec of the data stream that the flags ask for.
fn data_spec(arguments: &Arguments) -> Result<StreamSpec, Failure> {
    let text = SpecText {
        profile: Some(arguments.profile.clone()),
        paths: (!arguments.paths.is_empty()).then(|| arguments.paths.clone()),
        ..SpecText::default()
    };
    let mut spec = text
        .resolve()
        .map_err(|error| Failure::usage(format!("--{error}")))?;
    spec.guarantee = wanted(&arguments.guarantee)?.map(Box::new);
    spec.validate().map_err(Failure::usage)?;
    if !spec.reliable || spec.order != Order::Ordered || spec.lifetime.is_some() {
        return Err(Failure::usage(TransferError::Lossy));
    }
    Ok(spec)
}

/// The guarantee that the flags ask for. It waits for a promise, because nothing is known of the paths yet.
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

/// Opens the host: on loopback for a receiver on this machine, else on the interfaces.
async fn host(arguments: &Arguments, target: &Target) -> Result<(Host, Option<Ledger>), Failure> {
    let bind = match target {
        Target::Ticket(ticket) => {
            let mut remotes = ticket.remotes();
            let relay = ticket.via.iter().map(|via| &via.remotes);
            for more in relay {
                remotes.addresses.extend(&more.addresses);
                remotes.hosts.extend(more.hosts.iter().cloned());
            }
            locals::binds(&arguments.bind, &remotes).await
        }
        _ => arguments.bind.clone(),
    };
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    let allowed = match target {
        // Whoever enters the code.
        Target::NewCode => AllowList::everyone(),
        _ => AllowList::default(),
    };
    let mut config = HostConfig::new(key, allowed);
    arguments.planning.apply(&mut config)?;
    let ledger = arguments.costs.clone().resolve()?.apply(&mut config)?;
    Ok((recv::host(&bind, 0, config)?, ledger))
}

async fn transfer(
    host: &Host,
    ticket: &Ticket,
    arguments: &Arguments,
    manner: Manner,
    job: Job,
) -> Outcome {
    let progress = Progress::default();
    let (notices, shown) = mpsc::unbounded_channel();
    let paths = Arc::new(Mutex::new(Vec::new()));
    let mut explained = None;
    let guarantee = manner.data.guarantee.clone();
    let user = overlay_user(arguments, ticket, job.bytes_known).await?;
    let sending = async {
        let mut following = JoinSet::new();
        let observe = |step: Step<'_>| {
            if let Step::Connected(session) = &step {
                let (verified, paths) = ((*session).clone(), paths.clone());
                // Later, the receiver may have closed the session.
                progress.when_verified(move || {
                    let lines = meter::summary(&verified, Direction::Sending);
                    *paths.lock().unwrap_or_else(PoisonError::into_inner) = lines;
                });
                if let Some(user) = &user {
                    following.spawn(user.clone().follow((*session).clone()));
                }
            }
            // The display may have ended; the transfer goes on.
            let _ = notices.send(Notice::of(&step));
        };
        send_source(host, ticket, job.source, manner, &progress, observe).await
    };
    let done: Completed = if arguments.quiet {
        sending.await?
    } else {
        tokio::select! {
            result = sending => result?,
            () = events::follow(&progress), if arguments.json => unreachable!("it follows until dropped"),
            () = display(shown, progress.clone(), &mut explained) => {
                unreachable!("the display runs until it is dropped")
            }
        }
    };
    if !report(&done, &progress, arguments)? {
        return events::judge(&done.left_out, arguments.choice.strict);
    }
    for line in paths.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        print_line(line)?;
    }
    if let Some(guarantee) = &guarantee {
        print_line(&account(guarantee, explained.as_ref()))?;
    }
    events::judge(&done.left_out, arguments.choice.strict)
}

/// Reports a transfer that is complete; true if more is to be printed about it.
fn report(done: &Completed, progress: &Progress, arguments: &Arguments) -> Result<bool, Failure> {
    if arguments.quiet {
        return Ok(false);
    }
    events::note_left_out(&done.left_out);
    if arguments.update.is_dry_run() {
        update::report_plan(done, arguments.json)?;
        return Ok(false);
    }
    if arguments.json {
        events::print(&events::completed("sent", done, progress))?;
        return Ok(false);
    }
    print_line(&sent(done, progress))?;
    Ok(true)
}

/// Report of a transfer that is complete.
fn sent(done: &Completed, progress: &Progress) -> String {
    let resumed = progress.snapshot().bytes_resumed;
    let note = match resumed {
        0 => String::new(),
        resumed => format!(", of which {} were there already", bytes::text(resumed)),
    };
    format!(
        "sent {} ({}, {}{note}); the receiver has verified it{}{}",
        done.name,
        files_text(done.files),
        bytes::text(done.bytes),
        update::suffix(done),
        events::left_out_text(&done.left_out)
    )
}

/// User of the overlay, if `--overlay` was given.
async fn overlay_user(
    arguments: &Arguments,
    ticket: &Ticket,
    bytes: Option<u64>,
) -> Result<Option<User>, Failure> {
    let Some(named) = arguments.overlay.clone() else {
        return Ok(None);
    };
    let control = named.map_or_else(control::place::of_node, Ok)?;
    let bytes = bytes.unwrap_or(BYTES_UNKNOWN).max(1);
    Ok(Some(User::new(control, ticket.node, bytes).await?))
}

/// Formats the account of the promise of the data stream, as last observed.
fn account(guarantee: &Guarantee, explained: Option<&Explanation>) -> String {
    let asked = words(guarantee);
    let account = explained.map(|explained| explained.account);
    match account.filter(|account| account.kept + account.broken > 0) {
        None => format!("  {asked}: was not promised during the transfer"),
        Some(account) => format!(
            "  {asked}: windows kept {}, broken {}; promises withdrawn {}",
            account.kept, account.broken, account.withdrawn
        ),
    }
}

/// Sends the source. A file or directory is sent again after an interruption; data from standard input cannot be.
async fn send_source(
    host: &Host,
    ticket: &Ticket,
    source: Source,
    manner: Manner,
    progress: &Progress,
    mut observe: impl FnMut(Step<'_>),
) -> Result<Completed, TransferError> {
    match source {
        Source::Path(path) => {
            send_with_retries(host, ticket, path, manner, progress, observe).await
        }
        Source::Selection(selection) => {
            send_with_retries(host, ticket, selection, manner, progress, observe).await
        }
        source @ Source::Reader { .. } => {
            let session = connect(host, ticket, &mut observe).await?;
            observe(Step::Connected(&session));
            send_in(&session, ticket.secret, source, &manner, progress, |_| {}).await
        }
    }
}

/// Input of the display: a new session, or a line of text.
enum Notice {
    Session(Session),
    Words(String),
}

impl Notice {
    fn of(step: &Step<'_>) -> Self {
        let words = match step {
            Step::Connected(session) => return Self::Session((*session).clone()),
            Step::Unanswered(attempts) => {
                format!("the receiver has not answered yet: {attempts}; still trying")
            }
            Step::Silent => "the receiver does not answer on any path; waiting".to_owned(),
            Step::Resumed => "the receiver answers again".to_owned(),
            Step::Interrupted { failure, retry_for } => format!(
                "the transfer was interrupted: {failure}; trying to reconnect for {}",
                duration::format(*retry_for)
            ),
            _ => format!("{step:?}"),
        };
        Self::Words(words)
    }
}

/// Shows the progress of the newest session, and prints notices to standard error. The last state of the promise is
/// left in `explained`.
async fn display(
    mut notices: mpsc::UnboundedReceiver<Notice>,
    progress: Progress,
    explained: &mut Option<Explanation>,
) {
    let mut session: Option<Session> = None;
    let mut is_first = true;
    let mut last = None;
    loop {
        let meter = async {
            match session.clone() {
                Some(session) => meter::show(session, progress.clone(), Direction::Sending).await,
                None => std::future::pending().await,
            }
        };
        let promise = async {
            match &session {
                Some(session) => watch(session, explained, &mut last).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = promise => unreachable!("the promise is watched until it is dropped"),
            () = meter => unreachable!("the meter runs until it is dropped"),
            next = notices.recv() => match next {
                Some(Notice::Session(next)) => {
                    if !std::mem::take(&mut is_first) {
                        note("reconnected; the transfer continues where it stopped");
                    }
                    session = Some(next);
                }
                Some(Notice::Words(words)) => note(&words),
                // No more notices will come; the progress bar stays.
                None => std::future::pending().await,
            },
        }
    }
}

/// Prints every decision about the promise of the data stream. `last` is the time of the last one printed.
async fn watch(session: &Session, explained: &mut Option<Explanation>, last: &mut Option<Instant>) {
    const EVERY: Duration = Duration::from_millis(250);
    loop {
        let streams = session.streams();
        let data = streams.iter().find(|found| found.spec.label == DATA_LABEL);
        let now = data.and_then(|found| session.explain(found.stream));
        if let Some(now) = now {
            for decision in fresh_notes(&now, last) {
                note(&decision);
            }
            *explained = Some(now);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Decisions that were not printed yet. Those of one window differ in their times; `last` is the time of the last one printed.
fn fresh_notes(explained: &Explanation, last: &mut Option<Instant>) -> Vec<String> {
    let notes = explained.notes.iter();
    let fresh = notes.filter(|note| last.is_none_or(|at| note.at > at));
    let fresh = fresh.map(|note| note.text.clone()).collect();
    *last = explained.notes.last().map(|note| note.at).or(*last);
    fresh
}
