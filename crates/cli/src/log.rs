//! The log on standard error: its level, and a rate limit for each call site.
//!
//! An action of a peer can be worth a log line, and a peer can repeat it ten thousand times a second. Every call site may
//! therefore write [`LINES_MAX`] lines in [`WHILE`]; further lines are counted, and the count is written after that time.
//!
//! A line is text for people, or an object of JSON with `timestamp`, `level`, `target`, `message` and the fields of the event.

use std::{
    collections::HashMap,
    ffi::OsStr,
    io::{IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{Event, Metadata, Subscriber, callsite::Identifier};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::MakeWriter,
    layer::{Context, Filter, Layer, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::exit::Failure;

/// Lines that one call site may write within [`WHILE`].
const LINES_MAX: u32 = 20;
/// Interval to which [`LINES_MAX`] applies.
const WHILE: Duration = Duration::from_secs(10);

/// Environment variable with the format of the log.
const FORMAT_VARIABLE: &str = "ANABRANCH_LOG_FORMAT";

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// Lines of text.
    #[default]
    Text,
    /// One object of JSON a line.
    Json,
}

impl Format {
    /// The format asked for, or that of the environment.
    pub(crate) fn chosen(asked: Option<Self>) -> Result<Self, Failure> {
        Self::of(asked, std::env::var_os(FORMAT_VARIABLE).as_deref())
    }

    fn of(asked: Option<Self>, variable: Option<&OsStr>) -> Result<Self, Failure> {
        if let Some(format) = asked {
            return Ok(format);
        }
        match variable.and_then(OsStr::to_str) {
            _ if variable.is_none() => Ok(Self::Text),
            Some("" | "text") => Ok(Self::Text),
            Some("json") => Ok(Self::Json),
            _ => Err(Failure::usage(format!(
                "{FORMAT_VARIABLE} is neither 'text' nor 'json'; set it to one of them, or unset it"
            ))),
        }
    }
}

/// Line about lines that were left out.
fn left_out_line(format: Format, left_out: u64) -> String {
    let message = match left_out {
        1 => "1 more line like the next was left out (-vv writes all)".to_owned(),
        _ => format!("{left_out} more lines like the next were left out (-vv writes them all)"),
    };
    match format {
        Format::Text => format!("anabranch: {message}"),
        Format::Json => {
            serde_json::json!({ "level": "WARN", "message": message, "left_out": left_out })
                .to_string()
        }
    }
}

/// Sets up the log. Call it once, before the first log line. With `verbose` of 2 or more, lines are not limited.
pub(crate) fn to_stderr(verbose: u8, format: Format) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Levels by module, such as `warn,anabranch_net=debug`: there are no spans whose fields could be matched.
    let wanted = std::env::var("RUST_LOG").ok();
    let wanted = wanted.filter(|wanted| !wanted.is_empty());
    let filter = wanted.and_then(|wanted| wanted.parse().ok());
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(level));
    // Colours are for people: a file or a journal has none.
    let has_colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = match format {
        Format::Text => tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(has_colours)
            .with_target(verbose >= 2)
            .boxed(),
        Format::Json => json_lines(std::io::stderr).boxed(),
    };
    let lines = if verbose < 2 {
        lines.with_filter(Limit::new(format)).boxed()
    } else {
        lines.boxed()
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
}

/// Lines of JSON.
fn json_lines<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_writer(writer)
}

/// Rate limit by call site, of which there is a fixed number.
#[derive(Debug)]
struct Limit {
    spells: Mutex<HashMap<Identifier, Spell>>,
    /// Format of the lines about what was left out.
    format: Format,
}

#[derive(Debug)]
struct Spell {
    begun: Instant,
    lines: u32,
    left_out: u64,
}

impl Limit {
    fn new(format: Format) -> Self {
        Self {
            spells: Mutex::default(),
            format,
        }
    }

