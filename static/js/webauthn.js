// Security keys: turns the server's options into what navigator.credentials wants, and its answer into JSON.
(function () {
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const withBytes = (list) => list?.map((item) => ({ ...item, id: bytes(item.id) }));

  async function ask(kind, options) {
    const publicKey = { ...options.publicKey, challenge: bytes(options.publicKey.challenge) };
    if (kind === "get") {
      publicKey.allowCredentials = withBytes(publicKey.allowCredentials);
      return navigator.credentials.get({ publicKey });
    }
    publicKey.user = { ...publicKey.user, id: bytes(publicKey.user.id) };
    publicKey.excludeCredentials = withBytes(publicKey.excludeCredentials);
    return navigator.credentials.create({ publicKey });
  }

  function asJson(credential) {
    const response = {};
    for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
      if (credential.response[name]) response[name] = text(credential.response[name]);
    }
    return JSON.stringify({
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      response,
      clientExtensionResults: credential.getClientExtensionResults(),
    });
  }

  // Without this script the form would be sent without a key.
  for (const button of document.querySelectorAll("[data-webauthn-button]")) button.disabled = false;

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("form[data-webauthn]");
    if (!form) return;
    event.preventDefault();
    const problem = form.querySelector("[data-webauthn-problem]");
    problem.hidden = true;
    try {
      if (!window.PublicKeyCredential) throw new Error(window.gantryText("this address or browser does not allow it"));
      const options = JSON.parse(document.getElementById("webauthn-options").textContent);
      form.elements.credential.value = asJson(await ask(form.dataset.webauthn, options));
      HTMLFormElement.prototype.submit.call(form);
    } catch (error) {
      problem.textContent =
        error.name === "NotAllowedError"
          ? window.gantryText("The security key was not used: it was refused or took too long.")
          : window.gantryText("The security key was not used: %(error)s.", { error: error.message });
      problem.hidden = false;
    }
  });
})();
