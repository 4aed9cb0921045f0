//! `anabranch emulate`: emulated links between UDP ports or network namespaces.

mod report;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anabranch::{
    Remotes,
    base::Seed,
    net::emulate::{Emulator, Path, PathSpec},
};
use anabranch_link::{Trace, describe::parse_both, duplex::Configs};

use self::report::Report;
use crate::exit::{Failure, Outcome, stopped};

#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
A LINK is a list such as `rate=20 Mbit/s, delay=30 ms, loss=1 %, queue=100 ms`, which may begin with a preset
such as `lte`. `;` separates the two directions if they differ. A rate may be a trace: `rate=trace FILE`.

Without root, every path listens on a UDP port and forwards to the target:

    anabranch emulate --target 127.0.0.1:4433 --path 'lte' --path 'rate=20 Mbit/s, delay=10 ms'

As root, with --tun, every link is a pair of TUN devices in two network namespaces:

    anabranch emulate --tun left:10.9.1.1/24,right:10.9.1.2/24 --path 'lte'

While it runs, it reads commands from standard input: `down NAME` takes a path down, `up NAME` brings it up again,
`set NAME LINK` changes its properties, and `rates` prints the present rates of all paths:

    set path1 rate=2 Mbit/s, delay=80 ms, loss=3 %")]
pub(crate) struct Arguments {
    /// Properties of a path, LINK or NAME: LINK; may be repeated.
    #[arg(long = "path", value_name = "LINK", required = true)]
    paths: Vec<String>,
    /// UDP address to which all paths lead, IP:PORT or HOST:PORT; a name is resolved at the start.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "tun")]
    target: Option<String>,
    /// UDP address on which the first path listens; the other paths take the ports that follow it. With port 0, every
    /// path takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Both ends of a link between network namespaces, NAMESPACE:ADDRESS/BITS,NAMESPACE:ADDRESS/BITS; an empty
    /// NAMESPACE is the current one. Give one --tun for each --path. Needs root.
    #[arg(long, value_name = "ENDS", conflicts_with_all = ["target", "listen"])]
    tun: Vec<String>,
    /// Seed of the random losses; the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Interval in seconds at which totals are printed; 0: only at the end.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    every: u64,
    /// Print events as JSON, one per line (docs/operations.md).
    #[arg(long)]
    json: bool,
}

/// Loads a trace named in a description; the name is a file name.
pub(crate) fn load_trace(name: &str) -> Result<Arc<Trace>, String> {
    let path = PathBuf::from(name);
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read {name}: {error}"))?;
    Trace::parse(name, &bytes)
        .map(Arc::new)
        .map_err(|error| format!("{name}: {error}"))
}

/// Reads the name of a path and its link; a path without a name is numbered.
fn read_path(text: &str, index: usize) -> Result<(String, Configs), Failure> {
    let (name, link) = match text.split_once(':') {
        Some((name, link)) if !name.contains(['=', ',', ';']) => (name.trim().to_owned(), link),
        _ => (format!("path{}", index + 1), text),
    };
    let links = parse_both(link, &mut load_trace)
        .map_err(|error| Failure::usage(format!("--path '{text}': {error}")))?;
    Ok((name, links))
}

/// The address that is meant: the first one of a name.
async fn resolved(text: &str) -> Result<SocketAddr, Failure> {
    let mut remotes = Remotes::default();
    let added = remotes.add(text);
    added.map_err(|error| Failure::usage(format!("--target: {error}")))?;
    let found = remotes.resolve().await.map_err(Failure::unreachable)?;
    let first = found.first().copied();
    first.ok_or_else(|| Failure::unreachable(format!("--target: {text} has no address")))
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let mut paths = Vec::new();
    for (index, text) in arguments.paths.iter().enumerate() {
        paths.push(read_path(text, index)?);
    }
    let seed = Seed(arguments.seed);
    let report = Report {
        json: arguments.json,
    };
    if let Some(target) = &arguments.target {
        let target = resolved(target).await?;
        let mut specs = Vec::new();
        for (index, (name, links)) in paths.into_iter().enumerate() {
            let mut listen = arguments.listen;
            if listen.port() != 0 {
                let port = u16::try_from(index)
                    .ok()
                    .and_then(|i| listen.port().checked_add(i));
                listen.set_port(port.ok_or_else(|| Failure::usage("--listen: the ports run out"))?);
            }
            specs.push(PathSpec {
                name,
                listen,
                target,
                links,
            });
        }
        let emulator = Emulator::start(specs, seed).map_err(Failure::other)?;
        for (path, address) in emulator.paths().iter().zip(emulator.addresses()) {
            report.listening(path.name(), *address, target)?;
        }
        return watch(emulator.paths(), arguments.every, report).await;
    }
    run_tun(&arguments.tun, paths, seed, arguments.every, report).await
}

