//! What must hold among agents.

use anabranch_overlay::State;

use super::Agents;

/// The first broken rule that holds at all times; `None` when all hold.
///
/// No stranger is in the table of anybody else, whatever it says.
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

/// The first broken rule of those that hold when the network was whole and quiet for long enough.
///
/// Every running node that is on the lists counts every other one as alive and nobody else, and all hold the
/// same records.
pub fn settled(agents: &Agents) -> Option<String> {
    let runs = |n: usize| agents.agent(n).is_some() && !agents.is_stranger(n);
    let mut first = None;
    for n in (0..agents.len()).filter(|&n| runs(n)) {
        let agent = agents.agent(n)?;
        for other in (0..agents.len()).filter(|&n| !agents.is_stranger(n)) {
            let state = agent
                .member(&agents.id(other), agents.now())
                .map(|view| view.state);
            let is_right = match state {
                Some(State::Alive) => runs(other),
                Some(State::Unknown | State::Down | State::Left) => !runs(other),
                Some(State::Suspect) | None => false,
            };
            if !is_right {
                let runs = runs(other);
                return Some(format!(
                    "node {n} holds {other} (runs: {runs}) for {state:?}"
                ));
            }
        }
        for other in (0..agents.len()).filter(|&n| runs(n)) {
            let held = agent.record(&agents.id(other));
            let own = agents
                .agent(other)
                .and_then(|agent| agent.record(&agents.id(other)));
            if held != own {
                return Some(format!(
                    "node {n} holds another record of {other} than it published"
                ));
            }
        }
        let summary = agent.summary();
        let (of, expected) = *first.get_or_insert((n, summary));
        if summary != expected && (0..agents.len()).all(runs) {
            return Some(format!("nodes {n} and {of} know different things"));
        }
    }
    None
}
