//! Access rules of the HTTP side: the names under which the proxy answers, and the pages of other sites that may use it.
//!
//! A page of another site can have a browser ask this proxy under a name that has just been made to resolve to it (DNS
//! rebinding), and then read the responses as its own. Such a request carries the other site's name, and is refused. Numeric
//! addresses cannot be made to lead elsewhere.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Version, header, uri::Authority};

/// Names under which the proxy answers, and sites that may read its responses.
#[derive(Debug)]
pub(super) struct Rules {
    names: Vec<String>,
    sites: Vec<String>,
    is_open: bool,
}

/// Permission of sites to read a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sharing {
    /// Value of `Access-Control-Allow-Origin`; `None`: pages of other sites may read nothing.
    allowed: Option<HeaderValue>,
    /// True if responses differ by site, so that caches keep them apart.
    varies: bool,
}

impl Rules {
    /// `names`: of this proxy, besides those of this machine. `sites`: those whose pages may read responses, as
    /// `https://example.org`, or `*` for all.
    pub(super) fn new(names: &[String], sites: &[String]) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let mut names: Vec<String> = lower(names);
        names.extend(own_name());
        let mut sites: Vec<String> = lower(sites);
        for site in &mut sites {
            if site.ends_with('/') {
                site.pop();
            }
        }
        Self {
            names,
            is_open: sites.iter().any(|site| site == "*"),
            sites,
        }
    }

    /// Checks that a request may be answered, and which sites may read the response.
    ///
    /// # Errors
    /// It may not; the status and the reason.
    pub(super) fn check<T>(
        &self,
        request: &Request<T>,
    ) -> Result<Sharing, (StatusCode, &'static str)> {
        self.check_name(request)?;
        let headers = request.headers();
        let site = text(headers, header::ORIGIN.as_str()).map(str::to_ascii_lowercase);
        let is_listed = |site: &String| self.is_open || self.sites.contains(site);
        let sharing = Sharing {
            allowed: match &site {
                _ if self.is_open => Some(HeaderValue::from_static("*")),
                Some(site) if is_listed(site) => HeaderValue::from_str(site).ok(),
                _ => None,
            },
            varies: !self.is_open && !self.sites.is_empty(),
        };
        // Browsers send the site of a request. Where it is another one, only a navigation by the user may lead here.
        let is_elsewhere = matches!(
            text(headers, "sec-fetch-site"),
            Some("cross-site" | "same-site")
        );
        let is_step = text(headers, "sec-fetch-mode") == Some("navigate")
            && text(headers, "sec-fetch-dest") == Some("document");
        if self.sites.is_empty() && is_elsewhere && !is_step {
            return Err((
                StatusCode::FORBIDDEN,
                "pages of other sites may not use this proxy; its option --cors allows sites",
            ));
        }
        Ok(sharing)
    }

    fn check_name<T>(&self, request: &Request<T>) -> Result<(), (StatusCode, &'static str)> {
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next();
        if hosts.next().is_some() {
            return Err((StatusCode::BAD_REQUEST, "more than one Host"));
        }
        // The target of a request to a conventional proxy takes precedence over the header (RFC 9112 §3.2.2).
        let named = request.uri().authority().cloned().or_else(|| {
            let host = host?.to_str().ok()?;
            host.parse::<Authority>().ok()
        });
        let Some(named) = named else {
            // No browser of today.
            let is_old = request.version() < Version::HTTP_11 && host.is_none();
            return match is_old {
                true => Ok(()),
                false => Err((StatusCode::BAD_REQUEST, "no valid Host")),
            };
        };
        if named.as_str().contains('@') || !self.is_known(named.host()) {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "this proxy does not answer under that name; its option --http-name adds names",
            ));
        }
        Ok(())
    }

    fn is_known(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if let Some(inner) = inner {
            return inner.parse::<Ipv6Addr>().is_ok();
        }
        host.parse::<Ipv4Addr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self
                .names
                .iter()
                .any(|name| name.eq_ignore_ascii_case(host))
    }
}

