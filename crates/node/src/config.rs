//! The configuration of a node: flags over environment over file over defaults.
//!
//! Every source is read into a [`Layer`], the layers are overlaid, and [`Layer::resolve`] checks the values; an error names the
//! key, the value and what would be accepted.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anabranch_base::{NodeId, duration, ids::ParseNodeIdError, size};
use anabranch_net::{Bind, HostConfig, LocalDescription, Locals, Place};
use anabranch_session::{AllowList, Config as EngineConfig, SecretKey};
use serde::{Deserialize, Serialize};

use crate::{keys, rendezvous::Via, rights::Table, spec::preferences, transcripts};

mod check;
mod console;
mod costs;
pub mod edit;
mod export;
mod forward;
mod gateway;
mod interfaces;
mod local;
mod local_users;
pub(crate) mod mistake;
mod overlay;
mod peers;
mod places;
mod rendezvous;
mod review;
mod rule;
mod schema;
mod settings;
mod streams;
mod tunnel;
mod via;

pub use check::Finding;
pub use costs::{CostLayer, Costs, default_ledger};
pub use export::{EXPORTS_MAX, Export, ExportLayer};
pub use forward::{FORWARDS_MAX, ForwardLayer};
pub use gateway::{GatewayConfig, GatewayLayer, SOCKS_MAX, SocksLayer};
pub use interfaces::{AttributeLayer, InterfaceLayer};
use local::LocalKeys;
pub use local::{LocalConfig, LocalTcp, NO_LOCAL, default_local};
pub use local_users::{LocalLimits, LocalLimitsLayer, LocalUser, LocalUserLayer};
pub use overlay::{MemberLayer, OverlayConfig, OverlayLayer, Relaying, Site};
pub use peers::{GrantLayer, Peer, PeerLayer, Retired, TermsLayer};
pub(crate) use places::home;
pub use places::{HOME_VARIABLE, Places, SERVICE_CONTROL, SERVICE_LOCAL, host_name};
pub use rendezvous::{RendezvousConfig, RendezvousLayer};
pub use review::{Mistake, review};
pub use rule::{MatchLayer, PortsLayer, RULES_MAX, RuleLayer, Texts};
pub use schema::schema;
pub use settings::{Change, Origin, Setting, Settings, ShownSetting};
pub use streams::{DeclaredStream, STREAMS_MAX, StreamLayer};
pub use tunnel::{
    CLIENT_DEVICE, SERVER_DEVICE, TUNNEL_MARK, TunnelClientLayer, TunnelLayer, TunnelServerLayer,
};

/// One source of configuration; a key that it does not contain is `None`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Layer {
    /// Name of this machine.
    pub name: Option<String>,
    /// Key file.
    pub key: Option<PathBuf>,
    /// Addresses to listen on, `IP:PORT`.
    pub listen: Option<Vec<String>>,
    /// Interfaces to use if `listen` is absent; empty: all.
    pub interfaces: Option<Vec<String>>,
    /// Port on every interface if `listen` is absent; 0: any.
    pub port: Option<u16>,
    /// Key that is no longer supported.
    #[serde(skip_serializing)]
    pub allow: Retired,
    /// Control socket.
    pub control: Option<PathBuf>,
    /// Socket of the local interface; empty: none.
    pub local: Option<PathBuf>,
    /// Users who may attach to it, in addition to the one who runs the node and root.
    pub local_users: Option<Vec<LocalUserLayer>>,
    /// TCP socket of the local interface, `IP:PORT` on loopback; empty: none.
    pub local_tcp: Option<String>,
    /// Address of the console, IP:PORT of loopback; empty: none.
    pub console: Option<String>,
    /// File of the token for it.
    pub local_token: Option<PathBuf>,
    /// Directory for files from nodes that may send files.
    pub receive: Option<PathBuf>,
    /// Cost of sending.
    pub cost: Option<Vec<CostLayer>>,
    /// Descriptions of interfaces.
    pub interface: Option<Vec<InterfaceLayer>>,
    /// Currency of prices.
    pub currency: Option<String>,
    /// Usage ledger file.
    pub ledger: Option<PathBuf>,
    /// File of the record of promises; empty: none.
    pub promise_record: Option<PathBuf>,
    /// File of the evidence of interfaces; empty: none.
    pub evidence: Option<PathBuf>,
    /// Folder of traces of channels; empty: none.
    pub qlog: Option<PathBuf>,
    /// Relay at which this machine meets others: `ID@HOST:PORT`, a ticket, or the name of a peer; empty: none.
    pub via: Option<String>,
    /// Other nodes, and their rights here.
    pub peer: Option<Vec<PeerLayer>>,
    /// The overlay that the node takes part in.
    pub overlay: OverlayLayer,
    /// The rendezvous that the node serves.
    pub rendezvous: Option<RendezvousLayer>,
    /// Connections accepted here and made by peers.
    pub forward: Option<Vec<ForwardLayer>>,
    /// Directories that peers may read.
    pub export: Option<Vec<ExportLayer>>,
    /// Streams of local applications, for checks of objectives.
    pub stream: Option<Vec<StreamLayer>>,
    /// Rules for flows of forwards and of SOCKS, the first that matches.
    pub rule: Option<Vec<RuleLayer>>,
    /// Settings of the gateway.
    pub gateway: GatewayLayer,
    /// Settings of the tunnel.
    pub tunnel: TunnelLayer,
    /// Settings of sessions.
    pub session: SessionLayer,
    /// Settings of channels.
    pub channel: ChannelLayer,
}

