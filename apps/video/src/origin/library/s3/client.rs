//! HTTP client of an object store: requests, with retries.

use std::{fs, io, io::Read, sync::Arc, time::Duration};

use ureq::{
    Agent,
    http::{Response, Uri, header},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{
    Access, Location, StoreError,
    access::Key,
    answer::{Answer, Asked},
    sign::{Target, address, encode},
};
use crate::clock::Clock;

/// Maximum number of attempts of a request.
const ATTEMPTS: u32 = 5;
/// Pause before the second attempt, doubled before each further one; a random part of up to half is subtracted, so that clients
/// that failed together do not retry together.
const PAUSE: Duration = Duration::from_millis(200);
/// Time after which a request is not retried: proxies wait for 30 s.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Timeout for the start of a response.
const RESPONSE_MAX: Duration = Duration::from_secs(10);
/// Timeout for the end of a response.
const BODY_MAX: Duration = Duration::from_secs(30);
/// Maximum size of a listing: a thousand keys of a kilobyte, with their properties.
const LISTING_BYTES_MAX: u64 = 4 << 20;
/// Maximum length that is read of an error response.
const ERROR_BYTES_MAX: u64 = 16 << 10;
/// Maximum number of connections kept open for the next request.
const IDLE_MAX: usize = 64;

/// A bucket, and the connection to its store. Calls wait for the network.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    clock: Clock,
    bucket: String,
    key: Option<Key>,
    region: String,
    endpoint: String,
    scheme: String,
    /// Host of the endpoint, or of the bucket at it.
    host: String,
    /// Common prefix of the paths of all objects.
    root: String,
}

/// Reason for which an attempt failed.
enum Fault {
    /// A retry may help.
    Passing(StoreError),
    /// A retry does not help.
    Final(StoreError),
}

impl Client {
    /// # Errors
    /// The endpoint is not valid, or the certificates cannot be read.
    pub(super) fn new(
        location: &Location,
        access: &Access,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let name = location.bucket.clone();
        let endpoint = match &access.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => format!("https://s3.{}.amazonaws.com", access.region),
        };
        let (scheme, host, path) =
            split(&endpoint).ok_or_else(|| StoreError::Endpoint(endpoint.clone()))?;
        let name_of_host = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
        let is_here = matches!(name_of_host, "127.0.0.1" | "[::1]" | "localhost");
        // AWS has a host for every bucket; for a name with a dot it has no certificate, and other stores have no such hosts.
        let (host, root) = if access.endpoint.is_none() && !name.contains('.') {
            (format!("{name}.{host}"), path)
        } else {
            (host, format!("{path}/{name}"))
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(CONNECT_MAX))
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_recv_response(Some(RESPONSE_MAX))
            .timeout_recv_body(Some(BODY_MAX))
            .max_idle_connections(IDLE_MAX)
            .max_idle_connections_per_host(IDLE_MAX)
            .user_agent(concat!("anabranch/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls(access)?);
        if is_here {
            config = config.proxy(None);
        }
        Ok(Self {
            agent: config.build().into(),
            clock,
            bucket: name,
            key: access.key.clone(),
            region: access.region.clone(),
            endpoint,
            scheme,
            host,
            root,
        })
    }

    /// The store's endpoint, for people.
    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// One page of a listing, as XML.
    ///
    /// # Errors
    /// The store does not give it.
    pub(super) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        keys_max: Option<usize>,
    ) -> Result<String, StoreError> {
        self.persist(|| {
            let mut query = vec![
                ("list-type", "2".to_owned()),
                ("encoding-type", "url".to_owned()),
                ("prefix", prefix.to_owned()),
            ];
            query.extend(after.map(|token| ("continuation-token", token.to_owned())));
            query.extend(keys_max.map(|keys| ("max-keys", keys.to_string())));
            let mut response = self.send(self.agent.get(self.address("", query)))?;
            if response.status() != 200 {
                return Err(self.fault(response));
            }
            let body = response.body_mut().with_config().limit(LISTING_BYTES_MAX);
            body.read_to_string().map_err(|error| self.passing(&error))
        })
    }

