//! Files of objectives that apply to sessions from their start, and what a configuration provides to objectives.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use anabranch_net::{LocalDescription, Locals, Place};
use anabranch_session::hose::{
    Report, Vocabulary, compile, library,
    provided::{Item, Provided},
};

use crate::{config::NodeConfig, rights::Right, transfer};

/// A file of objectives cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectivesFileError {
    /// It cannot be read.
    #[error("cannot read objectives {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// It has errors.
    #[error("{}", report.render(&path.display().to_string()))]
    Text {
        /// The file.
        path: PathBuf,
        /// Errors, with their positions.
        report: Box<Report>,
    },
}

/// Names to which objectives of a node with this configuration can refer, as far as the configuration states it: labels and fields
/// of declared streams, labels of services and of transfers, technologies and attributes of interfaces. Forwards are the
/// gateway's, which knows their label.
pub fn provided(config: &NodeConfig) -> Provided {
    let mut provided = Provided::default();
    for stream in &config.streams {
        provided.add(Item::label(&stream.label));
        let fields = stream.fields.iter();
        provided.extend(fields.map(|(name, value)| Item::field(name, *value)));
    }
    for (_, rights) in config.rights.iter() {
        let services = rights.get(&Right::UseService).into_iter();
        provided.extend(services.flat_map(|terms| terms.services.iter().map(Item::label)));
    }
    if config.receive.is_some() {
        provided.add(Item::label(transfer::CONTROL_LABEL));
    }
    for (_, description) in &config.descriptions {
        description.provide(config.engine.model, &mut provided);
    }
    let is_described = |name: &String| {
        let mut descriptions = config.descriptions.iter();
        descriptions.any(|(place, _)| matches!(place, Place::Interface(known) if **known == **name))
    };
    let are_all_described = match &config.locals {
        Locals::Interfaces { only, .. } => !only.is_empty() && only.iter().all(is_described),
        Locals::Fixed(_) => false,
    };
    if !are_all_described {
        LocalDescription::default().provide(config.engine.model, &mut provided);
    }
    provided
}

/// Contents of the objective files of a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objectives {
    /// For every session.
    pub all: Option<Arc<str>>,
    /// For sessions with each peer, in the order of the peers.
    pub peers: Vec<Option<Arc<str>>>,
}

impl Objectives {
    /// Reads and checks the files that the configuration names. A field has the same type in all of them.
    ///
    /// # Errors
    /// The first file that cannot be read or has errors.
    pub fn read(config: &NodeConfig) -> Result<Self, ObjectivesFileError> {
        let mut vocabulary = Vocabulary::default();
        let mut read = |path: &Option<PathBuf>| {
            let path = path.as_deref();
            path.map(|path| read(path, &mut vocabulary)).transpose()
        };
        let all = read(&config.objectives)?;
        let peers = config.peers.iter().map(|peer| read(&peer.objectives));
        Ok(Self {
            all,
            peers: peers.collect::<Result<_, _>>()?,
        })
    }
}

/// Reads and checks a file of objectives; names of the library, such as `low_latency(voice, 150)`, stand for themselves, unless there is
/// such a file.
///
/// # Errors
/// It cannot be read, or has errors.
pub fn read_text(path: &Path) -> Result<Arc<str>, ObjectivesFileError> {
    read(path, &mut Vocabulary::default())
}

fn read(path: &Path, vocabulary: &mut Vocabulary) -> Result<Arc<str>, ObjectivesFileError> {
    let names = path.to_str().filter(|names| library::is_named(names));
    let text = match names.filter(|_| !path.exists()) {
        Some(names) => names.to_owned(),
        None => std::fs::read_to_string(path).map_err(|source| ObjectivesFileError::Read {
            path: path.to_owned(),
            source,
        })?,
    };
    match compile(&text, vocabulary) {
        Ok(_) => Ok(text.into()),
        Err(report) => Err(ObjectivesFileError::Text {
            path: path.to_owned(),
            report: Box::new(report),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;

    fn config(text: &str) -> NodeConfig {
        let home = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
        Layer::from_toml(text).unwrap().resolve(home).unwrap()
    }

    fn items(text: &str) -> Vec<Item> {
        provided(&config(text)).items().collect()
    }

    #[test]
    fn a_configuration_provides_what_it_declares() {
        use anabranch_session::hose::Type;

        let node = anabranch_session::SecretKey::from_seed([1; 32]).node_id();
        let text = format!(
            "interfaces = [\"wwan0\"]\nreceive = \"/srv\"\n\
             [[interface]]\non = \"wwan0\"\ntechnology = \"lte\"\nattributes = {{ operator = \"A\" }}\n\
             [[stream]]\nlabel = \"video\"\nfields = {{ frame_type = \"string\" }}\n\
             [[peer]]\nname = \"ship\"\nnode = \"{node}\"\n\
             may = [\"call\", {{ right = \"use-service\", services = [\"log/*\"] }}]"
        );
        let expected = [
            Item::label(transfer::CONTROL_LABEL),
            Item::label("log/*"),
            Item::label("video"),
            Item::field("frame_type", Type::String),
            Item::technology("lte"),
            Item::text("operator", "A"),
        ];
        assert_eq!(items(&text), expected);
    }

    #[test]
    fn names_of_the_library_may_stand_in_place_of_a_file() {
        let read = |text: &str| Objectives::read(&config(text));
        let names = "low_latency(voice, 150); avoid_metered";
        let named = read(&format!("[session]\nobjectives = \"{names}\"")).unwrap();
        assert_eq!(named.all.as_deref(), Some(names));
        let wrong = read("[session]\nobjectives = \"low_latency(voice)\"").unwrap_err();
        assert!(
            wrong.to_string().contains("write low_latency(label, ms)"),
            "{wrong}"
        );
        let missing = read("[session]\nobjectives = \"low_latency.hose\"").unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("cannot read objectives low_latency.hose"),
            "{missing}"
        );
    }

    #[test]
    fn interfaces_without_a_technology_have_those_that_are_recognised() {
        let recognised = ["cellular", "generic", "satellite"].map(Item::technology);
        assert_eq!(items(""), recognised);
        let other = items("[[interface]]\non = \"wwan0\"\ntechnology = \"lte\"");
        assert_eq!(other.len(), 4, "{other:?}");
        let fixed = items("[channel]\nmodel = \"satellite\"");
        assert_eq!(fixed, [Item::technology("satellite")]);
    }
}
