//! A WebSocket that echoes everything.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use ring::digest;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::web::WebBody;

const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CLOSE_OPCODE: u8 = 8;

pub(super) fn is_upgrade<B>(request: &Request<B>) -> bool {
    let upgrade = request.headers().get("upgrade");
    request.uri().path() == "/ws" && upgrade.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

pub(super) fn accept_upgrade(request: Request<Incoming>) -> Response<WebBody> {
    let key = request
        .headers()
        .get("sec-websocket-key")
        .map_or(&b""[..], HeaderValue::as_bytes);
    let joined = [key, WEBSOCKET_GUID.as_bytes()].concat();
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &joined);
    let accepted = STANDARD.encode(digest);
    tokio::spawn(async move {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            // The client may end it in any way.
            let _ = echo_frames(TokioIo::new(upgraded)).await;
        }
    });
    let empty: Empty<Bytes> = Empty::new();
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("upgrade", "websocket")
        .header("connection", "upgrade")
        .header("sec-websocket-accept", accepted)
        .body(empty.map_err(|never| match never {}).boxed_unsync())
        .unwrap_or_default()
}

/// Echoes small, unfragmented frames: anything else ends the connection.
async fn echo_frames<S>(mut stream: S) -> io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    loop {
        let [first, second] = [stream.read_u8().await?, stream.read_u8().await?];
        let length = match second & 0x7f {
            126 => stream.read_u16().await?,
            127 => return Ok(()),
            small => u16::from(small),
        };
        let mut mask = [0; 4];
        if second & 0x80 != 0 {
            stream.read_exact(&mut mask).await?;
        }
        let mut data = vec![0; usize::from(length)];
        stream.read_exact(&mut data).await?;
        for (byte, mask) in data.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        let mut frame = vec![first];
        match u8::try_from(data.len()) {
            Ok(small) if small < 126 => frame.push(small),
            _ => {
                frame.push(126);
                frame.extend(length.to_be_bytes());
            }
        }
        frame.extend(data);
        stream.write_all(&frame).await?;
        stream.flush().await?;
        if first & 0xf == CLOSE_OPCODE {
            return Ok(());
        }
    }
}
