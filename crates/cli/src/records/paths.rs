//! Bytes and rates by path, of the session by which a command reaches its peer: that of a running node, which other programs may use
//! at the same time, or its own.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use anabranch::{
    Session,
    base::{Rate, duration},
    local::{client, message::PathBody},
};
use anabranch_records::client::Records;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::reach::Reached;
use crate::{bytes, meter::Direction};

/// The session whose paths are shown; another one after an interruption.
pub(super) struct Paths {
    session: Mutex<(u64, Kind)>,
}

#[derive(Clone)]
enum Kind {
    Attached(client::Session),
    Own(Session),
}

impl Kind {
    fn of(reached: &Reached) -> Self {
        match reached {
            Reached::Attached(records) => Self::Attached(Records::session(records).clone()),
            Reached::Own(_, records) => Self::Own(Records::session(records).clone()),
        }
    }
}

impl Paths {
    /// Those of a session.
    pub(super) fn of(reached: &Reached) -> Self {
        Self {
            session: Mutex::new((0, Kind::of(reached))),
        }
    }

    /// Turns to the session that came in place of one that is over.
    pub(super) fn turn_to(&self, reached: &Reached) {
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        *session = (session.0 + 1, Kind::of(reached));
    }

    fn current(&self) -> (u64, Kind) {
        let session = self.session.lock();
        session.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The number of the session among those of the command, and its paths; none if it is over.
    async fn now(&self) -> (u64, Vec<PathBody>) {
        let (number, session) = self.current();
        let paths = match session {
            Kind::Attached(session) => session.paths().await.unwrap_or_default(),
            Kind::Own(session) => session.channels().iter().map(PathBody::from).collect(),
        };
        (number, paths)
    }
}

/// A path, since the command began.
struct Row {
    path: PathBody,
    session: u64,
    /// Bytes that it had carried in this session when that was first seen.
    before: u64,
    /// Bytes in earlier sessions of the command.
    earlier: u64,
    carried: u64,
    rate: Rate,
    at: Instant,
}

/// Bytes and rates by path since the command began.
pub(super) struct Meter<'a> {
    paths: &'a Paths,
    rows: Rows,
}

impl<'a> Meter<'a> {
    /// Counts what the session's paths carry in this direction from the first [`Meter::update`] on.
    pub(super) fn new(paths: &'a Paths, direction: Direction) -> Self {
        Self {
            paths,
            rows: Rows::new(direction),
        }
    }

    /// Asks for what the paths carried by now.
    pub(super) async fn update(&mut self) {
        let (session, paths) = self.paths.now().await;
        self.rows.count(session, paths, Instant::now());
    }

    /// Rows of an event of progress.
    pub(super) fn event(&self) -> Vec<Value> {
        self.rows.event()
    }

    /// Lines for a terminal, as of a transfer of files.
    pub(super) fn lines(&self) -> Vec<String> {
        self.rows.lines()
    }

    /// Lines of a report at the end: the paths that carried something.
    pub(super) fn summary(&self) -> Vec<String> {
        self.rows.summary()
    }
}

/// The numbers of a [`Meter`].
struct Rows {
    direction: Direction,
    /// By number of the channel, and name. A path of another session is the same if both are.
    all: BTreeMap<(u64, String), Row>,
    /// The session of the last time.
    session: Option<u64>,
}

impl Rows {
    fn new(direction: Direction) -> Self {
        Self {
            direction,
            all: BTreeMap::new(),
            session: None,
        }
    }

    fn count(&mut self, session: u64, paths: Vec<PathBody>, now: Instant) {
        let is_first = self.session.replace(session) != Some(session);
        for path in paths {
            let total = match self.direction {
                Direction::Sending => path.sent_bytes,
                Direction::Receiving => path.received_bytes,
            };
            // What a path carried that came later is of this time, too. The session of a running node goes on when a command reconnects.
            let before = if is_first { total } else { 0 };
            let row = (self.all)
                .entry((path.channel, path.path.clone()))
                .or_insert_with(|| Row {
                    path: PathBody::default(),
                    session,
                    before,
                    earlier: 0,
                    carried: 0,
                    rate: Rate::from_bps(0),
                    at: now,
                });
            if row.session != session {
                (row.session, row.before, row.earlier) = (session, before, row.carried);
            }
            let carried = row.earlier + total.saturating_sub(row.before);
            let elapsed = now - row.at;
            if !elapsed.is_zero() {
                row.rate = Rate::from_bytes_per(carried.saturating_sub(row.carried), elapsed);
            }
            (row.path, row.carried, row.at) = (path, carried, now);
        }
        // A path that is gone carries nothing any more.
        for row in self.all.values_mut().filter(|row| row.at != now) {
            row.rate = Rate::from_bps(0);
            row.path.state = "gone".to_owned();
        }
    }