    /// Fills `into` with the bytes of an object from `offset` on; the response must be of the version that `etag` names.
    ///
    /// # Errors
    /// The store does not give them. [`StoreError::Changed`]: it has another version, or none.
    pub(super) fn read(
        &self,
        key: &str,
        etag: &str,
        object_bytes: u64,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), StoreError> {
        if into.is_empty() {
            return Ok(());
        }
        let last = offset + into.len() as u64 - 1;
        self.persist(|| {
            let request = self.agent.get(self.address(key, Vec::new()));
            let mut request = request.header(header::RANGE, format!("bytes={offset}-{last}"));
            if is_etag(etag) {
                request = request.header(header::IF_MATCH, etag);
            }
            let response = self.send(request)?;
            let text = |name| header_text(&response, name);
            let is_whole = offset == 0 && into.len() as u64 == object_bytes;
            match response.status().as_u16() {
                206 => {
                    let expected = format!("bytes {offset}-{last}/{object_bytes}");
                    if text(header::CONTENT_RANGE.as_str()) != Some(&expected) {
                        return Err(Fault::Final(StoreError::Changed));
                    }
                }
                200 if is_whole => {}
                200 => {
                    let reason = "it does not serve ranges of objects".to_owned();
                    return Err(Fault::Final(self.failed(reason)));
                }
                404 | 412 | 416 => return Err(Fault::Final(StoreError::Changed)),
                _ => return Err(self.fault(response)),
            }
            // Some stores ignore `If-Match`.
            if let Some(found) = text(header::ETAG.as_str())
                && is_etag(etag)
                && found != etag
            {
                return Err(Fault::Final(StoreError::Changed));
            }
            let mut body = response.into_body().into_reader();
            body.read_exact(into)
                .map_err(|error| self.passing(&error))?;
            // The end is read, too: only then can the connection serve the next request.
            match body.read(&mut [0]) {
                Ok(0) => Ok(()),
                Ok(_) => {
                    let reason = "it sends more than was requested".to_owned();
                    Err(Fault::Final(self.failed(reason)))
                }
                Err(error) => Err(self.passing(&error)),
            }
        })
    }

    /// The URL of an object, or of the bucket; valid for an hour.
    fn address(&self, key: &str, query: Vec<(&'static str, String)>) -> String {
        let path = match (&*self.root, key) {
            ("", "") => "/".to_owned(),
            (root, "") => root.to_owned(),
            (root, key) => format!("{root}/{}", encode(key, "/")),
        };
        let target = Target {
            scheme: &self.scheme,
            host: &self.host,
            path,
            query,
        };
        address(target, self.key.as_ref(), &self.region, self.clock.wall())
    }

    /// Retries until the attempt succeeds, or cannot.
    fn persist<T>(&self, mut attempt: impl FnMut() -> Result<T, Fault>) -> Result<T, StoreError> {
        let begun = self.clock.now();
        let mut pause = PAUSE;
        for number in 1.. {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Fault::Final(error)) => return Err(error),
                Err(Fault::Passing(error)) => {
                    if number >= ATTEMPTS || self.clock.since(begun) >= TIMEOUT {
                        return Err(error);
                    }
                    tracing::debug!(%error, number, "the request is retried");
                    std::thread::sleep(pause.mul_f64(0.5 + 0.5 * chance()));
                    pause *= 2;
                }
            }
        }
        unreachable!("the loop returns at the last attempt");
    }

    fn send(
        &self,
        request: ureq::RequestBuilder<ureq::typestate::WithoutBody>,
    ) -> Result<Response<ureq::Body>, Fault> {
        request.call().map_err(|error| match error {
            ureq::Error::BadUri(_) => Fault::Final(StoreError::Endpoint(self.endpoint.clone())),
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
                Fault::Final(self.unreachable(error.to_string()))
            }
            ureq::Error::HostNotFound => {
                Fault::Passing(self.unreachable("there is no such host".to_owned()))
            }
            // Failures of the TLS handshake arrive as this error: a retry does not help.
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                let hint = "a store with certificates of its own needs AWS_CA_BUNDLE";
                Fault::Final(self.unreachable(format!("{error}; {hint}")))
            }
            ureq::Error::Io(error) => self.passing(&error),
            error => Fault::Passing(self.unreachable(error.to_string())),
        })
    }

    /// Classifies an unexpected response.
    fn fault(&self, mut response: Response<ureq::Body>) -> Fault {
        let body = response.body_mut().with_config().limit(ERROR_BYTES_MAX);
        // The status counts, whatever the body is.
        let body = body.lossy_utf8(true).read_to_string().unwrap_or_default();
        let answer = Answer {
            status: response.status().as_u16(),
            body: &body,
            region: header_text(&response, "x-amz-bucket-region"),
        };
        let asked = Asked {
            endpoint: &self.endpoint,
            bucket: &self.bucket,
            key: self.key.as_ref().map(|key| &*key.id),
        };
        let error = answer.error(&asked);
        if answer.is_passing() {
            Fault::Passing(error)
        } else {
            Fault::Final(error)
        }
    }

    fn passing(&self, error: &dyn std::fmt::Display) -> Fault {
        Fault::Passing(self.unreachable(error.to_string()))
    }

    fn unreachable(&self, cause: String) -> StoreError {
        let endpoint = self.endpoint.clone();
        StoreError::Unreachable { endpoint, cause }
    }

    pub(super) fn failed(&self, reason: String) -> StoreError {
        let endpoint = self.endpoint.clone();
        StoreError::Failed { endpoint, reason }
    }
}

