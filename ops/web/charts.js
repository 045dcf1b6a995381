import uPlot from "./vendor/uPlot.esm.js";

const HEIGHT = 128;
const SPAN_S = 600, LEAST_S = 60;
const charts = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Draw the charts whose places stand in the page: `{id, series: [{label, values}]}` over the times of the samples. */
export function draw(wanted, samples, format) {
  const times = samples.map(one => one.t / 1000);
  for (const one of wanted) {
    const place = document.getElementById(one.id);
    if (!place) continue;
    const labels = one.series.map(series => series.label).join("|");
    let chart = charts.get(one.id);
    if (chart && (chart.place !== place || chart.labels !== labels)) {
      chart.plot.destroy();
      chart = null;
    }
    if (!chart) {
      chart = { place, labels, plot: make(place, one, format) };
      charts.set(one.id, chart);
    }
    const width = place.clientWidth;
    if (width && chart.plot.width !== width) chart.plot.setSize({ width, height: HEIGHT });
    chart.plot.setData(withGaps(times, one.series.map(series => samples.map(series.value))));
  }
  for (const [id, chart] of charts) {
    if (!chart.place.isConnected) {
      chart.plot.destroy();
      charts.delete(id);
    }
  }
}

/** Where nobody watched nothing is known: the line is broken there. */
function withGaps(times, columns) {
  const data = [[], ...columns.map(() => [])];
  times.forEach((time, at) => {
    if (at && time - times[at - 1] > 5) {
      data[0].push(times[at - 1] + 1);
      columns.forEach((_, column) => data[column + 1].push(null));
    }
    data[0].push(time);
    columns.forEach((values, column) => data[column + 1].push(values[at] ?? null));
  });
  return data;
}

function make(place, one, format) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return new uPlot({
    width: place.clientWidth || 300,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: true, range: (_, low, high) => [Math.max(high - SPAN_S, Math.min(low, high - LEAST_S)), high] },
      y: { range: (_, __, high) => [0, Math.max(high ?? 0, one.least ?? 1) * 1.1] },
    },
    axes: [{ ...axis, size: 22, space: 70, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] }, { ...axis, size: 54, values: (_, ticks) => ticks.map(one.axis ?? format) }],
    series: [{}, ...one.series.map((series, at) => ({
      label: series.label, stroke: colour(`--series-${at % 6}`), width: 1.6, points: { show: false, size: 4, filter: alone }, spanGaps: false,
    }))],
  }, [[], ...one.series.map(() => [])], place);
}

/** The places of values without a neighbour: a line of one point would not be seen. */
function alone(plot, series) {
  const values = plot.data[series], known = at => values[at] !== null && values[at] !== undefined;
  return values.map((_, at) => at).filter(at => known(at) && !known(at - 1) && !known(at + 1));
}

/** Draw all anew in the colours of now. */
export function forget() {
  for (const chart of charts.values()) chart.plot.destroy();
  charts.clear();
}
