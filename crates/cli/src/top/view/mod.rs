//! Drawing: a head, the chosen view, and a line of help.

mod grid;
mod paths;
mod promises;
mod streams;
mod text;
pub(super) mod theme;

use std::time::Instant;

use ratatui_core::{buffer::Buffer, layout::Rect};
use serde_json::Value;

use self::{
    text::{Line, Piece, flowed},
    theme::{Theme, Tone},
};
use super::{
    keys::{Tab, View},
    model::Model,
};
use crate::show;

/// A view: lines that stay, and rows to scroll through, each of one or more lines.
struct Content {
    head: Vec<Line>,
    rows: Vec<Vec<Line>>,
    /// In place of rows.
    nothing: String,
}

fn content(model: &Model, view: &View, tab: Tab, now: Instant, cells: usize) -> Content {
    match tab {
        Tab::Paths => paths::content(model, view, now, cells),
        Tab::Streams => streams::content(model, view, cells),
        Tab::Promises => promises::content(model, view, now, cells),
    }
}

/// Draws everything, and bounds what is scrolled to.
pub(super) fn draw(
    model: &Model,
    view: &mut View,
    theme: Theme,
    now: Instant,
    area: Rect,
    buffer: &mut Buffer,
) {
    let cells = usize::from(area.width);
    let height = usize::from(area.height);
    let mut lines = head(model, now, cells);
    lines.push(tabs(view));
    let content = content(model, view, view.tab, now, cells);
    lines.extend(content.head);
    // The last line is the help.
    let space = height.saturating_sub(lines.len() + 1);
    let heights: Vec<usize> = content.rows.iter().map(Vec::len).collect();
    let last = last_first(&heights, space);
    let first = (*view.first()).min(last);
    *view.first() = first;
    let mut left = space;
    view.page = heights[first..]
        .iter()
        .take_while(|height| {
            let fits = **height <= left;
            left = left.saturating_sub(**height);
            fits
        })
        .count();
    match content.rows.is_empty() {
        true => lines.extend(flowed(
            [Piece::new(
                nothing(model, view, &content.nothing),
                Tone::Soft,
            )],
            cells,
        )),
        false => lines.extend(content.rows.into_iter().skip(first).flatten().take(space)),
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::new());
    lines.push(foot(view, (first, heights.len()), cells));
    for (y, line) in (area.top()..area.bottom()).zip(&lines) {
        let mut x = area.left();
        for piece in line {
            let room = usize::from(area.right() - x);
            let style = theme.style(piece.tone);
            (x, _) = buffer.set_stringn(x, y, &piece.text, room, style);
        }
    }
}

/// The greatest row from which all that follow fit; a row higher than the space counts as fitting.
fn last_first(heights: &[usize], space: usize) -> usize {
    let mut left = space;
    let fitting = heights.iter().rev().take_while(|height| {
        let fits = **height <= left;
        left = left.saturating_sub(**height);
        fits
    });
    let rows = fitting.count().max(1);
    heights.len().saturating_sub(rows)
}

/// All three views as text without marks.
pub(super) fn text(model: &Model, cells: usize) -> Vec<String> {
    let (view, now) = (View::default(), Instant::now());
    let mut lines = head(model, now, cells);
    for tab in Tab::ALL {
        lines.push(Line::new());
        lines.push(vec![Piece::new(tab.title(), Tone::Head)]);
        let content = content(model, &view, tab, now, cells);
        lines.extend(content.head);
        if content.rows.is_empty() {
            lines.push(vec![Piece::new(&content.nothing, Tone::Soft)]);
        }
        lines.extend(content.rows.into_iter().flatten());
    }
    let text = |line: &Line| {
        line.iter()
            .map(|piece| piece.text.as_str())
            .collect::<String>()
    };
    let lines = lines.iter().map(text);
    lines.map(|line| line.trim_end().to_owned()).collect()
}

/// The node, and what it has.
fn head(model: &Model, now: Instant, cells: usize) -> Vec<Line> {
    let plain = |text: String| Piece::new(text, Tone::Plain);
    let mut pieces = vec![Piece::new("anabranch", Tone::Head)];
    let state = &model.state;
    if model.at.is_some() {
        pieces.push(plain(state.version.clone()));
    }
    if let Some(node) = state.status.iter().find(|row| row["kind"] == "node") {
        pieces.push(plain(show::peer_named(node["node"].as_str(), None)));
        if let Some(up) = show::seconds(node, "uptime_s") {
            pieces.push(plain(format!("up {}", show::age(up))));
        }
        let active = state.paths.iter().filter(|path| path["state"] == "active");
        let active = active.count();
        let tone = match active == state.paths.len() {
            true => Tone::Plain,
            false => Tone::Warn,
        };
        pieces.push(plain(counted(node["sessions"].as_u64(), "session")));
        let all = counted(Some(state.paths.len() as u64), "path");
        pieces.push(Piece::new(format!("{active} of {all} active"), tone));
        let streams = state.streams.len() as u64 + state.streams_left_out;
        pieces.push(plain(counted(Some(streams), "stream")));
    }
    let mut lines = flowed(pieces, cells);
    if let Some((fault, since)) = &model.fault {
        let age = show::age(now.saturating_duration_since(*since));
        let text = match model.at {
            None => format!("NO NODE YET: {fault}; trying again"),
            Some(_) => format!("NO ANSWER for {age}, the state is old: {fault}; trying again"),
        };
        lines.extend(flowed([Piece::new(text, Tone::Bad)], cells));
    }
    lines
}

fn counted(count: Option<u64>, noun: &str) -> String {
    match count.unwrap_or_default() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

fn tabs(view: &View) -> Line {
    let mut line = Line::new();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        // A bracket marks the chosen one where there is no style.
        let (text, tone) = match tab == view.tab {
            true => (format!("[{} {}]", index + 1, tab.title()), Tone::Head),
            false => (format!(" {} {} ", index + 1, tab.title()), Tone::Plain),
        };
        line.push(Piece::new(text, tone));
    }
    line
}

fn foot(view: &View, (first, count): (usize, usize), cells: usize) -> Line {
    if view.is_typing {
        return vec![Piece::new(format!("Filter: {}_", view.filter), Tone::Head)];
    }
    let mut words = Vec::new();
    if !view.filter.is_empty() {
        words.push(format!("filter '{}' (Esc: all)", view.filter));
    }
    if count > 0 {
        words.push(format!("{} of {count}", first + 1));
    }
    words.extend(["q end", "Tab view", "↑↓ scroll"].map(str::to_owned));
    if view.tab == Tab::Streams {
        words.push(format!("s sort: {}", view.sort.word()));
    }
    words.push("/ filter".to_owned());
    let pieces = words.iter().map(|word| Piece::new(word, Tone::Soft));
    flowed(pieces, cells).swap_remove(0)
}

fn nothing(model: &Model, view: &View, words: &str) -> String {
    match model.at {
        None if model.fault.is_some() => model.place.clone(),
        None => format!("Asking {} …", model.place),
        Some(_) if !view.filter.is_empty() => format!("Nothing has '{}' in it.", view.filter),
        Some(_) => words.to_owned(),
    }
}

/// True if a text field of a row has the words of the filter in it.
fn is_wanted(row: &Value, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    let has = |value: &Value| {
        let text = value.as_str();
        text.is_some_and(|text| text.to_lowercase().contains(&filter))
    };
    filter.is_empty() || row.as_object().is_some_and(|row| row.values().any(has))
}

#[cfg(test)]
mod tests;
