"""What the resident serves over HTTP, put together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mindstone_tui import api
from mindstone_tui.core.diagnostics import record
from mindstone_tui.servers.gateway import Gateway
from mindstone_tui.servers.http import Endpoints, figures

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response


def application(home: api.Home, gateway: Gateway, log: Path) -> Starlette:
    """Every path there is; anything else is not found."""
    # Deferred: nobody but the resident needs a web framework.
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse, PlainTextResponse
    from starlette.routing import Route

    endpoints = Endpoints(home, gateway, log)

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(figures(endpoints, request.app.state.refused))

    async def failed(request: Request, error: Exception) -> Response:
        del request
        record(error, log)
        told = {"message": "Something went wrong here; the log says what.", "type": "api_error"}
        return JSONResponse({"type": "error", "error": told}, 500)

    async def not_found(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        told = {"message": f"There is no {request.method} {request.url.path} here."}
        return JSONResponse({"type": "error", "error": {**told, "type": "not_found"}}, status)

    routes = [*endpoints.routes(), Route("/metrics", metrics, methods=["GET"])]
    handlers = {500: failed, Exception: failed, 404: not_found, 405: not_found}
    return Starlette(routes=routes, exception_handlers=handlers)
