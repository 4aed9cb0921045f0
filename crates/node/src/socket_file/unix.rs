//! Unix sockets with a file.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    task::{Context, Poll},
};

use tokio::net::UnixListener;

use super::{SocketFileError, door::Listener};

pub(crate) use tokio::net::{
    UnixStream,
    unix::{OwnedReadHalf, OwnedWriteHalf},
};

/// Tries to make a folder with a name that nothing has yet.
const NAMES_MAX: u32 = 16;

/// An open socket; its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    file: Named,
    listener: UnixListener,
}

/// File of a socket; removed when this is dropped.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    /// Device and number of the file.
    inode: (u64, u64),
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl Drop for Named {
    fn drop(&mut self) {
        // It may have been removed by someone else, or replaced by a socket of theirs.
        if inode(&self.path).is_ok_and(|found| found == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl SocketFile {
    /// Opens the socket with this mode. A file left behind by a process that crashed is replaced. The last folder of the path
    /// is made where it is missing, for this user only; one that others can write to is refused, unless it is sticky and the
    /// name is not theirs.
    ///
    /// The socket is made in a folder that nobody else can enter and gets its name when its mode is right, so that there
    /// is no moment at which others could connect.
    ///
    /// # Errors
    /// Another process listens there, others could listen in its place, or the file cannot be made.
    pub(crate) async fn open(path: &Path, mode: u32) -> Result<Self, SocketFileError> {
        if UnixStream::connect(path).await.is_ok() {
            return Err(SocketFileError::Running);
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        make_folder(parent)?;
        if is_exposed(parent)? {
            return Err(SocketFileError::Exposed);
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Err(SocketFileError::Taken),
        }
        let folder = Private::make_in(parent)?;
        let hidden = folder.0.join("s");
        let listener = UnixListener::bind(&hidden)?;
        fs::set_permissions(&hidden, fs::Permissions::from_mode(mode))?;
        let inode = inode(&hidden)?;
        fs::rename(&hidden, path)?;
        let path = path.to_owned();
        Ok(Self {
            file: Named { path, inode },
            listener,
        })
    }
}

impl Listener for SocketFile {
    type Stream = UnixStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }

    fn close(self) -> Vec<UnixStream> {
        // Nobody can connect from here on.
        drop(self.file);
        let Ok(listener) = self.listener.into_std() else {
            return Vec::new();
        };
        // It does not block, so the first error is the end of those that wait.
        let waiting = std::iter::from_fn(|| listener.accept().ok());
        let taken = waiting.filter_map(|(stream, _)| {
            stream.set_nonblocking(true).ok()?;
            UnixStream::from_std(stream).ok()
        });
        taken.collect()
    }
}

/// Number of the user at the other end.
pub(crate) fn peer_uid(socket: &UnixStream) -> Option<u32> {
    socket.peer_cred().ok().map(|peer| peer.uid())
}

/// Sets the mode of the file of an open socket.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Effective user of this process.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// True if the process with this effective user may do everything here: it is the one who runs this node, or root.
pub(crate) fn is_owner(uid: u32) -> bool {
    uid == own_uid() || uid == 0
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

/// Makes a folder for this user only, where there is none.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.mode(0o700).recursive(true).create(folder)
}

/// True if others could replace a file in this folder.
pub(crate) fn is_exposed(folder: &Path) -> io::Result<bool> {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let metadata = fs::metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    let is_foreign = metadata.uid() != own && metadata.uid() != 0;
    let is_open = metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0;
    Ok(is_foreign || is_open)
}
