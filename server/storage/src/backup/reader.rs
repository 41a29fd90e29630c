//! A reader of backups, which checks every byte.
use super::header::HeaderError;
use super::{FORMAT, Header, TRAILER, TRAILER_MAGIC, Trailer};
use crate::damage::Damage;
use crate::frame::{FRAME_HEADER, FrameHeader};
use crate::record::{ChangeDecoder, LogChange};
use crate::{RecordReceiver, StorageError};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const READ_AHEAD: usize = 256 << 10;

/// A backup whose header has been read.
#[derive(Debug)]
pub struct BackupReader<R> {
    path: PathBuf,
    input: BufReader<R>,
    header: Header,
    crc: crc32fast::Hasher,
    /// Totals of the frames read so far.
    totals: Trailer,
    /// Highest version read so far.
    highest: (u64, u64),
    clock: Option<(u64, u64)>,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header. `path` is used in messages.
    ///
    /// # Errors
    /// The input cannot be read, is no backup, is damaged, or has a newer format.
    pub fn new(path: &Path, input: R) -> Result<Self, StorageError> {
        let mut input = BufReader::with_capacity(READ_AHEAD, input);
        let mut text = Vec::new();
        let mut lines = (&mut input).take(Header::MAX_BYTES);
        loop {
            let begin = text.len();
            let read = lines.read_until(b'\n', &mut text);
            read.map_err(cannot_read(path))?;
            let line = &text[begin..];
            if !line.ends_with(b"\n") || line.starts_with(Header::LAST_LINE.as_bytes()) {
                break;
            }
        }
        let header = Header::parse(&text).map_err(|error| match error {
            HeaderError::NotABackup => {
                damage(path, "is not a backup of a state store".into()).at(0)
            }
            HeaderError::Newer(format) => Damage::new(
                path,
                format!("has format {format}, this program reads up to format {FORMAT}"),
                "use a newer program",
            ),
            HeaderError::Damaged => damage(
                path,
                "is damaged: its header does not fit its checksum".into(),
            )
            .at(0),
        })?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&text);
        Ok(Self {
            path: path.into(),
            input,
            header,
            crc,
            totals: Trailer {
                length: text.len() as u64,
                ..Trailer::default()
            },
            highest: (0, 0),
            clock: None,
        })
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the position of the next frame, or of the trailer.
    pub fn offset(&self) -> u64 {
        self.totals.length
    }

    /// Passes all records to `to`, and returns the stored clock. The records count only if this succeeds, since only then
    /// everything has been checked.
    ///
    /// # Errors
    /// The backup cannot be read or is damaged, or `to` returns an error.
    pub fn records(
        mut self,
        to: &mut dyn RecordReceiver,
    ) -> Result<Option<(u64, u64)>, StorageError> {
        let mut payload = Vec::new();
        while self.next_frame(&mut payload)? {
            let mut changes = ChangeDecoder::new(&payload);
            let begin = self.totals.length;
            loop {
                match changes.next() {
                    Ok(Some(LogChange::Put(put))) if !put.record.key.is_empty() => {
                        self.totals.records += 1;
                        self.highest = self.highest.max(put.record.version);
                        to.record(&put.record)?;
                    }
                    Ok(Some(LogChange::Clock(clock))) => {
                        self.clock = self.clock.max(Some(clock));
                        self.highest = self.highest.max(clock);
                    }
                    Ok(None) => break,
                    Ok(Some(LogChange::Put(_) | LogChange::Delete(_))) | Err(_) => {
                        return Err(self.damaged_error("this frame does not consist of records"));
                    }
                }
            }
            self.totals.length = begin + FRAME_HEADER as u64 + payload.len() as u64;
            to.progressed(self.totals.length - begin)?;
        }
        Ok(self.clock)
    }

    /// Reads the payload of the next frame; `false` after the trailer, if it matches everything before it.
    fn next_frame(&mut self, payload: &mut Vec<u8>) -> Result<bool, StorageError> {
        let mut head = [0; TRAILER];
        self.fill(&mut head[..FRAME_HEADER])?;
        if head.starts_with(TRAILER_MAGIC) {
            self.fill(&mut head[FRAME_HEADER..])?;
            return self.check_trailer(&head).map(|()| false);
        }
        let frame = FrameHeader::decode(&head, self.header.salt)
            .filter(|frame| frame.sequence == self.totals.frames + 1);
        let Some(frame) = frame else {
            return Err(self.damaged_error("neither the next frame nor the end is here"));
        };
        payload.clear();
        // The buffer grows with the bytes that exist, not with the length that the header states.
        let read = (&mut self.input).take(frame.length).read_to_end(payload);
        if read.map_err(cannot_read(&self.path))? as u64 != frame.length {
            return Err(self.truncated_error());
        }
        if crc32fast::hash(payload) != frame.crc {
            return Err(self.damaged_error("this frame does not fit its checksum"));
        }
        self.crc.update(&head[..FRAME_HEADER]);
        self.crc.update(payload);
        self.totals.frames += 1;
        Ok(true)
    }

    fn check_trailer(&mut self, bytes: &[u8; TRAILER]) -> Result<(), StorageError> {
        let Some(trailer) = Trailer::decode(bytes) else {
            return Err(self.damaged_error("its end does not fit its checksum"));
        };
        self.totals.crc = self.crc.clone().finalize();
        if trailer != self.totals {
            return Err(self.damaged_error("its end does not fit what stands before"));
        }
        let Header {
            records, highest, ..
        } = self.header;
        if (records, highest) != (self.totals.records, self.highest) {
            return Err(self.damaged_error("its header does not fit its records"));
        }
        let mut more = [0];
        let read = (&mut self.input)
            .take(1)
            .read_to_end(&mut Vec::from(&mut more));
        if read.map_err(cannot_read(&self.path))? > 0 {
            let after = self.totals.length + TRAILER as u64;
            let what = format!("is damaged: something follows its end at byte {after}");
            return Err(damage(&self.path, what).at(after).into());
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), StorageError> {
        match self.input.read_exact(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.truncated_error())
            }
            result => result.map_err(cannot_read(&self.path)),
        }
    }

    fn truncated_error(&self) -> StorageError {
        self.damaged_error("it was cut off here or later")
    }

    fn damaged_error(&self, what: &str) -> StorageError {
        let at = self.totals.length;
        let what = format!("is damaged at byte {at}: {what}");
        damage(&self.path, what).at(at).into()
    }
}

fn damage(path: &Path, what: String) -> Damage {
    Damage::new(path, what, "use another backup")
}

fn cannot_read(path: &Path) -> impl FnOnce(std::io::Error) -> StorageError {
    StorageError::io(move || format!("cannot read {}", path.display()))
}