/// Settings of sessions, as texts with units.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionLayer {
    /// Scheduling policy.
    pub policy: Option<String>,
    /// File of objectives that every session has from its start.
    pub objectives: Option<PathBuf>,
    /// Memory of the transcript of each session.
    pub transcript: Option<String>,
    /// Time for which a session survives without any path.
    pub timeout: Option<String>,
    /// Time that a new session may take to find its first path.
    pub connect_timeout: Option<String>,
    /// Bytes of one stream that may wait to be read.
    pub stream_window: Option<String>,
    /// Bytes of all streams of a session that may wait to be read.
    pub session_window: Option<String>,
    /// Bytes of one stream that may wait to be sent.
    pub send_buffer: Option<String>,
    /// Limit on copies, as a share of the bytes sent.
    pub copies_max: Option<String>,
    /// Detection of shared bottlenecks: selects the paths that are coupled.
    pub coupling: Option<String>,
    /// Bytes that probes may always cost.
    pub probe_idle: Option<String>,
    /// Share of what is sent that probes may cost.
    pub probe_share: Option<String>,
    /// True if metered paths are probed.
    pub probe_metered: Option<bool>,
    /// Path preferences of all streams, after their own.
    pub paths: Option<Vec<String>>,
}

/// Settings of channels, as texts with units.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelLayer {
    /// Congestion controller.
    pub controller: Option<String>,
    /// Largest UDP payload.
    pub mtu_max: Option<String>,
    /// Time after which a silent connection is closed.
    pub idle_timeout: Option<String>,
    /// Queueing delay that `auto` aims for.
    pub queue_target: Option<String>,
    /// Longest delay of an acknowledgement.
    pub ack_delay_max: Option<String>,
    /// Packets per acknowledgement.
    pub ack_every: Option<String>,
    /// First congestion window.
    pub initial_window: Option<String>,
    /// Traffic model of channels, for policies that plan.
    pub model: Option<String>,
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Name that this machine suggests to others for itself; `None`: that of the host.
    pub name: Option<String>,
    /// Key file.
    pub key: PathBuf,
    /// Local addresses.
    pub locals: Locals,
    /// Rights of each node here.
    pub rights: Table,
    /// Names of nodes.
    pub names: BTreeMap<NodeId, String>,
    /// Control socket.
    pub control: PathBuf,
    /// Address of the console; `None`: there is none.
    pub console: Option<SocketAddr>,
    /// The local interface.
    pub local: Option<LocalConfig>,
    /// Directory for files from nodes that may send files.
    pub receive: Option<PathBuf>,
    /// Cost of sending.
    pub costs: Costs,
    /// File of the record of promises; `None`: there is none.
    pub promise_record: Option<PathBuf>,
    /// File of the evidence of interfaces; `None`: there is none.
    pub evidence: Option<PathBuf>,
    /// Folder of traces of channels, in the qlog format; `None`: there are none.
    pub qlog: Option<PathBuf>,
    /// Folder for transcripts of sessions that broke a promise; `None`: there is none.
    pub transcripts: Option<PathBuf>,
    /// Descriptions of interfaces.
    pub descriptions: Vec<(Place, LocalDescription)>,
    /// Relay at which this machine meets others; `None`: there is none.
    pub via: Option<Via>,
    /// Nodes to keep a session with.
    pub peers: Vec<Peer>,
    /// The overlay that the node takes part in.
    pub overlay: Option<OverlayConfig>,
    /// The rendezvous that the node serves; `None`: it serves none.
    pub rendezvous: Option<RendezvousConfig>,
    /// Connections accepted here and made by peers; the gateway reads them.
    pub forwards: Vec<ForwardLayer>,
    /// Directories that peers with the right to read exports may read.
    pub exports: Vec<Export>,
    /// Streams that local applications open, as declared for checks of objectives.
    pub streams: Vec<DeclaredStream>,
    /// Rules for flows; the gateway reads them.
    pub rules: Vec<RuleLayer>,
    /// Settings of the gateway, which reads them.
    pub gateway: GatewayConfig,
    /// Settings of the tunnel, which reads them.
    pub tunnel: TunnelLayer,
    /// File of objectives for every session.
    pub objectives: Option<PathBuf>,
    /// Settings of sessions and channels.
    pub engine: EngineConfig,
    /// The settings as given, with the source of each; empty until [`Settings::read`] is called on their sources.
    pub settings: Arc<Settings>,
}

