//! Declarations of the functions that every program has besides its tools.

use crate::language::Language;

/// The declarations of everything that the sandbox provides, so that a program can be checked with only the standard library of
/// its language (`es2023`, no DOM). Empty for [`Language::Json`].
pub fn prelude(language: Language) -> &'static str {
    match language {
        Language::TypeScript => include_str!("prelude/globals.d.ts"),
        Language::Python => include_str!("prelude/builtins.pyi"),
        Language::Json => "",
    }
}
