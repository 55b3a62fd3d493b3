"""Names become providers; what is known about them is known without asking anyone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindstone_tui.core.config.settings import ModelSettings
from mindstone_tui.core.entries import Usage
from mindstone_tui.core.errors import ProviderRefused, UnknownName
from mindstone_tui.core.paths import Places
from mindstone_tui.core.providers import registry
from mindstone_tui.core.providers.address import address_of, require_key
from mindstone_tui.core.providers.base import Options
from mindstone_tui.core.providers.catalogue import Listing, Prices, Tier, cost, look_up
from mindstone_tui.core.providers.discovery import FoundModel, FoundServer
from mindstone_tui.core.providers.registry import EXAMPLES, available
from tests.core.providers.requests import Broken, hear, request


@pytest.fixture
def places(home: Path) -> Places:
    return Places.resolve({"MINDSTONE_HOME": str(home)})


def test_the_guide_answers_until_a_model_is_chosen() -> None:
    assert registry.default_model(ModelSettings()) == "local/guide"
    assert registry.default_model(ModelSettings(default="openai/x")) == "openai/x"


@pytest.mark.parametrize("name", ["local/nobody", "scripted/", "", "no-such-model", "/x", "x/"])
def test_a_name_nobody_knows_is_refused_with_a_remedy(places: Places, name: str) -> None:
    with pytest.raises(UnknownName) as error:
        registry.resolve(name, ModelSettings(), places, {})
    assert error.value.remedy


async def test_a_script_is_found_by_its_path(tmp_path: Path, places: Places) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"text": "hi", "usage": {"prompt": 1000000, "completion": 0}}\n')
    name = f"scripted/{path}"
    provider = registry.resolve(name, ModelSettings(), places, {})
    heard = await hear(provider, request("go", model=name))
    assert heard.text == "hi"
    assert heard.finished is not None
    assert heard.finished.usage.cost == 0.0


async def test_the_users_own_window_and_price_win(tmp_path: Path, places: Places) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"text": "hi", "usage": {"prompt": 1000000, "completion": 500000}}\n')
    name = f"scripted/{path}"
    settings = ModelSettings(windows={name: 5_000}, prices={name: (2.0, 10.0)})
    provider = registry.resolve(name, settings, places, {})
    info = provider.info(name)
    assert info.window is not None
    assert (info.window.tokens, info.window.label) == (5_000, "set")
    assert (info.prompt_price, info.completion_price) == (2.0, 10.0)
    heard = await hear(provider, request("go", model=name))
    assert heard.finished is not None
    assert heard.finished.usage.cost == pytest.approx(7.0)


def test_what_the_catalogue_knows(places: Places) -> None:
    key = {"OPENAI_API_KEY": "x"}
    known = registry.resolve("openai/gpt-4o", ModelSettings(), places, key).info("openai/gpt-4o")
    assert known.window is not None
    assert known.window.tokens == 128_000
    assert known.prompt_price == pytest.approx(2.5)
    assert known.images
    assert known.tools


def test_an_unknown_model_has_no_window_and_no_price(places: Places) -> None:
    settings = ModelSettings(base_url="http://127.0.0.1:9/v1")
    info = registry.resolve("openai/mine", settings, places, {}).info("openai/mine")
    assert info.window is None
    assert info.prompt_price is None
    assert "this machine" in info.note


@pytest.mark.parametrize("name", [*EXAMPLES.values(), "claude-sonnet-4-5", "gemini/gemini-2.5-pro"])
def test_the_models_we_suggest_are_in_the_catalogue(name: str) -> None:
    listing = look_up(name)
    assert listing is not None
    assert listing.window
    assert listing.prices.prompt is not None


@pytest.mark.parametrize(
    "day", ["-20991231", "@20991231", "-2099-12-31", "-latest", "-preview-05-06"]
)
def test_a_model_of_a_day_that_is_not_listed_is_its_family(day: str) -> None:
    family = look_up("claude-sonnet-4-5")
    assert family is not None
    assert look_up(f"anthropic/claude-sonnet-4-5{day}") == family
    assert look_up(f"anthropic/nobody-knows-it{day}") is None


def test_a_listing_of_another_provider_is_not_taken() -> None:
    assert look_up("together_ai/gpt-4o") is None


def test_cost_counts_cached_tokens_and_long_prompts() -> None:
    listing = Listing(
        name="m",
        prices=Prices(prompt=1.0, completion=10.0, cached=0.1, cache_written=2.0),
        tiers=(Tier(above=1_000, prices=Prices(prompt=3.0, completion=30.0)),),
    )
    usage = Usage(prompt=100, completion=2, cached=50, cache_written=10)
    assert cost(usage, listing.prices_for(100)) == pytest.approx(40 + 5 + 20 + 20)
    long = Usage(prompt=2_000, completion=1)
    assert cost(long, listing.prices_for(2_000)) == pytest.approx(6_030)
    assert cost(Usage(prompt=5), listing.prices_for(5)) is None
    assert cost(usage, Listing(name="n").prices_for(100)) is None


def test_a_key_is_required_before_anything_is_sent(places: Places) -> None:
    address = address_of("anthropic/claude-x", ModelSettings(), places, {})
    with pytest.raises(ProviderRefused) as error:
        require_key(address)
    assert "ANTHROPIC_API_KEY" in error.value.remedy


def test_a_provider_that_is_misspelt_is_named_as_it_is_spelt(places: Places) -> None:
    with pytest.raises(UnknownName) as error:
        address_of("antropic/claude-x", ModelSettings(), places, {})
    assert "Did you mean anthropic/…?" in error.value.remedy


@pytest.mark.parametrize("name", ["nope", "my-proxy"])
def test_a_provider_that_does_not_exist_is_told_as_that(places: Places, name: str) -> None:
    with pytest.raises(UnknownName) as error:
        address_of(f"{name}/x", ModelSettings(), places, {})
    assert error.value.what == f"There is no provider called {name}."
    assert "Did you mean" not in error.value.remedy
    with pytest.raises(ProviderRefused, match="no key for deepinfra"):
        require_key(address_of("deepinfra/x", ModelSettings(), places, {}))


def test_a_script_that_is_not_there_is_refused_before_anything_is_asked(places: Places) -> None:
    with pytest.raises(UnknownName, match=r"There is no script nowhere\.jsonl"):
        registry.resolve("scripted/nowhere.jsonl", ModelSettings(), places, {})


async def test_a_missing_key_ends_the_request_without_litellm(places: Places) -> None:
    name = "anthropic/claude-sonnet-4-5"
    provider = registry.resolve(name, ModelSettings(), places, {})
    with pytest.raises(Broken) as broken:
        await hear(provider, request("hi", model=name), Options(max_tokens=9))
    assert isinstance(broken.value.error, ProviderRefused)


def test_a_key_for_one_place_is_not_sent_to_another(places: Places) -> None:
    settings = ModelSettings(base_url="https://models.example/v1")
    environ = {"OPENAI_API_KEY": "sk-real", "ANTHROPIC_API_KEY": "sk-ant"}
    assert address_of("openai/m", settings, places, environ).key is None
    ours = address_of("anthropic/m", settings, places, environ)
    assert ours.base_url == ""
    assert ours.key is not None


def test_the_key_for_a_custom_server_comes_from_the_named_variable(places: Places) -> None:
    settings = ModelSettings(base_url="http://127.0.0.1:9/v1", api_key_env="MY_KEY")
    found = address_of("openai/m", settings, places, {"MY_KEY": "k"}).key
    assert found is not None
    assert found.secret == "k"
    assert "k" not in repr(found).replace("Key", "").replace("MY_KEY", "")
    with pytest.raises(ProviderRefused):
        address_of("openai/m", settings, places, {})


def test_an_address_in_the_environment_is_followed_openly(places: Places) -> None:
    environ = {"ANTHROPIC_BASE_URL": "https://proxy.example", "ANTHROPIC_API_KEY": "k"}
    provider = registry.resolve("anthropic/claude-x", ModelSettings(), places, environ)
    assert "proxy.example" in provider.info("anthropic/claude-x").note


def test_a_bare_name_is_asked_at_the_users_own_server(places: Places) -> None:
    settings = ModelSettings(base_url="http://127.0.0.1:9/v1")
    assert address_of("my-model", settings, places, {}).model == "openai/my-model"


def test_ollama_is_asked_through_its_chat_interface(places: Places) -> None:
    address = address_of("ollama/llama3.1", ModelSettings(), places, {})
    assert address.model == "ollama_chat/llama3.1"
    assert address.local


@pytest.mark.parametrize("variable", ["OLLAMA_HOST", "OLLAMA_API_BASE", "OLLAMA_BASE_URL"])
@pytest.mark.parametrize("name", ["ollama/m", "ollama_chat/m"])
def test_ollama_is_asked_where_the_environment_says(
    places: Places, name: str, variable: str
) -> None:
    environ = {variable: "http://127.0.0.1:9000"}
    assert address_of(name, ModelSettings(), places, environ).base_url == "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    "url", ["ftp://x/v1", "file:///etc/passwd", "x.example", "http://", "http://[::1", "http://a b"]
)
def test_an_address_that_is_none_is_refused(places: Places, url: str) -> None:
    with pytest.raises(UnknownName):
        address_of("openai/m", ModelSettings(base_url=url), places, {})


def test_the_list_says_what_is_usable_and_why_the_rest_is_not(places: Places) -> None:
    found = FoundServer(
        kind="ollama",
        base_url="http://127.0.0.1:11434",
        models=(FoundModel(name="ollama/llama3.1:latest", window=4_096, loaded=True),),
    )
    environ = {"OPENAI_API_KEY": "sk-secret"}
    listed = {each.name: each for each in available(ModelSettings(), places, environ, [found])}
    assert listed["local/guide"].usable
    assert listed["local/guide"].default
    assert "models add smollm2" in listed["local/smollm2"].why
    assert listed["openai/gpt-4o"].usable
    assert "ANTHROPIC_API_KEY" in listed["anthropic/claude-sonnet-4-5"].why
    assert listed["ollama/llama3.1:latest"].window == 4_096
    assert "sk-secret" not in str(listed)


def test_a_server_of_ones_own_is_listed_with_its_address(places: Places) -> None:
    settings = ModelSettings(base_url="http://127.0.0.1:9/v1")
    listed = {each.name: each for each in available(settings, places, {})}
    assert listed["openai/…"].usable
    assert "http://127.0.0.1:9/v1" in listed["openai/…"].why
    assert "openai/gpt-4o" not in listed


def test_the_configured_model_is_listed_first_with_its_problem(places: Places) -> None:
    first = available(ModelSettings(default="groq/llama"), places, {})[0]
    assert (first.name, first.usable, first.default) == ("groq/llama", False, True)
    assert "GROQ_API_KEY" in first.why
