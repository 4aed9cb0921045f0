//! Report of the demonstration, as text.

use serde_json::Value;

use super::super::links::table;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// The addresses that the host sees, for both families.
pub(super) fn seen(sources: &Value) -> String {
    let [v4, v6] = [0, 1].map(|family| sources[family].as_str());
    match (v4, v6) {
        (Some(v4), Some(v6)) => format!("the host sees {v4} and {v6}"),
        (Some(source), None) => format!("the host sees {source}, and is not reached over IPv6"),
        (None, Some(source)) => format!("the host sees {source}, and is not reached over IPv4"),
        (None, None) => "the host is not reached".to_owned(),
    }
}

/// The result as lines.
pub(super) fn lines(result: &Value) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (index, family) in FAMILIES.iter().enumerate() {
        let download = &result["downloads"][index];
        lines.push(format!(
            "download   {:.0} MB over {family} by {}: {:.1} Mbit/s, every byte right, longest stall {:.0} ms{}",
            number(&download["bytes"]) / 1e6,
            download["program"].as_str().unwrap_or_default(),
            number(&download["mbps"]),
            number(&download["longest_stall_ms"]),
            if index == 0 { ", with the cut" } else { "" },
        ));
    }
    for (index, family) in FAMILIES.iter().enumerate() {
        let alone = &result["messages_alone"][index];
        let beside = &result["messages_beside"][index];
        lines.push(format!(
            "messages   {family} round trips, alone: median {:.0} ms, longest {:.0} ms; beside the download: median {:.0} ms, 99 % within \
             {:.0} ms, longest {:.0} ms ({} answered, {} lost)",
            number(&alone["p50_ms"]),
            number(&alone["max_ms"]),
            number(&beside["p50_ms"]),
            number(&beside["p99_ms"]),
            number(&beside["max_ms"]),
            beside["answered"],
            beside["missing"],
        ));
    }
    lines.push(format!(
        "end        Ctrl-C at the laptop takes routes and rules back: {}",
        seen(&result["source"]["after"])
    ));
    lines.extend(table(&result["paths"]));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_family_that_is_not_reached_is_named() {
        let text = seen(&json!(["10.95.0.1", null]));
        assert_eq!(
            text,
            "the host sees 10.95.0.1, and is not reached over IPv6"
        );
        let text = seen(&json!(["10.77.0.2", "fd77:616e::2"]));
        assert_eq!(text, "the host sees 10.77.0.2 and fd77:616e::2");
    }
}
