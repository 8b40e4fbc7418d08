//! All downloads of a run: each image once, so many at a time, however many hosts need it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{OnceCell, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::attempts::{Failure, cancelled};
use super::download::{Folder, fetch};
use super::{Fetched, ImageSource, Limits, Watch, spool};
use crate::provider::error::ProviderError;

type Cell = Arc<OnceCell<Result<Arc<Fetched>, ProviderError>>>;

/// The images that a run has fetched. Files that are not kept in the cache folder go away with
/// this value and what it gave out.
pub struct Downloads {
    folder: Folder,
    limits: Limits,
    slots: Semaphore,
    cells: Mutex<BTreeMap<String, Cell>>,
}

impl fmt::Debug for Downloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Downloads").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Downloads {
    /// Downloads into `cache`, or into the temporary folder, at most `at_once` at a time (at least
    /// one). Verified files are kept in `cache` for later runs.
    #[must_use]
    pub fn new(cache: Option<PathBuf>, at_once: usize, limits: Limits) -> Self {
        let keep = cache.is_some();
        Self {
            folder: Folder { path: cache.unwrap_or_else(std::env::temp_dir), keep },
            limits,
            slots: Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS)),
            cells: Mutex::default(),
        }
    }

    /// Gives the image, fetching it when nobody in this run has. Whoever asks while another one is
    /// fetching it waits for that. What failed stays failed for the run; an interruption does not.
    ///
    /// # Errors
    /// Classified: permanent, transient (after its retries), or cancelled, at once, by `cancel`.
    pub async fn fetch(
        &self,
        source: &ImageSource,
        watch: &dyn Watch,
        cancel: &CancellationToken,
    ) -> Result<Arc<Fetched>, ProviderError> {
        let cell = {
            let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            cells.entry(source.id.clone()).or_default().clone()
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled(&source.key)),
            fetched = cell.get_or_init(|| self.fetch_now(source, watch)) => fetched.clone(),
        }
    }

    async fn fetch_now(&self, source: &ImageSource, watch: &dyn Watch) -> Result<Arc<Fetched>, ProviderError> {
        // The semaphore is never closed, so that this waits and does not fail.
        let _slot = self.slots.acquire().await;
        let whole = async {
            self.prepare(source).await?;
            fetch(source, &self.folder, self.limits, watch).await
        };
        let fetched = timeout(self.limits.total, whole).await.map_err(|_| {
            let seconds = self.limits.total.as_secs_f64();
            Failure::timeout(&source.key, format!("the image did not arrive within {seconds} seconds")).error
        })?;
        fetched.map(Arc::new)
    }

    async fn prepare(&self, source: &ImageSource) -> Result<(), ProviderError> {
        if !self.folder.keep {
            return Ok(());
        }
        let folder = self.folder.path.clone();
        let prepared = spawn_blocking(move || {
            std::fs::create_dir_all(&folder)?;
            spool::sweep(&folder, SystemTime::now())
        });
        let prepared = prepared.await.map_err(std::io::Error::other).and_then(|result| result);
        prepared.map_err(|error| Failure::local(&source.key, &error).error)
    }
}
