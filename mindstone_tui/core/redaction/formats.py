"""The formats in which vendors hand out credentials, one line each.

A rule names a kind, the literal anchors without which it cannot match, and a pattern whose first
group (or whole match) is the secret. Open-ended runs are over one class of characters, at the end
or up to a literal outside that class, so a hostile text cannot slow a pattern down.
"""

from __future__ import annotations

import re

import msgspec

__all__ = ["FORMATS", "SecretFormat"]


class SecretFormat(msgspec.Struct, frozen=True):
    """One kind of credential and how to recognise it."""

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    """Matched where an anchor stands: a text without anchors costs a search for literals only."""
    lead: int = 0
    """How many characters of the match stand before the anchor."""
    folded: bool = False
    """The anchors are lower case and stand for any case."""
    edged: bool = False
    """Its first letters are too common to be taken inside a longer word."""


_HEX = "[0-9a-f]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_PEM_LINE = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"


def _prefixed(kind: str, *prefixes: str, body: str) -> SecretFormat:
    """A credential that announces itself by its first letters."""
    start = "|".join(re.escape(prefix) for prefix in prefixes)
    return SecretFormat(kind, prefixes, re.compile(rf"(?:{start}){body}"))


def _at_edge(kind: str, *anchors: str, pattern: str, lead: int = 0) -> SecretFormat:
    """A credential that counts only where a word begins."""
    return SecretFormat(kind, anchors, re.compile(pattern), lead=lead, edged=True)


def _near(kind: str, word: str, value: str) -> SecretFormat:
    """A shapeless credential, taken only on the line that names its vendor."""
    pattern = rf"{word}[^\n]{{0,60}}?[^A-Za-z0-9]({value})(?![A-Za-z0-9])"
    return SecretFormat(kind, (word,), re.compile(pattern, re.IGNORECASE), folded=True)


_WHOLE = (
    SecretFormat(
        "private-key",
        ("-----BEGIN ",),
        re.compile(
            rf"{_PEM_LINE}(?:(?!-----)[\s\S]){{0,20000}}-----END [A-Z0-9 ]{{0,40}}-----"
            rf"|{_PEM_LINE}(?:(?:\\[nr]|[\s\"'+]){{1,40}}[A-Za-z0-9+/=]{{24,}}+)+"
        ),
    ),
    SecretFormat(
        "putty-key",
        ("Private-Lines:",),
        re.compile(r"Private-Lines: \d+\s+((?:[A-Za-z0-9+/=]{16,}\s*)+)"),
    ),
    SecretFormat(
        "url-password",
        ("://",),
        re.compile(r"://[^\s:/@\"'<>]{0,100}:([^\s@/\"'<>{}$]{3,200})@"),
    ),
    SecretFormat(
        "authorization",
        ("authorization", "bearer", "api-key"),
        re.compile(
            r"(?:authorization\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"']?"
            r"(?:(?:basic|bearer|token|apikey|digest|negotiate|bot)\s{1,4})?"
            r"|bearer\s{1,4}|api-key\\?[\"']?:\s{0,4}\\?[\"']?)"
            r"(?!\[redacted:)((?=[A-Za-z._~+/=-]{0,120}\d)[A-Za-z0-9._~+/=-]{16,})",
            re.IGNORECASE,
        ),
        folded=True,
    ),
    _at_edge(
        "jwt",
        "eyJ",
        pattern=r"eyJ[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]{10,}+)?",
    ),
    SecretFormat(
        "command-password",
        ("--password", "--token", "--secret", "--api-key"),
        re.compile(
            r"--(?:password|token|secret|api-key)[= ]\\?[\"']?"
            r"(?!\[redacted:)([^\s\"'\\$<{-][^\s\"'\\]{5,200})"
        ),
    ),
    _at_edge(
        "command-password",
        "curl",
        pattern=r"curl\b[^\n|;&]{0,200} -u ?\\?[\"']?[^\s:\"']{1,60}:([^\s\"'\\$]{4,200})",
    ),
    _at_edge(
        "netrc-password",
        "login",
        pattern=r"login\s{1,4}\S{1,100}\s{1,4}password\s{1,4}(?!\[redacted:)(\S{4,200})",
    ),
    SecretFormat(
        "password-hash",
        ("$2", "$6$", "$5$", "$y$", "$argon2"),
        re.compile(
            r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}|\$[56y]\$[^\s:$]{1,40}\$[./A-Za-z0-9$]{20,}"
            r"|\$argon2(?:id|i|d)\$v=\d+\$[^\s$]{1,40}\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,}"
        ),
    ),
)

