/** One line of a scrape. */
export type ScrapedSample = ReturnType<typeof parseSample>;

/** A scrape. */
export type Scrape = ReturnType<typeof parseMetrics>;

const COMMENTS = /^# HELP (\S+) (.*)\n# TYPE \1 (\w+)$/gm;
const SAMPLE = /^([\w:]+)(?:\{([^]*)\})? ([+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"/g;
const ESCAPES: Readonly<Record<string, string>> = { '\\\\': '\\', '\\n': '\n', '\\"': '"' };

/**
 * Reads the text format of Prometheus, version 0.0.4, as far as the client library leaves it to us: a line is complete, numbers are spelled as
 * scrapers read them, and no family or series occurs twice.
 * @throws Error that names the line
 */
export function parseMetrics(text: string) {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  const families = [...text.matchAll(COMMENTS)].map(([, name = '', help = '', type = '']) => {
    return { name, help, type };
  });
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const series = [...families.map(({ name }) => name), ...lines.map((line) => line.replace(/ \S+$/, ' '))];
  const twice = series.find((each, index) => series.indexOf(each) !== index);
  if (twice !== undefined) throw new Error(`occurs twice: ${twice}`);
  return {
    families: new Map(families.map((family) => [family.name, family])),
    samples: lines.map(parseSample),
  };
}

function parseSample(line: string) {
  const [, name, given = '', value = ''] = SAMPLE.exec(line) ?? [];
  const labels = [...given.matchAll(LABEL)];
  if (name === undefined || labels.map(([label]) => label).join(',') !== given)
    throw new Error(`cannot be read: ${JSON.stringify(line)}`);
  const unescaped = labels.map(([, label = '', text = '']) => [
    label,
    text.replaceAll(/\\[\\"n]/g, (escape) => ESCAPES[escape] ?? ''),
  ]);
  return {
    name,
    labels: Object.fromEntries(unescaped) as Record<string, string>,
    value: Number(value.replace('Inf', 'Infinity')),
  };
}
