//! Videos in an object store with the S3 protocol: listing, and ranges of objects, signed by version 4 of AWS's signatures.
//!
//! Nothing is ever written there: an origin needs the right to list the bucket and to get its objects, no more.
//!
//! | file | holds |
//! |---|---|
//! | `access` | bucket, endpoint and credentials |
//! | `sign` | URLs with a signature |
//! | `client` | HTTP client: requests, with retries |
//! | `answer` | meaning of error responses |
//! | `xml` | a page of a listing |
//! | `listing` | listing of a bucket: the objects that are videos |
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
use crate::clock::Clock;

/// Minimum interval between listings of a bucket: listing is paid for.
const RESCAN: Duration = Duration::from_secs(10);

/// Reason for which an object store fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The library's name does not denote an object store.
    #[error("'{0}' is not the address of an object store; write s3://BUCKET or s3://BUCKET/FOLDER")]
    Location(String),
    /// The endpoint is not valid.
    #[error(
        "'{0}' is not a valid endpoint of an object store; write http://HOST:PORT or https://HOST"
    )]
    Endpoint(String),
    /// Half of the credentials is missing.
    #[error("{present} is set and {missing} is not; set both, or neither for a public bucket")]
    Half {
        /// The variable that is set.
        present: &'static str,
        /// The missing one.
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
    /// There is no response, or not in time.
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
        /// The endpoint that was asked.
        endpoint: String,
    },
    /// The bucket is in another region.
    #[error("the bucket is in another region: set AWS_REGION to '{0}'")]
    Region(String),
    /// The store denies access.
    #[error("the object store at {endpoint} refuses: {reason}")]
    Denied {
        /// Its address.
        endpoint: String,
        /// Reason, and what may help.
        reason: String,
    },
    /// The store failed, or its response makes no sense.
    #[error("the object store at {endpoint} fails: {reason}")]
    Failed {
        /// Its address.
        endpoint: String,
        /// Its message.
        reason: String,
    },
    /// The object is gone, or is another version.
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
    /// Opens a part of a bucket, after a check that it can be listed.
    ///
    /// # Errors
    /// The bucket cannot be listed.
    pub(super) fn open(
        location: &Location,
        access: &Access,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let client = Client::new(location, access, clock)?;
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

    /// Sends no request: a change since the listing shows when the object is read.
    fn open(&self, found: &Found) -> Result<Box<dyn Film>, ReadError> {
        let key = self.location.key(&found.at);
        Ok(Box::new(Object::new(
            self.client.clone(),
            key,
            found.stamp.clone(),
        )))
    }
}

/// Any text from a store is a page, or none; an error has a message of one line.
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
