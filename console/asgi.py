"""The ASGI application that granian serves."""

import os
import warnings

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# WhiteNoise hands static files over in small synchronous pieces; Django would say so in the log of every copy.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
application = get_asgi_application()

from console.web.checks import require_secrets  # noqa: E402 - settings are there only now

require_secrets()
