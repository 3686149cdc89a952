//! Compares generated types with the real compilers and with the check at run time.
#![expect(clippy::expect_used, reason = "a test that cannot go on says why")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the compilers and look at how they are run"
)]
#![expect(clippy::print_stdout, reason = "a test that cannot run says so")]

mod cases;
mod compilers;
mod hostile;
mod prelude;
mod programs;
mod real;
mod values;

/// Both compilers. Without them the test prints a notice, or fails if they are required.
fn compilers() -> Option<compilers::Compilers> {
    let found = compilers::Compilers::find();
    if found.is_none() {
        println!("SKIPPED: no type checkers in `target/tools`: `cargo xtask test --only install` gets them");
        assert!(
            std::env::var_os("RINGFENCE_REQUIRE_TOOLS").is_none(),
            "the type checkers are required here and not there"
        );
    }
    found
}
