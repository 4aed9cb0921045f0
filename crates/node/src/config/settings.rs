//! The settings in force as they were given: each key with its value and the source of the value.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

use super::{
    ConfigError, Layer, NodeConfig, host_name,
    mistake::{EXAMPLE, header, line_at, syntax},
};
use crate::ticket::Ticket;

/// Tables, in the order in which they are shown. Those that are in a file several times end with `*`.
const TABLES: [&str; 17] = [
    "",
    "session",
    "channel",
    "cost*",
    "interface*",
    "stream*",
    "peer*",
    "export*",
    "forward*",
    "rule*",
    "gateway",
    "gateway.socks*",
    "tunnel.server",
    "tunnel.client",
    "rendezvous",
    "overlay",
    "overlay.member*",
];
/// Keys that name an entry of a table that is there several times, the first that it has.
const NAMES: [&str; 5] = ["name", "on", "label", "local", "remote"];

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command.
    Flag,
    /// This variable of the environment.
    Environment(String),
    /// A line of the file.
    File {
        /// Its number, from 1.
        line: usize,
    },
    /// None: it is the default.
    Default,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Table, such as `session`; empty: none.
    pub table: String,
    /// Number and name of the entry, in a table that is there several times.
    pub entry: Option<(usize, String)>,
    /// The key.
    pub key: String,
    /// Source of the value.
    pub origin: Origin,
    value: Value,
}

/// A key whose value differs between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, as [`Setting::path`].
    pub key: String,
    /// Value before, without secrets; `None`: it had none.
    pub before: Option<String>,
    /// Value now, without secrets; `None`: it has none.
    pub now: Option<String>,
}

/// A setting as texts, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownSetting {
    /// Table, such as `session`; empty: none.
    pub table: String,
    /// Number of the entry, in a table that is there several times.
    pub entry: Option<u64>,
    /// The key.
    pub key: String,
    /// Value, in TOML.
    pub value: String,
    /// Source of the value, in words.
    pub from: String,
}

impl ShownSetting {
    /// TOML with the source of each value as a comment. Settings of one table follow each other.
    pub fn to_toml(all: impl Iterator<Item = Self>) -> String {
        let mut text = String::new();
        let mut place = (String::new(), None);
        for setting in all {
            let own = (setting.table, setting.entry);
            if own != place {
                text.push('\n');
                text.push_str(&match own.1 {
                    Some(_) => format!("[[{}]]\n", own.0),
                    None => format!("[{}]\n", own.0),
                });
                place = own;
            }
            let line = format!("{} = {}  # {}\n", setting.key, setting.value, setting.from);
            text.push_str(&line);
        }
        text
    }
}

/// All settings of a node, those that have their default included.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    all: Vec<Setting>,
    file: Option<PathBuf>,
}

impl Setting {
    /// The key with its table, such as `session.policy` or `peer.studio.may`.
    pub fn path(&self) -> String {
        let parts = [
            self.table.as_str(),
            self.entry.as_ref().map_or("", |(_, name)| name),
            &self.key,
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(".")
    }

    /// The value, without secrets.
    pub fn value(&self) -> Value {
        without_secrets(&self.value)
    }

    /// Source in words, such as `node.toml:3` for a file of this name.
    pub fn origin_in(&self, file: Option<&Path>) -> String {
        match &self.origin {
            Origin::Flag => "flag".to_owned(),
            Origin::Environment(name) => format!("environment, {name}"),
            Origin::File { line } => match file.and_then(Path::file_name) {
                Some(name) => format!("{}:{line}", name.to_string_lossy()),
                None => format!("line {line}"),
            },
            Origin::Default => "default".to_owned(),
        }
    }
}

impl Settings {
    /// The settings of a node: `flags` over `environment` over the `text` of a file over the defaults that `config`, which was
    /// resolved from them, has.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn read(
        (text, file): (&str, Option<&Path>),
        environment: &Layer,
        flags: &Layer,
        config: &NodeConfig,
    ) -> Result<Self, ConfigError> {
        let wrong = |error| syntax(text, &error);
        let table: Table = toml::from_str(text).map_err(wrong)?;
        let spans = DeTable::parse(text).map_err(wrong)?;
        let mut all = Vec::new();
        collect(&mut all, &table, Some((spans.get_ref(), text)), "");
        let variable = |key: &str| Origin::Environment(format!("ANABRANCH_{}", key.to_uppercase()));
        over(&mut all, given(environment), variable);
        over(&mut all, given(flags), |_| Origin::Flag);
        defaults(&mut all, config);
        all.sort_by_key(|setting| {
            let place = TABLES
                .iter()
                .position(|table| table.trim_end_matches('*') == setting.table);
            (place, setting.entry.as_ref().map(|(number, _)| *number))
        });
        Ok(Self {
            all,
            file: file.map(Path::to_owned),
        })
    }