impl NodeConfig {
    /// A host with these sessions, channels and interfaces. Objectives have to be read first, and costs come with a ledger to
    /// keep ([`Costs::apply`]).
    pub fn host(&self, key: SecretKey, allowed: AllowList) -> HostConfig {
        let mut host = HostConfig::new(key, allowed);
        host.engine = self.engine.clone();
        host.locals = self.locals.clone();
        host.descriptions.clone_from(&self.descriptions);
        host.mark = self.tunnel.mark();
        host.unused = self.tunnel.devices();
        #[cfg(feature = "qlog")]
        host.qlog.clone_from(&self.qlog);
        host
    }
}

/// The configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is not TOML, or has a key that does not exist.
    #[error("{0}")]
    Syntax(String),
    /// A value is refused.
    #[error("{key} = \"{value}\": {reason}")]
    Value {
        /// Key of the value.
        key: String,
        /// The value given.
        value: String,
        /// The error, and what would be accepted.
        reason: String,
    },
    /// A value is missing, or requires another one that is missing.
    #[error("{key}: {reason}")]
    Missing {
        /// The key concerned.
        key: String,
        /// Explanation of the error.
        reason: String,
    },
}

impl ConfigError {
    /// Number of the line of a file `text` in which the value that is refused probably is; `None` if it is not there, or the message
    /// names the line.
    pub fn line_in(&self, text: &str) -> Option<usize> {
        match self {
            Self::Syntax(_) => None,
            Self::Value { key, value, .. } => mistake::line_of(text, key, value),
            Self::Missing { key, .. } => mistake::line_of(text, key, ""),
        }
    }
}

