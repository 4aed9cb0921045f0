//! Requests that may be answered: those of this machine's own pages, and of the same under the name of a web server in front of it.
//!
//! A page of another site can have a browser send requests here, under a name that has just been made to resolve to this
//! address (DNS rebinding), or across origins. Such a request carries the other site's name, and is refused.

use axum::http::{HeaderMap, Method, Request, header, uri::Authority};

use crate::name::PublicName;

/// Longest name of a host in a request.
const HOST_BYTES_MAX: usize = 255;

/// The reason for refusing a request; `None`: it may be answered. `name`: that of a web server which passes requests on over TLS.
pub(crate) fn refusal<T>(request: &Request<T>, name: Option<&PublicName>) -> Option<&'static str> {
    let headers = request.headers();
    let public = name.filter(|name| is_under(headers, name));
    let own = match (public, own_host(headers)) {
        (Some(name), _) => name.origin(),
        (None, Some(host)) => format!("http://{host}"),
        (None, None) if name.is_some() => {
            return Some(
                "requests must name this machine by an address, as localhost, or by the name that was given for it",
            );
        }
        (None, None) => {
            return Some("requests must name this machine by an address or as localhost");
        }
    };
    let origin = headers.get(header::ORIGIN);
    if origin.is_some_and(|origin| origin.as_bytes() != own.as_bytes()) {
        return Some("pages of other sites may not use this one");
    }
    // Browsers say where a request comes from. From elsewhere, only a step to the page itself may lead here.
    let site = headers.get("sec-fetch-site").map(|value| value.as_bytes());
    let is_elsewhere = matches!(site, Some(b"cross-site" | b"same-site"));
    let mode = headers.get("sec-fetch-mode").map(|value| value.as_bytes());
    if is_elsewhere && !(mode == Some(b"navigate") && request.uri().path() == "/") {
        return Some("pages of other sites may not use this one");
    }
    // A form of another site can send no JSON without being asked first.
    let kind = headers
        .get(header::CONTENT_TYPE)
        .map(|value| value.as_bytes());
    if request.method() == Method::POST && kind != Some(b"application/json") {
        return Some("requests have the content type application/json");
    }
    None
}

/// True if a request came under the name of the web server, which has then added TLS.
pub(crate) fn is_under(headers: &HeaderMap, name: &PublicName) -> bool {
    host(headers).is_some_and(|host| name.is(host))
}

/// The value of the only header Host.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// The value of the header Host, if it names this machine: an address, which nobody can make lead elsewhere, or `localhost`.
fn own_host(headers: &HeaderMap) -> Option<&str> {
    let host = host(headers)?;
    if host.len() > HOST_BYTES_MAX || host.contains('@') {
        return None;
    }
    let authority: Authority = host.parse().ok()?;
    let name = authority.host();
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_own = name.eq_ignore_ascii_case("localhost")
        || bare.unwrap_or(name).parse::<std::net::IpAddr>().is_ok();
    is_own.then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a web server in front.
    fn refusal<T>(request: &Request<T>) -> Option<&'static str> {
        super::refusal(request, None)
    }

    fn with(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::post("/api/ask");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    const JSON: (&str, &str) = ("content-type", "application/json");

    #[test]
    fn requests_of_the_own_page_are_answered() {
        for host in [
            "127.0.0.1:8470",
            "[::1]:8470",
            "localhost:8470",
            "LocalHost",
        ] {
            let origin = format!("http://{host}");
            let request = with(&[("host", host), ("origin", &origin), JSON]);
            assert_eq!(refusal(&request), None, "{host}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "a@127.0.0.1",
            "[",
        ] {
            assert!(refusal(&with(&[("host", host), JSON])).is_some(), "{host}");
        }
        assert!(refusal(&with(&[JSON])).is_some(), "no host");
        let twice = with(&[("host", "127.0.0.1"), ("host", "127.0.0.1"), JSON]);
        assert!(refusal(&twice).is_some());
    }

    #[test]
    fn other_origins_are_refused() {
        let host = ("host", "127.0.0.1:8470");
        for origin in [
            "http://evil.example",
            "null",
            "https://127.0.0.1:8470",
            "http://127.0.0.1:8471",
        ] {
            assert!(
                refusal(&with(&[host, ("origin", origin), JSON])).is_some(),
                "{origin}"
            );
        }
        for site in ["cross-site", "same-site"] {
            assert!(refusal(&with(&[host, ("sec-fetch-site", site), JSON])).is_some());
        }
    }

    #[test]
    fn under_the_name_of_a_web_server_only_pages_over_tls_are_answered() {
        let name = "ward.example".parse().unwrap();
        let refusal = |headers: &[(&str, &str)]| super::refusal(&with(headers), Some(&name));
        let (host, own) = (("host", "ward.example"), ("origin", "https://ward.example"));
        assert_eq!(refusal(&[host, own, JSON]), None);
        assert_eq!(refusal(&[("host", "Ward.Example:443"), own, JSON]), None);
        let local = ("host", "127.0.0.1:8472");
        let origin = ("origin", "http://127.0.0.1:8472");
        assert_eq!(refusal(&[local, origin, JSON]), None, "as without a name");
        for (host, origin) in [
            (host, "http://ward.example"),
            (host, "https://evil.example"),
            (host, "https://ward.example:8443"),
            (local, "https://ward.example"),
            (("host", "evil.example"), "https://evil.example"),
            (("host", "ward.example:80"), "http://ward.example:80"),
        ] {
            assert!(
                refusal(&[host, ("origin", origin), JSON]).is_some(),
                "{host:?}, {origin}"
            );
        }
        assert!(refusal(&[host, host, own, JSON]).is_some(), "two hosts");
        assert!(refusal(&[host, own, JSON, ("sec-fetch-site", "cross-site")]).is_some());
        // Without a name, the same is another site's.
        assert!(super::refusal(&with(&[host, own, JSON]), None).is_some());
    }

    #[test]
    fn a_link_on_another_site_leads_to_the_page_only() {
        let get = |path: &str| {
            Request::get(path)
                .header("host", "127.0.0.1:1")
                .header("sec-fetch-site", "cross-site")
                .header("sec-fetch-mode", "navigate")
                .body(())
                .unwrap()
        };
        assert_eq!(refusal(&get("/")), None);
        assert!(refusal(&get("/api/events")).is_some());
    }

    #[test]
    fn forms_are_refused() {
        let form = ("content-type", "text/plain");
        assert!(refusal(&with(&[("host", "127.0.0.1"), form])).is_some());
        assert!(refusal(&with(&[("host", "127.0.0.1")])).is_some());
    }
}
