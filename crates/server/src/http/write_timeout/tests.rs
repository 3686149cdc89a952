use super::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_given_up_on() {
    let (ours, _theirs) = tokio::io::duplex(64);
    let mut stream = WriteTimeout::new(ours, Duration::from_secs(5));
    let started = Instant::now();
    let error = stream.write_all(&[0; 1000]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(started.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_everything() {
    let (ours, mut theirs) = tokio::io::duplex(64);
    let reader = tokio::spawn(async move {
        let mut got = 0;
        let mut buffer = [0; 64];
        while got < 640 {
            tokio::time::sleep(Duration::from_secs(4)).await;
            got += theirs.read(&mut buffer).await.unwrap();
        }
        got
    });
    let mut stream = WriteTimeout::new(ours, Duration::from_secs(5));
    stream.write_all(&[0; 640]).await.unwrap();
    assert_eq!(reader.await.unwrap(), 640);
}
