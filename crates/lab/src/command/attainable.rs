//! `attainable`: what the paths of a live run could have carried.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_lab::{
    experiments::smartpointer::LiveRun,
    kit::{corpus::bundled_file, streams::Algorithm},
};
use anabranch_link::Trace;
use clap::Args;

use crate::failure::{self, Failure, Outcome};

/// Largest report that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Prints rows of JSON, a line each: the capacity of the paths, and figures of each stream under each algorithm. `opt` knows the future of \
every path, `pgos` is what a session does by default: a rate that one of them has in 95 % of windows (own_phase_met_fraction) could have been had.")]
pub(crate) struct Arguments {
    /// Report of the run, as `anabranch demo-visualise --json` prints it.
    file: PathBuf,
    /// Algorithms, with commas.
    #[arg(long, value_name = "NAMES", default_value = "opt,pgos")]
    algorithms: String,
    /// Folder with the recordings that the report names [default: those that travel with the program].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let algorithms = algorithms(&arguments.algorithms)?;
    let path = arguments.file.display();
    let named = |error: &dyn std::fmt::Display| Failure::file(format!("{path}: {error}"));
    let size = fs::metadata(&arguments.file).map_err(|error| named(&error))?;
    if size.len() > FILE_BYTES_MAX {
        return Err(named(&"more than 16 MiB is no report of a run"));
    }
    let text = fs::read_to_string(&arguments.file).map_err(|error| named(&error))?;
    let live = LiveRun::read(&text).map_err(|error| named(&error))?;
    let folder = arguments.data.as_deref();
    let rows = live.replay(&algorithms, &mut |name: &str| trace(folder, name));
    for row in rows.map_err(|error| named(&error))? {
        failure::print_line(&serde_json::Value::Object(row).to_string())?;
    }
    Ok(())
}

fn algorithms(names: &str) -> Result<Vec<Algorithm>, Failure> {
    let find = |name: &str| {
        let known = || {
            let all = Algorithm::all();
            let names: Vec<&str> = all.iter().map(|known| known.name()).collect();
            let known = names.join(", ");
            Failure::usage(format!("there is no algorithm '{name}'; there are {known}"))
        };
        Algorithm::find(name.trim()).ok_or_else(known)
    };
    names.split(',').map(find).collect()
}

fn trace(folder: Option<&Path>, name: &str) -> Result<Arc<Trace>, String> {
    let bytes = match folder {
        Some(folder) => {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?
        }
        None => bundled_file(name)
            .ok_or("it does not travel with this program; name its folder with --data")?
            .into(),
    };
    let trace = Trace::parse(name, &bytes).map_err(|error| error.to_string())?;
    Ok(trace.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_recordings_that_do_not_exist_are_named() {
        let failure = algorithms("opt,best").unwrap_err();
        assert!(format!("{failure:?}").contains("no algorithm 'best'; there are opt, pgos"));
        assert_eq!(algorithms("opt, pgos").unwrap().len(), 2);
        assert!(trace(None, "fixed.csv").is_ok());
        assert!(trace(None, "other.csv").unwrap_err().contains("--data"));
        let missing = trace(Some(Path::new("no-such-folder")), "fixed.csv");
        assert!(missing.unwrap_err().contains("no-such-folder"));
    }
}
