//! Users of the local interface in the configuration: who may attach, in addition to the one who runs the node and root, and the limits
//! of each.

use std::fmt;

use anabranch_base::Rate;
use anabranch_session::{Priority, Share};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};

use super::{ConfigError, parsed, refused};
use crate::spec::priority;

/// A user of this system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LocalUser {
    /// By number.
    Uid(u32),
    /// By name, as in `/etc/passwd`.
    Name(String),
}

/// A user, as in the file: a name, a number, or a table with limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalUserLayer {
    /// The user.
    pub user: LocalUser,
    /// Limits, as texts with units.
    #[serde(flatten)]
    pub limits: LocalLimitsLayer,
}

/// Limits of a user, as texts with units; a key that is absent sets none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalLimitsLayer {
    /// Highest priority of streams: `scavenger`, `bulk`, `normal`, `urgent`, or 0 to 255.
    pub priority_max: Option<String>,
    /// Rate of all promises together that streams ask for.
    pub promised_rate_max: Option<String>,
    /// Share of what can be promised that all streams together may have.
    pub promised_share_max: Option<String>,
    /// Open streams.
    pub streams_max: Option<u32>,
    /// Rate at which all streams together may send.
    pub rate_max: Option<String>,
    /// Objectives of sessions may be changed. Default: only where there are no limits.
    pub objectives: Option<bool>,
}

/// Limits of all applications of a user together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalLimits {
    /// Highest priority of streams that they open.
    pub priority_max: Priority,
    /// Rate of all promises that their streams ask for; `None`: any.
    pub promised_rate_max: Option<Rate>,
    /// Share of what can be promised that their streams may have; `None`: all of it.
    pub promised_share_max: Option<Share>,
    /// Streams that are open at a time; `None`: any number.
    pub streams_max: Option<u32>,
    /// Rate at which they may send; `None`: any.
    pub rate_max: Option<Rate>,
    /// They may change the objectives of sessions, which hold for the streams of everybody.
    pub may_change_objectives: bool,
}

impl LocalLimits {
    /// No limits.
    pub const NONE: Self = Self {
        priority_max: Priority(u8::MAX),
        promised_rate_max: None,
        promised_share_max: None,
        streams_max: None,
        rate_max: None,
        may_change_objectives: true,
    };
}

/// Keys of a user in a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    user: LocalUser,
    priority_max: Option<String>,
    promised_rate_max: Option<String>,
    promised_share_max: Option<String>,
    streams_max: Option<u32>,
    rate_max: Option<String>,
    objectives: Option<bool>,
}

impl<'de> Deserialize<'de> for LocalUser {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let layer = LocalUserLayer::deserialize(deserializer)?;
        if layer.limits == LocalLimitsLayer::default() {
            Ok(layer.user)
        } else {
            Err(D::Error::custom("give the name of a user, or a number"))
        }
    }
}

impl<'de> Deserialize<'de> for LocalUserLayer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyForm)
    }
}

struct AnyForm;

