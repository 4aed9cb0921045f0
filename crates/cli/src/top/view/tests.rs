//! Views of recorded answers.

use std::{path::Path, time::Duration};

use ratatui_core::{backend::TestBackend, terminal::Terminal};
use ratatui_crossterm::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::*;
use crate::top::{
    feed::{Events, News, State},
    keys::Action,
};

const PLAIN: Theme = Theme { has_colours: false };

fn path(channel: &str, state: &str, bps: u64) -> Value {
    json!({"session": "session-0", "peer": "x", "peer_name": "studio", "channel": channel, "interface": "wlan0",
        "remote": "203.0.113.7:4433", "state": state, "silent_s": if state == "active" { None } else { Some(7.0) },
        "share_fraction": 0.64, "rtt_ms": 32.0, "rtt_min_ms": 27.0, "rate_delivered_bps": bps,
        "bandwidth_p10_bps": 8_000_000, "bandwidth_p50_bps": 11_000_000, "bandwidth_p90_bps": 14_000_000,
        "streams_promised_bps": 1_000_000, "loss_fraction": 0.5, "loss_recent_fraction": 0.012,
        "shares_bottleneck_with": "channel-2"})
}

fn stream(number: u64, label: &str) -> Value {
    json!({"session": "session-0", "peer": "x", "peer_name": "studio", "stream": format!("stream-{number}"), "label": label,
        "asked": "1.00 Mbit/s in 90 % of all windows of 1 s", "promise": "renewable", "promise_is_warned": number == 9,
        "windows_kept": 38, "windows_broken": 2, "expired_adus": number, "lost_adus": 1, "shed_adus": 0,
        "backlog_bytes": 12_345, "sent_bytes": 1_000_000 * number, "received_bytes": 0})
}

fn state(streams: Vec<Value>) -> News {
    let state = State {
        version: "0.1.0".to_owned(),
        status: vec![
            json!({"kind": "node", "node": "a".repeat(52), "uptime_s": 3720.0, "sessions": 1}),
            json!({"kind": "budget", "place": "wlan0", "left_bytes": 1_200_000_000_u64, "renews": "2026-12-01", "is_spent": false}),
        ],
        paths: vec![
            path("channel-0", "active", 9_000_000),
            path("channel-1", "not responding", 0),
        ],
        streams,
        ..State::default()
    };
    News {
        state: Ok(state),
        events: Events {
            rows: vec![
                json!({"kind": "promise_event", "unix_ms": 1, "ago_ms": 61_000, "peer": "studio", "session": "session-0",
                "stream": "stream-4", "label": "telemetry", "asked": "1.00 Mbit/s", "event": "withdrawn",
                "text": "channel-1 does not respond", "windows_kept": 38, "windows_broken": 2}),
            ],
            ..Events::default()
        },
    }
}

fn model(streams: Vec<Value>) -> (Model, Instant) {
    let mut model = Model::new(Path::new("/run/anabranch.sock"));
    let now = Instant::now();
    model.note(now, state(streams));
    (model, now)
}