impl Layer {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// It is not TOML, has an unknown key or a value of the wrong type; the message shows the line.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| mistake::syntax(text, &error))
    }

    /// Reads the variables `ANABRANCH_KEY`, `_LISTEN`, `_PORT`, `_INTERFACES` (lists with
    /// commas), `_CONTROL`, `_LOCAL` and `_VIA` (which may be empty), `_RECEIVE`, `_NAME`, `_COST` (short forms, with commas), `_CURRENCY`, `_LEDGER`, `_POLICY`,
    /// `_OBJECTIVES`, `_CONTROLLER`, `_MODEL` and `_QLOG`.
    ///
    /// # Errors
    /// A port is not a number, a cost is not in the short form, or `ANABRANCH_ALLOW`, which is no longer a variable, is set.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let get = |name: &str| variable(&format!("ANABRANCH_{name}")).filter(|v| !v.is_empty());
        let list = |name: &str| {
            let text = get(name)?;
            Some(text.split(',').map(|part| part.trim().to_owned()).collect())
        };
        if let Some(text) = get("ALLOW") {
            return Err(refused("ANABRANCH_ALLOW", &text, peers::INSTEAD));
        }
        let port = match get("PORT") {
            None => None,
            Some(text) => Some(
                text.parse()
                    .map_err(|_| refused("ANABRANCH_PORT", &text, "give a port from 0 to 65535"))?,
            ),
        };
        let local = variable("ANABRANCH_LOCAL");
        if let Some(text) = local.as_deref().filter(|text| text.starts_with("tcp:")) {
            let why = "that is where an application finds a node; a node itself has the path of a socket here, and local_tcp in its file";
            return Err(refused("ANABRANCH_LOCAL", text, why));
        }
        let local = local.map(PathBuf::from);
        let cost = match get("COST") {
            None => None,
            Some(text) => Some(
                text.split(',')
                    .map(CostLayer::from_text)
                    .collect::<Result<_, _>>()?,
            ),
        };
        Ok(Self {
            name: get("NAME"),
            key: get("KEY").map(Into::into),
            listen: list("LISTEN"),
            interfaces: list("INTERFACES"),
            port,
            allow: Retired,
            control: get("CONTROL").map(Into::into),
            local,
            local_users: None,
            local_tcp: None,
            console: get("CONSOLE"),
            local_token: None,
            receive: get("RECEIVE").map(Into::into),
            cost,
            interface: None,
            currency: get("CURRENCY"),
            ledger: get("LEDGER").map(Into::into),
            promise_record: None,
            evidence: None,
            qlog: get("QLOG").map(Into::into),
            via: variable("ANABRANCH_VIA"),
            peer: None,
            rendezvous: None,
            forward: None,
            export: None,
            stream: None,
            rule: None,
            gateway: GatewayLayer::default(),
            tunnel: TunnelLayer::default(),
            overlay: OverlayLayer {
                relay: get("RELAY"),
                ..OverlayLayer::default()
            },
            session: SessionLayer {
                policy: get("POLICY"),
                transcript: None,
                objectives: get("OBJECTIVES").map(Into::into),
                ..SessionLayer::default()
            },
            channel: ChannelLayer {
                controller: get("CONTROLLER"),
                model: get("MODEL"),
                ..ChannelLayer::default()
            },
        })
    }

    /// This layer, with keys that it does not contain taken from `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            name: self.name.or(below.name),
            key: self.key.or(below.key),
            listen: self.listen.or(below.listen),
            interfaces: self.interfaces.or(below.interfaces),
            port: self.port.or(below.port),
            allow: Retired,
            control: self.control.or(below.control),
            local: self.local.or(below.local),
            local_users: self.local_users.or(below.local_users),
            local_tcp: self.local_tcp.or(below.local_tcp),
            console: self.console.or(below.console),
            local_token: self.local_token.or(below.local_token),
            receive: self.receive.or(below.receive),
            cost: self.cost.or(below.cost),
            interface: self.interface.or(below.interface),
            currency: self.currency.or(below.currency),
            ledger: self.ledger.or(below.ledger),
            promise_record: self.promise_record.or(below.promise_record),
            evidence: self.evidence.or(below.evidence),
            qlog: self.qlog.or(below.qlog),
            via: self.via.or(below.via),
            peer: self.peer.or(below.peer),
            overlay: self.overlay.over(below.overlay),
            rendezvous: self.rendezvous.or(below.rendezvous),
            forward: self.forward.or(below.forward),
            export: self.export.or(below.export),
            stream: self.stream.or(below.stream),
            rule: self.rule.or(below.rule),
            gateway: self.gateway.over(below.gateway),
            tunnel: self.tunnel.over(below.tunnel),
            session: SessionLayer {
                policy: self.session.policy.or(below.session.policy),
                transcript: self.session.transcript.or(below.session.transcript),
                objectives: self.session.objectives.or(below.session.objectives),
                timeout: self.session.timeout.or(below.session.timeout),
                connect_timeout: self
                    .session
                    .connect_timeout
                    .or(below.session.connect_timeout),
                stream_window: self.session.stream_window.or(below.session.stream_window),
                session_window: self.session.session_window.or(below.session.session_window),
                send_buffer: self.session.send_buffer.or(below.session.send_buffer),
                copies_max: self.session.copies_max.or(below.session.copies_max),
                coupling: self.session.coupling.or(below.session.coupling),
                probe_idle: self.session.probe_idle.or(below.session.probe_idle),
                probe_share: self.session.probe_share.or(below.session.probe_share),
                probe_metered: self.session.probe_metered.or(below.session.probe_metered),
                paths: self.session.paths.or(below.session.paths),
            },
            channel: ChannelLayer {
                controller: self.channel.controller.or(below.channel.controller),
                mtu_max: self.channel.mtu_max.or(below.channel.mtu_max),
                idle_timeout: self.channel.idle_timeout.or(below.channel.idle_timeout),
                queue_target: self.channel.queue_target.or(below.channel.queue_target),
                ack_delay_max: self.channel.ack_delay_max.or(below.channel.ack_delay_max),
                ack_every: self.channel.ack_every.or(below.channel.ack_every),
                initial_window: self.channel.initial_window.or(below.channel.initial_window),
                model: self.channel.model.or(below.channel.model),
            },
        }
    }

    /// Checks every value and fills in the defaults. `variable` looks up the environment for default locations (`HOME`,
    /// `XDG_CONFIG_HOME`, `XDG_RUNTIME_DIR`, `XDG_STATE_HOME`).
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn resolve(
        self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<NodeConfig, ConfigError> {
        let engine = self.engine()?;
        let name = match &self.name {
            Some(name) if edit::is_peer_name(name) => Some(name.clone()),
            Some(name) => return Err(refused("name", name, edit::NAME_FORM)),
            None => None,
        };
        let costs = self.costs(&variable)?;
        let locals = match &self.listen {
            Some(list) => {
                let mut binds = Vec::new();
                for text in list {
                    binds.push(Bind::from(address("listen", text)?));
                }
                if binds.is_empty() {
                    return Err(missing(
                        "listen",
                        "name at least one address, or leave it out",
                    ));
                }
                Locals::Fixed(binds)
            }
            None => Locals::Interfaces {
                port: self.port.unwrap_or(0),
                only: self.interfaces.clone().unwrap_or_default(),
            },
        };
        let descriptions = self.interfaces()?;
        let overlay = self.overlay.resolve()?;
        let via = self.via()?;
        let peers = self.peers(overlay.as_ref())?;
        let streams = self.streams()?;
        let exports = self.exports()?;
        let (forwards, rules) = (self.forwards()?, self.rules()?);
        let gateway = self.gateway.resolve()?;
        let control = match self.control {
            Some(path) => path,
            None => default_control(&variable).ok_or_else(|| missing("control", NO_CONTROL))?,
        };
        let local = LocalKeys {
            path: self.local,
            users: self.local_users,
            tcp: self.local_tcp,
            token: self.local_token,
        };
        let local = LocalConfig::resolve(local, &control)?;
        let console = console::address(self.console.as_deref())?;
        let promise_record = match self.promise_record {
            Some(none) if none == PathBuf::new() => None,
            Some(path) => Some(path),
            None => default_state(&variable, "promises"),
        };
        let evidence = match self.evidence {
            Some(none) if none == PathBuf::new() => None,
            Some(path) => Some(path),
            None => default_state(&variable, "evidence"),
        };
        let qlog = qlog(self.qlog)?;
        let transcripts = default_state(&variable, "transcripts");
        let tunnel = self.tunnel.with_leases(default_state(&variable, "leases"));
        Ok(NodeConfig {
            name,
            local,
            console,
            overlay,
            rendezvous: self
                .rendezvous
                .as_ref()
                .map(RendezvousLayer::resolve)
                .transpose()?,
            key: self.key.unwrap_or_else(|| keys::default_path(&variable)),
            locals,
            rights: peers.rights,
            names: peers.names,
            control,
            receive: self.receive,
            objectives: self.session.objectives,
            costs,
            promise_record,
            evidence,
            qlog,
            transcripts,
            descriptions,
            via,
            peers: peers.dialled,
            forwards,
            exports,
            streams,
            rules,
            gateway,
            tunnel,
            engine,
            settings: Arc::default(),
        })
    }

    fn engine(&self) -> Result<EngineConfig, ConfigError> {
        let mut engine = EngineConfig::default();
        let (session, channel) = (&self.session, &self.channel);
        set(
            &mut engine.policy,
            "session.policy",
            &session.policy,
            parsed,
        )?;
        set(
            &mut engine.connect_timeout,
            "session.connect_timeout",
            &session.connect_timeout,
            time,
        )?;
        set(
            &mut engine.session_timeout,
            "session.timeout",
            &session.timeout,
            time,
        )?;
        set(
            &mut engine.stream_window_bytes,
            "session.stream_window",
            &session.stream_window,
            size,
        )?;
        set(
            &mut engine.session_window_bytes,
            "session.session_window",
            &session.session_window,
            size,
        )?;
        let mut transcript = engine.transcript_bytes as u64;
        set(
            &mut transcript,
            "session.transcript",
            &session.transcript,
            transcript_memory,
        )?;
        engine.transcript_bytes = usize::try_from(transcript).unwrap_or(usize::MAX);
        let mut buffer = engine.send_buffer_bytes as u64;
        set(
            &mut buffer,
            "session.send_buffer",
            &session.send_buffer,
            size,
        )?;
        engine.send_buffer_bytes = usize::try_from(buffer).unwrap_or(usize::MAX);
        set(
            &mut engine.copies_max,
            "session.copies_max",
            &session.copies_max,
            percent,
        )?;
        set(
            &mut engine.coupling,
            "session.coupling",
            &session.coupling,
            parsed,
        )?;
        set(
            &mut engine.probing.idle_bytes,
            "session.probe_idle",
            &session.probe_idle,
            size,
        )?;
        set(
            &mut engine.probing.share,
            "session.probe_share",
            &session.probe_share,
            percent,
        )?;
        if let Some(metered) = session.probe_metered {
            engine.probing.metered = metered;
        }
        if let Some(rules) = &session.paths {
            engine.paths = preferences("session.paths", rules)?;
        }

        let own = &mut engine.channel;
        set(
            &mut own.controller,
            "channel.controller",
            &channel.controller,
            parsed,
        )?;
        set(
            &mut own.idle_timeout,
            "channel.idle_timeout",
            &channel.idle_timeout,
            time,
        )?;
        set(
            &mut own.queue_target,
            "channel.queue_target",
            &channel.queue_target,
            time,
        )?;
        set(
            &mut own.ack_delay_max,
            "channel.ack_delay_max",
            &channel.ack_delay_max,
            time,
        )?;
        set(
            &mut own.ack_every_packets,
            "channel.ack_every",
            &channel.ack_every,
            packets,
        )?;
        set(
            &mut own.initial_window_packets,
            "channel.initial_window",
            &channel.initial_window,
            packets,
        )?;
        set(
            &mut own.mtu_max_bytes,
            "channel.mtu_max",
            &channel.mtu_max,
            mtu,
        )?;
        set(&mut engine.model, "channel.model", &channel.model, parsed)?;
        Ok(engine)
    }
}

