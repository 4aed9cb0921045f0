//! A node that outlives the command: in the background, or as a service of systemd.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anabranch::control::is_open;

use super::Arguments;
use crate::exit::{Failure, Outcome, note, print_bytes};

/// Time between two looks whether the node answers.
const EVERY: Duration = Duration::from_millis(50);
/// Time for it to answer; opening its files takes a fraction of a second.
const START_MAX: Duration = Duration::from_secs(60);
/// End of the log that is shown when the node ends at once.
const LINES_SHOWN: usize = 10;

/// A node in the background.
pub(super) struct Running {
    pub(super) process: u32,
    pub(super) log: PathBuf,
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::other(format!("cannot find this program: {error}")))
}

/// Starts the node in a process of its own, and waits until it answers at its control socket.
pub(super) async fn start(arguments: &Arguments, control: &Path) -> Result<Running, Failure> {
    let log = control.with_file_name("anabranch.log");
    let failed = |error| Failure::file(format!("cannot write {}: {error}", log.display()));
    if let Some(folder) = log.parent() {
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
    }
    let out = fs::File::create(&log).map_err(failed)?;
    let errors = out.try_clone().map_err(failed)?;
    let mut command = Command::new(this_program()?);
    command.args(["up", "-v"]);
    if let Some(home) = &arguments.home {
        command.arg("--home").arg(home);
    }
    // Ctrl-C and the end of the terminal are for the foreground.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let command = command.stdin(Stdio::null()).stdout(out).stderr(errors);
    let started = command.spawn();
    let mut child =
        started.map_err(|error| Failure::other(format!("cannot start a process: {error}")))?;
    let answers = async {
        loop {
            if is_open(control).await {
                return Ok(());
            }
            if let Ok(Some(status)) = child.try_wait() {
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
                let code = status.code().and_then(|code| u8::try_from(code).ok());
                let message = format!("the node has ended:\n{}", last.join("\n"));
                return Err(Failure::new(code.unwrap_or(1), message));
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    match tokio::time::timeout(START_MAX, answers).await {
        Ok(outcome) => outcome?,
        Err(_) => {
            return Err(Failure::other(format!(
                "the node does not answer; see {}",
                log.display()
            )));
        }
    }
    let process = child.id();
    Ok(Running { process, log })
}

/// Prints a unit for the systemd of this user, and on standard error what to do with it.
pub(super) fn print_unit(home: Option<&Path>) -> Outcome {
    let home = match home.map(std::path::absolute).transpose() {
        Ok(home) => home.map(|home| format!(" --home {}", escaped(&home))),
        Err(error) => return Err(Failure::usage(format!("--home: {error}"))),
    };
    let program = escaped(&this_program()?);
    let unit = format!(
        "[Unit]\nDescription=Anabranch node\nWants=network-online.target\nAfter=network-online.target\n\n\
         [Service]\nType=notify\nExecStart={program} up{}\nExecReload=/bin/kill -HUP $MAINPID\nRestart=on-failure\n\
         RestartSec=2s\nRestartPreventExitStatus=2\n\n[Install]\nWantedBy=default.target\n",
        home.unwrap_or_default()
    );
    note(
        "save this as ~/.config/systemd/user/anabranch.service, then run\n\n    systemctl --user enable --now anabranch\n    \
         loginctl enable-linger    # so that it runs while nobody is logged in\n\n\
         The node of the machine, for root, has a unit of its own: docs/operations.md, \"As a service\".\n",
    );
    print_bytes(unit.as_bytes())
}

/// A path as systemd reads it in a command line.
fn escaped(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    match text.contains(|c: char| c.is_whitespace() || "\"'\\;".contains(c)) {
        true => format!("\"{text}\""),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_for_systemd() {
        assert_eq!(
            escaped(Path::new("/usr/bin/anabranch")),
            "/usr/bin/anabranch"
        );
        assert_eq!(escaped(Path::new("/a b/50%$x\"")), "\"/a b/50%%$$x\\\"\"");
    }
}
