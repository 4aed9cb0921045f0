//! Videos in an object store that speaks S3: listing, and ranges of objects, signed by version 4 of AWS's signatures.
//!
//! Nothing is ever written there: an origin needs the right to list the bucket and to get its objects, no more.
//!
//! | file | holds |
//! |---|---|
//! | `access` | which bucket, where, with whose key |
//! | `sign` | an address with a signature |
//! | `client` | one request: sent, and sent again when that helps |
//! | `answer` | what an answer with an error means |
//! | `xml` | a page of a listing |
//! | `listing` | which objects are videos |
//! | `object` | ranges of one version of an object |

mod access;
mod answer;
mod client;
mod listing;
mod object;
mod sign;
mod xml;

use std::{io, path::PathBuf, sync::Arc, time::Duration};

pub use self::access::{Access, Location};
use self::{client::Client, object::Object};
use super::{
    LibraryError,
    place::{Catalogue, Film, Found, Place, ReadError},
};

/// A bucket is not listed more often than this: listing is paid for.
const RESCAN: Duration = Duration::from_secs(10);

/// Reason why an object store gives nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The library's name is not one of an object store.
    #[error("'{0}' names no part of an object store; write s3://BUCKET or s3://BUCKET/FOLDER")]
    Location(String),
    /// The endpoint is none.
    #[error("'{0}' is no endpoint of an object store; write http://HOST:PORT or https://HOST")]
    Endpoint(String),
    /// Only one half of the credentials is there.
    #[error("{present} is set and {missing} is not; set both, or neither for a public bucket")]
    Half {
        /// The variable that is set.
        present: &'static str,
        /// The other.
        missing: &'static str,
    },
    /// The certificates to trust cannot be read.
    #[error("cannot read the certificates in {} (AWS_CA_BUNDLE): {source}", path.display())]
    Certificates {
        /// Their file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Nothing answers, or not in time.
    #[error("the object store at {endpoint} cannot be reached: {cause}")]
    Unreachable {
        /// Its address.
        endpoint: String,
        /// The error.
        cause: String,
    },
    /// There is no such bucket.
    #[error("there is no bucket '{bucket}' at {endpoint}")]
    NoBucket {
        /// The bucket.
        bucket: String,
        /// Place where it was looked for.
        endpoint: String,
    },
    /// The bucket is in another region.
    #[error("the bucket is in another region: set AWS_REGION to '{0}'")]
    Region(String),
    /// The store does not let us.
    #[error("the object store at {endpoint} refuses: {reason}")]
    Denied {
        /// Its address.
        endpoint: String,
        /// Reason, and what may help.
        reason: String,
    },
    /// It failed, or said what makes no sense.
    #[error("the object store at {endpoint} fails: {reason}")]
    Failed {
        /// Its address.
        endpoint: String,
        /// What it said.
        reason: String,
    },
    /// The object is not there any more, or is another one.
    #[error("the object has changed")]
    Changed,
}

/// A part of a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    location: Location,
    client: Arc<Client>,
}

impl Bucket {
    /// Looks whether the bucket can be listed.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn open(location: &Location, access: &Access) -> Result<Self, StoreError> {
        let client = Client::new(location, access)?;
        listing::check(&client, location)?;
        Ok(Self {
            location: location.clone(),
            client: Arc::new(client),
        })
    }
}

impl Place for Bucket {
    fn name(&self) -> String {
        format!("{} at {}", self.location, self.client.endpoint())
    }

    fn rescan(&self) -> Duration {
        RESCAN
    }

    fn scan(&self) -> Result<Catalogue, LibraryError> {
        Ok(listing::scan(&self.client, &self.location)?)
    }

    /// Asks nothing of the store: whether the object is still what was listed shows when it is read.
    fn open(&self, found: &Found) -> Result<Box<dyn Film>, ReadError> {
        let key = self.location.key(&found.at);
        Ok(Box::new(Object::new(
            self.client.clone(),
            key,
            found.stamp.clone(),
        )))
    }
}

/// Whatever a store says is a page, or none; an error has words, on one line.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    use anabranch::base::text;
    let _ = xml::page(text);
    for status in [301, 400, 403, 404, 500] {
        let answer = answer::Answer {
            status,
            body: text,
            region: None,
        };
        let asked = answer::Asked {
            endpoint: "http://store",
            bucket: "films",
            key: None,
        };
        let error = text::printable(&answer.error(&asked).to_string(), text::REASON_CHARS);
        assert!(!error.is_empty() && !error.chars().any(char::is_control));
    }
}
