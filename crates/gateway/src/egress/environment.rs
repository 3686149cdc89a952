//! The variables by which programs find the proxy and trust its certificates.

/// Where a program finds the way out; whoever makes its place knows.
#[derive(Debug, Clone, Copy)]
pub struct Whereabouts<'a> {
    /// The proxy's port on the program's own loopback.
    pub port: u16,
    /// The file with the certificates to trust.
    pub trust: &'a str,
}

/// What is not asked of a proxy.
const LOCAL: &str = "localhost,127.0.0.1,::1";
/// How programs are told what to trust: each has its own name for it.
const TRUSTING: [&str; 11] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "npm_config_cafile",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

/// The proxy's variables, and those of its certificates.
pub(super) fn variables(at: Whereabouts<'_>, trusts: bool) -> Vec<(String, String)> {
    let http = format!("http://127.0.0.1:{}", at.port);
    let mut variables = Vec::new();
    let mut set = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    for (name, value) in [
        ("HTTP_PROXY", http.as_str()),
        ("HTTPS_PROXY", &http),
        // The same port speaks SOCKS5h; but a variable that says so breaks clients that lack a library for it.
        ("ALL_PROXY", &http),
        ("NO_PROXY", LOCAL),
    ] {
        set(name, value);
        set(&name.to_ascii_lowercase(), value);
    }
    // Node reads the proxy variables only when it is told to.
    set("NODE_USE_ENV_PROXY", "1");
    for name in TRUSTING.iter().filter(|_| trusts) {
        set(name, at.trust);
    }
    variables
}
