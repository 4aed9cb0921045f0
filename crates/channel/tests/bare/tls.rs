//! TLS with raw public keys on both sides (RFC 7250), which accepts any peer.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
    server::{
        AlwaysResolvesServerRawPublicKeys,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};

/// Application protocol of the wire format.
pub(super) const ALPN: &[u8] = b"anabranch/1";
/// PKCS #8 of an Ed25519 key [RFC 8410 §7], before its 32 bytes.
const PKCS8_HEAD: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn key() -> Arc<CertifiedKey> {
    let pkcs8: Vec<u8> = PKCS8_HEAD.into_iter().chain([3; 32]).collect();
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8)).expect("a key");
    let public = key.public_key().expect("Ed25519 has one").to_vec();
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key))
}

pub(super) fn dialler(alpn: &[u8]) -> rustls::ClientConfig {
    let keys = AlwaysResolvesClientRawPublicKeys::new(key());
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider supports TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_client_cert_resolver(Arc::new(keys));
    config.alpn_protocols = vec![alpn.to_vec()];
    config.enable_sni = false;
    config
}

pub(super) fn listener() -> rustls::ServerConfig {
    let keys = AlwaysResolvesServerRawPublicKeys::new(key());
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .expect("the provider supports TLS 1.3")
        .with_client_cert_verifier(Arc::new(Anybody))
        .with_cert_resolver(Arc::new(keys));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
