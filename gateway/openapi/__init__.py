"""The OpenAPI 3.1 document, built in code from the same limits, routes and problems that the handlers obey.

`schemas` has the form of values, `operations` what each operation does, `refusals` the problems it can answer,
`document` puts them together, `page` writes the document as HTML. May import everything of the gateway but handlers,
`dispatch`, `connection` and `service`.

Promise: the document says what the gateway does. Tests hold it against the routes and the table of problems
(tests/unit/gateway/test_openapi.py) and against a running gateway (tests/integration/gateway/test_fuzz.py, and every
client of the HTTP tests). How it fails: only at start, where it is made.
"""

from gateway.openapi.document import document

__all__ = ["document"]
