//! A small object store on loopback: listing in pages, ranges, signatures that are checked, and failures on demand.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write as _,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard},
    time::{SystemTime, UNIX_EPOCH},
};

use super::signature::{self, Key, decode};

pub(crate) const BUCKET: &str = "films";
pub(crate) const REGION: &str = "eu-test-1";
pub(crate) const ID: &str = "AKTEST";
pub(crate) const SECRET: &str = "not/so+secret";

/// Failure of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A response with this status and nothing else.
    Status(u16),
    /// Half of the body, then the end of the connection.
    Cut,
    /// The end of the connection at once.
    Gone,
}

struct Object {
    bytes: Vec<u8>,
    etag: String,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Object>,
    faults: VecDeque<Fault>,
    /// Targets of authorised requests, without the signature.
    asked: Vec<String>,
    /// Requests that failed because of a fault.
    failed: usize,
    is_public: bool,
}

/// An object store; it ends with the process.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    page: usize,
}

impl Store {
    /// A store that lists `page` objects at a time.
    pub(crate) fn start(page: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let store = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
            page,
        };
        let serving = store.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let store = serving.clone();
                // A client that hangs up is not an error.
                std::thread::spawn(move || {
                    let _ = store.serve(&connection);
                });
            }
        });
        store
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Puts an object, replacing an existing one.
    pub(crate) fn put(&self, key: &str, bytes: Vec<u8>) {
        let etag = format!("\"{}\"", &blake3::hash(&bytes).to_hex()[..32]);
        let object = Object { bytes, etag };
        self.lock().objects.insert(key.to_owned(), object);
    }

    pub(crate) fn remove(&self, key: &str) {
        self.lock().objects.remove(key);
    }

    /// Makes the next requests fail like this, one after the other.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.lock().faults.extend(faults);
    }

    /// Authorises all requests.
    pub(crate) fn publish(&self) {
        self.lock().is_public = true;
    }

    /// Requests since the last call: `LIST after TOKEN` or `GET KEY FROM-TO`; and the number of failed requests.
    pub(crate) fn asked(&self) -> (Vec<String>, usize) {
        let mut state = self.lock();
        let failed = std::mem::take(&mut state.failed);
        (std::mem::take(&mut state.asked), failed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn serve(&self, connection: &TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(connection.try_clone()?);
        loop {
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                let line = line.trim_end().to_owned();
                if line.is_empty() {
                    break;
                }
                head.push(line);
            }
            let reply = self.answer(&head);
            let mut out = connection;
            let fault = self.lock().faults.pop_front();
            match fault {
                None => out.write_all(&reply.bytes(&reply.body))?,
                Some(fault) => {
                    self.lock().failed += 1;
                    match fault {
                        Fault::Status(status) => {
                            let reply = Reply::error(status, "InternalError");
                            out.write_all(&reply.bytes(&reply.body))?;
                        }
                        Fault::Cut => {
                            out.write_all(&reply.bytes(&reply.body[..reply.body.len() / 2]))?;
                            return connection.shutdown(std::net::Shutdown::Both);
                        }
                        Fault::Gone => return connection.shutdown(std::net::Shutdown::Both),
                    }
                }
            }
        }
    }

    fn answer(&self, head: &[String]) -> Reply {
        let header = |name: &str| {
            head.iter().skip(1).find_map(|line| {
                let (found, value) = line.split_once(':')?;
                found.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let mut words = head[0].split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let key = Key {
            id: ID,
            secret: SECRET,
            region: REGION,
        };
        #[expect(clippy::disallowed_methods, reason = "signatures need the wall clock")]
        let now = SystemTime::now();
        let now = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let host = header("host").unwrap_or_default();
        let mut state = self.lock();
        if !state.is_public
            && let Err(code) = signature::check(method, target, host, &key, now)
        {
            return Reply::error(403, code);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decode(path);
        let (bucket, name) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        if bucket != BUCKET {
            return Reply::error(404, "NoSuchBucket");
        }
        if name.is_empty() {
            return self.list(&mut state, query);
        }
        let range = header("range").unwrap_or("all").replace("bytes=", "");
        state.asked.push(format!("GET {name} {range}"));
        let Some(object) = state.objects.get(name) else {
            return Reply::error(404, "NoSuchKey");
        };
        if header("if-match").is_some_and(|etag| etag != object.etag) {
            return Reply::error(412, "PreconditionFailed");
        }
        let total = object.bytes.len();
        let parsed = range.split_once('-').and_then(|(from, to)| {
            let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to && from < total).then(|| (from, to.min(total - 1)))
        });
        let Some((from, to)) = parsed else {
            return Reply::error(416, "InvalidRange");
        };
        Reply {
            status: 206,
            headers: format!(
                "ETag: {}\r\nContent-Range: bytes {from}-{to}/{total}\r\n",
                object.etag
            ),
            body: object.bytes[from..=to].to_vec(),
        }
    }

    fn list(&self, state: &mut State, query: &str) -> Reply {
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let found = pairs.find(|(found, _)| *found == name);
            found.map(|(_, value)| decode(value))
        };
        let prefix = parameter("prefix").unwrap_or_default();
        let after = parameter("continuation-token").unwrap_or_default();
        let most = parameter("max-keys").and_then(|keys| keys.parse().ok());
        let most = self.page.min(most.unwrap_or(1_000));
        state.asked.push(format!("LIST after {after}"));
        let mut matching = state.objects.iter().filter(|(key, _)| {
            key.starts_with(&prefix) && (after.is_empty() || format!("t+{key}") > after)
        });
        let page: Vec<_> = matching.by_ref().take(most).collect();
        let mut xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
        let is_truncated = matching.next().is_some();
        write!(xml, "<Name>{BUCKET}</Name><MaxKeys>{most}</MaxKeys><EncodingType>url</EncodingType><IsTruncated>{is_truncated}</IsTruncated>").unwrap();
        if let (true, Some((last, _))) = (is_truncated, page.last()) {
            let last = last.replace('&', "&amp;");
            write!(
                xml,
                "<NextContinuationToken>t+{last}</NextContinuationToken>"
            )
            .unwrap();
        }
        for (key, object) in page {
            // As in forms.
            let key = key
                .replace('%', "%25")
                .replace('+', "%2B")
                .replace('&', "%26")
                .replace(' ', "+");
            let (etag, size) = (object.etag.replace('"', "&quot;"), object.bytes.len());
            write!(xml, "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{etag}</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>").unwrap();
        }
        xml.push_str("</ListBucketResult>");
        Reply {
            status: 200,
            headers: "Content-Type: application/xml\r\n".to_owned(),
            body: xml.into_bytes(),
        }
    }
}

struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Reply {
    fn error(status: u16, code: &str) -> Self {
        Self {
            status,
            headers: "Content-Type: application/xml\r\n".to_owned(),
            body: format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>A test.</Message></Error>").into_bytes(),
        }
    }

    /// Encodes the response with the length of the whole body, of which `body` is sent.
    fn bytes(&self, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "HTTP/1.1 {} Said\r\n{}Content-Length: {}\r\n\r\n",
            self.status,
            self.headers,
            self.body.len()
        );
        [head.as_bytes(), body].concat()
    }
}