    fn event(&self) -> Vec<Value> {
        let rows = self.all.values();
        let row = |row: &Row| {
            json!({
                "name": row.path.path,
                "state": row.path.state,
                "bytes": row.carried,
                "rate_bps": row.rate.as_bps(),
            })
        };
        rows.map(row).collect()
    }

    fn lines(&self) -> Vec<String> {
        let all: u64 = self.all.values().map(|row| row.carried).sum();
        let line = |row: &Row| {
            let Row {
                path,
                carried,
                rate,
                ..
            } = row;
            let share = 100.0 * *carried as f64 / all.max(1) as f64;
            let rtt = duration::format(std::time::Duration::from_nanos(path.rtt_ns));
            let (ends, state, carried) = (&path.path, &path.state, bytes::text(*carried));
            format!("{ends} ({state}): {carried}, {share:.0} %, {rate}, round trip {rtt}")
        };
        self.all.values().map(line).collect()
    }

    fn summary(&self) -> Vec<String> {
        let all: u64 = self.all.values().map(|row| row.carried).sum();
        let used = self.all.values().filter(|row| row.carried > 0);
        let line = |row: &Row| {
            let share = 100.0 * row.carried as f64 / all as f64;
            let (name, carried) = (&row.path.path, bytes::text(row.carried));
            format!("  {name}: {carried}, {share:.0} %")
        };
        used.map(line).collect()
    }
}

/// Lines on a screen, one for each path.
#[derive(Default)]
pub(super) struct Lines(Vec<ProgressBar>);

impl Lines {
    /// Shows these texts.
    pub(super) fn show(&mut self, screen: &MultiProgress, texts: Vec<String>) {
        for (index, text) in texts.into_iter().enumerate() {
            if index == self.0.len() {
                let line = screen.add(ProgressBar::no_length());
                // The template is a constant of ours.
                let style = ProgressStyle::with_template("  {msg}").expect("the template is valid");
                line.set_style(style);
                self.0.push(line);
            }
            self.0[index].set_message(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn path(channel: u64, received_bytes: u64) -> PathBody {
        PathBody {
            channel,
            path: format!("lo → 127.0.0.1:{channel}"),
            state: "active".to_owned(),
            received_bytes,
            ..PathBody::default()
        }
    }

    #[test]
    fn bytes_count_from_the_beginning_of_the_command() {
        let mut rows = Rows::new(Direction::Receiving);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let counted = |rows: &Rows| -> Vec<(u64, u64)> {
            let event = rows.event();
            let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
            let row = |row: &Value| (number(row, "bytes"), number(row, "rate_bps"));
            event.iter().map(row).collect()
        };
        rows.count(0, vec![path(1, 5_000)], at(0));
        assert_eq!(counted(&rows), [(0, 0)]);
        assert_eq!(rows.summary(), Vec::<String>::new());
        // Another path comes.
        rows.count(0, vec![path(1, 6_000), path(2, 500)], at(1));
        assert_eq!(counted(&rows), [(1_000, 8_000), (500, 0)]);
        // The command reconnects, through a session of the node that goes on.
        rows.count(1, vec![path(1, 7_000), path(2, 900)], at(2));
        assert_eq!(counted(&rows), [(1_000, 0), (500, 0)]);
        rows.count(1, vec![path(1, 8_000)], at(3));
        assert_eq!(counted(&rows), [(2_000, 8_000), (500, 0)]);
        assert!(rows.lines()[1].contains("(gone)"), "{:?}", rows.lines());
        assert!(
            rows.lines()[0].contains("2.00 kB, 80 %, 8.00 kbit/s"),
            "{:?}",
            rows.lines()
        );
        assert_eq!(
            rows.summary(),
            [
                "  lo → 127.0.0.1:1: 2.00 kB, 80 %",
                "  lo → 127.0.0.1:2: 500 B, 20 %"
            ]
        );
    }
}