_MODELS = (
    _prefixed("anthropic-key", "sk-ant-", body=r"[A-Za-z0-9_-]{20,}"),
    _prefixed("openrouter-key", "sk-or-v1-", body=r"[0-9a-f]{32,}"),
    _prefixed("openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", body=r"[A-Za-z0-9_-]{20,}"),
    _at_edge("openai-key", "sk-", pattern=r"sk-(?=[a-z-]{0,24}[0-9A-Z])[A-Za-z0-9]{20,}"),
    _at_edge("huggingface-token", "hf_", pattern=r"hf_[A-Za-z0-9]{30,}"),
    _at_edge("groq-key", "gsk_", pattern=r"gsk_[A-Za-z0-9]{40,}"),
    _prefixed("xai-key", "xai-", body=r"[A-Za-z0-9_-]{60,}"),
    _prefixed("perplexity-key", "pplx-", body=r"[A-Za-z0-9]{40,}"),
    _at_edge("replicate-token", "r8_", pattern=r"r8_[A-Za-z0-9]{36,}"),
    _at_edge("fireworks-key", "fw_", pattern=r"fw_[A-Za-z0-9]{22,}"),
    _prefixed("nvidia-key", "nvapi-", body=r"[A-Za-z0-9_-]{40,}"),
    _prefixed("langsmith-key", "lsv2_pt_", "lsv2_sk_", body=r"[0-9a-f]{32}_[0-9a-f]{10}"),
    _at_edge("tavily-key", "tvly-", pattern=r"tvly-[A-Za-z0-9-]{20,}"),
    _prefixed("cerebras-key", "csk-", body=r"[a-z0-9]{40,}"),
    _prefixed("pinecone-key", "pcsk_", body=r"[A-Za-z0-9_]{40,}"),
    _near("cohere-key", "cohere", r"[A-Za-z0-9]{40}"),
    _near("mistral-key", "mistral", r"(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}"),
    _near("together-key", "together", r"[0-9a-f]{64}"),
)

