//! Messages of the control stream.

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::WireError;

/// Maximum length of a message of the control stream.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Maximum length of a request: a `Repair` of the most frames. A proxy may have a thousand of them waiting.
const REQUEST_BYTES_MAX: usize = 32 << 10;
/// Maximum length of a video's version, and of a secret.
const WORD_BYTES_MAX: usize = 128;
/// Maximum length of a video's name.
pub const NAME_BYTES_MAX: usize = 512;
/// Maximum number of videos in one `Catalogue`; with the longest names it stays below [`MESSAGE_BYTES_MAX`].
pub(crate) const ENTRIES_MAX: usize = 100;

/// Maximum number of frames in one `Repair`.
pub(crate) const REPAIRED_MAX: usize = 1_000;

/// A video of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name: folders joined by `/`, without the file's extension.
    pub name: String,
    /// Changes whenever the file does.
    pub version: String,
    /// Size of the file.
    pub bytes: u64,
}

/// Kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The ticket is not valid.
    Ticket,
    /// There is no video of this name.
    NotFound,
    /// The file cannot be served as video.
    Unusable,
    /// The file has changed since it was opened.
    Changed,
    /// There is no capacity for another play now.
    Full,
    /// Something else.
    Failed,
}

/// Refusal of a request, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The kind.
    pub kind: RefusalKind,
    /// Explanation.
    pub reason: String,
    /// Time after which a retry makes sense, in seconds from now; `None`: when something has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
}

impl Refusal {
    /// A refusal without a retry time.
    #[expect(clippy::needless_pass_by_value, reason = "fits `map_err` as it is")]
    pub fn new(kind: RefusalKind, reason: impl ToString) -> Self {
        Self {
            kind,
            reason: reason.to_string(),
            retry_after_s: None,
        }
    }
}

/// Requests of the proxy. The answer repeats the `id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// The first message.
    Hello {
        /// The ticket's secret in base 32.
        secret: String,
    },
    /// List the videos, from the first name after `after` on.
    List {
        /// Identifier of the request.
        id: u32,
        /// The last name known.
        after: String,
    },
    /// The index of a video.
    Open {
        /// Identifier of the request.
        id: u32,
        /// The video.
        name: String,
    },
    /// Send a video in two flows.
    Play {
        /// Identifier of the request.
        id: u32,
        /// Number of the play in this session; the proxy chooses it.
        play: u32,
        /// The video.
        name: String,
        /// Its version, as opened.
        version: String,
        /// Position at which to begin.
        #[serde(flatten)]
        from: From,
    },
    /// Continue a play at another position.
    Seek {
        /// The play.
        play: u32,
        /// Position.
        #[serde(flatten)]
        from: From,
    },
    /// End a play.
    Stop {
        /// The play.
        play: u32,
    },
    /// All of one chunk's data, reliably: the essential or the enhanced part.
    Fetch {
        /// Identifier of the request; its pieces carry it.
        id: u32,
        /// The video.
        name: String,
        /// Its version, as opened.
        version: String,
        /// The chunk.
        chunk: u32,
        /// The enhanced part rather than the essential one.
        is_enhanced: bool,
    },
    /// Single enhanced frames of a chunk, reliably, one after the other: lost frames for which there is time.
    Repair {
        /// Identifier of the request; its pieces carry it.
        id: u32,
        /// The video.
        name: String,
        /// Its version, as opened.
        version: String,
        /// The chunk.
        chunk: u32,
        /// Their numbers among the chunk's enhanced frames, ascending; at most 1,000.
        frames: Vec<u32>,
    },
}

/// Position at which a play begins, and the chunks that the proxy has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct From {
    /// The first chunk whose essential part is to be sent.
    pub essential: u32,
    /// The first chunk whose enhanced part is to be sent.
    pub enhanced: u32,
    /// Maximum lead of the enhanced flow over real time, in milliseconds; it is sent faster until it has that lead.
    pub lead_ms: u32,
    /// Maximum lead of the essential flow over the enhanced one, in milliseconds; the origin never goes further than the end of
    /// the next segment.
    pub ahead_ms: u32,
}

