"""The formats in which vendors hand out credentials, one line each."""

from __future__ import annotations

from base64 import b64encode

from mindstone_tui.core.redaction.formats import SecretFormat, lettered, prefixed, shaped

__all__ = ["FORMATS"]

_HEX = "[0-9a-f]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_PEM_HEADS = tuple(
    b64encode(f"-----BEGIN {owner}PRIVATE KEY".encode()).decode()[:28]
    for owner in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ")
)

_WEB = (
    shaped(
        "jwt",
        "eyJ",
        pattern=r"eyJ[A-Za-z0-9_-]{10,}+(?:\.eyJ[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]{10,}+)?"
        r"|\.[A-Za-z0-9_-]{0,1000}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+)",
    ),
    prefixed("private-key", *dict.fromkeys(_PEM_HEADS), body=r"[A-Za-z0-9+/=]{40,}"),
    prefixed("jwt", "ZXlKaGJHY2lPaU", "ZXlKMGVYQWlPaU", "ZXlKcmFXUWlPaU", body=r"[\w+/=-]{40,}"),
    prefixed("age-key", "AGE-SECRET-KEY-1", "AGE-PLUGIN-", body=r"[0-9A-Z]{40,}"),
    lettered("bitcoin-key", "xprv", "yprv", "zprv", "tprv", body=r"[1-9A-HJ-NP-Za-km-z]{100,112}"),
)

