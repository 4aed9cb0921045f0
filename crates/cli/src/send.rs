//! `anabranch send`

use std::{io::Write, net::SocketAddr, path::PathBuf, time::Duration};

use anabranch::{
    AllowList, Host, Session, Ticket,
    base::duration,
    keys,
    transfer::{Completed, Progress, Source, Step, TransferError, send, send_with_patience},
};
use tokio::sync::mpsc;

use crate::{
    exit::{Failure, Outcome, print_line},
    keygen::key_path,
    meter::{self, Direction},
    recv,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file or directory; `-` for standard input.
    #[arg(value_name = "FILE|DIR|-")]
    source: PathBuf,
    /// The line that `anabranch recv` printed.
    ticket: Ticket,
    /// Name at the receiver for standard input.
    #[arg(long, default_value = "stdin")]
    name: String,
    /// Addresses to send from, IP:PORT with port 0 for any; may be repeated [default: all interfaces].
    #[arg(long, value_name = "ADDRESS")]
    bind: Vec<SocketAddr>,
    /// Key file [default: ~/.config/anabranch/key, made if missing].
    #[arg(long, value_name = "FILE", env = "ANABRANCH_KEY")]
    key: Option<PathBuf>,
    /// How long to call the receiver again after an interruption, such as `90 s` or `2 min`; `0 s`: not
    /// at all. Standard input cannot be sent again.
    #[arg(long, value_name = "DURATION", default_value = "1 min", value_parser = parse_duration)]
    retry: Duration,
    /// Print nothing but errors.
    #[arg(short, long)]
    quiet: bool,
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
    let host = host(&arguments)?;
    let outcome = tokio::select! {
        outcome = transfer(&host, &arguments, source) => outcome,
        _ = tokio::signal::ctrl_c() => Err(Failure::ctrl_c(
            "stopped; the same command continues where it stopped",
        )),
    };
    host.shutdown().await;
    outcome
}

/// Receivers on this machine are reached from loopback, all others from the interfaces.
fn host(arguments: &Arguments) -> Result<Host, Failure> {
    let mut bind: Vec<SocketAddr> = arguments.bind.clone();
    let addresses = &arguments.ticket.addresses;
    if bind.is_empty() && addresses.iter().all(|address| address.ip().is_loopback()) {
        bind.push(SocketAddr::new(addresses[0].ip(), 0));
    }
    let key = keys::load_or_create(&key_path(arguments.key.as_ref()))?;
    Ok(recv::host(&bind, 0, &key, AllowList::default())?)
}

async fn transfer(host: &Host, arguments: &Arguments, source: Source) -> Outcome {
    let progress = Progress::default();
    let (news, shown) = mpsc::unbounded_channel();
    let mut last = None;
    let sending = async {
        let ticket = &arguments.ticket;
        let tell = |step: Step<'_>| {
            if let Step::Connected(session) = &step {
                last = Some((*session).clone());
            }
            // The display may have ended; the transfer goes on.
            let _ = news.send(News::of(&step));
        };
        send_source(host, ticket, source, arguments.retry, &progress, tell).await
    };
    let done: Completed = if arguments.quiet {
        sending.await?
    } else {
        tokio::select! {
            result = sending => result?,
            () = display(shown, progress.clone()) => {
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
    Ok(())
}

/// A path is tried again after an interruption; what was read from standard input is gone.
async fn send_source(
    host: &Host,
    ticket: &Ticket,
    source: Source,
    patience: Duration,
    progress: &Progress,
    mut tell: impl FnMut(Step<'_>),
) -> Result<Completed, TransferError> {
    match source {
        Source::Path(path) => {
            send_with_patience(host, ticket, &path, patience, progress, tell).await
        }
        source @ Source::Reader { .. } => {
            let session = host.connect(ticket.node, &ticket.addresses).await?;
            tell(Step::Connected(&session));
            send(&session, ticket.secret, source, progress).await
        }
    }
}

/// For the display.
enum News {
    Session(Session),
    Words(String),
}

impl News {
    fn of(step: &Step<'_>) -> Self {
        let words = match step {
            Step::Connected(session) => return Self::Session((*session).clone()),
            Step::Silent => "no path to the receiver answers; waiting for one".to_owned(),
            Step::Heard => "a path answers again".to_owned(),
            Step::Interrupted { failure, patience } => format!(
                "the transfer was interrupted: {failure}; calling the receiver again for {}",
                duration::format(*patience)
            ),
            _ => format!("{step:?}"),
        };
        Self::Words(words)
    }
}

/// The meter of the newest session, and a line on standard error for everything else.
async fn display(mut news: mpsc::UnboundedReceiver<News>, progress: Progress) {
    let mut session: Option<Session> = None;
    let mut is_first = true;
    loop {
        let meter = async {
            match session.clone() {
                Some(session) => meter::show(session, progress.clone(), Direction::Sending).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = meter => unreachable!("the meter runs until it is dropped"),
            next = news.recv() => match next {
                Some(News::Session(next)) => {
                    if !std::mem::take(&mut is_first) {
                        note("the receiver answers; the transfer goes on where it stopped");
                    }
                    session = Some(next);
                }
                Some(News::Words(words)) => note(&words),
                // Nothing more will come; the meter stays.
                None => std::future::pending().await,
            },
        }
    }
}

fn note(words: &str) {
    // Nowhere is left to say that standard error is gone.
    let _ = writeln!(std::io::stderr(), "anabranch: {words}");
}
