//! Directories that peers may read, in the text form of the configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Layer, edit, missing, refused};

/// Most exports of a node.
pub const EXPORTS_MAX: usize = 256;

/// An exported directory, as given in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExportLayer {
    /// Name that peers use.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// True if names that begin with a dot are exported, too.
    #[serde(default)]
    pub hidden: bool,
}

/// An exported directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name that peers use.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// True if names that begin with a dot are exported, too.
    pub hidden: bool,
}

impl Layer {
    /// Directories that peers with the right to read exports may read.
    pub(super) fn exports(&self) -> Result<Vec<Export>, ConfigError> {
        let layers = self.export.as_deref().unwrap_or_default();
        if cfg!(not(unix)) && !layers.is_empty() {
            return Err(missing(
                "export",
                "directories cannot be exported on this system; leave the section out",
            ));
        }
        if layers.len() > EXPORTS_MAX {
            let reason = format!("a node has at most {EXPORTS_MAX} exports");
            return Err(refused("export", &layers.len().to_string(), reason));
        }
        let mut exports: Vec<Export> = Vec::new();
        for layer in layers {
            if !edit::is_peer_name(&layer.name) || layer.name.starts_with('.') {
                let reason = format!("{}; not a dot first", edit::NAME_FORM);
                return Err(refused("export.name", &layer.name, reason));
            }
            if exports.iter().any(|export| export.name == layer.name) {
                let reason = "another export has this name";
                return Err(refused("export.name", &layer.name, reason));
            }
            if !layer.path.is_absolute() {
                let reason = "give an absolute path, such as \"/srv/data\"";
                let path = layer.path.display().to_string();
                return Err(refused("export.path", &path, reason));
            }
            exports.push(Export {
                name: layer.name.clone(),
                path: layer.path.clone(),
                hidden: layer.hidden,
            });
        }
        Ok(exports)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::rights::Right;

    fn resolve(text: &str) -> Result<super::super::NodeConfig, String> {
        let layer = Layer::from_toml(text).map_err(|error| error.to_string())?;
        let config = layer.resolve(|name| (name == "HOME").then(|| "/home/ada".to_owned()));
        config.map_err(|error| error.to_string())
    }

    fn peer(may: &str) -> String {
        let node = anabranch_base::NodeId::from_public_key([1; 32]);
        format!("[[peer]]\nname = \"ada\"\nnode = \"{node}\"\nmay = [{may}]\n")
    }

    const EXPORT: &str = "[[export]]\nname = \"era\"\npath = \"/srv/era\"\n";

    #[test]
    fn nothing_is_exported_and_nobody_may_read_until_it_is_said() {
        assert_eq!(resolve("").unwrap().exports, []);
        let config = resolve(&format!("{EXPORT}{}", peer("\"call\""))).unwrap();
        assert_eq!(config.exports.len(), 1);
        assert!(!config.exports[0].hidden);
        assert_eq!(config.rights.with(Right::ReadExport).count(), 0);
        let right = "\"call\", { right = \"read-export\", exports = [\"era\"] }";
        let config = resolve(&format!("{EXPORT}{}", peer(right))).unwrap();
        let node = config.rights.with(Right::ReadExport).next().unwrap();
        let terms = config.rights.terms(&node, Right::ReadExport).unwrap();
        assert!(terms.include_export("era") && !terms.include_export("other"));
    }

    #[test]
    fn mistakes_are_named() {
        let right = "\"call\", { right = \"read-export\", exports = [\"era\"] }";
        for (text, words) in [
            (EXPORT.replace("era\"\npath", "e/ra\"\npath"), "export.name"),
            (EXPORT.replace("era\"\npath", ".era\"\npath"), "a dot first"),
            (EXPORT.replace("/srv/era", "srv"), "absolute"),
            (EXPORT.repeat(2), "another export"),
            (format!("{EXPORT}colour = 1"), "colour"),
            (peer("\"call\", \"read-export\""), "name the exports"),
            (peer(right), "[[export]]"),
            (
                format!("{EXPORT}{}", peer(&right.replace("\"call\", ", ""))),
                "needs a session",
            ),
            (
                format!("{EXPORT}{}", peer(&right.replace("[\"era\"]", "[\"ear\"]"))),
                "no export",
            ),
            (
                peer("{ right = \"call\", exports = [\"era\"] }"),
                "only read-export",
            ),
        ] {
            let error = resolve(&text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
