//! A command in a pseudo-terminal.
#![cfg_attr(
    not(feature = "top"),
    allow(dead_code, reason = "only `top` uses all of it")
)]

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::harness::{Killed, isolate};

/// Looks of 50 ms before something is taken not to come.
const LOOKS: u32 = 1_200;

/// A terminal of 30 lines of 100 characters, in which a command runs.
pub(crate) struct Terminal {
    process: Killed,
    keys: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

impl Terminal {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        tcsetwinsize(&keys, winsize(100, 30)).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let side = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let mut command = Command::new("setsid");
        isolate(&mut command, folder)
            .args(["--ctty", env!("CARGO_BIN_EXE_anabranch")])
            .args(arguments)
            .env("TERM", "xterm-256color")
            .stdin(side.try_clone().unwrap())
            .stdout(side.try_clone().unwrap())
            .stderr(side);
        let process = Killed(command.spawn().unwrap());
        let keys = File::from(keys);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(30, 100, 0)));
        let (mut output, seen) = (keys.try_clone().unwrap(), Arc::clone(&screen));
        // It ends with the terminal.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = output.read(&mut bytes) {
                seen.lock().unwrap().process(&bytes[..count]);
            }
        });
        Self {
            process,
            keys,
            screen,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    #[track_caller]
    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        for _ in 0..LOOKS {
            if is_so(&self.text()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{what} is not to be seen in\n{}", self.text());
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) {
        self.wait(words, |text| text.contains(words));
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.screen
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(rows, columns);
        tcsetwinsize(&self.keys, winsize(columns, rows)).unwrap();
    }

    /// True if the terminal is as a shell expects it.
    pub(crate) fn is_given_back(&self) -> bool {
        let modes = tcgetattr(&self.keys).unwrap().local_modes;
        let parser = self.screen.lock().unwrap();
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
            && !parser.screen().alternate_screen()
            && !parser.screen().hide_cursor()
    }

    /// Waits for the end; the exit code.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Option<i32> {
        let code = self.process.0.wait().unwrap().code();
        self.wait("the terminal given back", |_| self.is_given_back());
        code
    }
}
