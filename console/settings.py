"""Every setting of the console, from the environment (docs/operate/settings.md lists them all)."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import dj_database_url

from brokercore.logs import FORMATTERS
from console.env import (
    env_addresses,
    env_bool,
    env_choice,
    env_domains,
    env_int,
    env_networks,
    env_regions,
    env_secret,
    env_text,
    is_loopback,
)

BASE_DIR = Path(__file__).resolve().parent.parent
HOME = Path(env_text("GANTRY_HOME", str(BASE_DIR / "var"))).resolve()
SECRETS = HOME / "secrets"

# --- Security -------------------------------------------------------------------------------------------------------
DEBUG = env_bool("GANTRY_DEBUG", False)
SECRET_KEY = env_secret("GANTRY_SECRET_KEY", SECRETS / "secret_key")
# Encrypts AccessKey secrets at rest: HMAC signatures need the secret back, so a hash would not do.
MASTER_KEY = env_secret("GANTRY_MASTER_KEY", SECRETS / "master_key")
ALLOWED_HOSTS = [h for h in env_text("GANTRY_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",") if h]
CSRF_TRUSTED_ORIGINS = [o for o in env_text("GANTRY_TRUSTED_ORIGINS").split(",") if o]
HTTPS = env_bool("GANTRY_HTTPS", False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
# A session ends when nobody used it for so long, and at the latest after so long.
SESSION_COOKIE_AGE = env_int("GANTRY_SESSION_IDLE_MINUTES", 480, low=2) * 60
SESSION_MAX_AGE_S = env_int("GANTRY_SESSION_MAX_HOURS", 168, low=1) * 3600
# Two copies on one host share the cookie jar of 127.0.0.1, since cookies know no ports.
SESSION_COOKIE_NAME = f"gantry_session_{env_int('GANTRY_WEB_PORT', 8000)}"
CSRF_FAILURE_VIEW = "console.web.views.without_token"
CSRF_COOKIE_NAME = f"gantry_csrf_{env_int('GANTRY_WEB_PORT', 8000)}"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
# Whoever ends TLS in front of us says so; from anybody else the middleware takes these headers away.
TRUSTED_PROXIES = env_networks("GANTRY_TRUSTED_PROXIES", "127.0.0.0/8,::1" if HTTPS else "")
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
X_FRAME_OPTIONS = "DENY"

# --- Addresses ------------------------------------------------------------------------------------------------------
HOST = env_text("GANTRY_HOST", "127.0.0.1")
WEB_PORT = env_int("GANTRY_WEB_PORT", 8000)
SQL_PORT = env_int("GANTRY_SQL_PORT", 10000)
# Connections to the web server, in all and of one address; requests of one address that are open at a time; seconds in
# which the body of a request has come, or keeps coming fast enough (console/request_limits.py).
WEB_CONNECTIONS = env_int("GANTRY_WEB_CONNECTIONS", 8192, low=64)
WEB_PEER_CONNECTIONS = env_int("GANTRY_WEB_PEER_CONNECTIONS", 512, low=8)
WEB_PEER_REQUESTS = env_int("GANTRY_WEB_PEER_REQUESTS", 256, low=4)
WEB_BODY_SECONDS = env_int("GANTRY_WEB_BODY_SECONDS", 20, low=1)
# Requests that are worked for at a time; those of one account, or of one stranger's address, that wait for it.
WEB_PLACES = env_int("GANTRY_WEB_PLACES", 12, low=4)
WEB_WAITING = env_int("GANTRY_WEB_WAITING", 128, low=1)
# Pages that are kept current over a stream; one account has half of them at most, the other pages ask by themselves.
WEB_STREAMS = env_int("GANTRY_WEB_STREAMS", 1000, low=0)
# Where the figures of the console's processes are shown to Prometheus; 0: nowhere.
CONSOLE_METRICS_HOST = env_text("GANTRY_CONSOLE_METRICS_HOST") or "127.0.0.1"
CONSOLE_METRICS_PORT = env_int("GANTRY_CONSOLE_METRICS_PORT", 0)
SMQ_PORT = env_int("GANTRY_SMQ_PORT", 8071)
# Where the console and its workers reach the queue service.
SMQ_ADDRESS = env_text("GANTRY_SMQ_ADDRESS") or f"http://127.0.0.1:{SMQ_PORT}"
# Queue services elsewhere to which notifications of async SQL may go, and the AccessKey with which they are signed.
SMQ_ENDPOINTS = env_addresses("GANTRY_SMQ_ENDPOINTS")
# Where addresses may lead that accounts type in, beside public ones: the queue service reads the same for its pushes.
SMQ_PUSH_ALLOW = env_networks("GANTRY_SMQ_PUSH_ALLOW", "127.0.0.0/8,::1" if is_loopback(HOST) else "")
# How people reach the console, for links in what is sent to them.
CONSOLE_URL = env_text("GANTRY_CONSOLE_URL") or f"http://127.0.0.1:{WEB_PORT}"
# The server that sends mail to recipients of alarms; without it none is sent.
EMAIL_HOST = env_text("GANTRY_SMTP_HOST")
EMAIL_PORT = env_int("GANTRY_SMTP_PORT", 587, low=1, high=65_535)
EMAIL_HOST_USER = env_text("GANTRY_SMTP_USER")
EMAIL_HOST_PASSWORD = env_secret("GANTRY_SMTP_PASSWORD", SECRETS / "smtp_password")
_SMTP_TLS = env_choice("GANTRY_SMTP_TLS", ("starttls", "tls", "off"))
EMAIL_USE_TLS, EMAIL_USE_SSL = _SMTP_TLS == "starttls", _SMTP_TLS == "tls"
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = env_text("GANTRY_MAIL_FROM") or "gantry@localhost"
# The domains that recipients of mail may have; without one any.
MAIL_DOMAINS = env_domains("GANTRY_MAIL_DOMAINS")
SMQ_ACCESS_KEY_ID = env_secret("GANTRY_SMQ_ACCESS_KEY_ID", SECRETS / "smq_access_key_id")
SMQ_ACCESS_KEY_SECRET = env_secret("GANTRY_SMQ_ACCESS_KEY_SECRET", SECRETS / "smq_access_key_secret")
# Of the demo account's database on this machine; 0 where there is none.
DEMO_PORT = env_int("GANTRY_DEMO_PORT", 0)
NAMESRV_PORT = env_int("GANTRY_NAMESRV_PORT", 9876)
NAMESRV = env_text("GANTRY_NAMESRV") or f"127.0.0.1:{NAMESRV_PORT}"
# Brokers other than the embedded one have access control of their own, to which rights are carried over.
EMBEDDED_BROKER = env_bool("GANTRY_EMBEDDED_BROKER", not env_text("GANTRY_NAMESRV"))
# Whether the first start makes the demo account with its topics and groups; on somebody's own cluster it does not.
DEMO_DATA = env_bool("GANTRY_DEMO_DATA", EMBEDDED_BROKER)
BROKER_ACCESS_KEY_ID = env_secret("GANTRY_BROKER_ACCESS_KEY_ID", SECRETS / "broker_access_key_id")
BROKER_ACCESS_KEY_SECRET = env_secret("GANTRY_BROKER_ACCESS_KEY_SECRET", SECRETS / "broker_access_key_secret")
# Brokers are spoken to over TLS, and must show a certificate of this authority.
BROKER_CA = env_text("GANTRY_BROKER_CA") or (
    str(HOME / "tls" / "broker.crt") if env_text("GANTRY_BROKER_TLS") == "enforcing" else ""
)
# IDs of regions with the names shown for them. The first is the default: the cluster of these settings, the queue
# service, SQL and the lake are there.
REGIONS = env_regions("GANTRY_REGIONS", {env_text("GANTRY_REGION") or "mq-private": "Private region"})
REGION = next(iter(REGIONS))
# An asynchronous statement that runs longer is stopped; one whose client waits for its rows has limits of its own.
PIPELINES_PER_WORKER = env_int("GANTRY_PIPELINES_PER_WORKER", 20, low=1)
SQL_TIME_LIMIT_S = env_int("GANTRY_SQL_TIME_LIMIT_S", 1800, low=1)
SQL_SYNC_SECONDS = env_int("GANTRY_SQL_SYNC_SECONDS", 60, low=1)
SQL_SYNC_ROWS = env_int("GANTRY_SQL_SYNC_ROWS", 100_000, low=1)
SQL_SYNC_BYTES = env_int("GANTRY_SQL_SYNC_BYTES", 64 * 1024**2, low=1024)
# Statements of one account that run at a time, and that may wait for their turn.
SQL_RUNNING_PER_TENANT = env_int("GANTRY_SQL_RUNNING_PER_TENANT", 4, low=1)
SQL_WAITING_PER_TENANT = env_int("GANTRY_SQL_WAITING_PER_TENANT", 1000, low=1)
# Requests to webhooks of one account, and bytes of their events, that may wait for their logs.
WEBHOOK_WAITING_EVENTS = env_int("GANTRY_WEBHOOK_WAITING_EVENTS", 10_000, low=1)
WEBHOOK_WAITING_BYTES = env_int("GANTRY_WEBHOOK_WAITING_BYTES", 64 << 20, low=8 << 20)
# Messages that a step of an archive writes before it commits, and that one run writes at most.
ARCHIVE_STEP_MESSAGES = env_int("GANTRY_ARCHIVE_STEP_MESSAGES", 1_000_000, low=1)
ARCHIVE_RUN_MESSAGES = env_int("GANTRY_ARCHIVE_RUN_MESSAGES", 100_000_000, low=1)
# Most rows of gantry.audit and of gantry.query_tasks that a statement reads, latest first; days of gantry.samples.
SQL_SNAPSHOT_ROWS = env_int("GANTRY_SQL_SNAPSHOT_ROWS", 100_000, low=1)
SQL_SAMPLES_DAYS = env_int("GANTRY_SQL_SAMPLES_DAYS", 7, low=1)
#: Largest file that a page of the lake takes, bytes.
LAKE_UPLOAD_BYTES = env_int("GANTRY_LAKE_UPLOAD_BYTES", 1024**3, low=1)
# Days that the lake keeps samples (with their curves) and results of statements; 0 keeps them for ever.
SAMPLES_DAYS = env_int("GANTRY_SAMPLES_DAYS", 30)
RESULTS_DAYS = env_int("GANTRY_RESULTS_DAYS", 30)
# How far the clock of a management API caller may be off; 0 switches the check off.
API_WINDOW_MINUTES = env_int("GANTRY_API_WINDOW_MINUTES", 15)
# What an account may use of the embedded brokers, the lake and the console unless the platform's administrator gave it
# limits of its own; 0 is no limit. Unless set, an account leaves the others a fifth of the store.
_STORE_MAX_BYTES = env_int("GANTRY_STORE_MAX_BYTES", 1 << 30, low=1) * env_int("GANTRY_BROKERS", 1, low=1)
TENANT_LIMITS = {
    "connections": env_int("GANTRY_TENANT_CONNECTIONS", 10_000),
    "topics": env_int("GANTRY_TENANT_TOPICS", 5_000),
    "groups": env_int("GANTRY_TENANT_GROUPS", 5_000),
    "queues": env_int("GANTRY_TENANT_QUEUES", 50_000),
    "messages_per_second": env_int("GANTRY_TENANT_MESSAGES_PER_SECOND", 200_000),
    "bytes_per_second": env_int("GANTRY_TENANT_BYTES_PER_SECOND", 1 << 28),
    "sql_connections": env_int("GANTRY_TENANT_SQL_CONNECTIONS", 200),
    "lake_bytes": env_int("GANTRY_TENANT_LAKE_BYTES", 64 << 30),
    "result_bytes": env_int("GANTRY_TENANT_RESULT_BYTES", 16 << 30),
    "parsing_seconds": env_int("GANTRY_TENANT_PARSING_SECONDS", 60),
    "smq_queues": env_int("GANTRY_TENANT_SMQ_QUEUES", 20_000),
    "smq_messages": env_int("GANTRY_TENANT_SMQ_MESSAGES", 2_000_000),
    "smq_bytes": env_int("GANTRY_TENANT_SMQ_BYTES", 1 << 28),
    "smq_calls_per_second": env_int("GANTRY_TENANT_SMQ_CALLS_PER_SECOND", 20_000),
    "smq_waiting": env_int("GANTRY_TENANT_SMQ_WAITING", 5_000),
    "jobs": env_int("GANTRY_TENANT_JOBS", 200),
    "running_jobs": env_int("GANTRY_TENANT_RUNNING_JOBS", 10),
    "tracking_tasks": env_int("GANTRY_TENANT_TRACKING_TASKS", 20),
    "stored_bytes": env_int("GANTRY_TENANT_STORED_BYTES", _STORE_MAX_BYTES * 4 // 5 >> 20 << 20),
}
# Longest topic name that can be created; clients refuse more than 127 characters on the wire.
TOPIC_NAME_MAX = env_int("GANTRY_TOPIC_NAME_MAX", 127, low=3, high=127)
# Old callers leave _regionId out: it then is the first region of this copy.
API_DEFAULT_REGION = env_bool("GANTRY_API_DEFAULT_REGION", False)
# Symbols that the vendor does not have are answered as the nearest one that it has.
API_STRICT_CODES = env_bool("GANTRY_API_STRICT_CODES", False)
# Whether assistants find the operations of the management API as tools at /mcp.
MCP = env_bool("GANTRY_MCP", True)
# Calls a minute of one AccessKey; 0 is no limit.
API_STATUS_PER_MINUTE = env_int("GANTRY_API_STATUS_PER_MINUTE", 60, low=0)
API_QUERIES_PER_MINUTE = env_int("GANTRY_API_QUERIES_PER_MINUTE", 600, low=0)
# Refused signatures a minute, from one address and with one key ID; 0 is no limit.
API_FAILURES_PER_MINUTE = env_int("GANTRY_API_FAILURES_PER_MINUTE", 60, low=0)
# A larger message body is left out of lists of messages.
API_LIST_BODY_BYTES = env_int("GANTRY_API_LIST_BODY_BYTES", 1024 * 1024, low=0)
# What clients put behind `MQ_INST_….`: a name that resolves to this machine.
ENDPOINT_HOST = env_text("GANTRY_ENDPOINT_HOST", "localhost")

# --- Storage --------------------------------------------------------------------------------------------------------
DATABASES = {
    "default": dj_database_url.parse(
        env_secret("DATABASE_URL", SECRETS / "database_url") or f"sqlite:///{HOME / 'console.sqlite3'}",
        # Under ASGI every request has a thread of its own: a connection that outlived it would serve nobody.
        conn_max_age=0,
    )
}
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",  # a read that turns into a write would fail at once with "locked"
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
    }
    # Tests use threads and processes, which would not share a database in memory.
    DATABASES["default"]["TEST"] = {"NAME": str(HOME / "test.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env_secret("REDIS_URL", SECRETS / "redis_url") or f"unix://{HOME / 'run' / 'redis.sock'}"


def redis_url(database: int, *, celery: bool = False) -> str:
    """Address of one Redis database: 0 messages and ACL table, 1 Celery, 2 cache and hot metrics."""
    parts = urlsplit(REDIS_URL)
    if parts.scheme == "unix":
        return f"redis+socket://{parts.path}?virtual_host={database}" if celery else f"{REDIS_URL}?db={database}"
    return f"{REDIS_URL.rstrip('/')}/{database}"


CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": redis_url(2)}}

# --- Applications ---------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "django_htmx",
    "console.web",
    "console.accounts",
    "console.rights",
    "console.instances",
    "console.topics",
    "console.drift",
    "console.adoption",
    "console.cluster",
    "console.messaging",
    "console.queues",
    "console.catalog",
    "console.sql",
    "console.archive",
    "console.feeds",
    "console.tracking",
    "console.pipelines",
    "console.inflow",
    "console.alarms",
    "console.metrics",
    "console.audit",
    "console.outbox",
    "console.platform",
    "console.openapi",
    "console.manual",
    "console.demo",
]
MIDDLEWARE = [
    "console.feeds.middleware.HookTokenMiddleware",
    "console.web.figures.FiguresMiddleware",
    "console.web.connections.TrustedProxyMiddleware",
    "console.web.middleware.RequestIdMiddleware",
    "console.web.middleware.ContentSecurityPolicyMiddleware",
    "console.web.compression.CompressionMiddleware",
    "console.web.live.LiveMiddleware",
    "console.web.middleware.OrderlyTextMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "console.web.bundles.BundleMiddleware",
    "console.web.middleware.NoStoreMiddleware",
    "console.web.middleware.CollapseSlashesMiddleware",
    "console.openapi.rpc.middleware.ApiMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "console.web.rounds.RoundMiddleware",
    "console.web.middleware.ViewerZoneMiddleware",
    "console.web.languages.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "console.accounts.middleware.SignInMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.accounts.middleware.ActorMiddleware",
    "console.web.middleware.NulMiddleware",
    "console.web.middleware.OutageMiddleware",
    "console.audit.record.attempts.AttemptsMiddleware",
    "console.web.rounds.SharingMiddleware",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["django.templatetags.i18n"],
            # Its tags only: as an application it would be imported, with PostgreSQL's fields, by every process.
            "libraries": {"django_tables2": "django_tables2.templatetags.django_tables2"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.instances.context.navigation",
            ],
        },
    }
]

# --- People ---------------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [{"NAME": "console.accounts.services.passwords.PasswordRule"}]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "instances.overview"
ACCOUNT_ADAPTER = "console.accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_FORMS = {"change_password": "console.accounts.adapter.ChangePasswordForm"}
# Five wrong passwords, or MFA codes, lock a name for the rest of the 15 minutes, and fifty an address.
ACCOUNT_RATE_LIMITS = {"login_failed": "5/15m/key,50/15m/ip"}
MFA_ADAPTER = "console.accounts.mfa.MFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_TOLERANCE = 1
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_FORMS = {
    "authenticate": "console.accounts.mfa.AuthenticateForm",
    "authenticate_webauthn": "console.accounts.mfa.AuthenticateWebAuthnForm",
    "reauthenticate": "console.accounts.mfa.ReauthenticateForm",
    "reauthenticate_webauthn": "console.accounts.mfa.ReauthenticateWebAuthnForm",
    "activate_totp": "console.accounts.mfa.ActivateTOTPForm",
}
SOCIALACCOUNT_ADAPTER = "console.accounts.single_sign_on.SingleSignOnAdapter"
SSO_RATE_LIMITS = {"start": "30/m/ip"}
# A provider of single sign-on without TLS, and one in these private networks: for tests and closed networks.
SSO_ALLOW_HTTP = env_bool("GANTRY_SSO_ALLOW_HTTP", False)
SSO_NETWORKS = env_networks("GANTRY_SSO_NETWORKS")

# --- Pages ----------------------------------------------------------------------------------------------------------
USE_TZ = True
TIME_ZONE = "UTC"
# What pages are written in, and what they are translated into (docs/develop/translation.md).
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "console" / "locale"]
USE_I18N = True
LANGUAGE_COOKIE_NAME = "gantry_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_HTTPONLY = True
STATIC_URL = "/static/"
# All static files are in the repository, ready to serve; there is nothing to collect.
STATIC_ROOT = BASE_DIR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# Vendored files have their version in the path; our own must follow an upgrade soon.
WHITENOISE_MAX_AGE = 300
DJANGO_TABLES2_TEMPLATE = "includes/table.html"
# A publish form carries a message body of up to 4 MiB, which base64 or form encoding may triple.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024

# --- Logs -----------------------------------------------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "console.web.logs.RequestIdFilter"},
        "refusal": {"()": "console.web.logs.RefusalFilter"},
        "flood": {"()": "brokercore.logs.FloodFilter"},
    },
    "formatters": {"line": {"()": FORMATTERS[env_choice("GANTRY_LOG_FORMAT", FORMATTERS)]}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id", "refusal", "flood"]}
    },
    # py4j tells of every connection that it closes, Celery of every task: several a second, all the time.
    "loggers": {
        "py4j": {"level": "ERROR"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
    "root": {"handlers": ["stderr"], "level": env_text("GANTRY_LOG_LEVEL", "INFO")},
}
