//! The probes of the network egress.

use super::How::Door;
use super::Row;

pub(super) const NAMES: &[Row] = &[
    (98, "a name with a NUL in it", "gateway", Door),
    (99, "a name with marks, spaces and escapes in it", "gateway", Door),
    (100, "dots and capitals", "gateway", Door),
    (101, "letters that look like others", "gateway", Door),
    (102, "a name that begins or ends like an allowed one", "gateway", Door),
    (103, "addresses written as numbers", "gateway", Door),
    (104, "addresses inside addresses", "gateway", Door),
    (105, "a public name of a private address", "gateway", Door),
    (106, "a name that changes its address", "gateway", Door),
    (107, "a name of public and private addresses", "gateway", Door),
    (108, "an alias of a denied name", "gateway", Door),
    (109, "a name that nobody resolves", "gateway", Door),
    (110, "redirects to private addresses", "gateway", Door),
    (111, "a tunnel to one name, TLS for another", "gateway", Door),
    (112, "TLS for one name, requests for another", "gateway", Door),
    (113, "TLS that names nobody", "gateway", Door),
    (114, "a request with two hosts", "gateway", Door),
    (115, "a request inside a request", "gateway", Door),
    (116, "a second request to another host", "gateway", Door),
    (117, "a port that no rule names", "gateway", Door),
];

pub(super) const PROTOCOLS: &[Row] = &[
    (118, "mail and shell ports", "gateway", Door),
    (119, "something else where TLS is allowed", "gateway", Door),
    (120, "a relay with another's name", "gateway", Door),
    (121, "the word of another sandbox", "gateway", Door),
    (122, "a WebSocket on a route that no rule names", "gateway", Door),
    (123, "another method than the rule's", "gateway", Door),
    (124, "huge heads and crowds of tunnels", "gateway", Door),
];

pub(super) const LEAKS: &[Row] = &[
    (125, "data in names that are looked up", "gateway", Door),
    (126, "data in what is allowed", "gateway", Door),
    (127, "another tenant of an allowed host", "gateway", Door),
    (128, "lines of one's own in what is written down", "gateway", Door),
    (129, "a credential in names of files", "gateway", Door),
    (130, "something left for another sandbox", "namespace", Door),
    (131, "a credential in what is said", "gateway", Door),
];

pub(super) const CREDENTIALS: &[Row] = &[
    (132, "a credential anywhere inside", "gateway", Door),
    (133, "what stands for it, sent to another host", "gateway", Door),
    (134, "the right host says it back", "gateway", Door),
    (135, "what stands for it, in another place", "gateway", Door),
    (136, "a redirect with the header kept", "gateway", Door),
    (137, "without TLS", "gateway", Door),
    (138, "for whoever does not ask", "gateway", Door),
    (139, "what stood for it in a run that is over", "gateway", Door),
    (140, "a credential in anything that is kept", "gateway", Door),
];
