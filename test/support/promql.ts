import type { Scrape } from './text-format.ts';

/** What a query asks for by name. */
interface Selector {
  readonly name: string;
  readonly matchers: readonly { readonly label: string; readonly values: readonly string[] }[];
  /** The function over time that it stands in; null for none. */
  readonly over: string | null;
}

/** The labels that Prometheus itself adds to what it scrapes, and those of the Prometheus Operator. */
const TARGET_LABELS: ReadonlySet<string> = new Set(['job', 'instance', 'namespace', 'pod', 'container']);

/** Functions over time that are for what only grows, and those for all else. */
const OF_COUNTERS: ReadonlySet<string> = new Set(['rate', 'irate', 'increase']);
const OF_GAUGES: ReadonlySet<string> = new Set([
  'changes',
  'delta',
  'deriv',
  'predict_linear',
  'avg_over_time',
  'max_over_time',
  'min_over_time',
]);

const WORDS: ReadonlySet<string> = new Set(['and', 'or', 'unless', 'bool', 'offset', 'inf', 'nan']);
const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;
const SELECTOR =
  /(?:\b([a-z_]+)\(\s*)?\b([a-zA-Z_:][\w:]*)\b(?!\s*\()(?:\{((?:[^}"]|"[^"]*")*)\})?(\[[^\]]*\])?/g;
const MATCHER = /([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g;

/** What a query asks for. Reads what our rules and panels are written in, not all of PromQL: whether it is valid promtool says. */
export function selectorsOf(query: string): Selector[] {
  const text = query.replaceAll(GROUPING, ' ');
  return [...text.matchAll(SELECTOR)].flatMap(([, before = null, name = '', matchers = '', range]) => {
    if (WORDS.has(name)) return [];
    const pairs = [...matchers.matchAll(MATCHER)].map(([, label = '', value = '']) => ({
      label,
      values: value.split('|'),
    }));
    return [{ name, matchers: pairs, over: range === undefined ? null : before }];
  });
}

/** The labels by which a query groups or matches. */
function groupingsOf(query: string): string[] {
  return [...query.matchAll(GROUPING)].flatMap(([, labels = '']) =>
    labels
      .split(',')
      .map((label) => label.trim())
      .filter((label) => label !== ''),
  );
}

/**
 * What in a query does not fit a scrape: metrics, labels and values that are not there, and functions that are not for their type.
 * @param known a scrape in which everything is there
 */
export function problemsOf(query: string, known: Scrape): string[] {
  const selectors = selectorsOf(query);
  const labels = new Set(selectors.flatMap(({ name }) => [...labelsOf(name, known).keys()]));
  const groupings = groupingsOf(query).filter((label) => !labels.has(label) && !TARGET_LABELS.has(label));
  return [
    ...selectors.flatMap((selector) => problemsOfSelector(selector, known)),
    ...groupings.map((label) => `no metric here has the label ${label}`),
  ];
}

function problemsOfSelector({ name, matchers, over }: Selector, known: Scrape): string[] {
  if (name === 'up') return [];
  const type = typeOf(name, known);
  if (type === null) return [`there is no metric ${name}`];
  const isCounted = type !== 'gauge';
  const wrongUse = over === null ? isCounted : isCounted ? !OF_COUNTERS.has(over) : !OF_GAUGES.has(over);
  const there = labelsOf(name, known);
  return [
    ...(wrongUse ? [`${over ?? 'a bare value'} is not for ${name}, a ${type}`] : []),
    ...matchers.flatMap(({ label, values }) => {
      if (TARGET_LABELS.has(label)) return [];
      const of = there.get(label);
      if (of === undefined) return [`${name} has no label ${label}`];
      // A number can be any, and a variable of a dashboard.
      const unknown = values.filter((value) => !/^[\d$]/.test(value) && !of.has(value));
      return unknown.map((value) => `${label} of ${name} is never ${value}`);
    }),
  ];
}

/** The type of the family that a series belongs to; null for a series that there is not. */
function typeOf(name: string, { families, samples }: Scrape): string | null {
  const family = families.get(name) ?? families.get(name.replace(/_(?:bucket|sum|count)$/, ''));
  if (family === undefined || !samples.some((sample) => sample.name === name)) return null;
  return family.type;
}

/** The labels of a metric, with the values that they have in a scrape. */
function labelsOf(name: string, { samples }: Scrape): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  for (const sample of samples.filter((each) => each.name === name)) {
    for (const [label, value] of Object.entries(sample.labels)) {
      const values = found.get(label) ?? new Set();
      found.set(label, values.add(value));
    }
  }
  return found;
}
