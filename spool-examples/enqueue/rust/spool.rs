//! Stores tasks for spoold or uWSGI. Copy this file: it needs Rust 1.63 or later on 64-bit Linux, and no crate.
//!
//! ```ignore
//! mod spool;
//! let task = spool::Task { at: Some(1_700_000_000.0), priority: Some("5"), body: b"hello", ..Default::default() };
//! let path = spool::spool(&[("to", "joe")], Path::new("/var/spool/app"), &task)?;
//! ```
use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Write};
use std::os::unix::{fs::OpenOptionsExt, io::AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes: the size of the block and each length in it are 16-bit numbers.
pub const LIMIT: usize = 0xFFFF;
static COUNTER: AtomicU64 = AtomicU64::new(1);

/// The properties of a task besides its dictionary. The default is due at once, has no body, and is synced to disk.
#[derive(Default)]
pub struct Task<'a> {
    /// Do not run before this time: epoch seconds, may have a fraction.
    pub at: Option<f64>,
    /// The priority directory, digits only; lower runs first if the daemon has spooler-ordered.
    pub priority: Option<&'a str>,
    /// The body, of any size.
    pub body: &'a [u8],
    /// Do not wait until the task is on disk, so it may be lost in a power failure.
    pub no_sync: bool,
}

/// Stores one task in the spool directory, which has to exist, and returns the path of its file. Invalid
/// arguments are an error of kind `InvalidInput`, before anything is written.
pub fn spool<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    dictionary: &[(K, V)],
    spooler: &Path,
    task: &Task,
) -> io::Result<PathBuf> {
    let packet = encode(dictionary, task)?;
    let directory = spooler.join(task.priority.unwrap_or(""));
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", directory.display()));
    match task.priority.map_or(Ok(()), |_| fs::create_dir(&directory)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(named(error)),
        _ => (), // created with 0777 minus the umask
    }
    let name = task_name()?;
    // No daemon runs a file whose name begins with a dot; the rename publishes only a complete file.
    let (hidden, path) = (directory.join(format!(".{name}")), directory.join(name));
    write(&hidden, &packet, task).and_then(|()| fs::rename(&hidden, &path)).map_err(|error| {
        let _ = fs::remove_file(&hidden);
        named(error)
    })?;
    if !task.no_sync {
        // syncs the rename, and a new priority directory
        File::open(&directory)?.sync_all()?;
        File::open(spooler)?.sync_all()?;
    }
    Ok(path)
}

fn write(hidden: &Path, packet: &[u8], task: &Task) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(hidden)?;
    file.write_all(packet)?;
    file.write_all(task.body)?;
    if let Some(at) = task.at {
        set_times(&file, at as i64)?; // after the last write, which sets the mtime to now
    }
    if task.no_sync { Ok(()) } else { file.sync_all() }
}

/// From Rust 1.75 on, `File::set_times` does this without C.
fn set_times(file: &File, seconds: i64) -> io::Result<()> {
    extern "C" {
        fn futimens(fd: i32, times: *const [i64; 4]) -> i32; // two struct timespec: atime, mtime
    }
    match unsafe { futimens(file.as_raw_fd(), &[seconds, 0, seconds, 0]) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn task_name() -> io::Result<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    let random = RandomState::new().build_hasher().finish() >> 33; // 31 bits
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (host, pid, seconds, micros) = (host.trim_end(), std::process::id(), now.as_secs(), now.subsec_micros());
    Ok(format!("uwsgi_spoolfile_on_{host}_{pid}_{counter}_{random}_{seconds}_{micros}"))
}

/// The packet: u8 17, u16 size, u8 0, then pairs of ( u16 length, key, u16 length, value ), little endian.
pub fn encode<K: AsRef<[u8]>, V: AsRef<[u8]>>(dictionary: &[(K, V)], task: &Task) -> io::Result<Vec<u8>> {
    let refuse = |what: String| Err(io::Error::new(ErrorKind::InvalidInput, what));
    let mut pairs: Vec<(&[u8], &[u8])> = dictionary.iter().map(|(k, v)| (k.as_ref(), v.as_ref())).collect();
    if let Some((key, _)) = pairs.iter().find(|(key, _)| matches!(*key, b"at" | b"priority" | b"body")) {
        return refuse(format!("the key {:?} is not for the dictionary: it is a field of Task", shown(key)));
    }
    let at = task.at.map(|at| at.to_string()); // Rust never prints an exponent
    if let Some(at) = &at {
        if !task.at.map_or(false, |at| at.is_finite() && at >= 0.0) {
            return refuse(format!("at must be epoch seconds, got {at}"));
        }
        pairs.push((b"at", at.as_bytes()));
    }
    if let Some(priority) = task.priority {
        if priority.is_empty() || !priority.bytes().all(|byte| byte.is_ascii_digit()) {
            return refuse(format!("priority must be digits, got {priority:?}"));
        }
        pairs.push((b"priority", priority.as_bytes()));
    }
    let mut block = Vec::new();
    for (key, value) in pairs {
        if key.is_empty() {
            return refuse("a key is empty".to_string());
        }
        for (what, bytes) in [("key", key), ("value of", value)] {
            if bytes.len() > LIMIT {
                let (name, count) = (shown(key), bytes.len());
                return refuse(format!("the {what} {name:?} has {count} bytes, the limit is {LIMIT}: use the body"));
            }
            block.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            block.extend_from_slice(bytes);
        }
    }
    if block.len() > LIMIT {
        return refuse(format!("the keys and values take {} bytes, the limit is {LIMIT}: use the body", block.len()));
    }
    let [low, high] = (block.len() as u16).to_le_bytes();
    Ok([&[17, low, high, 0], &block[..]].concat())
}

/// The beginning of a key, for messages.
fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned()
}
