import { byCodeUnits } from '../../src/mirror/store/manifest.ts';

/** One line of a scrape. */
export interface ScrapedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Family {
  readonly name: string;
  readonly help: string;
  type: string;
}

/** A scrape. */
export interface Scrape {
  readonly families: ReadonlyMap<string, Readonly<Family>>;
  readonly samples: readonly ScrapedSample[];
}

/** The suffixes of sample names, by the type of their family. */
const ENDINGS: ReadonlyMap<string, readonly string[]> = new Map([
  ['counter', ['']],
  ['gauge', ['']],
  ['histogram', ['_bucket', '_sum', '_count']],
  ['summary', ['', '_sum', '_count']],
]);
const NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"/y;
const VALUE = / ([+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN)$/y;
const ESCAPES: Readonly<Record<string, string>> = { '\\\\': '\\', '\\n': '\n', '\\"': '"' };

/**
 * Reads the text format of Prometheus, version 0.0.4, strictly: text that a scraper would refuse or misread is an error. Every sample belongs
 * to the family before it, and no series occurs twice.
 * @throws Error that names the line
 */
export function parseMetrics(text: string): Scrape {
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  if (!text.isWellFormed()) throw new Error('this cannot be written as UTF-8');
  const families = new Map<string, Family>();
  const samples: ScrapedSample[] = [];
  const series = new Set<string>();
  let current: Family | null = null;
  for (const line of text.split('\n').filter((each) => each !== '')) {
    if (line.startsWith('#')) {
      current = parseComment(line, families);
      continue;
    }
    const sample = parseSample(line);
    if (!endingsOf(current).some((ending) => sample.name === `${current?.name}${ending}`))
      throw new Error(`of no family: ${line}`);
    const labels = Object.entries(sample.labels).map((pair) => JSON.stringify(pair));
    const key = [sample.name, ...labels.sort(byCodeUnits)].join('\n');
    if (series.has(key)) throw new Error(`a series twice: ${line}`);
    series.add(key);
    samples.push(sample);
  }
  return { families, samples };
}

/** A family begins with its help, and its type follows. */
function parseComment(line: string, families: Map<string, Family>): Family {
  const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
  const known = families.get(name);
  if (keyword === 'HELP' && known === undefined) {
    const family = { name, help: rest, type: '' };
    families.set(name, family);
    return family;
  }
  if (keyword !== 'TYPE' || known?.type !== '' || !ENDINGS.has(rest)) throw new Error(`misplaced: ${line}`);
  known.type = rest;
  return known;
}

function endingsOf(family: Family | null): readonly string[] {
  return ENDINGS.get(family?.type ?? '') ?? [];
}

function parseSample(line: string): ScrapedSample {
  let at = 0;
  const take = (pattern: RegExp): RegExpExecArray => {
    pattern.lastIndex = at;
    const found = pattern.exec(line);
    if (found === null) throw new Error(`cannot be read from character ${at} on: ${JSON.stringify(line)}`);
    at = pattern.lastIndex;
    return found;
  };
  const [name] = take(NAME);
  const labels: Record<string, string> = {};
  if (line[at] === '{') {
    do {
      at += 1;
      const [, label = '', value = ''] = take(LABEL);
      if (Object.hasOwn(labels, label)) throw new Error(`a label twice: ${line}`);
      labels[label] = value.replaceAll(/\\[\\"n]/g, (escape) => ESCAPES[escape] ?? '');
    } while (line[at] === ',');
    take(/\}/y);
  }
  const [, value = ''] = take(VALUE);
  return { name, labels, value: Number(value.replace('Inf', 'Infinity')) };
}