#[cfg(target_os = "linux")]
async fn run_tun(
    ends: &[String],
    paths: Vec<(String, Configs)>,
    seed: Seed,
    every: u64,
    report: Report,
) -> Outcome {
    use anabranch::net::emulate::tun::{TunEmulator, TunSpec};

    if ends.len() != paths.len() {
        return Err(Failure::usage(format!(
            "there are {} --path and {} --tun; give one --tun for each --path",
            paths.len(),
            ends.len()
        )));
    }
    let mut specs = Vec::new();
    for (index, ((name, links), both)) in paths.into_iter().zip(ends).enumerate() {
        let wrong = || {
            Failure::usage(format!(
                "--tun '{both}' is not of the form NAMESPACE:ADDRESS/BITS,NAMESPACE:ADDRESS/BITS"
            ))
        };
        let (first, second) = both.split_once(',').ok_or_else(wrong)?;
        specs.push(TunSpec {
            name,
            first: end(first, format!("anab{index}a")).ok_or_else(wrong)?,
            second: end(second, format!("anab{index}b")).ok_or_else(wrong)?,
            links,
        });
    }
    let joined: Vec<_> = specs
        .iter()
        .map(|s| (s.name.clone(), s.first.clone(), s.second.clone()))
        .collect();
    let emulator = TunEmulator::start(specs, seed).map_err(Failure::other)?;
    for (name, first, second) in joined {
        report.joined(&name, &first, &second)?;
    }
    watch(emulator.paths(), every, report).await
}

#[cfg(target_os = "linux")]
fn end(text: &str, device: String) -> Option<anabranch::net::emulate::tun::End> {
    let (namespace, address) = text.trim().split_once(':')?;
    let (ip, bits) = address.split_once('/')?;
    let is_valid = ip.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok();
    is_valid.then(|| anabranch::net::emulate::tun::End {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        device,
        address: address.to_owned(),
    })
}

#[cfg(not(target_os = "linux"))]
async fn run_tun(_: &[String], _: Vec<(String, Configs)>, _: Seed, _: u64, _: Report) -> Outcome {
    Err(Failure::usage("--tun works on Linux only"))
}

/// Executes commands from standard input until Ctrl-C, then prints the totals.
async fn watch(paths: &[Path], every: u64, report: Report) -> Outcome {
    let (lines, mut commands) = tokio::sync::mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let period = Duration::from_secs(if every == 0 { 86_400 } else { every });
    let mut tick = tokio::time::interval(period);
    tick.tick().await;
    loop {
        tokio::select! {
            Some(line) = commands.recv() => obey(paths, &line, report)?,
            _ = tick.tick() => report.totals(paths)?,
            stopped = stopped() => {
                stopped?;
                break;
            }
        }
    }
    report.totals(paths)
}

fn obey(paths: &[Path], line: &str, report: Report) -> Outcome {
    if line.trim().is_empty() {
        return Ok(());
    }
    if line.trim() == "rates" {
        return report.rates(paths);
    }
    report.done(command(paths, line.trim()))
}

/// Executes a command line. The result describes the change, or the error.
fn command(paths: &[Path], line: &str) -> Result<String, String> {
    let usage = "usage: `down NAME`, `up NAME`, `set NAME LINK` or `rates`";
    let (verb, rest) = line.split_once(' ').ok_or(usage)?;
    let (name, link) = match verb {
        "up" | "down" => (rest.trim(), None),
        "set" => {
            let (name, link) = rest.trim().split_once(' ').ok_or(usage)?;
            (name, Some(link))
        }
        _ => return Err(usage.to_owned()),
    };
    let known = || paths.iter().map(Path::name).collect::<Vec<_>>().join(", ");
    let path = (paths.iter().find(|path| path.name() == name))
        .ok_or_else(|| format!("there is no path '{name}'; the paths are {}", known()))?;
    match link {
        Some(link) => {
            let refused = |error: String| format!("'{link}': {error}; {name} is unchanged");
            let configs = parse_both(link, &mut load_trace);
            let configs = configs.map_err(|error| refused(error.to_string()))?;
            path.set(&configs)
                .map_err(|error| refused(error.to_string()))?;
            Ok(format!("{name} is now {}", link.trim()))
        }
        None => {
            path.set_up(verb == "up");
            Ok(format!("{name} is {verb}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_have_a_name() {
        let (name, _) = read_path("fast: rate=20 Mbit/s, delay=10 ms", 0).unwrap();
        assert_eq!(name, "fast");
        let (name, _) = read_path("rate=20 Mbit/s", 1).unwrap();
        assert_eq!(name, "path2");
        assert!(read_path("speed=20", 0).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn ends_are_read() {
        let both = end("left:10.9.1.1/24", "d".to_owned()).unwrap();
        assert_eq!(both.namespace.as_deref(), Some("left"));
        assert_eq!(end(":10.9.1.1/24", "d".to_owned()).unwrap().namespace, None);
        for bad in ["10.9.1.1/24", "left:10.9.1.1", "left:x/24", ""] {
            assert!(end(bad, "d".to_owned()).is_none(), "{bad}");
        }
    }
}
