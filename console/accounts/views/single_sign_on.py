"""Single sign-on: the account's configuration, and the way to its provider and back."""

from __future__ import annotations

from allauth.core.internal.ratelimit import consume
from allauth.socialaccount.models import SocialApp
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, oidc, single_sign_on
from console.accounts.forms import AccountForm, SingleSignOnForm
from console.accounts.http import Request
from console.accounts.models import SingleSignOn
from console.accounts.services import single_sign_on as services
from console.web import deletion, forms, htmx
from console.web.languages import gettext_lazy

_NONE = gettext_lazy("This account has no single sign-on.")
_FIELDS = ("issuer", "client_id", "user_claim", "create_users", "enabled")


def index(request: Request) -> HttpResponse:
    action = "ram:UpdateSingleSignOn" if request.method == "POST" else "ram:GetSingleSignOn"
    access.service(request, "ram", action)
    row = services.configuration(request.actor)
    if request.method != "POST":
        initial = {name: getattr(row, name) for name in _FIELDS} if row else None
        return _page(request, row, SingleSignOnForm(initial=initial, row=row))
    form = SingleSignOnForm(request.POST, row=row)
    if form.is_valid():
        with forms.refusals_on(form):
            services.save_single_sign_on(actor=request.actor, **form.cleaned_data)
            messages.success(request, _("Saved. Test the connection before you tell your users."))
            return redirect("accounts.single_sign_on")
    return _page(request, row, form)


@require_POST
def test(request: Request) -> HttpResponse:
    access.service(request, "ram", "ram:UpdateSingleSignOn")
    row = services.configuration(request.actor)
    if row is None:
        messages.error(request, _("There is nothing to test yet."))
        return htmx.done(request, "accounts.single_sign_on")
    with forms.refusals_told(request):
        document = services.test_connection(row)
        messages.success(
            request,
            _("The provider answers: users are sent to %(authorization_endpoint)s.")
            % {"authorization_endpoint": document["authorization_endpoint"]},
        )
    return htmx.done(request, "accounts.single_sign_on")


def delete(request: Request) -> HttpResponse:
    tenant = access.service(request, "ram", "ram:UpdateSingleSignOn")
    wanted = deletion.Deletion(
        kind=_("single sign-on"),
        name=tenant.name,
        warning=_("Users without a password can no longer sign in."),
        cancel_url=reverse("accounts.single_sign_on"),
    )
    return deletion.confirm(
        request, wanted, lambda: services.delete_single_sign_on(actor=request.actor), ("accounts.single_sign_on",)
    )


@never_cache
@login_not_required
def choose(request: Request) -> HttpResponse:
    """Asks for the account, unless the address names it."""
    form = AccountForm(request.POST or None)
    if form.is_valid():
        return redirect("accounts.single_sign_on_start", form.cleaned_data["account"])
    return forms.show(request, "accounts/single_sign_on_start.html", form, {"following": ""})


@never_cache
@login_not_required
def start(request: Request, account: str) -> HttpResponse:
    """A button; pressing it leads to the provider.

    Not by a redirect: our pages may send forms to this console only, and browsers count where a form is redirected to.
    """
    following = request.POST.get("next") or request.GET.get("next", "")
    context = {"account": account, "following": following}
    template, status = "accounts/single_sign_on_start.html", 200
    if request.method == "POST":
        try:
            if consume(request, app="console.accounts", action="start", config=settings.SSO_RATE_LIMITS) is None:
                raise oidc.SignInError(_("Too many sign-ins from your address; wait a minute."))
            provider = single_sign_on.provider_of(request, account)
            context["provider_url"] = provider.authorization_url(request, following)
        except SocialApp.DoesNotExist:
            context["error"], status = _NONE, 404
        except oidc.SignInError as error:
            context["error"], status = str(error), 422
    return render(request, template, context, status=status)


@never_cache
@require_GET
@login_not_required
def callback(request: Request, account: str) -> HttpResponse:
    try:
        return single_sign_on.answer(request, account)
    except SocialApp.DoesNotExist:
        context = {"account": account, "error": _NONE, "following": ""}
        return render(request, "accounts/single_sign_on_start.html", context, status=404)


def _page(request: Request, row: SingleSignOn | None, form: SingleSignOnForm) -> HttpResponse:
    name = request.actor.tenant.name
    context = {
        "row": row,
        "callback_url": single_sign_on.callback_url(request, name),
        "start_url": request.build_absolute_uri(reverse("accounts.single_sign_on_start", args=[name])),
    }
    return forms.show(request, "accounts/single_sign_on.html", form, context)
