//! Words that come from others: what may be shown of them, and how often.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Longest text of a peer that is shown, in characters.
const SHOWN_MAX: usize = 300;
/// Lines of one kind that a peer can cause in the log are at most so many in [`PERIOD`].
const LINES_MAX: u32 = 5;
/// See [`LINES_MAX`].
const PERIOD: Duration = Duration::from_secs(10);

/// A peer's text as it may stand on a terminal or in a log: no control characters, nothing that turns the direction of writing,
/// and not too long.
///
/// ```
/// assert_eq!(anabranch_video::words::plain("a\x1b[2Jb"), "a\u{fffd}[2Jb");
/// ```
pub fn plain(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_MAX).map(shown).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        out.push('…');
    }
    out
}

fn shown(c: char) -> char {
    let is_odd = c.is_control()
        || matches!(
            c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        );
    if is_odd { '\u{fffd}' } else { c }
}

/// Keeps lines that peers cause from filling the log.
#[derive(Debug)]
pub(crate) struct Seldom(Mutex<Said>);

#[derive(Debug)]
struct Said {
    since: Option<Instant>,
    lines: u32,
    withheld: u64,
}

impl Seldom {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Said {
            since: None,
            lines: 0,
            withheld: 0,
        }))
    }

    /// Whether a line may be written now; if so, how many were withheld since the last one.
    pub(crate) fn say(&self) -> Option<u64> {
        self.say_at(Instant::now())
    }

    fn say_at(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = said
            .since
            .is_none_or(|since| now.saturating_duration_since(since) >= PERIOD);
        if is_over {
            said.since = Some(now);
            said.lines = 0;
        }
        if said.lines >= LINES_MAX {
            said.withheld += 1;
            return None;
        }
        said.lines += 1;
        Some(std::mem::take(&mut said.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_orders() {
        assert_eq!(
            plain("\x1b]0;x\x07\u{9b}2J\u{202e}gnp"),
            "\u{fffd}]0;x\u{fffd}\u{fffd}2J\u{fffd}gnp"
        );
        assert_eq!(plain("Größe 5 µm 日本"), "Größe 5 µm 日本");
        assert_eq!(plain(&"x".repeat(10_000)).chars().count(), SHOWN_MAX + 1);
    }

    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let seldom = Seldom::new();
        let begun = Instant::now();
        let said: Vec<_> = (0..1_000).filter_map(|_| seldom.say_at(begun)).collect();
        assert_eq!(said, [0; LINES_MAX as usize]);
        assert_eq!(seldom.say_at(begun + PERIOD), Some(1_000 - 5));
        assert_eq!(seldom.say_at(begun + PERIOD), Some(0));
    }
}
