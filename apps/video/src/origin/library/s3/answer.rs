//! Error responses of a store, as helpful messages.

use super::{StoreError, xml::element};

/// An unexpected response.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    /// Its body: XML from S3, or anything from another server.
    pub(super) body: &'a str,
    /// The region of the bucket, where the store reports it.
    pub(super) region: Option<&'a str>,
}

/// Context of a request: who sent it, and where.
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a str,
    pub(super) bucket: &'a str,
    /// The identifier of the key; `None`: the request was not signed.
    pub(super) key: Option<&'a str>,
}

impl Answer<'_> {
    /// True if a retry may help.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.status, 408 | 429 | 500 | 502 | 503 | 504)
    }

    /// The error that the response means.
    pub(super) fn error(&self, asked: &Asked<'_>) -> StoreError {
        let endpoint = asked.endpoint.to_owned();
        let code = element(self.body, "Code").unwrap_or_default();
        let region = self.region.map(str::to_owned);
        let region = region.or_else(|| element(self.body, "Region"));
        let denied = |reason: String| StoreError::Denied {
            endpoint: asked.endpoint.to_owned(),
            reason,
        };
        match (self.status, &*code) {
            (_, "NoSuchBucket") => StoreError::NoBucket {
                bucket: asked.bucket.to_owned(),
                endpoint,
            },
            (_, "NoSuchKey" | "PreconditionFailed") | (412 | 416, _) => StoreError::Changed,
            (301 | 307 | 308 | 400, _)
                if region.as_ref().is_some_and(|region| !region.is_empty()) =>
            {
                StoreError::Region(region.unwrap_or_default())
            }
            (_, "InvalidAccessKeyId") => {
                let key = asked.key.unwrap_or_default();
                denied(format!(
                    "it does not know the key '{key}'; check AWS_ACCESS_KEY_ID"
                ))
            }
            (_, "SignatureDoesNotMatch") => denied(
                "the signature is wrong; check AWS_SECRET_ACCESS_KEY, and that no proxy between changes requests"
                    .to_owned(),
            ),
            (_, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => {
                denied("the session of these credentials has expired; renew AWS_SESSION_TOKEN".to_owned())
            }
            (_, "RequestTimeTooSkewed") => {
                denied("this machine's clock differs too much from the store's; set it".to_owned())
            }
            (401 | 403, _) if asked.key.is_none() => denied(format!(
                "the bucket '{}' is not public; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                asked.bucket
            )),
            (401 | 403, _) => denied(format!(
                "{}; the key '{}' needs s3:ListBucket on the bucket '{}' and s3:GetObject on its objects",
                self.words(),
                asked.key.unwrap_or_default(),
                asked.bucket
            )),
            (404, _) if code.is_empty() => StoreError::Failed {
                endpoint,
                reason: "it does not support the S3 protocol (HTTP 404)".to_owned(),
            },
            _ => StoreError::Failed {
                endpoint,
                reason: self.words(),
            },
        }
    }

    /// The message, on one line of limited length.
    fn words(&self) -> String {
        let status = self.status;
        let message = match (element(self.body, "Code"), element(self.body, "Message")) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code,
            _ => return format!("HTTP {status}"),
        };
        let plain = message
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c });
        let short: String = plain.take(300).collect();
        format!("{} (HTTP {status})", short.trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(status: u16, body: &str, region: Option<&str>, key: Option<&str>) -> String {
        let answer = Answer {
            status,
            body,
            region,
        };
        let asked = Asked {
            endpoint: "http://store",
            bucket: "films",
            key,
        };
        answer.error(&asked).to_string()
    }

    fn error(code: &str, more: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>Told so.</Message>{more}</Error>"
        )
    }

    #[test]
    fn errors_contain_advice() {
        let key = Some("KEY");
        for (status, code, key, expected) in [
            (
                404,
                "NoSuchBucket",
                key,
                "no bucket 'films' at http://store",
            ),
            (403, "InvalidAccessKeyId", key, "AWS_ACCESS_KEY_ID"),
            (403, "SignatureDoesNotMatch", key, "AWS_SECRET_ACCESS_KEY"),
            (400, "ExpiredToken", key, "AWS_SESSION_TOKEN"),
            (403, "RequestTimeTooSkewed", key, "clock"),
            (403, "AccessDenied", key, "s3:ListBucket"),
            (403, "AccessDenied", None, "not public"),
            (
                400,
                "InvalidBucketName",
                key,
                "InvalidBucketName: Told so (HTTP 400)",
            ),
            (500, "InternalError", key, "InternalError"),
        ] {
            let words = words(status, &error(code, ""), None, key);
            assert!(words.contains(expected), "{code}: {words}");
        }
    }

    #[test]
    fn another_region_is_named() {
        let redirect = words(
            301,
            &error("PermanentRedirect", ""),
            Some("eu-west-1"),
            None,
        );
        assert!(redirect.contains("AWS_REGION to 'eu-west-1'"), "{redirect}");
        let body = error(
            "AuthorizationHeaderMalformed",
            "<Region>eu-north-1</Region>",
        );
        let malformed = words(400, &body, None, Some("KEY"));
        assert!(malformed.contains("'eu-north-1'"), "{malformed}");
    }

    #[test]
    fn other_servers_are_recognised() {
        let page = words(404, "<html>nginx</html>", None, None);
        assert!(page.contains("does not support the S3 protocol"), "{page}");
        assert!(words(502, "bad gateway\n", None, None).contains("HTTP 502"));
        let nasty = format!(
            "<Code>a\n\x1b[31m</Code><Message>{}</Message>",
            "x".repeat(9_999)
        );
        let nasty = words(400, &nasty, None, None);
        assert!(nasty.len() < 500 && !nasty.contains('\x1b'), "{nasty}");
    }

    #[test]
    fn what_passes_is_asked_again() {
        let is_passing = |status| {
            let answer = Answer {
                status,
                body: "",
                region: None,
            };
            answer.is_passing()
        };
        for status in [429, 500, 502, 503, 504] {
            assert!(is_passing(status), "{status}");
        }
        for status in [200, 301, 400, 403, 404, 412] {
            assert!(!is_passing(status), "{status}");
        }
    }
}
