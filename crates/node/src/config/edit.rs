//! Changes that commands make to a configuration file. Comments, order and everything else in it stay as they are.

use std::{io, ops::Range, path::Path};

use anabranch_base::{NodeId, text::printable};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{ConfigError, GrantLayer, Layer, TermsLayer};
use crate::whole_file;

/// Longest name of a peer that is written.
const NAME_CHARS_MAX: usize = 63;
/// Form of a name.
pub(super) const NAME_FORM: &str = "use letters, digits, '-', '_' and '.', at most 63";

/// A peer for a configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPeer {
    /// Its name; see [`peer_name`].
    pub name: String,
    /// Its id.
    pub node: NodeId,
    /// Its addresses, `IP:PORT` or `HOST:PORT`.
    pub addresses: Vec<String>,
    /// Relay at which the two nodes meet, `ID@HOST:PORT`; written for a peer that is new.
    pub via: Option<String>,
    /// Its rights here.
    pub may: Vec<GrantLayer>,
}

/// Effect of adding a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was not there before.
    New,
    /// It was there; addresses or rights were added to it.
    Extended,
    /// It was there with all of it.
    Unchanged,
}

/// A configuration file was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// It cannot be read or written.
    #[error("cannot change {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is refused as it is, or would be refused after the change.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// Another node has the name.
    #[error(
        "the name '{}' is that of another peer, {node}; choose another one",
        printable(name, 100)
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The node that has it.
        node: String,
    },
    /// The name is unsuitable.
    #[error("'{}' cannot be the name of a peer: {NAME_FORM}", printable(.0, 100))]
    Name(String),
}

/// A name for a peer from a text such as the name of a host: lower-case letters, digits, `-`, `_`; the first label only. `None` if
/// nothing is left.
pub fn peer_name(text: &str) -> Option<String> {
    let label = text.split('.').next().unwrap_or_default();
    let kept = label.chars().filter(|c| is_of_name(*c));
    let name: String = kept.take(NAME_CHARS_MAX).collect();
    (!name.is_empty()).then(|| name.to_ascii_lowercase())
}

/// True if a peer can be named so.
pub(super) fn is_peer_name(name: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_of_name)
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// The wanted name, or with a number added if another node has it already in the file `text`.
///
/// # Errors
/// The text is no configuration.
pub fn free_name(text: &str, wanted: &str, node: &NodeId) -> Result<String, ConfigError> {
    let layer = Layer::from_toml(text)?;
    let node = node.to_string();
    let is_taken = |name: &str| {
        let mut peers = layer.peer.iter().flatten();
        peers.any(|peer| peer.name == name && peer.node != node)
    };
    let numbered = (2_u64..).map(|number| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.to_owned()).chain(numbered);
    Ok(names.find(|name| !is_taken(name)).unwrap_or_default())
}

/// The text of a configuration file with a peer added. If it lists the node already, the addresses and rights that it lacks are
/// added there, and nothing is removed: neither its name nor the terms of its rights change.
///
/// # Errors
/// The text is refused before or after the change, or the name belongs to another node.
pub fn add_peer(text: &str, peer: &NewPeer) -> Result<(String, Added), EditError> {
    if !is_peer_name(&peer.name) {
        return Err(EditError::Name(peer.name.clone()));
    }
    let before = Layer::from_toml(text)?;
    let node = peer.node.to_string();
    let listed = before.peer.iter().flatten();
    let index = listed.clone().position(|listed| listed.node == node);
    let mut with_name = listed.filter(|listed| listed.name == peer.name);
    if let (Some(other), None) = (with_name.next(), index) {
        return Err(EditError::NameTaken {
            name: peer.name.clone(),
            node: other.node.clone(),
        });
    }
    let changed = match index {
        Some(index) => extend(text, &before, index, peer)?,
        None => append(text, peer)?,
    };
    let Some(changed) = changed else {
        return Ok((text.to_owned(), Added::Unchanged));
    };
    let after = Layer::from_toml(&changed)?;
    after.peers(after.overlay.resolve()?.as_ref())?;
    let added = index.map_or(Added::New, |_| Added::Extended);
    Ok((changed, added))
}

