//! Tokens of links, each good for one visit, and the cookies for which they are exchanged.
//!
//! A token is in the fragment of the link (`#token=…`): browsers send it to no server, and it is in no log. The page sends it once, in
//! the body of a request, and gets a cookie that scripts cannot read. A new visit needs a new link.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// Time for which a link can be opened.
pub(crate) const TOKEN_AGE_MAX: Duration = Duration::from_secs(600);
/// Time for which a page stays signed in.
pub(crate) const COOKIE_AGE_MAX: Duration = Duration::from_secs(12 * 3600);
/// Most links that wait to be opened, and most pages that are signed in; the oldest give way.
const KEPT_MAX: usize = 32;
/// Wrong tokens in a row after which all links are void. Nobody guesses 128 bits; this ends the attempts.
const GUESSES_MAX: u32 = 100;

/// A random secret of 128 bits.
type Secret = [u8; 16];

#[derive(Debug, Default)]
struct Held {
    tokens: VecDeque<(Secret, Instant)>,
    cookies: VecDeque<(Secret, Instant)>,
    guesses: u32,
}

/// Tokens and cookies that are valid.
#[derive(Debug, Default)]
pub(crate) struct Access(Mutex<Held>);

impl Access {
    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new token.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn token(&self, now: Instant) -> Result<String, getrandom::Error> {
        let secret = random()?;
        keep(&mut self.held().tokens, secret, now);
        Ok(URL_SAFE_NO_PAD.encode(secret))
    }

    /// A cookie for a token, which is used up; `None`: the token is not valid.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn enter(
        &self,
        token: &str,
        now: Instant,
    ) -> Result<Option<String>, getrandom::Error> {
        let cookie = random()?;
        let mut held = self.held();
        let is_valid = decode(token).is_some_and(|token| take(&mut held.tokens, &token, now));
        if !is_valid {
            held.guesses += 1;
            if held.guesses >= GUESSES_MAX {
                held.tokens.clear();
                held.guesses = 0;
            }
            return Ok(None);
        }
        held.guesses = 0;
        keep(&mut held.cookies, cookie, now);
        Ok(Some(URL_SAFE_NO_PAD.encode(cookie)))
    }

    /// True for a cookie that is valid.
    pub(crate) fn knows(&self, cookie: &str, now: Instant) -> bool {
        let held = self.held();
        decode(cookie).is_some_and(|cookie| {
            let mut cookies = held.cookies.iter();
            cookies.any(|(own, since)| {
                is_same(own, &cookie) && now.duration_since(*since) < COOKIE_AGE_MAX
            })
        })
    }
}

fn random() -> Result<Secret, getrandom::Error> {
    let mut secret = Secret::default();
    getrandom::fill(&mut secret)?;
    Ok(secret)
}

fn decode(text: &str) -> Option<Secret> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

fn keep(kept: &mut VecDeque<(Secret, Instant)>, secret: Secret, now: Instant) {
    if kept.len() >= KEPT_MAX {
        kept.pop_front();
    }
    kept.push_back((secret, now));
}

fn take(kept: &mut VecDeque<(Secret, Instant)>, secret: &Secret, now: Instant) -> bool {
    kept.retain(|(_, since)| now.duration_since(*since) < TOKEN_AGE_MAX);
    let found = kept.iter().position(|(own, _)| is_same(own, secret));
    found.and_then(|index| kept.remove(index)).is_some()
}

/// Compares in a time that does not depend on the position of the first difference.
fn is_same(one: &Secret, other: &Secret) -> bool {
    let differences = one.iter().zip(other).map(|(one, other)| one ^ other);
    differences.fold(0, |all, difference| all | difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let (access, now) = (Access::default(), Instant::now());
        let token = access.token(now).unwrap();
        let cookie = access.enter(&token, now).unwrap().unwrap();
        assert!(access.knows(&cookie, now));
        assert_eq!(access.enter(&token, now).unwrap(), None, "used");
        assert!(!access.knows(&token, now), "a token is no cookie");
    }

    #[test]
    fn tokens_and_cookies_expire() {
        let (access, now) = (Access::default(), Instant::now());
        let late = access.token(now).unwrap();
        assert_eq!(access.enter(&late, now + TOKEN_AGE_MAX).unwrap(), None);
        let token = access.token(now).unwrap();
        let cookie = access.enter(&token, now).unwrap().unwrap();
        assert!(access.knows(&cookie, now + COOKIE_AGE_MAX - Duration::from_secs(1)));
        assert!(!access.knows(&cookie, now + COOKIE_AGE_MAX));
    }

    #[test]
    fn guesses_and_texts_that_are_no_tokens_are_refused() {
        let (access, now) = (Access::default(), Instant::now());
        let token = access.token(now).unwrap();
        for wrong in [
            "",
            "x",
            "AAAAAAAAAAAAAAAAAAAAAA",
            &"A".repeat(10_000),
            "é",
            "../..",
        ] {
            assert_eq!(access.enter(wrong, now).unwrap(), None, "{wrong}");
            assert!(!access.knows(wrong, now), "{wrong}");
        }
        assert!(access.enter(&token, now).unwrap().is_some());
    }

    #[test]
    fn a_hundred_guesses_void_the_links() {
        let (access, now) = (Access::default(), Instant::now());
        let token = access.token(now).unwrap();
        for _ in 0..GUESSES_MAX {
            assert_eq!(access.enter("AAAAAAAAAAAAAAAAAAAAAA", now).unwrap(), None);
        }
        assert_eq!(access.enter(&token, now).unwrap(), None);
        let next = access.token(now).unwrap();
        assert!(access.enter(&next, now).unwrap().is_some());
    }

    #[test]
    fn links_are_bounded() {
        let (access, now) = (Access::default(), Instant::now());
        let first = access.token(now).unwrap();
        for _ in 0..KEPT_MAX {
            access.token(now).unwrap();
        }
        assert_eq!(
            access.enter(&first, now).unwrap(),
            None,
            "the oldest gives way"
        );
        assert_eq!(access.held().tokens.len(), KEPT_MAX);
    }
}
