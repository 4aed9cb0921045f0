//! A config as one line of text.