impl<'de> Visitor<'de> for AnyForm {
    type Value = LocalUserLayer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a user, a number, or a table with user = … and limits")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<LocalUserLayer, E> {
        Ok(LocalUser::Name(name.to_owned()).into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<LocalUserLayer, E> {
        let uid = u32::try_from(number);
        let uid = uid.map_err(|_| E::custom(format!("{number} is not the number of a user")))?;
        Ok(LocalUser::Uid(uid).into())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LocalUserLayer, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(LocalUserLayer {
            user: table.user,
            limits: LocalLimitsLayer {
                priority_max: table.priority_max,
                promised_rate_max: table.promised_rate_max,
                promised_share_max: table.promised_share_max,
                streams_max: table.streams_max,
                rate_max: table.rate_max,
                objectives: table.objectives,
            },
        })
    }
}

impl From<LocalUser> for LocalUserLayer {
    fn from(user: LocalUser) -> Self {
        Self {
            user,
            limits: LocalLimitsLayer::default(),
        }
    }
}

impl LocalUserLayer {
    /// Checks the user and the limits.
    pub(super) fn resolve(self) -> Result<(LocalUser, LocalLimits), ConfigError> {
        if self.user == LocalUser::Name(String::new()) {
            return Err(refused(
                "local_users",
                "",
                "give the name of a user, or a number",
            ));
        }
        Ok((self.user, self.limits.resolve()?))
    }
}

impl LocalLimitsLayer {
    fn resolve(&self) -> Result<LocalLimits, ConfigError> {
        let rate = |key: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => match parsed::<Rate>(text) {
                Ok(rate) => Ok(Some(rate)),
                Err(why) => Err(refused(&format!("local_users.{key}"), text, why)),
            },
        };
        let mut limits = LocalLimits {
            promised_rate_max: rate("promised_rate_max", &self.promised_rate_max)?,
            rate_max: rate("rate_max", &self.rate_max)?,
            streams_max: self.streams_max,
            ..LocalLimits::NONE
        };
        if let Some(text) = &self.promised_share_max {
            let share = text.parse::<Share>();
            let share = share
                .map_err(|why| refused("local_users.promised_share_max", text, why.to_string()))?;
            limits.promised_share_max = Some(share);
        }
        if let Some(text) = &self.priority_max {
            limits.priority_max =
                priority(text).map_err(|why| refused("local_users.priority_max", text, why))?;
        }
        if let (Some(Rate::ZERO), Some(text)) = (limits.rate_max, &self.rate_max) {
            let why = "nothing could be sent; give a rate above 0, or leave the user out";
            return Err(refused("local_users.rate_max", text, why));
        }
        let is_free = limits == LocalLimits::NONE;
        limits.may_change_objectives = self.objectives.unwrap_or(is_free);
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;

    fn users(text: &str) -> Result<Vec<(LocalUser, LocalLimits)>, ConfigError> {
        let layer = Layer::from_toml(text)?;
        let users = layer.local_users.unwrap().into_iter();
        users.map(LocalUserLayer::resolve).collect()
    }

    #[test]
    fn users_have_limits_or_none() {
        let text = r#"local_users = ["ada", 7, { user = "sensors", priority_max = "normal", promised_rate_max = "5 Mbit/s",
            promised_share_max = "40 %", streams_max = 64, rate_max = "20 Mbit/s" }, { user = 8, objectives = false }]"#;
        let users = users(text).unwrap();
        let ada = LocalUser::Name("ada".to_owned());
        assert_eq!(users[0], (ada, LocalLimits::NONE));
        assert_eq!(users[1], (LocalUser::Uid(7), LocalLimits::NONE));
        let sensors = LocalLimits {
            priority_max: Priority::NORMAL,
            promised_rate_max: Some(Rate::from_mbps(5)),
            promised_share_max: Share::new(0.4),
            streams_max: Some(64),
            rate_max: Some(Rate::from_mbps(20)),
            may_change_objectives: false,
        };
        assert_eq!(users[2].1, sensors);
        assert!(!users[3].1.may_change_objectives);
        // The same as tables.
        let text = "[[local_users]]\nuser = \"sensors\"\npriority_max = \"128\"\nobjectives = true";
        let tables = self::users(text).unwrap();
        assert_eq!(tables[0].1.priority_max, Priority(128));
        assert!(tables[0].1.may_change_objectives);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("local_users = [-1]", "-1"),
            ("local_users = [\"\"]", "name of a user"),
            ("local_users = [true]", "a table with user"),
            ("local_users = [{ streams_max = 1 }]", "user"),
            ("local_users = [{ user = 1, stream_max = 1 }]", "stream_max"),
            (
                "local_users = [{ user = 1, rate_max = \"fast\" }]",
                "local_users.rate_max",
            ),
            (
                "local_users = [{ user = 1, rate_max = \"0 bit/s\" }]",
                "above 0",
            ),
            (
                "local_users = [{ user = 1, promised_share_max = \"5 Mbit/s\" }]",
                "local_users.promised_share_max",
            ),
            (
                "local_users = [{ user = 1, promised_share_max = \"0 %\" }]",
                "above 0 %",
            ),
            (
                "local_users = [{ user = 1, promised_share_max = \"101 %\" }]",
                "up to 100 %",
            ),
            (
                "local_users = [{ user = 1, promised_share_max = 40 }]",
                "promised_share_max",
            ),
            (
                "local_users = [{ user = 1, priority_max = \"top\" }]",
                "local_users.priority_max",
            ),
        ] {
            let error = users(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
