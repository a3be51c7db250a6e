"""The exact call of an operation as programs that run as they are: curl, Python and Java.

Each computes the signature itself and takes the AccessKey secret from the environment, so that it stands in no file.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from console.openapi.authentication import ACCESS_KEY, REGION, SIGNATURE, TIMESTAMP

SECRET = "GANTRY_ACCESS_KEY_SECRET"  # noqa: S105 - the name of a variable
_NOW = object()


class Sample(NamedTuple):
    """A program: the language's name, how to run it, its text."""

    language: str
    file: str
    command: str
    text: str


@dataclass(frozen=True)
class Wanted:
    """A call: `url` of the operation, whether by POST, the AccessKey ID, region (may be empty), own parameters."""

    url: str
    post: bool
    access_key_id: str
    region: str
    parameters: Mapping[str, str]

    def sorted(self) -> list[tuple[str, str | object]]:
        """All parameters in the order in which they are signed; the time is a mark."""
        values: dict[str, str | object] = dict(self.parameters)
        values |= {ACCESS_KEY: self.access_key_id, TIMESTAMP: _NOW}
        if self.region:
            values[REGION] = self.region
        return sorted(values.items())


def samples(wanted: Wanted) -> list[Sample]:
    """The call in each language."""
    return [
        Sample("curl", "call.sh", "bash call.sh", curl(wanted)),
        Sample("Python", "call.py", "python3 call.py", python(wanted)),
        Sample("Java", "Call.java", "java Call.java", java(wanted)),
    ]


def curl(wanted: Wanted) -> str:
    """For bash, with openssl for the signature."""
    pairs = wanted.sorted()
    signed = " \\\n  ".join('"$now"' if value is _NOW else shlex.quote(str(value)) for _, value in pairs)
    data = [
        f'--data-urlencode "{name}=$now"' if value is _NOW else f"--data-urlencode {shlex.quote(f'{name}={value}')}"
        for name, value in pairs
    ]
    verb = "" if wanted.post else "--get "
    options = " \\\n  ".join([*data, f'--data-urlencode "{SIGNATURE}=$signature"'])
    return f"""\
#!/usr/bin/env bash
# The secret comes from the environment: read -rs {SECRET} && export {SECRET}
: "${{{SECRET}:?is not set}}"
now=$(date +%s)000

# The values in the byte order of their names, with nothing between them.
signature=$(printf %s \\
  {signed} |
  openssl dgst -sha1 -hmac "${SECRET}" -binary | base64)

curl --silent --show-error {verb}{shlex.quote(wanted.url)} \\
  {options}
"""


def python(wanted: Wanted) -> str:
    """For Python 3 with nothing installed."""
    lines = _lines(wanted, ascii, "str(int(time.time() * 1000))", "    {name}: {value},")
    url = ascii(wanted.url)
    opened = f"{url}, data=query.encode()" if wanted.post else f'{url} + "?" + query'
    return f"""\
# The secret comes from the environment variable {SECRET}.
import base64
import hashlib
import hmac
import json
import os
import time
import urllib.parse
import urllib.request

parameters = {{
{lines}
}}
# The values in the byte order of their names, with nothing between them.
text = "".join(parameters[name] for name in sorted(parameters))
secret = os.environ["{SECRET}"]
digest = hmac.new(secret.encode(), text.encode(), hashlib.sha1).digest()
parameters["{SIGNATURE}"] = base64.b64encode(digest).decode()

query = urllib.parse.urlencode(parameters)
with urllib.request.urlopen({opened}) as response:
    answer = json.load(response)
print(json.dumps(answer, indent=2, ensure_ascii=False))
"""


def java(wanted: Wanted) -> str:
    """For Java 11 or later with nothing installed, as one source file."""
    lines = _lines(
        wanted, java_text, "String.valueOf(System.currentTimeMillis())", "        parameters.put({name}, {value});"
    )
    url = java_text(wanted.url)
    if wanted.post:
        send = f"""HttpRequest.newBuilder(URI.create({url}))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .POST(HttpRequest.BodyPublishers.ofString(query)).build()"""
    else:
        send = f'HttpRequest.newBuilder(URI.create({url} + "?" + query)).build()'
    return f"""\
// The secret comes from the environment variable {SECRET}.
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.TreeMap;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Call {{
    public static void main(String[] arguments) throws Exception {{
        TreeMap<String, String> parameters = new TreeMap<>();  // sorts by name, as the signature wants it
{lines}

        Mac mac = Mac.getInstance("HmacSHA1");
        byte[] secret = System.getenv("{SECRET}").getBytes(StandardCharsets.UTF_8);
        mac.init(new SecretKeySpec(secret, "HmacSHA1"));
        byte[] text = String.join("", parameters.values()).getBytes(StandardCharsets.UTF_8);
        parameters.put("{SIGNATURE}", Base64.getEncoder().encodeToString(mac.doFinal(text)));

        String query = parameters.entrySet().stream()
            .map(e -> e.getKey() + "=" + URLEncoder.encode(e.getValue(), StandardCharsets.UTF_8))
            .collect(Collectors.joining("&"));
        HttpRequest request = {send};
        System.out.println(HttpClient.newHttpClient()
            .send(request, HttpResponse.BodyHandlers.ofString()).body());
    }}
}}
"""


def java_text(value: str) -> str:
    """A string literal of Java in ASCII: what is above becomes \\u escapes, control characters octal ones.

    Java reads \\u escapes before anything else, so that one of a line end would break the literal.
    """
    named = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    units = memoryview(value.encode("utf-16-be")).cast("B")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return '"' + "".join(named.get(chr(code)) or _java_unit(code) for code in codes) + '"'


def _java_unit(code: int) -> str:
    if code > 0x7E:
        return f"\\u{code:04x}"
    return chr(code) if code >= 0x20 else f"\\{code:03o}"


def _lines(wanted: Wanted, quote: Callable[[str], str], now: str, line: str) -> str:
    return "\n".join(
        line.format(name=quote(name), value=now if value is _NOW else quote(str(value)))
        for name, value in wanted.sorted()
    )
