//! The log on standard error: its level, and a rate limit for each call site.
//!
//! An action of a peer can be worth a log line, and a peer can repeat it ten thousand times a second. Every call site may
//! therefore write [`LINES_MAX`] lines in [`WHILE`]; further lines are counted, and the count is written after that time.

use std::{
    collections::HashMap,
    io::{IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use tracing::{Event, Metadata, Subscriber, callsite::Identifier};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::{Context, Filter, Layer, SubscriberExt},
    util::SubscriberInitExt,
};

/// Lines that one call site may write within [`WHILE`].
const LINES_MAX: u32 = 20;
/// Interval to which [`LINES_MAX`] applies.
const WHILE: Duration = Duration::from_secs(10);

/// Sets up the log. Call it once, before the first log line. With `verbose` of 2 or more, lines are not limited.
pub(crate) fn to_stderr(verbose: u8) {
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
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(has_colours)
        .with_target(verbose >= 2);
    let lines = if verbose < 2 {
        lines.with_filter(Limit::default()).boxed()
    } else {
        lines.boxed()
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
}

/// Rate limit by call site, of which there is a fixed number.
#[derive(Debug, Default)]
struct Limit(Mutex<HashMap<Identifier, Spell>>);

#[derive(Debug)]
struct Spell {
    begun: Instant,
    lines: u32,
    left_out: u64,
}

impl Limit {
    /// Returns whether a line may be written, and the number of lines left out before it.
    fn admit(&self, place: Identifier, now: Instant) -> (bool, u64) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
                "anabranch: {left_out} more lines like the next were left out (-vv writes them all)"
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
        let limit = Limit::default();
        let start = Instant::now();
        let written = (0..100_000).filter(|_| limit.admit(place(), start).0);
        assert_eq!(written.count(), LINES_MAX as usize);
        let later = limit.admit(place(), start + WHILE);
        assert_eq!(later, (true, 100_000 - u64::from(LINES_MAX)));
        assert_eq!(limit.admit(place(), start + WHILE), (true, 0));
    }
}
