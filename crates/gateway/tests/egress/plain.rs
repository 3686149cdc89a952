//! Tests of plain HTTP through the proxy.

use crate::client::{ask, code, status};
use crate::rig::{rig, tests};

const WEB: &str = "allowlist: [{ host: web.example.com, scheme: http }]";

tests! {
    async fn an_allowed_request_is_written_down_sent_and_answered() {
        let rig = rig(WEB).await;
        let mut stream = rig.open();
        let request = "GET http://web.example.com/a?b=c HTTP/1.1\r\nHost: web.example.com\r\nProxy-Connection: keep-alive\r\n\
            Proxy-Authorization: Basic eA==\r\nConnection: x-mine\r\nX-Mine: 1\r\nX-Other: 2\r\n\r\n";
        let answer = ask(&mut stream, request).await;
        assert_eq!(status(&answer), 200, "{answer}");
        assert_eq!(rig.world.requests(), ["GET web.example.com /a?b=c"]);
        let seen = rig.world.last();
        let mut headers: Vec<&str> = seen["headers"].as_object().unwrap().keys().map(String::as_str).collect();
        headers.sort_unstable();
        assert_eq!(headers, ["host", "x-other"], "nothing between neighbours goes on, nothing is added");
        drop(stream);
        let expected = ["started http://web.example.com:80 GET /a at 93.184.216.34", "ended 200 -"];
        assert_eq!(rig.closed().await, expected);
        let crossed = rig.egress.close().await.unwrap();
        assert!(crossed.bytes_out > 0 && crossed.bytes_in > 0, "{crossed:?}");
    }

    async fn a_refusal_says_why_and_is_written_down() {
        let rig = rig(WEB).await;
        let mut stream = rig.open();
        let answer = ask(&mut stream, "GET http://other.example.com/x HTTP/1.1\r\nHost: other.example.com\r\n\r\n").await;
        assert_eq!((status(&answer), code(&answer).as_str()), (403, "net.denied"));
        assert!(answer.contains("content-type: application/json"), "{answer}");
        let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body["rule"], "net.default");
        assert!(body["hint"].as_str().unwrap().contains("allowed"), "{body}");
        assert_eq!(rig.closed().await, ["refused http://other.example.com:80 GET /x net.denied net.default"]);
        let crossed = rig.egress.close().await.unwrap();
        assert_eq!(crossed.listed_refusals[0].detail, "http://other.example.com:80 GET /x");
        assert_eq!(crossed.listed_refusals[0].rule, "net.default");
        assert!(rig.names.asked().is_empty(), "a name that is not allowed is never asked for");
        assert!(rig.world.connections().is_empty());
    }

    async fn what_is_written_down_and_told_of_a_path_has_no_values() {
        let rules = "allowlist: [{ host: web.example.com, scheme: http, paths: ['/users/ann.lee@example.com/**'] }]";
        let rig = rig(rules).await;
        for (request, expected) in [
            ("GET http://web.example.com/users/ann.lee@example.com/a HTTP/1.1\r\nHost: web.example.com\r\n\r\n", 200),
            ("GET http://web.example.com/users/ann.lee%40example.com HTTP/1.1\r\nHost: web.example.com\r\n\r\n", 403),
            ("GET http://ann:letmein@web.example.com/ HTTP/1.1\r\nHost: web.example.com\r\n\r\n", 400),
        ] {
            let answer = ask(&mut rig.open(), request).await;
            assert_eq!(status(&answer), expected, "{answer}");
        }
        // The rules see the real path, and so does the host.
        assert_eq!(rig.world.requests(), ["GET web.example.com /users/ann.lee@example.com/a"]);
        let lines = rig.closed().await.join("\n");
        let crossed = rig.egress.close().await.unwrap();
        for text in [&lines, &format!("{:?}", crossed.listed_refusals)] {
            assert!(!text.contains("ann") && !text.contains("letmein"), "{text}");
            assert!(text.contains("/users/‹email:"), "{text}");
        }
    }
}
