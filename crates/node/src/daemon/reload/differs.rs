//! Keys whose new values wait for the next start.

use std::fmt::Debug;

use super::{Started, in_force::rendezvous};
use crate::config::{NodeConfig, OverlayConfig};

impl Started {
    /// Keys that differ in `now` and that a reload does not change.
    pub(super) fn differs(&self, now: &NodeConfig) -> Vec<&'static str> {
        let before = &self.config;
        let text = |value: &dyn Debug| format!("{value:?}");
        let members = |overlay: &Option<OverlayConfig>| {
            let all = overlay.iter().flat_map(|overlay| &overlay.sites);
            all.map(|(node, site)| (*node, site.clone()))
                .collect::<Vec<_>>()
        };
        let has_new = members(&now.overlay)
            .iter()
            .any(|member| !members(&before.overlay).contains(member));
        let overlay = |overlay: &Option<OverlayConfig>| {
            let relay = |overlay: &OverlayConfig| {
                let relay = overlay.relay.as_ref();
                relay.map(|relay| text(&(relay.capacity, &relay.ports, &relay.public)))
            };
            let overlay = overlay.as_ref();
            text(&overlay.map(|overlay| (&overlay.agent, relay(overlay))))
        };
        let pairs = [
            ("key", text(&before.key), text(&now.key)),
            ("qlog", text(&before.qlog), text(&now.qlog)),
            (
                "channel.mtu_max",
                text(&before.engine.channel.mtu_max_bytes),
                text(&now.engine.channel.mtu_max_bytes),
            ),
            ("overlay", overlay(&before.overlay), overlay(&now.overlay)),
            (
                "rendezvous (all but its start, its end and `strangers`)",
                text(&rendezvous(
                    before.rendezvous.as_ref(),
                    now.rendezvous.as_ref(),
                )),
                text(&now.rendezvous),
            ),
            (
                "tunnel (all but the pools of its server)",
                text(&before.tunnel.without_reloaded()),
                text(&now.tunnel.without_reloaded()),
            ),
        ];
        let changed = pairs.into_iter().filter(|(_, before, now)| before != now);
        let mut keys: Vec<&'static str> = changed.map(|(key, ..)| key).collect();
        if has_new {
            keys.push("overlay.member (new ones, and other addresses)");
        }
        keys
    }
}
