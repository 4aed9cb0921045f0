//! Display of work that goes on: the parts that are done, of how many, and the time so far.

use std::{
    io::{IsTerminal, stderr},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anabranch_lab::kit::parallel;

/// Time between two lines in a file; on a terminal, one line changes every second.
const LINE_EVERY: Duration = Duration::from_secs(15);
const SECOND: Duration = Duration::from_secs(1);
/// Back to the beginning of the line, which is cleared.
const CLEAR: &str = "\r\x1b[K";

/// True while a line of the display is on the terminal.
static SHOWN: Mutex<bool> = Mutex::new(false);

/// Prints a line to standard error, in place of the display.
pub(crate) fn line(text: &str) {
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let clear = if std::mem::take(&mut *shown) {
        CLEAR
    } else {
        ""
    };
    eprintln!("{clear}{text}");
}

/// The display, as long as this value lives.
#[derive(Debug)]
pub(crate) struct Beat {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Beat {
    /// Begins to show the progress of `name`, or nothing if it `is_quiet`.
    pub(crate) fn start(name: &str, is_quiet: bool) -> Self {
        if is_quiet {
            return Self {
                end: None,
                thread: None,
            };
        }
        let (end, ended) = mpsc::channel();
        let (name, begin) = (name.to_owned(), Instant::now());
        let every = match stderr().is_terminal() {
            true => SECOND,
            false => LINE_EVERY,
        };
        let thread = thread::spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let text = text(&name, parallel::under_way(), begin.elapsed());
                if every > SECOND {
                    line(&text);
                    continue;
                }
                let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
                eprint!("{CLEAR}{text}");
                *shown = true;
            }
        });
        Self {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It only prints.
            let _ = thread.join();
        }
        let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *shown) {
            eprint!("{CLEAR}");
        }
    }
}

/// The line; the time that is left is that of the parts so far, from a tenth of them on.
fn text(name: &str, (done, all): (usize, usize), passed: Duration) -> String {
    let seconds = passed.as_secs();
    if all == 0 {
        return format!("{name}: {seconds} s so far");
    }
    let left = (10 * done >= all && done > 0).then(|| {
        let left = passed.as_secs_f64() * (all - done) as f64 / done as f64;
        format!(", about {left:.0} s left")
    });
    let left = left.unwrap_or_default();
    format!("{name}: {done} of {all} parts done in {seconds} s{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated_once_a_tenth_is_done() {
        let passed = Duration::from_secs(30);
        assert_eq!(text("pairs", (0, 0), passed), "pairs: 30 s so far");
        assert_eq!(
            text("pairs", (1, 40), passed),
            "pairs: 1 of 40 parts done in 30 s"
        );
        assert_eq!(
            text("pairs", (10, 40), passed),
            "pairs: 10 of 40 parts done in 30 s, about 90 s left"
        );
    }
}
