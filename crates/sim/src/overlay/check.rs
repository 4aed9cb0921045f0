//! Invariants among agents.

use anabranch_overlay::State;

use super::Agents;

/// First violation of the rules that hold at all times; `None` when all hold.
///
/// No stranger is in the table of another node, whatever it sends.
pub fn always(agents: &Agents) -> Option<String> {
    for n in (0..agents.len()).filter(|&n| !agents.is_stranger(n)) {
        let Some(agent) = agents.agent(n) else {
            continue;
        };
        for stranger in (0..agents.len()).filter(|&n| agents.is_stranger(n)) {
            if agent.member(&agents.id(stranger), agents.now()).is_some() {
                return Some(format!("node {n} has stranger {stranger} in its table"));
            }
        }
    }
    None
}

fn runs(agents: &Agents, n: usize) -> bool {
    agents.agent(n).is_some() && !agents.is_stranger(n)
}

/// First violation of the rules that hold once the network has been whole for long enough.
///
/// Every running node that is on the lists counts every other such node as alive, and no further node.
pub fn members(agents: &Agents) -> Option<String> {
    for n in (0..agents.len()).filter(|&n| runs(agents, n)) {
        let agent = agents.agent(n)?;
        for other in (0..agents.len()).filter(|&n| !agents.is_stranger(n)) {
            let state = agent
                .member(&agents.id(other), agents.now())
                .map(|view| view.state);
            let is_there = runs(agents, other);
            let is_right = match state {
                Some(State::Alive) => is_there,
                Some(State::Unknown | State::Down | State::Left) => !is_there,
                Some(State::Suspect) | None => false,
            };
            if !is_right {
                return Some(format!(
                    "node {n} holds {other} (runs: {is_there}) for {state:?}"
                ));
            }
        }
    }
    None
}

/// First violation of the rules that hold when, in addition, no node has published anything new for long enough:
/// [`members`], and all nodes hold the same records.
pub fn settled(agents: &Agents) -> Option<String> {
    if let Some(broken) = members(agents) {
        return Some(broken);
    }
    for n in (0..agents.len()).filter(|&n| runs(agents, n)) {
        let agent = agents.agent(n)?;
        for other in (0..agents.len()).filter(|&n| runs(agents, n)) {
            let id = agents.id(other);
            let held = agent.record(&id);
            let own = agents.agent(other).and_then(|agent| agent.record(&id));
            if held != own {
                return Some(format!(
                    "node {n} holds another record of {other} than it published"
                ));
            }
        }
    }
    let all_run = (0..agents.len()).all(|n| runs(agents, n));
    let mut summaries = (0..agents.len()).filter_map(|n| Some(agents.agent(n)?.summary()));
    let first = summaries.next();
    if all_run && summaries.any(|summary| Some(summary) != first) {
        return Some("two nodes hold different records".to_owned());
    }
    None
}
