//! Secrets that were read from files do not stay in the memory of the process. The test is a program of its own, so that
//! no other code writes to this memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

use statestore::{Client, ErrorKind, Settings};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use tempfile::TempDir;

/// Covers secrets, so that this test does not find its own.
const MASK: u8 = 0x95;

/// How long the secrets are: memory that is given back is used again, the ends of long pieces last.
const BYTES: usize = 30_000;
/// As much of a secret is found.
const CHUNK_SIZE: usize = 32;

/// Bytes that are in memory with a mask only.
struct Secret(Vec<u8>);

impl Secret {
    fn random() -> Self {
        let mut masked = vec![0; BYTES];
        File::open("/dev/urandom")
            .unwrap()
            .read_exact(&mut masked)
            .unwrap();
        // Without line ends.
        for byte in &mut masked {
            *byte = (*byte | 0x40) ^ MASK;
        }
        Self(masked)
    }

    /// A file that holds it, written byte by byte.
    fn write(&self, path: PathBuf) -> PathBuf {
        let mut file = File::create(&path).unwrap();
        for byte in &self.0 {
            file.write_all(&[byte ^ MASK]).unwrap();
        }
        path
    }

    /// Whether any memory of this process that can be written holds a piece of it.
    fn is_in_memory(&self) -> bool {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut memory = OpenOptions::new()
            .read(true)
            .open("/proc/self/mem")
            .unwrap();
        let mut found = false;
        for map in maps.lines() {
            let mut fields = map.split(' ');
            let (range, access) = (fields.next().unwrap(), fields.next().unwrap());
            if !access.starts_with("rw") || map.ends_with("[vvar]") {
                continue;
            }
            let (from, to) = range.split_once('-').unwrap();
            let from = u64::from_str_radix(from, 16).unwrap();
            let to = u64::from_str_radix(to, 16).unwrap();
            found |= self.is_in(&mut memory, from, to);
        }
        found
    }

    /// Whether it is one of the pieces that are looked for.
    fn has(&self, bytes: &[u8]) -> bool {
        let mut pieces = [BYTES / 3, BYTES / 2, BYTES - CHUNK_SIZE].into_iter();
        pieces.any(|begin| bytes == &self.0[begin..begin + CHUNK_SIZE])
    }

    /// Pages are read one by one, with a bit of the page before, into memory that is covered at once.
    fn is_in(&self, memory: &mut File, from: u64, to: u64) -> bool {
        const PAGE: usize = 4096;
        let overlap = CHUNK_SIZE - 1;
        let mut window = vec![0; overlap + PAGE];
        memory.seek(SeekFrom::Start(from)).unwrap();
        let mut found = false;
        for _ in (from..to).step_by(PAGE) {
            window.copy_within(PAGE.., 0);
            let page = &mut window[overlap..];
            // Data that is masked elsewhere in memory is in plain text here, and this may be the page that is read.
            page.fill(0);
            // Guard pages cannot be read.
            if memory.read_exact(page).is_err() {
                break;
            }
            for byte in page {
                *byte ^= MASK;
            }
            found |= window.windows(CHUNK_SIZE).any(|bytes| self.has(bytes));
        }
        window.fill(0);
        std::hint::black_box(&window);
        found
    }
}

async fn refused(settings: Settings) {
    let error = Client::connect(settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn secrets_from_files_are_erased_with_the_connection() {
    let folder = TempDir::new().unwrap();
    // Bound, so that no other process gets the port, but never listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = Settings::new("127.0.0.1", socket.local_addr().unwrap().port());

    let seen = Secret::random();
    let kept = fs::read(seen.write(folder.path().join("kept"))).unwrap();
    assert!(seen.is_in_memory(), "the search finds what there is");
    drop(kept);

    let password = Secret::random();
    let path = password.write(folder.path().join("password"));
    refused(nobody.clone().user_name("user").password_file(path)).await;
    assert!(!password.is_in_memory());

    let token = Secret::random();
    let path = token.write(folder.path().join("token"));
    let settings = nobody.clone().sat_file(path);
    refused(settings.allow_plaintext_credentials(true)).await;
    assert!(!token.is_in_memory());
}
