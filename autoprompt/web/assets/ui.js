// What the pages do beyond being read: follow the runs, filter the list, choose two, copy, choose a theme.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const page = document.body.dataset;

  // Put `made` in the place of `old`, child by child, so that what is the same keeps focus and selection.
  function replace(old, made) {
    const before = [...old.children];
    const after = [...made.children];
    if (before.length !== after.length || before.some((child, i) => child.id !== after[i].id)) {
      swap(old, made);
      return;
    }
    before.forEach((child, i) => {
      if (child.outerHTML !== after[i].outerHTML) swap(child, after[i]);
    });
  }

  function swap(old, made) {
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    const scrolled = [...old.querySelectorAll(".wide")].map((box) => box.scrollLeft);
    const opened = [...old.querySelectorAll("details[open][id]")].map((part) => part.id);
    const placed = document.importNode(made, true);
    old.replaceWith(placed);
    placed.querySelectorAll(".wide").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
    opened.forEach((id) => { if ($(id)) $(id).open = true; });
    if (focused) $(focused)?.focus({ preventScroll: true });
  }

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  // The newest answer wins: an older one that comes late is dropped.
  let asked = 0;
  async function refresh(address, id, done = () => {}) {
    const number = ++asked;
    const answer = await fetch(address).catch(() => null);
    if (!answer || !answer.ok || number !== asked) return;
    const made = parse(await answer.text()).getElementById(id);
    if (number !== asked || !made || !$(id)) return;
    replace($(id), made);
    done();
  }

  // At most once in `wait` ms, and not while nobody looks.
  function seldom(wait, act) {
    let timer = 0;
    let isDue = false;
    const run = () => { isDue = false; act(); };
    document.addEventListener("visibilitychange", () => { if (!document.hidden && isDue) run(); });
    return () => {
      if (document.hidden) { isDue = true; return; }
      if (timer) { isDue = true; return; }
      run();
      timer = setTimeout(() => { timer = 0; if (isDue) run(); }, wait);
    };
  }

  // --- following ---

  const refreshList = seldom(1000, () => refresh(location.href, "runs", prepare));
  const refreshParts = seldom(3000, () => refresh(location.href, "parts", () => {
    window.Report?.start($("parts"));
    prepare();
  }));
  let settled = null;
  const trials = new Map();

  function take(news) {
    if (page.topic === "list") takeInList(news);
    else if (news.topic === page.topic) takeInRun(news);
    else if ("trials" in page && news.topic.startsWith(page.topic + "/")) takeInTrial(news);
  }

  // The table is asked for again when a trial comes, ends or settles a candidate, not at every call.
  function takeInTrial(news) {
    showBrief(news);
    const state = news.status + news.settled;
    if (trials.get(news.topic) !== state) refreshParts();
    trials.set(news.topic, state);
  }

  function showBrief(news) {
    const brief = [...document.querySelectorAll("[data-brief]")].find((e) => e.dataset.brief === news.topic);
    if (brief) brief.textContent = news.brief;
  }

  function takeInList(news) {
    if (news.topic === "list") return refreshList();
    showBrief(news);
    return undefined;
  }

  function takeInRun(news) {
    if (news.status === "finished" || news.status === "broken") {
      if (page.status !== news.status) location.reload();
      return;
    }
    if (!$("live")) {
      page.status = news.status;
      refreshParts();
      return;
    }
    page.status = news.status;
    const made = document.createElement("div");
    made.id = "live";
    made.append(...parse(news.html).body.children);
    replace($("live"), made);
    if ($("said").textContent !== news.said) $("said").textContent = news.said;
    if (settled !== null && settled !== news.settled) refreshParts();
    settled = news.settled;
    prepare();
  }

  function say(state) {
    $("link-state").textContent = state === "lost" ? "The server does not answer. Trying again." : "";
  }

  // --- the list ---

  function showFiltered(address) {
    history.replaceState(null, "", address);
    refresh(address, "runs", prepare);
  }

  function prepareList() {
    const filter = $("filter");
    if (!filter) return;
    let timer = 0;
    const show = () => {
      const chosen = [...new FormData(filter)].filter(([, value]) => value !== "");
      showFiltered("/?" + new URLSearchParams(chosen));
    };
    filter.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(show, 150); });
    filter.addEventListener("submit", (event) => { event.preventDefault(); show(); });
    filter.classList.add("is-live");
    document.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-swap]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      const query = new URL(link.href).searchParams;
      for (const field of filter.elements) if (field.name) field.value = query.get(field.name) ?? "";
      showFiltered(link.getAttribute("href"));
    });
    document.addEventListener("change", (event) => { if (event.target.name === "run") pick(event.target); });
  }

  // Two runs are compared: a third choice takes the place of the first.
  const picked = [];
  function pick(box) {
    const at = picked.indexOf(box.value);
    if (at >= 0) picked.splice(at, 1);
    if (box.checked) picked.push(box.value);
    if (picked.length > 2) picked.shift();
    prepare();
  }

  // --- what a new or replaced part needs ---

  function prepare() {
    for (const box of document.querySelectorAll("input[name=run]")) box.checked = picked.includes(box.value);
    const button = $("compare-button");
    if (button) {
      button.disabled = picked.length !== 2;
      button.textContent = picked.length === 1 ? "Compare with one more" : "Compare two";
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText($(button.dataset.copy).textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren($(button.dataset.copy));
      button.textContent = "Selected";
    }
  });

  // --- theme ---

  function prepareTheme() {
    const button = $("theme");
    const names = ["automatic", "light", "dark"];
    const show = () => { button.textContent = "theme: " + (document.documentElement.dataset.theme || names[0]); };
    button.addEventListener("click", () => {
      const next = names[(names.indexOf(document.documentElement.dataset.theme || names[0]) + 1) % names.length];
      if (next === names[0]) {
        delete document.documentElement.dataset.theme;
        localStorage.removeItem("theme");
      } else {
        document.documentElement.dataset.theme = next;
        localStorage.setItem("theme", next);
      }
      show();
    });
    button.hidden = false;
    show();
  }

  // --- rows that differ ---

  function prepareDiffering() {
    const filters = document.querySelector("[data-table=differing]");
    if (!filters) return;
    const rows = [...$("differing").tBodies[0].rows];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const [find, winner, found] = ["[data-find]", "[data-winner]", ".found"].map((s) => filters.querySelector(s));
    const show = () => {
      const text = find.value.trim().toLowerCase();
      let count = 0;
      rows.forEach((row, i) => {
        row.hidden = !texts[i].includes(text) || (winner.value !== "" && row.dataset.winner !== winner.value);
        count += !row.hidden;
      });
      found.textContent = `${count} of ${rows.length}`;
    };
    filters.hidden = false;
    filters.addEventListener("input", show);
    show();
  }

  // A node of a drawing leads to a part that may be folded.
  function openTarget() {
    const part = $(location.hash.slice(1));
    if (part?.tagName === "DETAILS") part.open = true;
  }
  addEventListener("hashchange", openTarget);

  openTarget();
  prepareTheme();
  prepareList();
  prepareDiffering();
  prepare();
  if (page.after) News.follow(page.after, take, say);
})();
