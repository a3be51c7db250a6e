"""The ASGI application that granian serves."""

import os
import resource
import warnings
from typing import cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# WhiteNoise hands static files over in small synchronous pieces; Django would say so in the log of every copy.
warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
_django = get_asgi_application()

from console.platform import figures  # noqa: E402 - settings are there only now
from console.request_limits import Application, RequestLimits  # noqa: E402
from console.web.checks import require_ready  # noqa: E402

require_ready()
# Every connection is a file; shells often start programs with room for a thousand.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (65_536 if _most == resource.RLIM_INFINITY else min(_most, 65_536), _most))
application = RequestLimits(cast("Application", _django))
application.connections.watch()
figures.serve()
