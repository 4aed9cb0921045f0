//! A browser through SOCKS.

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Command,
};

use crate::{Setting, program, succeeds};

const PAGE: &str = "<html><body><p id=out>waits</p><script>
fetch('/data').then(r => r.arrayBuffer()).then(b => {
  document.getElementById('out').textContent = 'received ' + b.byteLength;
});
</script></body></html>";
const DATA_BYTES: usize = 1_000_000;

/// A web server with a page, and data that its script fetches.
fn serve() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            std::thread::spawn(move || {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if client.read(&mut byte).unwrap_or(0) == 0 {
                        return;
                    }
                    request.push(byte[0]);
                }
                let (kind, body) = match request.starts_with(b"GET /data") {
                    true => ("application/octet-stream", vec![1; DATA_BYTES]),
                    false => ("text/html", PAGE.as_bytes().to_vec()),
                };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                // The browser may leave.
                let _ = client
                    .write_all(head.as_bytes())
                    .and_then(|()| client.write_all(&body));
            });
        }
    });
    at
}

#[test]
fn chromium_loads_a_page_and_its_data_through_socks() {
    let Some(chromium) = program("chromium") else {
        return;
    };
    let target = serve();
    let setting = Setting::new(&target.to_string(), &["socks", "0"]);
    let profile = setting.path().join("profile");
    let page = succeeds(
        Command::new(chromium)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--virtual-time-budget=20000",
                "--dump-dom",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--proxy-server=socks5://{}", setting.at))
            // Addresses of this machine, too.
            .arg("--proxy-bypass-list=<-loopback>")
            .arg(format!("http://{target}/")),
    );
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains(&format!("received {DATA_BYTES}")), "{page}");
    setting.end();
}
