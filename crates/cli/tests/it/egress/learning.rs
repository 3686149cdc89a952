//! Learns a policy from a program that ran with every public host open.

use super::world::{self, Net};

#[test]
fn what_was_learnt_is_enough_for_the_same_again_and_no_more() {
    if !world::enter_internet(concat!(
        module_path!(),
        "::what_was_learnt_is_enough_for_the_same_again_and_no_more"
    )) {
        return;
    }
    let net = Net::new(|world| world);
    let page = "allowed.example.com 93.184.216.34\n";
    let get = |first: &[&str], url: &str| {
        let curl = ["--", "curl", "-sS", "-f", "--max-time", "20", url];
        net.ringfence(&[first, &curl[..]].concat())
    };
    let learnt = get(&["exec", "--learn=learnt.yaml"], "http://allowed.example.com/page");
    assert_eq!((learnt.code, learnt.stdout.as_str()), (Some(0), page), "{learnt:?}");
    let text = std::fs::read_to_string(net.setting.work().join("learnt.yaml")).unwrap();
    assert!(text.contains("allowed.example.com") && text.contains("/page"), "{text}");
    let again = get(&["exec", "--policy", "learnt.yaml"], "http://allowed.example.com/page");
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), page), "{again:?}");
    for url in ["http://allowed.example.com/echo", "http://evil.example.net/"] {
        let refused = get(&["exec", "--policy", "learnt.yaml"], url);
        assert_ne!(refused.code, Some(0), "{url}: {refused:?}");
    }
    let inside = get(&["exec", "--learn"], "http://169.254.169.254/latest");
    assert_ne!(inside.code, Some(0), "{inside:?}");
    let arrivals = net.internet.traffic().arrivals();
    assert!(
        ringfence_testkit::internet::private_arrivals(&arrivals).is_empty(),
        "{arrivals:?}"
    );
}
