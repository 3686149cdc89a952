//! The probes of the network egress.

use super::ProbeMethod::Egress;
use super::ProbeRow;

pub(super) const NAMES: &[ProbeRow] = &[
    (98, "a name with a NUL in it", "gateway", Egress),
    (99, "a name with marks, spaces and escapes in it", "gateway", Egress),
    (100, "dots and capitals", "gateway", Egress),
    (101, "letters that look like others", "gateway", Egress),
    (102, "a name that begins or ends like an allowed one", "gateway", Egress),
    (103, "addresses written as numbers", "gateway", Egress),
    (104, "addresses inside addresses", "gateway", Egress),
    (105, "a public name of a private address", "gateway", Egress),
    (106, "a name that changes its address", "gateway", Egress),
    (107, "a name of public and private addresses", "gateway", Egress),
    (108, "an alias of a denied name", "gateway", Egress),
    (109, "a name that nobody resolves", "gateway", Egress),
    (110, "redirects to private addresses", "gateway", Egress),
    (111, "a tunnel to one name, TLS for another", "gateway", Egress),
    (112, "TLS for one name, requests for another", "gateway", Egress),
    (113, "TLS that names nobody", "gateway", Egress),
    (114, "a request with two hosts", "gateway", Egress),
    (115, "a request inside a request", "gateway", Egress),
    (116, "a second request to another host", "gateway", Egress),
    (117, "a port that no rule names", "gateway", Egress),
];

pub(super) const PROTOCOLS: &[ProbeRow] = &[
    (118, "mail and shell ports", "gateway", Egress),
    (119, "something else where TLS is allowed", "gateway", Egress),
    (120, "a relay with another's name", "gateway", Egress),
    (121, "the word of another sandbox", "gateway", Egress),
    (122, "a WebSocket on a route that no rule names", "gateway", Egress),
    (123, "another method than the rule's", "gateway", Egress),
    (124, "huge heads and crowds of tunnels", "gateway", Egress),
];

pub(super) const LEAKS: &[ProbeRow] = &[
    (125, "data in names that are looked up", "gateway", Egress),
    (126, "data in what is allowed", "gateway", Egress),
    (127, "another tenant of an allowed host", "gateway", Egress),
    (128, "lines of one's own in what is written down", "gateway", Egress),
    (129, "a credential in names of files", "gateway", Egress),
    (130, "something left for another sandbox", "namespace", Egress),
    (131, "a credential in what is said", "gateway", Egress),
];

pub(super) const CREDENTIALS: &[ProbeRow] = &[
    (132, "a credential anywhere inside", "gateway", Egress),
    (133, "what stands for it, sent to another host", "gateway", Egress),
    (134, "the right host says it back", "gateway", Egress),
    (135, "what stands for it, in another place", "gateway", Egress),
    (136, "a redirect with the header kept", "gateway", Egress),
    (137, "without TLS", "gateway", Egress),
    (138, "for whoever does not ask", "gateway", Egress),
    (139, "what stood for it in a run that is over", "gateway", Egress),
    (140, "a credential in anything that is kept", "gateway", Egress),
];
