//! The hosts of the world: plain and TLS, HTTP/1 and HTTP/2, on every address of the namespace. They record their
//! requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// The hosts, and all requests that they got.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) pem: String,
    seen: Arc<Mutex<Vec<Value>>>,
    connections: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(crate) async fn serve() -> World {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let world = World {
            pem: certificate.pem(),
            seen: Arc::default(),
            connections: Arc::default(),
        };
        let issuer = Issuer::new(params, key);
        let both = config(&issuer, &["web.example.com", "other.example.com"], &["h2", "http/1.1"]);
        let old = config(&issuer, &["old.example.com"], &["http/1.1"]);
        let wrong = config(&issuer, &["somebody.example.net"], &["http/1.1"]);
        for address in ["93.184.216.34", "93.184.216.35", "10.1.2.3", "169.254.169.254"] {
            world.listen(&format!("{address}:80"), None).await;
            world.listen(&format!("{address}:8080"), None).await;
            world.listen(&format!("{address}:443"), Some(both.clone())).await;
            world.listen(&format!("{address}:8443"), Some(old.clone())).await;
            world.listen(&format!("{address}:9443"), Some(wrong.clone())).await;
        }
        world
    }

    /// Returns the requests that arrived, as `METHOD authority path`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .map(|one| {
                format!(
                    "{} {} {}",
                    text(&one["method"]),
                    text(&one["authority"]),
                    text(&one["path"])
                )
            })
            .collect()
    }

    /// Returns the last request in full.
    pub(crate) fn last(&self) -> Value {
        self.seen.lock().unwrap().last().cloned().unwrap_or_default()
    }

    /// Returns the addresses that were connected to.
    pub(crate) fn connections(&self) -> Vec<String> {
        self.connections.lock().unwrap().clone()
    }

    async fn listen(&self, place: &str, tls: Option<Arc<ServerConfig>>) {
        let listener = TcpListener::bind(place).await.unwrap();
        let (world, place) = (self.clone(), place.to_owned());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                world.connections.lock().unwrap().push(place.clone());
                let (world, tls) = (world.clone(), tls.clone());
                tokio::spawn(async move {
                    let Some(tls) = tls else {
                        return world.one(stream).await;
                    };
                    let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else {
                        return;
                    };
                    match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => {
                            let service = service_fn(move |request| world.clone().answer(request));
                            let two = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                            let _ = two.serve_connection(TokioIo::new(stream), service).await;
                        }
                        _ => world.one(stream).await,
                    }
                });
            }
        });
    }

    async fn one(self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(move |request| self.clone().answer(request));
        let one = hyper::server::conn::http1::Builder::new();
        let _ = one
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
            .await;
    }

    async fn answer(self, mut request: Request<Incoming>) -> Result<Response<Body>, std::convert::Infallible> {
        let headers: HashMap<String, String> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect();
        let authority = request.uri().authority().map(ToString::to_string);
        let mut told = json!({
            "method": request.method().as_str(),
            "authority": authority.or_else(|| headers.get("host").cloned()),
            "path": request.uri().path_and_query().map(ToString::to_string),
            "version": format!("{:?}", request.version()),
            "headers": headers,
        });
        let path = request.uri().path().to_owned();
        if path == "/socket" {
            self.seen.lock().unwrap().push(told);
            return Ok(socket(request));
        }
        let body = request.body_mut().collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        told["body"] = String::from_utf8_lossy(&body).into();
        self.seen.lock().unwrap().push(told.clone());
        let head = request.method() == http::Method::HEAD;
        let mut response = Response::new(full(if head { String::new() } else { told.to_string() }));
        if head {
            response.headers_mut().insert("content-length", "1000".parse().unwrap());
        }
        match path.as_str() {
            "/redirect" => {
                *response.status_mut() = StatusCode::FOUND;
                response
                    .headers_mut()
                    .insert("location", "http://169.254.169.254/latest".parse().unwrap());
            }
            "/forged" => {
                response
                    .headers_mut()
                    .insert("x-ringfence-code", "net.denied".parse().unwrap());
                response.headers_mut().insert("connection", "x-hop".parse().unwrap());
                response.headers_mut().insert("x-hop", "1".parse().unwrap());
            }
            "/endless" => {
                let part = Ok(Frame::data(Bytes::from(vec![b'x'; 1000])));
                let parts = futures::stream::unfold(part, |part: Result<Frame<Bytes>, _>| async {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    Some((part, Ok(Frame::data(Bytes::from(vec![b'x'; 1000])))))
                });
                *response.body_mut() = StreamBody::new(parts).boxed_unsync();
            }
            "/flood" => {
                let parts = futures::stream::repeat_with(|| Ok(Frame::data(Bytes::from(vec![b'x'; 65536]))));
                *response.body_mut() = StreamBody::new(parts).boxed_unsync();
            }
            _ => {}
        }
        Ok(response)
    }
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).boxed_unsync()
}

/// Accepts a WebSocket and echoes its data.
fn socket(mut request: Request<Incoming>) -> Response<Body> {
    let key = request.headers().get("sec-websocket-key").cloned();
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgrade.await else { return };
        let mut stream = TokioIo::new(stream);
        let mut buffer = [0; 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            if stream.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    });
    // The example of RFC 6455, section 1.3; any other key gets a wrong answer.
    let good = key.is_some_and(|key| key == "dGhlIHNhbXBsZSBub25jZQ==");
    let accept = if good { "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" } else { "wrong" };
    Response::builder()
        .status(101)
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", accept)
        .body(full(String::new()))
        .unwrap()
}

fn config(issuer: &Issuer<'_, KeyPair>, names: &[&str], alpn: &[&str]) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, issuer).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}