_MODELS = (
    prefixed("anthropic-key", "sk-ant-", body=r"[A-Za-z0-9_-]{20,}"),
    prefixed("openrouter-key", "sk-or-v1-", body=r"[0-9a-f]{32,}"),
    prefixed("openai-key", "sk-proj-", "sk-svcacct-", "sk-admin-", body=r"[A-Za-z0-9_-]{20,}"),
    prefixed("langfuse-key", "sk-lf-", body=_UUID),
    prefixed("litellm-key", "sk-litellm-", body=r"[A-Za-z0-9_-]{16,}"),
    shaped("openai-key", "sk-", pattern=r"sk-(?=[a-z-]{0,24}[0-9A-Z])[A-Za-z0-9]{20,}"),
    prefixed("elevenlabs-key", "sk_", body=r"[0-9a-f]{48}(?![A-Za-z0-9])"),
    prefixed("huggingface-token", "hf_", "api_org_", body=r"[A-Za-z0-9]{30,}"),
    prefixed("groq-key", "gsk_", body=r"[A-Za-z0-9]{40,}"),
    prefixed("xai-key", "xai-", body=r"[A-Za-z0-9_-]{60,}"),
    prefixed("perplexity-key", "pplx-", body=r"[A-Za-z0-9]{40,}"),
    prefixed("replicate-token", "r8_", body=r"[A-Za-z0-9]{36,}"),
    prefixed("fireworks-key", "fw_", body=r"[A-Za-z0-9]{22,}", random=True),
    prefixed("nvidia-key", "nvapi-", body=r"[A-Za-z0-9_-]{40,}"),
    prefixed("langsmith-key", "lsv2_pt_", "lsv2_sk_", body=r"[0-9a-f]{32}_[0-9a-f]{10}"),
    prefixed("tavily-key", "tvly-", body=r"[A-Za-z0-9-]{20,}"),
    prefixed("cerebras-key", "csk-", body=r"[a-z0-9]{40,}"),
    prefixed("pinecone-key", "pcsk_", body=r"[A-Za-z0-9_]{40,}"),
    prefixed("jina-key", "jina_", body=r"[A-Za-z0-9_-]{40,}"),
    prefixed("voyage-key", "pa-", body=r"[A-Za-z0-9_-]{40,}", random=True),
    prefixed("llamaindex-key", "llx-", body=r"[A-Za-z0-9]{40,}"),
    prefixed("runpod-key", "rpa_", body=r"[A-Za-z0-9]{30,}"),
    prefixed("firecrawl-key", "fc-", body=r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    prefixed("e2b-key", "e2b_", body=r"[0-9a-f]{40}"),
    prefixed("wandb-key", "wandb_v1_", body=r"[A-Za-z0-9_]{40,}"),
    prefixed("anyscale-key", "esecret_", body=r"[A-Za-z0-9]{20,}"),
    prefixed("deepinfra-key", "di_", body=r"[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    prefixed("friendli-token", "flp_", body=r"[A-Za-z0-9]{40,}"),
)

_CODE = (
    prefixed("github-token", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", body=r"[A-Za-z0-9]{36,}"),
    prefixed("github-token", "github_pat_", body=r"[A-Za-z0-9_]{40,}"),
    prefixed(
        "gitlab-token",
        *("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glimt-", "glagent-"),
        *("gloas-", "glffct-", "glwt-"),
        body=r"[A-Za-z0-9_.-]{20,}",
    ),
    prefixed("gitlab-token", "GR1348941", body=r"[A-Za-z0-9_-]{20,}"),
    lettered("bitbucket-token", "ATBB", body=r"(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{28,40}"),
    prefixed("atlassian-token", "ATATT3", "ATCTT3", "ATSTT3", body=r"[A-Za-z0-9_=-]{60,}"),
    prefixed("npm-token", "npm_", body=r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    prefixed("pypi-token", "pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBp", body=r"[\w-]{50,}"),
    prefixed("rubygems-key", "rubygems_", body=r"[0-9a-f]{48}"),
    lettered("crates-token", "cio", body=r"(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}"),
    lettered("nuget-key", "oy2", body=r"[a-z0-9]{43}"),
    prefixed("clojars-token", "CLOJARS_", body=r"[A-Za-z0-9]{60}"),
    prefixed("packagist-token", "packagist_", body=r"(?:[a-z]{2,4}_)?[0-9a-f]{40,}"),
    prefixed("docker-token", "dckr_pat_", "dckr_oat_", body=r"[A-Za-z0-9_-]{20,}"),
    prefixed("docker-swarm-key", "SWMTKN-1-", "SWMKEY-1-", body=r"[A-Za-z0-9+/-]{40,}"),
    prefixed("circleci-token", "CCIPAT_", "CCIPRJ_", body=r"[A-Za-z0-9]{10,30}_[0-9a-f]{40}"),
    prefixed("buildkite-token", "bkua_", "bkaj_", "bkct_", body=r"[0-9A-Za-z]{40}"),
    prefixed("sonar-token", "sqp_", "squ_", "sqa_", body=r"[0-9a-f]{40}"),
    prefixed("artifactory-key", "AKCp", "cmVmdGtu", body=r"[A-Za-z0-9]{40,}"),
    prefixed("postman-key", "PMAK-", body=r"[0-9a-f]{24}-[0-9a-f]{34}"),
    prefixed("figma-token", "figd_", "figo_", "figu_", body=r"[A-Za-z0-9_-]{30,}"),
    prefixed("linear-key", "lin_api_", "lin_oauth_", "lin_wh_", body=r"[A-Za-z0-9]{32,}"),
    prefixed("notion-token", "ntn_", body=r"[A-Za-z0-9]{40,}"),
    prefixed("notion-token", "secret_", body=r"[A-Za-z0-9]{43}(?![A-Za-z0-9_])"),
    shaped("airtable-token", "pat", pattern=r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    prefixed("readme-key", "rdme_", body=r"[a-z0-9]{64,}"),
    prefixed("typeform-token", "tfp_", body=r"[A-Za-z0-9_.=-]{40,}"),
    prefixed("contentful-token", "CFPAT-", body=r"[A-Za-z0-9_-]{40,}"),
    prefixed("sentry-token", "sntrys_", "sntryu_", "sntrya_", body=r"[A-Za-z0-9_+/=-]{40,}"),
    prefixed("sourcegraph-token", "sgp_", "sgd_", body=r"(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}"),
    prefixed("octopus-key", "API-", body=r"[A-Z0-9]{26}(?!\w)", random=True),
    prefixed("harness-key", "pat.", "sat.", body=r"[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    prefixed("scalingo-token", "tk-us-", body=r"[A-Za-z0-9_-]{48}"),
    prefixed("openshift-token", "sha256~", body=r"[A-Za-z0-9_-]{43}"),
    prefixed("snyk-token", "snyk_uat.", "snyk_sat.", body=r"[A-Za-z0-9_.-]{20,}"),
)

_CLOUDS = (
    lettered("aws-access-key", "AKIA", "ASIA", "ABIA", "ACCA", body=r"[A-Z0-9]{16}"),
    prefixed("aws-bedrock-key", "ABSK", "bedrock-api-key-", body=r"[A-Za-z0-9+/=]{60,}"),
    prefixed("aws-session-token", "IQoJb3JpZ2lu", "FwoGZXIvYXdz", body=r"[A-Za-z0-9+/=%]{80,}"),
    prefixed("google-key", "AIza", body=r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    prefixed("google-oauth", "ya29.", body=r"[A-Za-z0-9_-]{20,}"),
    prefixed("google-oauth", "1//0", body=r"[A-Za-z0-9_-]{40,}"),
    prefixed("google-client-secret", "GOCSPX-", body=r"[A-Za-z0-9_-]{24,}"),
    shaped("firebase-key", ":APA91b", pattern=r"AAAA[A-Za-z0-9_-]{7}:APA91b[\w-]{100,}", lead=11),
    shaped(
        "azure-secret", "Q~", pattern=r"[A-Za-z0-9_.~-]{3}[0-9]Q~[A-Za-z0-9_.~-]{31,34}", lead=4
    ),
    shaped("azure-key", "AzFu", pattern=r"[\w-]{44}AzFu[\w-]{5}[AQgw]==", lead=44),
    shaped("azure-key", "AzSe", pattern=r"[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6}(?!\w)", lead=42),
    shaped("azure-key", "ACDb", "+ASt", pattern=r"[\w+/]{76}(?:ACDb|\+ASt)\w{5}[AQgw]==", lead=76),
    shaped("azure-key", "AIoT", "+ASb", "+AEh", pattern=r"[\w+/]{33}[\w+]{4}\w{5}[AQgw]=", lead=33),
    prefixed("digitalocean-token", "dop_v1_", "doo_v1_", "dor_v1_", body=r"[0-9a-f]{64}"),
    prefixed("heroku-key", "HRKU-", body=r"[A-Za-z0-9_-]{36,}"),
    prefixed("cloudflare-key", "v1.0-", body=r"[0-9a-f]{24}-[0-9a-f]{146}"),
    prefixed("netlify-token", "nfp_", "nfc_", "nfo_", "nfu_", body=r"[A-Za-z0-9]{36,}"),
    prefixed("render-key", "rnd_", body=r"[A-Za-z0-9]{28,}"),
    prefixed("vercel-token", "vcp_", "vci_", "vca_", "vcr_", "vck_", body=r"[A-Za-z0-9]{24,}"),
    prefixed("vercel-token", "vercel_blob_rw_", body=r"[A-Za-z0-9_]{20,}"),
    prefixed("fly-token", "fo1_", body=r"[A-Za-z0-9_-]{43}"),
    prefixed("fly-token", "fm1r_", "fm1a_", "fm2_", body=r"[A-Za-z0-9+/=]{60,}"),
    prefixed("databricks-token", "dapi", "dose", body=r"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    prefixed("planetscale-key", "pscale_tkn_", "pscale_pw_", "pscale_oauth_", body=r"[\w=.-]{32,}"),
    prefixed("supabase-key", "sbp_", body=r"(?:v0_)?[0-9a-f]{40}"),
    prefixed("supabase-key", "sb_secret_", body=r"[A-Za-z0-9_-]{22,}"),
    prefixed("neon-key", "napi_", body=r"[a-z0-9]{40,}"),
    prefixed("vault-token", "s.", body=r"[A-Za-z0-9]{24}(?![\w.(])", random=True),
    prefixed("vault-token", "hvs.", "hvb.", "hvr.", body=r"[A-Za-z0-9_-]{24,}"),
    shaped(
        "terraform-token",
        ".atlasv1.",
        pattern=r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}",
        lead=14,
    ),
    prefixed("doppler-token", "dp.", body=r"(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?\w{40,}"),
    prefixed("infisical-token", "st.", body=_UUID + r"\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    prefixed("pulumi-token", "pul-", body=r"[0-9a-f]{40}"),
    prefixed("infracost-key", "ico-", body=r"[A-Za-z0-9]{32}"),
    prefixed("grafana-token", "glsa_", "glc_", body=r"[A-Za-z0-9+/=_]{32,}"),
    prefixed("newrelic-key", "NRAK-", "NRJS-", "NRII-", "NRRA-", body=r"[A-Za-z0-9_-]{19,}"),
    prefixed("grafana-token", "eyJrIjoi", body=r"[A-Za-z0-9]{60,}={0,2}"),
    prefixed("clickhouse-key", "4b1d", body=r"[A-Za-z0-9]{38}(?!\w)", random=True),
    shaped("maxmind-key", "_mmk", pattern=r"\w{6}_\w{29}_mmk(?!\w)", lead=36),
    prefixed("honeycomb-key", "hcaik_", "hcaic_", "hcamk_", body=r"[a-z0-9]{32,}"),
    prefixed(
        "dynatrace-token", "dt0c01.", "dt0s01.", "dt0s16.", body=r"[A-Z0-9]{8,24}\.[A-Z0-9]{64}"
    ),
    prefixed("tailscale-key", "tskey-", body=r"[a-z]{3,12}-[A-Za-z0-9]{8,}-?[A-Za-z0-9]{8,}"),
    prefixed("onepassword-token", "ops_eyJ", body=r"[A-Za-z0-9+/=_-]{60,}"),
    prefixed("onepassword-key", "A3-", body=r"[A-Z0-9]{6}-(?:[A-Z0-9]{5,6}-){4}[A-Z0-9]{5}"),
    prefixed("bitwarden-token", "0.", body=_UUID + r"\.[A-Za-z0-9]{30}:[A-Za-z0-9+/=]{22,}"),
    lettered("alibaba-key", "LTAI", body=r"[A-Za-z0-9]{12,20}"),
    lettered("tencent-key", "AKID", body=r"[A-Za-z0-9]{32}"),
    lettered("yandex-key", "AQVN", body=r"[A-Za-z0-9_-]{35,}"),
    prefixed("yandex-token", "y0_", body=r"[A-Za-z0-9_-]{50,}"),
    prefixed("prefect-key", "pnu_", "pnb_", body=r"[A-Za-z0-9]{36}"),
    prefixed("launchdarkly-key", "sdk-", "api-", "mob-", body=_UUID),
    prefixed("akamai-key", "akab-", body=r"[a-z0-9]{16}-[a-z0-9]{16}"),
    prefixed("temporal-key", "tmprl_", body=r"[A-Za-z0-9_-]{32,}"),
    prefixed("posthog-key", "phx_", body=r"[A-Za-z0-9_-]{40,}"),
)

_TRADES = (
    prefixed(
        "stripe-key",
        *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"),
        body=r"[A-Za-z0-9_]{10,}",
    ),
    prefixed("webhook-secret", "whsec_", body=r"[A-Za-z0-9+/=]{24,}"),
    prefixed(
        "slack-token",
        "xoxb-",
        "xoxp-",
        "xoxa-",
        "xoxr-",
        "xoxs-",
        "xoxc-",
        "xoxo-",
        body=r"[A-Za-z0-9-]{20,}",
    ),
    prefixed(
        "slack-token", "xoxe-", "xoxe.xoxp-", "xoxe.xoxb-", "xoxd-", body=r"[A-Za-z0-9%-]{40,}"
    ),
    prefixed("slack-token", "xapp-", body=r"\d-[A-Z0-9]+-\d+-[0-9a-f]{32,}"),
    shaped(
        "discord-token",
        *("MT", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT", "MD"),
        pattern=r"[MNO][A-Za-z0-9_-]{23,27}+\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",
    ),
    shaped("telegram-token", ":AA", pattern=r"\d{8}:AA[\w-]{33}(?![\w-])", lead=8, loose=True),
    lettered("twilio-key", "SK", body=r"[0-9a-f]{32}"),
    prefixed("sendgrid-key", "SG.", body=r"[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}"),
    prefixed("mailgun-key", "key-", "pubkey-", body=r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    shaped("mailchimp-key", "-us", pattern=r"[0-9a-f]{32}-us\d{1,2}(?!\w)", lead=32),
    prefixed("mandrill-key", "md-", body=r"[A-Za-z0-9_-]{22}(?![\w-])", random=True),
    prefixed("brevo-key", "xkeysib-", "xsmtpsib-", body=r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    prefixed("resend-key", "re_", body=r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    prefixed("hubspot-token", "pat-na1-", "pat-eu1-", "pat-na2-", "pat-ap1-", body=_UUID),
    shaped("salesforce-token", "00D", pattern=r"00D[A-Za-z0-9]{12,15}![A-Za-z0-9_.]{60,}"),
    prefixed(
        "shopify-token", "shpat_", "shpca_", "shppa_", "shpss_", "shptka_", body=r"[0-9a-fA-F]{32}"
    ),
    prefixed("square-token", "sq0atp-", "sq0csp-", "sq0idp-", body=r"[A-Za-z0-9_-]{22,43}"),
    lettered("square-token", "EAAA", body=r"(?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{56,60}"),
    shaped(
        "paypal-token",
        *("$production$", "$sandbox$"),
        pattern=r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        lead=12,
    ),
    prefixed(
        "plaid-token", "access-sandbox-", "access-development-", "access-production-", body=_UUID
    ),
    prefixed("flutterwave-key", "FLWSECK", body=r"(?:_TEST|_LIVE)?-[A-Za-z0-9-]{12,}"),
    prefixed("razorpay-key", "rzp_live_", "rzp_test_", body=r"[A-Za-z0-9]{14,}"),
    prefixed("shippo-token", "shippo_live_", "shippo_test_", body=r"[0-9a-f]{40}"),
    prefixed("mollie-key", "live_", "test_", body=r"[A-Za-z0-9]{30,40}(?!\w)", random=True),
    lettered("easypost-key", "EZAK", "EZTK", body=r"[A-Za-z0-9]{54}"),
    prefixed("duffel-token", "duffel_live_", "duffel_test_", body=r"[A-Za-z0-9_=-]{43}"),
    prefixed("frameio-token", "fio-u-", body=r"[A-Za-z0-9_=-]{64}"),
    prefixed("mapbox-token", "sk.eyJ", body=r"[A-Za-z0-9_-]{60,}\.[A-Za-z0-9_-]{22}"),
    lettered(
        "facebook-token",
        *("EAACEdEose0cBA", "EAAG", "EAAB", "EAAC", "EAAD", "EAAM"),
        body=r"(?=[A-Za-z]{0,60}\d)[A-Za-z0-9]{80,300}",
    ),
    prefixed("instagram-token", "IGQ", body=r"[A-Za-z0-9_-]{100,}"),
    lettered("twitter-token", "A" * 20, body=r"A{0,2}[B-Zb-z0-9][A-Za-z0-9%]{60,110}"),
    prefixed("dropbox-token", "sl.", body=r"(?:u\.)?[A-Za-z0-9_=-]{100,}"),
    prefixed("twitch-token", "oauth:", body=r"(?=[a-z]{0,28}\d)[a-z0-9]{30}(?!\w)"),
    prefixed("clickup-token", "pk_", body=r"\d{5,10}_[A-Z0-9]{32}"),
    prefixed("intercom-token", "dG9rO", body=r"[A-Za-z0-9+/]{40,}={0,2}"),
    prefixed("adobe-secret", "p8e-", body=r"[A-Za-z0-9_-]{32,}", random=True),
    prefixed("intra42-secret", "s-s4t2ud-", "s-s4t2af-", body=r"[0-9a-f]{64}"),
    prefixed("settlemint-token", "sm_aat_", "sm_pat_", "sm_sat_", body=r"[A-Za-z0-9]{16,}"),
    prefixed("paddle-key", "pdl_live_apikey_", "pdl_sdbx_apikey_", body=r"[A-Za-z0-9_]{20,}"),
)

FORMATS: tuple[SecretFormat, ...] = (*_WEB, *_MODELS, *_CODE, *_CLOUDS, *_TRADES)
"""Every known format, the surest first."""
