use http_body_util::BodyExt as _;

use super::*;

async fn asked(range: &'static str) -> (StatusCode, Option<String>, Vec<u8>) {
    let response = ranged_response(b"0123456789".to_vec(), Some(&HeaderValue::from_static(range)));
    let place = response
        .headers()
        .get(CONTENT_RANGE)
        .map(|place| place.to_str().unwrap().to_owned());
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes().to_vec();
    (status, place, bytes)
}

#[tokio::test]
async fn a_range_of_bytes_is_a_part_and_anything_else_is_all_of_it() {
    let part = |place: &str, bytes: &[u8]| (StatusCode::PARTIAL_CONTENT, Some(place.to_owned()), bytes.to_vec());
    assert_eq!(asked("bytes=2-4").await, part("bytes 2-4/10", b"234"));
    assert_eq!(asked("bytes=7-").await, part("bytes 7-9/10", b"789"));
    assert_eq!(asked("bytes=-2").await, part("bytes 8-9/10", b"89"));
    assert_eq!(asked("bytes=8-99").await, part("bytes 8-9/10", b"89"));
    let all = (StatusCode::OK, None, b"0123456789".to_vec());
    assert_eq!(asked("lines=1-2").await, all);
    assert_eq!(asked("bytes=0-1,3-4").await, all);
}

#[tokio::test]
async fn a_part_that_is_not_there_is_refused_with_the_length() {
    let (status, place, body) = asked("bytes=10-").await;
    assert_eq!(
        (status, place.as_deref()),
        (StatusCode::RANGE_NOT_SATISFIABLE, Some("bytes */10"))
    );
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["code"], "output.range");
}
