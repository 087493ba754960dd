/** How the addresses of a list's pages go on: one number in the query that grows by the same step from page to page. */
export interface PageSteps {
  /** The address up to the number, and what follows it. */
  readonly before: string;
  readonly after: string;
  /** The number of the address last seen. */
  readonly last: number;
  readonly step: number;
}

const NUMBER = /^(?<name>[^=]*=)(?<digits>0|[1-9]\d{0,14})$/;

/**
 * Finds out from two addresses in a row how the next ones will look. Two that differ in anything but one parameter that is a
 * number and grows, such as an opaque cursor, teach nothing.
 */
export function learnSteps(one: URL, other: URL): PageSteps | null {
  if (withoutQuery(one) !== withoutQuery(other)) return null;
  const former = one.search.slice(1).split('&');
  const latter = other.search.slice(1).split('&');
  const [at, ...others] = latter.flatMap((piece, index) => (piece === former[index] ? [] : [index]));
  if (former.length !== latter.length || at === undefined || others.length > 0) return null;
  const from = NUMBER.exec(former[at] ?? '')?.groups;
  const to = NUMBER.exec(latter[at] ?? '')?.groups;
  if (from === undefined || to === undefined || from['name'] !== to['name']) return null;
  const last = Number(to['digits']);
  const step = last - Number(from['digits']);
  if (step <= 0) return null;
  return {
    before: `${withoutQuery(other)}?${[...latter.slice(0, at), to['name']].join('&')}`,
    after: ['', ...latter.slice(at + 1)].join('&'),
    last,
    step,
  };
}

/** The address so many pages after the one last seen. */
export function stepAhead({ before, after, last, step }: PageSteps, pages: number): URL {
  return new URL(`${before}${last + pages * step}${after}`);
}

function withoutQuery(url: URL): string {
  return `${url.origin}${url.pathname}`;
}