impl Sharing {
    /// Adds the headers to a response.
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        if self.varies {
            headers.insert(header::VARY, HeaderValue::from_static("origin"));
        }
        let Some(allowed) = &self.allowed else {
            return;
        };
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed.clone());
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(
                "content-length, content-range, retry-after, cmsd-static, cmsd-dynamic",
            ),
        );
    }

    /// Adds the headers to the response to a preflight request.
    pub(super) fn put_options(&self, headers: &mut HeaderMap) {
        self.put(headers);
        if self.allowed.is_some() {
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, HEAD, OPTIONS"),
            );
            headers.insert(
                header::ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static("range"),
            );
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The machine's own name, by which its neighbours know it.
fn own_name() -> Option<String> {
    #[cfg(unix)]
    {
        let system = rustix::system::uname();
        let name = system.nodename().to_str().ok()?;
        (!name.is_empty()).then(|| name.to_ascii_lowercase())
    }
    #[cfg(not(unix))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(sites: &[&str]) -> Rules {
        let sites: Vec<String> = sites.iter().map(|&site| site.to_owned()).collect();
        Rules::new(&["Near.example".to_owned()], &sites)
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<()> {
        let builder = headers
            .iter()
            .fold(Request::get(uri), |builder, &(name, value)| {
                builder.header(name, value)
            });
        builder.body(()).unwrap()
    }

    fn status(rules: &Rules, uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let checked = rules.check(&request(uri, headers));
        checked.err().map(|(status, _)| status.as_u16())
    }

    #[test]
    fn a_name_that_was_made_to_lead_here_is_refused() {
        let rules = rules(&[]);
        let host = |host| status(&rules, "/", &[("host", host)]);
        for known in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.0.2.7:80",
            "near.example",
            "NEAR.example.:8080",
        ] {
            assert_eq!(host(known), None, "{known}");
        }
        for other in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "x@localhost",
            "[evil]",
            "0x7f000001",
        ] {
            let refused = host(other);
            assert!(matches!(refused, Some(400 | 421)), "{other}: {refused:?}");
        }
        assert_eq!(status(&rules, "/", &[]), Some(400));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(status(&rules, "/", &twice), Some(400));
        // A request as to a conventional proxy: the target counts.
        let both = [("host", "localhost")];
        assert_eq!(status(&rules, "http://evil.example/", &both), Some(421));
    }

    #[test]
    fn other_sites_see_what_they_were_allowed_to() {
        let seen = |rules: &Rules, site| {
            let request = request("/", &[("host", "localhost"), ("origin", site)]);
            let mut headers = HeaderMap::new();
            rules.check(&request).unwrap().put(&mut headers);
            assert_eq!(headers["x-content-type-options"], "nosniff");
            let allowed = headers.get("access-control-allow-origin");
            allowed.map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(seen(&rules(&[]), "https://a.example"), None);
        let some = rules(&["https://A.example/"]);
        assert_eq!(
            seen(&some, "https://a.example").as_deref(),
            Some("https://a.example")
        );
        assert_eq!(seen(&some, "https://b.example"), None);
        assert_eq!(seen(&some, "null"), None);
        assert_eq!(
            seen(&rules(&["*"]), "https://b.example").as_deref(),
            Some("*")
        );
    }

    /// An image or a film on another site's page, which is requested without CORS.
    #[test]
    fn pages_of_other_sites_cause_no_work() {
        let asked = |rules: &Rules, site, mode, dest| {
            let headers = [
                ("host", "localhost"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            status(rules, "/v/film.mp4", &headers)
        };
        let closed = rules(&[]);
        assert_eq!(asked(&closed, "cross-site", "no-cors", "video"), Some(403));
        assert_eq!(
            asked(&closed, "cross-site", "navigate", "iframe"),
            Some(403)
        );
        assert_eq!(asked(&closed, "cross-site", "navigate", "document"), None);
        assert_eq!(asked(&closed, "same-origin", "no-cors", "video"), None);
        assert_eq!(asked(&closed, "none", "navigate", "document"), None);
        let open = rules(&["https://a.example"]);
        assert_eq!(asked(&open, "cross-site", "no-cors", "video"), None);
    }
}
