//! Flags that choose what of the sources is sent, and under which name.

/// Choice among the content of the sources.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Choice {
    /// Name at the receiver, of one source [default: that of the file or directory, or 'stdin'].
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Names or paths in a directory that are not sent, such as '*.tmp', 'target' or 'docs/**/draft-?'; may be repeated. A pattern
    /// without '/' applies at every depth.
    #[arg(long, value_name = "PATTERN")]
    pub(super) exclude: Vec<String>,
    /// Fail with exit code 7, after everything else was sent, if something in a directory cannot be sent, such as a device or a symbolic
    /// link that leads out of it.
    #[arg(long)]
    pub(super) strict: bool,
}
