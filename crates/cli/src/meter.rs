//! Progress bar with the share of every path.

use std::{
    collections::HashMap,
    fmt,
    io::IsTerminal,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anabranch::{
    Session,
    base::{ChannelId, Rate, text},
    transfer::{Progress, Snapshot},
};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use crate::bytes;

/// Interval between two updates.
const EVERY: Duration = Duration::from_millis(250);

/// Characters of a name that are displayed at most.
const NAME_CHARS: usize = 40;

/// Direction of the transfer, seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Sending,
    Receiving,
}

/// Shows `progress` until dropped or aborted. Draws only on a terminal.
pub(crate) async fn show(session: Session, progress: Progress, direction: Direction) {
    if !std::io::stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    // Until the name is known, a question may be open on the terminal.
    while progress.snapshot().name.is_empty() {
        tokio::time::sleep(EVERY).await;
    }
    let screen = MultiProgress::new();
    let bar = screen.add(total_bar());
    let mut file = None;
    let mut lines: HashMap<ChannelId, ProgressBar> = HashMap::new();
    let mut before: HashMap<ChannelId, (u64, Instant)> = HashMap::new();
    loop {
        let now = progress.snapshot();
        bar.set_prefix(text::printable(&now.name, NAME_CHARS));
        if now.bytes_total > 0 {
            bar.set_length(now.bytes_total);
        }
        let held = match direction {
            // Data in our buffers has not reached the peer yet.
            Direction::Sending => session.stats().map_or(0, |stats| stats.send_held_bytes),
            Direction::Receiving => 0,
        };
        bar.set_position(now.bytes_done.saturating_sub(held));
        if let Some(text) = file_text(&now) {
            let line = file.get_or_insert_with(|| file_line(&screen));
            line.set_message(text);
        }
        for path in paths(&session, direction, &mut before) {
            let line = lines.entry(path.channel).or_insert_with(|| {
                let line = screen.add(ProgressBar::no_length());
                line.set_style(
                    ProgressStyle::with_template("  {msg}").expect("the template is valid"),
                );
                line
            });
            line.set_message(path.text);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Bar of the whole transfer.
pub(crate) fn total_bar() -> ProgressBar {
    let style = "{prefix} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {rate} eta {eta}";
    // The template is a constant of ours.
    let style = ProgressStyle::with_template(style).expect("the template is valid");
    // In the unit of all other rates.
    let rate = |state: &ProgressState, text: &mut dyn fmt::Write| {
        // A text cannot fail.
        let _ = write!(text, "{}", rate_of(state.per_sec()));
    };
    ProgressBar::no_length().with_style(style.with_key("rate", rate))
}

/// A rate in bytes per second.
fn rate_of(bytes_per_s: f64) -> Rate {
    Rate::from_bps((8.0 * bytes_per_s) as u64)
}

/// Line of the file that is being moved, of several; `None`: there is one only, or none yet.
fn file_text(now: &Snapshot) -> Option<String> {
    let file = now.file.as_ref().filter(|_| now.files_total > 1)?;
    let path = text::printable(&file.path, NAME_CHARS);
    let done = bytes::text(file.bytes_done);
    let of = file
        .bytes_total
        .map(|total| format!(" of {}", bytes::text(total)));
    let of = of.unwrap_or_default();
    let (complete, all) = (now.files_done, now.files_total);
    Some(format!(
        "{path}: {done}{of} ({complete} of {all} files done)"
    ))
}

/// Line for a file below the bar.
fn file_line(screen: &MultiProgress) -> ProgressBar {
    let line = screen.add(ProgressBar::no_length());
    let style = ProgressStyle::with_template("  {msg}");
    line.with_style(style.expect("the template is valid"))
}

/// Shows `progress` without its paths until dropped or aborted. Draws only on a terminal.
pub(crate) async fn show_total(progress: &Progress) {
    if !std::io::stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    let screen = MultiProgress::new();
    let (bar, mut line) = (screen.add(total_bar()), None);
    loop {
        let now = progress.snapshot();
        bar.set_prefix(text::printable(&now.name, NAME_CHARS));
        if now.bytes_total > 0 {
            bar.set_length(now.bytes_total);
        }
        bar.set_position(now.bytes_done);
        if let Some(text) = file_text(&now) {
            let line = line.get_or_insert_with(|| file_line(&screen));
            line.set_message(text);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Shows the bytes `done` of one file until dropped or aborted. Draws only on a terminal.
pub(crate) async fn show_bytes(name: &str, bytes_total: u64, done: &AtomicU64) {
    if !std::io::stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    let bar = total_bar();
    bar.set_prefix(text::printable(name, NAME_CHARS));
    bar.set_length(bytes_total);
    loop {
        bar.set_position(done.load(Ordering::Relaxed));
        tokio::time::sleep(EVERY).await;
    }
}

struct PathLine {
    channel: ChannelId,
    text: String,
}

fn paths(
    session: &Session,
    direction: Direction,
    before: &mut HashMap<ChannelId, (u64, Instant)>,
) -> Vec<PathLine> {
    let reports = session.channels();
    let carried = |report: &anabranch::net::session::ChannelReport| match direction {
        Direction::Sending => report.payload_sent_bytes,
        Direction::Receiving => report.payload_received_bytes,
    };
    let total: u64 = reports.iter().map(carried).sum();
    let now = Instant::now();
    let line = |report: &anabranch::net::session::ChannelReport| {
        let bytes = carried(report);
        let (bytes_before, at) = before
            .insert(report.channel, (bytes, now))
            .unwrap_or((bytes, now));
        let rate = Rate::from_bytes_per(bytes - bytes_before.min(bytes), now - at);
        let share = 100.0 * bytes as f64 / total.max(1) as f64;
        let rtt = anabranch::base::duration::format(report.stats.rtt_smoothed);
        PathLine {
            channel: report.channel,
            text: format!(
                "{} ({}): {share:.0} % of the bytes, {rate}, round trip {rtt}, loss {:.2} %",
                report.ends(),
                report.state,
                100.0 * report.stats.loss_fraction(),
            ),
        }
    };
    reports.iter().map(line).collect()
}

/// Final summary: a line for each path, in order of their ends.
pub(crate) fn summary(session: &Session, direction: Direction) -> Vec<String> {
    let mut reports = session.channels();
    reports.sort_by_key(anabranch::net::session::ChannelReport::ends);
    let carried = |report: &anabranch::net::session::ChannelReport| match direction {
        Direction::Sending => report.payload_sent_bytes,
        Direction::Receiving => report.payload_received_bytes,
    };
    let total: u64 = reports.iter().map(carried).sum();
    let line = |report: &anabranch::net::session::ChannelReport| {
        let share = 100.0 * carried(report) as f64 / total.max(1) as f64;
        format!("  {}: {share:.0} % of the bytes", report.ends())
    };
    reports.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use anabranch::transfer::FileProgress;

    use super::*;

    #[test]
    fn rates_have_the_unit_of_all_others() {
        assert_eq!(rate_of(1_250_000.0).to_string(), "10.0 Mbit/s");
        // The template of the bar is valid, its key included.
        drop(total_bar());
    }

    #[test]
    fn the_file_that_is_moved_is_shown_if_there_are_several() {
        let file = FileProgress {
            path: "tree/a\u{1b}[2J".to_owned(),
            bytes_total: Some(3_000_000),
            bytes_done: 1_000_000,
        };
        let mut now = Snapshot {
            files_total: 3,
            files_done: 1,
            file: Some(file),
            ..Snapshot::default()
        };
        let text = file_text(&now).unwrap();
        assert!(text.starts_with("tree/a"), "{text}");
        assert!(
            text.ends_with(": 1.00 MB of 3.00 MB (1 of 3 files done)"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        now.files_total = 1;
        assert_eq!(file_text(&now), None);
        assert_eq!(
            file_text(&Snapshot {
                file: None,
                files_total: 2,
                ..now
            }),
            None
        );
    }
}
