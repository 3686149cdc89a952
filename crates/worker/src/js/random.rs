//! Random bytes, which are the same when a program is run again, and digests.
use std::rc::Rc;

use rquickjs::{Ctx, Exception, Function, Object, Result, TypedArray};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{host::NativeState, workspace::decode_base64};

/// Keeps this sequence apart from that of `Math.random`, which has the same seed.
const BYTES_CONTEXT: &[u8] = b"ringfence random bytes";

/// An endless sequence of bytes, whose next bytes cannot be predicted from the previous ones. Its seed has only 64
/// bits, so it is not for keys.
#[derive(Debug, Default)]
pub(super) struct RandomBytes {
    seed: u64,
    block: u64,
    left: Vec<u8>,
}

impl RandomBytes {
    pub(super) fn new(seed: u64) -> RandomBytes {
        RandomBytes {
            seed,
            ..RandomBytes::default()
        }
    }

    /// Takes the next `count` bytes of the sequence.
    pub(super) fn next_bytes(&mut self, count: usize) -> Vec<u8> {
        while self.left.len() < count {
            let block = Sha256::new()
                .chain_update(BYTES_CONTEXT)
                .chain_update(self.seed.to_le_bytes())
                .chain_update(self.block.to_le_bytes())
                .finalize();
            self.left.extend_from_slice(&block);
            self.block += 1;
        }
        let rest = self.left.split_off(count);
        std::mem::replace(&mut self.left, rest)
    }
}

/// Defines the native functions behind `crypto`.
pub(super) fn define_crypto<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Rc<NativeState>) -> Result<()> {
    let host = Rc::clone(host);
    let random = move |ctx: Ctx<'js>, count: usize| -> Result<TypedArray<'js, u8>> {
        TypedArray::new(ctx, host.random_bytes.borrow_mut().next_bytes(count))
    };
    native.set("randomBytes", Function::new(ctx.clone(), random)?)?;
    native.set("digest", Function::new(ctx.clone(), digest)?)
}

#[expect(clippy::needless_pass_by_value, reason = "the engine hands natives owned values")]
fn digest(ctx: Ctx<'_>, name: String, base64: String) -> Result<TypedArray<'_, u8>> {
    let bytes = decode_base64(&ctx, &base64)?;
    let digest = match name.as_str() {
        "SHA-1" => Sha1::digest(&bytes).to_vec(),
        "SHA-256" => Sha256::digest(&bytes).to_vec(),
        "SHA-384" => Sha384::digest(&bytes).to_vec(),
        "SHA-512" => Sha512::digest(&bytes).to_vec(),
        _ => return Err(Exception::throw_type(&ctx, "no such digest")),
    };
    TypedArray::new(ctx, digest)
}
