//! A private local socket that leads to libvirt's socket on a host.
//!
//! The client library opens a path, so each connection gets one of its own, in a folder that only
//! this user may enter. It is removed as soon as the library has connected. Killing a bridge shuts
//! the library's end down at once, from any thread: the call in flight fails, and so does every
//! later one, without a word to the network (L1, L2).

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use rustix::process::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

/// A unix socket's path may have 107 bytes on Linux and 103 elsewhere.
const PATH_MAX: usize = 100;
const PREFIX: &str = "egress-plan-";
const SOCKET: &str = "s";
/// What is held for a library that does not read. Its longest message is 32 MiB; a peer that sends
/// more without being asked is cut off.
const HELD_MAX: usize = 64 * 1024 * 1024;
const CHUNK: usize = 64 * 1024;
/// A folder this young may be that of a process in another PID namespace, which looks dead here.
const SWEEP_AGE: Duration = Duration::from_mins(1);

/// A bridge. Dropping this handle changes nothing; it ends with either side, or when killed.
#[derive(Debug, Clone)]
pub struct Bridge {
    path: PathBuf,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    dead: CancellationToken,
    gone: CancellationToken,
    leaving: AtomicBool,
    near: Mutex<Option<OwnedFd>>,
}

impl Bridge {
    /// Makes a bridge to `far`. `keep` lives as long as the bridge does.
    ///
    /// Needs a tokio runtime, which carries the bytes.
    ///
    /// # Errors
    /// When neither the runtime folder nor the temporary one can hold a socket.
    pub fn new<F, K>(far: F, keep: K) -> io::Result<Self>
    where
        F: AsyncRead + AsyncWrite + Send + 'static,
        K: Send + 'static,
    {
        let (folder, listener) = listen()?;
        let bridge = Self { path: folder.path().join(SOCKET), state: Arc::default() };
        tokio::spawn(serve(Ended(Arc::clone(&bridge.state)), listener, folder, far, keep));
        Ok(bridge)
    }

    /// The socket for the client library. It takes one connection.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Ends the bridge at once. May be called from any thread, any number of times.
    pub fn kill(&self) {
        self.state.kill();
    }

    /// Whether the bridge has ended or was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state.dead.is_cancelled()
    }

    /// The library is taking leave of the server, and nothing else will be asked of it.
    pub fn leave(&self) {
        self.state.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether the library is taking leave.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.state.leaving.load(Ordering::Relaxed)
    }

    /// Waits until nothing of the bridge is left.
    pub async fn gone(&self) {
        self.state.gone.cancelled().await;
    }
}

impl State {
    fn kill(&self) {
        self.dead.cancel();
        if let Some(near) = self.near.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // An end that is closed already is as good.
            let _ = rustix::net::shutdown(&near, rustix::net::Shutdown::Both);
        }
    }

    /// Holds a second descriptor of the accepted socket, so that killing needs no task to run.
    fn take(&self, near: &UnixStream) -> io::Result<()> {
        let copy = near.as_fd().try_clone_to_owned()?;
        *self.near.lock().unwrap_or_else(PoisonError::into_inner) = Some(copy);
        if self.dead.is_cancelled() {
            self.kill();
        }
        Ok(())
    }
}

/// Says that nothing is left of a bridge, when it is dropped as the last of its parts.
struct Ended(Arc<State>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill();
        self.0.gone.cancel();
    }
}

/// One bridge from its making to its end. Arguments are dropped from the last to the first.
async fn serve<F, K>(ended: Ended, listener: UnixListener, folder: TempDir, far: F, keep: K)
where
    F: AsyncRead + AsyncWrite,
{
    let state = &ended.0;
    let near = tokio::select! {
        accepted = listener.accept() => accepted,
        () = state.dead.cancelled() => return,
    };
    drop((listener, folder));
    let Ok((near, _)) = near else { return };
    if state.take(&near).is_err() {
        return;
    }
    tokio::select! {
        () = carry(near, far) => {}
        () = state.dead.cancelled() => {}
    }
    // Dead first, then what it stood on.
    state.kill();
    drop(keep);
}

