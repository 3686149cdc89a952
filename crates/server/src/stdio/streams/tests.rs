use std::os::unix::net::UnixStream as Socket;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::socket;

#[tokio::test]
async fn a_socket_is_taken_as_one() {
    let (ours, theirs) = Socket::pair().unwrap();
    let (mut ours, mut theirs) = (socket(&ours).unwrap(), socket(&theirs).unwrap());
    ours.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    theirs.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
}

#[tokio::test]
async fn what_is_no_socket_is_refused() {
    let file = tempfile::tempfile().unwrap();
    assert!(socket(&file).is_err());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(socket(&stream).is_err());
}
