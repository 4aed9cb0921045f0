//! Forwards and SOCKS servers of a node that run, and their change by a reload.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch::{
    base::NodeId,
    config::NodeConfig,
    daemon::{Commit, FlowReport, Handle, Part, RuleReport},
};
use tokio::{sync::watch, task::AbortHandle, time::Instant};

use super::{
    reverse::Asking,
    setting::{ForwardSetting, Settings, SocksSetting},
};
use crate::{
    connections::Connections,
    endpoint::Endpoint,
    error::{Code, Refusal},
    forward::{Forward, ListenError},
    notice::Notice,
    reverse::Expected,
    route::{Chooser, Route, Switch},
    socks::{self, Socks, StartError},
    uplink::{Exits, NodeUplink, Uplink, Waiting},
};

/// The node of a gateway, taken from it when the gateway is dropped, because the node keeps its parts.
#[derive(Clone, Debug)]
pub(super) struct Slot(Arc<Mutex<Option<Handle>>>);

impl Slot {
    pub(super) fn new(node: Handle) -> Self {
        Self(Arc::new(Mutex::new(Some(node))))
    }

    fn node(&self) -> Option<Handle> {
        let node = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        node.clone()
    }

    pub(super) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Sessions of the node with one peer, for as long as its gateway exists.
#[derive(Debug)]
struct SlotUplink {
    node: Slot,
    peer: NodeId,
}

impl Uplink for SlotUplink {
    fn peer(&self) -> NodeId {
        self.peer
    }

    fn session(&self, by: Instant) -> Waiting<'_> {
        let node = self.node.node();
        Box::pin(async move {
            match node {
                Some(handle) => NodeUplink::new(handle, self.peer).session(by).await,
                None => Err(Refusal::new(Code::Failed, "the gateway has ended")),
            }
        })
    }
}

/// Peers of a SOCKS server.
#[derive(Debug)]
struct NodeExits {
    node: Slot,
    default: Option<NodeId>,
}

impl Exits for NodeExits {
    fn exit(&self, named: Option<NodeId>) -> Result<Arc<dyn Uplink>, Refusal> {
        let peer = named.or(self.default).ok_or_else(|| {
            let text = "no rule names a peer for it, and the SOCKS server has none";
            Refusal::new(Code::NotAllowed, text)
        })?;
        let node = self.node.clone();
        Ok(Arc::new(SlotUplink { node, peer }))
    }
}

/// A listener that runs, which ends when this is dropped.
#[derive(Debug)]
struct Running<S, W> {
    setting: S,
    /// Changes its settings.
    switch: W,
    task: AbortHandle,
}

impl<S, W> Drop for Running<S, W> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes the listener at an endpoint out of those of the configuration before.
fn taken<T>(before: &mut Vec<T>, is_it: impl Fn(&T) -> bool) -> Option<T> {
    let at = before.iter().position(is_it)?;
    Some(before.swap_remove(at))
}

#[derive(Debug, Default)]
struct All {
    forwards: Vec<Running<ForwardSetting, Switch>>,
    /// Forwards whose connections peers accept.
    reverse: Vec<Running<ForwardSetting, watch::Sender<Endpoint>>>,
    socks: Vec<Running<SocksSetting, socks::Switch>>,
}

impl All {
    fn has_forward(&self, at: &Endpoint) -> bool {
        let mut all = self.forwards.iter();
        all.any(|running| running.setting.mapping.accept == *at)
    }

    fn has_socks(&self, at: &Endpoint) -> bool {
        self.socks.iter().any(|running| running.setting.at == *at)
    }
}

/// An endpoint cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The forwards and SOCKS servers of a node, which follow its configuration.
#[derive(Debug)]
pub(super) struct Listeners {
    running: Arc<Mutex<All>>,
    connections: Connections,
    /// Reverse forwards that peers were asked for.
    expected: Expected,
    node: Slot,
}

/// True if two reverse forwards differ by their targets at most, so that the listener of one can serve the other.
fn is_same_listener(one: &ForwardSetting, other: &ForwardSetting) -> bool {
    (one.peer, &one.mapping.accept, &one.service)
        == (other.peer, &other.mapping.accept, &other.service)
}