/// Adds a peer to a configuration file, which is replaced in one step and keeps its mode. A running node applies it with a reload.
///
/// # Errors
/// As [`add_peer`]; or the file cannot be read or written.
pub fn add_peer_to(path: &Path, peer: &NewPeer) -> Result<Added, EditError> {
    let failed = |source| EditError::File {
        path: path.display().to_string(),
        source,
    };
    let mut added = Ok(Added::Unchanged);
    whole_file::edit(path, |text| match add_peer(text, peer) {
        Ok((text, done)) => {
            added = Ok(done);
            (done != Added::Unchanged).then_some(text)
        }
        Err(error) => {
            added = Err(error);
            None
        }
    })
    .map_err(failed)?;
    added
}

/// A text as a string of TOML, in quotes.
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

fn grant(grant: &GrantLayer) -> String {
    let terms = match grant {
        GrantLayer::Name(name) => return quoted(name),
        GrantLayer::Terms(terms) => terms,
    };
    let TermsLayer {
        right,
        folder,
        update,
        delete,
        services,
        exports,
        to,
        listen,
    } = terms;
    let mut parts = vec![format!("right = {}", quoted(right))];
    if let Some(folder) = folder {
        parts.push(format!("folder = {}", quoted(&folder.to_string_lossy())));
    }
    for (key, is_set) in [("update", update), ("delete", delete)] {
        if *is_set {
            parts.push(format!("{key} = true"));
        }
    }
    if !services.is_empty() {
        parts.push(format!("services = {}", list(services)));
    }
    if !exports.is_empty() {
        parts.push(format!("exports = {}", list(exports)));
    }
    for (key, texts) in [("to", to), ("listen", listen)] {
        if let Some(texts) = texts {
            parts.push(format!("{key} = {}", list(texts)));
        }
    }
    format!("{{ {} }}", parts.join(", "))
}

fn name_of(grant: &GrantLayer) -> &str {
    match grant {
        GrantLayer::Name(name) => name,
        GrantLayer::Terms(terms) => &terms.right,
    }
}

/// Keys of a peer with their values.
fn keys(peer: &NewPeer) -> Vec<String> {
    let may: Vec<String> = peer.may.iter().map(grant).collect();
    let mut keys = vec![
        format!("name = {}", quoted(&peer.name)),
        format!("node = {}", quoted(&peer.node.to_string())),
        format!("may = [{}]", may.join(", ")),
    ];
    if !peer.addresses.is_empty() {
        keys.push(format!("addresses = {}", list(&peer.addresses)));
    }
    if let Some(via) = &peer.via {
        keys.push(format!("via = {}", quoted(via)));
    }
    keys
}

fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, ConfigError> {
    DeTable::parse(text).map_err(|error| super::mistake::syntax(text, &error))
}

/// The list of peers, if it is written as a value, `peer = [{ … }]`, and not as sections.
fn value_of_peers<'t>(text: &str, root: &'t DeTable<'t>) -> Option<&'t Spanned<DeValue<'t>>> {
    let peers = root.get("peer")?;
    let items = peers.get_ref().as_array()?;
    let is_value = items
        .iter()
        .next()
        .is_none_or(|item| text.get(item.span()).is_some_and(|it| it.starts_with('{')));
    is_value.then_some(peers)
}

