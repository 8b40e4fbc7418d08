//! The way to the API server: who we are there, how it is reached, and what its failures mean.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::header::RETRY_AFTER;
use http::{Request, Response, Uri};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::BoxError;
use tower::buffer::BufferLayer;
use tower::retry::{Policy, RetryLayer};

use crate::provider::error::clean;
use crate::provider::outbound::{THROUGH, proxy_for};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long one request may take, its retries included.
const REQUEST: Duration = Duration::from_mins(1);
/// A server that is busy (429, 503, 504) is asked again so often, and not sooner than it says.
const RETRIES: u32 = 4;

/// The longest pause between two tries that a server may ask for; one that wants more is not asked again.
const PATIENCE: Duration = Duration::from_secs(30);
/// Said of a failure on the way through the proxy that a kubeconfig names, whose URL is never shown.
const THROUGH_OWN: &str = "through the proxy that the kubeconfig names";

/// Where the API server and our credentials are found.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// `--kubeconfig`; else `KUBECONFIG`, `~/.kube/config`, and what a pod is given, in this order.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`; else the current one.
    pub context: Option<String>,
}

/// A cluster that can be asked.
#[derive(Clone)]
pub struct Cluster {
    pub(super) client: Client,
    /// What is said of a failure on a way through a proxy; none where there is none.
    through: Option<&'static str>,
    /// The namespace of the pod or of the context: where the lease and the outputs lie.
    pub namespace: String,
}

/// Why the cluster did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// No way to a cluster, or one that cannot be used.
    #[error("the cluster cannot be used: {message}")]
    Access {
        /// What is wrong with it.
        message: String,
    },
    /// The API server refused.
    #[error("{what}: the API server answered {code}: {message}")]
    Refused {
        /// What was asked.
        what: String,
        /// The HTTP status.
        code: u16,
        /// Its text, cut and cleaned.
        message: String,
    },
    /// No answer, or none that can be read.
    #[error("{what}: {message}")]
    Lost {
        /// What was asked.
        what: String,
        /// What happened, cut and cleaned.
        message: String,
    },
}

impl ClusterError {
    /// The HTTP status, where the API server answered.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Access { .. } | Self::Lost { .. } => None,
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Access { .. } => Some("give --kubeconfig, or run in a pod with a service account's token"),
            Self::Refused { code: 401, .. } => Some("the token or certificate is not valid there; get a new one"),
            Self::Refused { code: 403, .. } => Some("the chart's Role lists what the service account must be allowed"),
            Self::Refused { code: 404, .. } => {
                Some("install the custom resource definitions: egress-plan crd | kubectl apply -f -")
            }
            Self::Refused { .. } => None,
            Self::Lost { .. } => Some("look whether the API server can be reached from here"),
        }
    }

    pub(super) fn of(what: impl Into<String>, error: kube::Error) -> Self {
        let what = what.into();
        match error {
            kube::Error::Api(status) => {
                let message = clean(&status.message);
                Self::Refused { what, code: status.code, message }
            }
            // Its text may quote what could not be read, which may be a Secret.
            kube::Error::SerdeError(_) => Self::Lost { what, message: "the answer cannot be read".to_owned() },
            other => Self::Lost { what, message: clean(&chain(&other)) },
        }
    }
}

/// Asks a busy server again, unless it wants to be left alone for longer than a request may take: then
/// its answer is told instead.
#[derive(Clone)]
struct Patience(RetryPolicy);

impl<T> Policy<Request<Body>, Response<T>, BoxError> for Patience {
    type Future = <RetryPolicy as Policy<Request<Body>, Response<T>, BoxError>>::Future;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<T>, BoxError>,
    ) -> Option<Self::Future> {
        let wanted = result.as_ref().ok().and_then(|response| response.headers().get(RETRY_AFTER)?.to_str().ok());
        if wanted
            .and_then(|seconds| seconds.parse().ok())
            .is_some_and(|seconds| Duration::from_secs(seconds) > PATIENCE)
        {
            return None;
        }
        self.0.retry(request, result)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        Policy::<Request<Body>, Response<T>, BoxError>::clone_request(&mut self.0, request)
    }
}

/// An error and what is behind it, no text twice and no user of a URL: it may be one with a password.
fn chain(error: &dyn std::error::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    let text = texts.join(": ");
    without_users(&text)
}

