"use strict";
// What comes from a session is drawn as text. Only `html` of an answer is markup: the server made it
// from Markdown in which nothing else can become markup, and the page's policy runs no script in it.
const $ = (id) => document.getElementById(id);
const talk = $("talk");
const SURE = 4000; // milliseconds within which a second Escape stops a turn that waits
const GRACE = 1000; // milliseconds for which a question must have been in view
const HELD = 500; // milliseconds in which a second click or key goes with the first
const DRAG = 6; // pixels that a hand moves in a click
const ROOM = 2000; // milliseconds after which what is sent gets the connection of another stream
const PATIENCE = 5000; // milliseconds after which it is given up
const CROWDED = " If many windows of this page are open in this browser, close one.";
const GONE = "MindStone does not answer. Start it again with `mindstone serve`; this page goes on by itself then.";
const ELSEWHERE = "That question is over: nothing was decided here or sent.";
const TAKEN = "That question is over: nothing is sent.";
const TORN = "That question is over, and its reason stands here: nothing is sent.";
const EARLY = "Your click on an answer came too early: nothing is decided or sent.";
let unmeant = ""; // why the next Enter sends nothing: what it ends was begun as something else
let letter = 0, focused = 0, early = false; // when one was last written, and a button got the focus; whether its key came with that
let written = 0; // when the first letter of what stands there was written: a command means nothing that came later
let back = 0; // when the window last got the focus: the click or key that led here was meant for nothing on it
const away = () => !document.hasFocus() || Date.now() - back < GRACE;
window.addEventListener("focus", () => { back = Date.now(); look(); });
const kept = JSON.parse(sessionStorage.getItem("kept") || "{}"); // of this tab, before it was loaded again
let reasons = kept.reasons || {}, drafts = kept.drafts || {}; // what was written to open questions, and in each session
// What stood half-written in a tab that was closed goes on in the next one that shows its session, once.
const left = () => JSON.parse(localStorage.getItem("left") || "{}");
function leave(name, draft) {
  const every = left();
  if (draft) every[name] = draft; else delete every[name];
  localStorage.setItem("left", JSON.stringify(every));
}
let escaped = 0, opened = 0, turned = 0, begun = Promise.resolve(); // when what an Escape means last changed, and a turn began; once the page listens
let token = "", session = "", stream = null, answer = null, thought = null, tools = {}, asks = {};
let turn = 0, decided = {}, wanted = {}; // the newest turn, what was decided in it and what was asked about, by call
let notes = {}; // the lines that say how calls were decided, until the calls stand above them
let names = {}, taken = ""; // tools whose question is open, by call; the queued message that is wanted back

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}
// While MindStone does not, anybody may listen on this port: whoever is sent the token must know it already.
// As long as a window hears it, it is the one that proved it.
let proven = false;
async function prove(signal) {
  if (proven) return;
  const nonce = crypto.randomUUID(), bytes = (text) => new TextEncoder().encode(text);
  const reply = await fetch("/proof?" + nonce, { signal }).catch(() => { throw Object.assign(new Error(GONE), { unheard: true }); });
  const key = await crypto.subtle.importKey("raw", bytes(token || " "), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const own = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes(location.host + " " + nonce)));
  const known = Array.from(own, (one) => one.toString(16).padStart(2, "0")).join("");
  if (await reply.text() !== known) { gate(); throw new Error("The token is missing or wrong."); }
  proven = true;
}
async function call(path, body, signal) {
  await prove(signal);
  const options = { headers: { authorization: "Bearer " + token }, signal };
  if (body) { options.method = "POST"; options.body = JSON.stringify(body); }
  const reply = await fetch(path, options).catch(() => { proven = proven && Boolean(signal && signal.aborted); throw Object.assign(new Error(GONE), { unheard: true }); });
  if (reply.status === 401) { gate(); throw new Error("The token is missing or wrong."); }
  const told = await reply.json();
  if (!reply.ok) throw new Error(told.error ? told.error.message : "It failed.");
  return told;
}
// A browser has six connections to one address, and each window listens on one: the rest would wait in
// a queue and be carried out when a window is closed. Whoever waits asks hidden windows for theirs.
const windows = new BroadcastChannel("mindstone");
let dozes = false, numbered = 0;
const HERE = Date.now().toString(36) + Math.random().toString(36).slice(2);
windows.onmessage = () => { if (document.hidden && stream && session) { dozes = true; stream.abort(); } };
document.addEventListener("visibilitychange", () => { if (!document.hidden && dozes) attempt(open(session)); });
const room = () => windows.postMessage("room");
// What a person decides or says arrives within seconds or never. What was given up and is not done yet,
// the server does not do any more; it says which of the two it is.
async function post(path, body, lost, own = new AbortController()) {
  const heard = stream;
  body.once = HERE + "-" + numbered++;
  const clocks = [setTimeout(() => { room(); heard.abort(); }, ROOM), setTimeout(() => own.abort(), PATIENCE)];
  try {
    await begun;
    return await call(path, body, own.signal);
  } catch (error) {
    if (own.signal.reason === "replaced") return new Promise(() => {});
    if (!error.unheard) throw error;
    const asked = { session: body.session, instead: body.once };
    const told = await call("/page/became", asked, AbortSignal.timeout(PATIENCE)).catch(() => ({ unknown: true }));
    if (told.done) return told;
    throw Object.assign(new Error(told.unknown ? GONE + " Look then whether it arrived." : lost + CROWDED), { lost: true });
  } finally {
    clocks.forEach(clearTimeout);
    if (heard.signal.aborted && heard === stream && !dozes) again(body.session, heard, 0);
  }
}
function say(text, tone) { return add(make("div", "note " + (tone || ""), text)); }
const attempt = (work) => work.catch((error) => say(error.message, error.lost ? "error lost" : "error"));
function atEnd() { return talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80; }
function add(node, item) {
  const follow = atEnd();
  if (item && item.line !== undefined) node.dataset.line = item.line;
  // What waits for its turn stays below what happens until then.
  talk.insertBefore(node, node.dataset.queued ? null : talk.querySelector(".queued"));
  if (follow) talk.scrollTop = talk.scrollHeight;
  return node;
}
// How a line stands, in words: rewound by #57, interrupted, imported from codex …
function mark(node, item) {
  for (const words of item.marks || []) node.append(make("small", "", words));
  if ((item.marks || []).some((words) => words.startsWith("rewound"))) node.classList.add("rewound");
}
function busy(on) {
  if (on && $("stop").hidden) turned = Date.now();
  $("stop").hidden = !on; $("send").textContent = on ? "Queue" : "Send";
}

