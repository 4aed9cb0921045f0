//! `anabranch --version`: release, wire format, and parts that not every build has.

use std::sync::OnceLock;

use anabranch::net::session::wire;

/// Optional parts of this build.
const FEATURES: [(&str, bool); 4] = [
    ("console", cfg!(feature = "console")),
    ("demo", cfg!(feature = "demo")),
    ("video", cfg!(feature = "video")),
    ("s3", cfg!(feature = "s3")),
];

/// Printed by `--version`; `-V` prints the release only.
pub(crate) fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let names = FEATURES.iter().filter(|(_, is_in)| *is_in);
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let features = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        format!(
            "{}\nwire format: version {}, and older ones by negotiation\noptional parts: {features}",
            env!("CARGO_PKG_VERSION"),
            wire::VERSION,
        )
    })
}