/// Carries bytes both ways until either side ends.
async fn carry<F: AsyncRead + AsyncWrite>(near: UnixStream, far: F) {
    let (mut near_read, near_write) = near.into_split();
    let (mut far_read, mut far_write) = tokio::io::split(far);
    let out = async {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        while near_read.read_buf(&mut chunk).await.is_ok_and(|count| count > 0) {
            if far_write.write_all_buf(&mut chunk).await.is_err() || far_write.flush().await.is_err() {
                break;
            }
            chunk.reserve(CHUNK);
        }
    };
    // The far side is always read, even while the library does not: undelivered data of one channel
    // would hold up the whole SSH connection, keepalives included.
    let back = async {
        let mut held = BytesMut::new();
        let mut open = true;
        while open || !held.is_empty() {
            if held.len() > HELD_MAX {
                break;
            }
            held.reserve(CHUNK);
            let mut writable = false;
            tokio::select! {
                count = far_read.read_buf(&mut held), if open => open = count.is_ok_and(|count| count > 0),
                ready = near_write.writable(), if !held.is_empty() => match ready {
                    Ok(()) => writable = true,
                    Err(_) => break,
                },
            }
            if writable {
                match near_write.try_write(&held) {
                    Ok(count) => drop(held.split_to(count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
            }
        }
    };
    tokio::select! {
        () = out => {}
        () = back => {}
    }
}

fn listen() -> io::Result<(TempDir, UnixListener)> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "there is no folder for a socket");
    for base in bases() {
        match listen_in(&base) {
            Ok(listening) => return Ok(listening),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn listen_in(base: &Path) -> io::Result<(TempDir, UnixListener)> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(base)?;
    let path = folder.path().join(SOCKET);
    if path.as_os_str().len() > PATH_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, "the path is too long for a socket"));
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok((folder, listener))
}

/// Where sockets may be: the user's runtime folder, the temporary folder, and the one that is short
/// whatever the environment says.
fn bases() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let mut bases: Vec<PathBuf> = runtime.into_iter().filter(|path| path.is_absolute()).collect();
    bases.extend([std::env::temp_dir(), PathBuf::from("/tmp")]);
    bases.dedup();
    bases
}

/// Removes what runs that were killed have left: folders of our own name and user whose process is
/// gone, holding nothing but a socket. What cannot be removed stays.
pub fn sweep() {
    let now = SystemTime::now();
    let removed: usize = bases().iter().map(|base| sweep_in(base, now)).sum();
    if removed > 0 {
        tracing::debug!(removed, "removed the socket folders of earlier runs");
    }
}

fn sweep_in(base: &Path, now: SystemTime) -> usize {
    let Ok(entries) = std::fs::read_dir(base) else { return 0 };
    entries.filter_map(Result::ok).filter(|entry| is_debris(&entry.path(), now) && remove(&entry.path())).count()
}

fn is_debris(path: &Path, now: SystemTime) -> bool {
    let pid = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'))
        .and_then(|(pid, _)| Pid::from_raw(pid.parse().ok()?));
    let (Some(pid), Ok(meta)) = (pid, std::fs::symlink_metadata(path)) else { return false };
    let old = meta.modified().is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age >= SWEEP_AGE));
    let dead = rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && old && dead
}

