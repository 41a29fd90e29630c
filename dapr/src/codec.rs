//! Encoding of messages: that of prost, with a smaller initial buffer.
use prost::Message;
use std::marker::PhantomData;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Size in bytes that most messages fit into. Without this, each call allocates 16 KiB twice, which costs more than the work on
/// it.
const BUFFER_SIZE: usize = 512;

/// Size after which an answer of several messages is sent in parts. Answers of these services have one message.
const YIELD_THRESHOLD: usize = 32 << 10;

/// A codec for messages that are mostly short.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER_SIZE, YIELD_THRESHOLD))
    }
}
