"use strict";
// A page on which a person ranks maps without knowing whose they are. Slices and maps come from the
// element "rows"; the order of the maps was shuffled when the page was made. Nothing leaves the
// page but the two files that the person saves.
(() => {
  const data = JSON.parse(document.getElementById("rows").textContent);
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const at = (id) => document.getElementById(id);
  const picks = data.slices.map(() => []); // of every slice: indices of maps, the best first
  let current = 0;

  function picture(parent, sources) {
    const layers = document.createElement("span");
    layers.className = "layers";
    for (const source of sources) {
      const image = document.createElement("img");
      image.src = source;
      image.alt = "";
      layers.append(image);
    }
    parent.append(layers);
  }

  function show() {
    const slice = data.slices[current];
    at("content-title").textContent = `Slice ${current + 1} of ${data.slices.length}`;
    at("slice").replaceChildren();
    picture(at("slice"), [slice.image, slice.truth]);
    const cards = at("cards");
    cards.replaceChildren();
    slice.maps.forEach((map, k) => {
      const card = document.createElement("button");
      card.type = "button";
      card.className = "card";
      const head = document.createElement("b");
      head.append(`Map ${LETTERS[k]}`, document.createElement("span"));
      card.append(head);
      picture(card, [slice.image, map.shade]);
      card.addEventListener("click", () => toggle(k));
      cards.append(card);
    });
    mark();
  }

  function mark() {
    const own = picks[current];
    [...at("cards").children].forEach((card, k) => {
      const place = own.indexOf(k) + 1;
      card.querySelector("b span").textContent = place ? String(place) : "";
      card.setAttribute("aria-pressed", place ? "true" : "false");
      card.setAttribute("aria-label", `Map ${LETTERS[k]}${place ? `, rank ${place}` : ", no rank"}`);
    });
    const n = data.slices[current].maps.length;
    const rest = n - own.length;
    let words = `${own.length} of ${n} maps ranked; the other ${rest} share the last place.`;
    if (!own.length) words = "Nothing ranked yet: this slice does not count.";
    if (!rest) words = "All maps are ranked.";
    at("state").textContent = words;
    at("back").disabled = current === 0;
    at("undo").disabled = !own.length;
    at("next").textContent = current + 1 < data.slices.length ? "Next slice (Enter)" : "Finish (Enter)";
  }

  function toggle(k) {
    const own = picks[current];
    const place = own.indexOf(k);
    if (place < 0) own.push(k);
    else own.splice(place, 1);
    mark();
  }

  function undo() {
    picks[current].pop();
    mark();
  }

  function go(step) {
    if (current + step >= data.slices.length) return finish();
    current = Math.max(0, current + step);
    show();
  }

  // Maps that were not picked share the mean of the ranks that are left.
  function ranks() {
    const sums = new Map();
    let judged = 0;
    data.slices.forEach((slice, s) => {
      const own = picks[s];
      if (!own.length) return;
      judged += 1;
      const last = (own.length + 1 + slice.maps.length) / 2;
      slice.maps.forEach((map, k) => {
        const place = own.indexOf(k);
        sums.set(map.algorithm, (sums.get(map.algorithm) || 0) + (place < 0 ? last : place + 1));
      });
    });
    const rows = [...sums].map(([name, sum]) => [name, sum / judged]);
    rows.sort((a, b) => a[1] - b[1] || (a[0] < b[0] ? -1 : 1));
    return { judged, rows };
  }

  function finish() {
    const { judged, rows } = ranks();
    at("trial").hidden = true;
    at("end").hidden = false;
    at("judged").textContent = judged
      ? `${judged} of ${data.slices.length} slices were ranked. Save the ranking, then pass it to the study.`
      : "No slice was ranked: go back, and press the letters of maps, the best first.";
    at("save").disabled = at("save-all").disabled = !judged;
    const body = at("ranks");
    body.replaceChildren();
    for (const [name, rank] of rows) {
      const row = body.insertRow();
      row.insertCell().textContent = name;
      row.insertCell().textContent = rank.toFixed(2);
    }
    at("end-title").focus();
  }

  function again() {
    at("trial").hidden = false;
    at("end").hidden = true;
    show();
  }

  function save(name, text, type) {
    const address = URL.createObjectURL(new Blob([text], { type }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    URL.revokeObjectURL(address);
  }

  function csv() {
    const lines = ranks().rows.map(([name, rank]) => `${name},${Number(rank.toFixed(6))}`);
    return ["algorithm,rank", ...lines, ""].join("\n");
  }

  function choices() {
    const slices = data.slices.map((slice, s) => ({
      slice: slice.title,
      order: picks[s].map((k) => slice.maps[k].algorithm),
      shown: slice.maps.map((map) => map.algorithm),
    }));
    return JSON.stringify({ schema: "calipers.ranking/1", archive: data.archive, seed: data.seed, slices }, null, 1);
  }

  at("back").addEventListener("click", () => go(-1));
  at("undo").addEventListener("click", undo);
  at("next").addEventListener("click", () => go(1));
  at("again").addEventListener("click", again);
  at("save").addEventListener("click", () => save("ranking.csv", csv(), "text/csv"));
  at("save-all").addEventListener("click", () => save("ranking.json", choices(), "application/json"));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || at("trial").hidden) return;
    const k = LETTERS.indexOf(event.key.toUpperCase());
    if (event.key.length === 1 && k >= 0 && k < data.slices[current].maps.length) toggle(k);
    else if (event.key === "Backspace") undo();
    else if (event.key === "Enter" && event.target.tagName !== "BUTTON") go(1);
    else if (event.key === "ArrowLeft") go(-1);
    else if (event.key === "ArrowRight") go(1);
    else return;
    event.preventDefault();
  });
  show();
})();