fn remove(folder: &Path) -> bool {
    let socket = folder.join(SOCKET);
    if std::fs::symlink_metadata(&socket).is_ok_and(|meta| meta.file_type().is_socket()) {
        let _ = std::fs::remove_file(&socket);
    }
    std::fs::remove_dir(folder).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream as Near;

    use tokio::io::duplex;

    use super::*;

    /// The library's end, as the library has it: blocking.
    fn near(bridge: &Bridge) -> Near {
        Near::connect(bridge.path()).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn bytes_go_both_ways_and_the_socket_is_private_and_takes_one_connection() {
        let (far, mut server) = duplex(64);
        let bridge = Bridge::new(far, ()).unwrap();
        let folder = bridge.path().parent().unwrap().to_owned();
        assert!(bridge.path().as_os_str().len() <= PATH_MAX);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(bridge.path())), (0o700, 0o600));

        let mut library = near(&bridge);
        tokio::task::spawn_blocking({
            let mut library = library.try_clone().unwrap();
            move || library.write_all(&[7; 1000]).unwrap()
        });
        let mut got = vec![0; 1000];
        server.read_exact(&mut got).await.unwrap();
        assert_eq!(got, vec![7; 1000]);
        // The connection was taken, so the folder is gone.
        assert!(!folder.exists());

        server.write_all(b"answer").await.unwrap();
        drop(server);
        let answer = tokio::task::spawn_blocking(move || {
            let mut answer = Vec::new();
            library.read_to_end(&mut answer).unwrap();
            answer
        });
        assert_eq!(answer.await.unwrap(), b"answer");
        bridge.gone().await;
        assert!(bridge.is_dead());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn l01_killing_ends_a_blocked_reader_whatever_the_far_side_does() {
        let (far, _silent) = duplex(64);
        let bridge = Bridge::new(far, ()).unwrap();
        let mut library = near(&bridge);
        let blocked = tokio::task::spawn_blocking(move || library.read(&mut [0; 1]).unwrap_or(0));
        std::thread::spawn({
            let bridge = bridge.clone();
            move || bridge.kill()
        });
        assert_eq!(blocked.await.unwrap(), 0);
        bridge.gone().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn killing_before_anybody_connects_leaves_nothing() {
        let (far, mut server) = duplex(64);
        let bridge = Bridge::new(far, ()).unwrap();
        bridge.kill();
        bridge.gone().await;
        assert!(!bridge.path().exists() && !bridge.path().parent().unwrap().exists());
        assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_kept_is_let_go_with_the_bridge() {
        let (far, _server) = duplex(64);
        let kept = Arc::new(());
        let bridge = Bridge::new(far, Arc::clone(&kept)).unwrap();
        bridge.kill();
        bridge.gone().await;
        assert_eq!(Arc::strong_count(&kept), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn l08_a_far_side_that_floods_a_library_that_does_not_read_is_cut_off() {
        let (far, mut server) = duplex(CHUNK);
        let bridge = Bridge::new(far, ()).unwrap();
        let _library = near(&bridge);
        let flood = vec![0; CHUNK];
        let mut sent = 0;
        while server.write_all(&flood).await.is_ok() {
            sent += flood.len();
        }
        assert!(sent > HELD_MAX && sent < HELD_MAX + 64 * CHUNK, "{sent}");
        bridge.gone().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_far_side_is_read_while_the_library_does_not_read() {
        let (far, mut server) = duplex(CHUNK);
        let bridge = Bridge::new(far, ()).unwrap();
        let mut library = near(&bridge);
        // Far more than the two sockets hold between them.
        let message: Vec<u8> = (0..u8::MAX).cycle().take(8 * 1024 * 1024).collect();
        server.write_all(&message).await.unwrap();
        drop(server);
        let got = tokio::task::spawn_blocking(move || {
            let mut got = Vec::new();
            library.read_to_end(&mut got).unwrap();
            got
        });
        assert!(got.await.unwrap() == message);
    }

    #[test]
    fn the_folders_of_dead_runs_are_swept_and_no_others() {
        let base = tempfile::tempdir().unwrap();
        // A process that has ended and was waited for: its number is nobody's.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = child.id();
        child.wait().unwrap();
        let make = |name: &str| {
            let folder = base.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let socket = std::os::unix::net::UnixListener::bind(folder.join(SOCKET)).unwrap();
            drop(socket);
            folder
        };
        let swept = make(&format!("{PREFIX}{dead}-abc"));
        let kept = [
            make(&format!("{PREFIX}{}-abc", std::process::id())),
            make(&format!("{PREFIX}{dead}")),
            make(&format!("other-{dead}-abc")),
            make(&format!("{PREFIX}x-abc")),
            make(&format!("{PREFIX}{dead}-full")),
        ];
        std::fs::write(kept[4].join("somebody's file"), "").unwrap();
        std::os::unix::fs::symlink(&kept[1], base.path().join(format!("{PREFIX}{dead}-link"))).unwrap();

        assert_eq!(sweep_in(base.path(), SystemTime::now()), 0, "a young folder is let be");
        assert_eq!(sweep_in(base.path(), SystemTime::now() + SWEEP_AGE * 2), 1);
        assert!(!swept.exists());
        assert!(kept.iter().all(|folder| folder.exists()));
    }

    #[test]
    fn a_folder_whose_path_is_too_long_for_a_socket_is_passed_over() {
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(PATH_MAX));
        std::fs::create_dir(&long).unwrap();
        assert!(listen_in(&long).is_err());
        assert_eq!(std::fs::read_dir(&long).unwrap().count(), 0);
    }
}
