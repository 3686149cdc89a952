//! Declarations of the functions that every program has besides its tools.

use crate::language::StubLanguage;

/// The declarations of everything that the sandbox provides, so that a program can be checked with only the standard library of
/// its language (`es2023`, no DOM). Empty for [`StubLanguage::Json`].
pub fn prelude(language: StubLanguage) -> &'static str {
    match language {
        StubLanguage::TypeScript => include_str!("prelude/globals.d.ts"),
        StubLanguage::Python => include_str!("prelude/builtins.pyi"),
        StubLanguage::Json => "",
    }
}
