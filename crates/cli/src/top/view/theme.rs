//! Styles. None is needed to understand what it marks: states are words.

use ratatui_core::style::{Color, Modifier, Style};

/// Meaning of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum Tone {
    Plain,
    Head,
    Soft,
    Good,
    Warn,
    Bad,
    Curve,
}

/// Styles with or without colours.
#[derive(Clone, Copy, Debug)]
pub(in crate::top) struct Theme {
    pub(in crate::top) has_colours: bool,
}

impl Theme {
    /// Without colours if NO_COLOR is set.
    pub(in crate::top) fn of_environment() -> Self {
        let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { has_colours }
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let coloured = |colour| match self.has_colours {
            true => style.fg(colour),
            false => style,
        };
        match tone {
            Tone::Plain => style,
            Tone::Head => style.add_modifier(Modifier::BOLD),
            Tone::Soft => style.add_modifier(Modifier::DIM),
            Tone::Good => coloured(Color::Green),
            Tone::Warn => coloured(Color::Yellow),
            Tone::Bad => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Curve => coloured(Color::Cyan),
        }
    }
}
