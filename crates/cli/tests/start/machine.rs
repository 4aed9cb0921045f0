//! A machine of the text: a network namespace with a home and a name of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{guide::Names, namespace::Namespace, process::Process};

/// Longest wait for a line; what is tested takes a few seconds on a quiet machine.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) struct Machine {
    name: String,
    pub(crate) namespace: Namespace,
    home: PathBuf,
    /// Number of its user.
    user: u32,
    started: Vec<Running>,
}

/// A command that was started.
struct Running {
    command: String,
    process: Process,
    out: PathBuf,
    /// Lines that were compared.
    read: usize,
}

impl Running {
    fn lines(&self, has_ended: bool) -> Vec<String> {
        let text = fs::read_to_string(&self.out).unwrap();
        // What is not followed by a line feed may not be whole.
        let whole = match text.rsplit_once('\n') {
            _ if has_ended => text.strip_suffix('\n').unwrap_or(&text),
            Some((whole, _)) => whole,
            None => "",
        };
        match whole {
            "" => Vec::new(),
            whole => whole.split('\n').map(str::to_owned).collect(),
        }
    }
}

impl Machine {
    /// A machine whose user has an empty home in this folder.
    pub(crate) fn new(name: &str, namespace: Namespace, folder: &Path, user: u32) -> Self {
        let home = folder.join(name);
        fs::create_dir(&home).unwrap();
        std::os::unix::fs::chown(&home, Some(user), Some(user)).unwrap();
        Self {
            name: name.to_owned(),
            namespace,
            home,
            user,
            started: Vec::new(),
        }
    }

    /// Puts a file into the home.
    pub(crate) fn has(&self, name: &str, bytes: usize) {
        fs::write(self.home.join(name), vec![7; bytes]).unwrap();
    }

    /// Starts a command in the shell, as this machine's user would.
    pub(crate) fn start(&mut self, command: &str) {
        let number = self.started.len();
        let out = self.home.with_extension(format!("{number}.out"));
        let program = Path::new(env!("CARGO_BIN_EXE_anabranch"));
        let folder = program.parent().unwrap().display();
        let path = std::env::var("PATH").unwrap();
        let (home, user) = (self.home.display(), self.user);
        // One simple command takes the place of the shell, so that signals reach it.
        let is_simple = !command.contains(['|', ';', '&', '>', '*', '\'']);
        let run = match is_simple {
            true => format!("exec {command}"),
            false => command.to_owned(),
        };
        let script = format!(
            "hostname {}; cd {home}; export HOME={home} PATH={folder}:{path}; \
             unset XDG_CONFIG_HOME XDG_STATE_HOME XDG_RUNTIME_DIR; exec 2>&1 </dev/null; \
             exec setpriv --reuid={user} --regid={user} --clear-groups sh -c \"$0\"",
            self.name
        );
        let namespace = ["ip", "netns", "exec", self.namespace.name()];
        let words = [&namespace[..], &["unshare", "--uts", "sh", "-c", &script]].concat();
        let process = Process::start_by(&words, &self.home, &[&run], Some(&out));
        let command = command.to_owned();
        self.started.push(Running {
            command,
            process,
            out,
            read: 0,
        });
    }

    /// Waits until the last command prints a line of the text.
    pub(crate) fn expect(&mut self, expected: &str, names: &mut Names, is_gap: bool) {
        let running = self.started.last_mut().unwrap();
        let begun = Instant::now();
        loop {
            let has_ended = !running.process.is_running();
            let lines = running.lines(has_ended);
            let fresh = &lines[running.read..];
            let candidates = if is_gap {
                fresh.len()
            } else {
                fresh.len().min(1)
            };
            let found = (0..candidates).find(|&at| names.match_line(expected, &fresh[at]));
            if let Some(at) = found {
                running.read += at + 1;
                return;
            }
            let text = lines.join("\n");
            let is_wrong = (!is_gap && !fresh.is_empty()) || has_ended || begun.elapsed() > TIMEOUT;
            assert!(
                !is_wrong,
                "{}$ {}\n{text}\n\nThe text has: {}",
                self.name,
                running.command,
                names.translated(expected)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end of the last command, unless it goes on by its nature.
    pub(crate) fn finish(&mut self, goes_on: &[&str]) {
        let is_over = |running: &Running| !goes_on.contains(&running.command.as_str());
        if self.started.last().is_some_and(is_over) {
            let running = self.started.pop().unwrap();
            let out = running.out.clone();
            let ended = running.process.ended();
            let text = fs::read_to_string(out).unwrap();
            assert!(
                ended.status.success(),
                "{}$ {}\n{text}",
                self.name,
                running.command
            );
        }
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&mut self) {
        let running = self.started.pop().unwrap();
        running.process.signal("INT");
        let ended = running.process.ended();
        assert!(
            matches!(ended.status.code(), Some(0 | 130)),
            "{}: {ended:?}",
            running.command
        );
    }
}