/// Error message for a missing control socket.
pub const NO_CONTROL: &str = "this user has no folder for it (XDG_RUNTIME_DIR, XDG_STATE_HOME or HOME); name the socket \
     with --control, ANABRANCH_CONTROL or `control =`, in a folder that only this user can write to";

/// Default location of the control socket: in `$ANABRANCH_HOME`, else in `$XDG_RUNTIME_DIR`, else in a folder of its own below `$XDG_STATE_HOME/anabranch`
/// or `~/.local/state/anabranch`; `None` if none of these is set. Never in the folder for temporary files, where any user can
/// create a socket of that name. `variable` looks up an environment variable.
pub fn default_control(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    if let Some(home) = home(&variable) {
        return Some(home.join("anabranch.sock"));
    }
    let get = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(runtime) = get("XDG_RUNTIME_DIR") {
        return Some(PathBuf::from(runtime).join("anabranch.sock"));
    }
    let state = get("XDG_STATE_HOME").map(PathBuf::from);
    let home = || crate::keys::home(get).map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("anabranch/run/anabranch.sock"))
}

pub(crate) fn refused(key: &str, value: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        value: value.to_owned(),
        reason: reason.into(),
    }
}

pub(crate) fn missing(key: &str, reason: impl Into<String>) -> ConfigError {
    ConfigError::Missing {
        key: key.to_owned(),
        reason: reason.into(),
    }
}

