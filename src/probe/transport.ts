import { statementsOf } from './statement.ts';
import type { Subject } from './subject.ts';
import { given, holds } from './verdict.ts';

const SECOND_MS = 1000;
const WORTH_SAYING_MS = 600_000;

type Head = Subject['asker']['answers'][number];

/** The received answers. */
function headsOf(subject: Subject): readonly Head[] {
  return subject.asker.answers.filter(({ status }) => status > 0);
}

function howOften(heads: readonly Head[], isSo: (head: Head) => boolean): string {
  const count = heads.filter(isSo).length;
  return count === 0 ? 'no' : `yes: ${count} times`;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

/** Statements about all answers together; try them last. */
export const TRANSPORT_STATEMENTS = statementsOf(
  { group: 'Transport', section: 'RFC 9110', kind: 'open' },
  {
    'transport.answers': {
      kind: 'optional',
      says: 'every request has an answer',
      check: (subject) => {
        const answer = `${headsOf(subject).length} of ${subject.asker.answers.length}`;
        holds(headsOf(subject).length === subject.asker.answers.length, answer);
        return answer;
      },
      meaning: 'the mirror repeats failed requests, four times',
    },
    'transport.time': {
      says: 'how long is the time to the first byte, median and longest?',
      check: (subject) => {
        const waitsMs = headsOf(subject).map(({ waitMs }) => waitMs);
        return `${Math.round(median(waitsMs))} ms, ${Math.round(Math.max(0, ...waitsMs))} ms`;
      },
      meaning: () => 'the mirror waits as long as service.timeout says',
    },
    'transport.retry_after': {
      says: 'was a pause asked for (Retry-After)?',
      check: (subject) => howOften(headsOf(subject), ({ headers }) => headers['retry-after'] !== undefined),
      meaning: (answer) => (answer === 'no' ? null : 'the mirror respects it'),
    },
    'transport.redirects': {
      says: 'was there a redirect?',
      check: (subject) =>
        howOften(headsOf(subject), ({ status }) => status >= 300 && status < 400 && status !== 304),
      meaning: (answer) =>
        answer === 'no' ? null : 'the mirror follows none to another origin: check service.baseUrl',
    },
    'transport.clock': {
      says: "how far is the service's clock from this machine's?",
      check: (subject) => {
        const skewsMs = headsOf(subject)
          .map(({ headers, atMs }) => Date.parse(headers['date'] ?? '') - atMs)
          .filter((skewMs) => !Number.isNaN(skewMs));
        given(skewsMs.length > 0, 'no Date header');
        const skewMs = median(skewsMs);
        const isNear = Math.abs(skewMs) < 2 * SECOND_MS;
        return isNear ? 'less than 2 s' : `${Math.round(skewMs / SECOND_MS)} s`;
      },
      meaning: (answer) => {
        const skewMs = Math.abs(Number.parseInt(answer, 10)) * SECOND_MS;
        return skewMs > WORTH_SAYING_MS ? 'the mirror will warn of it: set the clocks' : null;
      },
    },
  },
);
