"""OpenAI's chat completions, and the many servers that speak them with an accent."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mindstone_tui.core import entries, patterns
from mindstone_tui.core.bounded_json import mapping, objects_in, words_in
from mindstone_tui.core.providers import base, catalogue, dialect, http, litellm, tool_names
from mindstone_tui.core.providers.address import KNOWN, Address, KnownProvider

_REASONING: Final = patterns.pattern_of(r"(?:o\d|gpt-[5-9])(?!.*-chat)", re.IGNORECASE)
"""OpenAI's models that think first: another name for the limit, and no temperature of one's own."""
_FIREWORKS_ROUTERS: Final = ("auto", "auto-instant", "firerouter")


HOSTS: Final = {name: each for name, each in KNOWN.items() if each.chats}
"""Servers that are plain enough to be asked without a library's help, by litellm's prefix."""


def call(request: entries.Request, options: base.Options, address: Address) -> http.HttpCall:
    """The request in this format."""
    host, name = HOSTS[address.provider], _name_at(address)
    body = {
        "model": name,
        "messages": [
            _fit(message, address, host)
            for message in litellm.messages_for(request, options, address.model)
        ],
        **limits(options, address),
        **_more(options, address),
        **dialect.tool_wishes(request, options),
        "reasoning_effort": options.effort,
        "stream": True,
        "stream_options": None if host.tells_usage else {"include_usage": True},
        "tools": dialect.function_tools(request),
        **host.extra,
    }
    base_url = (address.base_url or host.base_url).rstrip("/")
    return http.HttpCall(
        url=f"{base_url.removesuffix('/chat/completions')}/chat/completions",
        headers=bearer(address),
        body=dialect.encoded(body),
    )


def bearer(address: Address) -> dict[str, str]:
    """How most servers are shown a key."""
    return {"authorization": f"Bearer {address.key.secret}"} if address.key else {}


def limits(options: base.Options, address: Address, longest: str = "") -> dict[str, Any]:
    """How long the answer may be and how it is sampled, in the words this model knows."""
    name = address.model.rpartition("/")[2]
    thinks = address.provider == "openai" and bool(_REASONING.match(name))
    default = "max_completion_tokens" if thinks else "max_tokens"
    temperature = None if thinks and options.temperature != 1 else options.temperature
    top_p = None if thinks else options.sampling.top_p
    return {longest or default: options.max_tokens, "temperature": temperature, "top_p": top_p}


def _more(options: base.Options, address: Address) -> dict[str, Any]:
    """What else is asked of the answer, as far as this server has a name for it."""
    asked = dialect.wishes(options)
    del asked["top_p"]
    if address.provider == "mistral":
        asked["random_seed"] = asked.pop("seed")
    if HOSTS[address.provider].takes_top_k:
        asked["top_k"] = options.sampling.top_k
    return asked


def _fit(message: entries.Message, address: Address, host: KnownProvider) -> entries.Message:
    """A message as this server takes it."""
    fit = tool_names.with_valid_calls(
        message, tool_names.NINE if host.nine_letter_ids else tool_names.STRICT_ID
    )
    fit.pop("thinking_blocks", None)
    mark = fit.pop("cache_control", None)
    if mark is not None:  # a mark on a whole message is litellm's own idea
        fit["content"] = [{"type": "text", "text": dialect.text_of(fit), "cache_control": mark}]
    if address.provider == "deepseek" and not _sees(address):
        fit["content"] = dialect.text_of(fit)
    return fit


def _sees(address: Address) -> bool:
    listing = catalogue.look_up(address.model)
    return listing is not None and listing.images


def _name_at(address: Address) -> str:
    """Fireworks keeps its models in folders."""
    name = dialect.wire_name(address)
    if address.provider != "fireworks_ai" or name.startswith("accounts/") or "#" in name:
        return name
    if name.startswith(("routers/", "models/")):
        return f"accounts/fireworks/{name}"
    routed = name.endswith("-fast") or name.partition("/")[0] in _FIREWORKS_ROUTERS
    return f"accounts/fireworks/{'routers' if routed else 'models'}/{name}"


class ChatInterpreter(dialect.Interpreter):
    """Chunks are what we want already, save for a few habits."""

    def chunks(self, event: dialect.Event) -> Iterator[dialect.Chunk]:
        """The chunk, with its content as text and its usage where usage belongs."""
        if "choices" not in event and "usage" not in event:
            return
        choices = objects_in(event.get("choices"))[:1]
        self.complete |= any(words_in(c.get("finish_reason")) for c in choices)
        yield {
            "model": event.get("model"),
            "usage": _usage(event),
            "choices": [{**choice, "delta": _delta(choice.get("delta"))} for choice in choices],
        }


def _delta(delta: object) -> object:
    """Mistral's content may be a list of parts, some of them thoughts."""
    if not isinstance(delta, Mapping) or not isinstance(delta.get("content"), list):
        return delta
    said, thought = "", ""
    for part in objects_in(delta["content"]):
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            thought += words_in(inner) + "".join(words_in(p.get("text")) for p in objects_in(inner))
        else:
            said += words_in(part.get("text"))
    return {**delta, "content": said, "reasoning_content": thought}


def _usage(event: dialect.Event) -> object:
    """What was counted; where thoughts are counted apart from the answer, they are added to it."""
    usage = event.get("usage")
    if not isinstance(usage, Mapping):
        return mapping(event.get("x_groq")).get("usage")
    thought = mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")
    completion, prompt = usage.get("completion_tokens"), usage.get("prompt_tokens")
    if not (isinstance(thought, int) and isinstance(completion, int) and isinstance(prompt, int)):
        return usage
    apart = usage.get("total_tokens") == prompt + completion + thought
    return {**usage, "completion_tokens": completion + thought} if apart else usage


DIALECT: Final = dialect.Dialect(call=call, interpreter=ChatInterpreter)
