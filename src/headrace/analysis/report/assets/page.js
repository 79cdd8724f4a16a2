/* What moves on the page: switches for agents, the list of runs, a run's own page, and renewal while runs go on. */
"use strict";

(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const data = JSON.parse(one("#data").textContent);
  const off = new Set(data.off); // numbers of the agents that are switched off
  const charts = new Map(); // by name, of all parts that are on the page
  let round = 0; // counts what makes every chart out of date

  // ---- charts: drawn when they come near the window, and again when they are out of date

  const near = new Set();
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) near.add(target); else near.delete(target);
      if (isIntersecting) paint(target);
    }
  }, { rootMargin: "500px 0px" });

  function look(agent) {
    if (agent === null) return { shown: true, name: "none", dash: "" };
    return { shown: !off.has(agent), name: `agent-${agent}`, dash: data.agents[agent].dash };
  }

  function paint(holder) {
    const chart = charts.get(holder.dataset.chart), stamp = `${round} ${holder.clientWidth}`;
    if (!chart || !holder.clientWidth || holder.dataset.painted === stamp) return;
    Plot.draw(holder, chart, chart.always ? (agent) => ({ ...look(agent), shown: true }) : look);
    holder.dataset.painted = stamp;
  }

  const repaint = () => near.forEach(paint);
  const outdated = () => { round++; repaint(); };
  new ResizeObserver(repaint).observe(document.body);

  function adopt(part, root) {
    for (const [name, chart] of Object.entries(part.charts)) {
      if (typeof chart.xs === "string") chart.xs = part.grids[chart.xs];
      charts.set(name, chart);
    }
    for (const holder of all(".chart", root)) watcher.observe(holder);
  }

  // ---- switches

  function showSwitches() {
    for (const chip of all(".chip[data-agent]")) chip.setAttribute("aria-pressed", String(!off.has(+chip.dataset.agent)));
  }

  function set(numbers, shown) {
    for (const number of numbers) if (shown) off.delete(number); else off.add(number);
    showSwitches();
    outdated();
  }

  const everyone = data.agents.map((_, number) => number);
  document.addEventListener("click", (event) => {
    const chip = event.target.closest(".chip[data-agent]"), group = event.target.closest("[data-switch]");
    if (chip) set([+chip.dataset.agent], off.has(+chip.dataset.agent));
    if (group) { set(everyone, false); set(group.dataset.switch.split(" ").filter(Boolean).map(Number), true); }
  });
  document.addEventListener("dblclick", (event) => {
    const chip = event.target.closest(".chip[data-agent]");
    if (chip) { set(everyone, false); set([+chip.dataset.agent], true); }
  });

  // ---- a link to a section leaves its heading below the bar, however many rows that has

  const bar = one(".bar"), ROOM = 14;
  const keepClear = () => { document.documentElement.style.scrollPaddingTop = `${bar.offsetHeight + ROOM}px`; };
  new ResizeObserver(keepClear).observe(bar);

  function goTo(section) {
    all(".chart").forEach(paint); // what is drawn later would move the section away
    keepClear();
    section.scrollIntoView();
  }

  // ---- tabs: of several suites and lengths, one is shown

  const tabs = all(".tabs [role=tab]");

  function bringIntoStrip(tab) { // on a phone the tabs are one row that scrolls
    const at = tab.getBoundingClientRect(), strip = tab.parentElement, shown = strip.getBoundingClientRect();
    strip.scrollLeft += Math.min(0, at.left - shown.left) + Math.max(0, at.right - shown.right);
  }

  function open(name) {
    data.tab = name;
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", String(tab.dataset.opens === name));
      tab.tabIndex = tab.dataset.opens === name ? 0 : -1;
      if (tab.dataset.opens === name) bringIntoStrip(tab);
    }
    if (tabs.length) {
      for (const part of all("[data-tab]")) part.hidden = part.dataset.tab !== name;
      for (const chip of all(".chip[data-tabs]")) chip.hidden = !chip.dataset.tabs.split(" ").includes(name);
    }
    repaint();
  }

  document.addEventListener("click", (event) => {
    const tab = event.target.closest(".tabs [role=tab]");
    if (tab) open(tab.dataset.opens);
  });
  document.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target), by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (at < 0 || !by) return;
    const next = tabs[(at + by + tabs.length) % tabs.length];
    open(next.dataset.opens);
    next.focus();
  });

  // ---- the list of runs: as many rows as fit on a screen, the others by leafing

  const list = { words: "", state: "", by: 0, up: true, page: 0 };
  const ROWS = 50;

  const COLUMNS = [ // name, value to sort by, cell
    ["agent", (r) => data.agents[r.agent].name, (r) => named("th", data.agents[r.agent].name, r)],
    ["environment", (r) => r.env, (r) => cell(r.env, "words")],
    ["seed", (r) => r.seed, (r) => cell(r.seed)],
    ["steps", (r) => r.step, (r) => cell(`${Plot.short(r.step)} of ${Plot.short(r.steps)}`)],
    ["state", (r) => r.state, (r) => stateCell(r)],
    ["score", (r) => r.score, (r) => cell(r.score === null ? "–" : Plot.plain(r.score) + (r.points < 50 ? "*" : ""))],
    ["steps/s", (r) => r.rate, (r) => cell(r.rate === null ? "–" : Plot.short(r.rate), "wide-only")],
    ["hours", (r) => r.hours, (r) => cell(r.hours === null ? "–" : Plot.plain(r.hours), "wide-only")],
  ];

  function cell(text, name = "") {
    const made = document.createElement("td");
    made.textContent = text;
    made.className = name;
    return made;
  }

  function named(kind, text, run) {
    const made = document.createElement(kind), link = document.createElement("a"), swatch = document.createElement("span");
    made.scope = "row";
    swatch.className = `swatch agent-${run.agent}`;
    link.href = `#run-${run.key}`;
    link.textContent = text;
    made.append(swatch, link);
    return made;
  }

  function stateCell(run) {
    const made = cell("", "words"), state = document.createElement("span");
    state.className = `state ${run.state}`;
    state.textContent = run.state;
    made.append(state);
    return made;
  }

  const unpack = (rows) => rows.map((row) => Object.fromEntries(data.runs.columns.map((name, i) => [name, row[i]])));
  let runs = unpack(data.runs.rows);

  function chosen() {
    const words = list.words.toLowerCase().split(/\s+/).filter(Boolean), value = COLUMNS[list.by][1];
    const text = (r) => `${data.agents[r.agent].name} ${r.env} seed${r.seed} ${r.state} ${r.name} ${Plot.short(r.steps)}`.toLowerCase();
    const found = runs.filter((r) => (!list.state || r.state === list.state) && words.every((word) => text(r).includes(word)));
    const order = (a, b) => (a === null) - (b === null) || (a < b ? -1 : a > b ? 1 : 0);
    return found.sort((a, b) => {
      const [left, right] = [value(a), value(b)];
      return left === null || right === null ? order(left, right) : (list.up ? 1 : -1) * order(left, right);
    });
  }

  function showRuns() {
    const body = one("#runs tbody");
    if (!body) return;
    const found = chosen(), pages = Math.max(1, Math.ceil(found.length / ROWS));
    list.page = Math.min(list.page, pages - 1);
    const shown = found.slice(list.page * ROWS, (list.page + 1) * ROWS);
    body.replaceChildren(...shown.map((run) => {
      const row = document.createElement("tr");
      row.append(...COLUMNS.map(([, , make]) => make(run)));
      return row;
    }));
    one("#runs .count").textContent = `${found.length.toLocaleString("en")} of ${runs.length.toLocaleString("en")} runs`
      + (pages > 1 ? `, page ${list.page + 1} of ${pages}` : "");
    one("#runs [data-leaf='-1']").disabled = list.page === 0;
    one("#runs [data-leaf='1']").disabled = list.page >= pages - 1;
    all("#runs [data-state]").forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.state === list.state)));
  }

  function showHeads() {
    const row = one("#runs thead tr");
    if (!row) return;
    row.replaceChildren(...COLUMNS.map(([name, , make], i) => {
      const head = document.createElement("th"), button = document.createElement("button");
      head.scope = "col";
      head.className = make({ agent: 0, step: 0, steps: 0, state: "", score: null, rate: null, hours: null }).className;
      if (i === 0) head.classList.add("words");
      if (list.by === i) head.setAttribute("aria-sort", list.up ? "ascending" : "descending");
      button.type = "button";
      button.textContent = name;
      button.dataset.sort = i;
      head.append(button);
      return head;
    }));
  }

  document.addEventListener("input", (event) => {
    if (!event.target.matches("#runs input")) return;
    Object.assign(list, { words: event.target.value, page: 0 });
    showRuns();
  });
  document.addEventListener("click", (event) => {
    const { sort, leaf, state } = (event.target.closest("#runs button") || { dataset: {} }).dataset;
    if (sort !== undefined) Object.assign(list, { up: list.by === +sort ? !list.up : true, by: +sort, page: 0 });
    if (leaf !== undefined) list.page += +leaf;
    if (state !== undefined) Object.assign(list, { state, page: 0 });
    if (sort !== undefined) { showHeads(); one(`#runs [data-sort="${sort}"]`).focus(); }
    if (sort ?? leaf ?? state) showRuns(); else if (state === "") showRuns();
  });

  // ---- a run's own page: its data lie in a file beside this one, fetched as a script so that it works from a disk too

  const waiting = new Map();
  window.headracePart = (part) => waiting.get(part.id)?.(part);

  function load(id, address) {
    return new Promise((arrived, failed) => {
      const script = document.createElement("script");
      waiting.set(id, arrived);
      script.src = address;
      script.onerror = () => failed(new Error(address));
      script.onload = () => script.remove();
      document.head.append(script);
    });
  }

  async function route() {
    const key = /^#run-([0-9a-f]+)$/.exec(location.hash)?.[1];
    one("#report").hidden = Boolean(key);
    one("#run").hidden = !key;
    if (!key) {
      const wanted = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
      if (wanted) {
        open(wanted.closest("[data-tab]")?.dataset.tab ?? data.tab);
        goTo(wanted);
      }
      return repaint();
    }
    scrollTo(0, 0);
    await showRun(key);
    one("#run h2")?.focus();
  }

  async function showRun(key) {
    const place = one("#run .body");
    try {
      const part = await load(`run-${key}`, `data/runs/${key}.js${data.live ? `?${Date.now()}` : ""}`);
      if (location.hash !== `#run-${key}`) return;
      place.innerHTML = part.html;
      adopt(part, place);
      outdated();
    } catch {
      place.textContent = "The data of this run are not here. They lie in the folder data/runs beside this page.";
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-video]");
    if (!button) return;
    const video = Object.assign(document.createElement("img"), { className: "picture video", alt: "the agent playing one episode" });
    video.onerror = () => { button.textContent = "This run cannot be played."; };
    video.onload = () => button.replaceWith(video);
    button.textContent = "Playing one episode …";
    button.disabled = true;
    video.src = button.dataset.video;
  });

  // ---- renewal: the parts that have changed, and nothing else

  async function renew() {
    const now = await (await fetch("digest.json", { cache: "no-store" })).json();
    if (now.frame !== data.frame) return location.reload(); // agents or sections have come or gone
    for (const id of Object.keys(now.parts)) if (now.parts[id] !== data.parts[id].version) await replace(id);
    if (now.runs !== data.runs.version) await replaceRuns();
    const key = /^#run-([0-9a-f]+)$/.exec(location.hash)?.[1];
    if (key && now.changed[key] !== data.changed[key]) await showRun(key);
    data.changed = now.changed;
    one(".live").textContent = `live, ${now.time}`;
    one(".live").classList.remove("lost");
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-draw]");
    if (!button) return;
    button.disabled = true;
    button.textContent = "Drawing …";
    try { await replace("figures", "draw&"); } catch { button.textContent = "They cannot be drawn."; }
  });

  const placeOf = (id) => one(".body", document.getElementById(id));

  async function replace(id, wish = "") {
    const part = await load(id, `data/parts/${id}.js?${wish}${Date.now()}`), place = placeOf(id);
    const opened = all("details", place).map((d) => d.open);
    data.parts[id] = part;
    place.innerHTML = part.html;
    all("details", place).forEach((d, i) => { d.open = opened[i] ?? d.open; });
    adopt(part, place);
    showSwitches();
    open(data.tab);
    outdated();
  }

  async function replaceRuns() {
    data.runs = (await load("runs", `data/parts/runs.js?${Date.now()}`)).runs;
    runs = unpack(data.runs.rows);
    showRuns();
  }

  async function live() {
    try { await renew(); } catch {
      one(".live").textContent = "no longer live: the server has gone";
      one(".live").classList.add("lost");
    }
    setTimeout(live, data.live * 1000);
  }

  // ---- begin

  for (const [id, part] of Object.entries(data.parts)) adopt(part, placeOf(id));
  addEventListener("hashchange", route);
  showSwitches();
  showHeads();
  showRuns();
  open(tabs[0]?.dataset.opens);
  route();
  if (data.live) setTimeout(live, data.live * 1000);
  addEventListener("beforeprint", () => all(".chart").forEach(paint));
})();
