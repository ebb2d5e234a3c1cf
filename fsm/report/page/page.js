"use strict";
// What may happen next was worked out when the page was made; this looks it up, and keeps where the reader is in the link.
// Every text goes into the page as text: nothing here parses HTML.
(() => {
  /** An object without a prototype: what is not in it is not found, whatever it is called. */
  const bare = (object) => Object.assign(Object.create(null), object);
  const data = JSON.parse(document.getElementById("data").textContent, (_, value) => (value && typeof value === "object" && !Array.isArray(value) ? bare(value) : value));
  const page = document.getElementById("page");

  // -- elements ------------------------------------------------------------------------------------------------------

  function h(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.flat(3).filter((each) => each !== null && each !== undefined && each !== "" && each !== false));
    return made;
  }

  function fill(box, ...children) {
    box.replaceChildren(...children.flat(3).filter((each) => each !== null && each !== undefined && each !== "" && each !== false));
  }

  const plural = (count, word) => (count === 1 ? `1 ${word}` : `${count.toLocaleString("en")} ${/[^aeiou]y$/.test(word) ? `${word.slice(0, -1)}ies` : `${word}s`}`);
  const either = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} or ${names.at(-1)}` : names.join(""));
  const replyText = (name) => (name === "error" ? "any error" : name);

  /** A link, if it leads to a page of the web; a text of a model could be any. */
  function link(address, text) {
    return /^https?:\/\//.test(address) ? h("a", { href: address, rel: "noreferrer" }, text) : null;
  }

  const badge = (word, kind) => h("span", { class: `badge ${kind ?? word.toLowerCase().replace(/ /g, "-")}` }, word);

  function clauseText(clause) {
    if (!clause) return null;
    return h("p", { class: "clause" }, badge(clause.level), " ", clause.says, " ",
      h("span", { class: "source" }, h("code", {}, clause.name), " · ", clause.source, " ", link(clause.link, "source")));
  }

  // -- where the reader is: kept in the link ---------------------------------------------------------------------------

  const views = [];
  const NONE = "none";  // what a link calls that there is no profile

  function place() {
    return bare(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  }

  function go(changes, { replaces = false } = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries({ ...place(), ...changes })) if (value) query.set(name, value);
    const hash = `#${query}`;
    if (hash === (location.hash || "#")) return;
    if (replaces) history.replaceState(null, "", hash);
    else history.pushState(null, "", hash);
    show();
  }

  function show() {
    const now = place();
    for (const view of views) view(now);
  }

  const spoken = h("p", { class: "spoken", role: "status" });
  const say = (text) => { spoken.textContent = text; };

  // -- pictures --------------------------------------------------------------------------------------------------------

  const MARKS = `
    svg { max-width: 100%; min-width: min(max(34rem, .72 * var(--own)), var(--own)); height: auto; display: block; margin: 0 auto }
    .graph text { font-family: "DejaVu Sans", Verdana, sans-serif }
    .node[tabindex], .cell { cursor: pointer } .cell:hover text { text-decoration: underline }
    .node[tabindex]:hover :is(path, polygon, ellipse) { stroke-width: 2.5 }
    .node:focus { outline: none } .node:focus-visible { outline: 3px solid #0a58ca; outline-offset: 3px }
    .shaded { --met0: #ffffff; --met1: #ddf4fe; --met2: #b6e3ff; --met3: #80ccff; --met4: #54aeff; --met: #0a6e86; --page: #ffffff; --ink: #1f2328 }
    .shaded .graph > :is(path, polygon):not([fill="none"]), .shaded .node[data-states] :is(path, polygon):not([fill="none"]) { fill: var(--met0) }
    ${[1, 2, 3, 4].map((heat) => `.shaded .node.heat${heat} :is(path, polygon):not([fill="none"]) { fill: var(--met${heat}) }
    .edge.heat${heat} path { stroke: var(--met); stroke-width: ${[1.6, 2.6, 3.6, 4.8][heat - 1]} } .edge.heat${heat} polygon { stroke: var(--met); fill: var(--met) }`).join(" ")}
    .count { font: bold 11px "DejaVu Sans", Verdana, sans-serif; fill: var(--ink); stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; paint-order: stroke }
    .node.possible :is(path, polygon, ellipse):not([fill="none"]), .shaded .node.possible[data-states] :is(path, polygon):not([fill="none"]) { fill: #dcc8ff }
    .node.possible :is(path, polygon, ellipse) { stroke: #5a2ca0; stroke-width: 2.5 }
    .node.current :is(path, polygon, ellipse) { stroke: #0a58ca; stroke-width: 4.5 }
    .node.broken :is(path, polygon, ellipse) { stroke: #b3121d; stroke-width: 4.5 }
    .edge.taken path { stroke: #0a58ca; stroke-width: 3 } .edge.taken polygon { stroke: #0a58ca; fill: #0a58ca }
    .step.now { fill: #0a58ca; text-decoration: underline }
    @media print { svg { min-width: 0 } }
    @media screen and (prefers-color-scheme: dark) {
      .shaded { --met0: #0d1117; --met1: #0c2d6b; --met2: #0d419d; --met3: #1158c7; --met4: #1763d4; --met: #4cc2e0; --page: #0d1117; --ink: #e6edf3 }
      .node.possible :is(path, polygon, ellipse):not([fill="none"]), .shaded .node.possible[data-states] :is(path, polygon):not([fill="none"]) { fill: #4b2a86 }
      .node.possible :is(path, polygon, ellipse) { stroke: #c9a6ff }
      .node:focus-visible { outline-color: #79b8ff } .node.current :is(path, polygon, ellipse) { stroke: #79b8ff }
      .node.broken :is(path, polygon, ellipse) { stroke: #ff7b72 }
      .edge.taken path { stroke: #79b8ff } .edge.taken polygon { stroke: #79b8ff; fill: #79b8ff }
      .step.now { fill: #79b8ff }
    }`;

  /** A drawing in a shadow root, so that the styles in it are its own. */
  function drawn(text, label, style = "") {
    const host = h("div", { class: "drawing" });
    const root = host.attachShadow({ mode: "open" });
    const svg = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", label);
    host.style.setProperty("--own", `${parseFloat(svg.getAttribute("width"))}px`);
    root.append(svg, h("style", {}, style, MARKS));
    return { host, svg };
  }

  const heatOf = (count) => `heat${Math.min(4, 1 + Math.floor(Math.log10(count)))}`;
  const HEATS = [1, 10, 100, 1000].map(heatOf);
  const metText = (count) => (count ? `met ${plural(count, "time")}` : "never met");

  /** The text at the upper right corner of a state that says how often it was met. */
  function counter(node) {
    const corners = node.querySelector("path, polygon");
    const numbers = (corners.getAttribute("d") ?? corners.getAttribute("points")).match(/-?[\d.]+/g).map(Number);
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    text.setAttribute("class", "count");
    text.setAttribute("x", Math.max(...numbers.filter((_, index) => index % 2 === 0)) - 6);
    text.setAttribute("y", Math.min(...numbers.filter((_, index) => index % 2)) + 2);
    node.append(text);
    return text;
  }

  /** The state chart of a machine, whose states can be chosen; *mark* shows where something is, *shade* how often it was met. */
  function diagram(machine, profile, choose, chooseCell) {
    const { host, svg } = drawn(machine.pictures[profile.picture], `State chart of ${machine.name}`);
    const nodes = bare({}), labels = new Map(), counts = new Map();
    function label(node, text) {
      node.querySelector("title").textContent = text;
      if (choose) node.setAttribute("aria-label", text);
    }
    for (const node of svg.querySelectorAll("g.node[data-states]")) {
      const states = node.dataset.states.split(" ");
      for (const state of states) (nodes[state] ??= []).push(node);
      const written = [...node.querySelectorAll("text")].map((each) => each.textContent).join(" ");
      for (const inner of node.querySelectorAll("a")) {  // which Graphviz makes for what a pointer shows
        inner.replaceWith(...inner.childNodes);
      }
      labels.set(node, (seen) => `${written}${seen}: ${states.map((state) => machine.byName[state].about).join(" ")}`);
      label(node, labels.get(node)(""));
      if (!choose) continue;
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "button");
      const chosen = () => choose(states.find((state) => profile.walks[state]) ?? states[0]);
      node.addEventListener("click", chosen);
      node.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); chosen(); }
      });
    }
    const edges = [...svg.querySelectorAll("g.edge[data-from]")];
    const arrows = edges.map((edge) => {
      const { from, to } = edge.dataset;
      const words = edge.querySelector(".cell") ? edge.querySelectorAll(".cell") : svg.querySelectorAll(`.cell[data-state="${CSS.escape(from)}"][data-to="${CSS.escape(to)}"]`);
      const sources = from in nodes ? nodes[from][0].dataset.states.split(" ") : Object.keys(nodes);
      const cells = [...words].flatMap((word) => {
        const row = machine.rowOf[`${word.dataset.ends ? "…" : ""}${word.dataset.event}`];
        return row === undefined ? [] : sources.map((state) => row * machine.states.length + machine.byName[state].index);
      });
      return { edge, cells: new Set(cells), to: new Set((nodes[to]?.[0].dataset.states.split(" ") ?? []).map((state) => machine.byName[state].index)) };
    });
    for (const each of svg.querySelectorAll("g.edge > title")) each.remove();
    for (const cell of choose ? svg.querySelectorAll("g.cell[data-state]") : []) {
      const state = cell.dataset.state in machine.byName ? () => cell.dataset.state : () => machine.states[machine.initial].name;
      cell.addEventListener("click", () => chooseCell(`${cell.dataset.ends ? "…" : ""}${cell.dataset.event}/${state()}`));
    }
    function mark({ current = [], possible = [], broken = [], taken = null }) {
      for (const each of svg.querySelectorAll(".current, .possible, .broken, .taken")) each.classList.remove("current", "possible", "broken", "taken");
      for (const [kind, states] of Object.entries({ current, possible, broken })) {
        for (const state of states) for (const node of nodes[state] ?? []) {
          node.classList.add(kind);
        }
      }
      for (const list of Object.values(nodes)) for (const node of list) if (choose) node.removeAttribute("aria-current");
      if (choose) for (const state of current) for (const node of nodes[state] ?? []) node.setAttribute("aria-current", "step");
      const first = nodes[current[0] ?? broken[0] ?? possible[0]]?.[0];
      if (first) requestAnimationFrame(() => {  // where the drawing is wider than the screen
        const [box, at] = [host.getBoundingClientRect(), first.getBoundingClientRect()];
        host.scrollLeft += at.left + at.width / 2 - box.left - box.width / 2;
        const view = host.closest(".picture"), around = view?.getBoundingClientRect();
        if (around && view.scrollHeight > view.clientHeight) view.scrollTop += at.top + at.height / 2 - around.top - around.height / 2;
      });
      for (const edge of taken ? edges : []) {
        const drawn = (state) => nodes[state]?.[0]?.dataset.states.split(" ")[0];
        if ([drawn(taken[0]), "*"].includes(edge.dataset.from) && edge.dataset.to === drawn(taken[1])) edge.classList.add("taken");
      }
    }
    /** Shades what *steps* met: each has how often it met each cell, and the states that were possible after it, if that is known. */
    function shade(steps) {
      const states = new Map(), taken = new Map(), vague = new Set();
      for (const { met, after } of steps) for (const [cell, often] of Object.entries(met ?? {})) {
        const state = machine.states[cell % machine.states.length].name;
        states.set(state, (states.get(state) ?? 0) + often);
        const those = arrows.filter((arrow) => arrow.cells.has(Number(cell)));
        const led = those.filter((arrow) => after?.some((to) => arrow.to.has(to)));
        for (const arrow of led.length ? led : those) {
          taken.set(arrow, (taken.get(arrow) ?? 0) + often);
          if (those.length > 1 && led.length !== 1) vague.add(arrow);
        }
      }
      svg.classList.add("shaded");
      for (const node of labels.keys()) {
        const count = node.dataset.states.split(" ").reduce((sum, state) => sum + (states.get(state) ?? 0), 0);
        node.classList.remove(...HEATS);
        if (count) node.classList.add(heatOf(count));
        if (!counts.has(node)) counts.set(node, counter(node));
        const times = counts.get(node).textContent = count ? `${count.toLocaleString("en")}×` : "";
        label(node, `${labels.get(node)(times && ` ${times}`)} — ${metText(count)}`);
      }
      for (const arrow of arrows) {
        const count = taken.get(arrow) ?? 0;
        arrow.edge.classList.remove(...HEATS);
        if (count) arrow.edge.classList.add(heatOf(count));
        const title = arrow.edge.querySelector(":scope > title") ?? document.createElementNS("http://www.w3.org/2000/svg", "title");
        title.textContent = arrow.cells.size ? `${metText(count)}${count && vague.has(arrow) ? ", whichever way it went" : ""}` : "";
        arrow.edge.prepend(title);
      }
    }
    return { host, mark, shade };
  }

  /** What the shades of a state chart mean. */
  const shades = (when) => [h("span", {}, `Met ${when}:`), ["1×", "10×", "100×", "1,000×"].map((often, index) => h("span", { class: `cell ${HEATS[index]}` }, often)), h("span", {}, "or more; thicker arrows: more often. The numbers say how often.")];

  // -- a machine -------------------------------------------------------------------------------------------------------

  /** Adds to *machine* what is found by name, and all cells of each profile. */
  function prepare(machine) {
    const width = machine.states.length;
    machine.byName = bare(Object.fromEntries(machine.states.map((state, index) => [state.name, { ...state, index }])));
    machine.rowOf = bare(Object.fromEntries(machine.rows.map((row, index) => [row.name, index])));
    const base = machine.profiles[0];
    for (const profile of machine.profiles) {
      profile.all = profile.cells ?? base.cells.map((cell, index) => profile.others[index] ?? cell);
      profile.cell = (row, state) => profile.all[row * width + state];
    }
    const begins = (now) => recordingOf(now)?.judgements.find((each) => each.machine === machine.name)?.profile ?? machine.profile;
    machine.profileOf = (now) => machine.profiles.find((each) => each.name === named(now.profile ?? begins(now))) ?? base;
    return machine;
  }

  /** What the headings of a machine are called by; of a system, 0. */
  const of = (machine) => (machine ? data.machines.indexOf(machine) + 1 : 0);
  const called = (row) => row.rpc || row.event;
  const named = (profile) => (profile === NONE ? "" : profile);
  const profileName = (profile) => profile.name || "no profile";

  function wayText(machine, way, state, { several }) {
    const target = machine.states[way.to].name;
    const parts = [];
    if (several && way.key !== target) parts.push(`${way.key.replace(/^unspecified-.*/, "unspecified")}:`);
    parts.push(way.to === state ? `stays ${target}` : `→ ${target}`);
    if (way.call === "begins") parts.push("(begins; others may call meanwhile)");
    if (way.call === "on") parts.push("(goes on)");
    if (way.reply) parts.push(`· replies ${either(way.reply.map(replyText))}`);
    if (way.emits) parts.push(`· puts out ${way.emits.join(", ")}`);
    if (way.within) parts.push(`· leaves it within ${way.within} s`);
    if (way.deviation) parts.push(`· deviation ${way.deviation}`);
    return parts.join(" ");
  }

  const MEANS = {
    moves: "", ignores: "nothing changes", refuses: "refused; nothing changes",
    cannot: "cannot happen here", silent: "not specified: anything may happen",
  };

  /** What other profiles do in a cell in which *profile* does something else. */
  function otherwise(machine, profile, row, state) {
    const index = row * machine.states.length + state;
    const here = JSON.stringify(profile.all[index]);
    const groups = new Map();
    for (const other of machine.profiles) {
      const cell = JSON.stringify(other.all[index]);
      if (cell !== here) groups.set(cell, [...(groups.get(cell) ?? []), other]);
    }
    return [...groups.values()].map((those) => {
      const cell = those[0].all[index];
      const changes = those.flatMap((each) => each.changes.filter((change) => change.event === machine.rows[row].event && change.states.includes(machine.states[state].name)));
      const abouts = [...new Set(changes.map((change) => change.about).filter(Boolean))];
      const names = those.map(profileName);
      return { names, item: h("li", {}, h("strong", {}, names.join(", ")), ": ", cellText(machine, cell, state),
        abouts.length ? h("span", { class: "about" }, ` — ${abouts.join(" ")}`) : null) };
    });
  }

  function cellText(machine, cell, state) {
    const ways = cell.is === "silent" ? [] : cell.ways;
    const said = ways.map((way) => wayText(machine, way, state, { several: ways.length > 1 })).join("; or ");
    return [said, MEANS[cell.is]].filter(Boolean).join(" — ") || "cannot be in progress here";
  }

  /** One event in one state: its ways, each a button if it can be *taken*, the clause, and what others do. */
  function eventItem(machine, profile, row, state, take) {
    const event = machine.rows[row], cell = profile.cell(row, state);
    const several = cell.ways.length > 1;
    const ways = cell.ways.map((way) => {
      const text = wayText(machine, way, state, { several });
      const about = way.about ? h("span", { class: "about" }, way.about) : null;
      const kind = `way${way.deviation ? " deviates" : ""}${way.reply && !way.reply.includes("ok") ? " fails" : ""}`;
      return h("li", {}, take ? h("button", { type: "button", class: kind, "data-step": `${event.name}/${way.key}`, click: () => take(event, way) },
        h("span", { class: "spoken" }, `${called(event)} `), text) : h("span", { class: kind }, text), about);
    });
    const others = otherwise(machine, profile, row, state);
    const head = h("h4", {}, event.ends ? `… ${called(event)} goes on` : called(event), " ", h("span", { class: "kind" }, event.ends ? "in progress" : event.kind), event.rpc && event.rpc !== event.event ? h("code", { class: "kind" }, event.event) : null, MEANS[cell.is] ? h("span", { class: "means" }, MEANS[cell.is]) : null);
    const list = h("ul", { class: "ways" }, ways);
    return h("article", { class: `event ${cell.is}`, "data-event": event.name },
      head,
      cell.is === "silent" && ways.length > 1 ? h("details", {}, h("summary", {}, "go to one of the states"), list) : ways.length ? list : null,
      clauseText(machine.clauses[cell.clause]),
      others.length ? h("details", { class: "otherwise" }, h("summary", {}, `Otherwise: ${others.flatMap((each) => each.names).join(", ")}`), h("ul", {}, others.map((each) => each.item))) : null);
  }

  // -- a walk ----------------------------------------------------------------------------------------------------------

  /** Where the steps lead: each with the place before and after; it ends before a step that is not possible. */
  function walked(machine, profile, from, steps) {
    let at = { state: from, calls: [] };
    const taken = [];
    for (const step of steps) {
      const slash = step.indexOf("/");
      const row = machine.rowOf[step.slice(0, slash)];
      const way = row === undefined ? undefined : profile.cell(row, at.state).ways.find((each) => each.key === step.slice(slash + 1));
      if (!way || (machine.rows[row].ends && !at.calls.includes(row - 1))) return { at, taken, wrong: step };
      const next = { state: way.to, calls: after(at.calls, row, way) };
      taken.push({ row, way, step, before: at, after: next });
      at = next;
    }
    return { at, taken, wrong: "" };
  }

  /** The calls in progress once *way* of *row* was taken. */
  function after(calls, row, way) {
    if (way.call === "begins") return [...calls, row];
    if (way.call === "interrupts") return [];
    if (way.call !== "ends" && way.call !== "unspecified") return calls;
    const at = calls.indexOf(row - 1);
    return calls.filter((_, index) => index !== at);
  }

  const steps = (now) => (now.walk ? now.walk.split(" ") : []);

  function walkSection(machine) {
    const picture = h("div", { class: "picture" });
    const panel = h("div", { class: "panel" });
    const key = data.recordings ? h("p", { class: "key" }, shades("by the recording")) : null;
    let shownProfile = null, chart = null, shownCounts = null;
    const heading = h("h3", { tabindex: "-1", class: "now" });

    const start = (now) => machine.byName[now.from]?.index ?? machine.initial;
    const take = (row, way) => {
      const now = place();
      go({ walk: [...steps(now), `${row.name}/${way.key}`].join(" ") });
      heading.focus({ preventScroll: true });
      panel.scrollTop = 0;
      say(`${called(row)}: now in ${machine.states[way.to].name}`);
    };
    const choose = (state) => {
      const way = machine.profileOf(place()).walks[state];
      go(way ? { walk: way.join(" "), from: "" } : { walk: "", from: state });
      say(`now in ${state}`);
    };

    views.push((now) => {
      if ((now.machine ?? data.machines[0].name) !== machine.name) return;
      const profile = machine.profileOf(now);
      if (profile !== shownProfile) {
        chart = diagram(machine, profile, choose, (cell) => { go({ cell }); section.parentElement.querySelector(".table").scrollIntoView(); });
        fill(picture, key, chart.host);
        shownProfile = profile;
        shownCounts = null;
      }
      const counted = coverageOf(machine, now);
      if (key && counted !== shownCounts) {
        shownCounts = counted;
        const cells = machine.rows.flatMap((row, index) => machine.states.map((state, at) => [index * machine.states.length + at, counted?.[row.name]?.[state.name]]));
        chart.shade([{ met: Object.fromEntries(cells.filter(([, count]) => count)) }]);
      }
      const from = start(now);
      const { at, taken, wrong } = walked(machine, profile, from, steps(now));
      const last = taken.at(-1);
      const name = machine.states[at.state].name;
      chart.mark({ current: [name], taken: last ? [machine.states[last.before.state].name, name] : null });
      fill(heading, "Now in ", h("strong", {}, name), " ", machine.states[at.state].kind ? h("span", { class: "kind" }, machine.states[at.state].kind) : null);
      const state = machine.states[at.state];
      const rows = machine.rows.map((row, index) => index);
      const own = rows.filter((row) => !machine.rows[row].ends);
      const is = (row) => profile.cell(row, at.state).is;
      const may = own.filter((row) => profile.cell(row, at.state).ways.length);
      const calls = may.filter((row) => machine.rows[row].kind === "call");
      const others = may.filter((row) => machine.rows[row].kind !== "call");
      const cannot = own.filter((row) => is(row) === "cannot");
      const going = [...new Set(at.calls)];
      const items = (those, open) => those.map((row) => eventItem(machine, profile, row, at.state, open ? take : null));
      fill(panel,
        heading,
        h("p", {}, state.about, state.shows ? h("span", { class: "about" }, ` Shows ${state.shows}.`) : null),
        from !== machine.initial ? h("p", { class: "note" }, profile.walks[machine.states[from].name] ? `The walk began in ${machine.states[from].name}.` : `Under ${profileName(profile)} nothing leads to ${machine.states[from].name}: the walk begins there.`) : null,
        wrong ? h("p", { class: "note wrong", role: "alert" }, `The walk in the link ends here: under ${profileName(profile)} its next step, ${wrong}, is not possible.`) : null,
        walkBar(machine, taken, from),
        at.calls.length ? [h("h3", {}, "Calls in progress"), items(going.map((row) => row + 1), true)] : null,
        calls.length ? [h("h3", {}, "A client may call"), items(calls, true)] : null,
        others.length ? [h("h3", {}, "May happen without a call"), items(others, true)] : null,
        cannot.length ? h("details", {}, h("summary", {}, `${plural(cannot.length, "event")} cannot happen here`), items(cannot, false)) : null);
    });
    const section = h("section", { class: "walk", "aria-labelledby": `walk-${of(machine)}` },
      h("h2", { id: `walk-${of(machine)}` }, "Walk through it"),
      h("p", { class: "hint" }, "Choose a state in the chart, or what happens next beside it. Back and forward of the browser go through the walk; the link keeps it."),
      h("div", { class: "two" }, picture, panel));
    return section;
  }

  function walkBar(machine, taken, from) {
    const items = [h("li", {}, h("button", { type: "button", class: "step", click: () => go({ walk: "" }) }, machine.states[from].name))];
    taken.forEach((each, index) => {
      const row = machine.rows[each.row];
      const to = machine.states[each.after.state].name;
      const text = `${row.ends ? "… " : ""}${called(row)}${each.way.reply ? ` ${either(each.way.reply.map(replyText))}` : ""} → ${to}`;
      const here = index === taken.length - 1;
      items.push(h("li", {}, h("button", { type: "button", class: "step", "aria-current": here ? "step" : false, click: () => go({ walk: taken.slice(0, index + 1).map((one) => one.step).join(" ") }) }, text)));
    });
    return h("nav", { class: "walked", "aria-label": "The walk so far" }, h("ol", {}, items),
      taken.length ? h("p", {}, h("button", { type: "button", class: "plain", click: () => go({ walk: taken.slice(0, -1).map((one) => one.step).join(" ") }) }, "One step back"), " ",
        h("button", { type: "button", class: "plain", click: () => go({ walk: "", from: "" }) }, "Start again")) : null);
  }

  // -- the table -------------------------------------------------------------------------------------------------------

  function shortText(machine, cell, row, state) {
    if (!cell.is) return "";
    if (cell.is === "cannot") return "–";
    if (cell.is === "silent") return "?";
    if (cell.is === "ignores") return machine.rows[row].kind === "call" ? "ok" : "·";
    if (cell.is === "refuses") return `✗ ${either((cell.ways[0].reply ?? []).map((each) => (each === "error" ? "error" : each)))}`;
    const stays = (way) => (way.reply ? way.reply.map((each) => (each === "ok" ? "ok" : `✗ ${each}`)).join(" or ") : "stays");
    return [...new Set(cell.ways.map((way) => (way.to === state ? stays(way) : `→ ${machine.states[way.to].name}`)))].join(", ");
  }

  function tableSection(machine) {
    const box = h("div", { class: "wide", role: "region", "aria-label": `Every event in every state of ${machine.name}`, tabindex: "0" });
    const detail = h("div", { class: "detail", "aria-live": "polite" });
    let shownProfile = null, buttons = [];
    const counts = () => coverageOf(machine, place());
    let shownCounts = null;

    function cellButton(profile, row, state) {
      const cell = profile.cell(row, state);
      const base = machine.profiles[0];
      const changed = profile !== base && JSON.stringify(cell) !== JSON.stringify(base.cell(row, state));
      const count = shownCounts?.[machine.rows[row].name]?.[machine.states[state].name];
      const name = `${machine.rows[row].name}/${machine.states[state].name}`;
      const rest = [cellText(machine, cell, state), changed ? `changed by ${profile.name}` : "", count === 0 ? "never met" : ""].filter(Boolean).join(", ");
      const heat = count ? ` ${heatOf(count)}` : count === 0 ? " unmet" : "";
      const made = h("button", {
        type: "button", class: `cell ${cell.is || "none"}${changed ? " changed" : ""}${heat}`, tabindex: "-1", "data-cell": name,
        click: () => go({ cell: name }), keydown: (event) => move(event, row, state),
      }, h("span", { class: "spoken" }, `${called(machine.rows[row])}${machine.rows[row].ends ? " in progress" : ""} in ${machine.states[state].name}: `),
      shortText(machine, cell, row, state), h("span", { class: "spoken" }, `; ${rest}`), count ? h("span", { class: "count" }, ` ${count.toLocaleString("en")}×`) : null);
      (buttons[row] ??= [])[state] = made;
      return made;
    }

    function move(event, row, state) {
      const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -state], End: [0, machine.states.length - 1 - state] }[event.key];
      if (!by) return;
      event.preventDefault();
      let [there, beside] = [row + by[0], state + by[1]];
      while (buttons[there] && !buttons[there][beside] && by[0]) there += by[0];
      while (buttons[there] && !buttons[there][beside] && by[1] && beside >= 0 && beside < machine.states.length) beside += by[1];
      const to = buttons[there]?.[beside];
      if (to) { rove(to); to.focus(); }
    }

    function rove(to) {
      for (const line of buttons) for (const each of line ?? []) each?.setAttribute("tabindex", each === to ? "0" : "-1");
    }

    views.push((now) => {
      if ((now.machine ?? data.machines[0].name) !== machine.name) return;
      const profile = machine.profileOf(now);
      if (profile !== shownProfile || counts() !== shownCounts) {
        buttons = [];
        shownCounts = counts();
        const body = machine.rows.map((row, index) => h("tr", {}, h("th", { scope: "row" }, row.ends ? `… ${row.event}` : row.event, h("span", { class: "kind" }, row.ends ? "goes on" : row.kind)),
          machine.states.map((_, state) => {
            const cell = profile.cell(index, state);
            return h("td", {}, cell.is ? cellButton(profile, index, state) : null);
          })));
        fill(box, h("table", { class: "matrix" }, h("thead", {}, h("tr", {}, h("td", {}), machine.states.map((state) => h("th", { scope: "col" }, state.name)))), h("tbody", {}, body)));
        rove(buttons.flat().find(Boolean));
        shownProfile = profile;
      }
      const [event, state] = [now.cell?.slice(0, now.cell.lastIndexOf("/")), now.cell?.slice(now.cell.lastIndexOf("/") + 1)];
      const row = machine.rowOf[event], at = machine.byName[state]?.index;
      for (const line of buttons) for (const each of line ?? []) each?.removeAttribute("aria-pressed");
      const chosen = buttons[row]?.[at];
      if (chosen) {
        chosen.setAttribute("aria-pressed", "true");
        rove(chosen);
        fill(detail, h("h3", {}, `${called(machine.rows[row])} in ${state}`), eventItem(machine, profile, row, at, null),
          h("p", {}, h("button", { type: "button", class: "plain", click: () => { const way = profile.walks[state]; go(way ? { walk: way.join(" "), from: "" } : { walk: "", from: state }); detail.closest(".machine").querySelector(".now").focus(); } }, `Walk to ${state}`)));
      } else fill(detail, h("p", { class: "hint" }, "Choose a cell: its clause, who says so, and what each profile does there."));
    });
    const key = [["ignores", "ok", "nothing changes"], ["moves", "→", "leads on"], ["refuses", "✗", "refused"], ["cannot", "–", "cannot happen"], ["silent", "?", "not specified"]];
    return h("section", { class: "table", "aria-labelledby": `table-${of(machine)}` }, h("h2", { id: `table-${of(machine)}` }, "Every event in every state"),
      h("p", { class: "key" }, key.map(([kind, sign, means]) => h("span", { class: `cell ${kind}` }, `${sign} ${means}`)),
        data.recordings ? [h("span", { class: "cell heat2" }, "12× so often in the recording"), h("span", { class: "cell unmet" }, "never met")] : null,
        machine.profiles.length > 1 ? h("span", { class: "cell changed" }, "changed by the profile") : null),
      h("p", { class: "hint" }, "Arrow keys go from cell to cell."), box, detail);
  }

  // -- properties ------------------------------------------------------------------------------------------------------

  const ORDER = ["FAILS", "MENDED", "violated", "known", "unknown", "vacuous", "undecided", "holds"];

  function propertySection(stated, machine) {
    const box = h("div", {});
    let shown = null;
    views.push((now) => {
      const profile = machine ? machine.profileOf(now).name : named(now.profile ?? data.profile);
      if (profile === shown) return;
      shown = profile;
      const rank = (each) => ORDER.indexOf(verdictOf(each, profile)?.status);
      const sorted = [...stated.list].sort((one, other) => rank(one) - rank(other));
      const tally = new Map();
      for (const each of sorted) { const word = verdictOf(each, profile)?.status ?? "not checked"; tally.set(word, (tally.get(word) ?? 0) + 1); }
      fill(box, h("p", {}, [...tally].map(([word, count]) => [badge(word), ` ${count} `])), sorted.map((each) => propertyItem(stated, each, profile, machine)));
    });
    return h("section", { class: "properties", "aria-labelledby": `properties-${of(machine)}` }, h("h2", { id: `properties-${of(machine)}` }, "What is claimed of it"), box);
  }

  const verdictOf = (stated, profile) => stated.verdicts[profile] ?? stated.verdicts[""];

  function propertyItem(all, stated, profile, machine) {
    const verdict = verdictOf(stated, profile);
    const inside = h("div", {});
    const made = h("details", { class: "property", "data-property": stated.name, toggle: () => {
      if (!made.open || inside.childNodes.length) return;
      const under = Object.entries(stated.verdicts);
      fill(inside, h("p", { class: "source" }, `${stated.source} `, link(stated.link, "source")),
        verdict.why ? h("p", {}, verdict.why) : null,
        verdict.known ? h("p", {}, h("strong", {}, "As is known: "), verdict.known, " ", link(verdict.link, "report")) : null,
        under.length > 1 ? h("p", {}, "Under each profile: ", under.map(([name, each]) => [h("span", { class: "nowrap" }, `${name || "no profile"} `, badge(each.status)), " "])) : null,
        verdict.runs.map((number, index) => replayer(all.runs[number], all.style, machine, profile, verdict.status === "holds" ? "A run that shows it" : "The shortest run that breaks it", `${stated.name}, run ${index + 1}`)));
    } }, h("summary", {}, badge(verdict?.status ?? "not checked"), " ", h("strong", {}, stated.name), " ", badge(stated.level), " ", h("span", {}, stated.says)), inside);
    return made;
  }

  /** A run, one step at a time: the steps, the state chart of a machine, and the sequence chart beside them. */
  function replayer(run, style, machine, profile, title, name) {
    let at = 0;
    const picture = machine ? diagram(machine, machine.profiles.find((each) => each.name === profile) ?? machine.profiles[0], null) : null;
    const { host, svg } = drawn(run.chart, `Sequence chart: ${name}`, style);
    for (const each of [picture?.host, host]) each?.setAttribute("tabindex", "0");  // a region that scrolls
    const lines = run.steps.map((step, index) => h("li", {}, h("button", { type: "button", class: "step", click: () => to(index + 1) }, step.what,
      h("span", { class: "about" }, step.parts.length ? ` ${step.parts.join("; ")}` : step.source === step.target ? ` stays ${step.target}` : ` ${step.source} → ${step.target}`)),
      index === run.cycle ? h("span", { class: "note" }, " from here on for ever") : null,
      index === run.breaks - 1 ? [" ", h("span", { class: "badge violation" }, "✗ breaks it")] : null));
    const stops = run.stopped ? h("div", { class: "note wrong" }, "And then nothing happens any more.", run.waits.length ? h("ul", {}, run.waits.map((each) => h("li", {}, each))) : null) : null;
    const slider = h("input", { type: "range", min: "0", max: String(run.steps.length), value: "0", "aria-label": `Step of ${name}`, input: () => to(Number(slider.value)) });
    const where = h("p", { role: "status" });
    function to(step) {
      at = Math.max(0, Math.min(run.steps.length, step));
      slider.value = String(at);
      const taken = at ? run.steps[at - 1] : null;
      const state = taken ? taken.target : run.initial;
      where.textContent = at ? `Step ${at} of ${run.steps.length}: ${taken.what}${machine ? `; then ${state}` : ""}${at === run.breaks ? "; this breaks it" : ""}${at === run.steps.length && run.stopped ? "; and then nothing happens any more" : ""}` : `It starts ${machine ? "in" : run.initial === "the beginning" ? "at" : "with"} ${run.initial}`;
      lines.forEach((line, index) => line.firstChild.toggleAttribute("aria-current", index === at - 1));
      if (at) lines[at - 1].firstChild.setAttribute("aria-current", "step");
      picture?.mark({ current: [state], taken: taken ? [taken.source, taken.target] : null });
      for (const text of svg.querySelectorAll(".step")) text.classList.toggle("now", text.textContent.replace("✗ ", "").startsWith(`${at}. `));
    }
    to(0);
    return h("div", { class: "replay" }, h("h4", {}, title), where,
      h("p", { class: "controls" }, h("button", { type: "button", class: "plain", click: () => to(at - 1) }, "Previous"), slider, h("button", { type: "button", class: "plain", click: () => to(at + 1) }, "Next")),
      h("div", { class: "three" }, h("div", {}, h("ol", { class: "run" }, lines), stops), picture?.host, host));
  }

  // -- profiles --------------------------------------------------------------------------------------------------------

  function profileChoice() {
    const names = [...new Set(data.machines.flatMap((machine) => machine.profiles.map((each) => each.name)).concat(data.system ? data.system.profiles : []))];
    if (names.length < 2) return null;
    const select = h("select", { id: "profile", change: () => go({ profile: select.value || NONE }) }, names.map((name) => h("option", { value: name }, name || "no profile: what every version may do")));
    views.push((now) => {
      const machine = data.machines.find((each) => each.name === now.machine) ?? data.machines[0];
      select.value = data.system ? named(now.profile ?? data.profile) : machine.profileOf(now).name;
    });
    return h("p", { class: "choice" }, h("label", { for: "profile" }, "As the profile has it: "), select);
  }

  function changesSection(machine) {
    const changing = machine.profiles.filter((each) => each.changes.length);
    if (!changing.length) return null;
    return h("section", { class: "profiles", "aria-labelledby": `profiles-${of(machine)}` }, h("h2", { id: `profiles-${of(machine)}` }, "What each profile changes"),
      changing.map((profile) => h("details", {}, h("summary", {}, h("strong", {}, profile.name), ` ${profile.about}`),
        h("ul", {}, profile.changes.map((change) => h("li", {}, h("strong", {}, change.name), change.clause ? [" ", badge("deviation")] : null, ` ${change.event} in `,
          change.states.map((state, index) => [index ? ", " : "", h("button", { type: "button", class: "linked", click: (event) => { go({ profile: profile.name, cell: `${change.event}/${state}` }); event.target.closest(".machine").querySelector(".table").scrollIntoView(); } }, state)]),
          `: ${change.about} `, link(change.link, "report"), change.clause ? clauseText(machine.clauses[change.clause]) : null))))));
  }

  function clausesSection(machine) {
    return h("section", { class: "clauses", "aria-labelledby": `clauses-${of(machine)}` }, h("h2", { id: `clauses-${of(machine)}` }, "Clauses"),
      h("details", {}, h("summary", {}, plural(Object.keys(machine.clauses).length, "clause")), Object.values(machine.clauses).map(clauseText)));
  }

  // -- a system --------------------------------------------------------------------------------------------------------

  /** Whether a condition holds, by the states of the copies. */
  function holds(condition, here) {
    if (!condition) return true;
    const [kind, ...of] = condition;
    if (kind === "not") return !holds(of[0], here);
    if (kind === "all") return of.every((each) => holds(each, here));
    if (kind === "some") return of.some((each) => holds(each, here));
    const [copies, states, every] = of;
    const is = (copy) => states.includes(here[copy]);
    return every ? copies.every(is) : copies.some(is);
  }

  /** What a joint event may do where the copies are in the states *before*: the steps of its parts, one after the other. *states* are those without the calls in progress. */
  function jointly(system, event, before, states) {
    if (!event || !holds(event.when, before)) return [];
    const found = new Map(), known = {};
    for (const way of event.ways) {
      if (!holds(way.when, before)) continue;
      let going = [{ here: before, done: [], error: [] }];
      const ended = [];
      for (const move of way.moves) {
        const following = [];
        for (const run of going) {
          if (!holds(move.when, run.here)) { following.push(run); continue; }
          const heard = holds(move.heard, run.here);
          for (const option of system.options[move.options][run.here[move.copy]]) {
            const here = run.here.map((state, copy) => (copy === move.copy ? option.to : state));
            const done = [...run.done, { copy: move.copy, event: move.event, ends: move.ends, outcome: option.outcome, from: states[move.copy][run.here[move.copy]], to: states[move.copy][option.to], emits: heard ? option.emits : [] }];
            (option.error.length ? ended : following).push({ here, done, error: option.error });
          }
        }
        going = following;
      }
      for (const run of [...going, ...ended]) {
        const reply = run.error.length ? run.error : way.reply;
        const emits = run.done.flatMap((each) => each.emits.map((output) => [each.copy, output]));
        const same = JSON.stringify([run.here, way.name, reply, emits]);
        if (found.has(same)) continue;
        known[way.name] = (known[way.name] ?? 0) + 1;
        const key = known[way.name] === 1 ? way.name : `${way.name}.${known[way.name]}`;
        found.set(same, { key, name: way.name, about: way.about, reply, emits, done: run.done, to: run.here });
      }
    }
    return [...found.values()];
  }

  function systemSection(system) {
    const machineOf = (copy) => data.machines[system.copies[copy].machine];
    const stateOf = (copy, state) => machineOf(copy).states[state].name;
    const events = bare(Object.fromEntries(system.events.map((event) => [event.name, event])));
    const stepsOf = (profile) => (system.profiles.includes(profile) ? profile : "");
    const eventOf = (profile, name) => {
      const own = system.steps[stepsOf(profile)];
      return name in own ? own[name] : system.steps[""][name];
    };
    const heading = h("h3", { class: "now", tabindex: "-1" });
    const parts = h("div", { class: "parts" });
    const panel = h("div", { class: "panel" });
    const bar = h("div", {});
    const filter = h("input", { type: "search", id: "filter", input: () => show() });
    const cards = system.copies.map((copy, index) => card(copy, index));
    const taken = (now) => (now.joint ? now.joint.split(" ") : []);

    function card(copy, index) {
      const machine = data.machines[copy.machine];
      const state = h("strong", {});
      const holder = h("div", {});
      const told = h("p", { class: "about" });
      let chart = null, of = null, last = { current: [] };
      const draw = () => {
        if (!details.open) return;
        const profile = machine.profileOf(place());
        if (of !== profile) { chart = diagram(machine, profile, null); chart.host.setAttribute("tabindex", "0"); chart.host.setAttribute("role", "group"); chart.host.setAttribute("aria-label", `State chart of ${copy.name}`); fill(holder, chart.host); of = profile; }
        chart.mark(last);
      };
      const details = h("details", { toggle: () => draw() }, h("summary", {}, `State chart of ${copy.name}`), holder);
      const box = h("article", { class: "card" }, h("h4", {}, copy.name, " ", h("span", { class: "kind" }, machine.name)), h("p", {}, state), told, details);
      details.open = system.copies.length <= 4 || (system.copies.length <= 8 && index < 2);
      return { box, set: (to, done) => {
        state.textContent = machine.states[to].name;
        told.textContent = machine.states[to].about;
        box.classList.toggle("moved", done.length > 0);
        last = { current: [machine.states[to].name], taken: done.length ? [machine.states[done.at(-1).from].name, machine.states[done.at(-1).to].name] : null };
        draw();
      } };
    }

    function doneText(done) {
      return done.filter((each) => each.from !== each.to || each.emits.length).map((each) => {
        const what = each.event ? `${each.event}${each.ends ? " goes on" : ""}` : "is reset";
        const where = each.from === each.to ? `stays ${stateOf(each.copy, each.to)}` : `${stateOf(each.copy, each.from)} → ${stateOf(each.copy, each.to)}`;
        return `${system.copies[each.copy].name}: ${what}, ${where}${each.emits.length ? `, puts out ${each.emits.join(", ")}` : ""}`;
      });
    }

    function walkedJointly(profile, steps) {
      let here = system.copies.map((copy) => copy.initial);
      const found = [];
      for (const step of steps) {
        const slash = step.indexOf("/");
        const name = step.slice(0, slash);
        const way = events[name] ? jointly(system, eventOf(profile, name), here, system.states[stepsOf(profile)]).find((each) => each.key === step.slice(slash + 1)) : undefined;
        if (!way) return { here, found, wrong: step };
        found.push({ step, event: events[name], way });
        here = way.to;
      }
      return { here, found, wrong: "" };
    }

    views.push((now) => {
      const profile = named(now.profile ?? data.profile);
      const { here, found, wrong } = walkedJointly(profile, taken(now));
      const last = found.at(-1);
      const states = here.map((state, copy) => system.states[stepsOf(profile)][copy][state]);
      cards.forEach((each, copy) => each.set(states[copy], last ? last.way.done.filter((one) => one.copy === copy && one.from !== one.to) : []));
      const others = states.map((state, copy) => (state === system.copies[copy].initial ? null : `${system.copies[copy].name} ${stateOf(copy, state)}`)).filter(Boolean);
      fill(heading, "Now ", h("strong", {}, others.length ? others.join(", ") : "at the beginning"));
      fill(bar, wrong ? h("p", { class: "note wrong", role: "alert" }, `The walk in the link ends here: its next step, ${wrong}, is not possible.`) : null,
        h("nav", { class: "walked", "aria-label": "The walk so far" }, h("ol", {}, h("li", {}, h("button", { type: "button", class: "step", click: () => go({ joint: "" }) }, "the beginning")),
          found.map((each, index) => h("li", {}, h("button", { type: "button", class: "step", "aria-current": index === found.length - 1 ? "step" : false, click: () => go({ joint: found.slice(0, index + 1).map((one) => one.step).join(" ") }) }, `${each.event.name}${each.way.reply.length ? ` ${either(each.way.reply.map(replyText))}` : ""}`)))),
        found.length ? h("p", {}, h("button", { type: "button", class: "plain", click: () => go({ joint: found.slice(0, -1).map((one) => one.step).join(" ") }) }, "One step back"), " ", h("button", { type: "button", class: "plain", click: () => go({ joint: "" }) }, "Start again")) : null),
        last ? h("ul", { class: "about" }, doneText(last.way.done).map((each) => h("li", {}, each))) : null);
      const wanted = filter.value.toLowerCase();
      const items = system.events.filter((event) => `${event.name} ${event.rpc}`.toLowerCase().includes(wanted)).map((event) => {
        const ways = jointly(system, eventOf(profile, event.name), here, system.states[stepsOf(profile)]);
        if (!ways.length) return null;
        return [event, h("article", { class: "event", "data-event": event.name }, h("h4", {}, event.rpc || event.name, " ", h("span", { class: "kind" }, event.kind), event.rpc ? h("code", { class: "kind" }, event.name) : null, h("span", { class: "means" }, event.about)),
          h("ul", { class: "ways" }, ways.map((way) => h("li", {}, h("button", { type: "button", class: `way${way.reply.length && !way.reply.includes("ok") ? " fails" : ""}`, "data-step": `${event.name}/${way.key}`, click: () => { go({ joint: [...taken(place()), `${event.name}/${way.key}`].join(" ") }); heading.focus({ preventScroll: true }); panel.scrollTop = 0; say(event.name); } },
            h("span", { class: "spoken" }, `${event.name} `), [way.name, ...(way.reply.length ? [`replies ${either(way.reply.map(replyText))}`] : [])].join(": ")),
          way.about ? h("span", { class: "about" }, way.about) : null, h("ul", { class: "about" }, doneText(way.done).map((each) => h("li", {}, each)))))), clauseText(system.clauses[event.clause]))];
      }).filter(Boolean);
      const of = (calls) => items.filter(([event]) => (event.kind === "call") === calls).map(([, item]) => item);
      fill(panel, heading, bar, h("p", { class: "choice" }, h("label", { for: "filter" }, "Only events with "), filter),
        of(true).length ? [h("h3", {}, "A client may call"), of(true)] : null, of(false).length ? [h("h3", {}, "May happen without a call"), of(false)] : null,
        h("p", { class: "about" }, `${plural(system.events.length - items.length, "joint event")} of ${system.events.length} cannot happen now${wanted ? ", or are not asked for" : ""}.`));
    });
    const note = `Joint states are not stored in this page: what each part does in each of its states is, and the page puts the steps together as fsm does. ${plural(system.copies.length, "copy")} of ${plural(data.machines.length, "machine")}.`;
    fill(parts, cards.map((each) => each.box));
    return h("section", { class: "walk system", "aria-labelledby": "system-title" }, h("h2", { id: "system-title" }, "Walk through it"), h("p", { class: "hint" }, `Choose what happens next; the parts that it moves are marked. ${note}`), h("div", { class: "two" }, parts, panel));
  }

  // -- a recording -----------------------------------------------------------------------------------------------------

  const recordingOf = (now) => data.recordings?.[Number(now.recording ?? 0)] ?? data.recordings?.[0];
  const coverageOf = (machine, now) => recordingOf(now)?.judgements.find((each) => each.machine === machine.name)?.coverage;
  const short = (name) => name.replace(/\b([0-9a-f]{12})[0-9a-f]{52}\b/g, "$1");
  const lineOf = (violation) => `${violation.file}:${violation.line}`;

  function row(label, ...value) {
    return value.flat().filter(Boolean).length ? [h("dt", {}, label), h("dd", {}, value)] : null;
  }

  /** Why an observation breaks a clause: what was possible, what would have been legal, who says so. */
  function reasons(violation) {
    return h("dl", { class: "reasons" },
      row("where", h("code", {}, lineOf(violation)), ` ${violation.at}`),
      row("message", violation.message && short(violation.message)),
      row("possible before", violation.before), row("legal then", violation.allowed),
      row("legal if", violation.legal), row("lines", violation.lines),
      row("clause", clauseText(violation.clause)),
      row("known", violation.known.map((each) => h("p", {}, each)), violation.links.map((each) => [link(each, each), " "])),
      row("stretch", violation.stretch.length ? h("pre", {}, violation.stretch.join("\n")) : null));
  }

  /** The sequence chart of what stands around the first of a finding, with the step marked that breaks the clause. */
  function around(finding) {
    if (!finding?.chart) return null;
    const { host } = drawn(finding.chart, `Sequence chart around ${short(finding.first.what)}`);
    host.setAttribute("tabindex", "0");
    return host;
  }

  function toStory(recording, violation) {
    const index = recording.stories.findIndex((story) => story.entity === violation.entity && story.steps.some((step) => step.broken?.some((each) => each.line === violation.line && each.file === violation.file)));
    if (index < 0) return null;
    const step = recording.stories[index].steps.findIndex((each) => each.broken?.some((one) => one.line === violation.line && one.file === violation.file));
    return h("button", { type: "button", class: "plain", click: () => { go({ entity: String(index), step: String(step + 1) }); document.getElementById("story").focus(); } }, `See what happened to ${short(violation.entity)}`);
  }

  /** The finding of which a violation is the first. */
  const charted = (recording, violation) => recording.judgements.flatMap((each) => each.findings).find((each) => each.first.line === violation.line && each.first.file === violation.file && each.first.entity === violation.entity);

  /** The first violation of a recording, in the order of its lines, as far as stories and findings have it. */
  function firstOf(recording) {
    const found = recording.judgements.flatMap((each) => each.findings.filter((one) => one.word === "violation").map((one) => one.first));
    return found.sort((one, other) => (one.at && other.at ? one.at.localeCompare(other.at) : 0) || one.line - other.line)[0];
  }

  function findingItem(recording, judgement, finding, open) {
    const first = finding.first;
    return h("details", { class: `finding ${finding.word}`, open }, h("summary", {}, badge(finding.word), " ", h("strong", {}, short(first.what)), ` — ${finding.times} `, badge(first.clause.level)),
      h("p", {}, `${judgement.entity} `, h("code", {}, short(first.entity)), " ", toStory(recording, first)), reasons(first), around(finding),
      finding.also.length ? h("p", { class: "about" }, "Also at ", finding.also.map((each, index) => [index ? ", " : "", h("code", {}, lineOf(each))]), finding.count > finding.also.length + 1 ? ` and ${(finding.count - finding.also.length - 1).toLocaleString("en")} more` : "") : null);
  }

  function recordingPage() {
    const box = h("div", {});
    const stories = storySection();
    let shown = null;
    views.push((now) => {
      const recording = recordingOf(now);
      if (recording === shown) return;
      shown = recording;
      const first = firstOf(recording);
      let opened = true;
      const findings = recording.judgements.flatMap((judgement) => judgement.findings.map((finding) => {
        const item = findingItem(recording, judgement, finding, opened);
        opened = false;
        return item;
      }));
      const left = recording.judgements.reduce((sum, each) => sum + each.left, 0);
      fill(box,
        h("p", { class: "verdict" }, badge(recording.verdict === "fails" ? "FAILS" : recording.verdict), ` ${recording.kind}${recording.version ? ` of ${recording.version}` : ""}. ${recording.notes.join(", ")}. ${recording.detected}`),
        data.problems.map((each) => h("p", { class: "note wrong" }, each)),
        first ? h("p", { class: "first" }, h("strong", {}, "First violation: "), `${short(first.what)}, `, h("code", {}, lineOf(first)), " ", toStory(recording, first)) : null,
        h("section", { id: "findings", "aria-labelledby": "findings-title" }, h("h2", { id: "findings-title" }, "What was found"),
          findings.length ? findings : h("p", {}, "No clause was broken."),
          left ? h("p", { class: "note" }, `${plural(left, "other finding")} left out of this page: fsm judge tells them all.`) : null,
          recording.judgements.flatMap((each) => each.tolerated.map((one) => h("details", { class: "finding" }, h("summary", {}, badge("tolerated"), ` ${one.name} of ${one.profile} — ${one.often}, first in line ${one.line}`), h("p", {}, one.what), clauseText(one.clause)))),
          h("ul", {}, recording.judgements.map((each) => h("li", {}, h("strong", {}, each.machine), ` ${each.verdict}${each.why ? `, ${each.why}` : ""}: ${plural(each.entities, each.entity)}, ${plural(each.observations, "observation")}; met ${each.met} of ${plural(each.cells, "cell")}`,
            each.assumed.length ? h("details", {}, h("summary", {}, `explained by assuming what no line shows: ${each.assumed.length}`), h("ul", {}, each.assumed.slice(0, 50).map((one) => h("li", {}, one)))) : null)))));
    });
    return [box, stories];
  }

  function storySection() {
    const box = h("section", { id: "stories", "aria-labelledby": "stories-title" });
    let shownRecording = null, shownStory = null, shownProfile = null, chart = null, list = null, slider = null, told = null, dots = [];
    const heading = h("h3", { id: "story", tabindex: "-1" });
    const chosen = (now, recording) => {
      const first = firstOf(recording);
      const index = now.entity === undefined ? Math.max(0, recording.stories.findIndex((story) => first && story.entity === first.entity)) : Number(now.entity);
      return recording.stories[index] ? index : 0;
    };
    const stepOf = (now, story) => {
      const broken = story.steps.findIndex((each) => each.broken) + 1;
      const step = now.step === undefined ? broken || 1 : Number(now.step);
      return Number.isInteger(step) ? Math.max(1, Math.min(story.steps.length, step)) : 1;
    };
    const at = (index, step) => go({ entity: String(index), step: String(step) });

    function overview(recording) {
      const lines = recording.stories.flatMap((story) => story.steps.map((step) => step.time ?? null));
      const timed = lines.every((each) => each !== null);
      const value = (step) => (timed ? step.time : step.line);
      const values = recording.stories.flatMap((story) => story.steps.map(value));
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const NS = "http://www.w3.org/2000/svg";
      const made = (tag, attributes, ...children) => {
        const each = document.createElementNS(NS, tag);
        for (const [name, of] of Object.entries(attributes)) each.setAttribute(name, of);
        each.append(...children);
        return each;
      };
      const svg = made("svg", { viewBox: `0 0 1000 ${recording.stories.length * 16 + 4}`, preserveAspectRatio: "none", class: "timeline", "aria-hidden": "true", style: `height:${recording.stories.length * 16 + 4}px` });
      recording.stories.forEach((story, index) => {
        const x = (step) => 8 + 984 * (high > low ? (value(step) - low) / (high - low) : 0);
        const y = index * 16 + 10;
        svg.append(made("line", { x1: x(story.steps[0]), x2: x(story.steps.at(-1)), y1: y, y2: y, class: "life" }));
        story.steps.forEach((step, number) => {
          const dot = made("rect", { x: x(step) - (step.broken ? 3 : 1), y: y - (step.broken ? 7 : 4), width: step.broken ? 6 : 2, height: step.broken ? 14 : 8, class: step.broken ? "broken" : "seen" });
          dot.addEventListener("click", () => at(index, number + 1));
          svg.append(dot);
        });
      });
      const clock = (time) => (timed ? new Date(time).toISOString() : `line ${time}`);
      return [h("div", { class: "times" }, h("div", { class: "whose", "aria-hidden": "true" }, recording.stories.map((story) => h("span", {}, short(story.entity)))), svg), h("p", { class: "about ends" }, h("span", {}, clock(low)), h("span", {}, clock(high)))];
    }

    function name(story) {
      return `${data.machines.find((each) => each.name === story.machine).entity} ${short(story.entity)}${story.names.length ? `, ${story.names.at(-1)}` : ""}`;
    }

    views.push((now) => {
      const recording = recordingOf(now);
      if (!recording.stories.length) { fill(box); return; }
      if (recording !== shownRecording) {
        shownRecording = recording;
        shownStory = null;
        const select = h("select", { id: "entity", change: () => at(Number(select.value), stepOf({}, recording.stories[Number(select.value)])) },
          recording.stories.map((story, index) => h("option", { value: String(index) }, `${name(story)} — ${plural(story.all, "observation")}${story.broken ? `, breaks something ${plural(story.broken, "time")}` : ""}`)));
        list = h("ol", { class: "observations" });
        told = h("div", { class: "told", "aria-live": "polite" });
        slider = h("input", { type: "range", min: "1", "aria-label": "Observation", input: () => go({ entity: String(chosen(place(), recording)), step: slider.value }, { replaces: true }) });
        const picture = h("div", { class: "picture" });
        box.select = select;
        box.picture = picture;
        fill(box, h("h2", { id: "stories-title" }, "What happened"),
          overview(recording),
          recording.left ? h("p", { class: "note" }, `This page has the stories of ${plural(recording.stories.length, "entity")}, first those that break something; ${recording.left.toLocaleString("en")} more are judged, and left out.`) : null,
          h("p", { class: "choice" }, h("label", { for: "entity" }, "The story of "), select),
          heading,
          h("p", { class: "controls" }, h("button", { type: "button", class: "plain", click: () => at(chosen(place(), recording), Number(slider.value) - 1) }, "Previous"), slider, h("button", { type: "button", class: "plain", click: () => at(chosen(place(), recording), Number(slider.value) + 1) }, "Next"),
            h("button", { type: "button", class: "plain", click: () => { const story = recording.stories[chosen(place(), recording)]; const next = story.steps.findIndex((each, index) => index >= Number(slider.value) && each.broken); if (next >= 0) at(recording.stories.indexOf(story), next + 1); else say("no violation after this one"); } }, "Next violation")),
          h("div", { class: "two" }, picture, h("div", {}, told, h("div", { class: "panel", role: "region", "aria-label": "All observations", tabindex: "0" }, list))));
      }
      const index = chosen(now, recording);
      const story = recording.stories[index];
      const machine = data.machines.find((each) => each.name === story.machine);
      box.select.value = String(index);
      if (story !== shownStory || machine.profileOf(now) !== shownProfile) {
        shownStory = story;
        shownProfile = machine.profileOf(now);
        chart = diagram(machine, machine.profileOf(now), null);
        chart.host.setAttribute("tabindex", "0");
        fill(box.picture, h("p", { class: "key" }, shades("up to this observation"), h("span", { class: "cell possible" }, "possible after this observation"), h("span", { class: "cell brokenkey" }, "possible before what breaks the clause")), chart.host);
        slider.max = String(story.steps.length);
        dots = story.steps.map((step, number) => h("li", {}, h("button", { type: "button", class: `observation${step.broken ? " broken" : ""}`, click: () => at(index, number + 1) },
          step.broken ? h("span", { class: "badge violation" }, step.broken[0].word) : null, h("code", {}, `:${step.line} `), short(step.what),
          step.before ? h("span", { class: "about" }, ` → ${either(step.after.map((each) => machine.states[each].name))}` ) : null,
          step.tolerated ? h("span", { class: "about" }, ` (tolerated: ${step.tolerated.join(", ")})`) : null)));
        const gaps = story.steps.map((step, number) => (step.number - (number ? story.steps[number - 1].number : 0) - 1));
        fill(list, dots.flatMap((dot, number) => [gaps[number] > 0 ? h("li", { class: "note" }, `${plural(gaps[number], "observation")} left out`) : null, dot]));
      }
      const step = stepOf(now, story);
      const seen = story.steps[step - 1];
      const names = (those) => those.map((each) => machine.states[each].name);
      slider.value = String(step);
      slider.setAttribute("aria-valuetext", `${step} of ${story.steps.length}: ${short(seen.what)}`);
      fill(heading, `${name(story)}: observation ${seen.number} of ${story.all}`);
      const before = names(seen.before ?? seen.after);
      chart.mark({ possible: names(seen.after), broken: seen.broken ? before : [] });
      chart.shade(story.steps.slice(0, step).flatMap((each) => [{ met: each.meanwhile }, each]));
      fill(told, seen.broken ? null : [h("p", {}, h("strong", {}, short(seen.what)), " ", h("code", {}, `${seen.file ?? recording.name}:${seen.line}`), ` ${seen.at}`),
        seen.detail ? h("p", { class: "about" }, short(seen.detail)) : null],
        h("p", {}, `Possible before: ${either(before) || "none"}. After: ${either(names(seen.after)) || "none"}.`),
        seen.why ? h("details", {}, h("summary", {}, "Why these states"), h("dl", { class: "reasons" }, seen.why.map(([label, texts]) => row(label, texts.map((each) => h("p", {}, each)))))) : null,
        seen.broken ? seen.broken.map((each) => h("div", { class: "finding violation" }, h("p", {}, badge(each.word), " ", h("strong", {}, short(each.what))), reasons(each), around(charted(recording, each)))) : null);
      dots.forEach((dot, number) => { if (number === step - 1) dot.firstChild.setAttribute("aria-current", "step"); else dot.firstChild.removeAttribute("aria-current"); });
      const panel = list.parentElement, line = dots[step - 1];
      panel.scrollTop = line.offsetTop - panel.offsetTop - panel.clientHeight / 3;
    });
    return box;
  }

  // -- the page --------------------------------------------------------------------------------------------------------

  function machinePage(machine) {
    prepare(machine);
    const properties = machine.properties?.list.length ? propertySection(machine.properties, machine) : null;
    const box = h("div", { class: "machine" },
      data.machines.length > 1 || data.recordings ? h("p", { class: "about" }, h("strong", {}, machine.name), ` — ${machine.title}. ${machine.about}`) : null,
      walkSection(machine), tableSection(machine), properties, changesSection(machine), clausesSection(machine));
    views.push((now) => { box.hidden = (now.machine ?? data.machines[0].name) !== machine.name; });
    return box;
  }

  function choice(id, label, options, chosen, change) {
    const select = h("select", { id, change: () => change(select.value) }, options.map(([value, text]) => h("option", { value }, text)));
    views.push((now) => { select.value = chosen(now); });
    return h("p", { class: "choice" }, h("label", { for: id }, label), select);
  }

  /** Where one can go in the page: to the heading of each section that is shown. */
  function jumps() {
    const list = h("ul", {});
    let shown = "";
    views.push(() => {
      const titles = [...page.querySelectorAll("section h2")].filter((each) => !each.closest("[hidden]"));
      const names = titles.map((each) => each.textContent).join();
      if (names === shown) return;
      shown = names;
      fill(list, titles.map((each) => h("li", {}, h("button", { type: "button", class: "linked", click: () => { each.setAttribute("tabindex", "-1"); each.scrollIntoView(); each.focus(); } }, each.textContent))));
    });
    return h("nav", { class: "jumps", "aria-label": "In this page" }, list);
  }

  const recordings = data.recordings ? recordingPage() : null;
  const sections = data.machines.map(machinePage);
  const system = data.system ? [systemSection(data.system), data.properties.list.length ? propertySection(data.properties, null) : null, h("h2", {}, "Its parts")] : null;
  fill(page, h("header", {}, h("h1", {}, data.title), data.about ? h("p", {}, data.about) : null, data.source ? h("p", { class: "source" }, `Source: ${data.source}`) : null, data.recordings ? null : profileChoice(), jumps()),
    data.recordings?.length > 1 ? choice("recording", "The recording: ", data.recordings.map((each, index) => [String(index), `${each.name}: ${each.verdict}`]), (now) => now.recording ?? "0", (value) => go({ recording: value, entity: "", step: "", profile: "" })) : null,
    recordings,
    data.recordings ? h("h2", {}, "The specification that it was judged by") : null, data.recordings ? profileChoice() : null,
    system,
    data.machines.length > 1 ? choice("machine", "The lifecycle: ", data.machines.map((each) => [each.name, `${each.name}: ${each.title}`]), (now) => now.machine ?? data.machines[0].name, (value) => go({ machine: value, walk: "", from: "", cell: "" })) : null,
    sections, spoken);
  addEventListener("popstate", show);
  addEventListener("hashchange", show);
  show();
})();
