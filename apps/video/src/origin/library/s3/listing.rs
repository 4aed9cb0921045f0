//! Listing of a bucket: the objects that are videos.

use super::{
    Location, StoreError,
    client::Client,
    xml::{self, Page},
};
use crate::origin::library::{
    names::{self, VIDEOS_MAX, is_video},
    place::{Catalogue, Found, Stamp},
};

/// Maximum number of pages of a listing, of a thousand objects each; the rest is left out.
const PAGES_MAX: usize = 1_000;

/// Checks that a bucket can be listed.
///
/// # Errors
/// It cannot, with the reason.
pub(super) fn check(client: &Client, location: &Location) -> Result<(), StoreError> {
    let xml = client.list(&location.prefix, None, Some(1))?;
    parse(client, &xml).map(|_| ())
}

/// Lists everything below the location.
///
/// # Errors
/// A page of it cannot be read.
pub(super) fn scan(client: &Client, location: &Location) -> Result<Catalogue, StoreError> {
    let mut catalogue = Catalogue::new();
    let mut token: Option<String> = None;
    for _ in 0..PAGES_MAX {
        let xml = client.list(&location.prefix, token.as_deref(), None)?;
        let page = parse(client, &xml)?;
        for object in page.objects {
            let Some(at) = object.key.strip_prefix(&location.prefix) else {
                continue;
            };
            if !is_video(at) {
                continue;
            }
            if catalogue.len() >= VIDEOS_MAX {
                tracing::warn!(
                    "the bucket has more than {VIDEOS_MAX} videos; the rest is left out"
                );
                return Ok(catalogue);
            }
            // Without an ETag, the time of the last change serves.
            let mark = if object.etag.trim_matches('"').is_empty() {
                object.modified
            } else {
                quoted(object.etag)
            };
            let stamp = Stamp {
                bytes: object.bytes,
                mark,
            };
            let at = at.to_owned();
            names::put(&mut catalogue, Found { at, stamp });
        }
        match page.next {
            Some(next) if token.as_deref() != Some(&next) => token = Some(next),
            _ => return Ok(catalogue),
        }
    }
    tracing::warn!("the bucket has more than {PAGES_MAX} pages of objects; the rest is left out");
    Ok(catalogue)
}

fn parse(client: &Client, xml: &str) -> Result<Page, StoreError> {
    let none = || client.failed("its response is not a list of objects".to_owned());
    xml::page(xml).ok_or_else(none)
}

/// Adds missing quotes: ETags come with and without them; responses have them.
fn quoted(etag: String) -> String {
    if etag.ends_with('"') {
        etag
    } else {
        format!("\"{etag}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etags_have_quotes() {
        assert_eq!(quoted("abc".to_owned()), "\"abc\"");
        assert_eq!(quoted("\"abc\"".to_owned()), "\"abc\"");
    }
}
