//! Several entries in one response: the result of an MGET, and a page of a SCAN with values.
use super::{Reply, ReplyError, decode_remaining, encode_remaining, remaining_len, version_len};
use crate::Version;
use crate::resp::{self, Decoder, NIL};
use bytes::{BufMut, Bytes, BytesMut};

/// The shortest entry of a page: `*4`, an empty key and value, `0:0:StateStore`, and `:0`.
const MIN_PAGE_ENTRY_LEN: usize = 41;

/// An entry on a page of a SCAN with values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEntry {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
    /// Version of the entry.
    pub version: Version,
    /// In how many milliseconds it expires; `None` (`:-1`) if it does not.
    pub expires_in_ms: Option<u64>,
}

/// Decodes the number of omitted keys, and the entries of the others.
#[inline(never)]
pub(super) fn decode(mut decoder: Decoder<'_>) -> Result<Reply, ReplyError> {
    let omitted = decoder.integer()?;
    let count = decoder.array()?;
    if count == 0 {
        return Err(ReplyError::new("an MGET returns at least one entry"));
    }
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        entries.push(decode_entry(&mut decoder)?);
    }
    decoder.finish()?;
    Ok(Reply::Entries { entries, omitted })
}

fn decode_entry(decoder: &mut Decoder<'_>) -> Result<Option<(Bytes, Version)>, ReplyError> {
    if decoder.skip(NIL) {
        return Ok(None);
    }
    if decoder.array()? != 2 {
        return Err(ReplyError::new(
            "an entry of an MGET is `$-1`, or a value and a version",
        ));
    }
    let value = decoder.bulk_bytes()?;
    Ok(Some((value, decode_version(decoder)?)))
}

/// Decodes the entries of a page, and its token.
#[inline(never)]
pub(super) fn decode_page(
    count: usize,
    has_token: bool,
    mut decoder: Decoder<'_>,
) -> Result<Reply, ReplyError> {
    let mut entries = Vec::with_capacity(count.min(decoder.rest().len() / MIN_PAGE_ENTRY_LEN));
    for _ in 0..count {
        if decoder.array()? != 4 {
            return Err(ReplyError::new(
                "an entry of a page is a key, a value, a version and a time",
            ));
        }
        entries.push(PageEntry {
            key: decoder.bulk_bytes()?,
            value: decoder.bulk_bytes()?,
            version: decode_version(&mut decoder)?,
            expires_in_ms: decode_remaining(&mut decoder)?,
        });
    }
    let token = has_token.then(|| decoder.bulk_bytes()).transpose()?;
    decoder.finish()?;
    Ok(Reply::EntryPage { entries, token })
}

fn decode_version(decoder: &mut Decoder<'_>) -> Result<Version, ReplyError> {
    let version = super::decode_version(decoder)?;
    version.ok_or(ReplyError::new("an entry without a version"))
}

pub(super) fn encode(entries: &[Option<(Bytes, Version)>], omitted: u64, out: &mut BytesMut) {
    resp::put_array(2, out);
    resp::put_integer(omitted, out);
    resp::put_array(entries.len(), out);
    for entry in entries {
        match entry {
            Some((value, version)) => {
                resp::put_array(2, out);
                resp::put_bulk(value, out);
                version.encode(out);
            }
            None => out.put_slice(NIL),
        }
    }
}

pub(super) fn len(entries: &[Option<(Bytes, Version)>], omitted: u64) -> usize {
    let lens = entries.iter().map(|entry| match entry {
        Some((value, version)) => {
            resp::array_len(2) + resp::bulk_len(value.len()) + version_len(Some(*version))
        }
        None => NIL.len(),
    });
    resp::array_len(2)
        + resp::integer_len(omitted)
        + resp::array_len(entries.len())
        + lens.sum::<usize>()
}

pub(super) fn encode_page(entries: &[PageEntry], token: Option<&Bytes>, out: &mut BytesMut) {
    resp::put_array(1 + usize::from(token.is_some()), out);
    resp::put_array(entries.len(), out);
    for entry in entries {
        resp::put_array(4, out);
        resp::put_bulk(&entry.key, out);
        resp::put_bulk(&entry.value, out);
        entry.version.encode(out);
        encode_remaining(entry.expires_in_ms, out);
    }
    if let Some(token) = token {
        resp::put_bulk(token, out);
    }
}

pub(super) fn page_len(entries: &[PageEntry], token: Option<&Bytes>) -> usize {
    let lens = entries.iter().map(PageEntry::encoded_len);
    let token = token.map_or(0, |token| resp::bulk_len(token.len()));
    resp::array_len(1) + resp::array_len(entries.len()) + lens.sum::<usize>() + token
}

impl PageEntry {
    fn encoded_len(&self) -> usize {
        resp::array_len(4)
            + resp::bulk_len(self.key.len())
            + resp::bulk_len(self.value.len())
            + version_len(Some(self.version))
            + remaining_len(self.expires_in_ms)
    }
}
