//! Requests to the node that a page may send.

use serde_json::Value;

/// Requests that only look; the values of `show` of the control socket.
pub const LOOKING: [&str; 11] = [
    "status",
    "paths",
    "streams",
    "rights",
    "flows",
    "flow_rules",
    "admit",
    "explain",
    "promise_history",
    "objectives",
    "provided",
];

/// Requests that only look, and take part in traffic or need time.
pub const MEASURING: [&str; 2] = ["overlay", "ping"];

/// Requests that change something; each is logged. The page asks its user before it sends one.
pub const ACTING: [&str; 6] = [
    "objective_add",
    "objective_remove",
    "path_in",
    "path_out",
    "reload",
    "stream_set",
];

/// A request that the node may be asked.
#[derive(Debug, PartialEq)]
pub(crate) struct Permitted {
    /// The request on one line.
    pub(crate) line: String,
    pub(crate) is_act: bool,
}

/// The request in the body of a page's request.
///
/// # Errors
/// It is no request that a page may send.
pub(crate) fn permitted(body: &[u8]) -> Result<Permitted, String> {
    let request: Value =
        serde_json::from_slice(body).map_err(|error| format!("not a request: {error}"))?;
    let Some(show) = request.get("show").and_then(Value::as_str) else {
        return Err("not a request: it has no text `show`".to_owned());
    };
    let is_act = ACTING.contains(&show);
    if !is_act && !LOOKING.contains(&show) && !MEASURING.contains(&show) {
        return Err("the console does not pass on this request".to_owned());
    }
    Ok(Permitted {
        line: request.to_string(),
        is_act,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_becomes_one_line() {
        let asked = permitted(b"{\n \"show\":\r\"objective_add\", \"text\": \"a\\nb\"}").unwrap();
        assert_eq!(asked.line, r#"{"show":"objective_add","text":"a\nb"}"#);
        assert!(asked.is_act);
        assert!(!permitted(br#"{"show":"paths"}"#).unwrap().is_act);
    }

    #[test]
    fn others_are_refused() {
        for body in [
            &b""[..],
            b"[]",
            b"{}",
            b"null",
            b"{\"show\":7}",
            b"{\"show\":\"overlay_paths\"}",
            b"{\"show\":\"\"}",
            b"\xff",
        ] {
            assert!(permitted(body).is_err(), "{body:?}");
        }
    }
}
