/* What a page gains from a script: the table of rows (filter, search, sort, thousands of rows), keys on the
   plot, filters on other tables. Texts go in as text nodes only: nothing of a model or a dataset is read as
   markup. */
(function () {
  "use strict";

  const BATCH = 40; // rows that are added at once: about two screens
  const LONG = 240; // characters after which a text is folded
  const EARLIER = 3; // turns of a conversation that are shown, the last ones; the others are folded
  const [STATE, EXPECTED, BEFORE, BEFORE_MARK, AFTER, AFTER_MARK, INPUT, REASON, TURNS] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const MARKS = ["right", "wrong", "unread", "lost"];
  const TAGS = ["", "✗", "unread", "no answer"];
  const ORDER = ["broken", "fixed", "lost", "wrong", "right"];

  function make(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // --- the table of rows ---

  class Rows {
    constructor(root, data) {
      this.root = root;
      this.all = data.rows;
      this.hasBefore = data.hasBefore;
      this.search = ""; this.filter = "all"; this.label = "";
      this.sort = null; this.isDown = false;
      this.body = root.querySelector(".rows-table tbody");
      this.found = root.querySelector(".found");
      this.scroller = root.querySelector(".tall");
      this.haystack = null;
      this.listen();
      root.querySelector(".filters").hidden = false;
      this.update();
    }

    listen() {
      const filters = this.root.querySelector(".filters");
      filters.querySelectorAll("[data-filter]").forEach((button) => button.addEventListener("click", () => {
        this.filter = button.dataset.filter;
        filters.querySelectorAll("[data-filter]").forEach(
          (other) => other.setAttribute("aria-pressed", String(other === button)));
        this.update();
      }));
      const label = filters.querySelector("[data-label]");
      if (label) label.addEventListener("change", () => { this.label = label.value; this.update(); });
      const search = filters.querySelector("[data-search]");
      search.addEventListener("input", () => { this.search = search.value.trim().toLowerCase(); this.update(); });
      this.root.querySelectorAll("th[data-sort]").forEach((head) => {
        const button = make("button", "", head.textContent);
        button.type = "button";
        head.replaceChildren(button);
        button.addEventListener("click", () => this.sortBy(head));
      });
      this.scroller.addEventListener("scroll", () => this.fill(), { passive: true });
      this.body.addEventListener("click", (event) => {
        if (!(event.target instanceof HTMLButtonElement)) return;
        if (event.target.turns) this.unfoldChat(event.target);
        else this.unfold(event.target);
      });
    }

    sortBy(head) {
      this.isDown = this.sort === head.dataset.sort && !this.isDown;
      this.sort = head.dataset.sort;
      this.root.querySelectorAll("th[data-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
      this.update();
    }

    keeps(row, number) {
      if (this.label && row[EXPECTED] !== this.label) return false;
      const mark = row[AFTER_MARK];
      switch (this.filter) {
        case "fixed": case "broken": if (row[STATE] !== this.filter) return false; break;
        case "wrong": if (mark === 0) return false; break;
        case "unparsed": if (mark < 2) return false; break;
      }
      return !this.search || this.texts()[number].includes(this.search);
    }

    texts() {
      if (!this.haystack) {
        this.haystack = this.all.map((row) =>
          `${row[INPUT]}\n${(row[TURNS] || []).map((turn) => turn[1]).join("\n")}\n${row[EXPECTED]}\n${row[BEFORE]}\n${row[AFTER]}\n${row[STATE]}`.toLowerCase());
      }
      return this.haystack;
    }

    update() {
      this.shown = [];
      this.all.forEach((row, number) => { if (this.keeps(row, number)) this.shown.push(row); });
      this.order();
      this.next = 0;
      this.body.replaceChildren();
      this.scroller.scrollTop = 0;
      this.fill();
      const count = this.shown.length.toLocaleString("en");
      this.found.textContent = this.shown.length === 1 ? "1 row" : `${count} rows`;
    }

    order() {
      if (!this.sort) return;
      const place = { state: STATE, expected: EXPECTED, before: BEFORE, after: AFTER, input: INPUT }[this.sort];
      const turn = this.isDown ? -1 : 1;
      const plain = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
      const compare = place === STATE
        ? (a, b) => ORDER.indexOf(a[STATE]) - ORDER.indexOf(b[STATE])
        : (a, b) => plain.compare(a[place].slice(0, 100), b[place].slice(0, 100));
      this.shown.sort((a, b) => turn * compare(a, b));
    }

    // Rows are made when they come into sight: 5,000 at once would take a second.
    fill() {
      const room = () => this.scroller.scrollHeight - this.scroller.scrollTop < 2.5 * this.scroller.clientHeight + 200;
      while (this.next < this.shown.length && (this.next === 0 || room())) {
        const part = document.createDocumentFragment();
        this.shown.slice(this.next, this.next + BATCH).forEach((row) => part.append(this.line(row)));
        this.next += BATCH;
        this.body.append(part);
      }
    }

    showAll() {
      while (this.next < this.shown.length) {
        const part = document.createDocumentFragment();
        this.shown.slice(this.next, this.next + 1000).forEach((row) => part.append(this.line(row)));
        this.next += 1000;
        this.body.append(part);
      }
    }

    line(row) {
      const line = make("tr");
      line.setAttribute("role", "row");
      line.append(this.cell(`state ${row[STATE]}`, document.createTextNode(row[STATE])));
      line.append(this.cell("expected", this.text(row[EXPECTED])));
      if (this.hasBefore) line.append(this.answer("before", row[BEFORE], row[BEFORE_MARK], ""));
      line.append(this.answer("after", row[AFTER], row[AFTER_MARK], row[AFTER_MARK] ? row[REASON] : ""));
      line.append(this.cell("wide-text", row[TURNS] ? this.chat(row[TURNS], EARLIER) : this.text(row[INPUT])));
      return line;
    }

    cell(className, ...content) {
      const cell = make("td", className);
      cell.setAttribute("role", "cell");
      cell.append(...content);
      return cell;
    }

    answer(className, value, mark, reason) {
      if (mark === null) return this.cell(className, make("span", "quiet", "–"));
      const text = this.text(value, `answer ${MARKS[mark]}`);
      if (mark) text.prepend(this.tag(mark), " ");
      return this.cell(className, text, ...(reason ? [make("span", "reason", reason)] : []));
    }

    tag(mark) {
      const tag = make("span", mark === 1 ? "cross" : "tag", TAGS[mark]);
      if (mark === 1) { tag.setAttribute("role", "img"); tag.setAttribute("aria-label", "wrong"); }
      return tag;
    }

    text(value, className) {
      const made = make("bdi", className);
      made.append(...this.marked(value.length > LONG ? value.slice(0, LONG) : value));
      if (value.length > LONG) {
        const more = make("button", "more", "more");
        more.type = "button";
        more.setAttribute("aria-expanded", "false");
        more.whole = value;
        made.append("…", more);
      }
      return made;
    }

    chat(turns, most) {
      const made = make("ol", "chat");
      const hidden = this.search ? 0 : Math.max(0, turns.length - most);
      if (hidden) {
        const item = make("li", "earlier");
        const more = make("button", "more", hidden === 1 ? "1 earlier turn" : `${hidden} earlier turns`);
        more.type = "button";
        more.turns = turns;
        item.append(more);
        made.append(item);
      }
      turns.slice(hidden).forEach(([role, said]) => {
        const item = make("li", role);
        item.append(make("span", "who", role), " ", this.text(said));
        made.append(item);
      });
      return made;
    }

    unfoldChat(button) {
      const whole = this.chat(button.turns, button.turns.length);
      whole.tabIndex = -1;
      button.closest(".chat").replaceWith(whole);
      whole.focus();
    }

    marked(value) {
      if (!this.search) return [value];
      const parts = [];
      const lower = value.toLowerCase();
      // Some letters change their number of characters in lower case: then no place can be trusted.
      if (lower.length !== value.length) return [value];
      let from = 0;
      for (let at = lower.indexOf(this.search); at >= 0; at = lower.indexOf(this.search, from)) {
        parts.push(value.slice(from, at), make("mark", "", value.slice(at, at + this.search.length)));
        from = at + this.search.length;
      }
      parts.push(value.slice(from));
      return parts;
    }

    unfold(button) {
      const isOpen = button.getAttribute("aria-expanded") === "true";
      const text = button.parentNode;
      const tag = text.querySelector(":scope > .tag, :scope > .cross");
      text.replaceChildren(...this.marked(isOpen ? button.whole.slice(0, LONG) : button.whole));
      if (tag) text.prepend(tag, " ");
      button.textContent = isOpen ? "more" : "less";
      button.setAttribute("aria-expanded", String(!isOpen));
      text.append(isOpen ? "…" : " ", button);
      button.focus();
    }
  }

  function startRows(root) {
    root.querySelectorAll(".rows-data").forEach((data) => {
      const part = data.closest(".rows");
      if (part.rowsTable) return;
      part.rowsTable = new Rows(part, JSON.parse(data.textContent));
    });
  }

  // --- the plot: arrow keys go from candidate to candidate ---

  function startPlot(figure) {
    if (figure.hasKeys) return;
    figure.hasKeys = true;
    const readout = figure.querySelector(".readout");
    readout.hidden = false;
    readout.textContent = "Select a candidate, with the arrow keys or a click, to see the command that exports it.";
    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", "Candidates; arrow keys walk along them");
    const points = () => {
      const drawing = [...figure.querySelectorAll("svg")].find((svg) => svg.clientWidth > 0);
      const found = drawing ? [...drawing.querySelectorAll(".point")] : [];
      return found.sort((a, b) => a.cx.baseVal.value - b.cx.baseVal.value || b.cy.baseVal.value - a.cy.baseVal.value);
    };
    const show = (point) => {
      figure.querySelectorAll(".current").forEach((other) => other.classList.remove("current"));
      point.classList.add("current");
      readout.textContent = point.querySelector("title").textContent;
      readout.classList.add("is-telling");
    };
    const chosen = figure.querySelector(".chosen");
    const choose = (point) => {
      show(point);
      chosen.querySelector("code").textContent = point.dataset.command;
      chosen.hidden = false;
    };
    const distance = (point, event) => {
      const box = point.getBoundingClientRect();
      return Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
    };
    figure.addEventListener("click", (event) => {
      if (!event.target.closest("svg")) return;
      // A finger is wider than a mark: what is nearest is meant.
      const [near] = points().sort((a, b) => distance(a, event) - distance(b, event));
      if (near && distance(near, event) < 24) choose(near);
    });
    figure.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      if (event.target !== figure || !(event.key in steps || event.key === "Home" || event.key === "End")) return;
      const all = points();
      if (!all.length) return;
      event.preventDefault();
      const now = all.findIndex((point) => point.classList.contains("current"));
      const next = event.key === "Home" ? 0 : event.key === "End" ? all.length - 1
        : Math.min(all.length - 1, Math.max(0, now + steps[event.key]));
      choose(all[next]);
    });
    figure.addEventListener("pointerover", (event) => {
      if (event.target.classList.contains("point")) show(event.target);
    });
  }

  // --- other tables: sorted by any column ---

  function startSorting(table) {
    if (table.hasSorting) return;
    table.hasSorting = true;
    const heads = [...table.querySelectorAll("thead th")];
    const plain = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
    const value = (line, place) => {
      const text = (line.cells[place] ? line.cells[place].textContent : "").trim();
      const number = parseFloat(text.replace(/[,$+]/g, "").replace("\u2212", "-"));
      return { text, number: Number.isNaN(number) ? -Infinity : number };
    };
    heads.forEach((head, place) => {
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const isDown = head.getAttribute("aria-sort") !== "descending" && !head.classList.contains("word");
        const turn = isDown || head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", turn < 0 ? "descending" : "ascending");
        const isText = head.classList.contains("word");
        const lines = [...table.tBodies[0].rows].map((line) => ({ line, key: value(line, place) }));
        lines.sort((a, b) => turn * (isText ? plain.compare(a.key.text, b.key.text) : a.key.number - b.key.number));
        table.tBodies[0].append(...lines.map((item) => item.line));
      });
    });
  }

  // A text that is struck out is no part of what is copied. Without a clipboard the text is selected.
  function startCopying(box) {
    if (box.hasCopying) return;
    box.hasCopying = true;
    const button = make("button", "copy", "Copy");
    button.type = "button";
    box.after(button);
    button.addEventListener("click", async () => {
      const copy = box.cloneNode(true);
      copy.querySelectorAll("del").forEach((gone) => gone.remove());
      try {
        await navigator.clipboard.writeText(copy.textContent);
        button.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(box);
        button.textContent = "Selected: copy it with Ctrl+C";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2500);
    });
  }

  function start(root) {
    startRows(root);
    root.querySelectorAll("[data-copyable]").forEach(startCopying);
    root.querySelectorAll(".sortable").forEach(startSorting);
    root.querySelectorAll(".plot-figure").forEach((figure) => { if (figure.querySelector(".point")) startPlot(figure); });
  }

  window.Report = { start };
  // Paper has no scrolling: what is filtered is printed whole.
  window.addEventListener("beforeprint", () =>
    document.querySelectorAll(".rows").forEach((part) => { if (part.rowsTable) part.rowsTable.showAll(); }));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => start(document));
  else start(document);
})();