const draw = {
  user(item) {
    const node = make("div", "user", item.text);
    if (item.channel && !["web", "import"].includes(item.channel)) node.append(make("small", "", "via " + item.channel));
    mark(node, item);
    if (item.turn !== turn) { tools = {}; notes = {}; } // some models name every call alike
    if (item.queued) draw.withdrawn({ queued: item.queued });
    add(node, item); answer = thought = null; turn = item.turn; decided = {};
    busy(true);
  },
  delta(item) {
    const follow = atEnd();
    if (!answer) answer = add(make("div", "answer flow"));
    answer.append(item.text); thought = null;
    if (follow) talk.scrollTop = talk.scrollHeight;
  },
  thought(item) {
    if (!thought) {
      const folded = make("details", "thought");
      folded.append(make("summary", "", "Thoughts"), make("div"));
      thought = add(folded).lastChild;
    }
    thought.append(item.text);
  },
  answer(item) {
    const node = answer || add(make("div", "answer"), item);
    if (item.line !== undefined) node.dataset.line = item.line;
    const follow = atEnd();
    node.className = "answer" + (item.partial ? " partial" : "");
    node.innerHTML = item.html;
    for (const link of node.querySelectorAll("a")) { link.rel = "noreferrer noopener"; link.target = "_blank"; }
    mark(node, item);
    answer = thought = null;
    if (follow) talk.scrollTop = talk.scrollHeight;
  },
  tool(item) {
    let node = tools[item.call];
    if (!node || (item.state === "running" && node.dataset.state !== "running")) {
      node = tools[item.call] = make("details", "tool");
      const line = make("summary"), shown = item.shown || wanted[item.call] || "";
      line.append(make("b", "", item.name), make("span", "what", shown.split("\n")[0]), make("span", "state"));
      node.append(line, make("pre", "shown", shown));
      if (notes[item.call]?.isConnected) notes[item.call].before(node); else add(node);
      delete notes[item.call];
      answer = thought = null;
    }
    node.dataset.state = item.state;
    node.querySelector(".state").textContent = item.told;
    for (const [name, text] of [["diff", item.diff], ["result", item.text]])
      if (text) { const old = node.querySelector("." + name); if (old) old.remove(); node.append(make("pre", name, text)); }
    mark(node.firstChild, item);
    if (item.state !== "running") settle(item.call);
  },
  output(item) {
    const node = tools[item.call];
    if (!node) return;
    const live = node.querySelector(".live") || node.appendChild(make("pre", "live"));
    live.append(item.text);
  },
  // History says that it was asked; whether it is open, the stream says.
  asked(item) { names[item.call] = item.name; },
  ask(item) {
    names[item.call] = item.name;
    if (asks[item.call]?.dataset.since === item.since) return;
    settle(item.call, "over");
    const node = asks[item.call] = make("div", "ask");
    node.dataset.since = item.since;
    node.dataset.name = item.name;
    if (item.commands) node.dataset.command = "yes"; // it is no turn that asks
    node.setAttribute("role", "alertdialog");
    node.setAttribute("aria-label", item.heading);
    titled(); // whoever looks at another tab sees it there
    look();
    node.classList.toggle("worst", WORST.includes(item.worst));
    const asked = Date.parse(item.since) || Date.now(), age = make("small", "age", "read it: the buttons work in a second");
    const begun = tools[item.call];
    if (begun?.dataset.state === "running") begun.querySelector(".state").textContent = "approval needed"; else delete tools[item.call];
    wanted[item.call] = item.shown;
    let place = "", moved = 0, aimed = false, missed = 0, from = [0, 0]; // where the buttons stand, and since when; where a click began
    const tick = setInterval(() => {
      if (!node.isConnected) clearInterval(tick);
      if (Date.now() - missed >= 2 * HELD) age.textContent = "waits for your answer · " + Math.round((Date.now() - asked) / 1000) + " s";
    }, 1000);
    const head = make("div", "head");
    head.append(make("b", "", item.heading), age);
    node.append(head, make("pre", "", item.shown));
    if (item.diff) node.append(diffOf(item.diff));
    if (item.parts.length) node.append(make("pre", "parts", item.parts.join("\n")));
    for (const words of [item.why, item.folder && "in " + item.folder]) if (words) node.append(make("div", "note", words));
    // Nothing typed or clicked for something else decides: the focus stays where it is, the buttons
    // work once the question could be read, and a key that is held down presses none.
    const row = make("div", "row");
    // Whatever moves them, a click that was aimed before hits another one: it is not taken.
    const stands = () => {
      const box = row.getBoundingClientRect(), now = [box.left, box.top, box.width, box.height].map(Math.round).join();
      if (now !== place) { place = now; moved = Date.now(); }
      if (!node.isConnected) clearInterval(looking);
      return Date.now() - moved >= HELD;
    };
    const looking = setInterval(stands, HELD / 5);
    row.onmousedown = (event) => event.preventDefault(); // who is writing goes on where they are
    row.onpointerdown = (event) => { from = [event.clientX, event.clientY]; aimed = !away() && stands(); if (row.firstChild.disabled) { unmeant = EARLY; missed = Date.now(); age.textContent = "too early: read it, then choose"; arm(); } };
    const strays = (event) => {
      const drawn = event.detail && Math.hypot(event.clientX - from[0], event.clientY - from[1]) > DRAG; // to mark the words
      if (event.detail ? aimed && stands() && !drawn : !away()) return false; // a key presses what has the focus, wherever that is
      missed = Date.now();
      age.textContent = drawn ? "that marked the words: click again" : away() ? "you just came here: read it, then choose" : "it moved: click again";
      return true;
    };
    let shown = Date.now(), waits = 0, sent = null; // the answer that is under way: another one takes its place
    const decide = (choice, how, why) => {
      unmeant = ""; node.dataset.decided = "yes";
      const given = { session, call: item.call, since: item.since, choice, how, why, seen: (Date.now() - shown) / 1000 };
      if (sent && [sent.choice, sent.why].join() === [choice, why].join()) return null;
      const own = new AbortController(), lost = "Your answer did not arrive; nothing was decided. Choose again.";
      if (sent) { given.instead = sent.once; sent.own.abort("replaced"); }
      // What is no call of a tool is decided by a command that names exactly what is shown here.
      if (item.commands) given.text = item.commands[choice] + (why ? " " + why : "");
      const done = post(item.commands ? "/page/send" : "/page/answer", given, lost, own);
      sent = { choice, why, once: given.once, own };
      if (item.commands) done.then(() => settle(item.call, "sent " + given.text, why), () => {});
      return attempt(done.finally(() => { if (sent.own === own) sent = null; }));
    };
    const reason = make("input"), key = item.call + item.since;
    reason.placeholder = "Why not? The model is told. Enter declines, Esc goes back.";
    reason.setAttribute("aria-label", "Why not?");
    reason.hidden = true;
    reason.value = reasons[key] || "";
    reason.oninput = () => { reasons[key] = reason.value; save(); };
    reason.onkeydown = (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && !event.repeat && !event.isComposing && !away() && reason.value.trim()) decide("deny", "enter", reason.value);
      if (event.key === "Escape") { reason.hidden = true; opened = Date.now(); $("text").focus(); } // what was written is kept
    };
    const ask = () => { reason.hidden = false; reason.focus(); };
    for (const option of item.options) {
      const button = make("button", "", option.label);
      button.dataset.choice = option.id;
      button.disabled = true;
      let pressed = "key";
      button.onkeydown = (event) => { if (event.repeat) event.preventDefault(); else pressed = { " ": "space", Enter: "enter" }[event.key] || "key"; };
      button.onclick = (event) => strays(event) ? null : option.id === "why" ? ask() : decide(option.id, event.detail ? "click" : pressed);
      row.append(button);
    }
    node.append(row, reason);
    const follow = atEnd();
    add(node);
    if (follow && node.offsetHeight > talk.clientHeight) node.scrollIntoView({ block: "start" }); // what is asked is read first
    opened = Date.now();
    // What is scrolled away, in a hidden tab or behind a dialog is not in view yet.
    const covered = () => {
      const over = document.querySelector("dialog[open]");
      if (over) over.addEventListener("close", () => { watch.unobserve(row); watch.observe(row); }, { once: true });
      return over;
    };
    // A click that comes too soon begins the wait anew: clicks that go on and on decide nothing.
    const arm = () => {
      if (!node.dataset.inView) return;
      clearTimeout(waits);
      waits = setTimeout(() => { if (!covered()) for (const button of row.children) button.disabled = false; }, GRACE);
    };
    const watch = new IntersectionObserver((seen) => {
      if (!seen.some((each) => each.isIntersecting) || covered()) return;
      watch.unobserve(row);
      node.dataset.inView = "yes";
      shown = opened = Date.now();
      arm();
    });
    watch.observe(row);
  },
  answered(item) {
    decided[item.call] = item.allowed;
    if (asks[item.call]) notes[item.call] = settle(item.call, item.text, item.why);
    else if (names[item.call]) notes[item.call] = say(names[item.call] + ": " + item.text);
    delete names[item.call];
    keep(reasons[item.call + item.asked], item.why); // it went while nobody here was told
    delete reasons[item.call + item.asked];
  },
  recall(item) {
    const node = make("details", "recall");
    node.append(make("summary", "", "Recalled " + item.cards.length + (item.cards.length === 1 ? " passage" : " passages")));
    for (const card of item.cards) node.append(cardOf(card));
    add(node);
  },
  note(item) { mark(say(item.text, item.tone), item); },
  queued(item) {
    const node = make("div", "note queued", "Queued: " + item.text), back = make("button", "", "Take it back");
    node.dataset.queued = item.queued;
    node.dataset.text = item.text;
    back.onclick = () => { taken = item.queued; attempt(post("/page/withdraw", { session, queued: item.queued }, "It was not taken back: that did not arrive.")); };
    node.append(back);
    add(node);
  },
  // It has its turn, or was taken back, or the turn before it was stopped: then it is not sent by itself.
  withdrawn(item) {
    const node = talk.querySelector('[data-queued="' + item.queued + '"]');
    const text = item.text || (node && taken === item.queued ? node.dataset.text : "");
    if (node) node.remove();
    if (text) { $("text").value = [text, $("text").value].filter(Boolean).join("\n"); $("text").focus(); }
  },
  anew() { attempt(open(session)); },
  printed(item) { add(make("pre", "printed", item.text)); },
  ended(item) {
    busy(false); answer = thought = null;
    for (const [name, node] of Object.entries(asks)) if (!node.dataset.command) settle(name, "over");
    if (item.ending !== "done") add(make("div", "ended", item.ending + ": " + item.why));
    const every = Object.values(decided), yes = every.filter(Boolean).length, no = every.length - yes;
    const counts = [yes && yes + " allowed", no && no + " declined"].filter(Boolean);
    if (counts.length) say("Approvals of this turn: " + counts.join(", ") + " (/why turn " + turn + ")");
    decided = {};
    look();
  },
  panel(item) {
    const zone = $("zone");
    zone.dataset.zone = item.zone;
    zone.textContent = Math.round(item.utilization * 100) + " %";
    const panel = $("panel");
    panel.replaceChildren();
    const gauge = make("meter");
    gauge.max = item.usable; gauge.value = item.tokens;
    panel.append(make("div", "big", item.tokens.toLocaleString("en") + " of " + item.usable.toLocaleString("en") + " tokens"));
    panel.append(gauge, make("div", "note", "zone " + item.zone + " · " + item.label + " · " + item.model));
    panel.append(make("h2", "", "Shares"));
    for (const share of item.shares) {
      const row = make("div", "share");
      row.append(make("span", "", share.name), make("span", "", share.tokens.toLocaleString("en") + " / " + share.limit.toLocaleString("en")));
      panel.append(row);
    }
    panel.append(make("h2", "", "Out of the window"));
    panel.append(make("div", "", item.outside.count + ", " + item.outside.tokens.toLocaleString("en") + " tokens; all in history"
      + (item.outside.rewound ? "; and " + item.outside.rewound + " rewound" : "")));
    for (const gone of item.left.slice(-8)) panel.append(make("div", "note", "turn " + gone.turn + " left: " + gone.why));
    for (const warning of item.warnings) panel.append(make("div", "note warning", warning));
  },
};
const WORST = ["deletes", "force-push", "privilege", "pipe to shell", "outside the workspace"];
function diffOf(text) {
  const node = make("pre", "diff");
  for (const line of text.split("\n")) node.append(make("span", { "+": "more", "-": "less" }[line[0]] || "", line + "\n"));
  return node;
}
let awaited = false; // whether something waits here, where this window does not listen
function titled() { document.title = (awaited || Object.keys(asks).length ? "? " : "") + session + " · MindStone"; }
// What was written as a reason and told to nobody goes on in the message.
function keep(words, told) {
  if (!words || words.split(/\s+/).join(" ").trim() === told) return;
  $("text").value += ($("text").value ? "\n" : "") + words;
}
// What is half written outlasts the page, with where it was written.
function save() {
  if (session) drafts[session] = [$("text").value, written];
  sessionStorage.setItem("kept", JSON.stringify({ session, reasons, drafts }));
}
window.addEventListener("pagehide", () => { save(); if (session && $("text").value.trim()) leave(session, drafts[session]); });
function settle(name, text, why) {
  const node = asks[name];
  if (!node) return null;
  delete asks[name];
  titled();
  look();
  if (node.contains(document.activeElement)) {
    unmeant = node.dataset.decided ? TAKEN : ELSEWHERE;
    setTimeout(() => { if (unmeant === TAKEN) unmeant = ""; }, GRACE);
  }
  const held = node.contains(document.activeElement) || document.activeElement === document.body;
  const reason = node.querySelector("input");
  if (reason === document.activeElement && reason.value.trim() && why !== reason.value.trim()) unmeant = TORN;
  keep(reason.value, why);
  delete reasons[name + node.dataset.since];
  const note = make("div", "note", node.dataset.name + ": " + (text || "answered"));
  node.replaceWith(note);
  if (held) $("text").focus();
  return note;
}
// A moment where the reader is; a day without a time stays it.
const when = (ts) => (ts || "")[10] ? new Date(ts).toLocaleString("sv").slice(0, 16) : ts;
function cardOf(card) {
  const node = make("button", "card", card.text);
  node.type = "button";
  const facts = [card.session, "line " + card.line, when(card.date), card.speaker, card.whose, card.replaced];
  node.append(make("small", "", facts.filter(Boolean).join(" · ")));
  node.onclick = () => attempt(show(card));
  return node;
}
// A whole session, for filters without words.
function sessionOf(one) {
  const node = make("button", "card", one.title || one.last || one.session);
  node.type = "button";
  node.append(make("small", "", one.session + " · " + one.turns + (one.turns === 1 ? " turn" : " turns") + (one.rewound ? ", " + one.rewound + " rewound" : "")), make("small", "", one.facts));
  node.onclick = () => { $("found").close(); attempt(open(one.session)); };
  return node;
}
// Where a passage stands: in the conversation if it is drawn there, else with what was said around it.
async function show(card) {
  const box = $("found");
  const here = card.session === session && talk.querySelector('[data-line="' + card.line + '"]');
  if (here) {
    box.close();
    here.scrollIntoView({ block: "center" });
    here.classList.add("shown");
    setTimeout(() => here.classList.remove("shown"), 2500);
    return;
  }
  const told = await call("/page/around?session=" + encodeURIComponent(card.session) + "&line=" + card.line);
  const go = make("button", "", "Open " + card.session);
  go.onclick = () => { box.close(); attempt(open(card.session)); };
  box.replaceChildren(make("b", "", card.session + " · line " + card.line));
  for (const line of told.lines) {
    const quoted = make("div", "quoted" + (line.line === told.line ? " shown" : ""), line.text);
    quoted.append(make("small", "", [line.role, "line " + line.line, when(line.date), ...(line.standing || [])].join(" · ")));
    box.append(quoted);
  }
  if (card.session !== session) box.append(go);
  if (!box.open) box.showModal();
}
// What was written while the page asked for history and for what comes may come twice.
const drawn = new Set();
function place(item) {
  const again = drawn.has(item.entry);
  if (item.entry) drawn.add(item.entry);
  if (again && item.type === "answer" && answer) { answer.remove(); answer = null; }
  if (!again) draw[item.type](item);
}
async function open(name) {
  if (stream) stream.abort();
  const own = stream = new AbortController(), crowded = setTimeout(room, ROOM);
  dozes = awaited = false;
  const told = await call("/page/history?session=" + encodeURIComponent(name), null, own.signal)
    .catch((error) => { if (!own.signal.aborted) throw error; }).finally(() => clearTimeout(crowded));
  if (own !== stream || !told) return; // another one was chosen meanwhile, or it will be opened again
  const lost = told.session === session ? talk.querySelectorAll(".lost") : [];
  if (told.session !== session) { // what is half written there was not meant for here
    if (session) save();
    if (session || !$("text").value) [$("text").value, written] = drafts[told.session]?.[0] ? drafts[told.session] : left()[told.session] || ["", 0];
    leave(told.session);
    unmeant = "";
  }
  session = told.session;
  save();
  talk.replaceChildren(...lost); answer = thought = null; tools = {}; asks = {}; names = {}; notes = {};
  drawn.clear();
  for (const item of told.items) place(item);
  busy(told.busy);
  talk.scrollTop = talk.scrollHeight;
  titled();
  await sessions();
  if (own !== stream) return;
  listen(session, told.head);
  look();
  $("text").focus();
}
async function listen(name, head) {
  const own = stream = new AbortController(), crowded = setTimeout(room, ROOM);
  let here;
  begun = new Promise((done) => { here = done; }); // what is said before would not be drawn
  try {
    await prove(own.signal);
    const reply = await fetch("/page/events?session=" + encodeURIComponent(name) + "&after=" + head, { headers: { authorization: "Bearer " + token }, signal: own.signal });
    clearTimeout(crowded);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let held = "";
    for (;;) {
      const { value, done } = await reader.read();
      here();
      if (done) break;
      held += value;
      const parts = held.split("\n\n");
      held = parts.pop();
      for (const part of parts) if (part.startsWith("data: ")) { place(JSON.parse(part.slice(6))); }
    }
  } catch (error) { clearTimeout(crowded); here(); proven = false; if (own.signal.aborted) return; }
  proven = false;
  if (own === stream) { say("The connection was lost; trying again …", "warning"); again(name, own); }
}
function again(name, own, wait = 1500) {
  setTimeout(async () => {
    if (own !== stream) return;
    try { await call("/page/sessions", null, AbortSignal.timeout(PATIENCE)); } catch (error) { again(name, own); return; }
    if (own === stream) attempt(open(name));
  }, wait);
}
async function sessions() {
  const told = await call("/page/sessions");
  const known = told.sessions.map((one) => [one.session, (one.title || one.session).slice(0, 60)]);
  if (!known.some((one) => one[0] === session)) known.unshift([session, session]);
  if ($("sessions").value === session && document.activeElement === $("sessions")) return; // nobody chooses in a list that changes
  $("sessions").replaceChildren(...known.map(([value, title]) => { const option = make("option", "", title === value ? value : title + " — " + value); option.value = value; return option; }));
  $("sessions").value = session;
}
async function search(query) {
  const box = $("found");
  box.replaceChildren(make("b", "", "Found for “" + query + "”"));
  const told = await call("/page/search?query=" + encodeURIComponent(query));
  if (told.sessions.length) box.append(make("p", "", told.total + (told.total === 1 ? " session" : " sessions") + (told.total > told.sessions.length ? ", the newest " + told.sessions.length : "")));
  for (const one of told.sessions) box.append(sessionOf(one));
  if (told.hits.length && told.sessions.length) box.append(make("p", "", told.hits.length + (told.hits.length === 1 ? " place" : " places") + " in them"));
  for (const hit of told.hits) box.append(cardOf(hit));
  if (!told.hits.length && !told.sessions.length) box.append(make("p", "", "Nothing was found."));
  box.showModal();
}
// What waits for a decision in any session; a click leads there and puts that very thing.
async function waiting() {
  const told = await call("/page/waiting"), button = $("waiting");
  button.hidden = !told.waiting.length;
  button.textContent = told.waiting.length + " waiting";
  button.title = told.short;
  awaited = dozes && told.waiting.some((one) => one.session === session);
  titled();
  button.onclick = () => {
    const box = $("found");
    box.replaceChildren(make("b", "", told.short));
    for (const one of told.waiting) {
      const node = make("button", "card", one.text);
      node.append(make("small", "", one.session + " · " + one.how.replaceAll("`", "")));
      node.onclick = () => { box.close(); attempt(open(one.session).then(() => { if (one.ask) draw.ask(one.ask); })); };
      box.append(node);
    }
    box.showModal();
  };
}
const look = () => { if (token && session) Promise.all([waiting(), sessions()]).catch(() => {}); };
function gate() { if (!$("gate").open) $("gate").showModal(); }
function begin() { attempt(open(kept.session || "")); }

