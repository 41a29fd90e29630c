//! Keys and values between Python and the store.
use crate::argument::wrong_type;
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString};

/// The encoding of text to bytes, and of bytes to Python objects.
#[derive(Debug)]
pub(crate) enum Codec {
    /// Text is UTF-8, and bytes stay bytes.
    Bytes,
    /// Both ways UTF-8.
    Utf8,
    /// Both ways as a codec of Python has it.
    Named(Py<PyString>),
}

impl Codec {
    /// # Errors
    /// `LookupError`: Python knows no such encoding.
    pub(crate) fn new(py: Python<'_>, encoding: Option<&str>) -> PyResult<Self> {
        let Some(encoding) = encoding else {
            return Ok(Self::Bytes);
        };
        let codec = py.import("codecs")?.call_method1("lookup", (encoding,))?;
        let name = codec.getattr("name")?.cast_into::<PyString>()?;
        Ok(if name == "utf-8" {
            Self::Utf8
        } else {
            Self::Named(name.unbind())
        })
    }

    /// Returns the bytes of an argument.
    ///
    /// # Errors
    /// `TypeError`, which names the argument; `UnicodeEncodeError`.
    pub(crate) fn read(&self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            return Ok(Bytes::copy_from_slice(bytes.as_bytes()));
        }
        if let Ok(text) = value.cast::<PyString>() {
            return match self {
                Self::Bytes | Self::Utf8 => Ok(Bytes::copy_from_slice(text.to_str()?.as_bytes())),
                Self::Named(encoding) => {
                    let encoded = text.call_method1("encode", (encoding,))?;
                    Ok(Bytes::copy_from_slice(
                        encoded.cast::<PyBytes>()?.as_bytes(),
                    ))
                }
            };
        }
        if let Ok(bytes) = value.cast::<PyByteArray>() {
            return Ok(bytes.to_vec().into());
        }
        if value.is_instance_of::<PyMemoryView>() {
            let bytes = value.call_method0("tobytes")?;
            return Ok(Bytes::copy_from_slice(bytes.cast::<PyBytes>()?.as_bytes()));
        }
        Err(no_bytes(name, value))
    }

    /// Returns the bytes of each item of an argument.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and `TypeError` if it has no items, or is itself what an item should be.
    pub(crate) fn read_each(&self, name: &str, values: &Bound<'_, PyAny>) -> PyResult<Vec<Bytes>> {
        // The items would be numbers or letters.
        let is_item = values.is_instance_of::<PyString>()
            || values.is_instance_of::<PyBytes>()
            || values.is_instance_of::<PyByteArray>();
        match values.try_iter() {
            Ok(items) if !is_item => items.map(|item| self.read(name, &item?)).collect(),
            _ => Err(wrong_type(name, &format!("an iterable of {name}"), values)),
        }
    }

    /// Returns the bytes of the pairs of an argument, which is a mapping or has pairs as its items.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and `TypeError` if it has no pairs.
    pub(crate) fn read_pairs(
        &self,
        name: &str,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<(Bytes, Bytes)>> {
        let wrong =
            |found: &Bound<'_, PyAny>| wrong_type(name, "a mapping or an iterable of pairs", found);
        let pairs = match values.getattr_opt("items")? {
            Some(items) => items.call0()?,
            None => values.clone(),
        };
        let pair = |pair: Bound<'_, PyAny>| {
            // Only tuples count: two letters are no pair.
            let Ok((key, value)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
                return Err(wrong(&pair));
            };
            Ok((self.read("key", &key)?, self.read("value", &value)?))
        };
        match pairs.try_iter() {
            Ok(items) => items.map(|item| pair(item?)).collect(),
            Err(_) => Err(wrong(values)),
        }
    }

    /// Converts bytes to the Python object for this encoding.
    ///
    /// # Errors
    /// `UnicodeDecodeError`: the bytes are not text of this encoding.
    pub(crate) fn write<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let raw = PyBytes::new(py, bytes).into_any();
        match self {
            Self::Bytes => Ok(raw),
            Self::Utf8 => raw.call_method1("decode", ("utf-8",)),
            Self::Named(encoding) => raw.call_method1("decode", (encoding,)),
        }
    }
}

/// Returns the `TypeError` for an argument that is neither text nor bytes, with the conversion that makes it text.
fn no_bytes(name: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let mut expected = String::from("str, bytes, bytearray or memoryview");
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        expected += " (convert a number with str())";
    } else if value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>() {
        expected += " (convert it with json.dumps(), for example)";
    }
    wrong_type(name, &expected, value)
}
