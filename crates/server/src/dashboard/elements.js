// Numbers as text, and elements of the page. page.js follows in the same script. Every text is set as
// text, never as markup, because keys and names may come from anywhere.
"use strict";

const byId = (id) => document.getElementById(id);

// Numbers

function count(value) {
  if (value >= 1e9) return (value / 1e9).toFixed(2) + "G";
  if (value >= 1e6) return (value / 1e6).toFixed(2) + "M";
  if (value >= 1e5) return (value / 1e3).toFixed(0) + "k";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + "k";
  return String(Math.round(value));
}

function rate(value) {
  return value > 0 && value < 9.95 ? value.toFixed(1) : count(value);
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return (unit === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + units[unit];
}

function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return (value * 1e6).toFixed(value < 1e-5 ? 1 : 0) + " µs";
  if (value < 1) return (value * 1e3).toFixed(value < 0.01 ? 1 : 0) + " ms";
  if (value < 120) return value.toFixed(value < 10 ? 1 : 0) + " s";
  if (value < 7200) return Math.round(value / 60) + " min";
  if (value < 172800) return (value / 3600).toFixed(1) + " h";
  return Math.round(value / 86400) + " days";
}

function clock(millis) {
  return new Date(millis).toLocaleString();
}

// Elements

function text(id, value) {
  const element = byId(id);
  if (element.textContent !== value) element.textContent = value;
}

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Updates children in place, so that focus and scroll position stay.
function rows(parent, items, key, create, update) {
  const known = new Map();
  for (const child of [...parent.children]) {
    // If two items have the same key, the second row is made again each time.
    if (known.has(child.dataset.key)) child.remove();
    else known.set(child.dataset.key, child);
  }
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let row = known.get(name);
    if (row) {
      known.delete(name);
    } else {
      row = create(item);
      row.dataset.key = name;
    }
    update(row, item);
    if (row === place) place = place.nextElementSibling;
    else parent.insertBefore(row, place);
  }
  for (const row of known.values()) row.remove();
}

function cell(row, index, value) {
  const element = row.children[index];
  if (element.textContent !== value) element.textContent = value;
}

// The server draws charts. They are parsed as XML: markup in names was escaped there.
function chart(element, svg) {
  if (!svg) {
    element.replaceChildren(make("p", { class: "empty" }, "No data yet"));
    return;
  }
  if (element.lastSvg === svg) return;
  element.lastSvg = svg;
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (parsed.nodeName === "svg") element.replaceChildren(document.importNode(parsed, true));
}

const SVG = "http://www.w3.org/2000/svg";

function spark(parts) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 " + parts.length * 4 + " 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const most = Math.max(1, ...parts.map(([yes, no]) => yes + no));
  let all = "";
  let denied = "";
  parts.forEach(([yes, no], index) => {
    const high = (value) => (value > 0 ? Math.max(1.5, (value / most) * 38) : 0);
    const low = high(yes);
    const top = high(no);
    if (low > 0) all += `M${index * 4} 40v${-low}h3v${low}z`;
    if (top > 0) denied += `M${index * 4} ${40 - low}v${-top}h3v${top}z`;
  });
  for (const [name, path] of [["all", all], ["no", denied]]) {
    const element = document.createElementNS(SVG, "path");
    element.setAttribute("class", name);
    element.setAttribute("d", path);
    svg.append(element);
  }
  return svg;
}
