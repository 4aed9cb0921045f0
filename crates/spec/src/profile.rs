//! Profiles: documented presets of a stream's spec, by name.

use std::{fmt, str::FromStr, time::Duration};

use crate::{DropOrder, Order, PathRule, Preferences, Priority, Selector, StreamSpec, Treatment};

/// A kind of traffic, with the spec that suits it; a field that is given explicitly replaces the preset's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Keystrokes, queries, remote control: everything arrives, in order, before bulk data, on short queues.
    Interactive,
    /// Live video and sound: worthless after 300 ms, repaired until then, in any order.
    Live,
    /// Files: everything arrives, in order, when nothing more important waits; metered paths as a backup.
    Bulk,
    /// Backups and updates: only what nobody else wants, never on metered paths.
    Background,
    /// Commands that must not be late: every packet on every path.
    Redundant,
    /// Newest values: a value is worthless after a second and not repaired; of those that wait, the oldest are dropped.
    Telemetry,
}

/// The text names no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a profile; choose one of {names}", names = Profile::ALL.map(Profile::name).join(", "))]
pub struct ParseProfileError(String);

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 6] = [
        Self::Interactive,
        Self::Live,
        Self::Bulk,
        Self::Background,
        Self::Redundant,
        Self::Telemetry,
    ];

    /// Its name in configurations and commands.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Live => "live",
            Self::Bulk => "bulk",
            Self::Background => "background",
            Self::Redundant => "redundant",
            Self::Telemetry => "telemetry",
        }
    }

    /// The spec that it stands for, without a label.
    pub fn spec(self) -> StreamSpec {
        match self {
            Self::Interactive => StreamSpec {
                priority: Priority::URGENT,
                ..StreamSpec::default()
            },
            Self::Live => StreamSpec::live("", Duration::from_millis(300)),
            Self::Bulk => StreamSpec::bulk(""),
            Self::Background => StreamSpec {
                priority: Priority::SCAVENGER,
                paths: Preferences::new(vec![PathRule {
                    treatment: Treatment::Never,
                    selector: Selector::Metered,
                }])
                .expect("one rule is not too many"),
                ..StreamSpec::default()
            },
            Self::Redundant => StreamSpec {
                redundant: true,
                priority: Priority::URGENT,
                ..StreamSpec::default()
            },
            Self::Telemetry => StreamSpec {
                reliable: false,
                order: Order::Unordered,
                lifetime: Some(Duration::from_secs(1)),
                drop: Some(DropOrder::Oldest),
                ..StreamSpec::default()
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = ParseProfileError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.into_iter();
        all.find(|profile| profile.name() == text)
            .ok_or_else(|| ParseProfileError(text.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_valid_and_has_a_name_of_its_own() {
        for profile in Profile::ALL {
            assert_eq!(profile.spec().validate(), Ok(()), "{profile}");
            assert_eq!(profile.name().parse(), Ok(profile));
        }
        let error = "video".parse::<Profile>().unwrap_err().to_string();
        assert!(error.contains("interactive, live, bulk"), "{error}");
    }

    #[test]
    fn profiles_differ_in_what_they_are_for() {
        let spec = Profile::spec;
        assert!(spec(Profile::Interactive).is_latency_sensitive());
        assert!(spec(Profile::Live).is_latency_sensitive());
        assert!(!spec(Profile::Bulk).is_latency_sensitive());
        assert!(spec(Profile::Background).priority < spec(Profile::Bulk).priority);
        assert!(spec(Profile::Redundant).redundant);
        assert!(!spec(Profile::Telemetry).reliable);
    }
}
