//! A reader of lines.
use super::FORMAT;
use super::line::{AnyHeaderLine, HeaderLine, RecordLine, version};
use crate::{Damage, RecordReceiver, StorageError};
use siphasher::sip128::SipHasher13;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// An export whose header has been read.
#[derive(Debug)]
pub struct JsonLinesReader<R> {
    input: BufReader<R>,
    position: LinePosition,
    header: HeaderLine,
    floor: Option<(u64, u64)>,
    line: Vec<u8>,
}

/// Position of a line.
#[derive(Debug)]
struct LinePosition {
    path: PathBuf,
    number: u64,
    offset: u64,
    length: u64,
}

impl LinePosition {
    /// Converts an error of JSON, which counts lines of its own, to one with the number of this line.
    fn json_error(&self, error: &serde_json::Error) -> StorageError {
        let text = error.to_string();
        match text.split_once(" at line ") {
            Some((what, _)) => self.error(format_args!("{what} at column {}", error.column())),
            None => self.error(text),
        }
    }

    fn error(&self, what: impl std::fmt::Display) -> StorageError {
        let what = format!("cannot be used: line {}: {what}", self.number);
        Damage::new(&self.path, what, "mend the line")
            .at(self.offset)
            .into()
    }
}

impl<R: Read> JsonLinesReader<R> {
    /// Reads the header. `path` is used in messages.
    ///
    /// # Errors
    /// The input cannot be read, or its first line is not the header of a supported export.
    pub fn new(path: &Path, input: R) -> Result<Self, StorageError> {
        let mut input = BufReader::with_capacity(256 << 10, input);
        let mut place = LinePosition {
            path: path.into(),
            number: 0,
            offset: 0,
            length: 0,
        };
        let mut line = Vec::new();
        next_line(&mut input, &mut place, &mut line)?;
        let format = serde_json::from_slice::<AnyHeaderLine>(&line);
        let format = format.map_err(|error| {
            place.error(format_args!("this is not the header of an export: {error}"))
        })?;
        if format.statestore_export != FORMAT {
            return Err(place.error(format_args!(
                "the export has format {}, this program reads format {FORMAT}",
                format.statestore_export
            )));
        }
        let header: HeaderLine =
            serde_json::from_slice(&line).map_err(|error| place.json_error(&error))?;
        let floor = header.floor.as_deref().map(|it| version("floor", it));
        let floor = floor.transpose().map_err(|error| place.error(error))?;
        Ok(Self {
            input,
            position: place,
            header,
            floor,
            line,
        })
    }

    /// Returns the number of records according to the header.
    pub fn record_count(&self) -> u64 {
        self.header.records
    }

    /// Passes all records to `to`, and returns the clock. The records count only if this succeeds.
    ///
    /// # Errors
    /// A line is invalid, a key occurs twice, the number of records differs from the header, or `to` returns an error.
    pub fn records(
        mut self,
        to: &mut dyn RecordReceiver,
    ) -> Result<Option<(u64, u64)>, StorageError> {
        let secret = RandomState::new();
        let hasher = SipHasher13::new_with_keys(secret.hash_one(1), secret.hash_one(2));
        let mut keys: HashSet<u128, foldhash::fast::RandomState> = HashSet::default();
        while next_line(&mut self.input, &mut self.position, &mut self.line)? {
            let place = &self.position;
            let line: RecordLine<'_> =
                serde_json::from_slice(&self.line).map_err(|error| place.json_error(&error))?;
            let record = line.into_record().map_err(|error| place.error(error))?;
            if !keys.insert(hasher.hash(&record.key).as_u128()) {
                return Err(place.error("this key exists twice"));
            }
            to.record(&record.view())?;
            to.progressed(place.length)?;
        }
        let (found, announced) = (keys.len() as u64, self.header.records);
        if found != announced {
            let what = format_args!(
                "the number of records is {found}, but the header announces {announced}"
            );
            return Err(self.position.error(what));
        }
        Ok(self.floor)
    }
}

/// Reads the next line; `false` at the end.
fn next_line(
    input: &mut impl BufRead,
    position: &mut LinePosition,
    line: &mut Vec<u8>,
) -> Result<bool, StorageError> {
    line.clear();
    let length = input.read_until(b'\n', line).map_err(StorageError::io(|| {
        format!("cannot read {}", position.path.display())
    }))?;
    if length == 0 {
        return Ok(false);
    }
    position.number += 1;
    position.offset += position.length;
    position.length = length as u64;
    Ok(true)
}
