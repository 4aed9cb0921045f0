//! Captured cycles of sessions that plan: what they could send, where, and what they decided.

use std::time::Duration;

use anabranch_net::{Host, SessionReport};
use serde_json::{Value, json};

use super::promises::sessions;

/// Time to wait for a plan, unless the request names another.
const WITHIN: Duration = Duration::from_secs(10);
/// Longest time.
const WITHIN_MAX: Duration = Duration::from_secs(60);
/// Time between two looks.
const EVERY: Duration = Duration::from_millis(10);

/// The first plan that a session makes in which so many ADUs wait. One that comes too late is kept until the next request.
pub(super) async fn captured(
    host: &Host,
    session: Option<&str>,
    adus: Option<usize>,
    within_ms: Option<u64>,
) -> Result<Vec<Value>, String> {
    let (planning, others): (Vec<_>, Vec<_>) = sessions(host, session)?
        .into_iter()
        .partition(|report| capture(host, report, adus) == Some(true));
    if planning.is_empty() {
        return Err(not_planning(&others));
    }
    let within = within_ms.map_or(WITHIN, Duration::from_millis);
    let within = within.min(WITHIN_MAX);
    let taken = tokio::time::timeout(within, async {
        loop {
            for report in &planning {
                if let Some(document) = host.take_cycle(report.stats.session) {
                    return (report, document);
                }
            }
            tokio::time::sleep(EVERY).await;
        }
    });
    let Ok((report, document)) = taken.await else {
        return Err(format!(
            "no plan was made within {} s in which {} waited; is anything sent that objectives are about?",
            within.as_secs_f64(),
            match adus.unwrap_or(1) {
                0 | 1 => "an ADU".to_owned(),
                several => format!("{several} ADUs"),
            }
        ));
    };
    let schedule = serde_json::to_value(document).map_err(|error| error.to_string())?;
    Ok(vec![json!({
        "kind": "cycle",
        "session": report.stats.session.to_string(),
        "peer": report.stats.peer.to_string(),
        "policy": report.stats.policy.to_string(),
        "schedule": schedule,
    })])
}

fn capture(host: &Host, report: &SessionReport, adus: Option<usize>) -> Option<bool> {
    host.capture_cycle(report.stats.session, adus.unwrap_or(1))
}

fn not_planning(sessions: &[SessionReport]) -> String {
    let under = |report: &SessionReport| {
        format!(
            "{} has the policy {}",
            report.stats.session, report.stats.policy
        )
    };
    let under: Vec<String> = sessions.iter().map(under).collect();
    format!(
        "nothing is planned: {}, and plans are made by assign with objectives over ADUs, and by random_walk; see `anabranch objective list`",
        under.join(", ")
    )
}
