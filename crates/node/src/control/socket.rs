//! The control socket: who may connect, how much it may send and for how long.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_net::{Host, limited};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    task::{AbortHandle, JoinSet},
};

use super::{Context, ControlError, answer};
use crate::{
    daemon::{Core, FlowReports},
    overlay::Overlay,
    socket_file::{Door, OWNER_ONLY, SocketFile, UnixStream, is_owner, peer_uid},
};

/// Longest question: a text of objectives of 1 MiB, as a string of JSON.
const QUESTION_BYTES_MAX: u64 = 3 << 20;
/// Askers at a time. Of more, the one that has been silent for longest is let go.
const ASKERS_MAX: usize = 32;
/// Time after which a client that sends nothing, or does not read its response, is disconnected.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A control socket; its file is removed when this is dropped.
#[derive(Debug)]
pub struct Control {
    door: Door<SocketFile>,
    /// [`TIMEOUT`].
    pub(super) timeout: Duration,
}

impl Control {
    /// Opens the socket. A file left behind by a node that crashed is replaced. The last folder of the path is made where
    /// it is missing, for this user only; one that others can write to is refused, unless it is sticky and the name is not
    /// theirs.
    ///
    /// # Errors
    /// Another node listens there, others could listen in its place, or the file cannot be made.
    pub async fn open(path: &Path) -> Result<Self, ControlError> {
        Ok(Self::of(Some(Self::file(path).await?)))
    }

    /// Opens the file of a control socket.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub(crate) async fn file(path: &Path) -> Result<SocketFile, ControlError> {
        let opened = SocketFile::open(path, OWNER_ONLY).await;
        opened.map_err(|error| ControlError::of(path, error))
    }

    /// A control socket at this file; without one, nobody can ask.
    pub(crate) fn of(file: Option<SocketFile>) -> Self {
        Self {
            door: Door::new(file),
            timeout: TIMEOUT,
        }
    }

    /// Listens at another file from now on. Those who are connected are still answered.
    pub(crate) fn replace(&self, file: Option<SocketFile>) {
        self.door.replace(file);
    }

    /// Answers until dropped.
    pub async fn serve(&self, host: &Host, overlay: Option<&Overlay>) {
        let context = Context {
            host: host.clone(),
            overlay: overlay.cloned(),
            node: None,
            flows: None,
            user: None,
        };
        self.answer_all(context).await;
    }

    /// The same for a process without an overlay that carries flows.
    pub async fn serve_with_flows(&self, host: &Host, flows: Option<Arc<dyn FlowReports>>) {
        let context = Context {
            host: host.clone(),
            overlay: None,
            node: None,
            flows,
            user: None,
        };
        self.answer_all(context).await;
    }

    /// The same for a node that runs by a configuration.
    pub(crate) async fn serve_node(&self, node: &Arc<Core>) {
        let context = Context {
            host: node.host.clone(),
            overlay: None,
            node: Some(node.clone()),
            flows: None,
            user: None,
        };
        self.answer_all(context).await;
    }

    async fn answer_all(&self, context: Context) {
        let mut askers = Askers::default();
        loop {
            tokio::select! {
                accepted = self.door.accept() => match accepted {
                    Ok(stream) => askers.admit(stream, &context, self.timeout),
                    Err(error) => {
                        limited!(warn, %error, "control socket");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                },
                Some(_) = askers.tasks.join_next() => {}
            }
        }
    }
}

/// Those who ask, the one first that has asked nothing for longest.
#[derive(Default)]
struct Askers {
    tasks: JoinSet<io::Result<()>>,
    waiting: VecDeque<(AbortHandle, Arc<AtomicBool>)>,
}

impl Askers {
    /// Takes one more; lets go of an idle one when there are too many, or of the new one when all are being answered.
    fn admit(&mut self, stream: UnixStream, context: &Context, timeout: Duration) {
        if !is_trusted(&stream) {
            limited!(warn, "another user was refused at the control socket");
            return;
        }
        self.waiting.retain(|(task, _)| !task.is_finished());
        if self.waiting.len() >= ASKERS_MAX {
            let is_idle =
                |(_, is_busy): &(AbortHandle, Arc<AtomicBool>)| !is_busy.load(Ordering::Relaxed);
            let Some(idle) = self.waiting.iter().position(is_idle) else {
                return;
            };
            if let Some((task, _)) = self.waiting.remove(idle) {
                task.abort();
            }
        }
        let is_busy = Arc::new(AtomicBool::new(false));
        let context = Context {
            user: peer_uid(&stream),
            ..context.clone()
        };
        let conversation = converse(stream, context, is_busy.clone(), timeout);
        let task = self.tasks.spawn(conversation);
        self.waiting.push_back((task, is_busy));
    }
}

/// True if the other end is the user who runs this node, or root. The mode of the file has the same effect; this check also works
/// where somebody has changed it, or passes a descriptor on.
fn is_trusted(stream: &UnixStream) -> bool {
    peer_uid(stream).is_some_and(is_owner)
}

async fn converse(
    stream: UnixStream,
    context: Context,
    is_busy: Arc<AtomicBool>,
    timeout: Duration,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut line = String::new();
        let mut limited = (&mut reader).take(QUESTION_BYTES_MAX);
        let read = tokio::time::timeout(timeout, limited.read_line(&mut line));
        match read.await {
            Ok(Ok(count)) if count > 0 && line.ends_with('\n') => {}
            _ => return Ok(()),
        }
        is_busy.store(true, Ordering::Relaxed);
        let mut text = answer(&context, &line).await.to_string();
        // Who does not take its answer is not being answered.
        is_busy.store(false, Ordering::Relaxed);
        text.push('\n');
        match tokio::time::timeout(timeout, writer.write_all(text.as_bytes())).await {
            Ok(written) => written?,
            Err(_) => return Ok(()),
        }
    }
}
