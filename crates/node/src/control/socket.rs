//! The socket itself: where it is, who may speak, how much and for how long.

use std::{
    collections::VecDeque,
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anabranch_net::{Host, limited};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    task::{AbortHandle, JoinSet},
};

use super::{Context, ControlError, answer};
use crate::{daemon::Core, overlay::Overlay};

/// Longest question: a text of objectives of 1 MiB, as a string of JSON.
const QUESTION_BYTES_MAX: u64 = 3 << 20;
/// Askers at a time. Of more, the one that has been silent for longest is let go.
const ASKERS_MAX: usize = 32;
/// An asker that says nothing for this long, or does not take its answer, is let go.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Tries to make a folder with a name that nothing has yet.
const NAMES_MAX: u32 = 16;

/// An open control socket; the file is removed when this is dropped.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// [`TIMEOUT`].
    pub(super) timeout: Duration,
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may have been removed by someone else.
        let _ = fs::remove_file(&self.path);
    }
}

/// Folder that nobody else can enter; removed when this is dropped.
struct Private(PathBuf);

impl Drop for Private {
    fn drop(&mut self) {
        // The socket has left it, unless something failed; then it goes, too.
        let _ = fs::remove_file(self.0.join("s"));
        let _ = fs::remove_dir(&self.0);
    }
}

impl Private {
    /// Makes one in `parent`. The names are short: the path of a socket has 107 bytes at most.
    fn make_in(parent: &Path) -> io::Result<Self> {
        let mut last = io::ErrorKind::AlreadyExists.into();
        for _ in 0..NAMES_MAX {
            let mut number = [0; 4];
            getrandom::fill(&mut number).map_err(io::Error::other)?;
            let path = parent.join(format!(".ab{:08x}", u32::from_ne_bytes(number)));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

impl Control {
    /// Opens the socket. A file left behind by a node that crashed is replaced. The last folder of the path is made where
    /// it is missing, for this user only; one that others can write to is refused, unless it is sticky and the name is not
    /// theirs.
    ///
    /// The socket is made in a folder that nobody else can enter and gets its name when its mode is right, so that there
    /// is no moment at which others could connect.
    ///
    /// # Errors
    /// Another node listens there, others could listen in its place, or the file cannot be made.
    pub async fn open(path: &Path) -> Result<Self, ControlError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(ControlError::Running {
                path: path.to_owned(),
            });
        }
        let failed = |source| ControlError::Listen {
            path: path.to_owned(),
            source,
        };
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        make_folder(parent).map_err(failed)?;
        if is_exposed(parent).map_err(failed)? {
            return Err(ControlError::Exposed {
                path: path.to_owned(),
            });
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(_) => {
                return Err(ControlError::Taken {
                    path: path.to_owned(),
                });
            }
        }
        let folder = Private::make_in(parent).map_err(failed)?;
        let hidden = folder.0.join("s");
        let listener = UnixListener::bind(&hidden).map_err(failed)?;
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        fs::rename(&hidden, path).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            timeout: TIMEOUT,
        })
    }

    /// Answers until dropped.
    pub async fn serve(&self, host: &Host, overlay: Option<&Overlay>) {
        let context = Context {
            host: host.clone(),
            overlay: overlay.cloned(),
            node: None,
        };
        self.answer_all(context).await;
    }

    /// The same for a node that runs by a configuration.
    pub(crate) async fn serve_node(&self, node: &Arc<Core>) {
        let context = Context {
            host: node.host.clone(),
            overlay: node.overlay.clone(),
            node: Some(node.clone()),
        };
        self.answer_all(context).await;
    }

    async fn answer_all(&self, context: Context) {
        let mut askers = Askers::default();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => askers.admit(stream, &context, self.timeout),
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

/// Makes a folder for this user only, where there is none.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).recursive(true).create(folder)
}

/// True if others could replace a file in this folder.
fn is_exposed(folder: &Path) -> io::Result<bool> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let metadata = fs::metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = metadata.uid() != own && metadata.uid() != 0;
    let is_open = metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0;
    Ok(is_foreign || is_open)
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
        let conversation = converse(stream, context.clone(), is_busy.clone(), timeout);
        let task = self.tasks.spawn(conversation);
        self.waiting.push_back((task, is_busy));
    }
}

/// True if the other end is the user who runs this node, or root. The mode of the file says the same; this holds also
/// where somebody has changed it, or passes a descriptor on.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
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
