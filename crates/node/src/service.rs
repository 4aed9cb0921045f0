//! Services: the parts of a node that take the streams which peers open, each selected by label.
//!
//! A node accepts a stream for the service that takes its label, and stops every other one. Labels that begin with `anabranch-`
//! belong to the node itself (transfers, overlay, forwards).

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anabranch_net::{Session, Stream};

use crate::outcome::Outcome;

/// Most services of a node at a time.
pub const SERVICES_MAX: usize = 4096;

/// Work of a service on one stream. Dropped when the session ends or its peer may no longer have it.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// As [`Serving`]; the result is the outcome of the data, if the service tells it.
pub type Concluding = Pin<Box<dyn Future<Output = Option<Outcome>> + Send>>;

/// A part of a node that takes streams of peers.
///
/// The node calls it for streams of peers with the right to a session only; a service checks every other right itself.
pub trait Service: Send + Sync + fmt::Debug + 'static {
    /// True if it takes streams with this label. Called under a lock: must be quick.
    fn takes(&self, label: &str) -> bool;

    /// Serves one stream until it is over.
    fn serve(self: Arc<Self>, session: Session, stream: Stream) -> Serving;

    /// As [`Service::serve`], for services that can tell whether the data was taken.
    fn conclude(self: Arc<Self>, session: Session, stream: Stream) -> Concluding {
        let serving = self.serve(session, stream);
        Box::pin(async move {
            serving.await;
            None
        })
    }
}

/// True if a pattern stands for a label: it is the label, or ends with `*` and the label begins with the rest.
pub fn label_matches(pattern: &str, label: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => label.starts_with(beginning),
        None => pattern == label,
    }
}

/// The services of a node. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Services(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    services: Vec<(u64, Arc<dyn Service>)>,
    next: u64,
}

/// Error: there are [`SERVICES_MAX`] services already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this node has {SERVICES_MAX} services, the most that it takes; end one that is not needed"
)]
pub struct TooManyServices;

/// Registration of a service, which ends when this is dropped. Streams that are being served are not affected.
#[derive(Debug)]
#[must_use = "a service is registered for as long as this value lives"]
pub struct Registration {
    services: Services,
    number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registered = self.services.lock();
        registered
            .services
            .retain(|(number, _)| *number != self.number);
    }
}

impl Services {
    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a service. Where several take the same label, the one that was registered first gets the stream.
    ///
    /// # Errors
    /// There are too many.
    pub fn register(&self, service: Arc<dyn Service>) -> Result<Registration, TooManyServices> {
        let mut registered = self.lock();
        if registered.services.len() >= SERVICES_MAX {
            return Err(TooManyServices);
        }
        let number = registered.next;
        registered.next += 1;
        registered.services.push((number, service));
        Ok(Registration {
            services: self.clone(),
            number,
        })
    }

    /// The service that takes streams with this label. O(services).
    pub fn find(&self, label: &str) -> Option<Arc<dyn Service>> {
        let registered = self.lock();
        let mut services = registered.services.iter();
        let found = services.find(|(_, service)| service.takes(label));
        found.map(|(_, service)| service.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Named(&'static str);

    impl Service for Named {
        fn takes(&self, label: &str) -> bool {
            label.starts_with(self.0)
        }

        fn serve(self: Arc<Self>, _: Session, _: Stream) -> Serving {
            Box::pin(std::future::ready(()))
        }
    }

    fn name(service: Option<Arc<dyn Service>>) -> Option<String> {
        service.map(|service| format!("{service:?}"))
    }

    #[test]
    fn the_first_that_takes_a_label_gets_it_until_its_registration_is_dropped() {
        let services = Services::default();
        assert_eq!(name(services.find("video")), None);
        let narrow = services.register(Arc::new(Named("video"))).unwrap();
        let wide = services.register(Arc::new(Named(""))).unwrap();
        assert_eq!(
            name(services.find("video/1")),
            Some("Named(\"video\")".into())
        );
        assert_eq!(name(services.find("telemetry")), Some("Named(\"\")".into()));
        drop(narrow);
        assert_eq!(name(services.find("video/1")), Some("Named(\"\")".into()));
        drop(wide);
        assert_eq!(name(services.find("video/1")), None);
    }

    #[test]
    fn patterns_stand_for_a_label_or_its_beginning() {
        for (pattern, label, expected) in [
            ("telemetry", "telemetry", true),
            ("telemetry", "telemetry/1", false),
            ("video/*", "video/1", true),
            ("video/*", "video", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(label_matches(pattern, label), expected, "{pattern} {label}");
        }
    }

    #[test]
    fn services_are_bounded() {
        let services = Services::default();
        let kept: Vec<_> = (0..SERVICES_MAX)
            .map(|_| services.register(Arc::new(Named("x"))).unwrap())
            .collect();
        assert_eq!(
            services.register(Arc::new(Named("x"))).err(),
            Some(TooManyServices)
        );
        drop(kept);
        assert!(services.register(Arc::new(Named("x"))).is_ok());
    }
}
