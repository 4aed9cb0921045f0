//! What a node tells of its overlay.

use serde_json::{Value, json};

use super::ms;
use crate::overlay::{MemberView, Overlay, State};

const fn state(state: State) -> &'static str {
    match state {
        State::Unknown => "unknown",
        State::Alive => "alive",
        State::Suspect => "suspect",
        State::Down => "down",
        State::Left => "left",
    }
}

pub(super) async fn rows(overlay: &Overlay) -> Vec<Value> {
    let members = overlay.members().await;
    let member = |view: &MemberView| {
        json!({
            "kind": "member",
            "name": overlay.name(&view.node),
            "node": view.node.to_string(),
            "state": state(view.state),
            "version": view.version,
            "record_age_s": view.record_age.map(|age| ms(age) / 1e3),
            "heard_s": view.heard.map(|age| ms(age) / 1e3),
            "has_session": view.has_session,
        })
    };
    members.iter().map(member).collect()
}
