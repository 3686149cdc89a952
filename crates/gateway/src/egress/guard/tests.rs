use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;

/// Returns the output of the guard, and the refusal with its number.
async fn through(bytes: &[u8], cut: usize) -> (String, Option<(u64, &'static str)>) {
    let (mut near, far) = duplex(1 << 20);
    let (mut guard, fault) = HeadGuard::new(far);
    let bytes = bytes.to_vec();
    let writing = tokio::spawn(async move {
        for part in bytes.chunks(cut) {
            near.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        near.shutdown().await.unwrap();
        // Keeps the stream open until the guard is done.
        let _ = near.read_u8().await;
    });
    let mut out = Vec::new();
    let mut buffer = [0; 64];
    // A refusal does not end the stream: the parser closes it after its answer.
    while let Ok(Ok(length @ 1..)) = tokio::time::timeout(Duration::from_secs(1), guard.read(&mut buffer)).await {
        out.extend(&buffer[..length]);
    }
    drop(guard);
    writing.abort();
    let fault = fault.0.lock().unwrap().clone();
    (
        String::from_utf8(out).unwrap(),
        fault.map(|(number, refusal)| (number, refusal.code)),
    )
}

const GOOD: &str = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab\r\n\r\
    POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxy\r\n0\r\n\r\n\
    GET /3 HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn what_is_good_comes_through_as_it_is() {
    for cut in [1, 2, 3, 7, 1000] {
        assert_eq!(through(GOOD.as_bytes(), cut).await, (GOOD.to_owned(), None), "{cut}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_head_comes_in_its_turn_and_nothing_after_it() {
    let text = format!("{GOOD}GET /4 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\nGET /5 HTTP/1.1\r\nHost: a\r\n\r\n");
    let wanted = format!("{GOOD}{}", std::str::from_utf8(REPLACEMENT_REQUEST).unwrap());
    for cut in [1, 5, 1000] {
        assert_eq!(
            through(text.as_bytes(), cut).await,
            (wanted.clone(), Some((3, "net.protocol"))),
            "{cut}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_smuggled_request_is_not_read_as_one() {
    let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n\
        0\r\n\r\nGET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    let (out, fault) = through(text.as_bytes(), 9).await;
    assert_eq!(out.as_bytes(), REPLACEMENT_REQUEST);
    assert_eq!(fault, Some((0, "net.protocol")));
}

#[tokio::test(start_paused = true)]
async fn an_endless_head_is_refused_before_it_fills_memory() {
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(200_000));
    let (out, fault) = through(text.as_bytes(), 1000).await;
    assert_eq!(
        (out.as_bytes(), fault),
        (REPLACEMENT_REQUEST, Some((0, "net.protocol")))
    );
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_wish_to_upgrade_is_free() {
    let text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x01anything\n\n";
    assert_eq!(through(text.as_bytes(), 3).await, (text.to_owned(), None));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_not_waited_for() {
    let (mut near, far) = duplex(1024);
    let (mut guard, _) = HeadGuard::new(far);
    let dripping = tokio::spawn(async move {
        for byte in b"GET / HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".iter().cycle() {
            if near.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let begun = Instant::now();
    assert_eq!(guard.read(&mut [0; 10]).await.unwrap(), 0, "the connection is over");
    assert!(
        begun.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    dripping.abort();
}

#[tokio::test(start_paused = true)]
async fn a_connection_waits_for_its_next_request_longer_but_not_forever() {
    let (mut near, far) = duplex(1024);
    let (mut guard, _) = HeadGuard::new(far);
    near.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut buffer = [0; 100];
    assert_eq!(guard.read(&mut buffer).await.unwrap(), 27);
    let begun = Instant::now();
    assert_eq!(guard.read(&mut buffer).await.unwrap(), 0);
    assert!(
        (KEEP_ALIVE_TIMEOUT..KEEP_ALIVE_TIMEOUT + Duration::from_secs(1)).contains(&begun.elapsed()),
        "{:?}",
        begun.elapsed()
    );
}
