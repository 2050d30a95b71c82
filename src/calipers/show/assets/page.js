// SPDX-License-Identifier: Apache-2.0
// What paper cannot do: sort, filter and page through tables, save them as CSV, enlarge pictures.
// Texts are only ever written with textContent; nothing is fetched.
"use strict";
(() => {
  const PAGE = 25;
  const CLOSEST = 40; // times
  const FORMULA = /^'*[=+\-@\t\r\0]/;
  const INVISIBLE = /(?![ \n])[\p{C}\p{Z}]/gu;
  const collator = new Intl.Collator(undefined, { numeric: true });

  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };

  // A spreadsheet must not take a text for a formula; numbers stay numbers.
  const field = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(value);
    const safe = FORMULA.test(value) ? "'" + value : value;
    return /[",\r\n]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };

  const save = (name, text, type) => {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = make("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  };

  // Numbers go before texts.
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === "number" || typeof b === "number") return typeof a === "number" ? -1 : 1;
    return collator.compare(a, b);
  };

  // A table of rows { cells, node() }; pinned rows stay last whatever the order is.
  class Grid {
    constructor(table, columns, rows, file) {
      Object.assign(this, { table, columns, rows, file, body: table.tBodies[0], at: 0, key: -1, down: false, words: "" });
      this.shown = rows;
      this.bar = make("div", { className: "bar" });
      this.count = make("span", { className: "soft", role: "status" });
      this.tools();
      this.headings();
      this.draw();
    }

    tools() {
      const csv = make("button", { type: "button", textContent: "CSV", title: "Save these rows as CSV" });
      csv.addEventListener("click", () => this.csv());
      if (this.rows.length > 8) {
        const filter = make("input", { type: "search", placeholder: "Filter rows" });
        filter.setAttribute("aria-label", "Filter rows of " + this.file);
        filter.addEventListener("input", () => this.filter(filter.value));
        this.bar.append(filter);
      }
      if (this.rows.length > PAGE) {
        this.back = make("button", { type: "button", textContent: "Previous" });
        this.on = make("button", { type: "button", textContent: "Next" });
        this.back.addEventListener("click", () => this.turn(-PAGE));
        this.on.addEventListener("click", () => this.turn(PAGE));
        this.bar.append(this.back, this.on);
      }
      this.bar.append(csv, this.count);
      const frame = this.table.closest(".wide") || this.table;
      let last = frame;
      while (last.nextElementSibling && last.nextElementSibling.matches(".note")) last = last.nextElementSibling;
      if (this.rows.length > 8) frame.before(this.bar);
      else last.after(this.bar);
    }

    headings() {
      [...this.table.tHead.rows[0].cells].forEach((cell, k) => {
        const button = make("button", { type: "button", className: "sort" }, ...cell.childNodes);
        button.addEventListener("click", () => this.sort(k));
        cell.append(button);
      });
    }

    sort(k) {
      this.down = this.key === k ? !this.down : typeof (this.rows.find((r) => r.cells[k] !== null) || { cells: [] }).cells[k] === "number";
      this.key = k;
      [...this.table.tHead.rows[0].cells].forEach((cell, c) => {
        if (c === k) cell.setAttribute("aria-sort", this.down ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      });
      this.arrange();
    }

    filter(words) {
      this.words = words.trim().toLowerCase();
      this.arrange();
    }

    arrange() {
      const wanted = this.words.split(/\s+/).filter(Boolean);
      this.shown = this.rows.filter((row) => wanted.every((word) => row.text().includes(word)));
      if (this.key >= 0) {
        const sign = this.down ? -1 : 1, k = this.key;
        const blank = (row) => row.cells[k] === null || row.cells[k] === "";
        const loose = (a, b) => blank(a) - blank(b) || (blank(a) ? 0 : sign * compare(a.cells[k], b.cells[k]));
        this.shown.sort((a, b) => (a.pinned || b.pinned ? a.pinned - b.pinned : loose(a, b)));
      }
      this.at = 0;
      this.draw();
    }

    turn(step) {
      this.at = Math.max(0, Math.min(this.at + step, this.shown.length - 1));
      this.draw();
    }

    draw(everything = false) {
      const paged = this.rows.length > PAGE && !everything;
      const part = paged ? this.shown.slice(this.at, this.at + PAGE) : this.shown;
      this.body.replaceChildren(...part.map((row) => row.node()));
      const n = this.shown.length;
      const all = this.rows.length + (this.rows.length === 1 ? " row" : " rows");
      const of = n === this.rows.length ? all : n + " of " + all;
      this.count.textContent = paged && n ? `${this.at + 1} to ${Math.min(this.at + PAGE, n)} of ${of}` : of;
      this.bar.classList.toggle("partial", part.length < this.rows.length); // paper says so too
      if (this.back) {
        this.back.disabled = this.at === 0;
        this.on.disabled = this.at + PAGE >= n;
      }
    }

    csv() {
      const lines = [this.columns, ...this.shown.map((row) => row.csv || row.cells)];
      save(this.file + ".csv", lines.map((line) => line.map(field).join(",")).join("\r\n") + "\r\n", "text/csv");
    }
  }

  // What a filter looks through: words, not digits that happen to be in a number.
  const searched = (words) => {
    let text = null;
    return () => (text ??= words.join(" ").toLowerCase());
  };

  // Tables that are already in the page.
  const number = (text) => (text === "" ? null : Number(text));
  const fromCell = (cell) => {
    if (cell.classList.contains("undefined")) return null; // the words say why there is no number
    if (cell.dataset.v !== undefined) return number(cell.dataset.v);
    const text = cell.title || cell.textContent;
    return cell.matches(".num, .n") && !isNaN(text) ? number(text) : text;
  };
  const fromTable = (table) => {
    const heads = [...table.tHead.rows[0].cells], trs = [...table.tBodies[0].rows];
    const wide = heads.map((_, k) => trs.some((tr) => tr.cells[k] && tr.cells[k].dataset.low !== undefined));
    const columns = heads.flatMap((cell, k) => {
      const name = cell.title || cell.textContent;
      return wide[k] ? [name, name + " low", name + " high"] : [name];
    });
    const rows = trs.map((tr) => {
      const cells = [...tr.cells].map(fromCell);
      const csv = [...tr.cells].flatMap((cell, k) =>
        wide[k] ? [cells[k], number(cell.dataset.low || ""), number(cell.dataset.high || "")] : [cells[k]]);
      const words = [...tr.cells].filter((_, k) => typeof cells[k] !== "number").map((cell) => cell.textContent);
      return { cells, csv, pinned: tr.classList.contains("over"), node: () => tr, text: searched(words) };
    });
    return new Grid(table, columns, rows, table.id || table.closest("[id]").id);
  };

  // Signs that are invisible or turn the direction of writing are shown as one that is seen, as in the rest of the page.
  const visible = (value) => (value === null ? "" : String(value).replace(INVISIBLE, "\ufffd"));

  // The table of all rows, which travels as columns of numbers and codes of names.
  const everyRow = (place, data) => {
    const coded = data.columns.map((name) => data.names[name]);
    const n = data.rows[0].length, rows = [];
    // A column of shares shows four digits everywhere, so that its points stand below each other.
    const counts = data.rows.map((column, k) => coded[k] || column.every((value) => value === null || Number.isInteger(value)));
    const digits = (value, k) => (counts[k] || value === null || Math.abs(value) >= 1e4 ? visible(value) : value.toPrecision(4));
    for (let i = 0; i < n; i++) {
      const cells = data.rows.map((column, k) => (coded[k] ? coded[k][column[i]] : column[i]));
      rows.push({
        cells, pinned: false,
        text: searched(cells.filter((_, k) => coded[k])),
        node: () => make("tr", {}, ...cells.map((value, k) =>
          make("td", { className: coded[k] ? "" : "num", textContent: digits(value, k) }))),
      });
    }
    const head = make("tr", {}, ...data.columns.map((name, k) => Object.assign(make("th", { textContent: name }), { scope: "col", className: coded[k] ? "" : "num" })));
    const table = make("table", { id: "all-numbers", className: "grid" },
      make("caption", { textContent: "Every row of the evaluation" }), make("thead", {}, head), make("tbody"));
    const frame = make("div", { className: "wide", tabIndex: 0 }, table);
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "Every row of the evaluation");
    place.append(frame);
    return new Grid(table, data.columns, rows, "all-numbers");
  };

  // Pictures: enlarge one, zoom with wheel or + and -, move with arrows or by dragging.
  class Viewer {
    constructor() {
      this.stage = make("div", { className: "stage" });
      this.words = make("p", { className: "soft" });
      const close = make("button", { type: "button", textContent: "Close" });
      const buttons = [["Zoom in", "+", 0.8], ["Zoom out", "-", 1.25]].map(([name, key, factor]) => {
        const button = make("button", { type: "button", textContent: name, title: "Key: " + key });
        button.addEventListener("click", () => this.zoom(factor));
        return button;
      });
      const bar = make("div", { className: "bar" }, ...buttons, close, this.words);
      this.dialog = make("dialog", { className: "viewer" }, bar, this.stage);
      this.dialog.setAttribute("aria-label", "Enlarged picture");
      close.addEventListener("click", () => this.dialog.close());
      this.dialog.addEventListener("close", () => this.opener.focus());
      this.dialog.addEventListener("keydown", (event) => this.keyed(event));
      this.stage.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
      this.dragging();
      document.querySelector("#images").append(this.dialog);
    }

    dragging() {
      let from = null;
      this.stage.addEventListener("pointerdown", (event) => {
        if (!event.isPrimary || event.button !== 0) return;
        from = this.point(event);
        this.stage.setPointerCapture(event.pointerId);
      });
      this.stage.addEventListener("pointermove", (event) => {
        if (!from || !event.isPrimary) return;
        const at = this.point(event);
        this.move(from.x - at.x, from.y - at.y); // the same point of the picture stays under the pointer
      });
      this.stage.addEventListener("lostpointercapture", () => { from = null; });
    }

    // Where the pointer is, in pixels of the picture.
    point(event) {
      return new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    }

    wheeled(event) {
      event.preventDefault();
      if (event.deltaY) this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, this.point(event));
    }

    open(svg, opener) {
      this.opener = opener;
      const copy = svg.cloneNode(true), title = copy.querySelector("title");
      copy.querySelectorAll("[id]").forEach((node) => node.removeAttribute("id"));
      ["id", "aria-labelledby", "width", "height"].forEach((name) => copy.removeAttribute(name));
      copy.setAttribute("aria-label", title ? title.textContent : "picture");
      this.words.textContent = title ? title.textContent : "";
      this.whole = svg.getAttribute("viewBox").split(/\s+/).map(Number);
      this.box = [...this.whole];
      this.svg = copy;
      this.stage.replaceChildren(copy);
      this.dialog.showModal();
    }

    // The point that stays where it is: the middle if none is given.
    zoom(factor, point) {
      const [x, y, w, h] = this.box, [, , whole, high] = this.whole;
      const width = Math.max(whole / CLOSEST, Math.min(whole, w * factor)), height = (high * width) / whole;
      const still = point || { x: x + w / 2, y: y + h / 2 };
      this.box = [still.x - ((still.x - x) * width) / w, still.y - ((still.y - y) * height) / h, width, height];
      this.move(0, 0);
    }

    move(dx, dy) {
      const [x0, y0, w0, h0] = this.whole, [x, y, w, h] = this.box;
      this.box = [Math.max(x0, Math.min(x + dx, x0 + w0 - w)), Math.max(y0, Math.min(y + dy, y0 + h0 - h)), w, h];
      this.svg.setAttribute("viewBox", this.box.join(" "));
    }

    keyed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return; // these belong to the browser
      const step = this.box[2] / 10;
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (event.key === "+" || event.key === "=") this.zoom(0.8);
      else if (event.key === "-") this.zoom(1.25);
      else if (moves[event.key]) this.move(...moves[event.key]);
      else return;
      event.preventDefault();
    }
  }

  const pictures = () => {
    const section = document.querySelector("#images");
    if (!section) return;
    const viewer = new Viewer();
    section.querySelectorAll(".shot").forEach((shot) => {
      const svg = shot.querySelector("svg"), title = svg.querySelector("title");
      const button = make("button", { type: "button", className: "enlarge", textContent: "\u2922" });
      button.setAttribute("aria-label", "Enlarge " + (title ? title.textContent : "picture"));
      shot.addEventListener("click", () => viewer.open(svg, button));
      shot.append(button);
    });
    if (!section.querySelector(".store")) return;
    const bar = section.querySelector(".switches");
    for (const name of ["brightness", "contrast"]) {
      const slider = make("input", { type: "range", min: "0.3", max: "3", step: "0.05", value: "1" });
      slider.addEventListener("input", () => section.style.setProperty("--" + name, slider.value));
      bar.append(make("label", {}, name + " ", slider));
    }
  };

  const methods = () => {
    const words = document.querySelector("#methods-text");
    if (!words || !navigator.clipboard) return;
    const list = document.querySelector(".citations");
    const button = make("button", { type: "button", textContent: "Copy text and citations" });
    button.addEventListener("click", async () => {
      const cited = [...list.children].map((item, k) => `${k + 1}. ${item.textContent}`).join("\n");
      try {
        await navigator.clipboard.writeText(words.textContent + "\n\n" + cited);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(words);
        button.textContent = "Not allowed to copy: the text is selected";
      }
    });
    list.after(button);
  };

  const inflated = async (text) => {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };
  const allNumbers = async (place) => {
    try {
      const packed = JSON.parse(document.querySelector("#rows").textContent).deflate;
      grids.push(everyRow(place, JSON.parse(await inflated(packed))));
    } catch {
      place.textContent = "This browser cannot unpack the rows; they are in evaluation.json.";
    }
  };

  const grids = [...document.querySelectorAll("table.grid, table.sheet")].map(fromTable);
  const place = document.querySelector("#every-row");
  if (place) allNumbers(place);
  pictures();
  methods();
  // Paper has no pages to turn: tables of a bearable length are printed whole.
  addEventListener("beforeprint", () => grids.forEach((grid) => grid.rows.length <= 200 && grid.draw(true)));
  addEventListener("afterprint", () => grids.forEach((grid) => grid.draw()));
})();
