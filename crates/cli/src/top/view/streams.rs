//! Streams: what each asked for, its promise, and what came of it.

use std::cmp::Reverse;

use serde_json::Value;

use super::{
    super::{
        keys::{Sort, View},
        model::Model,
    },
    Content,
    grid::{self, Column},
    is_wanted,
    text::Piece,
    theme::Tone,
};
use crate::{bytes, show::words::peer};

const COLUMNS: [Column; 9] = [
    words("STREAM", 0),
    words("PEER", 6),
    words("ASKED", 7),
    words("PROMISE", 1),
    number("KEPT", 3),
    number("SENDING", 2),
    number("WAITING", 4),
    number("LATE", 5),
    number("LOST", 8),
];

const fn words(head: &'static str, rank: usize) -> Column {
    Column {
        head,
        is_number: false,
        rank,
    }
}

const fn number(head: &'static str, rank: usize) -> Column {
    Column {
        head,
        is_number: true,
        rank,
    }
}

pub(super) fn content(model: &Model, view: &View, cells: usize) -> Content {
    let shown = |row: &&Value| is_wanted(row, &view.filter);
    let mut streams: Vec<&Value> = model.state.streams.iter().filter(shown).collect();
    streams.sort_by_cached_key(|stream| (name(stream), number_of(stream)));
    let count = |stream: &Value, field: &str| Reverse(stream[field].as_u64().unwrap_or_default());
    match view.sort {
        Sort::Name => {}
        Sort::Rate => streams.sort_by_cached_key(|stream| {
            let rates = model.rates.of(stream);
            Reverse(rates.map(|[sending, _]| sending.as_bps()))
        }),
        Sort::Waiting => streams.sort_by_key(|stream| count(stream, "backlog_bytes")),
        Sort::Late => streams.sort_by_key(|stream| count(stream, "expired_adus")),
        Sort::Broken => streams.sort_by_key(|stream| count(stream, "windows_broken")),
    }
    let rows: Vec<Vec<Piece>> = streams.iter().map(|stream| row(model, stream)).collect();
    let (head, lines) = grid::lines(&COLUMNS, &rows, cells);
    let mut rows: Vec<_> = lines.into_iter().map(|line| vec![line]).collect();
    match model.state.streams_left_out {
        0 => {}
        more => rows.push(vec![vec![Piece::new(
            format!("and {more} more, which the node does not list"),
            Tone::Soft,
        )]]),
    }
    Content {
        head: match rows.is_empty() {
            true => Vec::new(),
            false => vec![head],
        },
        rows,
        nothing: "No stream is open.".to_owned(),
    }
}

fn name(stream: &Value) -> String {
    match stream["label"].as_str() {
        None | Some("") => stream["stream"].as_str().unwrap_or("-").to_owned(),
        Some(label) => label.to_owned(),
    }
}

fn number_of(stream: &Value) -> Option<u64> {
    stream["stream"].as_str()?.rsplit('-').next()?.parse().ok()
}

/// The state of the promise in words.
fn promise(stream: &Value) -> (String, Tone) {
    match stream["promise"].as_str() {
        None => ("none asked".to_owned(), Tone::Soft),
        Some(state) if stream["promise_is_warned"] == true => {
            (format!("{state}, warned"), Tone::Warn)
        }
        Some("waiting") => ("waiting".to_owned(), Tone::Warn),
        Some(state) => (state.to_owned(), Tone::Good),
    }
}

fn row(model: &Model, stream: &Value) -> Vec<Piece> {
    let count = |field: &str| stream[field].as_u64().unwrap_or_default();
    let (promise, tone) = promise(stream);
    let (kept, broken) = (count("windows_kept"), count("windows_broken"));
    let windows = match kept + broken {
        0 => Piece::new("-", Tone::Soft),
        all if broken == 0 => Piece::new(format!("{kept}/{all}"), Tone::Plain),
        all => Piece::new(format!("{kept}/{all}"), Tone::Warn),
    };
    let counted = |value: u64, text: String| match value {
        0 => Piece::new(text, Tone::Soft),
        _ => Piece::new(text, Tone::Plain),
    };
    let lost = count("lost_adus") + count("shed_adus");
    let [sending, _] = model.rates.texts(stream);
    vec![
        Piece::new(name(stream), Tone::Plain),
        Piece::new(peer(stream), Tone::Plain),
        Piece::new(stream["asked"].as_str().unwrap_or("-"), Tone::Plain),
        Piece::new(promise, tone),
        windows,
        Piece::new(sending, Tone::Plain),
        counted(count("backlog_bytes"), bytes::of(stream, "backlog_bytes")),
        counted(count("expired_adus"), count("expired_adus").to_string()),
        counted(lost, lost.to_string()),
    ]
}