/// Replies of the origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// Answer to a valid `Hello`.
    Welcome,
    /// Refusal, with the reason. `id` 0 answers the `Hello`.
    Refused {
        /// Identifier of the request.
        id: u32,
        /// Reason.
        #[serde(flatten)]
        refusal: Refusal,
    },
    /// Videos in the order of their names.
    Catalogue {
        /// Identifier of the request.
        id: u32,
        /// At most 100.
        videos: Vec<Entry>,
        /// True if no name follows.
        is_last: bool,
    },
    /// The video's index follows in pieces under the request's id.
    Opened {
        /// Identifier of the request.
        id: u32,
        /// The video's version.
        version: String,
        /// Selection of essential data, in the notation of `Policy`.
        policy: String,
        /// Target length of chunks, in milliseconds.
        chunk_ms: u32,
        /// Length of segments, in milliseconds.
        segment_ms: u32,
        /// Size of the index.
        index_bytes: u64,
    },
    /// The play begins.
    Playing {
        /// Identifier of the request.
        id: u32,
    },
    /// A play ended before the video did.
    Ended {
        /// The play.
        play: u32,
        /// Reason.
        #[serde(flatten)]
        refusal: Refusal,
    },
}

fn encode(message: &impl Serialize) -> Bytes {
    let text = serde_json::to_vec(message);
    text.expect("these messages have text keys only").into()
}

fn decode<T: DeserializeOwned>(bytes: &[u8], bytes_max: usize) -> Result<T, WireError> {
    if bytes.len() > bytes_max {
        return Err(WireError(format!(
            "{} bytes in one message, at most {bytes_max} are read",
            bytes.len()
        )));
    }
    serde_json::from_slice(bytes).map_err(|error| WireError(error.to_string()))
}

fn check_name(name: &str) -> Result<(), WireError> {
    if name.len() > NAME_BYTES_MAX {
        return Err(WireError(format!("a name of {} bytes", name.len())));
    }
    Ok(())
}

fn check_word(word: &str) -> Result<(), WireError> {
    if word.len() > WORD_BYTES_MAX {
        return Err(WireError(format!(
            "a version or secret of {} bytes",
            word.len()
        )));
    }
    Ok(())
}

impl Request {
    /// True if the answer carries data besides those of plays.
    pub(crate) fn is_fetch(&self) -> bool {
        matches!(
            self,
            Self::Open { .. } | Self::Fetch { .. } | Self::Repair { .. }
        )
    }

    /// Encodes the request.
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Decodes a request.
    ///
    /// # Errors
    /// It is too long, or not a request.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let request = decode(bytes, REQUEST_BYTES_MAX)?;
        match &request {
            Self::Play { name, version, .. }
            | Self::Fetch { name, version, .. }
            | Self::Repair { name, version, .. } => {
                check_name(name)?;
                check_word(version)?;
            }
            Self::Open { name, .. } | Self::List { after: name, .. } => check_name(name)?,
            Self::Hello { secret } => check_word(secret)?,
            Self::Seek { .. } | Self::Stop { .. } => {}
        }
        if let Self::Repair { frames, .. } = &request
            && (frames.len() > REPAIRED_MAX || !frames.is_sorted_by(|a, b| a < b))
        {
            return Err(WireError("frames out of order, or too many".to_owned()));
        }
        Ok(request)
    }
}

impl Reply {
    /// Encodes the reply.
    pub fn encode(&self) -> Bytes {
        encode(self)
    }

