// Keeps an open page current and shows times in the reader's own zone. Every page
// works without it.
"use strict";
(() => {
  const main = () => document.querySelector("main");
  const news = document.getElementById("news");
  let source, waiting;

  const local = () => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const at = new Date(t.dateTime);
      if (t.title || isNaN(at)) continue;
      t.title = t.textContent;
      t.textContent = at.toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
    }
  };

  const left = () => {
    for (const e of document.querySelectorAll("[data-until]")) {
      const s = Math.floor((new Date(e.dataset.until) - Date.now()) / 1000);
      const m = Math.floor(s / 60), h = Math.floor(m / 60);
      e.textContent = s <= 0 ? "no time left" : s < 60 ? s + " s left" : m < 60 ? m + " min left" : h < 48 ? h + " h " + (m % 60) + " min left" : Math.floor(h / 24) + " days left";
    }
  };

  // Nobody loses what they were writing, or the place where they were.
  const writing = () => [...document.querySelectorAll("main textarea, main input[type=text]")].some((e) => e === document.activeElement || e.value !== e.defaultValue);

  const replace = (next, title) => {
    const open = [...document.querySelectorAll("main details")].map((d) => d.open);
    const focus = document.activeElement && document.activeElement.id;
    main().replaceWith(document.adoptNode(next));
    document.title = title;
    document.querySelectorAll("main details").forEach((d, n) => { if (open[n]) d.open = true; });
    const again = focus && document.getElementById(focus);
    if (again) again.focus();
    news.textContent = "This page was updated.";
    local();
    left();
  };

  // A document from a request runs no scripts and is no markup of this page until
  // it is put there.
  const ask = () => {
    const x = new XMLHttpRequest();
    x.open("GET", main().dataset.page);
    x.responseType = "document";
    x.onload = () => {
      const next = x.response && x.response.querySelector("main");
      if (!next || x.status >= 400) return later();
      if (writing()) {
        const notice = document.getElementById("moved");
        if (notice) notice.hidden = false;
        return;
      }
      replace(next, x.response.title);
      follow();
    };
    x.onerror = later;
    x.send();
  };

  const later = () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, 15000);
  };

  const stop = () => {
    clearTimeout(waiting);
    if (source) source.close();
    source = undefined;
  };

  const follow = () => {
    stop();
    const what = main().dataset.live;
    if (!what || document.hidden) return;
    source = new EventSource("/console/live?" + what);
    source.addEventListener("change", () => { stop(); ask(); });
    source.addEventListener("over", () => location.reload());
    source.onerror = () => { if (source && source.readyState === EventSource.CLOSED) { stop(); later(); } };
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : follow()));
  setInterval(left, 15000);
  local();
  left();
  follow();
})();
