//! The variables by which programs find the proxy and trust its certificates.

/// Where the proxy listens inside every sandbox.
pub(super) const PORT: u16 = 3128;
/// Where the certificates to trust are inside every sandbox.
const TRUST: &str = "/run/ringfence/ca.pem";
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
pub(super) fn variables(trust: bool) -> Vec<(String, String)> {
    let http = format!("http://127.0.0.1:{PORT}");
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
    for name in TRUSTING.iter().filter(|_| trust) {
        set(name, TRUST);
    }
    variables
}
