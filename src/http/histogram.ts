import type { Metric, Registry } from './prometheus.ts';

export interface HistogramOptions<Label extends string> {
  name: string;
  help: string;
  /** Upper bounds in seconds, ascending. */
  bounds: readonly number[];
  /** The name of its label and every value that it can have; nothing for a histogram without a label. */
  label?: { name: string; values: readonly Label[] };
  registry: Registry;
}

interface Series {
  labels: Record<string, string>;
  /** Per bucket, the last for what is above all bounds. */
  counts: Float64Array;
  sum: number;
}

/**
 * A histogram of durations for prom-client's registry. Its own one looks up the labels anew at each observation, which
 * takes half a microsecond; a query of SQLite takes ten, and a request makes several observations. Here the values of
 * the label are known from the start, so an observation is a few additions.
 */
export class Histogram<Label extends string = never> {
  readonly name: string;
  readonly #options: HistogramOptions<Label>;
  readonly #series: Map<string, Series>;

  constructor(options: HistogramOptions<Label>) {
    this.name = options.name;
    this.#options = options;
    const { label, bounds } = options;
    const counts = (): Float64Array => new Float64Array(bounds.length + 1);
    const labelled = label?.values.map((value) => [value, { [label.name]: value }] as const) ?? [['', {}] as const];
    this.#series = new Map(labelled.map(([value, labels]) => [value, { labels, counts: counts(), sum: 0 }]));
    options.registry.registerMetric(this as unknown as Metric);
  }

  /** What takes a duration in milliseconds for this value of the label. */
  of(value: [Label] extends [never] ? '' : Label): (milliseconds: number) => void {
    const series = this.#series.get(value);
    if (!series) throw new Error(`${this.name} does not know ${value}`);
    const { bounds } = this.#options;
    return (milliseconds) => {
      const seconds = Math.max(0, milliseconds / 1000); // clocks of several servers may be apart
      let at = 0;
      while (at < bounds.length && seconds > (bounds[at] as number)) at += 1;
      series.counts[at] = (series.counts[at] as number) + 1;
      series.sum += seconds;
    };
  }

  /** What the registry asks of a metric. */
  async get(): Promise<object> {
    const { name, help } = this.#options;
    return {
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: [...this.#series.values()].flatMap((one) => this.#samplesOf(one)),
    };
  }

  #samplesOf({ labels, counts, sum }: Series): object[] {
    const { name, bounds } = this.#options;
    let count = 0;
    const buckets = Array.from(counts, (number, at) => ({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: bounds[at] ?? '+Inf' },
      value: (count += number),
    }));
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}
