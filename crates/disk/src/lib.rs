//! Files that several processes of one user share: private to the user, replaced as a whole, locked between processes, and sealed under a
//! key.
//!
//! It knows nothing about what is in a file and nothing async: every function blocks on the disk.
#![forbid(unsafe_code)]

mod files;
mod lock;
mod seal;

pub use files::{
    SecretFile, create_file, open_private, private_folder, read_bounded, read_secret, replace_file, replace_file_synced,
};
pub use lock::FileLock;
pub use seal::{DATA_KEY_BYTES, DataKey, SealFault, random_bytes};
