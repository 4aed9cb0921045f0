//! Client of the control socket of a node: one request and one answer, each a line of JSON.

use std::{io, path::PathBuf, time::Duration};

/// Longest answer that is read. All rows of an answer with every field at its longest are no more.
#[cfg(unix)]
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Time within which the node answers: a `ping` waits for ten seconds at most.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(12);

/// A control socket.
#[derive(Clone, Debug)]
pub(crate) struct Control(PathBuf);

/// Reason for which there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error("no node answers at {}: {source}", path.display())]
    Connect { path: PathBuf, source: io::Error },
    #[error("the node did not answer within {} s", ANSWER_TIME_MAX.as_secs())]
    Late,
    #[error("the answer of the node is longer than 64 MB")]
    Long,
    #[error("this program answers no requests; its state comes by itself")]
    Nothing,
}

impl Control {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The answer to a request without line breaks: a line of JSON, which may be an error of the node, without its end.
    pub(crate) async fn ask(&self, request: &str) -> Result<String, AskError> {
        match tokio::time::timeout(ANSWER_TIME_MAX, self.exchange(request)).await {
            Ok(Ok(line)) if line.ends_with('\n') => Ok(line.trim_end().to_owned()),
            Ok(Ok(line)) if line.is_empty() => {
                Err(self.failed(io::ErrorKind::UnexpectedEof.into()))
            }
            Ok(Ok(_)) => Err(AskError::Long),
            Ok(Err(source)) => Err(self.failed(source)),
            Err(_) => Err(AskError::Late),
        }
    }

    fn failed(&self, source: io::Error) -> AskError {
        AskError::Connect {
            path: self.0.clone(),
            source,
        }
    }

    #[cfg(unix)]
    async fn exchange(&self, request: &str) -> io::Result<String> {
        use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
        let mut stream = tokio::net::UnixStream::connect(&self.0).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.write_all(b"\n").await?;
        let mut line = String::new();
        let mut reader = BufReader::new(stream.take(ANSWER_BYTES_MAX));
        reader.read_line(&mut line).await?;
        Ok(line)
    }

    #[cfg(not(unix))]
    #[expect(
        clippy::unused_async,
        reason = "it has the signature of the other systems"
    )]
    async fn exchange(&self, _: &str) -> io::Result<String> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "control sockets need a Unix system",
        ))
    }
}
