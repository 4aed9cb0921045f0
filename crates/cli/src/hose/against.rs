//! Sources for `anabranch hose check --against`: configurations and sessions of a running node.

use std::path::Path;

use anabranch::{config::Layer, control::Request, objectives};
use anabranch_gateway::wire::LABEL;
use anabranch_hose::provided::{Item, Provided};

use crate::{
    control::{self, Node},
    exit::Failure,
};

/// Everything that the sources provide together.
pub(super) async fn provided(sources: &[String], node: &Node) -> Result<Provided, Failure> {
    let mut provided = Provided::default();
    for source in sources {
        if is_session(source) {
            of_session(source, node, &mut provided).await?;
        } else {
            of_configuration(Path::new(source), &mut provided)?;
        }
    }
    Ok(provided)
}

/// True for the name of a session, such as `session-0` or `0`; anything else is a file.
fn is_session(source: &str) -> bool {
    let digits = source.strip_prefix("session-").unwrap_or(source);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

async fn of_session(name: &str, node: &Node, provided: &mut Provided) -> Result<(), Failure> {
    let session = Some(name.to_owned());
    let answer = node.ask(&Request::Provided { session }).await?;
    for row in control::rows(&answer) {
        // A later version may know more kinds.
        if let Ok(item) = serde_json::from_value(row.clone()) {
            provided.add(item);
        }
    }
    Ok(())
}

fn of_configuration(path: &Path, provided: &mut Provided) -> Result<(), Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::file(format!("cannot read {name}: {error}")))?;
    // Places for the node's files are of no interest here, so the environment need not name any.
    let anywhere = |variable: &str| (variable == "HOME").then(|| "/".to_owned());
    let config = Layer::from_toml(&text).and_then(|layer| layer.resolve(anywhere));
    let config = config.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    for item in objectives::provided(&config).items() {
        provided.add(item);
    }
    if !config.forwards.is_empty() {
        provided.add(Item::label(LABEL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_distinguished_from_files() {
        for session in ["0", "session-0", "session-12"] {
            assert!(is_session(session), "{session}");
        }
        for file in ["node.toml", "session-", "session-0.toml", "", "./0"] {
            assert!(!is_session(file), "{file}");
        }
    }
}