    /// Every setting, in the order of the example file's tables.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.all.iter()
    }

    /// The file that they were read from.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// TOML with the source of each value as a comment. A node would take it as its configuration, but for secrets, which it lacks.
    pub fn to_toml(&self) -> String {
        let lines = self.all.iter().map(|setting| ShownSetting {
            table: setting.table.clone(),
            entry: setting.entry.as_ref().map(|(number, _)| *number as u64),
            key: setting.key.clone(),
            value: setting.value().to_string(),
            from: setting.origin_in(self.file()),
        });
        ShownSetting::to_toml(lines)
    }

    /// Keys that have other values in `now`, in the order of their names.
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let by_path = |settings: &Self| -> BTreeMap<String, Value> {
            let mut all = BTreeMap::new();
            for setting in &settings.all {
                let mut path = setting.path();
                while all.contains_key(&path) {
                    path.push('\'');
                }
                all.insert(path, setting.value.clone());
            }
            all
        };
        let (before, now) = (by_path(self), by_path(now));
        let mut keys: Vec<&String> = before.keys().chain(now.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let shown = |value: Option<&Value>| value.map(|value| without_secrets(value).to_string());
        let changed = keys
            .into_iter()
            .filter(|key| before.get(*key) != now.get(*key));
        changed
            .map(|key| Change {
                key: key.clone(),
                before: shown(before.get(key)),
                now: shown(now.get(key)),
            })
            .collect()
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        write!(
            f,
            "{}: {} → {}",
            self.key,
            shown(&self.before),
            shown(&self.now)
        )
    }
}

/// True if the file may have this table several times.
fn is_list(path: &str) -> bool {
    TABLES
        .iter()
        .any(|table| table.strip_suffix('*') == Some(path))
}

fn is_table(path: &str) -> bool {
    path == "tunnel" || TABLES.contains(&path)
}