/// Replaces `target` if a text is given and `read` accepts it.
pub(crate) fn set<T>(
    target: &mut T,
    key: &str,
    text: &Option<String>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), ConfigError> {
    if let Some(text) = text {
        *target = read(text).map_err(|reason| refused(key, text, reason))?;
    }
    Ok(())
}

pub(crate) fn parsed<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

pub(crate) fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// A number of bytes: `8 MiB`, `512 kB`, `1472 B`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    if !(1..1_000_000_000_000_000).contains(&bytes) {
        return Err("give at least 1 B and less than 1000 TB".to_owned());
    }
    Ok(bytes)
}

/// Folder of traces, which need a feature of the build.
fn qlog(path: Option<PathBuf>) -> Result<Option<PathBuf>, ConfigError> {
    match path.filter(|path| *path != PathBuf::new()) {
        Some(path) if !cfg!(feature = "qlog") => Err(refused(
            "qlog",
            &path.display().to_string(),
            "this program was built without traces; build it with `--features qlog`, or leave the key out",
        )),
        path => Ok(path),
    }
}

fn transcript_memory(text: &str) -> Result<u64, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    transcripts::check_memory(bytes)
}

fn mtu(text: &str) -> Result<u16, String> {
    match size(text)? {
        bytes @ 1200..=65_527 => Ok(bytes as u16),
        _ => Err("give 1200 B to 65527 B".to_owned()),
    }
}

pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text
        .trim()
        .strip_suffix('%')
        .and_then(|rest| rest.trim().parse::<f64>().ok());
    match number {
        Some(value) if (0.0..=100.0).contains(&value) => Ok(value / 100.0),
        _ => Err("give a share such as \"5 %\", from 0 % to 100 %".to_owned()),
    }
}

fn packets(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let rest = text
        .strip_suffix("packets")
        .or_else(|| text.strip_suffix("packet"));
    let number = rest.and_then(|rest| rest.trim().parse::<u32>().ok());
    match number {
        Some(value) if (1..=10_000).contains(&value) => Ok(value),
        _ => Err("give a number such as \"8 packets\", from 1 to 10000".to_owned()),
    }
}

pub(crate) fn address(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    let error = |_| {
        refused(
            key,
            text,
            "give IP:PORT, such as 192.0.2.1:4433 or [2001:db8::1]:4433",
        )
    };
    text.parse().map_err(error)
}

pub(crate) fn node(key: &str, text: &str) -> Result<NodeId, ConfigError> {
    let parsed: Result<NodeId, ParseNodeIdError> = text.parse();
    parsed.map_err(|error| refused(key, text, error.to_string()))
}

/// Default location of the record of promises: beside the ledger; `None` for a user without a home.
fn default_state(variable: impl Fn(&str) -> Option<String>, name: &str) -> Option<PathBuf> {
    let ledger = default_ledger(variable);
    ledger.is_absolute().then(|| ledger.with_file_name(name))
}

#[cfg(test)]
mod tests;
