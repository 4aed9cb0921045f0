//! Messages in JSON.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// BLAKE3 of a text or of data, as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hash = blake3::Hash::from_hex(text);
        hash.map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| "a hash has 64 hexadecimal digits".to_owned())
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Syntax of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// First message of a client on a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Names of the sets that are served; [`Notice::Sets`].
    List {
        /// Those behind this name.
        #[serde(default)]
        after: String,
    },
    /// The manifest; [`Notice::Manifest`], and chunks.
    Manifest,
    /// The channels on which the server can pin a lane; [`Notice::Paths`].
    Paths,
    /// Data; [`Notice::Begun`], and then pieces for each [`Want`] that follows.
    Get(Get),
    /// A set that the client sends: its manifest follows in chunks, and [`Notice::Wanted`] answers.
    Put {
        /// Length of the manifest.
        bytes: u64,
        /// Its syntax.
        format: Format,
        /// Its hash.
        digest: Digest,
    },
    /// Pieces of a set that is being sent follow.
    Data {
        /// Hash of its manifest.
        manifest: Digest,
    },
    /// Question about what is still lacking: everything that was wanted was sent.
    Done,
    /// The set is to be sent to another node; [`Notice::Copied`].
    Copy {
        /// Name or id of that node at the server's.
        to: String,
    },
    /// Hashes by block; [`Notice::Hashes`] for the parts of each [`Want`] that follows.
    Hashes {
        /// Hash of the manifest that the client has.
        manifest: Digest,
    },
}

/// Conditions of data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Get {
    /// Hash of the manifest that the client has.
    pub manifest: Digest,
    /// One lane of all the data; none: all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    /// Promise to ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demand: Option<Demand>,
    /// Records of a second: each is sent when it is due, and awaited if it is not there yet. None: as fast as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<f64>,
    /// Age in milliseconds from which a record that is paced is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

/// A lane of a layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Layout in words.
    pub layout: String,
    /// Number of lanes.
    pub lanes: u32,
    /// This one, from 0.
    pub lane: u32,
    /// Channel that carries it, one of [`Notice::Paths`].
    pub channel: u64,
}

/// Promise to ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// Rate.
    pub rate_bps: u64,
    /// Share of windows of a second that get it, between 0 and 1.
    pub share: f64,
    /// Reaction if it cannot be promised.
    pub on_refusal: OnRefusal,
}

/// Reaction to a refusal of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// The rate that is offered instead is asked for.
    Offer,
    /// The data goes on without a promise until it can be given.
    #[default]
    Wait,
    /// Nothing is sent.
    Fail,
}

/// Items to be sent, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Records and parts.
    pub items: Vec<Item>,
}

/// Records, or bytes of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Item {
    /// Components of consecutive records, record by record.
    Records {
        /// First record.
        from: u64,
        /// The record behind the last.
        to: u64,
        /// Components, by number.
        components: Vec<u16>,
        /// Bytes of each part, from and to; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<(u64, u64)>,
    },
    /// Bytes of a part, or all of it if its version is another one.
    Part {
        /// Record.
        record: u64,
        /// Component.
        component: u16,
        /// Version whose other bytes the client has.
        version: u64,
        /// Intervals, from and to.
        ranges: Vec<(u64, u64)>,
    },
}

impl Want {
    /// Items of each component by itself, in their order.
    pub fn by_component(items: Vec<Item>) -> BTreeMap<u16, Vec<Item>> {
        let mut all: BTreeMap<u16, Vec<Item>> = BTreeMap::new();
        for item in items {
            match item {
                Item::Part { component, .. } => all.entry(component).or_default().push(item),
                Item::Records {
                    from,
                    to,
                    components,
                    bytes,
                } => {
                    for component in components {
                        all.entry(component).or_default().push(Item::Records {
                            from,
                            to,
                            components: vec![component],
                            bytes,
                        });
                    }
                }
            }
        }
        all
    }
}

/// Set in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetEntry {
    /// Name.
    pub name: String,
    /// Number of records.
    pub records: u64,
    /// Names of the components.
    pub components: Vec<String>,
    /// Bytes of all parts, if the manifest states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Hash of the manifest.
    pub manifest: Digest,
}

/// Reason for which a part cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// There is no such file.
    Missing,
    /// The file ends before the part does.
    Short,
    /// It was changed while it was read.
    Changed,
    /// It cannot be read.
    Unreadable,
    /// It was too late to be of use.
    Late,
    /// A later release has another reason.
    #[serde(other)]
    Other,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "its file is not there",
            Self::Short => "its file ends before it does",
            Self::Changed => "its file changed while it was read",
            Self::Unreadable => "its file cannot be read at the peer",
            Self::Late => "it was too late to be of use",
            Self::Other => "the peer cannot send it",
        })
    }
}

/// State of a promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Promised {
    /// It is in force.
    Promised {
        /// Its rate.
        rate_bps: u64,
    },
    /// It cannot be given yet.
    Waiting {
        /// The reason.
        why: String,
    },
}

/// Beginning of data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The promise, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Promised>,
}

/// Hashes of a part's blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Record.
    pub record: u64,
    /// Component.
    pub component: u16,
    /// Bytes of the part; none: the record is without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// First byte of the first block.
    pub offset: u64,
    /// Hash of each block of 1 MiB.
    pub hashes: Vec<Digest>,
}

/// Message of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Notice {
    /// Sets in the order of their names.
    Sets {
        /// The sets.
        sets: Vec<SetEntry>,
        /// True if others follow.
        has_more: bool,
    },
    /// Length and syntax of a manifest, whose bytes follow in chunks.
    Manifest {
        /// Length.
        bytes: u64,
        /// Syntax.
        format: Format,
        /// Hash.
        digest: Digest,
    },
    /// Channels.
    Paths {
        /// Their numbers.
        channels: Vec<u64>,
    },
    /// Data follows.
    Begun(Begun),
    /// A part cannot be sent.
    Fault {
        /// Record.
        record: u64,
        /// Component.
        component: u16,
        /// The reason.
        fault: Fault,
        /// Version whose bytes are of no use, if some were sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u64>,
    },
    /// Hashes of blocks.
    Hashes {
        /// Of several parts.
        blocks: Vec<Block>,
    },
    /// Items that are lacking of a set that is being sent; nothing: it is complete and durable.
    Wanted {
        /// Some of it.
        items: Vec<Item>,
        /// True if more follows.
        has_more: bool,
    },
    /// Progress of a copy: bytes of each component that were handed over.
    Copying {
        /// Bytes.
        bytes: Vec<u64>,
        /// Paths to the other node: numbers of their channels, and the bytes that each carried.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<(u64, u64)>,
    },
    /// End of a copy.
    Copied {
        /// Bytes of each component that were handed over.
        bytes: Vec<u64>,
        /// True if the other node has the whole set.
        is_complete: bool,
    },
    /// The request is refused.
    Refused {
        /// The reason, with a remedy.
        why: String,
        /// Rate that could be promised instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offer_bps: Option<u64>,
        /// True if the set has another manifest now.
        #[serde(default)]
        is_changed: bool,
    },
}