/// Takes what stands between `://` and `@` out.
fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority = part.split(|c: char| c == '/' || c.is_whitespace()).next().unwrap_or_default();
        let from = authority.rfind('@').map_or(0, |at| at + 1);
        out.push_str("://");
        out.push_str(part.get(from..).unwrap_or_default());
    }
    out
}

impl Cluster {
    /// Finds the way. Asks nothing yet.
    ///
    /// # Errors
    /// No kubeconfig and no pod, or one that cannot be read.
    pub async fn connect(access: &Access) -> Result<Self, ClusterError> {
        let unusable = |message: String| ClusterError::Access { message: clean(&message) };
        let (mut config, own_proxy) = config(access).await.map_err(unusable)?;
        // The library's own rule knows no pod.
        let through = if own_proxy.is_some() { THROUGH_OWN } else { THROUGH };
        config.proxy_url = own_proxy.or_else(|| proxy_for(&config.cluster_url));
        let through = config.proxy_url.is_some().then_some(through);
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(REQUEST);
        config.write_timeout = Some(REQUEST);
        config.reset_reader_on_write = true;
        // The default does not heed Retry-After.
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let busy = RetryPolicy::new(Duration::from_millis(500), Duration::from_secs(10), RETRIES, true)
            .map_err(|error| unusable(error.to_string()))?;
        let builder = ClientBuilder::try_from(config).map_err(|error| {
            // The text of an unusable proxy would show its password.
            let text = if through.is_some() { "the proxy cannot be used".to_owned() } else { chain(&error) };
            unusable(text)
        })?;
        let client = builder.with_layer(&BufferLayer::new(64)).with_layer(&RetryLayer::new(Patience(busy))).build();
        Ok(Self { client, through, namespace })
    }

    /// Bounds a request, and says of one that was lost on the way through a proxy that it was.
    pub(super) async fn bounded<T>(
        &self,
        what: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ClusterError> {
        let begun = Instant::now();
        let answer = tokio::time::timeout(REQUEST, request).await;
        let ok = matches!(&answer, Ok(Ok(_)));
        tracing::debug!(api = what, ok, ms = begun.elapsed().as_millis(), "asked the API server");
        let Ok(answer) = answer else {
            let message = format!("no answer within {} seconds", REQUEST.as_secs());
            return Err(ClusterError::Lost { what: what.to_owned(), message });
        };
        answer.map_err(|error| match (ClusterError::of(what, error), self.through) {
            (ClusterError::Lost { what, message }, Some(through)) => {
                ClusterError::Lost { what, message: format!("{message} ({through})") }
            }
            (error, _) => error,
        })
    }
}

/// The configuration, and the proxy that its file names for the cluster.
async fn config(access: &Access) -> Result<(Config, Option<Uri>), String> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let file = match &access.kubeconfig {
        Some(path) => Some(Kubeconfig::read_from(path).map_err(|error| chain(&error))?),
        None if in_pod() && access.context.is_none() && std::env::var_os("KUBECONFIG").is_none() => None,
        None => Some(Kubeconfig::read().map_err(|error| chain(&error))?),
    };
    let Some(mut file) = file else {
        return Config::incluster().map(|config| (config, None)).map_err(|error| chain(&error));
    };
    let context = access.context.as_ref().or(file.current_context.as_ref());
    let cluster = file.contexts.iter().find(|named| Some(&named.name) == context);
    let cluster = cluster.and_then(|named| named.context.as_ref()).map(|context| context.cluster.clone());
    let named = file.clusters.iter_mut().find(|named| Some(&named.name) == cluster.as_ref());
    // Taken out, since the library holds it against NO_PROXY, which is not about what a file names.
    let proxy = named.and_then(|named| named.cluster.as_mut()).and_then(|cluster| cluster.proxy_url.take());
    let proxy = proxy.filter(|proxy| !proxy.is_empty()).map(|proxy| proxy.parse::<Uri>()).transpose();
    let proxy = proxy.map_err(|_| "the proxy-url of the kubeconfig is no URL".to_owned())?;
    let config = Config::from_custom_kubeconfig(file, &options).await.map_err(|error| chain(&error))?;
    Ok((config, proxy))
}

fn in_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_of_a_url_is_shown_and_everything_else_is() {
        for (text, shown) in [
            ("dial http://u:p@h:1/x and https://h2", "dial http://h:1/x and https://h2"),
            ("no context kubernetes-admin@kubernetes", "no context kubernetes-admin@kubernetes"),
            ("http://a@b@c", "http://c"),
        ] {
            assert_eq!(without_users(text), shown);
        }
    }
}
