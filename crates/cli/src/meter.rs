//! Progress bar with the share of every path.

use std::{
    collections::HashMap,
    io::IsTerminal,
    time::{Duration, Instant},
};

use anabranch::{
    Session,
    base::{ChannelId, Rate, text},
    transfer::Progress,
};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

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
fn total_bar() -> ProgressBar {
    let style = "{prefix} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} eta {eta}";
    // The template is a constant of ours.
    ProgressBar::no_length()
        .with_style(ProgressStyle::with_template(style).expect("the template is valid"))
}

/// Shows `progress` without its paths until dropped or aborted. Draws only on a terminal.
pub(crate) async fn show_total(progress: &Progress) {
    if !std::io::stderr().is_terminal() {
        std::future::pending::<()>().await;
    }
    let bar = total_bar();
    loop {
        let now = progress.snapshot();
        bar.set_prefix(text::printable(&now.name, NAME_CHARS));
        if now.bytes_total > 0 {
            bar.set_length(now.bytes_total);
        }
        bar.set_position(now.bytes_done);
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
                "{} {} {:?}: {share:.0} % of the bytes, {rate}, round trip {rtt}, loss {:.2} %",
                report.channel,
                report.remote,
                report.state,
                100.0 * report.stats.loss_fraction(),
            ),
        }
    };
    reports.iter().map(line).collect()
}

/// Final summary, one line per path.
pub(crate) fn summary(session: &Session, direction: Direction) -> Vec<String> {
    let reports = session.channels();
    let carried = |report: &anabranch::net::session::ChannelReport| match direction {
        Direction::Sending => report.payload_sent_bytes,
        Direction::Receiving => report.payload_received_bytes,
    };
    let total: u64 = reports.iter().map(carried).sum();
    let line = |report: &anabranch::net::session::ChannelReport| {
        let share = 100.0 * carried(report) as f64 / total.max(1) as f64;
        format!(
            "  {} {}: {share:.0} % of the bytes",
            report.channel, report.remote
        )
    };
    reports.iter().map(line).collect()
}
