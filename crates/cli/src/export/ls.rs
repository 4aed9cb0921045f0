//! `anabranch ls`: what a peer exports.

use anabranch::{
    AduStream,
    exports::{Entry, Exports, Kind, Metadata},
};
use serde_json::{Value, json};

use super::{
    Place, failure,
    origin::{Origin, OriginFlags, with},
};
use crate::{
    bytes,
    exit::{Failure, Outcome, print_line, unless_stopped},
    table::{Column, Table},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The peer exports directories with sections [[export]] of its configuration, and gives this node the right read-export to them. Times are in UTC.")]
pub(crate) struct Arguments {
    /// PEER:/EXPORT/PATH; PEER: lists the exports. PEER is the name or id of a peer of the running node; or without a node, ID@HOST:PORT
    /// or the line that `anabranch node` printed there.
    #[arg(value_name = "PEER:[/EXPORT/PATH]")]
    place: String,
    /// Print a line of JSON for each entry (docs/exports.md).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: OriginFlags,
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let place = Place::parse(&arguments.place)?;
    let opening = Origin::open(&place.peer, &arguments.flags, "anabranch ls");
    let origin = unless_stopped("stopped", opening).await?;
    let listed =
        async { with!(&origin, exports => list(exports, &place.path, arguments.json).await) };
    let listed = unless_stopped("stopped", listed).await;
    origin.close().await;
    listed
}

async fn list<S: AduStream>(exports: &Exports<S>, path: &str, is_json: bool) -> Outcome {
    let unreachable = |error| match failure(error) {
        failure if failure.code() == 5 => Failure::unreachable(failure.message()),
        failure => failure,
    };
    let metadata = exports.stat(path).await.map_err(unreachable)?;
    if metadata.kind == Kind::File {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        return print(&[Entry { name, metadata }], is_json);
    }
    let mut after = String::new();
    loop {
        let listed = exports.list(path, &after).await.map_err(unreachable)?;
        print(&listed.entries, is_json)?;
        match listed.more_after {
            Some(last) => after = last,
            None => return Ok(()),
        }
    }
}

fn print(entries: &[Entry], is_json: bool) -> Outcome {
    if is_json {
        return entries
            .iter()
            .try_for_each(|entry| print_line(&row(entry).to_string()));
    }
    let columns = [Column::number(""), Column::text(""), Column::text("")].to_vec();
    let table = Table::new(columns, entries.iter().map(cells));
    table
        .lines(usize::MAX)
        .iter()
        .try_for_each(|line| print_line(line))
}

fn row(entry: &Entry) -> Value {
    let Metadata {
        kind,
        size_bytes,
        modified_ns,
        version,
    } = entry.metadata;
    json!({
        "kind": "entry",
        "name": entry.name,
        "type": if kind == Kind::File { "file" } else { "directory" },
        "size_bytes": (kind == Kind::File).then_some(size_bytes),
        "modified_ns": modified_ns,
        "version": version.to_string(),
    })
}

/// Size, time and name; a directory has no size, and a slash after its name.
fn cells(entry: &Entry) -> Vec<String> {
    let (size, end) = match entry.metadata.kind {
        Kind::File => (bytes::text(entry.metadata.size_bytes), ""),
        Kind::Directory => (String::new(), "/"),
    };
    let time = time_text(entry.metadata.modified_ns);
    vec![size, time, format!("{}{end}", entry.name)]
}

/// A time in UTC, to the minute.
fn time_text(since_1970_ns: i64) -> String {
    let minutes = since_1970_ns.div_euclid(60_000_000_000);
    let (days, minute) = (minutes.div_euclid(24 * 60), minutes.rem_euclid(24 * 60));
    // Years that begin in March have their leap day at the end; 146,097 days are 400 years, and 719,468 lie before 1970.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + later;
    let (hour, minute) = (minute / 60, minute % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01 00:00"),
            (951_782_400, "2000-02-29 00:00"),
            (1_709_251_199, "2024-02-29 23:59"),
            (1_709_251_200, "2024-03-01 00:00"),
            (1_798_761_599, "2026-12-31 23:59"),
            (-1, "1969-12-31 23:59"),
        ] {
            assert_eq!(time_text(seconds * 1_000_000_000), expected);
        }
        // Neither end of what a peer can state is out of range.
        let _ = (time_text(i64::MIN), time_text(i64::MAX));
    }
}
