//! Mutual authentication: TLS 1.3 with raw public keys on both sides (RFC 7250).
//!
//! A node answers only to keys on its allow-list, and a dialler only to the key that it expects. No certificates, no
//! names, no plaintext.

use std::sync::{Arc, Mutex, PoisonError};

use anabranch_base::NodeId;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::{
        AlwaysResolvesServerRawPublicKeys,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::TLS13,
};

use crate::{
    allow::AllowList,
    identity::{SecretKey, node_id_from_spki, spki_of},
};

/// Application protocol of the wire format in `spec/wire.md`.
const ALPN: &[u8] = b"anabranch/1";

/// Cryptography provider with one cipher suite preferred: AES-128-GCM has hardware support on every machine that
/// carries enough traffic to matter.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certified_key(key: &SecretKey) -> Arc<CertifiedKey> {
    let spki = spki_of(&key.node_id());
    Arc::new(CertifiedKey::new(
        vec![CertificateDer::from(spki.as_ref().to_vec())],
        key.signing_key(),
    ))
}

/// Place where a verifier leaves the last key that it refused. The verifier of a listener is shared by all its handshakes:
/// take the key right after the call that refused it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused(Arc<Mutex<Option<NodeId>>>);

impl Refused {
    fn note(&self, node: Option<NodeId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = node;
    }

    /// The key that was refused last, once.
    pub(crate) fn take(&self) -> Option<NodeId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// TLS configuration of a dialler that accepts exactly `peer`.
pub(crate) fn client_config(
    key: &SecretKey,
    peer: NodeId,
    refused: Refused,
) -> Arc<QuicClientConfig> {
    let provider = provider();
    let verifier = Arc::new(ExpectPeer {
        peer,
        refused,
        provider: provider.clone(),
    });
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider supports TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
            certified_key(key),
        )));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Arc::new(
        QuicClientConfig::try_from(config).expect("the provider has the QUIC initial cipher suite"),
    )
}

/// TLS configuration of a listener that accepts the nodes on `allowed`.
pub(crate) fn server_config(
    key: &SecretKey,
    allowed: AllowList,
    refused: Refused,
) -> Arc<QuicServerConfig> {
    let provider = provider();
    let verifier = Arc::new(RequireListed {
        allowed,
        refused,
        provider: provider.clone(),
    });
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .expect("the provider supports TLS 1.3")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
            certified_key(key),
        )));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.send_tls13_tickets = 0;
    Arc::new(
        QuicServerConfig::try_from(config).expect("the provider has the QUIC initial cipher suite"),
    )
}

/// The node that a completed handshake authenticated.
pub(crate) fn peer_node(session: &dyn noq_proto::crypto::Session) -> Option<NodeId> {
    let identity = session.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    node_id_from_spki(chain.first()?.as_ref())
}

fn verify_signature(
    provider: &CryptoProvider,
    message: &[u8],
    cert: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature_with_raw_key(
        message,
        &SubjectPublicKeyInfoDer::from(cert.as_ref()),
        dss,
        &provider.signature_verification_algorithms,
    )
}

#[derive(Debug)]
struct ExpectPeer {
    peer: NodeId,
    refused: Refused,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ExpectPeer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let node = node_id_from_spki(end_entity.as_ref());
        if node == Some(self.peer) {
            Ok(ServerCertVerified::assertion())
        } else {
            self.refused.note(node);
            Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is supported".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(&self.provider, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct RequireListed {
    allowed: AllowList,
    refused: Refused,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for RequireListed {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match node_id_from_spki(end_entity.as_ref()) {
            Some(node) if self.allowed.contains(&node) => Ok(ClientCertVerified::assertion()),
            node => {
                self.refused.note(node);
                Err(Error::InvalidCertificate(
                    CertificateError::ApplicationVerificationFailure,
                ))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is supported".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(&self.provider, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
