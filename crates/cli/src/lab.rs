//! `anabranch lab`: starts `anabranch-lab`, a separate program with the experiments and the simulator.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;

use crate::exit::{Failure, Outcome};

/// Name of the lab's program.
const PROGRAM: &str = "anabranch-lab";

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Arguments {
    /// Arguments of anabranch-lab, such as `list`, `run NAME` or `--help`.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<OsString>,
}

/// Starts the lab in place of this process: the program in the same directory, or else the one on PATH.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let beside = env::current_exe().ok().and_then(|own| beside(&own));
    let program = beside.unwrap_or_else(|| PROGRAM.into());
    let error = start(Command::new(&program).args(&arguments.arguments));
    Err(match error.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!(
            "{PROGRAM} is neither in the directory of this program nor on PATH; build it with `make lab`, or with \
             `cargo build --release -p anabranch-lab`"
        )),
        _ => Failure::other(format!("cannot start {}: {error}", program.display())),
    })
}

/// Runs a program in place of this one; returns only if it cannot.
#[cfg(unix)]
fn start(command: &mut Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

/// Runs a program, and ends with its exit code; returns only if it cannot.
#[cfg(windows)]
fn start(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

/// The lab in the directory of this program, if it is there.
fn beside(own: &Path) -> Option<PathBuf> {
    let path = own
        .parent()?
        .join(format!("{PROGRAM}{}", env::consts::EXE_SUFFIX));
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_sought_beside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("anabranch");
        assert_eq!(beside(&own), None);
        let lab = folder.path().join(PROGRAM);
        std::fs::write(&lab, "").unwrap();
        assert_eq!(beside(&own), Some(lab));
    }
}
