//! noq: one connection, one stream, with the settings of noq's own bulk benchmark: an acknowledgement
//! for every ten packets, an initial MTU of 1200 bytes, and defaults for the rest.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use noq::{
    AckFrequencyConfig, ClientConfig, Endpoint, ServerConfig, TransportConfig,
    crypto::rustls::QuicClientConfig,
};
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};

use crate::{Arguments, CHUNK, Outcome};

/// Name in the certificate.
const NAME: &str = "bulk";

fn transport() -> Arc<TransportConfig> {
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(10u32.into());
    let mut transport = TransportConfig::default();
    transport.initial_mtu(1200);
    transport.ack_frequency_config(Some(acks));
    Arc::new(transport)
}

pub async fn receive(arguments: &Arguments) -> Outcome<()> {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = CertificateDer::from(made.cert);
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    config.transport = transport();
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
    let mut bytes = 0;
    let mut chunks: [Bytes; 32] = std::array::from_fn(|_| Bytes::new());
    while let Some(count) = stream.read_many_chunks(&mut chunks).await? {
        bytes += chunks[..count].iter().map(Bytes::len).sum::<usize>();
    }
    connection.closed().await;
    if bytes == 0 {
        return Err("nothing arrived".into());
    }
    Ok(())
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
    config.transport_config(transport());
    let endpoint = Endpoint::client(arguments.address)?;
    let connection = endpoint.connect_with(config, address, NAME)?.await?;
    let start = Instant::now();
    let mut stream = connection.open_uni().await?;
    let mut left = arguments.bytes;
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
