// Draws the graph of a memory from the page's own JSON; the list next to it says the same.
"use strict";

(() => {
  const NODES_MAX = 300;
  const place = document.getElementById("graph");
  const { colour } = theme;
  let graph = null;

  const short = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);

  function elements(view) {
    const nodes = view.nodes.map((one) => ({
      data: { id: one.id, label: short(one.headline), isCenter: one.id === view.center, past: one.state === "superseded" },
    }));
    const edges = view.edges.map((one) => ({
      data: { id: `${one.source} ${one.type} ${one.target}`, source: one.source, target: one.target, label: one.type.replaceAll("_", " ") },
    }));
    return [...nodes, ...edges];
  }

  function style() {
    const text = { "font-size": 12, "font-family": "system-ui, sans-serif", color: colour("--ink") };
    return [
      { selector: "node", style: { ...text, label: "data(label)", "text-wrap": "wrap", "text-max-width": 140, "text-valign": "bottom", "text-margin-y": 4, width: 18, height: 18, "background-color": colour("--part-passage") } },
      { selector: "node[?isCenter]", style: { "background-color": colour("--accent"), width: 26, height: 26, "font-weight": "bold" } },
      { selector: "node[?past]", style: { "background-color": colour("--fresh-old"), color: colour("--dim") } },
      { selector: "edge", style: { ...text, "font-size": 10, color: colour("--dim"), label: "data(label)", "text-rotation": "autorotate", "text-background-color": colour("--ground"), "text-background-opacity": 1, width: 1.5, "line-color": colour("--fresh-year"), "target-arrow-color": colour("--fresh-year"), "target-arrow-shape": "triangle", "curve-style": "bezier" } },
    ];
  }

  const lay = () => graph.layout({ name: "cose", animate: false, randomize: false, nodeDimensionsIncludeLabels: true, idealEdgeLength: () => 110, nodeRepulsion: () => 30000 }).run();

  async function load(url) {
    const response = await fetch(url, { headers: { Accept: "application/json" } });
    return response.ok ? response.json() : null;
  }

  async function expand(id) {
    const view = await load(`${encodeURIComponent(id)}?depth=1&format=json`);
    if (!view) return;
    const room = NODES_MAX - graph.nodes().length;
    const fresh = view.nodes.filter((one) => graph.getElementById(one.id).empty());
    if (!fresh.length || room <= 0) return;
    const known = new Set([...graph.nodes().map((one) => one.id()), ...fresh.slice(0, room).map((one) => one.id)]);
    const added = elements({ ...view, center: null, nodes: fresh.slice(0, room), edges: view.edges.filter((one) => known.has(one.source) && known.has(one.target)) });
    graph.add(added.filter((one) => graph.getElementById(one.data.id).empty()));
    lay();
  }

  async function start() {
    place.hidden = false;
    const view = await load(place.dataset.graph);
    if (!view) return;
    graph = cytoscape({ container: place, maxZoom: 1.6, elements: elements(view), style: style(), layout: { name: "preset" } });
    lay();
    graph.on("onetap", "node", (event) => expand(event.target.id()));
    graph.on("dbltap", "node", (event) => { location.href = `../memory/${encodeURIComponent(event.target.id())}`; });
    document.addEventListener("themechange", () => graph.style(style()));
    place.dataset.drawn = String(graph.nodes().length);
  }

  if (place) start();
})();