fn screen(model: &Model, view: &mut View, now: Instant, size: (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal
        .draw(|frame| draw(model, view, PLAIN, now, frame.area(), frame.buffer_mut()))
        .unwrap();
    terminal.backend().to_string()
}

fn press(view: &mut View, code: KeyCode) -> Action {
    view.press(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

#[test]
fn paths_have_forecast_promise_state_and_quota() {
    let (model, now) = model(vec![stream(4, "telemetry")]);
    let shown = screen(&model, &mut View::default(), now, (110, 24));
    for words in [
        "anabranch  0.1.0  aaaaaaaa…  up 1 h 2 min  1 session  1 of 2 paths active  1 stream",
        "[1 Paths] 2 Streams  3 Promises ",
        "wlan0 → studio  active  channel-0  to 203.0.113.7:4433",
        "wlan0 → studio  not responding, 7 s  channel-1",
        "█  9.00 Mbit/s",
        "forecast 10 % 8.00 Mbit/s, 50 % 11.0 Mbit/s, 90 % 14.0 Mbit/s  promised 1.00 Mbit/s",
        "  round trip 32 ms",
        "queue 5 ms  loss 1.2 %  carried 64 %  quota 1.20 GB left until 2026-12-01",
        "shares a bottleneck with channel-2",
        "1 of 2  q end  Tab view  ↑↓ scroll  / filter",
    ] {
        assert!(shown.contains(words), "'{words}' is not in\n{shown}");
    }
}

#[test]
fn the_curve_is_of_the_last_two_minutes() {
    let (mut model, start) = model(Vec::new());
    for second in 1..=200 {
        let mut news = state(Vec::new());
        if let Ok(state) = &mut news.state {
            state.paths[0] = path(
                "channel-0",
                "active",
                if second <= 140 { 4_000_000 } else { 8_000_000 },
            );
        }
        model.note(start + Duration::from_secs(second), news);
    }
    let now = start + Duration::from_secs(200);
    let curve = model.curve(&model.state.paths[0], now, 4);
    assert_eq!(curve, [Some(4e6), Some(4e6), Some(8e6), Some(8e6)]);
    // Nothing is older, and a clock that jumps has no effect: the points have times of this process.
    assert_eq!(
        model.curve(&model.state.paths[0], now + Duration::from_secs(500), 4),
        [None; 4]
    );
}

#[test]
fn every_view_fits_a_narrow_terminal() {
    let (model, now) = model((0..50).map(|number| stream(number, "telemetry")).collect());
    for (size, tab) in [(40, 12), (20, 6), (3, 2), (1, 1)]
        .into_iter()
        .flat_map(|size| Tab::ALL.map(|tab| (size, tab)))
    {
        let mut view = View {
            tab,
            ..View::default()
        };
        screen(&model, &mut view, now, size);
    }
    let mut view = View {
        tab: Tab::Streams,
        ..View::default()
    };
    let shown = screen(&model, &mut view, now, (40, 24));
    assert!(shown.contains("STREAM     PROMISE"), "{shown}");
    assert!(shown.contains("telemetry  renewable, warned"), "{shown}");
    let shown = screen(&model, &mut View::default(), now, (40, 24));
    for words in [
        "not responding, 7 s",
        "promised 1.00 Mbit/s  round trip 32 ms",
        "queue 5 ms  loss 1.2 %  carried 64 %",
        "promised 1.00 Mbit/s",
    ] {
        assert!(shown.contains(words), "'{words}' is not in\n{shown}");
    }
}

#[test]
fn a_thousand_streams_are_sorted_scrolled_and_filtered() {
    let (mut model, now) = model(
        (0..1000)
            .map(|number| stream(number, &format!("s{number:03}")))
            .collect(),
    );
    if let Some(streams) = model.state.streams.first_mut() {
        streams["label"] = json!("evil\u{1b}[2J\u{202e}<b>");
    }
    let mut view = View::default();
    press(&mut view, KeyCode::Tab);
    let shown = screen(&model, &mut view, now, (100, 10));
    assert!(
        shown.contains("evil\\u001b[2J\\u202e<b>") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    assert!(shown.contains("1 of 1000"), "{shown}");
    press(&mut view, KeyCode::PageDown);
    let shown = screen(&model, &mut view, now, (100, 10));
    assert!(
        shown.contains("7 of 1000") && shown.contains("s006"),
        "{shown}"
    );
    press(&mut view, KeyCode::End);
    let shown = screen(&model, &mut view, now, (100, 10));
    assert!(shown.contains("s999"), "{shown}");
    press(&mut view, KeyCode::Char('/'));
    for c in "S99".chars() {
        press(&mut view, KeyCode::Char(c));
    }
    let shown = screen(&model, &mut view, now, (100, 10));
    assert!(
        shown.contains("Filter: S99_") && shown.contains("s990") && !shown.contains("s989"),
        "{shown}"
    );
    press(&mut view, KeyCode::Enter);
    for order in ["rate", "waiting", "late"] {
        press(&mut view, KeyCode::Char('s'));
        let shown = screen(&model, &mut view, now, (100, 10));
        assert!(shown.contains(&format!("s sort: {order}")), "{shown}");
    }
    let shown = screen(&model, &mut view, now, (100, 14));
    let place = |label| shown.find(label).unwrap();
    assert!(place("s999") < place("s998"), "{shown}");
    press(&mut view, KeyCode::Esc);
    assert!(screen(&model, &mut view, now, (100, 14)).contains("of 1000"));
    assert_eq!(press(&mut view, KeyCode::Char('q')), Action::End);
}

#[test]
fn events_of_promises_are_newest_first_and_not_repeated() {
    let (mut model, now) = model(Vec::new());
    let mut news = state(Vec::new());
    let mut later = news.events.rows[0].clone();
    later["unix_ms"] = json!(2);
    later["event"] = json!("promised");
    news.events.rows.push(later);
    model.note(now, news);
    let mut view = View {
        tab: Tab::Promises,
        ..View::default()
    };
    let shown = screen(&model, &mut view, now + Duration::from_secs(60), (110, 12));
    assert!(
        shown.contains("2 min ago  telemetry  → studio  withdrawn  1.00 Mbit/s"),
        "{shown}"
    );
    assert_eq!(shown.matches("withdrawn").count(), 1, "{shown}");
    assert!(shown.find("promised") < shown.find("withdrawn"), "{shown}");
}

#[test]
fn a_node_that_ends_is_named_and_one_that_comes_back_begins_anew() {
    let mut model = Model::new(Path::new("/run/anabranch.sock"));
    let now = Instant::now();
    let mut view = View::default();
    assert!(screen(&model, &mut view, now, (80, 8)).contains("Asking /run/anabranch.sock"));
    model.note(now, state(vec![stream(4, "telemetry")]));
    let fault = || News {
        state: Err("no node answers".to_owned()),
        events: Events::default(),
    };
    model.note(now, fault());
    model.note(now + Duration::from_secs(4), fault());
    let later = now + Duration::from_secs(5);
    let shown = screen(&model, &mut view, later, (100, 20));
    assert!(
        shown.contains("NO ANSWER for 5 s, the state is old: no node answers; trying again"),
        "{shown}"
    );
    assert!(shown.contains("wlan0 → studio"), "{shown}");
    let mut news = state(Vec::new());
    if let Ok(state) = &mut news.state {
        state.is_another = true;
        state.paths.clear();
    }
    news.events = Events::default();
    model.note(later, news);
    let shown = screen(&model, &mut view, later, (100, 20));
    assert!(
        !shown.contains("NO ANSWER") && shown.contains("No session is open"),
        "{shown}"
    );
    assert!(model.events.is_empty());
}

#[test]
fn without_colours_there_are_none_and_the_text_has_no_marks() {
    let (model, now) = model(vec![stream(4, "telemetry")]);
    let mut terminal = Terminal::new(TestBackend::new(80, 20)).unwrap();
    let mut view = View::default();
    terminal
        .draw(|frame| {
            draw(
                &model,
                &mut view,
                PLAIN,
                now,
                frame.area(),
                frame.buffer_mut(),
            );
        })
        .unwrap();
    let cells = &terminal.backend().buffer().content;
    assert!(
        cells
            .iter()
            .all(|cell| cell.fg == ratatui_core::style::Color::Reset)
    );
    let lines = text(&model, 100).join("\n");
    for words in [
        "\nPaths\n",
        "\nStreams\n",
        "\nPromises\n",
        "telemetry",
        "withdrawn",
    ] {
        assert!(lines.contains(words), "'{words}' is not in\n{lines}");
    }
}
