//! noq: one connection, one stream, with the settings of noq's own bulk benchmark: an acknowledgement
//! for every ten packets, an initial MTU of 1200 bytes, and defaults for the rest.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use noq::{
    AckFrequencyConfig, ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::QuicClientConfig,
};
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use tokio::time::timeout;

use crate::{Arguments, CHUNK, Outcome};

/// Name in the certificate.
const NAME: &str = "bulk";

fn transport() -> TransportConfig {
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(10u32.into());
    let mut transport = TransportConfig::default();
    transport.initial_mtu(1200);
    transport.ack_frequency_config(Some(acks));
    transport
}

/// Number of bytes of the stream, and how long they took.
pub async fn receive(arguments: &Arguments) -> Outcome<(usize, Duration)> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = CertificateDer::from(made.cert);
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    let mut transport = transport();
    if let Some(window) = arguments.bytes {
        transport.stream_receive_window(VarInt::from_u64(window)?);
    }
    config.transport = Arc::new(transport);
    let endpoint = Endpoint::server(config, arguments.address)?;
    let address = endpoint.local_addr()?;
    let mut text = format!("{address}\n").into_bytes();
    text.extend_from_slice(&certificate);
    // Renamed in one step, because the sender waits for the file.
    let draft = arguments.file.with_extension("new");
    std::fs::write(&draft, text)?;
    std::fs::rename(draft, &arguments.file)?;
    let connection = endpoint.accept().await.ok_or("the endpoint ended")?.await?;
    let mut stream = connection.accept_uni().await?;
    let start = Instant::now();
    let mut bytes = 0;
    let mut chunks: [Bytes; 32] = std::array::from_fn(|_| Bytes::new());
    let reading = async {
        while let Some(count) = stream.read_many_chunks(&mut chunks).await? {
            bytes += chunks[..count].iter().map(Bytes::len).sum::<usize>();
        }
        Outcome::Ok(())
    };
    let limit = arguments.limit.unwrap_or(Duration::MAX);
    let is_whole = timeout(limit, reading)
        .await
        .map(|read| read.map(|()| true));
    let is_whole = is_whole.unwrap_or(Ok(false))?;
    let elapsed = start.elapsed();
    match is_whole {
        true => drop(connection.closed().await),
        false => {
            connection.close(1u32.into(), b"time is up");
            endpoint.wait_all_draining().await;
        }
    }
    if bytes == 0 {
        return Err("nothing arrived".into());
    }
    Ok((bytes, elapsed))
}

pub async fn send(arguments: &Arguments) -> Outcome<Duration> {
    let text = std::fs::read(&arguments.file)?;
    let end = text.iter().position(|&byte| byte == b'\n');
    let (address, certificate) = text.split_at(end.ok_or("no address")?);
    let address: SocketAddr = std::str::from_utf8(address)?.parse()?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate[1..].to_vec()))?;
    // The suite that our channels prefer, too.
    let suites = vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256];
    let provider = rustls::crypto::CryptoProvider {
        cipher_suites: suites,
        ..ring::default_provider()
    };
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    let endpoint = Endpoint::client(arguments.address)?;
    let connection = endpoint.connect_with(config, address, NAME)?.await?;
    let start = Instant::now();
    let mut stream = connection.open_uni().await?;
    let mut left = arguments.bytes.ok_or("BYTES is missing")?;
    while left > 0 {
        let length = left.min(CHUNK.len() as u64);
        let chunk = Bytes::from_static(CHUNK).slice(..length as usize);
        stream.write_chunk(chunk).await?;
        left -= length;
    }
    stream.finish()?;
    stream.stopped().await?;
    let elapsed = start.elapsed();
    connection.close(0u32.into(), b"done");
    endpoint.wait_all_draining().await;
    Ok(elapsed)
}
