"use strict";
(() => {
  const root = document.documentElement;
  const field = document.getElementById("search");
  const found = document.getElementById("found");
  const turns = [...document.querySelectorAll(".turn")];
  const texts = new Map();
  const wanted = () => field.value.trim().toLowerCase();

  const textOf = (turn) => {
    if (!texts.has(turn)) texts.set(turn, turn.textContent.toLowerCase());
    return texts.get(turn);
  };

  const ranges = (element, word) => {
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const all = [];
    while (walker.nextNode() && all.length < 2000) {
      const node = walker.currentNode;
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue;
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        all.push(range);
      }
    }
    return all;
  };

  const unfold = (range) => {
    let element = range.startContainer.parentElement;
    while (element) {
      if (element.localName === "details") element.open = true;
      element = element.parentElement;
    }
  };

  let hits = [];
  let current = -1;

  const search = () => {
    const word = wanted();
    hits = [];
    current = -1;
    let shown = 0;
    for (const turn of turns) {
      const has = !word || textOf(turn).includes(word);
      turn.hidden = !has;
      if (has) shown += 1;
      if (has && word && hits.length < 2000) hits.push(...ranges(turn, word));
    }
    hits.forEach(unfold);
    if (typeof Highlight === "function" && CSS.highlights) {
      CSS.highlights.set("found", new Highlight(...hits));
    }
    found.value = word ? `${shown} of ${turns.length} turns` : "";
    root.dataset.found = word ? String(shown) : "";
  };

  const go = (step) => {
    if (!hits.length) return;
    current = (current + step + hits.length) % hits.length;
    hits[current].startContainer.parentElement.scrollIntoView({ block: "center" });
    found.value = `${current + 1} of ${hits.length}`;
  };

  const fold = () => {
    const all = [...document.querySelectorAll(".tool,.thought,.recall")];
    const open = !all.some((each) => each.open);
    all.forEach((each) => { each.open = open; });
    document.getElementById("fold").textContent = open ? "Fold" : "Unfold";
  };

  const theme = () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };

  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let each = target; each; each = each.parentElement) {
      if (each.localName === "details") each.open = true;
      each.hidden = false;
    }
    target.scrollIntoView();
  };

  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  field.form.addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); go(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { field.value = ""; search(); field.blur(); }
  });
  document.getElementById("fold").addEventListener("click", fold);
  document.getElementById("theme").addEventListener("click", theme);
  document.addEventListener("keydown", (event) => {
    if (event.target === field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); field.focus(); }
    if (event.key === "f") fold();
    if (event.key === "t") theme();
  });
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
})();