    /// Decodes a reply.
    ///
    /// # Errors
    /// It is too long, or not a reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let reply = decode(bytes, MESSAGE_BYTES_MAX)?;
        if let Self::Opened { version, .. } = &reply {
            check_word(version)?;
        }
        if let Self::Catalogue { videos, .. } = &reply {
            if videos.len() > ENTRIES_MAX {
                return Err(WireError(format!("{} videos at once", videos.len())));
            }
            for video in videos {
                check_name(&video.name)?;
                check_word(&video.version)?;
            }
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_round_trip() {
        let from = From {
            essential: 3,
            enhanced: 2,
            lead_ms: 8_000,
            ahead_ms: u32::MAX,
        };
        let (name, version) = ("a/b".to_owned(), "v".to_owned());
        let requests = [
            Request::Hello {
                secret: "abc".to_owned(),
            },
            Request::List {
                id: 1,
                after: String::new(),
            },
            Request::Open {
                id: 2,
                name: name.clone(),
            },
            Request::Play {
                id: 3,
                play: 9,
                name: name.clone(),
                version: version.clone(),
                from,
            },
            Request::Seek { play: 9, from },
            Request::Stop { play: 9 },
            Request::Fetch {
                id: 4,
                name,
                version,
                chunk: 7,
                is_enhanced: true,
            },
        ];
        for request in requests {
            assert_eq!(Request::decode(&request.encode()), Ok(request));
        }
        let refused = Reply::Refused {
            id: 3,
            refusal: Refusal {
                kind: RefusalKind::Full,
                reason: "no capacity".to_owned(),
                retry_after_s: Some(20),
            },
        };
        assert_eq!(Reply::decode(&refused.encode()), Ok(refused));
    }

    #[test]
    fn what_is_too_long_is_refused() {
        let long = Request::Open {
            id: 1,
            name: "x".repeat(NAME_BYTES_MAX + 1),
        };
        assert!(Request::decode(&long.encode()).is_err());
        assert!(Reply::decode(&vec![b' '; MESSAGE_BYTES_MAX + 1]).is_err());
        // A thousand requests may wait: each is short.
        let fetch = |version: usize| Request::Fetch {
            id: u32::MAX,
            name: "\u{1}".repeat(NAME_BYTES_MAX),
            version: "x".repeat(version),
            chunk: u32::MAX,
            is_enhanced: true,
        };
        assert!(Request::decode(&fetch(WORD_BYTES_MAX).encode()).is_ok());
        assert!(Request::decode(&fetch(WORD_BYTES_MAX + 1).encode()).is_err());
        let hello = Request::Hello {
            secret: "x".repeat(WORD_BYTES_MAX + 1),
        };
        assert!(Request::decode(&hello.encode()).is_err());
        let repair = |frames| Request::Repair {
            id: u32::MAX,
            name: "\u{1}".repeat(NAME_BYTES_MAX),
            version: "x".repeat(WORD_BYTES_MAX),
            chunk: u32::MAX,
            frames,
        };
        let most: Vec<u32> = (u32::MAX - REPAIRED_MAX as u32..u32::MAX).collect();
        assert!(Request::decode(&repair(most.clone()).encode()).is_ok());
        let more = [&[0], &most[..]].concat();
        assert!(Request::decode(&repair(more).encode()).is_err());
        let spaces = [
            b" ".repeat(REQUEST_BYTES_MAX),
            repair(most).encode().to_vec(),
        ]
        .concat();
        assert!(Request::decode(&spaces).is_err());
        let entry = Entry {
            name: "x".repeat(NAME_BYTES_MAX),
            version: "v".repeat(64),
            bytes: u64::MAX,
        };
        let reply = |count| Reply::Catalogue {
            id: u32::MAX,
            videos: vec![entry.clone(); count],
            is_last: false,
        };
        assert!(
            Reply::decode(&reply(ENTRIES_MAX).encode()).is_ok(),
            "the most fits"
        );
        assert!(Reply::decode(&reply(ENTRIES_MAX + 1).encode()).is_err());
    }

    proptest! {
        #[test]
        fn rubbish_is_refused_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::decode(&bytes);
            let _ = Reply::decode(&bytes);
        }
    }
}
