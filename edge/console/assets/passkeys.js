// Asks for a passkey where a form is signed with one, and puts what it said into the
// form. What is signed, the page says; whether it counts, the server.
"use strict";
(() => {
  const bytes = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const known = (form) => form.dataset.allow.split(" ").filter(Boolean).map((id) => ({ type: "public-key", id: bytes(id) }));

  const sign = async (form, challenge) => {
    const c = await navigator.credentials.get({ publicKey: { challenge, allowCredentials: known(form), userVerification: "required", timeout: 120000 } });
    const r = c.response;
    return JSON.stringify({ id: text(c.rawId), rawId: text(c.rawId), type: c.type, response: {
      clientDataJSON: text(r.clientDataJSON), authenticatorData: text(r.authenticatorData), signature: text(r.signature) } });
  };

  const make = (form) => navigator.credentials.create({ publicKey: {
    challenge: bytes(form.dataset.challenge), rp: { name: "Placet" },
    user: { id: bytes(form.dataset.user), name: form.dataset.name, displayName: form.dataset.name },
    pubKeyCredParams: [-7, -8, -257].map((alg) => ({ type: "public-key", alg })),
    authenticatorSelection: { userVerification: "required", residentKey: "preferred" },
    excludeCredentials: known(form), attestation: "none", timeout: 120000 } });

  // What an older passkey signs to confirm a new one: this very one, in this ceremony.
  const confirmation = (form, attestation) => {
    const parts = [new TextEncoder().encode("placet/passkey-add/1\0"), bytes(form.dataset.challenge), new Uint8Array(attestation)];
    const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    parts.reduce((at, p) => (all.set(p, at), at + p.length), 0);
    return crypto.subtle.digest("SHA-256", all);
  };

  let attestation; // of the passkey that waits to be confirmed

  // Reports whether the form is complete.
  const complete = async (form) => {
    const put = (name, value) => { form.elements.namedItem(name).value = value; };
    if (form.dataset.passkey === "get") {
      put("passkey", await sign(form, bytes(form.dataset.challenge)));
      return true;
    }
    if (!attestation) {
      const c = await make(form), r = c.response;
      put("created", JSON.stringify({ id: text(c.rawId), rawId: text(c.rawId), type: c.type, response: {
        clientDataJSON: text(r.clientDataJSON), attestationObject: text(r.attestationObject) } }));
      if (!form.dataset.allow) return true;
      attestation = r.attestationObject;
      // A second request wants a second click in some browsers.
      document.getElementById("add").hidden = true;
      document.getElementById("confirm").hidden = false;
      document.getElementById("confirm").focus();
      return false;
    }
    put("passkey", await sign(form, await confirmation(form, attestation)));
    return true;
  };

  // The page may have been brought up to date while the device was asked.
  const send = (form) => {
    const now = form.isConnected ? form : document.querySelector(`form[action="${form.getAttribute("action")}"]`);
    if (!now) return;
    for (const name of ["passkey", "created", "name"]) {
      const from = form.elements.namedItem(name), to = now.elements.namedItem(name);
      if (from && to) to.value = from.value;
    }
    now.submit();
  };

  const why = (e) => e.name === "InvalidStateError" ? "This device has a passkey of yours already." :
    e.name === "SecurityError" ? "Passkeys do not work at this address. Open the console at its own." :
    "No passkey answered, so nothing was sent. Try again.";

  document.addEventListener("submit", async (event) => {
    const form = event.target, says = form.querySelector("[role=alert]");
    if (!form.dataset.passkey) return;
    event.preventDefault();
    says.hidden = true;
    try {
      if (!window.PublicKeyCredential) throw new Error("none");
      if (await complete(form)) send(form);
    } catch (e) {
      says.textContent = window.PublicKeyCredential ? why(e) : "This browser knows no passkeys. Rejecting needs none.";
      says.hidden = false;
    }
  });
})();