/// Adds the settings of a table; `spans` has the places of its keys in a text.
fn collect(all: &mut Vec<Setting>, table: &Table, spans: Option<(&DeTable<'_>, &str)>, path: &str) {
    for (key, value) in table {
        let below = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        let entry = spans.and_then(|(spans, text)| {
            let found = spans.iter().find(|(name, _)| name.get_ref() == key);
            found.map(|(name, value)| (name, value, text))
        });
        match value {
            Value::Table(own) if is_table(&below) => {
                let spans =
                    entry.and_then(|(_, value, text)| Some((value.get_ref().as_table()?, text)));
                collect(all, own, spans, &below);
            }
            Value::Array(entries) if is_list(&below) => {
                for (number, own) in entries.iter().enumerate() {
                    let Value::Table(own) = own else { continue };
                    let spans = entry.and_then(|(_, value, text)| {
                        let entries = value.get_ref().as_array()?;
                        Some((entries.get(number)?.get_ref().as_table()?, text))
                    });
                    let named = NAMES.iter().find_map(|name| own.get(*name)?.as_str());
                    let name = named.map_or_else(|| (number + 1).to_string(), str::to_owned);
                    for (key, value) in own {
                        all.push(Setting {
                            table: below.clone(),
                            entry: Some((number, name.clone())),
                            key: key.clone(),
                            origin: line_of_key(spans, key),
                            value: value.clone(),
                        });
                    }
                }
            }
            value => all.push(Setting {
                table: path.to_owned(),
                entry: None,
                key: key.clone(),
                origin: line_of_key(spans, key),
                value: value.clone(),
            }),
        }
    }
}

fn line_of_key(spans: Option<(&DeTable<'_>, &str)>, key: &str) -> Origin {
    let line = spans.and_then(|(spans, text)| {
        let (name, _): (_, &Spanned<DeValue<'_>>) =
            spans.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(line_at(text, name.span().start))
    });
    line.map_or(Origin::Default, |line| Origin::File { line })
}

/// Settings that a layer contains.
fn given(layer: &Layer) -> Vec<Setting> {
    let mut all = Vec::new();
    // Every value of a layer is one of TOML.
    let table = Table::try_from(layer).unwrap_or_default();
    collect(&mut all, &table, None, "");
    all
}

/// Puts settings over others; a table that may be there several times is replaced as a whole.
fn over(all: &mut Vec<Setting>, upper: Vec<Setting>, origin: impl Fn(&str) -> Origin) {
    for table in TABLES.iter().filter_map(|table| table.strip_suffix('*')) {
        if upper.iter().any(|setting| setting.table == table) {
            all.retain(|setting| setting.table != table);
        }
    }
    for mut setting in upper {
        setting.origin = origin(match &setting.entry {
            Some(_) => &setting.table,
            None => &setting.key,
        });
        let is_same = |other: &Setting| {
            setting.entry.is_none() && (&other.table, &other.key) == (&setting.table, &setting.key)
        };
        all.retain(|other| !is_same(other));
        all.push(setting);
    }
}

/// Adds the keys that are absent and have a default.
fn defaults(all: &mut Vec<Setting>, config: &NodeConfig) {
    let path = |path: Option<&Path>| {
        Some(Value::String(
            path.map_or_else(String::new, |path| path.display().to_string()),
        ))
    };
    let has = |all: &[Setting], table: &str, key: &str| {
        all.iter()
            .any(|setting| (setting.table.as_str(), setting.key.as_str()) == (table, key))
    };
    let listens = has(all, "", "listen");
    let local = config.local.as_ref();
    let own = [
        (
            "name",
            config.name.clone().or_else(host_name).map(Value::String),
        ),
        ("key", path(Some(&config.key))),
        ("interfaces", (!listens).then(|| Value::Array(Vec::new()))),
        ("port", (!listens).then_some(Value::Integer(0))),
        ("control", path(Some(&config.control))),
        ("local", path(local.map(|local| local.path.as_path()))),
        (
            "local_token",
            local
                .and_then(|local| local.tcp.as_ref())
                .and_then(|tcp| path(Some(&tcp.token))),
        ),
        ("ledger", path(Some(&config.costs.ledger))),
        ("promise_record", path(config.promise_record.as_deref())),
        ("evidence", path(config.evidence.as_deref())),
        ("qlog", path(config.qlog.as_deref())),
    ];
    let own = own
        .into_iter()
        .filter_map(|(key, value)| Some(("", key.to_owned(), value?)));
    let rendezvous = config
        .rendezvous
        .iter()
        .map(|_| ("rendezvous", "strangers".to_owned(), Value::Boolean(false)));
    let shown = of_example();
    for (table, key, value) in own.chain(shown).chain(rendezvous) {
        if !has(all, table, &key) {
            all.push(Setting {
                table: table.to_owned(),
                entry: None,
                key,
                origin: Origin::Default,
                value,
            });
        }
    }
}

/// Defaults that the example file shows as values.
fn of_example() -> Vec<(&'static str, String, Value)> {
    let mut all = Vec::new();
    let mut table = "";
    for line in EXAMPLE.lines() {
        if let Some(name) = header(line).filter(|_| !line.starts_with("# ")) {
            table = name;
        }
        let bare = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
        let Some((key, value)) = bare.and_then(|bare| bare.split_once(" = ")) else {
            continue;
        };
        let is_default = matches!(table, "session" | "channel" | "gateway") && key != "objectives";
        let parsed = format!("{key} = {value}").parse::<Table>();
        if let (true, Ok(mut parsed)) = (is_default, parsed)
            && let Some(value) = parsed.remove(key)
        {
            all.push((table, key.to_owned(), value));
        }
    }
    all
}

/// A value in which the secrets of tickets are replaced.
fn without_secrets(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(match text.parse::<Ticket>() {
            Ok(ticket) if ticket.secret.is_some() => {
                format!(
                    "{} (without its secret)",
                    Ticket {
                        secret: None,
                        ..ticket
                    }
                )
            }
            _ => text.clone(),
        }),
        Value::Array(values) => Value::Array(values.iter().map(without_secrets).collect()),
        Value::Table(table) => {
            let shown = table
                .iter()
                .map(|(key, value)| (key.clone(), without_secrets(value)));
            Value::Table(shown.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"port = 7
[session]
policy = "ecf"

[[peer]]
name = "ship"
node = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
may = ["call"]
[[cost]]
on = "wwan0"
price = "free"
[rendezvous]
"#;

    fn variable(name: &str) -> Option<String> {
        let all = [
            ("HOME", "/home/ada"),
            ("ANABRANCH_POLICY", "blest"),
            ("ANABRANCH_MODEL", "lte"),
        ];
        let found = all.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_owned())
    }

    fn read(
        text: &str,
        flags: &Layer,
        variable: impl Fn(&str) -> Option<String>,
    ) -> (Settings, NodeConfig) {
        let environment = Layer::from_environment(&variable).unwrap();
        let file = Layer::from_toml(text).unwrap();
        let layer = flags.clone().over(environment.clone()).over(file);
        let config = layer.resolve(variable).unwrap();
        let file = Some(Path::new("/etc/node.toml"));
        (
            Settings::read((text, file), &environment, flags, &config).unwrap(),
            config,
        )
    }

    fn home(name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/ada".to_owned())
    }

    #[test]
    fn each_value_has_its_source() {
        let mut flags = Layer::default();
        flags.channel.model = Some("generic".to_owned());
        flags.cost = Some(vec![
            super::super::CostLayer::from_text("eth0=free").unwrap(),
        ]);
        let (settings, _) = read(FILE, &flags, variable_of_known);
        let text = settings.to_toml();
        for line in [
            "port = 7  # node.toml:1\n",
            "policy = \"blest\"  # environment, ANABRANCH_POLICY\n",
            "model = \"generic\"  # flag\n",
            "may = [\"call\"]  # node.toml:8\n",
            "key = \"/home/ada/.config/anabranch/key\"  # default\n",
            "timeout = \"300 s\"  # default\n",
            "on = \"eth0\"  # flag\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("wwan0"), "{text}");
    }

    fn variable_of_known(name: &str) -> Option<String> {
        variable(name).filter(|value| value != "lte")
    }

    /// The text that is shown is a configuration that means the same.
    #[test]
    fn what_is_shown_can_be_read_again() {
        let example = include_str!("../../node.example.toml");
        for text in [
            FILE,
            "",
            example,
            "listen = [\"127.0.0.1:1\"]\nlocal = \"\"\n",
        ] {
            let (settings, mut config) = read(text, &Layer::default(), home);
            let shown = settings.to_toml();
            let again = Layer::from_toml(&shown).unwrap_or_else(|error| panic!("{error}\n{shown}"));
            let mut again = again
                .resolve(home)
                .unwrap_or_else(|error| panic!("{error}\n{shown}"));
            // The default name is that of the host, which is stated.
            config.name = None;
            again.name = None;
            assert_eq!(format!("{config:?}"), format!("{again:?}"));
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let ticket = Ticket {
            node: anabranch_session::SecretKey::from_seed([9; 32]).node_id(),
            secret: Some(crate::ticket::Secret([5; 16])),
            addresses: vec!["192.0.2.1:4433".parse().unwrap()],
            hosts: Vec::new(),
            via: None,
        };
        let (settings, _) = read(&format!("via = \"{ticket}\"\n"), &Layer::default(), home);
        let secret = ticket.to_string().split(':').nth(2).unwrap().to_owned();
        assert!(secret.len() > 20);
        let (shown, none) = (settings.to_toml(), Settings::default());
        assert!(
            !shown.contains(&secret) && shown.contains("without its secret"),
            "{shown}"
        );
        let changes = none.changes(&settings);
        assert!(changes.iter().any(|change| change.key == "via"));
        assert!(
            !changes
                .iter()
                .any(|change| change.to_string().contains(&secret))
        );
    }

    #[test]
    fn changes_name_the_key_and_both_values() {
        let (before, _) = read(FILE, &Layer::default(), home);
        let text = FILE
            .replace("port = 7\n", "")
            .replace("ecf", "assign")
            .replace("\"call\"", "");
        let (now, _) = read(&text, &Layer::default(), home);
        let changes: Vec<String> = before
            .changes(&now)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            changes,
            [
                "peer.ship.may: [\"call\"] → []",
                "port: 7 → 0",
                "session.policy: \"ecf\" → \"assign\"",
            ]
        );
        assert_eq!(before.changes(&before), []);
    }
}
