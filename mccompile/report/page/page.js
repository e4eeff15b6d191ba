"use strict";
(() => {
  const all = (what, of = document) => [...of.querySelectorAll(what)];
  const make = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // Light or dark: as the system has it, until the button says otherwise.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.getElementById("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  });

  // Tips: a <title> shows by itself without scripts; here it is one box, which also lights what belongs to its step.
  const tip = document.getElementById("tip");
  for (const title of all("svg title")) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  let lit = [];
  const unlight = () => {
    for (const one of lit) one.classList.remove("lit");
    lit = [];
  };
  document.addEventListener("pointerover", (event) => {
    const at = event.target.closest("[data-tip], [data-step]");
    unlight();
    tip.style.display = "none";
    if (!at) return;
    const model = at.closest("section.model");
    if (at.dataset.step && model) {
      lit = all(`[data-step="${at.dataset.step}"]`, model);
      for (const one of lit) one.classList.add("lit");
    }
    if (at.dataset.tip) {
      tip.textContent = at.dataset.tip;
      tip.style.display = "block";
    }
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.style.display !== "block") return;
    const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
    const low = event.clientY + 18 + tip.offsetHeight > innerHeight;
    tip.style.left = `${right ? Math.max(event.clientX - tip.offsetWidth - 12, 4) : event.clientX + 16}px`;
    tip.style.top = `${low ? Math.max(event.clientY - tip.offsetHeight - 10, 4) : event.clientY + 18}px`;
  });

  // Tables: sorted by a click on a head, numbers by their value; rows by the words of a search.
  for (const head of all("th.sorts")) {
    head.tabIndex = 0;
    const sort = () => {
      const table = head.closest("table");
      const column = [...head.parentNode.children].indexOf(head);
      const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && head.classList.contains("left"));
      for (const other of all("th", table)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.children[column];
        return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
      };
      const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      const rows = [...table.tBodies[0].rows].sort((a, b) => (up ? 1 : -1) * order(key(a), key(b)));
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  }
  for (const field of all("input.filter")) {
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of document.getElementById(field.dataset.of).tBodies[0].rows) {
        const text = `${row.textContent} ${row.dataset.words}`.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }

  // A closer look: a range of steps that is drawn over fills the timeline, all pictures of it together.
  for (const line of all(".timeline")) {
    const steps = Number(line.dataset.steps);
    const fields = all(".field", line);
    const reset = line.querySelector(".reset");
    const show = (first, last) => {
      const some = Math.max(last - first, 1);
      line.classList.toggle("dense", some > 300);
      reset.hidden = first <= 0 && last >= steps;
      for (const field of fields) {
        const box = field.viewBox.baseVal;
        field.setAttribute("viewBox", `${first} 0 ${some} ${box.height}`);
        const wide = Number(field.getAttribute("width")) / some;
        const labels = field.parentNode.querySelector(".labels");
        if (labels) {
          labels.replaceChildren();
          const high = Number(field.getAttribute("height")) / box.height;
          const placed = [];
          for (const rect of all("rect[data-name]", field)) {
            const x = rect.x.baseVal.value, width = rect.width.baseVal.value;
            const from = Math.max((x - first) * wide, 0);
            const room = Math.floor((Math.min((x + width - first) * wide, some * wide) - from - 8) / 5.8);
            if (room < 4 || rect.height.baseVal.value * high < 13) continue;
            const parts = rect.dataset.name.split(";")[0].split("/");
            let name = parts.pop();
            while (parts.length && parts.at(-1).length + 1 + name.length <= room) name = `${parts.pop()}/${name}`;
            const left = from + 4, y = rect.y.baseVal.value * high + 11;
            const text = make("text", { x: left, y });
            const tail = Math.floor((room - 1) / 2);
            text.textContent = name.length <= room ? name : `${name.slice(0, room - 1 - tail)}…${name.slice(-tail)}`;
            const right = left + text.textContent.length * 5.8;
            if (placed.some((p) => Math.abs(p.y - y) < 11 && left < p.right && p.left < right)) continue;
            placed.push({ left, right, y });
            labels.append(text);
          }
        }
        const marks = field.parentNode.querySelector(".columns");
        marks.replaceChildren();
        let every = 1;
        for (const factor of [2, 5, 10, 20, 50, 100, 200, 500, 1000]) if (some / every > 16) every = factor;
        for (let step = Math.ceil(first / every) * every; step < last; step += every) {
          const mark = make("text", { x: (step + 0.5 - first) * wide, y: 0, "text-anchor": "middle", class: "soft" });
          mark.textContent = step;
          marks.append(mark);
        }
      }
    };
    let begin = null;
    const brushes = fields.map((field) => {
      const brush = make("rect", { class: "brush", y: 0, height: field.viewBox.baseVal.height, width: 0, x: 0 });
      field.append(brush);
      return brush;
    });
    const at = (event) => {
      const box = fields[0].getBoundingClientRect(), view = fields[0].viewBox.baseVal;
      const x = view.x + ((event.clientX - box.left) / box.width) * view.width;
      return Math.min(Math.max(x, 0), steps);
    };
    const brush = (from, to) => {
      for (const one of brushes) {
        one.setAttribute("x", Math.min(from, to));
        one.setAttribute("width", Math.abs(to - from));
      }
    };
    line.addEventListener("pointerdown", (event) => { if (event.target.closest(".field")) begin = at(event); });
    addEventListener("pointermove", (event) => { if (begin !== null) brush(begin, at(event)); });
    addEventListener("pointerup", (event) => {
      if (begin === null) return;
      const end = at(event), first = Math.floor(Math.min(begin, end)), last = Math.ceil(Math.max(begin, end));
      if (Math.abs(end - begin) > fields[0].viewBox.baseVal.width / 60 && last > first) show(first, last);
      begin = null;
      brush(0, 0);
    });
    reset.addEventListener("click", () => show(0, steps));
  }

  addEventListener("beforeprint", () => { for (const one of all("details")) one.open = true; });
})();
