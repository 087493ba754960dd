import { statementsOf } from './statement.ts';
import type { Subject } from './subject.ts';
import { given, holds } from './verdict.ts';

type Head = Subject['asker']['answers'][number];

/** The received answers. */
function headsOf(subject: Subject): readonly Head[] {
  return subject.asker.answers.filter(({ status }) => status > 0);
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
        const [came, sent] = [headsOf(subject).length, subject.asker.answers.length];
        holds(came === sent, `${came} of ${sent}`);
        return `${came} of ${sent}`;
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
    'transport.redirects': {
      says: 'was there a redirect?',
      check: (subject) => {
        const isRedirect = ({ status }: Head): boolean => status >= 300 && status < 400 && status !== 304;
        const count = headsOf(subject).filter(isRedirect).length;
        return count === 0 ? 'no' : `yes: ${count} times`;
      },
      meaning: (answer) =>
        answer === 'no' ? null : 'the mirror follows none to another origin: check service.baseUrl',
    },
    'transport.clock': {
      says: "how far is the service's clock from this machine's?",
      check: (subject) => {
        const skews = headsOf(subject)
          .map(({ headers, atMs }) => (Date.parse(headers['date'] ?? '') - atMs) / 1000)
          .filter((skewS) => !Number.isNaN(skewS));
        given(skews.length > 0, 'no Date header');
        const skewS = median(skews);
        return Math.abs(skewS) < 2 ? 'less than 2 s' : `${Math.round(skewS)} s`;
      },
      meaning: (answer) => (/^-?\d/.test(answer) ? 'set both clocks by NTP' : null),
    },
  },
);
