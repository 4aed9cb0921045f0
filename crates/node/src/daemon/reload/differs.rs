//! Keys whose new values wait for the next start.

use std::fmt::Debug;

use super::Started;
use crate::config::NodeConfig;

impl Started {
    /// Keys that differ in `now` and that a reload does not change.
    pub(super) fn differs(&self, now: &NodeConfig) -> Vec<&'static str> {
        let before = &self.config;
        let text = |value: &dyn Debug| format!("{value:?}");
        let pairs = [
            ("key", text(&before.key), text(&now.key)),
            (
                "channel.mtu_max",
                text(&before.engine.channel.mtu_max_bytes),
                text(&now.engine.channel.mtu_max_bytes),
            ),
            (
                "tunnel (all but the pools of its server)",
                text(&before.tunnel.without_reloaded()),
                text(&now.tunnel.without_reloaded()),
            ),
        ];
        let changed = pairs.into_iter().filter(|(_, before, now)| before != now);
        changed.map(|(key, ..)| key).collect()
    }
}
