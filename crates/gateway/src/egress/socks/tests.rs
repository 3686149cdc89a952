use tokio::io::{AsyncReadExt, duplex};

use super::*;

async fn shake(bytes: &[u8]) -> (Result<SocksRequest, SocksError>, Vec<u8>) {
    let (mut near, mut far) = duplex(4096);
    near.write_all(bytes).await.unwrap();
    near.shutdown().await.unwrap();
    let wish = handshake(&mut far).await;
    drop(far);
    let mut said = Vec::new();
    near.read_to_end(&mut said).await.unwrap();
    (wish, said)
}

#[tokio::test]
async fn every_kind_of_address_is_text_to_be_judged() {
    for (address, host) in [
        (b"\x01\x5d\xb8\xd8\x22".as_slice(), "93.184.216.34"),
        (b"\x03\x0bexample.org", "example.org"),
        (b"\x03\x04a\0.b", "a\0.b"),
        (b"\x03\x00", ""),
        (b"\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01", "::ffff:127.0.0.1"),
    ] {
        let mut bytes = b"\x05\x01\x00\x05\x01\x00".to_vec();
        bytes.extend(address);
        bytes.extend(443u16.to_be_bytes());
        let (wish, said) = shake(&bytes).await;
        let wanted = SocksRequest {
            host: host.as_bytes().to_vec(),
            port: 443,
        };
        assert_eq!(wish.unwrap(), wanted);
        assert_eq!(said, [5, 0]);
    }
}

#[tokio::test]
async fn whatever_else_is_refused() {
    assert!(matches!(shake(b"\x04\x01").await.0, Err(SocksError::Version(4))));
    assert!(matches!(shake(b"\x05\x01\x02").await.0, Err(SocksError::Method)));
    assert!(matches!(
        shake(b"\x05\x01\x00\x04\x01\x00\x01").await.0,
        Err(SocksError::Version(4))
    ));
    for cut in 0..17 {
        let whole = b"\x05\x01\x00\x05\x01\x00\x03\x07a.bc.de\x01\xbb";
        assert!(matches!(shake(&whole[..cut]).await.0, Err(SocksError::Io(_))), "{cut}");
    }
}
