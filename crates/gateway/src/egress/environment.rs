//! The variables by which programs find the proxy and trust its certificates.

/// Where a program finds the proxy; the code that starts its sandbox knows.
#[derive(Debug, Clone, Copy)]
pub struct ProxyLocation<'a> {
    /// The proxy's port on the sandbox's own loopback.
    pub port: u16,
    /// The file with the certificates to trust.
    pub trust: &'a str,
}

/// Hosts that programs reach without the proxy.
const NO_PROXY_HOSTS: &str = "localhost,127.0.0.1,::1";
/// Variables that name the certificate file; each program has its own.
const CA_VARIABLES: [&str; 11] = [
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

/// Returns the proxy variables and, if `trusts` is set, those for its certificates.
pub(super) fn proxy_variables(at: ProxyLocation<'_>, trusts: bool) -> Vec<(String, String)> {
    let http = format!("http://127.0.0.1:{}", at.port);
    let mut variables = Vec::new();
    let mut set = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    for (name, value) in [
        ("HTTP_PROXY", http.as_str()),
        ("HTTPS_PROXY", &http),
        // The same port speaks SOCKS5h, but a variable that says so breaks clients without a library for it.
        ("ALL_PROXY", &http),
        ("NO_PROXY", NO_PROXY_HOSTS),
    ] {
        set(name, value);
        set(&name.to_ascii_lowercase(), value);
    }
    // Node reads the proxy variables only if this variable is set.
    set("NODE_USE_ENV_PROXY", "1");
    for name in CA_VARIABLES.iter().filter(|_| trusts) {
        set(name, at.trust);
    }
    variables
}
