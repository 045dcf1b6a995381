"""The page for people: the files of `web/`, read once at the start and answered from memory.

What lives here: `files` reads the folder, names each file by its content and compresses it; `page` renders the index
with its import map and its Content-Security-Policy; `answers` are the answers with their own Cache-Control; `site`
says which of them a path names; `handbook` has the documentation site below `/docs/`, if one was built. May import
`http` and `limits` of the gateway.

A path is looked up here only after no route of the API fits it (`gateway.resources`): an open pays nothing. A file is
found by its exact path in a dict, and no request names a file on the disk. Every URL in the page is relative to its
base, so that the whole works below any prefix that a proxy takes off, and a CDN may keep `/assets/` for ever.

Promise: the headers, the policy and the prefix (tests/integration/gateway/test_site.py); that the policy's hash is that
of the import map, and what may stand in the markup (tests/unit/gateway/test_site.py); what is served of
the documentation, and under which policy (tests/integration/gateway/test_handbook.py). How it fails: at the start, if
the folder of the page is not whole; at a request, by 404.
"""