/// The text with a peer that it does not list.
fn append(text: &str, peer: &NewPeer) -> Result<Option<String>, ConfigError> {
    let root = parse(text)?;
    if let Some(peers) = value_of_peers(text, root.get_ref()) {
        let table = format!("{{ {} }}", keys(peer).join(", "));
        return Ok(into_list(text, peers, &[table]).map(|change| change.apply(text)));
    }
    let gap = match text {
        "" => "",
        text if text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let section = keys(peer).join("\n");
    Ok(Some(format!("{text}{gap}[[peer]]\n{section}\n")))
}

/// The text with what the peer at `index` lacks; `None` if it lacks nothing.
fn extend(
    text: &str,
    layer: &Layer,
    index: usize,
    peer: &NewPeer,
) -> Result<Option<String>, ConfigError> {
    let root = parse(text)?;
    let peers = root.get_ref().get("peer");
    let item = peers.and_then(|peers| peers.get_ref().as_array()?.get(index));
    let listed = layer.peer.iter().flatten().nth(index);
    let (Some(item), Some(listed)) = (item, listed) else {
        return Ok(None);
    };
    let Some(table) = item.get_ref().as_table() else {
        return Ok(None);
    };
    let new_addresses = peer.addresses.iter();
    let new_addresses = new_addresses.filter(|address| !listed.addresses.contains(address));
    let new_addresses: Vec<String> = new_addresses.map(|address| quoted(address)).collect();
    let had: Vec<&str> = listed.may.iter().flatten().map(name_of).collect();
    let new_rights = peer.may.iter();
    let new_rights = new_rights.filter(|grant| !had.contains(&name_of(grant)));
    let new_rights: Vec<String> = new_rights.map(grant).collect();
    let is_inline = text.get(item.span()).is_some_and(|it| it.starts_with('{'));
    let mut changes = Vec::new();
    for (key, items) in [("addresses", new_addresses), ("may", new_rights)] {
        if items.is_empty() {
            continue;
        }
        match (table.get(key), table.get("node")) {
            (Some(value), _) => changes.extend(into_list(text, value, &items)),
            (None, Some(node)) => {
                let assignment = format!("{key} = [{}]", items.join(", "));
                let new = match is_inline {
                    true => format!(", {assignment}"),
                    false => format!("\n{assignment}"),
                };
                let at = match is_inline {
                    true => node.span().end,
                    // Behind a comment in the same line.
                    false => end_of_line(text, node.span().end),
                };
                changes.push(Insertion { at, new });
            }
            (None, None) => {}
        }
    }
    if changes.is_empty() {
        return Ok(None);
    }
    // From the end to the beginning, so that positions stay valid.
    changes.sort_by_key(|change| std::cmp::Reverse(change.at));
    let apply = |text: String, change: Insertion| change.apply(&text);
    Ok(Some(changes.into_iter().fold(text.to_owned(), apply)))
}

fn end_of_line(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.find(['\n', '\r']).unwrap_or(rest.len())
}

/// Text to insert at a position.
#[derive(Debug)]
struct Insertion {
    at: usize,
    new: String,
}

impl Insertion {
    fn apply(self, text: &str) -> String {
        let (before, after) = text.split_at(self.at);
        format!("{before}{}{after}", self.new)
    }
}

/// Insertion of values at the end of a list; `None` if the value is none.
fn into_list(text: &str, value: &Spanned<DeValue<'_>>, items: &[String]) -> Option<Insertion> {
    let list = value.get_ref().as_array()?;
    let new = items.join(", ");
    match list.iter().last() {
        Some(last) => Some(Insertion {
            at: last.span().end,
            new: format!(", {new}"),
        }),
        None => {
            let Range { start, .. } = value.span();
            let at = start + text.get(start..)?.find('[')? + 1;
            Some(Insertion { at, new })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> NodeId {
        anabranch_session::SecretKey::from_seed([number; 32]).node_id()
    }

    fn ship() -> NewPeer {
        NewPeer {
            name: "ship".to_owned(),
            node: id(1),
            addresses: vec!["192.0.2.7:4433".to_owned(), "ship.example:4433".to_owned()],
            via: None,
            may: vec![
                GrantLayer::Name("call".to_owned()),
                GrantLayer::Terms(TermsLayer {
                    right: "send-files".to_owned(),
                    folder: Some("ship".into()),
                    ..TermsLayer::default()
                }),
            ],
        }
    }

    #[test]
    fn a_peer_is_appended_and_all_else_stays() {
        let text = "# Mine.\nreceive = \"/srv\" # here\n\n[session]\npolicy = \"assign\"\n";
        let (changed, added) = add_peer(text, &ship()).unwrap();
        assert_eq!(added, Added::New);
        let section = format!(
            "\n[[peer]]\nname = \"ship\"\nnode = \"{}\"\nmay = [\"call\", {{ right = \"send-files\", folder = \"ship\" }}]\n\
             addresses = [\"192.0.2.7:4433\", \"ship.example:4433\"]\n",
            id(1)
        );
        assert_eq!(changed, format!("{text}{section}"));
        let again = add_peer(&changed, &ship()).unwrap();
        assert_eq!(again, (changed, Added::Unchanged));
    }

    #[test]
    fn what_a_listed_peer_lacks_is_added_to_it() {
        let (one, two) = (id(1), id(2));
        let text = format!(
            "receive = \"/srv\"\n[[peer]]\nname = \"other\"\nnode = \"{two}\"\nmay = []\n\n[[peer]] # the ship\nname = \"boat\"\n\
             node = \"{one}\" # its key\nmay = [\n  \"call\", # always\n]\n\n[session]\npolicy = \"assign\"\n"
        );
        let (changed, added) = add_peer(&text, &ship()).unwrap();
        assert_eq!(added, Added::Extended);
        let expected = text
            .replace(
                "# its key\n",
                "# its key\naddresses = [\"192.0.2.7:4433\", \"ship.example:4433\"]\n",
            )
            .replace(
                "  \"call\"",
                "  \"call\", { right = \"send-files\", folder = \"ship\" }",
            );
        assert_eq!(changed, expected);
    }

    #[test]
    fn peers_that_are_written_as_a_value_are_extended_there() {
        let (one, two) = (id(1), id(2));
        let text = format!(
            "receive = \"/srv\"\npeer = [{{ name = \"other\", node = \"{two}\", may = [] }}]\nport = 1\n"
        );
        let (changed, _) = add_peer(&text, &ship()).unwrap();
        let layer = Layer::from_toml(&changed).unwrap();
        assert_eq!(layer.peer.unwrap().len(), 2);
        assert!(changed.ends_with("]\nport = 1\n"), "{changed}");
        let (empty, _) = add_peer("receive = \"/srv\"\npeer = []\n", &ship()).unwrap();
        assert_eq!(Layer::from_toml(&empty).unwrap().peer.unwrap().len(), 1);
        let listed = format!(
            "receive = \"/srv\"\npeer = [{{ name = \"ship\", node = \"{one}\", may = [] }}]"
        );
        let (changed, added) = add_peer(&listed, &ship()).unwrap();
        assert_eq!(added, Added::Extended);
        let peer = Layer::from_toml(&changed).unwrap().peer.unwrap().remove(0);
        assert_eq!((peer.addresses.len(), peer.may.unwrap().len()), (2, 2));
    }

    #[test]
    fn a_change_that_would_be_refused_is_not_made() {
        let error = add_peer("", &ship()).unwrap_err().to_string();
        assert!(error.contains("name one with `receive`"), "{error}");
        let error = add_peer("port = \"x\"", &ship()).unwrap_err().to_string();
        assert!(error.contains("port"), "{error}");
        let taken = format!(
            "[[peer]]\nname = \"ship\"\nnode = \"{}\"\nmay = []\n",
            id(2)
        );
        let error = add_peer(&taken, &ship()).unwrap_err();
        assert!(matches!(error, EditError::NameTaken { .. }), "{error}");
        assert_eq!(free_name(&taken, "ship", &id(1)).unwrap(), "ship-2");
        assert_eq!(free_name(&taken, "ship", &id(2)).unwrap(), "ship");
        let odd = NewPeer {
            name: "a:b".to_owned(),
            ..ship()
        };
        assert!(matches!(add_peer("", &odd), Err(EditError::Name(_))));
    }

    #[test]
    fn a_name_is_made_of_a_host_name() {
        assert_eq!(peer_name("Laptop.home.arpa").as_deref(), Some("laptop"));
        assert_eq!(peer_name("Adas Gerät").as_deref(), Some("adasgert"));
        assert_eq!(peer_name("…"), None);
    }

    #[test]
    fn the_file_keeps_its_mode() {
        use std::{fs, os::unix::fs::PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.toml");
        fs::write(&path, "receive = \"/srv\"\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(add_peer_to(&link, &ship()).unwrap(), Added::New);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&path).unwrap().contains("[[peer]]"));
        let missing = folder.path().join("none");
        let error = add_peer_to(&missing, &ship()).unwrap_err();
        assert!(matches!(error, EditError::File { .. }), "{error}");
    }
}
