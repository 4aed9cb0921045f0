//! State of the view: tab, order, filter and scrolling, and the keys that change it.

use ratatui_crossterm::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Characters of a filter.
const FILTER_MAX: usize = 60;

/// One of the views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Paths,
    Streams,
    Promises,
}

impl Tab {
    pub(super) const ALL: [Self; 3] = [Self::Paths, Self::Streams, Self::Promises];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Paths => "Paths",
            Self::Streams => "Streams",
            Self::Promises => "Promises",
        }
    }

    fn moved(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// Order of streams; all but the first are descending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Name,
    Rate,
    Waiting,
    Late,
    Broken,
}

impl Sort {
    const ALL: [Self; 5] = [
        Self::Name,
        Self::Rate,
        Self::Waiting,
        Self::Late,
        Self::Broken,
    ];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Waiting => "waiting",
            Self::Late => "late",
            Self::Broken => "broken",
        }
    }
}

/// Effect of a key beyond the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    End,
    Suspend,
}

/// The view chosen, and its part that is on the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) tab: Tab,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// True while the filter is entered.
    pub(super) is_typing: bool,
    /// First row shown of each view; drawing bounds it.
    pub(super) first: [usize; 3],
    /// Rows on the screen; drawing sets it.
    pub(super) page: usize,
}

impl View {
    /// First row shown of the chosen view.
    pub(super) fn first(&mut self) -> &mut usize {
        &mut self.first[self.tab as usize]
    }

    /// Applies an event of the terminal.
    pub(super) fn press(&mut self, event: &Event) -> Action {
        let key = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => key,
            _ => return Action::None,
        };
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::End,
                KeyCode::Char('z') => Action::Suspend,
                _ => Action::None,
            };
        }
        match self.is_typing {
            true => self.type_filter(key),
            false => return self.command(key),
        }
        Action::None
    }

    fn type_filter(&mut self, key: &KeyEvent) {
        match key.code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_MAX => self.filter.push(c),
            _ => {}
        }
        self.first = [0; 3];
    }

    fn command(&mut self, key: &KeyEvent) -> Action {
        let page = self.page.max(1);
        let first = self.first();
        match key.code {
            KeyCode::Char('q') => return Action::End,
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.tab = self.tab.moved(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => self.tab = self.tab.moved(2),
            KeyCode::Char('1') => self.tab = Tab::Paths,
            KeyCode::Char('2') => self.tab = Tab::Streams,
            KeyCode::Char('3') => self.tab = Tab::Promises,
            KeyCode::Down | KeyCode::Char('j') => *first = first.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => *first = first.saturating_sub(1),
            KeyCode::PageDown | KeyCode::Char(' ') => *first = first.saturating_add(page),
            KeyCode::PageUp => *first = first.saturating_sub(page),
            KeyCode::Home | KeyCode::Char('g') => *first = 0,
            KeyCode::End | KeyCode::Char('G') => *first = usize::MAX,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('s') => {
                self.sort = Sort::ALL[(self.sort as usize + 1) % Sort::ALL.len()];
                self.first[Tab::Streams as usize] = 0;
            }
            _ => {}
        }
        Action::None
    }
}
