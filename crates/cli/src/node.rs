//! `anabranch node`: a node that runs as a service.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch::{
    config::{ChannelLayer, Finding, Layer, NodeConfig, SessionLayer, Settings},
    daemon::{Daemon, DaemonError},
    objectives::Objectives,
};

use anabranch_gateway::{
    Gateway, Notices,
    limits::raise_file_limit,
    section::{GatewayError, Settings as GatewaySettings},
};
#[cfg(target_os = "linux")]
use anabranch_tunnel::{
    Notices as TunnelNotices, Tunnel, TunnelError, section::Settings as TunnelSettings,
};

#[cfg(feature = "console")]
use crate::console;
#[cfg(not(target_os = "linux"))]
use crate::linux_only;
use crate::{
    costs,
    exit::{Failure, Outcome, note, print_line, stopped},
    notify::Manager,
    signals::Hangups,
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration file; see node.example.toml. Flags and environment variables take precedence over it.
    #[arg(short, long, value_name = "FILE", env = "ANABRANCH_CONFIG")]
    config: Option<PathBuf>,
    /// Key file.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Address to listen on, IP:PORT; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Port to listen on, at every interface.
    #[arg(long)]
    port: Option<u16>,
    /// Control socket, for `anabranch status`, `paths` and others.
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Socket of the local interface, to which applications attach; '' for none.
    #[arg(long, value_name = "FILE")]
    local: Option<PathBuf>,
    /// Directory for received files; only nodes with the right `send-files` may send them.
    #[arg(long, value_name = "DIR")]
    receive: Option<PathBuf>,
    /// Scheduling policy.
    #[arg(long)]
    policy: Option<String>,
    /// File of objectives that apply to every session from its start; or names of the library, such as 'low_latency(voice, 150)'.
    #[arg(long, value_name = "FILE")]
    objectives: Option<PathBuf>,
    /// Congestion controller: auto, cubic, newreno, bbr3, aimd:a,b, binomial:sqrt, verb:lte, "ctcp:1.5 Mbit/s", "fixed 10 Mbit/s".
    #[arg(long)]
    controller: Option<String>,
    /// Model of the paths, for policies that follow objectives: auto, generic, cellular, satellite.
    #[arg(long)]
    model: Option<String>,
    /// Folder for traces of channels, in the qlog format [needs the feature `qlog` of the build].
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    #[command(flatten)]
    costs: costs::Costing,
    /// Check the configuration, open the files and addresses that it names, and exit; nothing is created.
    #[arg(long)]
    check: bool,
}

fn flags(arguments: Arguments) -> Layer {
    Layer {
        key: arguments.key,
        listen: (!arguments.listen.is_empty()).then_some(arguments.listen),
        port: arguments.port,
        control: arguments.control,
        local: arguments.local,
        receive: arguments.receive,
        qlog: arguments.qlog,
        session: SessionLayer {
            policy: arguments.policy,
            objectives: arguments.objectives,
            ..SessionLayer::default()
        },
        channel: ChannelLayer {
            controller: arguments.controller,
            model: arguments.model,
            ..ChannelLayer::default()
        },
        ..Layer::default()
    }
}

/// Reads the node's configuration; flags take precedence over the environment, and both over the file.
fn read(arguments: &Arguments) -> Result<NodeConfig, Failure> {
    let costs = arguments.costs.clone().layer().map_err(Failure::usage)?;
    let flags = flags(arguments.clone()).over(costs);
    let variable = |name: &str| std::env::var(name).ok();
    read_file(arguments.config.as_deref(), &flags, variable)
}

/// Reads a configuration from a file, if there is one; `flags` and then the environment take precedence. `variable` looks up the
/// environment.
pub(crate) fn read_file(
    file: Option<&Path>,
    flags: &Layer,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<NodeConfig, Failure> {
    let text = match file {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::file(format!("cannot read {}: {error}", path.display())))?,
    };
    let (named, place) = (file, file.unwrap_or(Path::new("")));
    let file = Layer::from_toml(&text)
        .map_err(|error| Failure::usage(format!("{}: {error}", place.display())))?;
    let environment = Layer::from_environment(&variable).map_err(Failure::usage)?;
    let layer = flags.clone().over(environment.clone()).over(file);
    let resolved = layer.resolve(variable);
    let mut config = resolved.map_err(|error| match error.line_in(&text) {
        Some(line) => Failure::usage(format!("{}: line {line}: {error}", place.display())),
        None => Failure::usage(error),
    })?;
    let settings = Settings::read((&text, named), &environment, flags, &config);
    config.settings = Arc::new(settings.map_err(Failure::usage)?);
    Ok(config)
}

