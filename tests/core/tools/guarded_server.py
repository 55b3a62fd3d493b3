"""A tool server to which one must sign in; importing it takes a second and a half."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send


class GuardedServer:
    """A tool server that answers nobody without a token, and gives one to whoever signs in."""

    def __init__(self) -> None:
        self.base = ""
        self.token = "first"
        self.allows = self.renews = True
        self.is_endless = False
        tools = MCPServer("guarded")
        tools.add_tool(lambda: "opened", name="open_door", description="Open the door.")
        self.tools = tools.streamable_http_app(stateless_http=True, json_response=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.tools(scope, receive, send)
            return
        request = Request(scope, receive)
        if request.url.path == "/mcp" and request.headers.get("authorization") == self._bearer:
            await self.tools(scope, receive, send)
            return
        await (await self._answer(request))(scope, receive, send)

    @property
    def _bearer(self) -> str:
        return f"Bearer {self.token}"

    async def _answer(self, request: Request) -> Response:
        match request.url.path:
            case "/mcp":
                where = (
                    f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource"'
                )
                return Response(status_code=401, headers={"www-authenticate": where})
            case "/.well-known/oauth-protected-resource" if self.is_endless:
                kind = "text/event-stream"
                return StreamingResponse(itertools.repeat(b" " * 100_000, 500), media_type=kind)
            case "/.well-known/oauth-protected-resource":
                about = {"resource": f"{self.base}/mcp", "authorization_servers": [self.base]}
                return JSONResponse(about)
            case "/.well-known/oauth-authorization-server":
                names = ("authorization", "token", "registration")
                ends = {f"{each}_endpoint": f"{self.base}/at/{each}" for each in names}
                known = {"issuer": self.base, "response_types_supported": ["code"], **ends}
                return JSONResponse({**known, "code_challenge_methods_supported": ["S256"]})
            case "/at/registration":
                return JSONResponse({**await request.json(), "client_id": "mindstone-1"}, 201)
            case "/at/authorization":
                asked = request.query_params
                assert asked["code_challenge_method"] == "S256"
                told = "code=c-1" if self.allows else "error=access_denied"
                return RedirectResponse(f"{asked['redirect_uri']}?{told}&state={asked['state']}")
            case "/at/token":
                given = parse_qs((await request.body()).decode())
                renews = given.get("refresh_token") == ["r-1"] and self.renews
                if not renews and "code_verifier" not in given:
                    return JSONResponse({"error": "invalid_grant"}, 400)
                gives = {"access_token": self.token, "token_type": "Bearer", "expires_in": 3600}
                return JSONResponse({**gives, "refresh_token": "r-1"})
        return Response(status_code=404)


@asynccontextmanager
async def served() -> AsyncIterator[GuardedServer]:
    app = GuardedServer()
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 (it tells of it in no other way)
        await asyncio.sleep(0)
    app.base = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield app
    server.should_exit = True
    await serving