impl Listeners {
    pub(super) fn new(connections: Connections, expected: Expected, node: Slot) -> Self {
        Self {
            running: Arc::default(),
            connections,
            expected,
            node,
        }
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// Ends all listeners, and lets go of the node.
    pub(super) fn clear(&self) {
        self.node.clear();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = All::default();
    }

    fn uplink(&self, peer: NodeId) -> SlotUplink {
        let node = self.node.clone();
        SlotUplink { node, peer }
    }

    /// Task that has a peer accept the connections of a reverse forward, and the end that changes its target.
    fn asking(&self, setting: &ForwardSetting) -> (Asking<SlotUplink>, watch::Sender<Endpoint>) {
        let (switch, target) = watch::channel(setting.mapping.to.clone());
        let asking = Asking {
            setting: setting.clone(),
            target,
            uplink: self.uplink(setting.peer),
            expected: self.expected.clone(),
            notices: self.connections.notices().clone(),
        };
        (asking, switch)
    }

    fn route(&self, setting: &ForwardSetting) -> Route {
        let uplink = self.uplink(setting.peer);
        let service = setting.service.clone();
        Route::to(&setting.mapping.to, service, Arc::new(uplink))
    }

    fn socks(&self, setting: &SocksSetting) -> socks::Settings {
        let exits = NodeExits {
            node: self.node.clone(),
            default: setting.peer,
        };
        socks::Settings {
            login: setting.login.clone(),
            chooser: Chooser::new(setting.services.clone(), Arc::new(exits)),
        }
    }

    /// Opens the endpoints that are not open yet, and returns what applies these settings. Connections that are open
    /// go on, and so does an endpoint whose target changes.
    pub(super) fn change(&self, settings: Settings) -> Result<Commit, OpenError> {
        let (mut forwards, mut servers) = (Vec::new(), Vec::new());
        let (reverse, here): (Vec<_>, Vec<_>) = settings
            .forwards
            .into_iter()
            .partition(|setting| setting.is_reverse);
        let reverse: Vec<_> = reverse
            .into_iter()
            .map(|setting| (self.asking(&setting), setting))
            .collect();
        {
            let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            for setting in here {
                let accept = &setting.mapping.accept;
                let forward = match running.has_forward(accept) {
                    true => None,
                    false => Some(Forward::open(accept, self.connections.clone())?),
                };
                forwards.push((self.route(&setting), setting, forward));
            }
            for setting in settings.socks {
                let own = self.socks(&setting);
                let server = match running.has_socks(&setting.at) {
                    true => None,
                    false => Some(Socks::open(
                        &setting.at,
                        own.clone(),
                        self.connections.clone(),
                    )?),
                };
                servers.push((own, setting, server));
            }
        }
        let (running, connections) = (self.running.clone(), self.connections.clone());
        let (rules, timeouts) = (settings.rules, settings.config);
        let slot = self.node.clone();
        Ok(Box::new(move || {
            let notices = connections.notices();
            connections.rules().replace(rules);
            // Flows that wait for a promise are under the new limits, too.
            if let Some(node) = slot.node() {
                for (tenant, share) in connections.rules().promised_shares() {
                    node.host().set_promised_share(tenant, share);
                }
            }
            connections.timeouts().set(&timeouts);
            let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
            let mut before = std::mem::take(&mut *running);
            for (route, setting, forward) in forwards {
                let accept = &setting.mapping.accept;
                let same = taken(&mut before.forwards, |other| {
                    other.setting.mapping.accept == *accept
                });
                if let Some(mut same) = same {
                    if same.setting != setting {
                        same.switch.turn(route);
                        same.setting = setting;
                    }
                    running.forwards.push(same);
                } else if let Some(forward) = forward {
                    let to = Some(setting.mapping.to.clone());
                    notices.show(&listening(forward.local(), to));
                    let switch = Switch::new(route);
                    let task = tokio::spawn(forward.run(switch.clone())).abort_handle();
                    running.forwards.push(Running {
                        setting,
                        switch,
                        task,
                    });
                }
            }
            for ((asking, switch), setting) in reverse {
                let same = taken(&mut before.reverse, |other| {
                    is_same_listener(&other.setting, &setting)
                });
                if let Some(mut same) = same {
                    same.switch.send_replace(setting.mapping.to.clone());
                    same.setting = setting;
                    running.reverse.push(same);
                } else {
                    let task = tokio::spawn(asking.keep()).abort_handle();
                    running.reverse.push(Running {
                        setting,
                        switch,
                        task,
                    });
                }
            }
            for (own, setting, server) in servers {
                let same = taken(&mut before.socks, |other| other.setting.at == setting.at);
                if let Some(mut same) = same {
                    if same.setting != setting {
                        same.switch.turn(own);
                        same.setting = setting;
                    }
                    running.socks.push(same);
                } else if let Some(server) = server {
                    notices.show(&listening(server.local(), None));
                    let switch = server.switch();
                    let task = tokio::spawn(server.run()).abort_handle();
                    running.socks.push(Running {
                        setting,
                        switch,
                        task,
                    });
                }
            }
        }))
    }
}

fn listening(at: &Endpoint, to: Option<Endpoint>) -> Notice {
    Notice::Listening {
        at: at.clone(),
        to,
        is_remote: false,
    }
}

impl Part for Listeners {
    fn prepare(&self, config: &NodeConfig) -> Result<Commit, String> {
        let settings = Settings::read(config).map_err(|error| error.to_string())?;
        self.change(settings).map_err(|error| error.to_string())
    }

    fn flows(&self) -> Vec<FlowReport> {
        self.connections.means().register.report()
    }

    fn rules(&self) -> Vec<RuleReport> {
        self.connections.rules().report()
    }
}
