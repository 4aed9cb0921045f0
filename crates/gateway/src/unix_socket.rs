//! Unix sockets of programs. There are none on Windows: opening one, and connecting, is an error there.

#[cfg(unix)]
mod unix {
    use std::{
        fs, io,
        os::unix::{fs::PermissionsExt, net::UnixStream as StdUnixStream},
        path::{Path, PathBuf},
    };

    use tokio::net::UnixListener;
    pub(crate) use tokio::net::UnixStream;

    /// Unix socket, removed when this is dropped.
    #[derive(Debug)]
    pub(crate) struct SocketFile {
        listener: UnixListener,
        path: PathBuf,
    }

    impl Drop for SocketFile {
        fn drop(&mut self) {
            // It may be gone already.
            let _ = fs::remove_file(&self.path);
        }
    }

    impl SocketFile {
        /// Opens a socket for this user. One that was left over is replaced.
        ///
        /// # Errors
        /// Another program listens there, or a file cannot be made.
        pub(crate) fn open(path: &Path) -> io::Result<Self> {
            let listener = match UnixListener::bind(path) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
                    fs::remove_file(path)?;
                    UnixListener::bind(path)?
                }
                bound => bound?,
            };
            let file = Self {
                listener,
                path: path.to_owned(),
            };
            // Only this user; a wider mode can be set once it is there. Until then the mask of the process applies.
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            Ok(file)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.path
        }

        /// The next connection.
        pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
            self.listener.accept().await.map(|(stream, _)| stream)
        }
    }

    /// True if no program listens at a socket: the one that did has ended without removing it.
    fn is_left_over(path: &Path) -> bool {
        use std::os::unix::fs::FileTypeExt;
        let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        is_socket && StdUnixStream::connect(path).err().is_some_and(refused)
    }

    /// Process at the other end.
    pub(crate) fn process(stream: &UnixStream) -> Option<i32> {
        stream.peer_cred().ok()?.pid()
    }
}

#[cfg(windows)]
mod windows {
    use std::{io, path::Path};

    use bytes::BufMut;
    use tokio::io::{Interest, Ready};

    fn unsupported() -> io::Error {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "there are no Unix sockets on Windows; name a port",
        )
    }

    /// An item that does not exist.
    #[derive(Debug)]
    enum Never {}

    /// A socket that listens, of which there is none.
    #[derive(Debug)]
    pub(crate) struct SocketFile(Never);

    impl SocketFile {
        /// # Errors
        /// Always: there are none.
        pub(crate) fn open(_: &Path) -> io::Result<Self> {
            Err(unsupported())
        }

        pub(crate) fn path(&self) -> &Path {
            match self.0 {}
        }

        pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
            match self.0 {}
        }
    }

    /// A connection, of which there is none.
    #[derive(Debug)]
    pub(crate) struct UnixStream(Never);

    impl UnixStream {
        /// # Errors
        /// Always: there are none.
        pub(crate) async fn connect(_: impl AsRef<Path>) -> io::Result<Self> {
            Err(unsupported())
        }

        pub(crate) async fn readable(&self) -> io::Result<()> {
            match self.0 {}
        }

        pub(crate) async fn writable(&self) -> io::Result<()> {
            match self.0 {}
        }

        pub(crate) async fn ready(&self, _: Interest) -> io::Result<Ready> {
            match self.0 {}
        }

        pub(crate) fn try_read_buf(&self, _: &mut impl BufMut) -> io::Result<usize> {
            match self.0 {}
        }

        pub(crate) fn try_write(&self, _: &[u8]) -> io::Result<usize> {
            match self.0 {}
        }

        pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
            match self.0 {}
        }
    }

    /// Process at the other end.
    pub(crate) fn process(stream: &UnixStream) -> Option<i32> {
        match stream.0 {}
    }
}

#[cfg(unix)]
pub(crate) use unix::{SocketFile, UnixStream, process};
#[cfg(windows)]
pub(crate) use windows::{SocketFile, UnixStream, process};
