"""The OpenAPI 3.1 document, built in code from the same limits, routes and problems that the handlers obey.

`schemas` says what values look like, `operations` what each route does, `refusals` which problems it can answer,
`document` puts them together. Tests hold it against the routes, the table of problems and a running gateway.
"""

from gateway.openapi.document import document

__all__ = ["document"]
