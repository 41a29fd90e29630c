//! Tests of the client over real connections: see `tests`. This library is empty.
