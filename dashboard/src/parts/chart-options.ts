import UPlot from 'uplot';

export interface ChartSeries {
  label: string;
  values: readonly number[];
  /** A colour of the theme, such as `--color-accent`. */
  colour: string;
}

interface ChartLook {
  series: readonly ChartSeries[];
  format: (value: number) => string;
  /** Seconds between two bars. */
  step: number;
  height: number;
  /** Colours are those of the page at the moment of drawing: whoever draws does so again when this changes. */
  theme: number;
}

/** How uPlot draws the bars in this element. */
export function chartOptions(
  target: HTMLElement,
  { series, format, step, height }: ChartLook,
  onHover: (index: number | undefined) => void,
): UPlot.Options {
  const style = getComputedStyle(target);
  const colour = (name: string) => resolve(target, style.getPropertyValue(name));
  const bars = UPlot.paths.bars?.({ size: [0.72, 40], align: 0 });
  const axis = {
    stroke: colour('--color-dim'),
    font: `11px ${style.fontFamily}`,
    ticks: { show: false },
    grid: { stroke: colour('--color-line'), width: 1 },
  };
  const drawn = series.map((each) => ({
    label: each.label,
    fill: colour(each.colour),
    stroke: colour(each.colour),
    width: 0,
    points: { show: false },
    ...(bars === undefined ? {} : { paths: bars }),
  }));
  return {
    width: target.clientWidth,
    height,
    // The last label is half outside of the bars.
    padding: [10, 14, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { range: (_chart, low, high) => [low - step / 2, high + step / 2] },
      y: { range: (_chart, _low, high) => [0, Math.max(high * 1.1, 1)] },
    },
    axes: [
      { ...axis, size: 30, grid: { show: false }, values: (_chart, ticks) => ticks.map((tick) => tickLabel(tick, step)) },
      // What is counted comes in whole numbers.
      { ...axis, size: 48, incrs: wholeSteps, values: (_chart, ticks) => ticks.map(format) },
    ],
    series: [{}, ...drawn.reverse()],
    hooks: { setCursor: [(chart) => onHover(chart.cursor.idx ?? undefined)] },
  };
}

/** Drawn from the tallest to the lowest: each bar shows what stands above the one in front of it. */
export function stack(times: readonly number[], series: readonly ChartSeries[]): UPlot.AlignedData {
  const sums: number[][] = [];
  for (const { values } of series) {
    const below = sums.at(-1);
    sums.push(values.map((value, index) => value + (below?.[index] ?? 0)));
  }
  return [[...times], ...sums.reverse()];
}

const wholeSteps = [1, 2, 5].flatMap((digit) => Array.from({ length: 13 }, (_, power) => digit * 10 ** power)).sort((a, b) => a - b);

function tickLabel(seconds: number, step: number): string {
  const date = new Date(seconds * 1000);
  return step >= 86_400
    ? date.toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
    : date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}

/** A canvas knows no light-dark(): the browser works it out on an element. */
function resolve(target: HTMLElement, colour: string): string {
  const probe = document.createElement('span');
  probe.className = 'painted';
  probe.style.color = colour;
  target.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