$("composer").onsubmit = (event) => {
  event.preventDefault();
  const text = $("text").value;
  if (!text.trim()) return;
  talk.scrollTop = talk.scrollHeight;
  $("text").value = "";
  const since = written;
  const given = { session, text, writing: (Date.now() - since) / 1000 };
  attempt(post("/page/send", given, "It did not arrive; it stands in its box again.").catch((error) => {
    error.message = "Not sent: " + error.message;
    if (session !== given.session) drafts[given.session] = [text, since];
    else if (!$("text").value.includes(text)) { $("text").value = [text, $("text").value].filter(Boolean).join("\n"); written ||= since; }
    save();
    throw error;
  }));
  written = 0;
  save();
};
$("text").onkeydown = (event) => {
  const waits = talk.querySelectorAll(".queued button");
  if (event.key === "ArrowUp" && !event.repeat && !$("text").value && waits.length) { event.preventDefault(); waits[waits.length - 1].click(); }
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (event.repeat) return;
  if (unmeant) say(unmeant + " Enter sends what stands here now."); else $("composer").requestSubmit();
  unmeant = "";
};
$("text").oninput = () => {
  if (!$("text").value.trim()) written = 0; else if (!written) written = Date.now();
  if (!$("text").value || [ELSEWHERE, TAKEN].includes(unmeant)) unmeant = ""; // who writes on knows where they are
  save();
};
const stop = (how) => attempt(post("/page/stop", { session, how }, "It was not stopped: that did not arrive."));
// A click that began as another, on what stood here or beside it, stops nothing.
$("stop").onclick = (event) => {
  if (event.detail < 2 && !away() && Date.now() - turned >= HELD) stop(event.detail ? "click" : "key");
};
$("sessions").onchange = () => attempt(open($("sessions").value));
$("query").onkeydown = (event) => { if (event.key === "Enter" && $("query").value.trim()) attempt(search($("query").value.trim())); };
$("zone").onclick = () => {
  const shown = document.body.classList.toggle("narrow-panel");
  $("zone").setAttribute("aria-expanded", String(!shown));
};
const THEMES = ["auto", "dark", "light", "contrast"], bright = matchMedia("(prefers-color-scheme: light)");
function theme() {
  const name = localStorage.getItem("theme") || "auto";
  document.documentElement.dataset.theme = name === "auto" ? (bright.matches ? "light" : "dark") : name;
  $("theme").textContent = name;
}
bright.onchange = theme;
$("theme").onclick = () => {
  localStorage.setItem("theme", THEMES[(THEMES.indexOf($("theme").textContent) + 1) % THEMES.length]);
  theme();
};
$("gate").addEventListener("close", () => { token = $("token").value.trim(); sessionStorage.setItem("token", token); begin(); });
for (const box of document.querySelectorAll("dialog")) box.addEventListener("close", () => { opened = Date.now(); });
// Words that go on behind a Tab are written, wherever it led, and press nothing; a Tab among them leads nowhere.
document.addEventListener("focusin", () => { focused = Date.now(); });
document.addEventListener("keydown", (event) => {
  const sign = event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey, now = Date.now();
  const idle = ["BUTTON", "BODY"].includes(document.activeElement.tagName);
  if (event.key === "Tab" && now - letter < HELD) event.preventDefault();
  early = now - focused < HELD;
  if (sign && event.key !== " " && idle && !document.querySelector("dialog[open]")) $("text").focus();
  if (sign) letter = now;
}, true);
document.addEventListener("click", (event) => {
  if (event.isTrusted && !event.detail && early && event.target === document.activeElement) { event.preventDefault(); event.stopPropagation(); }
}, true);
document.addEventListener("keydown", (event) => {
  const early = Date.now() - opened < GRACE;
  // In the search field Escape leaves the field: only where one talks does it stop a turn.
  if (event.key === "Escape" && event.target === $("query")) { $("query").value = ""; opened = Date.now(); $("text").focus(); return; }
  if (event.key === "Escape" && narrow.matches && !document.body.classList.contains("narrow-panel")) { $("zone").click(); opened = Date.now(); return; } // it lies over all else
  if (event.key === "Escape" && !event.repeat && !early && !away() && !document.querySelector("dialog[open]") && !$("stop").hidden) {
    // Nothing is in a hurry while a question waits: there only a second one stops.
    if (document.querySelector(".ask") && Date.now() - escaped > SURE) {
      escaped = opened = Date.now();
      say("Nothing runs while this waits. Escape again, a moment later, stops the turn.");
    } else stop("escape");
  }
  if ((event.ctrlKey || event.metaKey) && event.key === "k") { event.preventDefault(); $("query").focus(); }
});
theme();
setInterval(look, 20000);
// Where there is little room, the panel would lie over the questions.
const narrow = matchMedia("(max-width: 900px)"), hint = $("text").placeholder;
narrow.onchange = () => {
  if (narrow.matches !== document.body.classList.contains("narrow-panel")) $("zone").click();
  $("text").placeholder = narrow.matches ? "Message, or /command" : hint;
};
narrow.onchange();
const given = new URLSearchParams(location.hash.slice(1)).get("token");
token = given || sessionStorage.getItem("token") || "";
if (given) { sessionStorage.setItem("token", given); history.replaceState(null, "", "/"); }
if (token) begin(); else gate();