_CODE = (
    _prefixed("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", body=r"[A-Za-z0-9]{36,}"),
    _prefixed("github-token", "github_pat_", body=r"[A-Za-z0-9_]{40,}"),
    _prefixed(
        "gitlab-token",
        *("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glimt-", "glagent-"),
        body=r"[A-Za-z0-9_.-]{20,}",
    ),
    _prefixed("bitbucket-token", "ATBB", body=r"[A-Za-z0-9]{28,}"),
    _prefixed("atlassian-token", "ATATT3", body=r"[A-Za-z0-9_=-]{60,}"),
    _at_edge("npm-token", "npm_", pattern=r"npm_[A-Za-z0-9]{36}"),
    _prefixed("pypi-token", "pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBp", body=r"[\w-]{50,}"),
    _prefixed("rubygems-key", "rubygems_", body=r"[0-9a-f]{48}"),
    _prefixed("crates-token", "cio", body=r"(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _at_edge("nuget-key", "oy2", pattern=r"oy2[a-z0-9]{43}"),
    _prefixed("clojars-token", "CLOJARS_", body=r"[A-Za-z0-9]{60}"),
    _prefixed("docker-token", "dckr_pat_", "dckr_oat_", body=r"[A-Za-z0-9_-]{20,}"),
    _prefixed("circleci-token", "CCIPAT_", body=r"[A-Za-z0-9]{10,30}_[0-9a-f]{40}"),
    _prefixed("buildkite-token", "bkua_", body=r"[0-9a-f]{40}"),
    _at_edge("sonar-token", "sqp_", "squ_", "sqa_", pattern=r"sq[pua]_[0-9a-f]{40}"),
    _prefixed("artifactory-key", "AKCp", body=r"[A-Za-z0-9]{40,}"),
    _prefixed("postman-key", "PMAK-", body=r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _prefixed("figma-token", "figd_", body=r"[A-Za-z0-9_-]{30,}"),
    _prefixed("linear-key", "lin_api_", "lin_oauth_", body=r"[A-Za-z0-9]{32,}"),
    _at_edge("notion-token", "ntn_", pattern=r"ntn_[A-Za-z0-9]{40,}"),
    _at_edge("notion-token", "secret_", pattern=r"secret_[A-Za-z0-9]{43}"),
    _at_edge("airtable-token", "pat", pattern=r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    _prefixed("readme-key", "rdme_", body=r"[a-z0-9]{64,}"),
    _prefixed("typeform-token", "tfp_", body=r"[A-Za-z0-9_.=-]{40,}"),
    _prefixed("contentful-token", "CFPAT-", body=r"[A-Za-z0-9_-]{40,}"),
    _prefixed("sentry-token", "sntrys_", "sntryu_", body=r"[A-Za-z0-9_+/=]{40,}"),
)

_CLOUDS = (
    _at_edge(
        *("aws-access-key", "AKIA", "ASIA", "ABIA", "ACCA"),
        pattern=r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    ),
    SecretFormat(
        "aws-secret-key",
        ("secret",),
        re.compile(
            r"secret[_ ]?(?:access[_ ]?)?(?:key)?\\?[\"']?[^\n]{0,20}?(?<![A-Za-z0-9/+])"
            r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
            re.IGNORECASE,
        ),
        folded=True,
    ),
    _at_edge("aws-bedrock-key", "ABSK", pattern=r"ABSK[A-Za-z0-9+/=]{60,}"),
    _prefixed("google-key", "AIza", body=r"[A-Za-z0-9_-]{35}"),
    _prefixed("google-oauth", "ya29.", body=r"[A-Za-z0-9_-]{20,}"),
    _prefixed("google-client-secret", "GOCSPX-", body=r"[A-Za-z0-9_-]{28}"),
    SecretFormat(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        re.compile(r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})", re.IGNORECASE),
        folded=True,
    ),
    SecretFormat(
        "azure-secret",
        ("Q~",),
        re.compile(r"[A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,34}"),
        lead=4,
    ),
    SecretFormat("azure-sas", ("?sig=", "&sig="), re.compile(r".sig=([A-Za-z0-9%+/]{40,}=*)")),
    _prefixed("digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", body=r"[0-9a-f]{64}"),
    _prefixed("heroku-key", "HRKU-", body=r"[A-Za-z0-9_-]{36,}"),
    _near("heroku-key", "heroku", _UUID),
    _prefixed("cloudflare-key", "v1.0-", body=r"[0-9a-f]{24}-[0-9a-f]{146}"),
    _near("cloudflare-key", "cloudflare", r"[A-Za-z0-9_-]{40}|[0-9a-f]{37}"),
    _near("datadog-key", "datadog", r"[0-9a-f]{32}(?:[0-9a-f]{8})?"),
    _prefixed("netlify-token", "nfp_", body=r"[A-Za-z0-9]{36,}"),
    _at_edge("fly-token", "fo1_", pattern=r"fo1_[A-Za-z0-9_-]{43}"),
    _at_edge("fly-token", "fm1r_", "fm1a_", "fm2_", pattern=r"fm(?:1[ra]|2)_[A-Za-z0-9+/=]{60,}"),
    _prefixed("databricks-token", "dapi", body=r"[0-9a-f]{32}(?:-\d)?"),
    _prefixed(
        "planetscale-key", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", body=r"[\w=.-]{32,64}"
    ),
    _at_edge("supabase-key", "sbp_", pattern=r"sbp_[0-9a-f]{40}"),
    _prefixed("supabase-key", "sb_secret_", body=r"[A-Za-z0-9_-]{22,}"),
    _at_edge("vault-token", "hvs.", "hvb.", "hvr.", pattern=r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    SecretFormat(
        "terraform-token",
        (".atlasv1.",),
        re.compile(r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
        lead=14,
    ),
    _at_edge("doppler-token", "dp.", pattern=r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{40,}"),
    _prefixed("pulumi-token", "pul-", body=r"[0-9a-f]{40}"),
    _at_edge("infracost-key", "ico-", pattern=r"ico-[A-Za-z0-9]{32}"),
    _prefixed("grafana-token", "glsa_", "glc_", body=r"[A-Za-z0-9+/=_]{32,}"),
    _prefixed("newrelic-key", "NRAK-", "NRJS-", "NRII-", "NRRA-", body=r"[A-Za-z0-9_-]{19,}"),
    _prefixed("dynatrace-token", "dt0c01.", "dt0s01.", body=r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _prefixed("tailscale-key", "tskey-", body=r"[a-z]{3,12}-[A-Za-z0-9]{8,}-?[A-Za-z0-9]{8,}"),
    _prefixed("onepassword-token", "ops_eyJ", body=r"[A-Za-z0-9+/=_-]{60,}"),
    _prefixed("age-key", "AGE-SECRET-KEY-1", body=r"[0-9A-Z]{58}"),
    _at_edge("alibaba-key", "LTAI", pattern=r"LTAI[A-Za-z0-9]{20}(?![A-Za-z0-9])"),
    _at_edge("tencent-key", "AKID", pattern=r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _at_edge("yandex-key", "AQVN", pattern=r"AQVN[A-Za-z0-9_-]{35,}"),
    _at_edge("prefect-key", "pnu_", "pnb_", pattern=r"pn[ub]_[A-Za-z0-9]{36}"),
    _prefixed("launchdarkly-key", "sdk-", "api-", body=_UUID),
)

_TRADES = (
    _at_edge(
        "stripe-key",
        *("sk_live_", "sk_test_", "rk_live_", "rk_test_"),
        pattern=r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",
    ),
    _prefixed("webhook-secret", "whsec_", body=r"[A-Za-z0-9+/=]{24,}"),
    _prefixed(
        "slack-token", "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", body=r"[A-Za-z0-9-]{20,}"
    ),
    _prefixed("slack-token", "xoxe-", "xoxe.xoxp-", "xoxe.xoxb-", body=r"[A-Za-z0-9-]{40,}"),
    _prefixed("slack-token", "xapp-", body=r"\d-[A-Z0-9]+-\d+-[0-9a-f]{32,}"),
    _prefixed("slack-webhook", "hooks.slack.com/", body=r"[a-z]{4,12}/([A-Za-z0-9+/]{30,})"),
    _prefixed(
        "discord-webhook", "discord.com/api/webhooks/", body=r"\d{15,22}/([A-Za-z0-9_-]{60,})"
    ),
    _at_edge(
        "discord-token",
        *("MT", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT", "MD"),
        pattern=r"[MNO][A-Za-z0-9_-]{23,27}+\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
    ),
    SecretFormat("telegram-token", (":AA",), re.compile(r"\d{8}:AA[A-Za-z0-9_-]{33}"), lead=8),
    _at_edge("twilio-key", "SK", pattern=r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _at_edge("sendgrid-key", "SG.", pattern=r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    _at_edge("mailgun-key", "key-", pattern=r"key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    _at_edge("mailchimp-key", "-us", pattern=r"[0-9a-f]{32}-us\d{1,2}", lead=32),
    _prefixed("brevo-key", "xkeysib-", body=r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    _prefixed("shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", body=r"[0-9a-fA-F]{32}"),
    _prefixed("square-token", "sq0atp-", "sq0csp-", "sq0idp-", body=r"[A-Za-z0-9_-]{22,43}"),
    _at_edge("square-token", "EAAA", pattern=r"EAAA[A-Za-z0-9_-]{56,60}"),
    _prefixed("paypal-token", "access_token$production$", body=r"[0-9a-z]{16}\$[0-9a-f]{32}"),
    _prefixed(
        *("plaid-token", "access-sandbox-", "access-development-", "access-production-"), body=_UUID
    ),
    _prefixed("flutterwave-key", "FLWSECK", body=r"(?:_TEST|_LIVE)?-[A-Za-z0-9-]{12,}"),
    _at_edge("razorpay-key", "rzp_", pattern=r"rzp_(?:live|test)_[A-Za-z0-9]{14,}"),
    _prefixed("shippo-token", "shippo_live_", "shippo_test_", body=r"[0-9a-f]{40}"),
    _prefixed("easypost-key", "EZAK", "EZTK", body=r"[A-Za-z0-9]{54}"),
    _prefixed("duffel-token", "duffel_live_", "duffel_test_", body=r"[A-Za-z0-9_=-]{43}"),
    _prefixed("frameio-token", "fio-u-", body=r"[A-Za-z0-9_=-]{64}"),
    _prefixed("mapbox-token", "sk.eyJ", body=r"[A-Za-z0-9_-]{60,}\.[A-Za-z0-9_-]{22}"),
    _prefixed("facebook-token", "EAACEdEose0cBA", "EAAG", "EAAB", body=r"[A-Za-z0-9]{60,}"),
    _at_edge("twitter-token", "AAAAAAAAAAAAAAAAAAAA", pattern=r"A{20,22}[A-Za-z0-9%]{60,}"),
    _at_edge("dropbox-token", "sl.", pattern=r"sl\.[A-Za-z0-9_=-]{100,}"),
    _near("asana-token", "asana", r"\d/\d{16}:[0-9a-z]{32}|[0-9a-z]{32}"),
    _near("okta-token", "okta", r"00[A-Za-z0-9_-]{40}"),
    _near("algolia-key", "algolia", r"[0-9a-z]{32}"),
)

FORMATS: tuple[SecretFormat, ...] = (*_WHOLE, *_MODELS, *_CODE, *_CLOUDS, *_TRADES)
"""Every known format, the surest first."""
