"""Every failure becomes one sentence and a remedy, decided from recorded errors alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindstone_tui.core.errors import (
    ContextTooLong,
    ProviderBusy,
    ProviderError,
    ProviderNonsense,
    ProviderRefused,
    ProviderUnreachable,
)
from mindstone_tui.core.providers.errors import Failure, failure_of, quoted, retry_after, translate
from tests.corpora import lines


def meant(failure: Failure) -> ProviderError:
    return translate(failure, model="openai/m", where="the server")


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(kind="AuthenticationError", status=401), ProviderRefused),
        (Failure(kind="RateLimitError", status=429), ProviderBusy),
        (Failure(kind="InternalServerError", status=500, message="boom"), ProviderBusy),
        (Failure(kind="Timeout", message="Request timed out."), ProviderUnreachable),
        (Failure(kind="APIConnectionError", message="Connection error."), ProviderUnreachable),
        (Failure(kind="ContextWindowExceededError", status=400), ContextTooLong),
        (Failure(kind="ContentPolicyViolationError", status=400), ProviderRefused),
        (Failure(kind="ValueError", message="what?"), ProviderNonsense),
        (Failure(kind="X", status=400, message="prompt is too long: 9 > 8"), ContextTooLong),
        (Failure(kind="X", status=400, message="temperature is too hot"), ProviderRefused),
    ],
)
def test_each_kind_of_failure_has_its_own_error(
    failure: Failure, kind: type[ProviderError]
) -> None:
    assert type(meant(failure)) is kind


def test_a_rate_limit_that_speaks_of_tokens_is_not_a_prompt_that_is_too_long() -> None:
    said = "Rate limit reached: too many tokens per minute"
    assert isinstance(meant(Failure(kind="RateLimitError", status=429, message=said)), ProviderBusy)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"Retry-After-Ms": "1500"}, 1.5),
        ({"Retry-After": "Thu, 01 Jan 1970 00:01:40 GMT"}, 40.0),
        ({"Retry-After": "Wed, 31 Dec 1969 00:00:00 GMT"}, 0.0),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_the_time_to_wait_is_read_in_every_form(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after(headers, now=60.0) == seconds


def test_a_servers_words_are_quoted_on_one_line_without_secrets() -> None:
    said = quoted("litellm.AuthenticationError: OpenAIException -\n bad key sk-abcdefgh12345678")
    assert said == "“bad key •••”"
    assert quoted("") == "“no reason given”"
    assert len(quoted("x " * 999)) < 260


@given(st.text(max_size=400), st.none() | st.integers(100, 599), st.text(max_size=30))
def test_any_failure_has_a_sentence_and_a_remedy(
    message: str, status: int | None, kind: str
) -> None:
    error = meant(Failure(kind=kind, message=message, status=status))
    assert error.what
    assert error.remedy
    assert len(error.what) < 400


def test_a_made_up_status_does_not_hide_a_lost_connection() -> None:
    class InternalServerError(Exception):
        status_code = 500

    class ServerDisconnectedError(Exception):
        pass

    try:
        try:
            raise ServerDisconnectedError("Server disconnected")
        except ServerDisconnectedError as cause:
            raise InternalServerError("Connection error.") from cause
    except InternalServerError as error:
        failure = failure_of(error)
    assert failure.status is None
    assert isinstance(meant(failure), ProviderUnreachable)


@pytest.mark.parametrize("row", lines("too_long.tsv"), ids=lambda row: row.partition("\t")[0])
def test_the_words_of_every_known_server_for_too_long_are_understood(row: str) -> None:
    _, words, source = row.split("\t")
    said = translate(Failure(kind="BadRequest", message=words, status=400), model="m", where="it")
    assert isinstance(said, ContextTooLong)
    assert source