    /// Returns whether a line may be written, and the number of lines left out before it.
    fn admit(&self, place: Identifier, now: Instant) -> (bool, u64) {
        let mut table = self.spells.lock().unwrap_or_else(PoisonError::into_inner);
        let spell = table.entry(place).or_insert(Spell {
            begun: now,
            lines: 0,
            left_out: 0,
        });
        let mut left_out = 0;
        if now.duration_since(spell.begun) >= WHILE {
            left_out = std::mem::take(&mut spell.left_out);
            (spell.begun, spell.lines) = (now, 0);
        }
        if spell.lines >= LINES_MAX {
            spell.left_out += 1;
            return (false, 0);
        }
        spell.lines += 1;
        (true, left_out)
    }
}

impl<S: Subscriber> Filter<S> for Limit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let place = event.metadata();
        let (admits, left_out) = self.admit(place.callsite(), Instant::now());
        if left_out > 0 {
            // If standard error is closed, there is no other place to report it.
            let _ = writeln!(
                std::io::stderr(),
                "{}",
                left_out_line(self.format, left_out)
            );
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Identifier {
        static SITE: std::sync::OnceLock<Identifier> = std::sync::OnceLock::new();
        SITE.get_or_init(|| {
            let span = tracing::metadata! {
                name: "x", target: "x", level: tracing::Level::WARN, fields: &[],
                callsite: &Nowhere, kind: tracing::metadata::Kind::EVENT,
            };
            span.callsite()
        })
        .clone()
    }

    struct Nowhere;

    impl tracing::Callsite for Nowhere {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}
        fn metadata(&self) -> &Metadata<'_> {
            unreachable!("not called")
        }
    }

    #[test]
    fn a_flood_is_counted_and_not_written() {
        let limit = Limit::new(Format::Text);
        let start = Instant::now();
        let written = (0..100_000).filter(|_| limit.admit(place(), start).0);
        assert_eq!(written.count(), LINES_MAX as usize);
        let later = limit.admit(place(), start + WHILE);
        assert_eq!(later, (true, 100_000 - u64::from(LINES_MAX)));
        assert_eq!(limit.admit(place(), start + WHILE), (true, 0));
    }

    /// Writer to memory.
    #[derive(Clone, Default)]
    struct Memory(std::sync::Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_of_json_is_an_object_whatever_a_peer_writes() {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = tracing_subscriber::registry().with(json_lines(move || writer.clone()));
        let hostile = "a\n{\"level\":\"ERROR\"}\u{1b}[2J\u{7}<b>\u{202e}\"\\";
        tracing::subscriber::with_default(subscriber, || {
            tracing::warn!(
                label = hostile,
                bytes = 7,
                "the stream {hostile} was refused"
            );
            tracing::info!("second");
        });
        let bytes = memory.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text}"
        );
        let first: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(first["label"], hostile);
        assert_eq!(first["bytes"], 7);
        assert_eq!(first["level"], "WARN");
        assert!(first["timestamp"].is_string());
        assert_eq!(
            first["message"],
            format!("the stream {hostile} was refused")
        );
    }

    #[test]
    fn what_was_left_out_is_an_object_too() {
        let line = left_out_line(Format::Json, 41);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["left_out"], 41);
        let texts = [1, 2].map(|count| left_out_line(Format::Text, count));
        assert!(
            texts[0].contains("1 more line like the next was left out"),
            "{texts:?}"
        );
        assert!(
            texts[1].contains("2 more lines like the next were left out"),
            "{texts:?}"
        );
    }

    #[test]
    fn the_argument_comes_before_the_environment() {
        let variable = |text: &'static str| Some(OsStr::new(text));
        let json = Some(Format::Json);
        assert_eq!(Format::of(json, variable("text")).ok(), json);
        assert_eq!(Format::of(None, variable("json")).ok(), json);
        assert_eq!(Format::of(None, None).ok(), Some(Format::Text));
        assert!(Format::of(None, variable("xml")).is_err());
    }
}
