//! What every program finds besides its tools, as declarations.

use crate::language::Language;

/// The declarations of everything that the sandbox gives to a program, so that it can be checked without any other library than the
/// language's own (`es2023`, no DOM). Empty for [`Language::Json`].
pub fn prelude(language: Language) -> &'static str {
    match language {
        Language::TypeScript => include_str!("prelude/globals.d.ts"),
        Language::Python => include_str!("prelude/builtins.pyi"),
        Language::Json => "",
    }
}
