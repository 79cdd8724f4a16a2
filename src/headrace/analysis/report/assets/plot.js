/* Draws charts as SVG. A chart is a plain value (charts.py makes it). Colours come from the classes agent-N, whose
   values CSS changes between light and dark, so that nothing has to be drawn again. */
"use strict";

const Plot = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const EDGE = { top: 10, right: 18, bottom: 44, left: 64 };
  const ROW = 26; // pixels of one row of a dot chart
  const TIMES = 8; // stretches of time that have a colour of their own

  function add(parent, name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  }

  // ---- numbers and scales

  function short(value) {
    const size = Math.abs(value);
    for (const [unit, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (size >= unit) return `${+(value / unit).toPrecision(4)}${letter}`;
    return String(+value.toPrecision(4));
  }

  function plain(value) {
    if (value === null || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1).replace("e+", "e");
    return String(+value.toPrecision(size >= 1000 ? 5 : 3));
  }

  const written = (axis, value) => (axis.format === "steps" ? short(value) : plain(value));

  function ticks(low, high, count) {
    const wanted = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= wanted * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(+(i * step).toPrecision(12));
    return found.length < 2 && count < 16 ? ticks(low, high, Math.max(2, 2 * count)) : found;
  }

  function range(values, axis) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (low > high) [low, high] = [0, 1];
    if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
    const room = (high - low) * 0.05, floor = low >= 0 && low < room ? 0 : low - room;
    return [axis.min ?? floor, axis.max ?? high + room];
  }

  const scale = (from, to) => (value) => to[0] + ((value - from[0]) / (from[1] - from[0])) * (to[1] - to[0]);

  // ---- what every chart has

  function frame(holder, chart, height) {
    holder.replaceChildren();
    const width = Math.max(220, Math.floor(holder.clientWidth));
    const about = `${chart.title}. ${axisText(chart.x)} against ${axisText(chart.y)}.`;
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", about);
    holder.append(svg);
    return { svg, width, height };
  }

  const axisText = (axis) => (axis.unit ? `${axis.label} (${axis.unit})` : axis.label);

  function bottomAxis(svg, axis, x, [left, right], bottom, top) {
    for (const value of ticks(...x.from, (right - left) / 62)) {
      const at = x(value);
      add(svg, "line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom });
      add(svg, "text", { class: "tick", x: at, y: bottom + 16, "text-anchor": "middle" }, written(axis, value));
    }
    add(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
    const text = add(svg, "text", { class: "label", x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, axisText(axis));
    squeeze(text, 2 * Math.min(right + EDGE.right - (left + right) / 2, (left + right) / 2) - 4);
  }

  /* Letters grow smaller rather than leave the picture. */
  function squeeze(text, room) {
    const needed = text.getComputedTextLength();
    if (needed > room) text.style.fontSize = `${Math.max(8.5, Math.floor((120 * room) / needed) / 10)}px`;
  }

  function leftAxis(svg, axis, y, [left, right], bottom, top) {
    for (const value of ticks(...y.from, (bottom - top) / 36)) {
      const at = y(value);
      add(svg, "line", { class: "grid", x1: left, x2: right, y1: at, y2: at });
      add(svg, "text", { class: "tick", x: left - 7, y: at + 4, "text-anchor": "end" }, written(axis, value));
    }
    const middle = (top + bottom) / 2;
    const turned = { class: "label", x: 13, y: middle, "text-anchor": "middle", transform: `rotate(-90 13 ${middle})` };
    squeeze(add(svg, "text", turned, axisText(axis)), bottom - top);
  }

  function path(xs, ys, stairs) {
    let drawn = "", pen = false;
    for (let i = 0; i < ys.length; i++) {
      if (ys[i] === null) { pen = false; continue; }
      const x = xs[i].toFixed(1), y = ys[i].toFixed(1);
      drawn += pen ? (stairs ? `H${x}V${y}` : `L${x} ${y}`) : `M${x} ${y}`;
      if (!pen && (i + 1 >= ys.length || ys[i + 1] === null)) drawn += "m-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0"; // a lone point is a dot
      pen = true;
    }
    return drawn;
  }

  /* The area between two lines, in one piece for each stretch where both are known. */
  function band(xs, low, high) {
    let drawn = "", piece = [];
    const close = () => {
      if (piece.length > 1) {
        const there = piece.map((i) => `${xs[i].toFixed(1)} ${high[i].toFixed(1)}`);
        const back = piece.reverse().map((i) => `${xs[i].toFixed(1)} ${low[i].toFixed(1)}`);
        drawn += `M${there.concat(back).join("L")}Z`;
      }
      piece = [];
    };
    for (let i = 0; i < xs.length; i++) low[i] === null || high[i] === null ? close() : piece.push(i);
    close();
    return drawn;
  }

  const through = (values, to) => values.map((value) => (value === null ? null : to(value)));

  // ---- lines with intervals

  /* A line's look is its agent's, or one of the page's own shades where lines are not agents. */
  function shaded(look) {
    return (series) => (series.shade === undefined ? look(series.agent) : { shown: true, name: `shade-${series.shade % 10}`, dash: "" });
  }

  function lines(holder, chart, agentLook) {
    const look = shaded(agentLook), shown = chart.series.filter((series) => look(series).shown);
    const marks = (chart.marks || []).filter((mark) => look(mark).shown);
    const { svg, width, height } = frame(holder, chart, holder.clientWidth < 420 ? 250 : 290);
    const sides = [EDGE.left, width - EDGE.right], bottom = height - EDGE.bottom, top = EDGE.top;
    const fromX = range(shown.length ? chart.xs : [], { min: chart.x.min, max: chart.x.max });
    const fromY = range(shown.flatMap((s) => s.y.concat(s.low || [], s.high || [])).concat(marks.map((m) => m.y)), chart.y);
    const x = Object.assign(scale(fromX, sides), { from: fromX }), y = Object.assign(scale(fromY, [bottom, top]), { from: fromY });
    bottomAxis(svg, chart.x, x, sides, bottom, top);
    leftAxis(svg, chart.y, y, sides, bottom, top);
    if (fromY[0] < 0 && fromY[1] > 0) add(svg, "line", { class: "zero", x1: sides[0], x2: sides[1], y1: y(0), y2: y(0) });
    const layers = [add(svg, "g"), add(svg, "g")];
    for (const series of shown) {
      const { name, dash } = look(series), xs = chart.xs.map(x);
      if (series.low) add(layers[0], "path", { class: `band ${name}`, d: band(xs, through(series.low, y), through(series.high, y)) });
      add(layers[1], "path", { class: `line ${name}`, d: path(xs, through(series.y, y), chart.stairs), "stroke-dasharray": dash });
    }
    for (const mark of marks) diamond(svg, look(mark).name, sides[1], y(mark.y), mark.label);
    if (!shown.some((series) => series.y.some((value) => value !== null))) nothing(svg, width, height, chart);
    crosshair(holder, svg, chart, shown, look, { x, y, sides, top, bottom });
    if (chart.legend) legend(holder, shown, look);
  }

  function legend(holder, shown, look) {
    const list = holder.appendChild(Object.assign(document.createElement("div"), { className: "legend" }));
    for (const series of shown) {
      const item = document.createElement("span"), patch = document.createElement("i");
      patch.className = `swatch ${look(series).name}`;
      item.append(patch, series.label);
      list.append(item);
    }
  }

  function diamond(svg, name, x, y, label) {
    const shape = add(svg, "path", { class: `mark ${name}`, d: `M${x} ${y - 6}l6 6l-6 6l-6 -6Z` });
    add(shape, "title", {}, label);
  }

  function nothing(svg, width, height, chart) {
    const why = chart.series.length ? "every agent here is switched off" : "no finished episode yet";
    add(svg, "text", { class: "label", x: width / 2, y: height / 2 - 12, "text-anchor": "middle" }, why);
  }

  // ---- reading values off: by pointer, by touch, by arrow keys

  function crosshair(holder, svg, chart, shown, look, { x, y, sides, top, bottom }) {
    if (!shown.length) return;
    const line = add(svg, "line", { class: "cross", y1: top, y2: bottom, visibility: "hidden" });
    const tip = holder.appendChild(Object.assign(document.createElement("div"), { className: "tip", hidden: true }));
    tip.setAttribute("role", "status");
    const grid = chart.xs;
    let index = -1;
    const show = (i) => {
      index = Math.min(grid.length - 1, Math.max(0, i));
      const at = x(grid[index]);
      line.setAttribute("x1", at);
      line.setAttribute("x2", at);
      line.setAttribute("visibility", "visible");
      fillTip(tip, chart, grid[index], valuesAt(shown, index), look);
      tip.hidden = false;
      const edge = holder.getBoundingClientRect().left, room = document.documentElement.clientWidth - edge - tip.offsetWidth - 4;
      const left = at + 12 > room ? at - 12 - tip.offsetWidth : at + 12; // it may lie over the next chart, never off the window
      tip.style.left = `${Math.max(4 - edge, left)}px`;
      tip.style.top = `${top + 4}px`;
    };
    const hide = () => { tip.hidden = true; line.setAttribute("visibility", "hidden"); };
    const pointed = (event) => {
      const at = event.clientX - svg.getBoundingClientRect().left;
      if (at < sides[0] - 8 || at > sides[1] + 8) return hide();
      show(nearest(grid, x.from[0] + ((at - sides[0]) / (sides[1] - sides[0])) * (x.from[1] - x.from[0])));
    };
    svg.addEventListener("pointermove", pointed);
    svg.addEventListener("pointerdown", pointed);
    svg.addEventListener("pointerleave", hide);
    svg.setAttribute("tabindex", "0");
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const jump = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -grid.length, End: grid.length }[event.key];
      if (event.key === "Escape") hide();
      if (jump === undefined) return;
      event.preventDefault();
      show(index < 0 && jump > 0 ? 0 : index + jump);
    });
  }

  function nearest(grid, value) {
    let low = 0, high = grid.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (grid[middle] < value) low = middle; else high = middle;
    }
    return value - grid[low] < grid[high] - value ? low : high;
  }

  function valuesAt(shown, i) {
    const found = shown.map((series) => ({ series, value: series.y[i], low: series.low?.[i], high: series.high?.[i] }));
    return found.filter((f) => f.value !== null).sort((a, b) => b.value - a.value);
  }

  function fillTip(tip, chart, at, found, look) {
    const head = document.createElement("b");
    head.textContent = `${written(chart.x, at)} ${chart.x.unit || chart.x.label}`;
    const rows = found.slice(0, 12).map(({ series, value, low, high }) => {
      const row = document.createElement("div");
      row.className = `tip-row ${look(series).name}`;
      const name = document.createElement("span");
      name.textContent = series.label;
      const number = document.createElement("span");
      number.textContent = plain(value) + (low == null ? "" : ` [${plain(low)}, ${plain(high)}]`);
      row.append(name, number);
      return row;
    });
    tip.replaceChildren(head, ...rows);
  }

  // ---- one dot with its interval for each agent

  function dots(holder, chart, look) {
    const shown = chart.rows.filter((row) => look(row.agent).shown);
    const top = EDGE.top, bottom = top + Math.max(2, shown.length) * ROW;
    const { svg, width } = frame(holder, chart, bottom + EDGE.bottom);
    const names = Math.min(170, Math.max(90, width * 0.34)), sides = [names, width - EDGE.right];
    const fromX = range(shown.flatMap((row) => [row.value, row.low, row.high, row.paper ?? null]), chart.x);
    const x = Object.assign(scale(fromX, sides), { from: fromX });
    bottomAxis(svg, chart.x, x, sides, bottom, top);
    shown.forEach((row, i) => dotRow(svg, row, look(row.agent).name, x, names, top + (i + 0.5) * ROW));
    if (!shown.length) nothing(svg, width, bottom, { series: chart.rows });
  }

  function dotRow(svg, row, name, x, names, at) {
    const group = add(svg, "g", { class: `dot ${name}` });
    const interval = row.low === null ? "" : ` [${plain(row.low)}, ${plain(row.high)}]`;
    add(group, "title", {}, `${row.label}: ${plain(row.value)}${interval}${row.paper == null ? "" : `, paper ${plain(row.paper)}`}`);
    const text = add(group, "text", { class: "row", x: names - 10, y: at + 4, "text-anchor": "end" }, row.label);
    fit(text, row.label, names - 12);
    if (row.low !== null) add(group, "line", { class: "whisker", x1: x(row.low), x2: x(row.high), y1: at, y2: at });
    if (row.value !== null) add(group, "circle", { cx: x(row.value), cy: at, r: 5 });
    if (row.paper != null) diamond(group, name, x(row.paper), at, `paper ${plain(row.paper)}`);
  }

  function fit(text, whole, width) {
    for (let kept = whole.length; kept > 3 && text.getComputedTextLength() > width; kept--)
      text.textContent = `${whole.slice(0, kept - 1)}…`;
  }

  // ---- points coloured by time: one path for each stretch of time, so that thousands of points stay light

  function points(holder, chart) {
    const { svg, width, height } = frame(holder, chart, 300);
    const sides = [30, width - 12], bottom = height - 58, top = EDGE.top;
    const x = scale(range(chart.px, {}), sides), y = scale(range(chart.py, {}), [bottom, top]);
    add(svg, "rect", { class: "field", x: sides[0], y: top, width: sides[1] - sides[0], height: bottom - top });
    const size = Math.ceil(chart.px.length / TIMES);
    for (let time = 0; time < TIMES; time++) {
      let drawn = "";
      for (let i = time * size; i < Math.min((time + 1) * size, chart.px.length); i++)
        drawn += `M${x(chart.px[i]).toFixed(1)} ${y(chart.py[i]).toFixed(1)}h.01`;
      add(svg, "path", { class: `points time-${time}`, d: drawn });
      add(svg, "rect", { class: `key time-${time}`, x: sides[0] + 70 + time * 11, y: height - 15, width: 11, height: 8 });
    }
    const middle = (top + bottom) / 2;
    add(svg, "text", { class: "label", x: (sides[0] + sides[1]) / 2, y: bottom + 18, "text-anchor": "middle" }, axisText(chart.x));
    add(svg, "text", { class: "label", x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, axisText(chart.y));
    add(svg, "text", { x: sides[0] + 64, y: height - 7, "text-anchor": "end" }, "first step");
    add(svg, "text", { x: sides[0] + 76 + TIMES * 11, y: height - 7 }, "last step of the trajectory");
  }

  const KINDS = { lines, dots, points };
  const draw = (holder, chart, look) => KINDS[chart.kind](holder, chart, look);
  return { draw, plain, short };
})();