/// Scheme, host (without the port that the scheme has anyway) and path of an endpoint.
fn split(endpoint: &str) -> Option<(String, String, String)> {
    let uri: Uri = endpoint.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let usual = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let authority = uri.authority()?.as_str();
    let host = authority.strip_suffix(usual).unwrap_or(authority);
    let is_bare = uri.query().is_none() && !host.contains('@') && !host.is_empty();
    let path = uri.path().trim_end_matches('/');
    is_bare.then(|| {
        (
            scheme.to_owned(),
            host.to_ascii_lowercase(),
            path.to_owned(),
        )
    })
}

/// True if a mark is an ETag, not a time.
fn is_etag(mark: &str) -> bool {
    mark.len() > 2 && mark.ends_with('"') && mark.is_ascii()
}

fn header_text<'a>(response: &'a Response<ureq::Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// The default certificates, or those in the named file.
fn tls(access: &Access) -> Result<TlsConfig, StoreError> {
    let Some(path) = &access.certificates else {
        return Ok(TlsConfig::default());
    };
    let failed = |source| StoreError::Certificates {
        path: path.clone(),
        source,
    };
    let pem = fs::read(path).map_err(failed)?;
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|error| failed(io::Error::other(error)))?
        {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(failed(io::Error::other("it contains none")));
    }
    let roots = RootCerts::Specific(Arc::new(found));
    Ok(TlsConfig::builder().root_certs(roots).build())
}

/// A random number from 0 to 1.
fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0) >> 32;
    bits as f64 / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_taken_apart() {
        let of = |endpoint| {
            split(endpoint).map(|(scheme, host, path)| format!("{scheme} {host} {path}"))
        };
        for (endpoint, expected) in [
            ("http://127.0.0.1:9000", "http 127.0.0.1:9000 "),
            ("https://Store.example:443/", "https store.example "),
            ("http://[::1]:80", "http [::1] "),
            ("https://store.example/base/", "https store.example /base"),
        ] {
            assert_eq!(of(endpoint).as_deref(), Some(expected));
        }
        for endpoint in [
            "",
            "store",
            "store:9000",
            "ftp://store",
            "http://",
            "http://a@b",
            "http://a?b",
            "http://a b",
            "/x",
        ] {
            assert_eq!(of(endpoint), None, "{endpoint}");
        }
    }

    fn client(endpoint: Option<&str>, bucket: &str) -> Client {
        let access = Access {
            endpoint: endpoint.map(str::to_owned),
            region: "eu-test-1".to_owned(),
            key: None,
            certificates: None,
        };
        let location = format!("s3://{bucket}").parse().unwrap();
        Client::new(&location, &access, Clock::system()).unwrap()
    }

    #[test]
    fn buckets_have_hosts_at_aws_and_paths_elsewhere() {
        let address = |client: Client| client.address("a/b c.mp4", Vec::new());
        assert_eq!(
            address(client(None, "films")),
            "https://films.s3.eu-test-1.amazonaws.com/a/b%20c.mp4"
        );
        assert_eq!(
            address(client(None, "my.films")),
            "https://s3.eu-test-1.amazonaws.com/my.films/a/b%20c.mp4"
        );
        assert_eq!(
            address(client(Some("http://here:9000/base"), "films")),
            "http://here:9000/base/films/a/b%20c.mp4"
        );
        assert_eq!(
            client(None, "films").address("", Vec::new()),
            "https://films.s3.eu-test-1.amazonaws.com/"
        );
    }

    #[test]
    fn unreadable_certificates_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bundle.pem");
        let access = || Access {
            endpoint: None,
            region: String::new(),
            key: None,
            certificates: Some(path.clone()),
        };
        let missing = tls(&access()).unwrap_err().to_string();
        assert!(
            missing.contains("bundle.pem") && missing.contains("AWS_CA_BUNDLE"),
            "{missing}"
        );
        fs::write(&path, "no certificate\n").unwrap();
        let empty = tls(&access()).unwrap_err().to_string();
        assert!(empty.contains("it contains none"), "{empty}");
    }
}
