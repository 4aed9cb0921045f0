//! Token of the TCP socket: a secret in a file that only the user who runs the node can read, made anew at each start. Whoever knows it
//! is taken for that user.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anabranch_base::ids::encode_base32;

use crate::{
    socket_file::{is_exposed, make_folder},
    whole_file,
};

/// Beginning of every token; the digit is the version of its form.
const PREFIX: &str = "anabranch-token1:";
/// Bytes of the secret.
const SECRET_BYTES: usize = 32;
/// Longest file that is read as a token.
const FILE_BYTES_MAX: u64 = 1024;

/// The token of a running node, by its hash: hashes of this type are compared in constant time.
#[derive(Clone, Copy)]
pub(super) struct Token(blake3::Hash);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(hidden)")
    }
}

impl Token {
    /// True if this is the text of the token.
    pub(super) fn is(&self, text: &str) -> bool {
        blake3::hash(text.as_bytes()) == self.0
    }
}

/// File of a token; removed when this is dropped.
#[derive(Debug)]
pub(super) struct TokenFile {
    pub(super) token: Token,
    path: PathBuf,
}

/// A token whose file has another name until it is in force; removed when this is dropped.
#[derive(Debug)]
pub(super) struct TokenDraft {
    file: TokenFile,
    named: PathBuf,
}

impl TokenDraft {
    /// Gives the file its name. Where that fails, the token is valid, and its file has the name of a draft.
    pub(super) fn publish(self) -> (TokenFile, io::Result<()>) {
        let Self { mut file, named } = self;
        let renamed = fs::rename(&file.path, &named);
        if renamed.is_ok() {
            file.path = named;
        }
        (file, renamed)
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // It may have been removed by someone else.
        let _ = fs::remove_file(&self.path);
    }
}

impl TokenFile {
    /// Makes a token and its file, for this user only. A token of an earlier start is replaced; another file is not.
    ///
    /// # Errors
    /// The file cannot be made, others could replace it, or the name is that of a file which is no token.
    #[cfg(test)]
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let (file, published) = Self::draft(path)?.publish();
        published.map(|()| file)
    }

    /// Makes a token, and its file beside the one that it gets with [`TokenDraft::publish`].
    ///
    /// # Errors
    /// As [`TokenFile::create`].
    pub(super) fn draft(path: &Path) -> io::Result<TokenDraft> {
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        make_folder(parent)?;
        if is_exposed(parent)? {
            return Err(io::Error::other(
                "others can write to its folder; name a file in a folder that only this user can write to",
            ));
        }
        check_free(path)?;
        let draft = whole_file::beside(path, ".new");
        // Of a node that crashed, perhaps while it wrote it.
        let is_empty = fs::symlink_metadata(&draft)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0);
        if is_empty || check_free(&draft)? {
            fs::remove_file(&draft)?;
        }
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(io::Error::other)?;
        let text = format!("{PREFIX}{}", encode_base32(&secret));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = whole_file::private(&mut options).open(&draft)?;
        let created = TokenDraft {
            file: Self {
                token: Token(blake3::hash(text.as_bytes())),
                path: draft,
            },
            named: path.to_owned(),
        };
        writeln!(file, "{text}")?;
        Ok(created)
    }
}

/// Checks that a token may get this name. Returns true if an earlier token has it.
fn check_free(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_file() && read(path).is_ok() => Ok(true),
        Ok(_) => Err(io::Error::other(
            "there is a file of this name that is no token; remove it, or name another one",
        )),
    }
}

/// Reads the token in a file.
///
/// # Errors
/// The file cannot be read, or it is no token.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(
        &mut io::Read::take(fs::File::open(path)?, FILE_BYTES_MAX),
        &mut text,
    )?;
    let text = text.trim();
    if text.starts_with(PREFIX) {
        return Ok(text.to_owned());
    }
    let why = "this is not the token of a node";
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_for_its_owner_and_one_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/token");
        let made = TokenFile::create(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = read(&path).unwrap();
        assert!(made.token.is(&text));
        for other in ["", PREFIX, &text[..text.len() - 1], &format!("{text}a")] {
            assert!(!made.token.is(other), "{other}");
        }
        assert!(!format!("{made:?}").contains(&text[PREFIX.len()..]));
        // One that was left behind by a node that crashed is replaced.
        std::mem::forget(made);
        let again = TokenFile::create(&path).unwrap();
        assert!(!again.token.is(&text));
        drop(again);
        assert!(!path.exists());
    }

    #[test]
    fn other_files_and_folders_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter");
        fs::write(&path, "dear reader").unwrap();
        assert!(TokenFile::create(&path).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "dear reader");
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let error = TokenFile::create(&open.join("token")).unwrap_err();
        assert!(error.to_string().contains("others can write"), "{error}");
    }
}
