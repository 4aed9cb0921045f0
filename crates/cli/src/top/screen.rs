//! The terminal: taken over while this runs, and given back whatever ends it.

use std::{
    io::{self, Stdout, stdout},
    panic,
};

use ratatui_core::{buffer::Buffer, layout::Rect, terminal::Terminal};
use ratatui_crossterm::{
    CrosstermBackend,
    crossterm::{
        cursor, event, execute,
        terminal::{
            Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
            enable_raw_mode,
        },
    },
};
use tokio::sync::mpsc;

use crate::signals::suspend;

/// The terminal, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// The terminal does not obey.
    pub(super) fn enter() -> io::Result<Self> {
        // A panic ends the process without dropping anything.
        let show = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            show(info);
        }));
        let screen = Self(Terminal::new(CrosstermBackend::new(stdout()))?);
        take()?;
        Ok(screen)
    }

    /// Draws all of it; what has not changed is not written again.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.0
            .draw(|frame| draw(frame.area(), frame.buffer_mut()))
            .map(drop)
    }

    /// Stops this process as Ctrl-Z does, with the terminal given back in the meantime.
    ///
    /// # Errors
    /// The process cannot be stopped, or the terminal does not obey.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        suspend()?;
        take()?;
        // `Terminal::clear` would ask the terminal for the cursor's position, and the answer would go to the reader of keys.
        self.0 = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(
        stdout(),
        EnterAlternateScreen,
        Clear(ClearType::All),
        cursor::Hide
    )
}

fn give_back() {
    // A terminal that is gone needs nothing.
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// Events of the terminal, until it is gone.
pub(super) fn keys() -> mpsc::Receiver<event::Event> {
    let (sender, keys) = mpsc::channel(64);
    // Nothing ends a thread that reads a terminal; the process does not wait for it.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}
