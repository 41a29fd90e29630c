//! How messages become bytes: as prost does it, with less memory at first.
use prost::Message;
use std::marker::PhantomData;
use tonic::codec::BufferSettings;
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// Size in bytes that most messages fit into. Without this, each call allocates 16 KiB twice, which costs more than the work on
/// it.
const USUAL: usize = 512;

/// After how many bytes an answer of several messages leaves in parts; ours are of one.
const PART: usize = 32 << 10;

/// A codec for messages that are short for the most part.
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
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(USUAL, PART))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(USUAL, PART))
    }
}
