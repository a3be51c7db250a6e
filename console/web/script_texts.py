"""What scripts say to people (static/js/texts.js), for pages that are not in English. A test compares both."""

from __future__ import annotations

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext_noop, ngettext

_TEXTS = (
    gettext_noop("just now"),
    gettext_noop("%(seconds)s seconds ago"),
    gettext_noop("Close"),
    gettext_noop("The browser does not allow this page to copy; select the text instead."),
    gettext_noop("The server answered %(status)s."),
    gettext_noop("%(reason)s Request %(request)s"),
    gettext_noop("The console does not answer. Is it running?"),
    gettext_noop("The console did not answer in time."),
    gettext_noop("shown in %(zone)s"),
    gettext_noop("local time"),
    gettext_noop("Changes are not saved yet."),
    gettext_noop("Statement. Escape, then Tab, leaves the editor."),
    gettext_noop("The security key was not used: it was refused or took too long."),
    gettext_noop("The security key was not used: %(error)s."),
    gettext_noop("this address or browser does not allow it"),
    gettext_noop("You may not read this topic any more; load the page again"),
    gettext_noop("The messages cannot be read now; asked again by itself"),
    gettext_noop("paused, new messages: %(number)s"),
    gettext_noop("messages: %(seen)s came, %(shown)s fit"),
    gettext_noop("Waiting for messages…"),
    gettext_noop("left out: %(number)s, since more came than are shown in a second"),
    gettext_noop("the newest %(number)s are kept"),
    gettext_noop("Gantry does not answer; asked again by itself"),
    gettext_noop("Go on"),
    gettext_noop("Pause"),
)


#: The template tag `ago` says the same, so the catalogue has them.
_AGES = (
    ("%(number)s day ago", "%(number)s days ago"),
    ("%(number)s hour ago", "%(number)s hours ago"),
    ("%(number)s minute ago", "%(number)s minutes ago"),
)


def texts() -> dict[str, str]:
    """Each text of the scripts with its translation into the language of the request; empty for English."""
    if translation.get_language() == settings.LANGUAGE_CODE:
        return {}
    ages = {text: ngettext(*both, number) for both in _AGES for number, text in enumerate(both, start=1)}
    return {text: translation.gettext(text) for text in _TEXTS} | ages
