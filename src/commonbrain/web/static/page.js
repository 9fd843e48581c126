// Keys and small conveniences; every page also works without this file.
"use strict";

// The theme: the system's, unless the person chose another, which a cookie remembers.
const theme = (() => {
  const NAMES = { "": "the system's", light: "light", dark: "dark" };
  const AGE_S = 365 * 24 * 3600;
  const root = document.documentElement;
  const probe = document.documentElement.appendChild(document.createElement("span"));
  probe.hidden = true;

  const remembered = () => document.cookie.match(/(?:^|; )commonbrain-theme=(light|dark)(?:;|$)/)?.[1] ?? "";
  const announce = () => document.dispatchEvent(new Event("themechange"));

  function show(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    document.querySelector("meta[name=color-scheme]").content = name || "light dark";
    for (const one of document.querySelectorAll("[data-theme-switch]")) {
      one.title = `Theme: ${NAMES[name]} (l)`;
      one.setAttribute("aria-label", `Theme: ${NAMES[name]}`);
    }
  }

  function follow() {
    if (remembered() === (root.dataset.theme ?? "")) return;
    show(remembered());
    announce();
  }

  function choose(name) {
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `commonbrain-theme=${name}; path=/; samesite=strict; max-age=${name ? AGE_S : 0}${secure}`;
    follow();
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", announce);
  addEventListener("pageshow", follow); // a page from the history may be of before
  document.addEventListener("visibilitychange", follow); // another tab may have chosen
  show(remembered());

  return {
    // Returns a colour of the style sheet as the present theme has it.
    colour(name) {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    },
    // Shows the theme on a page that htmx restored from the history.
    restore() {
      show(remembered());
    },
    next() {
      const names = Object.keys(NAMES);
      choose(names[(names.indexOf(remembered()) + 1) % names.length]);
    },
  };
})();

(() => {
  const GO_WITHIN_MS = 1500; // between `g` and the key of a screen
  let wentAt = 0;
  let current = null;

  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
  const isTyping = (target) =>
    target.closest("textarea, select, [contenteditable]") ||
    (target.matches("input") && !["checkbox", "radio", "button", "submit"].includes(target.type));

  function choose(row) {
    if (current) current.classList.remove("current-row");
    current = row;
    if (!row) return;
    row.classList.add("current-row");
    row.scrollIntoView({ block: "nearest" });
    const link = row.querySelector("a.headline") ?? row.querySelector("a, button, input");
    if (link) link.focus({ preventScroll: true });
  }

  function move(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(current && current.isConnected ? current : null);
    choose(all[Math.min(Math.max(at + step, 0), all.length - 1)]);
  }

  function press(key) {
    const quoted = CSS.escape(key);
    const inRow = current && current.isConnected ? current.querySelector(`[data-key="${quoted}"]`) : null;
    const control = inRow || [...document.querySelectorAll(`[data-key="${quoted}"]`)].find((one) => one.checkVisibility() && !one.closest("[data-row]"));
    if (!control) return false;
    if (control.disabled) return true; // its form is on the way
    control.click();
    const details = control.closest("details");
    if (control.matches("summary") && details.open) {
      const field = details.querySelector("textarea, input:not([type=hidden]), select");
      if (field) field.focus();
    }
    return true;
  }

  function showKeys() {
    const dialog = document.getElementById("keys");
    if (dialog) dialog.showModal();
  }

  const KEYS = {
    "/": () => document.getElementById("find")?.focus(),
    "?": showKeys,
    j: () => move(1),
    k: () => move(-1),
    x: () => current?.querySelector("input[type=checkbox]")?.click(),
    g: () => { wentAt = Date.now(); },
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.form) {
      event.preventDefault();
      event.target.form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
    if (isTyping(event.target)) return;
    if (Date.now() - wentAt < GO_WITHIN_MS) {
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      wentAt = 0;
      if (link) { event.preventDefault(); link.click(); return; }
    }
    if (press(event.key)) { event.preventDefault(); return; }
    if (KEYS[event.key]) { event.preventDefault(); KEYS[event.key](); }
  });

  document.addEventListener("click", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (row && row !== current && !event.target.closest("a, button, summary")) choose(row);
    if (event.target.closest?.("[data-keys]")) showKeys();
    if (event.target.closest?.("[data-theme-switch]")) theme.next();
  });

  document.addEventListener("change", (event) => {
    const bytesMax = Number(event.target.dataset.bytesMax);
    if (bytesMax) {
      const isTooLarge = [...event.target.files].some((file) => file.size > bytesMax);
      event.target.setCustomValidity(isTooLarge ? "This file is too large to be sent. Import it with brain import." : "");
      event.target.reportValidity();
    }
    if (!event.target.matches("[data-all]")) return;
    for (const one of event.target.form.querySelectorAll("[name=ids]")) one.checked = event.target.checked;
  });

  document.addEventListener("input", (event) => {
    if (event.target.id !== "days-back") return;
    const days = Number(event.target.value);
    document.getElementById("days-back-text").textContent =
      days === 0 ? "now" : `${days} day${days === 1 ? "" : "s"} ago`;
  });

  const closeFacets = () => {
    if (!matchMedia("(max-width: 60rem)").matches) return;
    for (const one of document.querySelectorAll("details.facet-list")) one.open = false;
  };

  // Details with an id stay open, or closed, when a screen fetches itself again.
  let openDetails = new Map();
  document.addEventListener("htmx:before:swap", () => {
    openDetails = new Map([...document.querySelectorAll("details[id]")].map((one) => [one.id, one.open]));
  });

  const showControls = () => {
    for (const one of document.querySelectorAll(".needs-script")) one.hidden = false;
  };

  document.addEventListener("htmx:after:swap", () => {
    showControls();
    theme.restore();
    closeFacets();
    for (const one of document.querySelectorAll("details[id]")) one.open = openDetails.get(one.id) ?? one.open;
    const twin = document.querySelector("[data-twin]");
    if (!twin) return;
    const here = new URL(location.href);
    here.searchParams.set("format", "json");
    twin.href = here.pathname + here.search;
  });

  // The link that logs in sends its form once a person sees it: a preview is hidden.
  const sendItself = () => {
    if (document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", sendItself);
    document.querySelector("form[data-sends-itself]")?.requestSubmit();
  };

  document.addEventListener("visibilitychange", sendItself);
  sendItself();
  showControls();
  closeFacets();
})();
