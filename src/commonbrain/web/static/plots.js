// Draws the plots of a page from its JSON; without this file their tables show the numbers.
"use strict";

(() => {
  const HOUR_S = 3600;
  const DAY_S = 24 * HOUR_S;
  const HEIGHT = 220;
  const PERIODS_MIN = 24;
  const COLOURS = [
    "--part-words", "--part-freshness", "--part-links", "--part-meaning",
    "--part-trust", "--part-passage", "--fresh-week", "--dim",
  ];

  const { colour } = theme;
  const seconds = (text) => Date.parse(text) / 1000;

  // The times from the first row's to now, at least some of them, so that gaps can be seen.
  function timeline(rows, time, step) {
    if (!rows.length) return [];
    const last = Math.max(Math.floor(Date.now() / 1000 / step) * step, time(rows[rows.length - 1]));
    const first = Math.min(time(rows[0]), last - (PERIODS_MIN - 1) * step);
    return Array.from({ length: Math.round((last - first) / step) + 1 }, (_, at) => first + at * step);
  }

  function aligned(rows, time, step) {
    const times = timeline(rows, time, step);
    const byTime = new Map(rows.map((row) => [time(row), row]));
    return { times, step, at: (value, missing) => times.map((one) => byTime.has(one) ? value(byTime.get(one)) : missing) };
  }

  const ofDay = (rows) => aligned(rows, (row) => seconds(row.day), DAY_S);
  const share = (part, row) => row.recalls ? (100 * part) / row.recalls : null;

  const PLOTS = {
    calls: (trends) => {
      const { times, step, at } = aligned(trends.calls, (row) => seconds(row.at), HOUR_S);
      return { times, step, unit: " ms", lines: [["p50", at((row) => row.p50_ms, null)], ["p95", at((row) => row.p95_ms, null)]] };
    },
    recalls: (trends) => {
      const { times, step, at } = ofDay(trends.recalls);
      return {
        times,
        step,
        unit: "%",
        most: 100,
        lines: [["no answer", at((row) => share(row.unanswered, row), null)], ["helped", at((row) => share(row.helped, row), null)]],
      };
    },
    stored: (trends) => {
      const { times, step, at } = ofDay(trends.stored);
      const kinds = [...new Set(trends.stored.flatMap((row) => Object.keys(row.by_kind)))].sort();
      return { times, step, unit: "", stacks: kinds.map((kind) => [kind, at((row) => row.by_kind[kind] || 0, 0)]) };
    },
    tokens: (trends) => {
      const { times, step, at } = ofDay(trends.tokens);
      return { times, step, unit: "", stacks: [["tokens", at((row) => row.tokens, 0)]] };
    },
  };

  // Bars on top of each other: each series is drawn up to its own sum, the highest first.
  function stacked(stacks) {
    let below = null;
    const sums = stacks.map(([name, values]) => {
      below = values.map((value, at) => value + (below ? below[at] : 0));
      return { name, values, drawn: below };
    });
    return sums.reverse();
  }

  const DAYS = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  const HOURS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

  function axes(plot) {
    const shared = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const short = new Intl.NumberFormat("en", { notation: "compact" });
    const time = (at, step) => step < DAY_S && at % DAY_S ? HOURS.format(at * 1000) : DAYS.format(at * 1000);
    const steps = [1, 3, 6, 12].map((one) => one * HOUR_S).concat([1, 2, 5, 7, 14].map((one) => one * DAY_S));
    return [
      { ...shared, incrs: steps.filter((one) => one >= plot.step), values: (_, splits, __, ___, step) => splits.map((one) => time(one, step)) },
      { ...shared, size: 60, values: (_, splits) => splits.map((one) => `${short.format(one)}${plot.unit}`) },
    ];
  }

  function options(plot, width) {
    const shows = (values) => (_, __, ___, at) => at === null || values[at] === null ? "-" : `${values[at].toLocaleString("en", { maximumFractionDigits: 1 })}${plot.unit}`;
    const series = plot.stacks
      ? stacked(plot.stacks).map(({ name, values }, at, all) => {
          const tint = colour(COLOURS[(all.length - 1 - at) % COLOURS.length]);
          return { label: name, stroke: tint, fill: tint, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 40] }), value: shows(values) };
        })
      : plot.lines.map(([name, values], at) => {
          const tint = colour(COLOURS[at]);
          return { label: name, stroke: tint, width: 2, points: { size: 5, fill: tint }, value: shows(values) };
        });
    const pad = plot.stacks ? plot.step / 2 : 0; // the first and last bars are whole
    return {
      width,
      height: HEIGHT,
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      cursor: { points: { size: 6 } },
      scales: { x: { range: (_, first, last) => [first - pad, last + pad] }, y: { range: (_, __, most) => [0, plot.most || most * 1.1 || 1] } },
      axes: axes(plot),
      series: [{ label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}" }, ...series],
    };
  }

  function draw(box, plot) {
    const values = plot.stacks ? stacked(plot.stacks).map((one) => one.drawn) : plot.lines.map((one) => one[1]);
    box.replaceChildren();
    return new uPlot(options(plot, box.clientWidth), [plot.times, ...values], box);
  }

  function show(box, plot) {
    box.hidden = false;
    let drawn = draw(box, plot);
    new ResizeObserver(() => drawn.setSize({ width: box.clientWidth, height: HEIGHT })).observe(box);
    document.addEventListener("themechange", () => {
      drawn.destroy();
      drawn = draw(box, plot);
    });
    const numbers = box.parentElement.querySelector("details.numbers");
    if (numbers) numbers.open = false;
  }

  async function start() {
    const boxes = [...document.querySelectorAll("[data-plot]")];
    if (!boxes.length) return;
    const address = new URL(location.href);
    address.searchParams.set("format", "json");
    const response = await fetch(address);
    if (!response.ok) return;
    const { trends } = (await response.json()).status;
    for (const box of boxes) {
      const plot = PLOTS[box.dataset.plot](trends);
      if (plot.times.length) show(box, plot);
    }
    document.documentElement.dataset.plotted = "yes";
  }

  start();
})();
