//! Access to a bucket: its address and the credentials.

use std::{fmt, path::PathBuf, str::FromStr};

use super::StoreError;

/// Region where AWS takes requests for a bucket of unknown region.
const REGION: &str = "us-east-1";
/// Maximum length of the name of a bucket or a folder in it.
const NAME_BYTES_MAX: usize = 1_024;

/// A part of an object store, written `s3://BUCKET/FOLDER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub(super) bucket: String,
    /// Prefix of the keys of its objects; empty, or with a slash at its end.
    pub(super) prefix: String,
}

impl Location {
    /// True if a library's name denotes an object store.
    pub fn is_one(text: &str) -> bool {
        text.get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("s3://"))
    }

    /// The key of an object.
    pub(super) fn key(&self, at: &str) -> String {
        format!("{}{at}", self.prefix)
    }
}

impl FromStr for Location {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Location(text.to_owned());
        if !Self::is_one(text) || text.len() > NAME_BYTES_MAX || text.contains(char::is_control) {
            return Err(wrong());
        }
        let (bucket, prefix) = text[5..].split_once('/').unwrap_or((&text[5..], ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if bucket.is_empty() || bucket.starts_with('.') || !bucket.chars().all(is_plain) {
            return Err(wrong());
        }
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() {
            String::new()
        } else {
            format!("{prefix}/")
        };
        Ok(Self {
            bucket: bucket.to_owned(),
            prefix,
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix.trim_end_matches('/'))?;
        }
        Ok(())
    }
}

/// Endpoint of an object store, and the credentials.
#[derive(Clone)]
pub struct Access {
    /// Its address; `None`: that of AWS for the region.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: String,
    /// Credentials; `None`: anonymous.
    pub key: Option<Key>,
    /// PEM file with the trusted certificates, in place of the default ones.
    pub certificates: Option<PathBuf>,
}

/// Credentials.
#[derive(Clone)]
pub struct Key {
    /// Identifier of the key.
    pub id: String,
    /// Secret of the key.
    pub secret: String,
    /// Token of a temporary session.
    pub token: Option<String>,
}

impl fmt::Debug for Key {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Access {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Access");
        out.field("endpoint", &self.endpoint);
        out.field("region", &self.region);
        out.field("key", &self.key);
        out.finish_non_exhaustive()
    }
}

impl Access {
    /// Reads the environment variables of AWS's own tools: `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_REGION`,
    /// `AWS_DEFAULT_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_CA_BUNDLE`. Empty
    /// variables count as unset.
    ///
    /// # Errors
    /// Half of the credentials is missing.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, StoreError> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let first = |names: [&str; 2]| names.into_iter().find_map(variable);
        let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let half = |present, missing| StoreError::Half { present, missing };
        let key = match (variable(id), variable(secret)) {
            (Some(id), Some(secret)) => Some(Key {
                id: id.trim().to_owned(),
                secret: secret.trim().to_owned(),
                token: variable("AWS_SESSION_TOKEN"),
            }),
            (Some(_), None) => return Err(half(id, secret)),
            (None, Some(_)) => return Err(half(secret, id)),
            (None, None) => None,
        };
        Ok(Self {
            endpoint: first(["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]),
            region: first(["AWS_REGION", "AWS_DEFAULT_REGION"])
                .unwrap_or_else(|| REGION.to_owned()),
            key,
            certificates: variable("AWS_CA_BUNDLE").map(PathBuf::from),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_read_as_they_are_written() {
        for (text, bucket, prefix) in [
            ("s3://films", "films", ""),
            ("s3://films/", "films", ""),
            ("S3://My.Films-2/a/b c/", "My.Films-2", "a/b c/"),
            ("s3://films/a", "films", "a/"),
        ] {
            let location: Location = text.parse().unwrap();
            assert_eq!((&*location.bucket, &*location.prefix), (bucket, prefix));
            assert_eq!(location.to_string().parse::<Location>().unwrap(), location);
        }
        let long = format!("s3://films/{}", "x".repeat(NAME_BYTES_MAX));
        for text in [
            "",
            "s3:",
            "s3://",
            "s3:///a",
            "/films",
            "s3://a b",
            "s3://a?b",
            "s3://../a",
            "s3://a/\n",
            &long,
        ] {
            let error = text.parse::<Location>().unwrap_err().to_string();
            assert!(error.contains("s3://BUCKET"), "{error}");
        }
    }

    fn access(variables: &[(&str, &str)]) -> Result<Access, StoreError> {
        Access::from_variables(|name| {
            let mut all = variables.iter();
            let found = all.find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn variables_are_those_of_other_tools() {
        let none = access(&[("AWS_ACCESS_KEY_ID", "")]).unwrap();
        assert!(none.key.is_none() && none.endpoint.is_none());
        assert_eq!(none.region, "us-east-1");
        let all = access(&[
            ("AWS_ACCESS_KEY_ID", "name"),
            ("AWS_SECRET_ACCESS_KEY", "hush"),
            ("AWS_SESSION_TOKEN", "token"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_DEFAULT_REGION", "other"),
            ("AWS_ENDPOINT_URL", "http://general"),
            ("AWS_ENDPOINT_URL_S3", "http://special"),
        ])
        .unwrap();
        assert_eq!(all.region, "eu-west-1");
        assert_eq!(all.endpoint.as_deref(), Some("http://special"));
        assert!(!format!("{all:?}").contains("hush"));
        let key = all.key.unwrap();
        assert_eq!((&*key.id, &*key.secret), ("name", "hush"));
        assert_eq!(key.token.as_deref(), Some("token"));
    }

    #[test]
    fn half_of_the_credentials_is_reported() {
        let error = access(&[("AWS_ACCESS_KEY_ID", "name")]).unwrap_err();
        assert!(error.to_string().contains("AWS_SECRET_ACCESS_KEY is not"));
        let error = access(&[("AWS_SECRET_ACCESS_KEY", "hush")]).unwrap_err();
        assert!(error.to_string().contains("AWS_ACCESS_KEY_ID is not"));
    }
}
