//! RESP3 framing: the only place that counts lengths.