/// Faults of what a configuration names, and notes about it: files are opened, and addresses are bound; nothing is created.
pub(crate) fn examine(config: &NodeConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |fault: Option<String>| findings.extend(fault.map(Finding::Fault));
    add(Objectives::read(config)
        .err()
        .map(|error| error.to_string()));
    add(GatewaySettings::read(config)
        .err()
        .map(|error| error.to_string()));
    #[cfg(target_os = "linux")]
    add(TunnelSettings::read(config)
        .err()
        .map(|error| error.to_string()));
    findings.extend(config.check());
    findings
}

/// Reloads the configuration at each SIGHUP; does not return.
async fn reload_on_hangup(daemon: &Daemon, mut hangups: Hangups, manager: &Manager) {
    while hangups.next().await {
        manager.reloading();
        match daemon.reload().await {
            Ok(reloaded) if reloaded.restart.is_empty() => tracing::info!("reloaded"),
            Ok(reloaded) => {
                let restart = reloaded.restart.join(", ");
                tracing::warn!(
                    restart,
                    "reloaded; these settings take effect at the next start"
                );
            }
            // The node has logged the reason.
            Err(_) => {}
        }
        manager.ready();
    }
    std::future::pending::<()>().await;
}

/// Reports what the configuration names and is not usable.
fn check(config: &NodeConfig) -> Outcome {
    let mut faults = Vec::new();
    for finding in config.check() {
        match finding {
            Finding::Note(text) => note(&text),
            Finding::Fault(text) => faults.push(text),
        }
    }
    match faults.is_empty() {
        true => print_line("configuration OK"),
        false => Err(Failure::file(faults.join("\n"))),
    }
}

pub(crate) async fn run(arguments: Arguments) -> Outcome {
    let config = read(&arguments)?;
    #[cfg(not(target_os = "linux"))]
    linux_only::refuse_tunnel(&config)?;
    if arguments.check {
        Objectives::read(&config)?;
        GatewaySettings::read(&config).map_err(Failure::usage)?;
        #[cfg(target_os = "linux")]
        TunnelSettings::read(&config).map_err(Failure::usage)?;
        return check(&config);
    }
    serve(move || read(&arguments), greet).await
}

/// First output of a node.
fn greet(daemon: &Daemon, config: &NodeConfig) -> Outcome {
    if let Some(warning) = config.callers() {
        note(&warning);
    }
    print_line(&format!("node {}", daemon.host().node_id()))?;
    print_line(&format!(
        "nodes with the rights to call and to send files can run: anabranch send FILE {}",
        daemon.ticket()
    ))
}

/// Runs a node until it is stopped. `read` reads its configuration, now and at each reload; `greet` prints the first output, when
/// everything is open.
pub(crate) async fn serve(
    read: impl Fn() -> Result<NodeConfig, Failure> + Send + Sync + 'static,
    greet: impl FnOnce(&Daemon, &NodeConfig) -> Outcome,
) -> Outcome {
    let config = read()?;
    raise_file_limit();
    let daemon = Daemon::start(config.clone())
        .await
        .map_err(|error| match error {
            DaemonError::Key(_) | DaemonError::Receive(_) | DaemonError::Ledger(_) => {
                Failure::file(error)
            }
            DaemonError::Start(error) => error.into(),
            DaemonError::Objectives(error) => error.into(),
            _ => Failure::other(error),
        })?;
    let source = move || read().map_err(|failure| failure.message().to_owned());
    let daemon = daemon.with_source(Box::new(source));
    let gateway = Gateway::start(&daemon.handle(), &config, Notices::to_log());
    let gateway = gateway.map_err(|error| match error {
        GatewayError::Setting(error) => Failure::usage(error),
        _ => Failure::other(error),
    })?;
    // It runs until it is dropped.
    #[cfg(not(target_os = "linux"))]
    let _gateway = gateway;
    #[cfg(target_os = "linux")]
    let _tunnel = Tunnel::start(
        &daemon.handle(),
        &config,
        gateway.connections(),
        TunnelNotices::to_log(),
    )
    .map_err(|error| match error {
        TunnelError::Config(error) => Failure::usage(error),
        _ => Failure::other(error),
    })?;
    #[cfg(feature = "console")]
    console::part::start(&daemon, &config)?;
    #[cfg(not(feature = "console"))]
    if config.console.is_some() {
        return Err(Failure::usage(
            "console: this program was built without the console",
        ));
    }
    // Before the first output: a script that reads it may send a signal at once, which ends the process if it is not handled.
    let stopped = stopped();
    let hangups = Hangups::listen()?;
    greet(&daemon, &config)?;
    let manager = Manager::of_environment();
    manager.ready();
    tokio::select! {
        () = daemon.run() => {}
        stopped = stopped => stopped?,
        () = reload_on_hangup(&daemon, hangups, &manager) => {}
    }
    manager.stopping();
    daemon.shutdown().await?;
    Ok(())
}
